//! What a connection counts itself. Its parts know the rest of [`ConnectionStats`].

use crate::ConnectionStats;

/// Counters of the same names as in [`ConnectionStats`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    pub(super) packets_sent: u64,
    pub(super) packets_received: u64,
    pub(super) packets_lost: u64,
    pub(super) bytes_lost: u64,
    pub(super) spurious_losses: u64,
    pub(super) stream_bytes_received: u64,
    pub(super) recovery_bytes_sent: u64,
    pub(super) copies_sent: u64,
    pub(super) late_copies_sent: u64,
    pub(super) repair_symbols_sent: u64,
    pub(super) packets_rebuilt_by_peer: u64,
    pub(super) packets_mended: u64,
    pub(super) key_updates: u32,
    pub(super) malformed_packets: u64,
    /// Copies of the handshake's flights: the one reason that is not the policy's.
    pub(super) handshake_copies: u32,
}

impl Counters {
    /// What there is to tell, but for what other parts of the connection know.
    pub(super) fn stats(&self) -> ConnectionStats {
        ConnectionStats {
            bytes_sent: self.bytes_sent,
            bytes_received: self.bytes_received,
            packets_sent: self.packets_sent,
            packets_received: self.packets_received,
            packets_lost: self.packets_lost,
            bytes_lost: self.bytes_lost,
            spurious_losses: self.spurious_losses,
            stream_bytes_received: self.stream_bytes_received,
            recovery_bytes_sent: self.recovery_bytes_sent,
            copies_sent: self.copies_sent,
            late_copies_sent: self.late_copies_sent,
            repair_symbols_sent: self.repair_symbols_sent,
            packets_rebuilt_by_peer: self.packets_rebuilt_by_peer,
            packets_mended: self.packets_mended,
            key_updates: self.key_updates.into(),
            malformed_packets: self.malformed_packets,
            ..ConnectionStats::default()
        }
    }
}
