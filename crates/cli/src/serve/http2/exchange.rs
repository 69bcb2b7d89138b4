//! A request by HTTP/2 and its response.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream, server::SendResponse};
use hyper::{
    Request, Response,
    body::{Body, Frame},
    header::{CONTENT_LENGTH, HeaderValue},
};
use mendpath_h3::{Interim, Interims};

use super::taken::Patience;
use crate::serve::site::{Answer, BoxError, SiteBody};

/// Interim responses of a request that leave; of more the client hears nothing. Nobody tells whether one has left,
/// and for a client that reads nothing they would wait without a limit.
const MOST_INTERIMS: usize = 16;

/// A request's body.
pub(in crate::serve) struct Received(RecvStream);

impl Body for Received {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let stream = &mut self.0;
        if let Some(data) = ready!(stream.poll_data(cx)) {
            // Whoever asks for more has room for it.
            let room =
                data.and_then(|data| stream.flow_control().release_capacity(data.len()).map(|()| data));
            return Poll::Ready(Some(room.map(Frame::data)));
        }
        let trailers = ready!(stream.poll_trailers(cx))?;
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Answered,
    /// The client does not want the rest of the answer.
    Begun,
    /// The client does not want the answer, or does not take it.
    Unwanted,
}

/// Why a response is not whole.
enum Broken {
    /// The client does not want it, or has gone.
    Unwanted,
    /// The client takes nothing of it.
    NotTaken,
    /// What answers cannot give it.
    Site(BoxError),
}

impl From<h2::Error> for Broken {
    fn from(_: h2::Error) -> Self {
        Self::Unwanted
    }
}

/// A request that is being answered.
pub(super) struct Exchange {
    respond: SendResponse<Bytes>,
    interims: Interims,
    /// So many of those may leave yet.
    interims_left: usize,
    /// For the client to take something of the response.
    patience: Patience,
}

impl Exchange {
    /// The request as it is to be answered.
    pub(super) fn begin(
        request: Request<RecvStream>,
        respond: SendResponse<Bytes>,
        patience: Patience,
    ) -> (Request<Received>, Self) {
        let (interim, interims) = Interim::new();
        let mut request = request.map(Received);
        request.extensions_mut().insert(interim);
        (request, Self { respond, interims, interims_left: MOST_INTERIMS, patience })
    }

    /// Carries the answer to the client, for as long as it wants and takes it.
    pub(super) async fn carry(mut self, answer: Answer) -> Outcome {
        let Ok(response) = self.response(answer).await else { return Outcome::Unwanted };
        let (mut parts, body) = response.into_parts();
        let is_over = body.is_end_stream();
        if let (false, Some(length)) = (is_over, body.size_hint().exact()) {
            parts.headers.entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
        }
        let mut stream = match self.respond.send_response(Response::from_parts(parts, ()), is_over) {
            Ok(_) if is_over => return Outcome::Answered,
            Ok(stream) => stream,
            Err(_) => return Outcome::Unwanted,
        };
        let mut begun = false;
        match carry(&mut stream, body, &self.patience, &mut begun).await {
            Ok(()) => return Outcome::Answered,
            Err(Broken::Unwanted) if begun => return Outcome::Begun,
            Err(Broken::Unwanted) => {}
            Err(Broken::NotTaken) => stream.send_reset(Reason::CANCEL),
            Err(Broken::Site(error)) => {
                tracing::debug!(%error, "a response broke off");
                stream.send_reset(Reason::INTERNAL_ERROR);
                return Outcome::Answered;
            }
        }
        Outcome::Unwanted
    }

    /// The response, after what is said before it.
    async fn response(&mut self, mut answer: Answer) -> Result<Response<SiteBody>, Broken> {
        let response = loop {
            tokio::select! {
                biased;
                response = &mut answer => break response,
                said = self.interims.next() => self.say_before(said)?,
                _ = poll_fn(|cx| self.respond.poll_reset(cx)) => return Err(Broken::Unwanted),
            }
        };
        let last = self.interims.close();
        self.say_before(last)?;
        Ok(response)
    }

    fn say_before(&mut self, said: Vec<Response<()>>) -> Result<(), Broken> {
        for interim in said.into_iter().take(self.interims_left) {
            self.respond.send_informational(interim)?;
            self.interims_left -= 1;
        }
        Ok(())
    }
}

/// Carries a body; it has `begun` once there is some of it that the client has room for.
async fn carry(
    stream: &mut SendStream<Bytes>,
    mut body: SiteBody,
    patience: &Patience,
    begun: &mut bool,
) -> Result<(), Broken> {
    loop {
        // What is not made yet takes no memory while the client takes none of it.
        if body.size_hint().lower() > 0 {
            room(stream, 1, patience).await?;
        }
        let frame = tokio::select! {
            biased;
            frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)) => frame,
            _ = poll_fn(|cx| stream.poll_reset(cx)) => return Err(Broken::Unwanted),
        };
        let Some(frame) = frame.transpose().map_err(Broken::Site)? else {
            return Ok(stream.send_data(Bytes::new(), true)?);
        };
        let is_last = body.is_end_stream();
        match frame.into_data() {
            Ok(data) => {
                *begun = true;
                offer(stream, data, is_last, patience).await?;
                if is_last {
                    return Ok(());
                }
            }
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    return Ok(stream.send_trailers(trailers)?);
                }
            }
        }
    }
}

/// Sends `data` as the client has room for it.
async fn offer(
    stream: &mut SendStream<Bytes>,
    mut data: Bytes,
    is_last: bool,
    patience: &Patience,
) -> Result<(), Broken> {
    loop {
        let room = room(stream, data.len(), patience).await?;
        let piece = data.split_to(room);
        let is_sent = data.is_empty();
        stream.send_data(piece, is_last && is_sent)?;
        if is_sent {
            return Ok(());
        }
    }
}

/// How many of so many bytes the client has room for, once it has for one.
async fn room(stream: &mut SendStream<Bytes>, wanted: usize, patience: &Patience) -> Result<usize, Broken> {
    stream.reserve_capacity(wanted);
    loop {
        let room = stream.capacity().min(wanted);
        if room > 0 || wanted == 0 {
            return Ok(room);
        }
        let more = patience.wait(poll_fn(|cx| stream.poll_capacity(cx))).await;
        more.ok_or(Broken::NotTaken)?.ok_or(Broken::Unwanted)??;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::Relaxed},
        },
        time::Duration,
    };

    use http_body_util::Empty;
    use hyper::{HeaderMap, StatusCode, body::SizeHint};

    use super::*;
    use crate::{
        backoff::pause,
        serve::{
            Limits,
            http2::{UNSENT, serve},
            site::boxed,
        },
    };

    /// Four bytes, which are counted when they are made.
    struct Counted(Arc<AtomicUsize>);

    impl Body for Counted {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            let made = self.0.fetch_add(1, Relaxed) > 0;
            Poll::Ready((!made).then(|| Ok(Frame::data(Bytes::from_static(b"here")))))
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(4)
        }
    }

    /// Each piece of each response would be in memory for as long as its client likes.
    #[tokio::test]
    async fn nothing_of_a_response_is_made_before_the_client_has_room() {
        let made = Arc::<AtomicUsize>::default();
        let (client, server) = tokio::io::duplex(1 << 16);
        let body = made.clone();
        let answer =
            move |_| -> Answer { Box::pin(std::future::ready(Response::new(boxed(Counted(body.clone()))))) };
        tokio::spawn(async move { serve(server, answer, &Limits::default(), std::future::pending()).await });
        let handshake = h2::client::Builder::new().initial_window_size(0).handshake::<_, Bytes>(client);
        let (mut requests, mut connection) = handshake.await.unwrap();
        let mut pings = connection.ping_pong().unwrap();
        let (room, grant) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            tokio::select! {
                _ = &mut connection => return,
                _ = grant => connection.set_initial_window_size(1_000).unwrap(),
            }
            let _ = connection.await;
        });
        let request = Request::get("https://localhost/").body(()).unwrap();
        let (response, _) = requests.send_request(request, true).unwrap();
        let response = response.await.unwrap();
        assert_eq!(response.headers()[CONTENT_LENGTH], "4");
        // What was to be done after the fields has been done once this is answered.
        pings.ping(h2::Ping::opaque()).await.unwrap();
        assert_eq!(made.load(Relaxed), 0);
        room.send(()).unwrap();
        assert_eq!(response.into_body().data().await.unwrap().unwrap(), "here");
    }

    /// As of a server behind that hints without end. One that is not sent waits nowhere.
    #[tokio::test]
    async fn so_many_interim_responses_leave_and_no_more() {
        let (client, server) = tokio::io::duplex(1 << 16);
        let answer = |request: Request<Received>| -> Answer {
            let interim = request.extensions().get::<Interim>().expect("there is one").clone();
            Box::pin(async move {
                for _ in 0..4 * MOST_INTERIMS {
                    interim.send(StatusCode::EARLY_HINTS, HeaderMap::new());
                    tokio::task::yield_now().await;
                }
                Response::new(boxed(Empty::<Bytes>::new()))
            })
        };
        tokio::spawn(async move { serve(server, answer, &Limits::default(), std::future::pending()).await });
        let (mut requests, connection) = h2::client::handshake(client).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get("https://localhost/").body(()).unwrap();
        let (mut response, _) = requests.send_request(request, true).unwrap();
        let mut came = 0;
        while let Some(interim) = poll_fn(|cx| response.poll_informational(cx)).await {
            assert_eq!(interim.unwrap().status(), StatusCode::EARLY_HINTS);
            came += 1;
        }
        assert_eq!(came, MOST_INTERIMS);
        assert_eq!(response.await.unwrap().status(), StatusCode::OK);
    }

    /// Pieces without end, whose bytes are counted when they are made.
    struct Endless(Arc<AtomicUsize>);

    impl Body for Endless {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            const PIECE: &[u8] = &[7; 1_000];
            self.0.fetch_add(PIECE.len(), Relaxed);
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(PIECE)))))
        }
    }

    /// Windows cost nothing: who allows a gigabyte and reads none of it would have much of each response
    /// held in memory, of 128 at a time.
    #[tokio::test(start_paused = true)]
    async fn little_of_a_response_is_made_that_the_client_has_room_for_and_does_not_read() {
        let made = Arc::<AtomicUsize>::default();
        let (client, server) = tokio::io::duplex(1 << 10);
        let body = made.clone();
        let answer =
            move |_| -> Answer { Box::pin(std::future::ready(Response::new(boxed(Endless(body.clone()))))) };
        tokio::spawn(async move { serve(server, answer, &Limits::default(), std::future::pending()).await });
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(1 << 30).initial_connection_window_size(1 << 30);
        let (mut requests, mut connection) = builder.handshake::<_, Bytes>(client).await.unwrap();
        let request = Request::get("https://localhost/").body(()).unwrap();
        let (response, _) = requests.send_request(request, true).unwrap();
        // From then on nobody reads.
        let _unread = tokio::select! {
            response = response => response.unwrap(),
            _ = &mut connection => panic!("it is closed"),
        };
        pause(Duration::from_secs(1)).await;
        let made = made.load(Relaxed);
        // A frame of the longest size is on its way besides.
        assert!((UNSENT..UNSENT + (32 << 10)).contains(&made), "{made} bytes");
    }
}
