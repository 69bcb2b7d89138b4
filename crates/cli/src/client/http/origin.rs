//! Connections to origin servers: each belongs to one connection of a program, and serves one
//! request after the other.

use std::{
    error::Error as _,
    io,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::{TrySendError, http1},
};
use hyper_util::rt::TokioIo;
use mendpath::SendStream;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::watch,
    time::{Instant, sleep_until, timeout},
};

use super::body::Upload;
use crate::{
    client::{
        Session, Uplink,
        demand::Demand,
        early::{Early, Refusal},
        tunnel::{self, Tunnel},
    },
    protocol::{Reply, Status, StreamCode},
    splice::{Abort as _, Direction, Witness as _},
    status::{Flow, Timed},
    target::Target,
};

/// Idle connections to origin servers, per connection of a program. Browsers open several
/// connections to a proxy. All of a client have the streams that its server allows, and give way to whatever
/// else needs one.
const KEPT: usize = 4;
/// For how long one of them stays open without a request.
const KEPT_FOR: Duration = Duration::from_secs(30);
/// For a connection to end after its program has gone.
const GRACE: Duration = Duration::from_secs(10);
/// The longest head of a response, in bytes, and its most fields; origin servers say more than
/// programs.
const MAX_HEAD: usize = 64 * 1024;
const MAX_FIELDS: usize = 256;

/// Says from when on a connection is idle; `None` while it is used.
#[derive(Clone)]
struct Idle(Arc<watch::Sender<Option<Rest>>>);

/// Of a connection that nobody uses.
struct Rest {
    since: Instant,
    /// Whether the last request was sent completely.
    sent: Arc<AtomicBool>,
}

/// A connection in use; idle again once this is dropped.
pub(super) struct Lease {
    idle: Idle,
    sent: Arc<AtomicBool>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let rest = Rest { since: Instant::now(), sent: self.sent.clone() };
        self.idle.0.send_replace(Some(rest));
    }
}

/// The connections of one program's connection.
#[derive(Default)]
pub(super) struct Origins {
    /// The one used last is last.
    kept: Vec<Origin>,
}

/// A connection to an origin server.
struct Origin {
    target: Target,
    sender: http1::SendRequest<Upload>,
    idle: Idle,
    /// Whether the last request was sent completely; nothing may follow half of one.
    sent: Arc<AtomicBool>,
    /// The connection to the server that it goes over.
    session: Session,
}

/// A response, and the connection that it comes over.
type Answered = (Response<Incoming>, Lease);

/// Why there is no response.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The server's answer, or one of ours in its place.
    Refused(Reply),
    /// The connection to the server was lost, or given up for another, after it had granted the request.
    Lost,
    /// The origin server has ended the connection, or said something else than HTTP.
    Broken(hyper::Error),
}

impl Unanswered {
    /// Why there is none over that connection to the server, which may have ended.
    fn over(session: &Session, error: hyper::Error) -> Self {
        match Self::from(error) {
            Self::Broken(_) if session.connection.close_reason().is_some() => Self::Lost,
            other => other,
        }
    }

    /// The connection to the server was lost, or given up for another, before there was an answer.
    fn is_lost(&self) -> bool {
        match self {
            Self::Refused(reply) => *reply == tunnel::lost(),
            Self::Lost => true,
            Self::Broken(_) => false,
        }
    }
}

impl Origins {
    /// One that goes over `present`, the connection to the server: one that was left, as since its server is
    /// about to stop, waits for the end of what goes over it. Where there is none now, the one so far may
    /// only be silent, and what is new waits for who answers first.
    fn take(&mut self, target: &Target, present: Option<u64>) -> Option<Origin> {
        let over = |origin: &Origin| origin.session.connection.stable_id();
        let is_left = |origin: &Origin| present.is_some_and(|present| over(origin) != present);
        self.kept.retain(|origin| !origin.sender.is_closed() && !is_left(origin));
        present?;
        let found = self.kept.iter().position(|origin| origin.target == *target)?;
        Some(self.kept.remove(found))
    }

    /// Keeps a connection instead of an earlier one to the same origin server: a program's connection
    /// has one request under way at a time.
    fn put(&mut self, origin: Origin) {
        self.kept.retain(|other| other.target != origin.target);
        if self.kept.len() >= KEPT {
            self.kept.remove(0);
        }
        self.kept.push(origin);
    }
}

/// Has `target` answer a request, over a kept connection or a new one. An origin server may close a
/// kept connection just when a request is on its way, or the server that it goes over be given up, and
/// then nobody knows what became of it: so only what `again` makes once more, where that does no harm
/// (RFC 9110 section 9.2.2), meets one. It is made once more, too, where a server is lost before there is an
/// answer.
pub(super) async fn ask(
    origins: &std::sync::Mutex<Origins>,
    uplink: &Uplink,
    target: &Target,
    mut request: Request<Upload>,
    again: Option<impl Fn() -> Request<Upload>>,
) -> Result<Answered, Unanswered> {
    let lock = || origins.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(again) = &again {
        loop {
            let present = uplink.now().map(|session| session.connection.stable_id());
            let kept = lock().take(target, present);
            let Some(mut origin) = kept else { break };
            if !origin.sent.load(Relaxed) || origin.sender.ready().await.is_err() {
                continue;
            }
            let session = origin.session.clone();
            let sent = tokio::select! {
                sent = origin.send(request) => sent.map_err(|mut error| error.take_message()),
                () = session.left() => Err(None),
            };
            match sent {
                Ok((response, lease)) => {
                    lock().put(origin);
                    return Ok((response, lease));
                }
                Err(unsent) => request = unsent.unwrap_or_else(again),
            }
            break;
        }
    }
    let (origin, answered) = ask_anew(uplink, target, request, again.as_ref()).await?;
    lock().put(origin);
    Ok(answered)
}

/// Has `target` answer a request over a new connection; where the server is lost meanwhile, what is made
/// `again` over one to the next. That a server has granted the connection is no answer: it may have asked an
/// origin server that takes its time.
async fn ask_anew(
    uplink: &Uplink,
    target: &Target,
    mut request: Request<Upload>,
    again: Option<&impl Fn() -> Request<Upload>>,
) -> Result<(Origin, Answered), Unanswered> {
    let mut servers = 1;
    loop {
        let mut origin = Origin::open(uplink, target).await.map_err(Unanswered::Refused)?;
        let session = origin.session.clone();
        let sent = tokio::select! {
            biased;
            sent = origin.send(request) => sent.map_err(|error| Unanswered::over(&session, error.into_error())),
            // What cannot be made again waits for what the old connection brings yet.
            () = session.left(), if again.is_some() => Err(Unanswered::Lost),
        };
        match (sent, again) {
            (Ok(answered), _) => return Ok((origin, answered)),
            (Err(unanswered), Some(again)) if servers < tunnel::SERVERS && unanswered.is_lost() => {
                request = again();
            }
            (Err(unanswered), _) => return Err(unanswered),
        }
        servers += 1;
    }
}

impl Origin {
    /// Asks the server for a connection. What is sent over it need not wait for the server's
    /// answer.
    async fn open(uplink: &Uplink, target: &Target) -> Result<Self, Reply> {
        let (send, asked) = tunnel::ask(uplink, target.clone()).await?;
        let session = asked.session().clone();
        let idle = Idle(Arc::new(watch::Sender::new(None)));
        let io = OriginIo {
            receive: Some(Early::new(asked.granted())),
            send: Some(send),
            finished: false,
            idle: idle.0.subscribe(),
            flow: Some(uplink.live().traffic.begin(target)),
        };
        let handshake = http1::Builder::new()
            .preserve_header_case(true)
            .title_case_headers(true)
            .max_headers(MAX_FIELDS)
            .max_header_size(MAX_HEAD)
            .max_buf_size(MAX_HEAD)
            .handshake(TokioIo::new(io));
        let (sender, connection) = handshake.await.map_err(|error| Reply::new(Status::Failed, error))?;
        let over = session.connection.stable_id();
        tokio::spawn(attend(connection, idle.0.subscribe(), uplink.clone(), over, session.demand.clone()));
        Ok(Self { target: target.clone(), sender, idle, sent: Arc::default(), session })
    }

    async fn send(&mut self, request: Request<Upload>) -> Result<Answered, TrySendError<Request<Upload>>> {
        self.idle.0.send_replace(None);
        self.sent = request.body().complete();
        let lease = Lease { idle: self.idle.clone(), sent: self.sent.clone() };
        Ok((self.sender.try_send_request(request).await?, lease))
    }
}

/// Runs a connection until it ends, has been idle for too long or while its stream is needed, or nobody is left who
/// could use it; one over a server that the client has left ends as soon as it is idle.
async fn attend(
    connection: http1::Connection<TokioIo<OriginIo>, Upload>,
    mut idle: watch::Receiver<Option<Rest>>,
    uplink: Uplink,
    over: u64,
    demand: Arc<Demand>,
) {
    let mut connection = pin!(connection.with_upgrades());
    loop {
        let since = idle.borrow_and_update().as_ref().map(|rest| rest.since);
        let too_long = async {
            match since {
                Some(since) => sleep_until(since + KEPT_FOR).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // What is asked for at the moment at which it would end goes on.
            biased;
            changed = idle.changed() => if changed.is_err() {
                let _ = timeout(GRACE, connection).await;
                return;
            },
            _ = &mut connection => return,
            () = too_long => return,
            () = uplink.moved_on(over), if since.is_some() => return,
            () = demand.gives_way(), if since.is_some() => return,
        }
    }
}

/// The stream to an origin server.
pub(super) struct OriginIo {
    /// Both are there until the connection is given up, or taken over by another protocol.
    receive: Option<Early>,
    send: Option<SendStream>,
    finished: bool,
    idle: watch::Receiver<Option<Rest>>,
    /// There as long as `send`.
    flow: Option<Flow>,
}

impl OriginIo {
    /// Both directions, for another protocol than HTTP, whose request is `timed`.
    pub(super) fn into_tunnel(mut self, target: Target, timed: Timed) -> Option<Tunnel> {
        let receive = self.receive.take().filter(Early::is_granted)?;
        Some(Tunnel::new(target, self.send.take()?, receive, self.flow.take()?, timed))
    }

    fn passed(&self, direction: Direction, bytes: usize) {
        if let Some(flow) = &self.flow {
            flow.passed(direction, bytes);
        }
    }
}

impl Drop for OriginIo {
    /// Between two requests this is a connection's proper end; in the middle of one the origin
    /// server must not take it for the end of a request.
    fn drop(&mut self) {
        let Some(send) = &mut self.send else { return };
        if self.finished {
            return;
        }
        if self.idle.borrow().as_ref().is_some_and(|rest| rest.sent.load(Relaxed)) {
            let _ = send.finish();
        } else {
            send.abort(StreamCode::Reset);
        }
    }
}

fn gone() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl AsyncRead for OriginIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(receive) = self.receive.as_mut() else { return Poll::Ready(Err(gone())) };
        let before = out.filled().len();
        let read = ready!(Pin::new(receive).poll_read(cx, out));
        self.passed(Direction::Back, out.filled().len() - before);
        Poll::Ready(read)
    }
}

impl AsyncWrite for OriginIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let Some(send) = &mut this.send else { return Poll::Ready(Err(gone())) };
        match ready!(Pin::new(send).poll_write(cx, data)) {
            // When a server refuses, or an origin server answers and closes, that it takes no more
            // may arrive before it says why. Reading tells.
            Err(_) => Poll::Ready(Ok(data.len())),
            Ok(written) => {
                this.passed(Direction::Forth, written);
                Poll::Ready(Ok(written))
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing waits for more.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.finished = true;
        self.send.as_mut().map_or(Poll::Ready(Ok(())), |send| Pin::new(send).poll_shutdown(cx))
    }
}

impl From<hyper::Error> for Unanswered {
    /// A refusal travels as an error of reading.
    fn from(error: hyper::Error) -> Self {
        let mut source = error.source();
        while let Some(cause) = source {
            let refusal = cause
                .downcast_ref::<io::Error>()
                .and_then(|error| error.get_ref()?.downcast_ref::<Refusal>());
            if let Some(Refusal(reply)) = refusal {
                return Self::Refused(reply.clone());
            }
            source = cause.source();
        }
        Self::Broken(error)
    }
}

#[cfg(test)]
mod tests;
