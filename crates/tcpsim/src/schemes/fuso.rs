//! FUSO on MPTCP: when no new data is left, un-acknowledged packets of the worst sub-flow are
//! copied over the best one.
//!
//! Sections III-B, III-C and V-A. The decisions are those of `recovery::fuso`, which the transport
//! calls too.
//!
//! | paper                       | here                                     |
//! |-----------------------------|------------------------------------------|
//! | TRY_SEND_RECOVERIES         | [`Scheme::on_opportunity`]               |
//! | lossrate, lossrate_last     | [`PathLoss`] per sub-flow: a retransmission is a loss, everything sent counts |
//! | spare cwnd                  | window minus pipe, not after a timeout (FUSO-A5) |
//! | receiver optimisation       | [`Mptcp::early_delivery`]                |
//!
//! A sub-flow keeps its own state whatever happened at the data level: it retransmits what was lost
//! on it, and a hole stays until then (FUSO-A12).

use recovery::{PathId, PathLoss, PathSample, UnackedView, Weights, fuso::Budget};

use super::{Mptcp, Released};
use crate::{
    connection::{Connection, scheme::Scheme},
    transport::Io,
};

/// Parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fuso {
    /// The sub-flows, with FUSO's receiver unless it is switched off.
    pub mptcp: Mptcp,
    /// alpha and beta.
    pub weights: Weights,
    /// The authors' released code instead of the paper's text; it has no weights.
    pub released: Option<Released>,
}

impl Fuso {
    /// The paper's parameters with `subflows` sub-flows.
    pub const fn new(subflows: usize) -> Self {
        Self { mptcp: Mptcp::new(subflows).with_early_delivery(), weights: Weights::fuso(), released: None }
    }
}

/// The sender's estimates.
#[derive(Debug)]
pub(crate) struct State {
    losses: Vec<PathLoss>,
}

impl State {
    pub(crate) fn new(parameters: Fuso, subflows: usize) -> Self {
        Self { losses: vec![PathLoss::new(parameters.weights); subflows] }
    }
}

/// Counts a transmission: a retransmission is a loss that itself counts as transmitted.
pub(super) fn count(loss: &mut PathLoss, again: bool) {
    loss.on_sent(1);
    if again {
        loss.on_lost(1);
    }
}

/// What the choice of paths looks at.
pub(super) fn samples(conn: &Connection, losses: &[PathLoss]) -> Vec<PathSample> {
    let sample = |(sub, loss): (usize, &PathLoss)| PathSample {
        path: PathId(sub as u32),
        loss: loss.estimate(),
        rtt: conn.smoothed_rtt(sub),
        spare: conn.room(sub) > 0,
        protectable: conn.oldest_resendable(PathId(sub as u32)).is_some(),
        ever_sent: conn.ever_sent(sub),
    };
    losses.iter().enumerate().map(sample).collect()
}

/// The connection's room for recovery packets, in segments.
pub(super) fn budget(conn: &Connection) -> Budget {
    let sum =
        |of: fn(&Connection, usize) -> u32| (0..conn.subflows()).map(|sub| u64::from(of(conn, sub))).sum();
    Budget {
        in_flight: sum(Connection::pipe),
        window: sum(Connection::window),
        new_data: conn.has_new_data(),
    }
}

impl Scheme for State {
    fn on_sent(&mut self, _conn: &mut Connection, _io: &mut Io<'_>, sub: usize, _seq: u32, again: bool) {
        count(&mut self.losses[sub], again);
    }

    fn on_opportunity(&mut self, conn: &mut Connection, io: &mut Io<'_>) {
        loop {
            conn.refresh_resend_marks();
            let samples = samples(conn, &self.losses);
            let Some(copy) = recovery::fuso::step(&budget(conn), &samples, conn) else { break };
            if !conn.send_copy(io, copy.of.0 as usize, copy.packet.0 as u32, copy.on.0 as usize) {
                break;
            }
            count(&mut self.losses[copy.on.0 as usize], false);
        }
    }
}
