//! HTTP/1.1 and 2 over TLS and TCP.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use hyper::{
    Request, Response, StatusCode, Version,
    body::{Body, Frame, Incoming, SizeHint},
    server::conn::http1::Builder,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::{Instant, Sleep, timeout, timeout_at},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::{debug, warn};

use super::{
    Limits, ServeOptions,
    certificate::Certificate,
    hosts::{Host, Hosts},
    http2,
    site::{Answer, BoxError, Site, SiteBody, text},
    wait,
};
use crate::{descriptors, peer, server::seats::Seat, target::canonical};

/// Connections that the kernel holds for us.
pub(super) const BACKLOG: u32 = 1_024;
/// HTTP/2, as TLS calls it.
const HTTP_2: &[u8] = b"h2";
/// What HTTP/1.1 may hold of a request.
const BUFFER: usize = 64 << 10;
/// For a client to hear the last answer of its connection while it still sends, by HTTP/2 each time that it
/// has sent something, and what it may send meanwhile.
const LINGER: Duration = Duration::from_secs(5);
const LINGER_BYTES: u64 = 16 << 20;
/// What it has to take of that answer meanwhile to have as long once more, in bytes: a frame's worth, as of all
/// answers by HTTP/2.
const LEAST: u32 = 16 << 10;

/// How TLS begins with a client.
pub(super) fn acceptor(certificate: &Arc<Certificate>) -> TlsAcceptor {
    TlsAcceptor::from(Arc::new(certificate.tls(&[HTTP_2, b"http/1.1", b"http/1.0"])))
}

/// A listener with its TLS.
pub(super) struct Tcp {
    listener: TcpListener,
    tls: watch::Receiver<TlsAcceptor>,
    limits: Limits,
    seats: Arc<Semaphore>,
    hosts: Arc<Hosts>,
}

/// What its host may have of all seats, and one of them: who waits for that finds the other given back.
type Seated = (Seat<Host>, OwnedSemaphorePermit);

impl Tcp {
    pub(super) fn new(
        listener: TcpListener,
        tls: watch::Receiver<TlsAcceptor>,
        options: &ServeOptions,
        hosts: Arc<Hosts>,
    ) -> Self {
        let seats = Arc::new(Semaphore::new(options.max_connections));
        Self { listener, tls, limits: options.limits.clone(), seats, hosts }
    }

    /// Serves until it is to stop, and then until the last request is answered.
    pub(super) async fn run(self, site: Arc<Site>, stopped: watch::Receiver<bool>) {
        let mut connections = JoinSet::new();
        let mut stop = pin!(wait(stopped.clone()));
        loop {
            let accepted = tokio::select! {
                accepted = self.accept() => accepted,
                _ = connections.join_next(), if !connections.is_empty() => continue,
                () = &mut stop => break,
            };
            let (tcp, from, seat) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Too many open files, or a connection gone before it was accepted.
                    warn!(%error, "cannot accept");
                    descriptors::tell_of_shortage(&error, "browsers' connections wait");
                    crate::backoff::pause(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (tls, limits, site) = (self.tls.borrow().clone(), self.limits.clone(), site.clone());
            let stopped = stopped.clone();
            connections.spawn(async move {
                let _seen = site.statistics().enter_by_tcp();
                serve(tcp, from, &tls, &limits, site.clone(), stopped).await;
                drop(seat);
            });
        }
        // Who comes now is refused, and a server that takes over has the port to itself.
        drop(self);
        while connections.join_next().await.is_some() {}
    }

    /// The next connection, once there is a seat for it. Those of a host that has its share end here.
    async fn accept(&self) -> std::io::Result<(TcpStream, SocketAddr, Seated)> {
        let seat = self.seats.clone().acquire_owned().await.expect("it is never closed");
        loop {
            let (tcp, from) = self.listener.accept().await?;
            let from = canonical(from);
            if let Some(of_host) = self.hosts.take(from) {
                return Ok((tcp, from, (of_host, seat)));
            }
        }
    }
}

async fn serve(
    tcp: TcpStream,
    from: SocketAddr,
    tls: &TlsAcceptor,
    limits: &Limits,
    site: Arc<Site>,
    stopped: watch::Receiver<bool>,
) {
    let _ = tcp.set_nodelay(true);
    // A client that is gone without a word leaves its seat, also when nothing is to be sent.
    let _ = SockRef::from(&tcp).set_tcp_keepalive(&TcpKeepalive::new().with_time(limits.send));
    // A client that takes nothing, or is gone, is given up by the kernel.
    #[cfg(target_os = "linux")]
    let _ = SockRef::from(&tcp).set_tcp_user_timeout(Some(limits.send));
    let tls = match timeout(limits.head, tls.accept(tcp)).await {
        Ok(Ok(tls)) => tls,
        Ok(Err(error)) => return debug!(%from, %error, "no TLS"),
        Err(_) => return debug!(%from, "the handshake of TLS takes too long"),
    };
    // What both have agreed on: a client that says nothing more is never waited for without a limit.
    let is_http2 = tls.get_ref().1.alpn_protocol() == Some(HTTP_2);
    let client = Client { site: site.clone(), from, patience: limits.body };
    let served = if is_http2 {
        let mut tls = tls;
        let served = http2::serve(&mut tls, |request| client.answer(request), limits, wait(stopped)).await;
        if served.is_ok() {
            // It says that it has room for more, for as long as it takes the last of what was asked for.
            linger(tls, limits.send).await;
        }
        served
    } else {
        let answer = |request| client.answer_http1(request, limits.fields);
        serve_http1(tls, answer, limits, wait(stopped)).await
    };
    if let Err(error) = served {
        debug!(%from, %error, "HTTP over TCP");
        if let Some((version, status)) = refusal(&error) {
            site.note_refusal(version, from, status);
        }
    }
}

/// What a connection ends with whose last request could not be read.
fn refusal(error: &BoxError) -> Option<(Version, StatusCode)> {
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        let status = match error.is_parse_too_large() {
            true => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            false => StatusCode::BAD_REQUEST,
        };
        return error.is_parse().then_some((Version::HTTP_11, status));
    }
    let ours =
        error.downcast_ref::<h2::Error>().is_some_and(|error| error.is_library() && error.is_go_away());
    ours.then_some((Version::HTTP_2, StatusCode::BAD_REQUEST))
}

/// A client, and the site for it.
struct Client {
    site: Arc<Site>,
    from: SocketAddr,
    /// For the client to send more of a request's body.
    patience: Duration,
}

impl Client {
    fn answer<B>(&self, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static,
    {
        self.site.answer(request.map(|body| Patient::new(body, self.patience)), self.from)
    }

    /// Looks at what HTTP/2 sees to by itself as well.
    fn answer_http1(&self, request: Request<Incoming>, fields: u32) -> Answer {
        if size_of_fields(&request) > u64::from(fields) {
            let words = "The fields of the request are too large.\n";
            return self.refuse(&request, text(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, words));
        }
        self.answer(request)
    }

    fn refuse(&self, request: &Request<Incoming>, refusal: Response<SiteBody>) -> Answer {
        self.site.refuse(request, self.from, refusal)
    }
}

/// Serves until the client has gone, or until it is to stop, and then until the last request is
/// answered and what is carried after it has ended.
async fn serve_http1(
    tls: TlsStream<TcpStream>,
    answer: impl Fn(Request<Incoming>) -> Answer,
    limits: &Limits,
    stop: impl Future<Output = ()>,
) -> Result<(), BoxError> {
    let upgraded = Upgraded::default();
    let uploads = AtomicBool::new(false);
    let service = service_fn(|mut request: Request<Incoming>| {
        uploads.store(!request.body().is_end_stream(), Relaxed);
        request.extensions_mut().insert(upgraded.clone());
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut connection = builder(limits).serve_connection(TokioIo::new(tls), service).with_upgrades();
    let served = tokio::select! {
        served = &mut connection => served,
        () = stop => {
            Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
    };
    // Where the last request has no body, or was broken off, there is nothing to wait for.
    let may_send = served.as_ref().map_or_else(hyper::Error::is_parse, |()| uploads.load(Relaxed));
    if let (true, Some(parts)) = (may_send, connection.into_parts()) {
        linger(parts.io.into_inner(), LINGER).await;
    }
    // It keeps its seat, and the server waits for it as for a request.
    if let Some(carrying) = upgraded.take() {
        carrying.await;
    }
    Ok(served?)
}

/// Ends a connection so that its client hears the last answer (RFC 9112 section 9.6): closing while the
/// rest of an upload comes, or anything else, would be a reset, at which many clients give up before they
/// read, and with which what is on its way to them is lost. Who says nothing and has all of it is not waited
/// for; who sends, or takes next to nothing of it, for so long at most.
async fn linger(mut tls: TlsStream<TcpStream>, longest: Duration) {
    if timeout(longest, tls.shutdown()).await.is_ok() {
        let (mut tcp, _) = tls.into_inner();
        let (rest, sent) = tcp.split();
        hear_out(rest.take(LINGER_BYTES), longest, || peer::unacknowledged(sent.as_ref())).await;
    }
}

/// Reads what still comes. Behind a slow network a client says nothing while it takes what is `under_way` to
/// it, for as long as it has room for that.
async fn hear_out(mut rest: impl AsyncRead + Unpin, longest: Duration, under_way: impl Fn() -> Option<u32>) {
    let mut some = vec![0_u8; 8 << 10];
    let (mut left, mut until) = (under_way().unwrap_or(0), Instant::now() + longest);
    loop {
        let heard = timeout_at(until.min(Instant::now() + LINGER), rest.read(&mut some)).await;
        match heard {
            Ok(Ok(1..)) if Instant::now() < until => continue,
            Ok(Ok(1..)) | Err(_) => {}
            Ok(Ok(0) | Err(_)) => return,
        }
        let still = under_way().unwrap_or(0);
        if still == 0 {
            return;
        }
        if left.saturating_sub(still) >= LEAST {
            (left, until) = (still, Instant::now() + longest);
        } else if Instant::now() >= until {
            return;
        }
    }
}

/// Where the end of a connection's last request leaves what is carried over the connection after
/// it.
#[derive(Clone, Default)]
pub(super) struct Upgraded(Arc<Mutex<Option<Carrying>>>);

/// Bytes on their way.
type Carrying = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Upgraded {
    /// Carries them once the response has been sent.
    pub(super) fn leave(&self, carrying: impl Future<Output = ()> + Send + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::pin(carrying));
    }

    fn take(&self) -> Option<Carrying> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The fields of a request as HTTP/2 and 3 count them (RFC 9113 section 6.5.2).
fn size_of_fields<B>(request: &Request<B>) -> u64 {
    let fields = request.headers().iter();
    fields.map(|(name, value)| (name.as_str().len() + value.len() + 32) as u64).sum()
}

/// Why the rest of a request's body will not come.
#[derive(Debug, thiserror::Error)]
#[error("nothing more of the request's body came")]
pub(super) struct Silent;

/// A request's body that is given up when nothing of it comes while it is waited for.
struct Patient<B> {
    body: B,
    patience: Duration,
    /// Runs while it is waited for.
    silence: Option<Pin<Box<Sleep>>>,
}

impl<B> Patient<B> {
    fn new(body: B, patience: Duration) -> Self {
        Self { body, patience, silence: None }
    }
}

impl<B> Body for Patient<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.silence = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let patience = this.patience;
        let silence =
            this.silence.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + patience)));
        ready!(silence.as_mut().poll(cx));
        Poll::Ready(Some(Err(Silent.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The limit for a request's fields begins when the request before is over: it ends idle
/// connections as well.
fn builder(limits: &Limits) -> Builder {
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.head).max_buf_size(BUFFER);
    builder
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use super::*;

    /// It has room for all of the rest, of which there may be megabytes, and says so when it has read them.
    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_waited_for_while_it_takes_what_was_said_last() {
        type UnderWay = fn(u32) -> Option<u32>;
        let cases: [(UnderWay, RangeInclusive<u64>); 5] = [
            (|second| Some(LEAST * 100_u32.saturating_sub(second / 10)), 1_000..=1_010),
            (|second| Some(LEAST * (100 - (second / 10).min(50))), 560..=570),
            // A byte a second.
            (|second| Some(LEAST * 100 - second), 60..=70),
            (|_| Some(0), 5..=5),
            // The system does not tell.
            (|_| None, 5..=5),
        ];
        for (under_way, expected) in cases {
            let (client, _silent) = tokio::io::duplex(1);
            let begin = Instant::now();
            let left = || under_way(begin.elapsed().as_secs() as u32);
            hear_out(client, Duration::from_secs(60), left).await;
            let took = begin.elapsed().as_secs();
            assert!(expected.contains(&took), "{took} s instead of {expected:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_something_again_and_again_is_heard_for_so_long_at_most() {
        let (client, mut talks) = tokio::io::duplex(1);
        let begin = Instant::now();
        let talking = async {
            loop {
                crate::backoff::pause(Duration::from_secs(1)).await;
                if talks.write_all(b"x").await.is_err() {
                    break;
                }
            }
        };
        tokio::select! {
            () = hear_out(client, Duration::from_secs(60), || Some(7)) => {}
            () = talking => {}
        }
        let took = begin.elapsed().as_secs();
        assert!((60..=61).contains(&took), "{took} s");
    }
}
