//! Datagrams larger than Ethernet's, where the local link carries them
//! (docs/decisions/0041-jumbo-datagrams.md).
//!
//! The transport knows nothing of links: it asks whoever sends its datagrams, once a path is short
//! and busy enough for the answer to matter, and probes what the link carries as any other size.

use super::Connection;
use crate::{NetworkPath, config::ETHERNET, wire::PathId};

impl Connection {
    /// A path of which it would help to know how large datagrams the local link towards the peer
    /// carries, to be answered with [`on_link_size`](Self::on_link_size), or not at all where nobody
    /// knows. Each path is asked about once, and only while it is the only one: what one path carries
    /// must fit the others, to be mended there.
    pub fn poll_link_question(&mut self) -> Option<(PathId, NetworkPath)> {
        // Who has set another bound means it.
        let bound_by_default = self.config.max_datagram_size == ETHERNET;
        if !bound_by_default || self.config.jumbo_datagram_size <= ETHERNET {
            return None;
        }
        if self.state.is_closed() || !self.handshake.is_confirmed() {
            return None;
        }
        let path = self.paths.only_mut()?;
        (path.works() && path.ask_for_link()).then(|| (path.id(), path.network()))
    }

    /// The local link of a path carries UDP payloads of `size` bytes. If that is more than the path
    /// uses, it is tried.
    pub fn on_link_size(&mut self, id: PathId, size: u16) {
        let size = size.min(self.config.jumbo_datagram_size);
        if let Some(path) = self.paths.only_mut().filter(|path| path.id() == id) {
            path.try_beyond(size);
        }
    }

    /// There is about to be another path.
    pub(super) fn leave_jumbo(&mut self) {
        if let Some(path) = self.paths.only_mut() {
            path.leave_beyond();
        }
    }
}
