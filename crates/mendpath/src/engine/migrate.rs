//! Moving paths to other local addresses (RFC 9000 section 9).

use std::{net::SocketAddr, sync::Arc};

use proto::PathId;

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
        state.proto.migrate(clock::now(), id, socket.socket.local())?;
        state.replace_socket(id, socket.keep());
    }
    shared.wake_driver();
    Ok(())
}

/// Moves the paths that run over `old` sockets to `local`. Those that cannot move go down with
/// their socket.
pub(crate) fn rebind(shared: &Arc<Shared>, old: &[Arc<Socket>], local: SocketAddr) {
    let mut state = shared.lock();
    for path in over(&state, old) {
        let _ = state.proto.migrate(clock::now(), path, local);
    }
    drop(state);
    shared.wake_driver();
}

fn over(state: &State, sockets: &[Arc<Socket>]) -> Vec<PathId> {
    let paths = state.proto.paths().into_iter();
    paths.filter(|p| sockets.iter().any(|s| s.fits(p.network.local).is_some())).map(|p| p.id).collect()
}
