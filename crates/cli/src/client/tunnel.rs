//! Asks the server for a connection to another host.

use std::{sync::Arc, time::Duration};

use mendpath::{RecvStream, SendStream};

use super::{Session, Uplink};
use crate::{
    protocol::{MAX_MESSAGE, Reply, Request, Status, read_frame, write_frame},
    status::{EventKind, Live},
    target::Target,
};

/// For the server's answer; its own limit for connecting is shorter.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A request that is made, and whose answer has not been read.
pub(crate) struct Asked {
    receive: RecvStream,
    live: Arc<Live>,
}

impl Asked {
    /// The stream's other direction, once the server has granted the request.
    ///
    /// # Errors
    /// The server's answer, or one of ours when the connection is lost meanwhile.
    pub(crate) async fn granted(mut self) -> Result<RecvStream, Reply> {
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

/// Opens a stream that leads to `target`.
///
/// # Errors
/// The server's answer, or one of ours when there is no server.
pub(crate) async fn connect(uplink: &Uplink, target: Target) -> Result<(SendStream, RecvStream), Reply> {
    let (send, asked) = ask(uplink, target).await?;
    Ok((send, asked.granted().await?))
}

/// Opens a stream and makes `request` on it.
///
/// # Errors
/// One of ours when the connection is lost meanwhile.
pub(crate) async fn request(session: &Session, request: &Request) -> Result<(SendStream, Asked), Reply> {
    let asked = async {
        let (mut send, receive) = session.connection.open_bi().await.map_err(|_| lost())?;
        write_frame(&mut send, &request.encode()).await.map_err(|_| lost())?;
        Ok((send, Asked { receive, live: session.live.clone() }))
    };
    let asked = tokio::time::timeout(ANSWER_TIMEOUT, asked).await;
    asked.unwrap_or_else(|_| Err(Reply::new(Status::TimedOut, "the server takes no requests")))
}

fn lost() -> Reply {
    Reply::new(Status::HostUnreachable, "the connection to the server was lost")
}
