//! HTTP/2 over a connection, with a limit for each way to hold it and do nothing. It is the crate
//! `h2`'s and not hyper's, which has no early hints.

mod exchange;
mod taken;

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use h2::{Ping, PingPong, Reason, server::Builder};
use hyper::Request;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::{JoinError, JoinSet},
    time::{Instant, sleep_until, timeout},
};

pub(super) use self::exchange::Received;
use self::{
    exchange::{Exchange, Outcome},
    taken::{Counted, Patience, Taken},
};
use super::{
    Limits, MAX_REQUESTS,
    site::{Answer, BoxError},
};

/// What may come of a request's body before somebody reads it, in bytes.
const WINDOW: u32 = 1 << 20;
/// The same of all together: one that nobody reads must not stand in the way of the others (RFC 9113 section
/// 5.2.2).
const WINDOW_OF_ALL: u32 = 2 * WINDOW;
/// What may wait to leave of a response for which there is room, since its client does not read what the
/// connection has for it already, in bytes. The crate's own measure is 400 kB.
const UNSENT: usize = 64 << 10;
/// Requests that the client may have given up above those that were answered, as by HTTP/3. Those whose answer
/// panics are among them. Those of whose answer's body some was there already are not.
const MAX_GIVEN_UP: u32 = 256;

/// Serves until the client has gone or may stay no longer, or until it is to stop, and then until
/// the last request is answered.
pub(super) async fn serve<T>(
    io: T,
    answer: impl Fn(Request<Received>) -> Answer,
    limits: &Limits,
    stop: impl Future<Output = ()>,
) -> Result<(), BoxError>
where
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    let taken = Taken::default();
    let io = Counted { io, taken: taken.clone() };
    let patience = Patience { time: limits.send, taken: taken.clone() };
    let mut connection = timeout(limits.head, builder(limits).handshake(io)).await??;
    let requests = Requests::new();
    let pings = connection.ping_pong().expect("nobody else has them");
    let mut gone = pin!(gone(pings, &requests, &taken, limits));
    let mut stop = pin!(stop);
    let mut exchanges = JoinSet::new();
    let (mut ending, mut given_up) = (false, 0_u32);
    let (mut longer, mut before) = (Duration::ZERO, 0);
    loop {
        tokio::select! {
            accepted = connection.accept() => {
                let Some(accepted) = accepted else { return Ok(()) };
                let (request, respond) = accepted?;
                let (request, exchange) = Exchange::begin(request, respond, patience.clone());
                exchanges.spawn(carry(exchange, answer(request), requests.begin()));
            }
            Some(outcome) = exchanges.join_next() => {
                given_up = given_up_after(outcome, given_up);
                if given_up > MAX_GIVEN_UP {
                    connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                }
            }
            error = &mut gone => return Err(error),
            () = &mut stop, if !ending => {
                connection.graceful_shutdown();
                ending = true;
            }
            () = requests.quiet_for(limits.idle + longer) => {
                let goes_on = taken.goes_on(&mut before);
                // What is left of the last responses is waited for as long as it is taken.
                if ending && !goes_on {
                    return Err("it is not used".into());
                }
                if !ending {
                    connection.graceful_shutdown();
                    ending = true;
                }
                longer += limits.send;
            }
        }
    }
}

fn builder(limits: &Limits) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(MAX_REQUESTS)
        .max_header_list_size(limits.fields)
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW_OF_ALL)
        .max_send_buffer_size(UNSENT);
    builder
}

/// Answers a request, which is under way until then.
async fn carry(exchange: Exchange, answer: Answer, under_way: UnderWay) -> Outcome {
    let outcome = exchange.carry(answer).await;
    drop(under_way);
    outcome
}

/// Requests that were given up above those that were answered, after one more outcome. One that has none,
/// because something panics, was given up.
fn given_up_after(outcome: Result<Outcome, JoinError>, before: u32) -> u32 {
    match outcome {
        Ok(Outcome::Unwanted) | Err(_) => before + 1,
        Ok(Outcome::Begun) => before,
        Ok(Outcome::Answered) => before.saturating_sub(1),
    }
}

/// Resolves once a client with a request under way does not answer, and takes nothing meanwhile: the
/// question may wait behind much of a response, which a slow network has for minutes.
async fn gone(mut pings: PingPong, requests: &Requests, taken: &Taken, limits: &Limits) -> BoxError {
    loop {
        sleep_until(Instant::now() + limits.body).await;
        if requests.quiet_since().is_some() {
            continue;
        }
        let (mut answer, mut before) = (pin!(pings.ping(Ping::opaque())), taken.bytes());
        loop {
            match timeout(limits.send, answer.as_mut()).await {
                Ok(Ok(_)) => break,
                Ok(Err(error)) => return error.into(),
                Err(_) if taken.goes_on(&mut before) => {}
                Err(_) => return "it does not answer".into(),
            }
        }
    }
}

/// The requests of a connection.
#[derive(Clone)]
struct Requests(Arc<Mutex<Books>>);

struct Books {
    under_way: usize,
    /// When the last one was over.
    over: Instant,
}

impl Requests {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Books { under_way: 0, over: Instant::now() })))
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> UnderWay {
        self.books().under_way += 1;
        UnderWay(self.clone())
    }

    /// Since when there is no request; `None` while there is one.
    fn quiet_since(&self) -> Option<Instant> {
        let books = self.books();
        (books.under_way == 0).then_some(books.over)
    }

    /// Resolves once there was no request for this long.
    async fn quiet_for(&self, time: Duration) {
        loop {
            let now = Instant::now();
            let until = self.quiet_since().unwrap_or(now) + time;
            if until <= now {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// A request, until this is dropped.
struct UnderWay(Requests);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut books = self.0.books();
        books.under_way -= 1;
        books.over = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::{BodyExt as _, Full};
    use hyper::{Response, StatusCode};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex, split};

    use super::*;
    use crate::{
        backoff::pause,
        serve::site::{boxed, text},
    };

    /// A client behind a network of a kilobyte a second, which holds so much of what is on its way, asks for
    /// so many responses at a time and gets all of each.
    async fn visit(held: usize, responses: usize, length: usize) {
        let ((client, outer), (inner, server)) = (duplex(1 << 10), duplex(held));
        let (mut from_client, mut to_client) = split(outer);
        let (mut from_server, mut to_server) = split(inner);
        tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
        tokio::spawn(async move {
            let mut some = [0; 1_000];
            while let Ok(length @ 1..) = from_server.read(&mut some).await {
                pause(Duration::from_secs(1)).await;
                if to_client.write_all(&some[..length]).await.is_err() {
                    break;
                }
            }
        });
        let answer = move |_: Request<Received>| -> Answer {
            Box::pin(std::future::ready(Response::new(boxed(Full::new(Bytes::from(vec![7; length]))))))
        };
        tokio::spawn(async move { serve(server, answer, &Limits::default(), std::future::pending()).await });
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(1 << 21).initial_connection_window_size(1 << 21);
        let (mut requests, connection) = builder.handshake::<_, Bytes>(client).await.unwrap();
        tokio::spawn(connection);
        let asked: Vec<_> = (0..responses)
            .map(|_| {
                let request = Request::get("https://localhost/").body(()).unwrap();
                requests.send_request(request, true).unwrap().0
            })
            .collect();
        for response in asked {
            let mut body = response.await.unwrap().into_body();
            let mut received = 0;
            while let Some(data) = body.data().await {
                received += data.unwrap().len();
            }
            assert_eq!(received, length);
        }
    }

    /// Behind a megabyte of the response a PING is not answered for long.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_what_comes_slowly_is_there() {
        visit(1 << 20, 1, 1_500_000).await;
    }

    /// The turn of each comes every two minutes.
    #[tokio::test(start_paused = true)]
    async fn responses_that_wait_for_their_turn_are_not_given_up() {
        visit(64 << 10, 8, 200_000).await;
    }

    /// As by HTTP/3: whoever finds what an answer does not expect has no endless supply of it.
    #[tokio::test]
    async fn an_answer_makes_up_for_one_that_was_given_up_and_one_that_panics_does_not() {
        async fn panics() -> Outcome {
            panic!("as asked for")
        }
        let panicked = tokio::spawn(panics()).await;
        for (outcome, after) in
            [(Ok(Outcome::Answered), 0), (Ok(Outcome::Begun), 1), (Ok(Outcome::Unwanted), 2), (panicked, 2)]
        {
            assert_eq!(given_up_after(outcome, 1), after);
        }
    }

    /// The server behind takes its time with one, as for a large file, and waits for the other.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_nobody_reads_stands_in_no_others_way() {
        let (client, server) = tokio::io::duplex(1 << 16);
        let answer = |request: Request<Received>| -> Answer {
            Box::pin(async move {
                if request.uri().path() == "/slow" {
                    std::future::pending::<()>().await;
                }
                let body = request.into_body().collect().await.unwrap().to_bytes();
                assert_eq!(body, "few");
                text(StatusCode::OK, "here")
            })
        };
        tokio::spawn(async move { serve(server, answer, &Limits::default(), std::future::pending()).await });
        let (mut requests, connection) = h2::client::handshake(client).await.unwrap();
        tokio::spawn(connection);
        let mut ask = |path: &str, body: Bytes| {
            let request = Request::post(format!("https://localhost/{path}")).body(()).unwrap();
            let (response, mut sending) = requests.send_request(request, false).unwrap();
            // It waits for room by itself.
            sending.send_data(body, true).unwrap();
            response
        };
        let _under_way = ask("slow", Bytes::from(vec![0; 3 << 20]));
        // As much of it has come as may.
        pause(Duration::from_secs(1)).await;
        let answered = timeout(Duration::from_secs(1), ask("quick", Bytes::from_static(b"few"))).await;
        assert_eq!(answered.expect("there is room for it").unwrap().status(), StatusCode::OK);
    }
}
