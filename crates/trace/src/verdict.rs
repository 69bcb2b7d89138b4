//! The arbiter's verdict on every packet that was lost: would SLP have duplicated it?
//!
//! SLP sections II-C1 and II-C2, decided by [`recovery::slp_arbiter`] and, where the capture shows
//! acknowledgements, [`recovery::slp_window`]. A lost packet is one whose first retransmission was
//! not needless; retransmissions themselves are never duplicated (SLP-A7).

use recovery::slp_arbiter::{Conditions, Marks, TimeoutOdds};
use serde::Serialize;
use units::BitRate;

use crate::{
    options::Odds,
    positions::share,
    retransmission::{Retransmission, Window},
    segment::TcpFlags,
};

/// What is special about a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkClass {
    /// SYN or SYN/ACK.
    Handshake,
    /// PSH, with FIN or without (SLP-A6: the larger q).
    Push,
    /// FIN without PSH.
    Fin,
    /// Nothing.
    Plain,
}

impl MarkClass {
    /// All, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Handshake, Self::Push, Self::Fin, Self::Plain];

    /// That of a packet with `flags`.
    pub fn of(flags: TcpFlags) -> Self {
        if flags.has(TcpFlags::SYN) {
            Self::Handshake
        } else if flags.has(TcpFlags::PSH) {
            Self::Push
        } else if flags.has(TcpFlags::FIN) {
            Self::Fin
        } else {
            Self::Plain
        }
    }
}

/// The verdicts on one class of lost packets.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct VerdictRow {
    /// Which packets.
    pub class: MarkClass,
    /// q that was used.
    pub odds: f64,
    /// Lost packets.
    pub lost: u64,
    /// Those that a timeout brought back.
    pub timeouts: u64,
    /// Their share: what q is in this trace.
    pub timeout_share: Option<f64>,
    /// Lost packets that the arbiter would have duplicated.
    pub duplicated: u64,
    /// Those of them that a timeout brought back.
    pub timeouts_avoided: u64,
    /// Of the duplicated: those whose duplicate did not fit the window, as far as the capture shows
    /// it.
    pub window_full: u64,
    /// Bandwidth in Mbit/s from which on the mean lost packet of the class is worth a duplicate, at
    /// an RTO of 1 s; `null` if no bandwidth is enough.
    pub needs_mbps: Option<f64>,
}

/// The arbiter with all it knows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Arbiter {
    pub(crate) loss: f64,
    pub(crate) bandwidth: BitRate,
    pub(crate) odds: TimeoutOdds,
}

/// One verdict.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Verdict {
    pub(crate) odds: f64,
    pub(crate) gain_ms: f64,
    pub(crate) cost_ms: f64,
    pub(crate) duplicate: bool,
}

impl Arbiter {
    /// `measured` are the shares of timeouts per class, in the order of [`MarkClass::ALL`].
    pub(crate) fn new(loss: f64, bandwidth: BitRate, odds: Odds, measured: [Option<f64>; 4]) -> Self {
        let odds = match odds {
            Odds::Paper => TimeoutOdds::default(),
            Odds::Measured => {
                let [handshake, push, fin, plain] = measured.map(|share| share.unwrap_or(0.0));
                TimeoutOdds { handshake, push, fin, plain }
            }
        };
        Self { loss, bandwidth, odds }
    }

    pub(crate) fn odds_of(&self, class: MarkClass) -> f64 {
        let (handshake, push, fin) =
            (class == MarkClass::Handshake, class == MarkClass::Push, class == MarkClass::Fin);
        self.odds.of(Marks { handshake, push, fin })
    }

    pub(crate) fn verdict(&self, packet: &Retransmission) -> Verdict {
        let odds = self.odds_of(MarkClass::of(packet.flags));
        let conditions = Conditions { loss: self.loss, bandwidth: self.bandwidth, timeout: packet.timeout };
        let bytes = u64::from(packet.bytes);
        Verdict {
            odds,
            gain_ms: conditions.gain(odds) * 1e3,
            cost_ms: conditions.cost(bytes) * 1e3,
            duplicate: conditions.worth_duplicating(bytes, odds),
        }
    }

    /// A row for every class that lost anything.
    pub(crate) fn rows(
        &self,
        retransmissions: &[Retransmission],
        is_timeout: impl Fn(&Retransmission) -> bool,
    ) -> Vec<VerdictRow> {
        let row = |class| {
            let lost: Vec<&Retransmission> = retransmissions
                .iter()
                .filter(|packet| is_lost(packet) && MarkClass::of(packet.flags) == class)
                .collect();
            let count = |wanted: &dyn Fn(&Retransmission) -> bool| {
                lost.iter().filter(|packet| wanted(packet)).count() as u64
            };
            let duplicated = |packet: &Retransmission| self.verdict(packet).duplicate;
            let timeouts = count(&|packet| is_timeout(packet));
            let bytes: u64 = lost.iter().map(|packet| u64::from(packet.bytes)).sum();
            let conditions = Conditions { loss: self.loss, ..Conditions::default() };
            let mean = bytes / (lost.len() as u64).max(1);
            VerdictRow {
                class,
                odds: self.odds_of(class),
                lost: lost.len() as u64,
                timeouts,
                timeout_share: share(timeouts, lost.len() as u64),
                duplicated: count(&duplicated),
                timeouts_avoided: count(&|packet| duplicated(packet) && is_timeout(packet)),
                window_full: count(&|packet| duplicated(packet) && packet.window == Window::Full),
                needs_mbps: conditions
                    .bandwidth_needed(mean, self.odds_of(class))
                    .map(|rate| (rate.bits_per_second() as f64 / 1e3).round() / 1e3),
            }
        };
        MarkClass::ALL.into_iter().map(row).filter(|row| row.lost > 0).collect()
    }
}

/// Whether the original was lost for the first time.
pub(crate) fn is_lost(packet: &Retransmission) -> bool {
    packet.attempt == 1 && !packet.needless && !packet.unanswered
}
