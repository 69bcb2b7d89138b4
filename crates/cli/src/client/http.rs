//! The HTTP front end (RFC 9110, RFC 9112): CONNECT, and plain `http://` requests, each of which
//! goes to its own origin server.
//!
//! hyper reads and writes the messages on both sides. Ours is what stands between: what is
//! [refused](guard), where a request [goes](origin), and [which fields](fields) are for the proxy
//! alone. Nothing of one request reaches another's origin server.

mod body;
mod chunks;
mod forward;
#[cfg(feature = "fuzzing")]
mod fuzzing;
mod guard;
mod head;
mod origin;
mod visit;
mod watched;

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    ext::ReasonPhrase,
    header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, PROXY_AUTHENTICATE},
    server::conn::http1,
    service::service_fn,
    upgrade::OnUpgrade,
};
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, MissedTickBehavior, interval, sleep_until, timeout},
};
use tracing::debug;

#[cfg(feature = "fuzzing")]
pub(super) use self::fuzzing::understand;

use self::{
    body::Download,
    guard::Guard,
    head::{Head, MAX_FIELDS, MAX_HEAD, Wanted},
    origin::{OriginIo, Origins},
    visit::{Turn, Visit},
    watched::{Watched, gone},
};
use super::{Credentials, IDLE_TIMEOUT, Shared, tunnel};
use crate::{
    listener::Place,
    protocol::Reply,
    splice::{LINGER, linger, reset},
    status::{Protocol, Timed},
    target::Target,
};

/// How often it is looked whether anything moves.
const TICK: Duration = Duration::from_secs(30);
/// Without traffic, until a connection is closed whose program has ended its direction, and may be
/// gone.
const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(60);

type Answer = Response<Download>;
type ProgramIo = TokioIo<Guard<Watched>>;

/// Serves one connection to the proxy.
pub(crate) async fn serve(tcp: TcpStream, place: Place, shared: Arc<Shared>) {
    // Until an answer is known to be complete: HTTP/1.0 takes every plain end for that, also that
    // of a killed process.
    let _ = SockRef::from(&tcp).set_linger(Some(Duration::ZERO));
    let visit = Visit::new(Some(place));
    let proxy = Arc::new(Proxy::new(shared, visit.clone()));
    let service = {
        let proxy = proxy.clone();
        service_fn(move |request| {
            let proxy = proxy.clone();
            async move { Ok::<_, Infallible>(proxy.answer(request).await) }
        })
    };
    let tcp = Arc::new(tcp);
    let guard = TokioIo::new(Guard::new(Watched::new(&tcp), visit.clone()));
    let mut connection = builder().serve_connection(guard, service).with_upgrades();
    let mut must_go = false;
    let ended = loop {
        tokio::select! {
            // A request that has come by now may have a seat, and is answered then.
            biased;
            ended = &mut connection => break ended.map_err(|error| error.to_string()),
            () = silence(&visit) => break Err("nothing moved for too long".to_owned()),
            () = gone(&tcp, &visit) => break Err("the program is gone".to_owned()),
            () = rest(&visit), if must_go => break Err("another needs its place".to_owned()),
            () = visit.sent_away(), if !must_go => {
                // As one ends that has waited for too long.
                std::pin::Pin::new(&mut connection).graceful_shutdown();
                must_go = true;
            }
        }
    };
    drop(tcp);
    let tcp = |io: ProgramIo| io.into_inner().into_parts().0.into_inner();
    match (ended, connection.into_parts()) {
        (Ok(()), Some(parts)) => {
            if let Some(tcp) = tcp(parts.io) {
                linger(tcp).await;
            }
        }
        (Ok(()), None) => proxy.go_on().await,
        (Err(error), parts) => {
            debug!(error, "HTTP connection failed");
            // What was sent of an answer must not look like all of it.
            if let Some(tcp) = parts.and_then(|parts| tcp(parts.io)) {
                reset(tcp);
            }
        }
    }
}

fn builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    // Time limits are the guard's.
    builder
        .preserve_header_case(true)
        .title_case_headers(true)
        .header_read_timeout(None)
        .max_headers(MAX_FIELDS)
        .max_header_size(MAX_HEAD)
        .max_buf_size(2 * MAX_HEAD);
    builder
}

/// Returns once nothing has moved for too long.
async fn silence(visit: &Visit) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut seen, mut still) = (visit.moved(), Duration::ZERO);
    loop {
        ticks.tick().await;
        let moved = visit.moved();
        still = if moved == seen { still + TICK } else { Duration::ZERO };
        seen = moved;
        if still > if visit.has_ended() { HALF_CLOSED_TIMEOUT } else { IDLE_TIMEOUT } {
            return;
        }
    }
}

/// Returns once nothing has been answered for a while, in which what is left of the last answer can leave. What
/// waits for a seat is not waited for: all are taken, and it holds a descriptor that another needs.
async fn rest(visit: &Visit) {
    let mut until = Instant::now() + LINGER;
    loop {
        sleep_until(until).await;
        until = visit.served() + LINGER;
        if until <= Instant::now() {
            return;
        }
    }
}

/// What the requests of one connection have in common.
struct Proxy {
    shared: Arc<Shared>,
    visit: Arc<Visit>,
    origins: Mutex<Origins>,
    /// The connection when hyper is through with it, if a request asked for something that is not
    /// HTTP.
    after: Mutex<Option<OnUpgrade>>,
    /// What it becomes then.
    tunnel: Mutex<Option<Tunnel>>,
}

/// A connection that speaks HTTP no more.
struct Tunnel {
    far: Far,
    _turn: Turn,
}

/// The other end of a tunnel.
enum Far {
    /// Of CONNECT.
    Stream(tunnel::Tunnel),
    /// An origin server that agreed to another protocol, and when it was asked.
    Origin(Target, OnUpgrade, Timed),
}

impl Proxy {
    fn new(shared: Arc<Shared>, visit: Arc<Visit>) -> Self {
        let (after, tunnel) = Default::default();
        Self { shared, visit, origins: Mutex::default(), after, tunnel }
    }

    async fn answer(&self, mut request: Request<Incoming>) -> Answer {
        if let Some(after) = request.extensions_mut().remove::<OnUpgrade>() {
            *lock(&self.after) = Some(after);
        }
        let Some((ruling, turn)) = self.visit.begin() else {
            return closing(words(400, "That request was not understood.", None));
        };
        let (head, early) = match ruling {
            Ok(ruling) => ruling,
            Err(error) => return closing(words(error.status(), &error.to_string(), Some(turn))),
        };
        if head.uri != *request.uri()
            || (head.wanted == Wanted::Tunnel) != (request.method() == Method::CONNECT)
        {
            return closing(words(400, "That request was not understood.", Some(turn)));
        }
        if !self.shared.credentials().is_none_or(|credentials| is_authorized(&head, &credentials)) {
            let text = "This proxy wants the user and the password that its owner has set.";
            let mut answer = closing(words(407, text, Some(turn)));
            answer
                .headers_mut()
                .insert(PROXY_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"mendpath\""));
            return answer;
        }
        self.visit.occupy().await;
        match head.wanted.clone() {
            Wanted::Tunnel => self.connect(head.target, early, turn).await,
            Wanted::Forward(path) => self.forward(head, path, request, turn).await,
        }
    }

    /// RFC 9110 section 9.3.6. What came with the request goes out with it, and need not wait for
    /// the answer.
    async fn connect(&self, target: Target, early: Bytes, turn: Turn) -> Answer {
        match tunnel::open(&self.shared, Protocol::HttpConnect, target, &early).await {
            Ok(tunnel) => {
                self.become_tunnel(Tunnel { far: Far::Stream(tunnel), _turn: turn });
                let mut answer = Response::new(Download::words("", None));
                answer.extensions_mut().insert(ReasonPhrase::from_static(b"Connection established"));
                answer
            }
            Err(reply) => closing(refused(&reply, turn)),
        }
    }

    fn become_tunnel(&self, tunnel: Tunnel) {
        *lock(&self.tunnel) = Some(tunnel);
    }

    /// What follows when hyper is through with a connection that asked for something else than
    /// HTTP, and may have got it.
    async fn go_on(&self) {
        let (after, tunnel) = (lock(&self.after).take(), lock(&self.tunnel).take());
        let Some(after) = after else { return };
        let Ok(program) = after.await else { return };
        let Ok(program) = program.downcast::<ProgramIo>() else { return };
        let (watched, unread) = program.io.into_inner().into_parts();
        let Some(tcp) = watched.into_inner() else { return };
        match tunnel {
            Some(tunnel) => tunnel.carry(tcp, [program.read_buf, unread]).await,
            None => linger(tcp).await,
        }
    }
}

impl Tunnel {
    /// Connects both ends; `unread` is what the program has said already.
    async fn carry(self, mut tcp: TcpStream, unread: [Bytes; 2]) {
        let _ = SockRef::from(&tcp).set_linger(None);
        let mut tunnel = match self.far {
            Far::Stream(tunnel) => tunnel,
            Far::Origin(target, origin, timed) => {
                let Ok(origin) = origin.await else { return reset(tcp) };
                let Ok(origin) = origin.downcast::<TokioIo<OriginIo>>() else { return reset(tcp) };
                let Some(tunnel) = origin.io.into_inner().into_tunnel(target, timed) else {
                    return reset(tcp);
                };
                if !takes(&mut tcp, &origin.read_buf).await {
                    return reset(tcp);
                }
                tunnel
            }
        };
        for bytes in unread {
            if !tunnel.say(&bytes).await {
                return reset(tcp);
            }
        }
        tunnel.carry(tcp).await;
    }
}

/// Says to a program what has come behind its origin server's agreement; false if it breaks off, or takes none
/// of it for as long as tunnels wait for anything.
async fn takes(program: &mut (impl AsyncWrite + Unpin), said: &[u8]) -> bool {
    timeout(IDLE_TIMEOUT, program.write_all(said)).await.is_ok_and(|written| written.is_ok())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_authorized(head: &Head, credentials: &Credentials) -> bool {
    let decoded = head.authorization.as_deref().and_then(|value| {
        let (scheme, encoded) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(encoded.trim()).ok()).flatten()
    });
    let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    text.as_deref()
        .and_then(|pair| pair.split_once(':'))
        .is_some_and(|(user, password)| credentials.match_pair(user, password))
}

/// An answer in words of our own.
fn words(code: u16, text: &str, turn: Option<Turn>) -> Answer {
    let mut answer = Response::new(Download::words(format!("mendpath: {text}\n"), turn));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if answer.status() == StatusCode::METHOD_NOT_ALLOWED {
        // RFC 9110 section 15.5.6; of what is asked of the proxy itself.
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("CONNECT"));
    }
    answer
}

/// The server's answer in HTTP's words.
fn refused(reply: &Reply, turn: Turn) -> Answer {
    words(reply.status.http().0, &reply.text, Some(turn))
}

/// The same answer as the last one of its connection.
fn closing(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::{client::Uplink, status::Live};

    /// A program's connection, and the proxy's end of it.
    async fn pair() -> (TcpStream, TcpStream) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let program = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (program, listener.accept().await.unwrap().0)
    }

    fn shared(uplink: Uplink) -> Arc<Shared> {
        let (credentials, tun) = (std::sync::RwLock::default(), OnceLock::default());
        Arc::new(Shared { uplink, credentials, answers: Arc::default(), tun })
    }

    /// Its program may not have read the end of the answer, which a reset would take away.
    #[tokio::test]
    async fn who_was_answered_and_must_go_hears_all_of_the_answer() {
        let (mut program, tcp) = pair().await;
        let (place, send_away) = Place::alone();
        let served = tokio::spawn(serve(tcp, place, shared(Uplink::without_server())));
        // The proxy answers this itself.
        program.write_all(b"OPTIONS http://a.example/ HTTP/1.1\r\nMax-Forwards: 0\r\n\r\n").await.unwrap();
        // When this comes its place is free again.
        let mut answer = vec![program.read_u8().await.unwrap()];
        send_away();
        program.read_to_end(&mut answer).await.expect("an end without a reset");
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("requests.\n"), "{answer}");
        drop(program);
        served.await.unwrap();
    }

    /// It asks at the moment at which it is sent away, and has a seat by then. Who waits for that has waited for
    /// less than a server is waited for.
    #[tokio::test(start_paused = true)]
    async fn who_asks_when_it_must_go_is_answered() {
        let (mut program, tcp) = pair().await;
        let (place, send_away) = Place::alone();
        place.occupy().await;
        place.vacate();
        send_away();
        place.occupy().await;
        program.write_all(b"GET http://a.example/ HTTP/1.1\r\n\r\n").await.unwrap();
        tcp.readable().await.unwrap();
        let (uplink, _publish) = Uplink::new(Arc::new(Live::new(true)));
        let served = tokio::spawn(serve(tcp, place, shared(uplink)));
        let mut answer = String::new();
        program.read_to_string(&mut answer).await.expect("an end without a reset");
        assert!(answer.starts_with("HTTP/1.1 502") && answer.ends_with("still trying\n"), "{answer}");
        drop(program);
        served.await.unwrap();
    }

    /// Others may have the seats for hours, and those who wait for one are as many as there may be.
    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_seat_when_it_must_go_is_not_waited_for() {
        let (mut program, tcp) = pair().await;
        let (place, send_away) = Place::alone();
        place.occupy().await;
        place.vacate();
        let other = place.beside();
        other.occupy().await;
        send_away();
        program.write_all(b"GET http://a.example/ HTTP/1.1\r\n\r\n").await.unwrap();
        tcp.readable().await.unwrap();
        let began = Instant::now();
        let served = tokio::spawn(serve(tcp, place, shared(Uplink::without_server())));
        let mut answer = Vec::new();
        let _ = program.read_to_end(&mut answer).await;
        served.await.unwrap();
        assert!(answer.is_empty() && began.elapsed() < LINGER * 2, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_reads_nothing_is_waited_for_as_long_as_in_tunnels() {
        let (mut near, _far) = tokio::io::duplex(3);
        let taken = timeout(2 * IDLE_TIMEOUT, async {
            [takes(&mut near, b"all").await, takes(&mut near, b"x").await]
        });
        assert_eq!(taken.await.expect("it is waited for no longer"), [true, false]);
    }

    #[test]
    fn basic_authentication() {
        let credentials: Credentials = "alice:open sesame".parse().unwrap();
        let head = |value: &str| {
            let request = format!("CONNECT a.example:443 HTTP/1.1\r\nProxy-Authorization: {value}\r\n\r\n");
            Head::parse(request.as_bytes()).unwrap().unwrap().0
        };
        let encoded = STANDARD.encode("alice:open sesame");
        assert!(is_authorized(&head(&format!("Basic {encoded}")), &credentials));
        assert!(is_authorized(&head(&format!("basic  {encoded}")), &credentials));
        assert!(!is_authorized(&head(&format!("Bearer {encoded}")), &credentials));
        assert!(!is_authorized(&head("Basic !!!"), &credentials));
        assert!(!is_authorized(&head("Basic"), &credentials));
    }
}
