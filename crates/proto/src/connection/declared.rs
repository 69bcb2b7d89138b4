//! What the peer's transport parameters say that counts as long as the connection lives. The rest
//! goes to whom it concerns, and is a few hundred bytes.

use units::Duration;

use crate::wire::{PathId, TransportParameters, VarInt};

/// Of the parameters of the same names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Declared {
    pub(super) ack_delay_exponent: u8,
    pub(super) disable_active_migration: bool,
    /// Whether the peer has the repair extension.
    pub(super) repair: bool,
    pub(super) initial_max_path_id: Option<PathId>,
    pub(super) max_ack_delay: Duration,
    pub(super) active_connection_id_limit: VarInt,
    pub(super) max_datagram_frame_size: VarInt,
}

impl From<&TransportParameters> for Declared {
    fn from(peer: &TransportParameters) -> Self {
        Self {
            ack_delay_exponent: peer.ack_delay_exponent,
            disable_active_migration: peer.disable_active_migration,
            repair: peer.repair.is_some(),
            initial_max_path_id: peer.initial_max_path_id,
            max_ack_delay: peer.max_ack_delay,
            active_connection_id_limit: peer.active_connection_id_limit,
            max_datagram_frame_size: peer.max_datagram_frame_size,
        }
    }
}

impl Default for Declared {
    /// What holds before the peer has said anything (RFC 9000 section 18.2).
    fn default() -> Self {
        Self::from(&TransportParameters::default())
    }
}
