//! The paths of a connection: what it asks of several of them, or of one that may be gone.

use crate::{
    by_path::ByPath,
    path::{Path, sent::SentPacket},
    wire::PathId,
};

/// A connection's paths by id, those that are closing included.
pub(crate) type Paths = ByPath<Path>;

impl Paths {
    /// The path that the handshake runs on (draft-ietf-quic-multipath-21 section 2.1).
    pub(crate) fn of_handshake(&self) -> Option<&Path> {
        self.get(&PathId::ZERO)
    }

    /// The same, to tell it something.
    pub(crate) fn of_handshake_mut(&mut self) -> Option<&mut Path> {
        self.get_mut(&PathId::ZERO)
    }

    /// The path, if there is no other, to tell it something.
    pub(crate) fn only_mut(&mut self) -> Option<&mut Path> {
        let mut paths = self.values_mut();
        match (paths.next(), paths.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        }
    }

    /// A path that neither side has abandoned.
    pub(crate) fn kept(&self, id: PathId) -> Option<&Path> {
        self.get(&id).filter(|path| !path.is_closing())
    }

    /// The same, to tell it something.
    pub(crate) fn kept_mut(&mut self, id: PathId) -> Option<&mut Path> {
        self.get_mut(&id).filter(|path| !path.is_closing())
    }

    /// Whether a path is there and has been abandoned.
    pub(crate) fn is_closing(&self, id: PathId) -> bool {
        self.get(&id).is_some_and(Path::is_closing)
    }

    /// All paths but one.
    pub(crate) fn others(&self, id: PathId) -> impl Iterator<Item = &Path> {
        self.values().filter(move |path| path.id() != id)
    }

    /// The record of a packet that awaits its ACK.
    pub(crate) fn sent_packet(&self, path: PathId, number: u64) -> Option<&SentPacket> {
        self.get(&path)?.sent().get(number)
    }

    /// The same, to note what becomes of it.
    pub(crate) fn sent_packet_mut(&mut self, path: PathId, number: u64) -> Option<&mut SentPacket> {
        self.get_mut(&path)?.sent_mut(number)
    }
}
