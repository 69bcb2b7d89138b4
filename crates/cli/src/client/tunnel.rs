//! Asks the server for a connection to another host.

use std::{sync::Arc, time::Duration};

use mendpath::{RecvStream, SendStream};
use tokio::{net::TcpStream, time::Instant};
use tracing::debug;

use super::{IDLE_TIMEOUT, Session, Shared, Uplink, early::Early};
use crate::{
    protocol::{MAX_MESSAGE, Reply, Request, Status, read_frame, write_frame},
    splice::splice_tcp,
    status::{EventKind, Flow, Live, Outcome, Protocol, Timed},
    target::Target,
};

/// For the server's answer; its own limit for connecting is shorter.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A request that is made, and whose answer has not been read.
pub(crate) struct Asked {
    receive: RecvStream,
    /// When a connection was asked for, if that is what it is.
    connecting: Option<Instant>,
    live: Arc<Live>,
}

impl Asked {
    /// The stream's other direction, once the server has granted the request.
    ///
    /// # Errors
    /// The server's answer, or one of ours when the connection is lost meanwhile.
    pub(crate) async fn granted(self) -> Result<RecvStream, Reply> {
        let (live, connecting) = (self.live.clone(), self.connecting);
        let granted = self.answer().await;
        if let Some(began) = connecting {
            let status = granted.as_ref().map_or_else(|reply| reply.status, |_| Status::Ok);
            live.times.connected(began, status);
        }
        granted
    }

    async fn answer(mut self) -> Result<RecvStream, Reply> {
        let answer = async {
            let body = read_frame(&mut self.receive, MAX_MESSAGE).await.ok().flatten().ok_or_else(lost)?;
            Reply::decode(&body).map_err(|error| Reply::new(Status::Failed, error))
        };
        let answered = tokio::time::timeout(ANSWER_TIMEOUT, answer).await;
        let reply = answered
            .unwrap_or_else(|_| Err(Reply::new(Status::TimedOut, "the server did not answer in time")))?;
        if reply.status == Status::Ok {
            return Ok(self.receive);
        }
        if self.live.traffic.names() {
            self.live.journal.note(EventKind::Refused, &reply.text);
        } else {
            self.live.journal.note(EventKind::Refused, format_args!("a connection: {:?}", reply.status));
        }
        Err(reply)
    }
}

/// Asks for a stream that leads to `target`. What is written before the answer saves a round trip;
/// the server passes it on once it has connected.
///
/// # Errors
/// One of ours when there is no server.
pub(crate) async fn ask(uplink: &Uplink, target: Target) -> Result<(SendStream, Asked), Reply> {
    let session = uplink.session().await?;
    request(&session, &Request::Connect(target)).await
}

/// A stream whose program may hear that it is connected.
pub(crate) struct Tunnel {
    target: Target,
    send: SendStream,
    receive: Early,
    flow: Flow,
    timed: Option<Timed>,
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
    let (mut send, asked) = ask(&shared.uplink, target.clone()).await?;
    // If the server takes no more, its answer says why.
    let _ = send.write_all(said).await;
    let early = shared.answers.at_once(&target);
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
    Ok(Tunnel { timed: Some(timed), ..Tunnel::new(target, send, receive, flow) })
}

impl Tunnel {
    pub(super) fn new(target: Target, send: SendStream, receive: Early, flow: Flow) -> Self {
        Self { target, send, receive, flow, timed: None }
    }

    /// Passes on what the program has said, ahead of everything else. If the server takes no more,
    /// its answer says why.
    pub(super) async fn say(&mut self, bytes: &[u8]) {
        let _ = self.send.write_all(bytes).await;
    }

    /// Connects it with its program. Where the server refuses a program that was told that it is
    /// connected, `tcp` is reset.
    pub(crate) async fn carry(self, tcp: TcpStream) {
        let Self { target, send, mut receive, flow, mut timed } = self;
        let summary = splice_tcp(tcp, (&mut receive, send), IDLE_TIMEOUT, &flow).await;
        debug!(%target, ?summary, "connection ended");
        let outcome = Outcome::from(&summary.ended);
        timed.iter_mut().for_each(|timed| timed.ends(outcome));
        // A refusal is worth waiting for, so that the next program hears of it.
        if receive.refusal().await.is_some() {
            timed.iter_mut().for_each(|timed| timed.ends(Outcome::Refused));
        }
    }
}

/// Opens a stream and makes `request` on it.
///
/// # Errors
/// One of ours when the connection is lost meanwhile.
pub(crate) async fn request(session: &Session, request: &Request) -> Result<(SendStream, Asked), Reply> {
    let asked = async {
        let (mut send, receive) = session.connection.open_bi().await.map_err(|_| lost())?;
        write_frame(&mut send, &request.encode()).await.map_err(|_| lost())?;
        let connecting = matches!(request, Request::Connect(_)).then(Instant::now);
        Ok((send, Asked { receive, connecting, live: session.live.clone() }))
    };
    let asked = tokio::time::timeout(ANSWER_TIMEOUT, asked).await;
    asked.unwrap_or_else(|_| Err(Reply::new(Status::TimedOut, "the server takes no requests")))
}

fn lost() -> Reply {
    Reply::new(Status::HostUnreachable, "the connection to the server was lost")
}
