//! RepFlow: two complete copies of each flow as two connections; the first to finish is the flow.
//!
//! FUSO section VI-A, CoFUSO section 6.2.1. The copies differ in their label, as connections differ
//! in their ports, and ECMP may still hash both onto one path. The slower copy runs on until it is
//! finished, and all of it counts as load (BASE-A3).

/// Connections per flow.
pub(crate) const COPIES: u32 = 2;
