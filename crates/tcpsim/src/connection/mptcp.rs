//! MPTCP: several sub-flows whose paths ECMP chooses; new data goes to the one with room and the
//! smallest RTT.
//!
//! Modelled on Linux MPTCP 0.90, which the papers used. Coupled congestion control is the
//! controller's business ([`CongestionKind::Shared`](crate::CongestionKind::Shared) sees all
//! sub-flows; BASE-A2); Reno and DCTCP are uncoupled.

/// Parameters of a connection with several sub-flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mptcp {
    /// Sub-flows, 1 to 14.
    pub subflows: usize,
    /// When the receive window is full, the segment that holds it up also goes over the sub-flow
    /// with room and the smallest RTT (FUSO section II-D).
    pub opportunistic: bool,
    /// After a timeout, a sub-flow's un-acknowledged data is offered to the others.
    pub reinject_on_timeout: bool,
    /// Out of order segments of a sub-flow go to the data level at once (FUSO section III-C)
    /// instead of waiting for their sub-flow's order.
    pub early_delivery: bool,
    /// The first sub-flow opens alone; the others begin to open when it is open, as with MP_JOIN
    /// (RFC 8684 section 3.2), so that they can carry data one round trip later. Otherwise all open
    /// at once, and data waits for none but the first that is open. Of no account without a
    /// handshake.
    pub join_later: bool,
    /// A retransmission of what the data level has acknowledged, because a copy or a coded packet
    /// brought it, is sent without its payload: the sub-flow needs its number, nobody its bytes.
    pub hollow: bool,
}

impl Mptcp {
    /// The baseline with `subflows` sub-flows: opportunistic retransmission and re-injection after
    /// timeouts, and the receiver that keeps each sub-flow's order.
    pub const fn new(subflows: usize) -> Self {
        Self {
            subflows,
            opportunistic: true,
            reinject_on_timeout: true,
            early_delivery: false,
            join_later: false,
            hollow: false,
        }
    }

    /// The same with FUSO's receiver.
    pub const fn with_early_delivery(self) -> Self {
        Self { early_delivery: true, ..self }
    }
}
