//! Asks the server for a connection to another host.

use std::time::Duration;

use mendpath::{RecvStream, SendStream};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::Instant,
};
use tracing::debug;

use super::{IDLE_TIMEOUT, Session, Shared, Uplink, early::Early};
use crate::{
    protocol::{MAX_MESSAGE, Reply, Request, Status, read_frame, write_frame},
    splice::{Patience, splice_tcp},
    status::{EventKind, Flow, Outcome, Protocol, Timed},
    target::Target,
};

/// For the server's answer; its own limit for connecting is shorter.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Connections to servers that a request is made on, each after the one before was lost.
pub(super) const SERVERS: usize = 3;

/// A request that is made, and whose answer has not been read.
pub(crate) struct Asked {
    receive: RecvStream,
    session: Session,
    /// When a connection was asked for, if that is what it is.
    connecting: Option<Instant>,
}

/// Why a request was not granted.
pub(super) enum Unanswered {
    /// Nobody has answered: the connection was lost, or given up for another.
    Lost,
    /// The answer, or one of ours.
    Refused(Reply),
}

impl From<Unanswered> for Reply {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::Lost => lost(),
            Unanswered::Refused(reply) => reply,
        }
    }
}

impl Asked {
    /// The connection to the server that it is made on.
    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// The stream's other direction, once the server has granted the request.
    ///
    /// # Errors
    /// The server's answer, or one of ours when the connection is lost meanwhile.
    pub(crate) async fn granted(self) -> Result<RecvStream, Reply> {
        Ok(self.answered().await?)
    }

    /// The same; tells whether there was an answer.
    pub(super) async fn answered(mut self) -> Result<RecvStream, Unanswered> {
        let refused = |status, text: &dyn std::fmt::Display| Unanswered::Refused(Reply::new(status, text));
        let answer = async {
            let body = tokio::select! {
                body = read_frame(&mut self.receive, MAX_MESSAGE) => body,
                () = self.session.left() => return Err(Unanswered::Lost),
            };
            let body = body.ok().flatten().ok_or(Unanswered::Lost)?;
            Reply::decode(&body).map_err(|error| refused(Status::Failed, &error))
        };
        let answered = tokio::time::timeout(ANSWER_TIMEOUT, answer).await;
        let answered =
            answered.unwrap_or_else(|_| Err(refused(Status::TimedOut, &"the server did not answer in time")));
        if let (Some(began), Ok(reply) | Err(Unanswered::Refused(reply))) = (self.connecting, &answered) {
            self.session.live.times.connected(began, reply.status);
        }
        let reply = answered?;
        if reply.status == Status::Ok {
            return Ok(self.receive);
        }
        let live = &self.session.live;
        if live.traffic.names() {
            live.journal.note(EventKind::Refused, &reply.text);
        } else {
            live.journal.note(EventKind::Refused, format_args!("a connection: {:?}", reply.status));
        }
        Err(Unanswered::Refused(reply))
    }
}

/// Asks for a stream that leads to `target`. What is written before the answer saves a round trip;
/// the server passes it on once it has connected.
///
/// # Errors
/// One of ours when there is no server.
pub(crate) async fn ask(uplink: &Uplink, target: Target) -> Result<(SendStream, Asked), Reply> {
    ask_once_there(uplink, None, &Request::Connect(target)).await
}

/// Makes `request` on the present connection, or on one that comes after `failed`. Where a
/// connection turns out to be lost before the request could be made, the next one has it.
async fn ask_once_there(
    uplink: &Uplink,
    mut failed: Option<Session>,
    what: &Request,
) -> Result<(SendStream, Asked), Reply> {
    for _ in 0..SERVERS {
        let session = match &failed {
            None => uplink.session().await?,
            Some(failed) => uplink.session_after(failed).await?,
        };
        match request(&session, what).await {
            Err(Unanswered::Lost) => failed = Some(session),
            Err(Unanswered::Refused(reply)) => return Err(reply),
            Ok(asked) => return Ok(asked),
        }
    }
    Err(lost())
}

/// Makes `request` and waits for its answer. Where the connection is lost before that comes, the
/// next one has it once more: nothing has been said yet that could be said twice.
///
/// # Errors
/// The server's answer, or one of ours when there is no server.
pub(crate) async fn grant(
    uplink: &Uplink,
    what: &Request,
) -> Result<(Session, SendStream, RecvStream), Reply> {
    let mut failed = None;
    for _ in 0..SERVERS {
        let (send, asked) = ask_once_there(uplink, failed.take(), what).await?;
        let session = asked.session.clone();
        match asked.answered().await {
            Err(Unanswered::Lost) => failed = Some(session),
            Err(Unanswered::Refused(reply)) => return Err(reply),
            Ok(receive) => return Ok((session, send, receive)),
        }
    }
    Err(lost())
}

/// A stream whose program may hear that it is connected.
pub(crate) struct Tunnel {
    target: Target,
    send: SendStream,
    receive: Early,
    flow: Flow,
    timed: Timed,
}

/// Opens a stream that leads to `target`; `said` is what the program has said already. Whether that
/// waits for the server's answer is for the [answers](super::answers) to decide.
///
/// # Errors
/// The server's answer, or one of ours when there is no server.
pub(crate) async fn open(
    shared: &Shared,
    protocol: Protocol,
    target: Target,
    said: &[u8],
) -> Result<Tunnel, Reply> {
    let mut timed = Timed::new(shared.uplink.live(), protocol);
    timed.ends(Outcome::Refused);
    let fresh = shared.uplink.now().is_some_and(|session| session.is_fresh());
    let early = fresh && shared.answers.at_once(&target);
    if said.is_empty() && !early {
        let granted = grant(&shared.uplink, &Request::Connect(target.clone())).await;
        let (_, send, receive) = granted.inspect_err(|reply| {
            debug!(%target, reply.text, "refused");
            shared.answers.on_refused(&target, early);
        })?;
        shared.answers.on_granted(target.clone());
        let flow = shared.uplink.live().traffic.begin(&target);
        timed.ends(Outcome::Broken);
        return Ok(Tunnel::new(target, send, Early::Granted(receive), flow, timed));
    }
    let (mut send, asked) = ask(&shared.uplink, target.clone()).await?;
    // If the server takes no more, its answer says why.
    let _ = send.write_all(said).await;
    let (answers, to) = (shared.answers.clone(), target.clone());
    let granted = async move {
        let granted = asked.granted().await;
        match &granted {
            Ok(_) => answers.on_granted(to),
            Err(reply) => {
                debug!(target = %to, early, reply.text, "refused");
                answers.on_refused(&to, early);
            }
        }
        granted
    };
    let receive = if early { Early::new(granted) } else { Early::Granted(granted.await?) };
    let flow = shared.uplink.live().traffic.begin(&target);
    timed.ends(Outcome::Broken);
    Ok(Tunnel::new(target, send, receive, flow, timed))
}

impl Tunnel {
    /// `timed` runs until it ends.
    pub(super) fn new(target: Target, send: SendStream, receive: Early, flow: Flow, timed: Timed) -> Self {
        Self { target, send, receive, flow, timed }
    }

    /// Passes on what the program has said, ahead of everything else; false if it is not taken for as long as
    /// anything is waited for.
    pub(super) async fn say(&mut self, bytes: &[u8]) -> bool {
        takes_in_time(&mut self.send, bytes).await
    }

    /// Connects it with its program. Where the server refuses a program that was told that it is
    /// connected, `tcp` is reset.
    pub(crate) async fn carry(self, tcp: TcpStream) {
        let Self { target, send, mut receive, flow, mut timed } = self;
        let summary = splice_tcp(tcp, (&mut receive, send), Patience::with(IDLE_TIMEOUT), &flow).await;
        debug!(%target, ?summary, "connection ended");
        timed.ends((&summary.ended).into());
        // A refusal is worth waiting for, so that the next program hears of it.
        if receive.refusal().await.is_some() {
            timed.ends(Outcome::Refused);
        }
    }
}

/// Says `bytes` to the server; false if it takes its time with them for too long. If it takes no more, its
/// answer says why.
async fn takes_in_time(server: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> bool {
    tokio::time::timeout(IDLE_TIMEOUT, server.write_all(bytes)).await.is_ok()
}

/// Opens a stream and makes `request` on it.
///
/// # Errors
/// When the connection is lost meanwhile, or takes no more.
async fn request(session: &Session, request: &Request) -> Result<(SendStream, Asked), Unanswered> {
    let asked = async {
        let (mut send, receive) = session.demand.open(&session.connection).await.ok()?;
        write_frame(&mut send, &request.encode()).await.ok()?;
        let connecting = matches!(request, Request::Connect(_)).then(Instant::now);
        Some((send, Asked { receive, session: session.clone(), connecting }))
    };
    match tokio::time::timeout(ANSWER_TIMEOUT, asked).await {
        Ok(asked) => asked.ok_or(Unanswered::Lost),
        Err(_) => Err(Unanswered::Refused(Reply::new(Status::TimedOut, "the server takes no requests"))),
    }
}

/// The answer in place of that of a server whose connection was lost before it came.
pub(super) fn lost() -> Reply {
    Reply::new(Status::HostUnreachable, "the connection to the server was lost")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a program says behind a request to upgrade has nowhere to go while the host takes nothing.
    #[tokio::test(start_paused = true)]
    async fn a_host_that_takes_nothing_is_waited_for_as_long_as_in_tunnels() {
        let (mut near, far) = tokio::io::duplex(3);
        let said = tokio::time::timeout(2 * IDLE_TIMEOUT, async {
            [takes_in_time(&mut near, b"all").await, takes_in_time(&mut near, b"x").await]
        });
        assert_eq!(said.await.expect("it is waited for no longer"), [true, false]);
        drop(far);
        assert!(takes_in_time(&mut near, b"x").await, "its answer says why");
    }
}
