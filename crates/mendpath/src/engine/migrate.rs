//! Moving paths to other local addresses (RFC 9000 section 9).

use std::{net::SocketAddr, sync::Arc};

use proto::{PathId, PathState};

use super::{Shared, State};
use crate::{OpenPathError, PathError, PathOptions, clock, socket::Socket};

/// Continues path `id` from where `options` say, over a fresh socket unless they name one that is
/// bound.
pub(crate) fn migrate(shared: &Arc<Shared>, id: PathId, options: &PathOptions) -> Result<(), OpenPathError> {
    let network = {
        let state = shared.lock();
        state.alive()?;
        let path = state.proto.paths().into_iter().find(|path| path.id == id);
        path.ok_or(PathError::Unknown(id))?.network
    };
    let socket = shared.engine.path_socket(options, network.remote)?;
    {
        let mut state = shared.lock();
        state.alive()?;
        state.proto.migrate(clock::now(), id, socket.local)?;
        state.replace_socket(id, socket.keep());
    }
    shared.wake_driver();
    Ok(())
}

/// A socket whose place another has taken. It retires with the last path that cannot leave it yet.
pub(crate) struct Left(Arc<Socket>);

impl Left {
    pub(crate) fn new(socket: Arc<Socket>) -> Self {
        Self(socket)
    }

    pub(crate) fn socket(&self) -> &Arc<Socket> {
        &self.0
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        self.0.retire();
    }
}

/// A path that is to move as soon as it can: the handshake is not confirmed, or the peer's next
/// connection id has not come yet. Until then it runs where it did.
pub(crate) struct Awaited {
    pub(crate) path: PathId,
    to: SocketAddr,
    pub(crate) from: Arc<Left>,
}

/// Moves the paths that run over `left` sockets to `local`, those that cannot do so yet later. Those
/// that never can go down with their socket.
pub(crate) fn rebind(shared: &Arc<Shared>, left: &[Arc<Left>], local: SocketAddr) {
    let mut state = shared.lock();
    let fits = |local| left.iter().find(|left| left.socket().fits(local).is_some());
    state.awaited.iter_mut().filter(|path| fits(path.to).is_some()).for_each(|path| path.to = local);
    let mut remotes = Vec::new();
    for path in state.proto.paths().into_iter().filter(|path| path.state != PathState::Closing) {
        let Some(from) = fits(path.network.local) else { continue };
        let (own, remote) = (path.network.local.ip(), path.network.remote);
        // Where one goes, no other to the same address of the peer can: it keeps the one that it starts at.
        let keeps = remotes.contains(&remote) && local.ip().is_unspecified() && !own.is_unspecified();
        let to = if keeps { SocketAddr::new(own, local.port()) } else { local };
        remotes.push(remote);
        state.awaited.push(Awaited { path: path.id, to, from: from.clone() });
    }
    go_on(&mut state);
    drop(state);
    shared.wake_driver();
}

/// Moves the paths that can by now.
pub(super) fn go_on(state: &mut State) {
    for awaited in std::mem::take(&mut state.awaited) {
        let moved = state.proto.migrate(clock::now(), awaited.path, awaited.to);
        if matches!(moved, Err(PathError::NotReady | PathError::NoConnectionId)) {
            state.awaited.push(awaited);
        }
    }
}
