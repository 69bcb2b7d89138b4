//! Asks the server for a connection to another host.

use std::time::Duration;

use mendpath::{RecvStream, SendStream};

use super::{Session, Uplink};
use crate::{
    protocol::{MAX_MESSAGE, Reply, Request, Status, read_frame, write_frame},
    target::Target,
};

/// For the server's answer; its own limit for connecting is shorter.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Opens a stream that leads to `target`.
///
/// # Errors
/// The server's answer, or one of ours when there is no server.
pub(crate) async fn connect(uplink: &Uplink, target: Target) -> Result<(SendStream, RecvStream), Reply> {
    let session = uplink.session().await?;
    request(&session, &Request::Connect(target)).await
}

/// Opens a stream and makes `request` on it.
///
/// # Errors
/// The server's answer, or one of ours when the connection is lost meanwhile.
pub(crate) async fn request(session: &Session, request: &Request) -> Result<(SendStream, RecvStream), Reply> {
    let lost = || Reply::new(Status::HostUnreachable, "the connection to the server was lost");
    let asked = async {
        let (mut send, mut receive) = session.connection.open_bi().await.map_err(|_| lost())?;
        write_frame(&mut send, &request.encode()).await.map_err(|_| lost())?;
        let body = read_frame(&mut receive, MAX_MESSAGE).await.ok().flatten().ok_or_else(lost)?;
        let reply = Reply::decode(&body).map_err(|error| Reply::new(Status::Failed, error))?;
        if reply.status == Status::Ok { Ok((send, receive)) } else { Err(reply) }
    };
    let answered = tokio::time::timeout(ANSWER_TIMEOUT, asked).await;
    answered.unwrap_or_else(|_| Err(Reply::new(Status::TimedOut, "the server did not answer in time")))
}
