//! A response, from calling the service to its last byte.

use std::{
    error::Error,
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf, Bytes};
use h3::{error::StreamError, server::RequestStream};
use http::{HeaderMap, Request, Response, StatusCode, response::Parts};
use http_body::Frame;
use tokio::sync::oneshot;
use tower_service::Service;

use crate::{
    Body, Interim, SendStream,
    malformed::OF_CONNECTIONS,
    patience::{while_taken, within},
    response::Beside,
};

/// The longest piece of a response that is handed to the transport at a time, in bytes.
const PIECE: usize = 64 << 10;

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// Where a response goes.
pub(super) type Sending = RequestStream<SendStream<Bytes>, Bytes>;

/// What a response needs to leave.
pub(super) struct Reply<'a> {
    pub(super) send: &'a mut Sending,
    pub(super) beside: &'a Beside,
    /// The request was for the fields alone.
    pub(super) bodiless: bool,
    /// The service may say something before it.
    pub(super) has_interims: bool,
    /// For how long the client may take none of it.
    pub(super) patience: Duration,
}

/// Why a response is not whole.
pub(super) enum Broken {
    /// The client does not want it.
    Client,
    /// The client takes nothing of it.
    NotTaken,
    /// The request turned out to be none.
    Malformed,
    /// The service cannot give it.
    Service(BoxError),
}

impl From<StreamError> for Broken {
    fn from(_: StreamError) -> Self {
        Self::Client
    }
}

impl Reply<'_> {
    /// Calls the service and hands over its response, unless the request's body turns out to be `malformed`,
    /// where it may.
    pub(super) async fn give<S, B>(
        &mut self,
        service: &mut S,
        request: &mut Option<Request<Body>>,
        malformed: Option<oneshot::Receiver<()>>,
    ) -> Result<(), Broken>
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>>,
        B: http_body::Body<Error: Into<BoxError>>,
    {
        let mut handed_over = pin!(self.hand_over(service, request));
        let Some(malformed) = malformed else { return handed_over.await };
        tokio::select! {
            biased;
            Ok(()) = malformed => Err(Broken::Malformed),
            handed_over = &mut handed_over => handed_over,
        }
    }

    async fn hand_over<S, B>(
        &mut self,
        service: &mut S,
        request: &mut Option<Request<Body>>,
    ) -> Result<(), Broken>
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>>,
        B: http_body::Body<Error: Into<BoxError>>,
    {
        let (parts, body) = self.call(service, request).await?;
        // What has no body is at its end before it begins.
        let body = pin!(body.filter(|_| !self.bodiless));
        // What is there of it leaves together with the fields, which do not wait for more.
        let mut body = Peeked::new(body).await;
        if let Some(response) = self.beside.encode_fields(parts, body.begins_with_data()) {
            taken(pin!(self.send.send_response(response)), self.beside, self.patience).await?;
        }
        if let Some(mut trailers) = self.send_data(&mut body).await? {
            OF_CONNECTIONS.iter().for_each(|name| _ = trailers.remove(name));
            taken(pin!(self.send.send_trailers(trailers)), self.beside, self.patience).await?;
        }
        taken(pin!(self.send.finish()), self.beside, self.patience).await
    }

    /// Calls the service, and says meanwhile what goes before its response. `request` is taken from where it is:
    /// what a future is given by value it holds twice.
    async fn call<S, B>(
        &mut self,
        service: &mut S,
        request: &mut Option<Request<Body>>,
    ) -> Result<(Parts, Option<B>), Broken>
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>>,
    {
        let (interim, interims) = self.has_interims.then(Interim::new).unzip();
        let mut called = pin!(async {
            poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
            let mut request = request.take().expect("nobody has taken it");
            if let Some(interim) = interim {
                request.extensions_mut().insert(interim);
            }
            service.call(request).await.map_err(Into::<BoxError>::into)
        });
        let Some(mut interims) = interims else { return Ok(answered(called.await)) };
        let called = loop {
            tokio::select! {
                biased;
                called = &mut called => break called,
                said = interims.next() => self.say_before(said).await?,
            }
        };
        // What was said before the response goes before it.
        self.say_before(interims.close()).await?;
        Ok(answered(called))
    }

    /// Sends interim responses, but for those that are larger than the client takes (RFC 9114 section 4.2.2): it
    /// may do without any, and is still to get the response.
    async fn say_before(&mut self, said: Vec<Response<()>>) -> Result<(), Broken> {
        for mut interim in said {
            OF_CONNECTIONS.iter().for_each(|name| _ = interim.headers_mut().remove(name));
            match within(self.patience, pin!(self.send.send_response(interim))).await {
                Ok(Ok(()) | Err(StreamError::HeaderTooBig { .. })) => {}
                Ok(Err(_)) => return Err(Broken::Client),
                Err(_) => return Err(Broken::NotTaken),
            }
        }
        Ok(())
    }

    /// Sends the data of a body; returns its trailers.
    async fn send_data<B>(&mut self, body: &mut Peeked<'_, B>) -> Result<Option<HeaderMap>, Broken>
    where
        B: http_body::Body<Error: Into<BoxError>>,
    {
        while let Some(frame) = poll_fn(|cx| body.poll_next(cx)).await {
            match frame.map_err(Broken::Service)?.into_data() {
                Ok(mut data) => {
                    self.beside.begins();
                    while data.has_remaining() {
                        let piece = data.copy_to_bytes(data.remaining().min(PIECE));
                        taken(pin!(self.send.send_data(piece)), self.beside, self.patience).await?;
                    }
                }
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        return Ok(Some(trailers));
                    }
                }
            }
        }
        Ok(None)
    }
}

/// Waits until the transport has taken a part of a response, for as long as the client takes some of it.
async fn taken<F>(part: Pin<&mut F>, beside: &Beside, patience: Duration) -> Result<(), Broken>
where
    F: Future<Output = Result<(), StreamError>>,
{
    let sent = while_taken(part, || beside.progress(), patience).await;
    Ok(sent.ok_or(Broken::NotTaken)??)
}

/// What a service has answered; 500 where it fails.
fn answered<B>(called: Result<Response<B>, BoxError>) -> (Parts, Option<B>) {
    match called {
        Ok(response) => {
            let (parts, body) = response.into_parts();
            (parts, Some(body))
        }
        Err(error) => {
            tracing::debug!(%error, "the service fails");
            let (mut parts, ()) = Response::new(()).into_parts();
            parts.status = StatusCode::INTERNAL_SERVER_ERROR;
            (parts, None)
        }
    }
}

/// A body whose first frame is looked at before any leaves.
struct Peeked<'a, B: http_body::Body> {
    body: Pin<&'a mut Option<B>>,
    /// What the look has found, until it is taken.
    first: Poll<Option<Result<Frame<B::Data>, BoxError>>>,
}

impl<'a, B> Peeked<'a, B>
where
    B: http_body::Body<Error: Into<BoxError>>,
{
    /// Looks, and does not wait.
    async fn new(mut body: Pin<&'a mut Option<B>>) -> Self {
        let first = poll_fn(|cx| Poll::Ready(poll_body(body.as_mut(), cx))).await;
        Self { body, first }
    }

    /// Whether there are data already.
    fn begins_with_data(&self) -> bool {
        matches!(&self.first, Poll::Ready(Some(Ok(frame))) if frame.data_ref().is_some_and(Buf::has_remaining))
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        match std::mem::replace(&mut self.first, Poll::Pending) {
            Poll::Pending => poll_body(self.body.as_mut(), cx),
            first => first,
        }
    }
}

/// The next frame of a body, if there is one.
fn poll_body<B>(
    body: Pin<&mut Option<B>>,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<B::Data>, BoxError>>>
where
    B: http_body::Body<Error: Into<BoxError>>,
{
    body.as_pin_mut().map_or(Poll::Ready(None), |body| body.poll_frame(cx)).map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, convert::Infallible, task::Waker};

    use super::*;

    /// These frames; once nothing where there is none.
    struct Frames(VecDeque<Option<Frame<Bytes>>>);

    impl http_body::Body for Frames {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.0.pop_front() {
                Some(Some(frame)) => Poll::Ready(Some(Ok(frame))),
                Some(None) => Poll::Pending,
                None => Poll::Ready(None),
            }
        }
    }

    fn length(frame: &Frame<Bytes>) -> Option<usize> {
        frame.data_ref().map(Bytes::len)
    }

    #[tokio::test]
    async fn what_was_looked_at_comes_first_and_once() {
        let data = |bytes: &'static [u8]| Some(Frame::data(Bytes::from_static(bytes)));
        for (frames, begins_with_data) in [
            (vec![data(b"there"), data(b"later")], true),
            (vec![data(b""), data(b"later")], false),
            (vec![None, data(b"later")], false),
            (vec![Some(Frame::trailers(HeaderMap::new()))], false),
            (vec![], false),
        ] {
            let expected: Vec<_> = frames.iter().flatten().map(length).collect();
            let body = pin!(Some(Frames(frames.into())));
            let mut peeked = Peeked::new(body).await;
            assert_eq!(peeked.begins_with_data(), begins_with_data, "{expected:?}");
            let (mut cx, mut came) = (Context::from_waker(Waker::noop()), Vec::new());
            loop {
                match peeked.poll_next(&mut cx) {
                    Poll::Ready(Some(frame)) => came.push(length(&frame.unwrap())),
                    Poll::Ready(None) => break,
                    Poll::Pending => {}
                }
            }
            assert_eq!(came, expected);
        }
    }

    #[test]
    fn a_service_that_fails_is_answered_for_with_500() {
        let (parts, body) = answered::<Frames>(Err("it fails".into()));
        assert_eq!((parts.status, body.is_none()), (StatusCode::INTERNAL_SERVER_ERROR, true));
    }
}
