//! What packets are sent for.

/// What a packet is for: decides whether recovery may protect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketPurpose {
    /// New or retransmitted frames.
    Data,
    /// Frames of an un-ACKed packet once more (FUSO's recovery packet).
    Copy,
    /// A REPAIR frame (CoFUSO's parity).
    Repair,
    /// Only there to get an ACK, to validate a path or to measure it.
    Probe,
    /// Larger than the path is known to carry: losing it says nothing about congestion, and nobody
    /// waits for its ACK.
    MtuProbe,
    /// To or from other addresses than the path's own (RFC 9000 section 9): it says nothing about
    /// the path either.
    OffPath,
}

impl PacketPurpose {
    /// Whether its fate says something about the path: then it counts as in flight and is probed
    /// for. Nobody may wait for what may not fit the path, or does not travel it.
    pub(crate) fn is_measured(self) -> bool {
        !matches!(self, Self::MtuProbe | Self::OffPath)
    }
}
