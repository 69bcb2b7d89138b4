//! Reactive: TCP with a tail loss probe, one extra packet after two round trips without an
//! acknowledgement.
//!
//! FUSO section VI-A, CoFUSO section 6.2.1: at the end of a transaction or when the window is full,
//! a new segment if there is one, else the last one again. That is the tail loss probe of RFC 8985
//! section 7, with the loss detection by the highest SACK that Linux had with it at the time
//! (`fack`): without it a SACKed probe would seldom show what is missing.

use crate::{Tcp, Tlp};

/// `tcp` with the probe.
pub fn reactive(tcp: Tcp) -> Tcp {
    Tcp { tlp: Some(Tlp::default()), fack: true, ..tcp }
}
