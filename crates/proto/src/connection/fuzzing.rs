//! What a peer with the keys can do that our own code never does.

use units::Instant;

use super::Connection;
use crate::{
    PacketPurpose,
    crypto::Level,
    wire::{PacketKind, PathId},
};

impl Connection {
    /// A packet of our own whose payload is `payload`, sealed and numbered like any other; `None`
    /// if there are no keys or no path for it. Its loss is nobody's business. `payload` must not be
    /// empty.
    pub fn seal_for_fuzzing(
        &mut self,
        now: Instant,
        kind: PacketKind,
        path: PathId,
        payload: &[u8],
    ) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let builder = match kind {
            PacketKind::Initial => self.begin_long(Level::Initial, usize::MAX, &mut out),
            PacketKind::Handshake => self.begin_long(Level::Handshake, usize::MAX, &mut out),
            PacketKind::ZeroRtt => self.begin_long(Level::ZeroRtt, usize::MAX, &mut out),
            PacketKind::OneRtt => {
                self.handshake.one_rtt.as_ref()?;
                self.begin_one_rtt(path, usize::from(u16::MAX), &mut out)
            }
        }?;
        out.extend_from_slice(payload);
        self.finish_packet(now, builder, PacketPurpose::Probe, &mut out)?;
        Some(out)
    }

    /// The number of the next 1-RTT packet on `path`; zero if there is no such path.
    pub fn next_packet_number_for_fuzzing(&self, path: PathId) -> u64 {
        self.paths.get(&path).map_or(0, |path| path.space().next_number())
    }
}
