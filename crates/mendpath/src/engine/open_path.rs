//! Opening a path: a socket for it, connection ids from the peer, and the peer's answer.

use std::{net::SocketAddr, sync::Arc};

use proto::{NetworkPath, PathId, PathState, VarInt};
use tokio::{sync::oneshot, time::timeout};

use super::{PathSocket, Shared, State, leads_nowhere};
use crate::{ConnectionError, OpenPathError, PathError, PathOptions, PathStatus, clock};

/// The error code for paths that the application does not want (draft-ietf-quic-multipath,
/// APPLICATION_ABANDON_PATH).
pub(crate) const APPLICATION_ABANDON_PATH: VarInt = VarInt::from_u32(0x3e);

/// A path between being opened and being validated; given up when dropped.
struct Attempt<'a> {
    shared: &'a Arc<Shared>,
    id: PathId,
    validated: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.validated {
            return;
        }
        let mut state = self.shared.lock();
        // Refused if the path is gone already, which is just as well, or if no other is left: then it stays,
        // and so does its socket, without which the connection would be lost. The peer may answer yet.
        let closed = state.proto.close_path(clock::now(), self.id, APPLICATION_ABANDON_PATH);
        if closed != Err(PathError::LastPath) {
            state.forget_path(self.id);
        }
        drop(state);
        self.shared.wake_driver();
    }
}

pub(crate) async fn open_path(shared: &Arc<Shared>, options: &PathOptions) -> Result<PathId, OpenPathError> {
    let remote = remote(shared, options)?;
    let socket = shared.engine.path_socket(options, remote)?;
    let network = NetworkPath { local: socket.local, remote };
    let mut attempt = None;
    // What the path waits for before it is opened.
    let mut obstacle = PathError::NoConnectionId;
    let result = timeout(options.timeout, async {
        let (opened, validated) = start(shared, network, socket, options.status, &mut obstacle).await?;
        let attempt = attempt.insert(opened);
        validated.await.unwrap_or(Err(ConnectionError::EndpointGone.into()))?;
        attempt.validated = true;
        Ok(attempt.id)
    })
    .await;
    match (result, &attempt) {
        (Ok(result), _) => result,
        (Err(_), Some(_)) => Err(OpenPathError::TimedOut { after: options.timeout }),
        (Err(_), None) => Err(obstacle.into()),
    }
}

fn remote(shared: &Shared, options: &PathOptions) -> Result<SocketAddr, OpenPathError> {
    let state = shared.lock();
    state.alive()?;
    let first = || state.proto.paths().first().map_or(shared.remote, |path| path.network.remote);
    let remote = options.remote.unwrap_or_else(first);
    if leads_nowhere(remote) { Err(OpenPathError::InvalidRemote(remote)) } else { Ok(remote) }
}

/// Opens the path as soon as the peer is ready for it.
async fn start<'a>(
    shared: &'a Arc<Shared>,
    network: NetworkPath,
    socket: PathSocket,
    status: PathStatus,
    obstacle: &mut PathError,
) -> Result<(Attempt<'a>, oneshot::Receiver<Result<(), OpenPathError>>), OpenPathError> {
    loop {
        let progress = shared.progress.notified();
        {
            let mut state = shared.lock();
            state.alive()?;
            match state.proto.open_path(clock::now(), network) {
                Err(error) if is_temporary(&state, &error) => *obstacle = error,
                Err(error) => return Err(error.into()),
                Ok(id) => {
                    let validated = adopt(&mut state, id, socket, status);
                    drop(state);
                    shared.wake_driver();
                    return Ok((Attempt { shared, id, validated: false }, validated));
                }
            }
        }
        progress.await;
    }
}

/// Whether the path can be opened later without anybody's doing: the peer answers soon, or forgets
/// a path that was closed.
fn is_temporary(state: &State, error: &PathError) -> bool {
    match error {
        PathError::NotReady | PathError::NoConnectionId => true,
        PathError::TooManyPaths { max } => {
            let paths = state.proto.paths();
            let open = paths.iter().filter(|path| path.state != PathState::Closing).count();
            open < *max as usize
        }
        _ => false,
    }
}

fn adopt(
    state: &mut State,
    id: PathId,
    socket: PathSocket,
    status: PathStatus,
) -> oneshot::Receiver<Result<(), OpenPathError>> {
    if let Some(socket) = socket.keep() {
        state.own_socket(id, socket);
    }
    // The path exists: it was opened under this very lock.
    let _ = state.proto.set_path_status(id, status);
    state.watch_path(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientConfig, Endpoint, Identity, ServerConfig};

    /// As when the server abandons the others while it is not answered there yet.
    #[tokio::test]
    async fn who_gives_up_the_last_path_leaves_it_its_socket() {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let server = Endpoint::server(ServerConfig::with_identity(&identity).unwrap(), any).unwrap();
        let client = Endpoint::client(any).unwrap();
        let config = ClientConfig::with_pinned_key(identity.pin());
        let via = PathOptions::new().local(any);
        let connecting = client.connect_via(&config, &via, server.local_addrs()[0], "localhost").unwrap();
        let (connection, peer) = tokio::join!(connecting, async { server.accept().await.unwrap().await });
        let (connection, _peer) = (connection.unwrap(), peer.unwrap());
        let sockets = client.local_addrs();
        assert_eq!(sockets.len(), 2, "one of them is the path's");
        drop(Attempt { shared: connection.shared(), id: PathId(0), validated: false });
        // Longer than a socket lingers whose path is gone.
        let mut tick = tokio::time::interval(std::time::Duration::from_millis(20));
        for _ in 0..60 {
            tick.tick().await;
        }
        assert_eq!(client.local_addrs(), sockets);
        let mut send = connection.open_uni().await.unwrap();
        send.write_all(b"still there").await.unwrap();
        send.finish().unwrap();
        send.finished().await.unwrap();
    }
}
