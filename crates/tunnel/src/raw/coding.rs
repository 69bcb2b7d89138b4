//! What is sent beside packets so that inner TCP does not hear of their loss: SLP's copies and
//! HTPC's combinations, by what the tunnel itself sees of the network.
//!
//! | scheme | what it adds | source |
//! |--------|--------------|--------|
//! | `slp`  | a copy of single packets whose loss would cost a timeout: the first of a conversation, the last of a write | SLP section II-C |
//! | `htpc` | combinations of the packets of about one round trip, fewer as a flow sends more | HTPC, "Redundancy adjustment" |
//! | `auto` | both, with as many combinations as make a loss that they cannot mend rare | |
//!
//! # Departures
//! - Copies and combinations are datagrams of QUIC: they leave within its congestion windows, and
//!   only while no packet waits.
//! - Units end with a write (PSH), after 128 packets, after a round trip of the tunnel (`auto`: half
//!   of one), or after a quarter of that in which the flow was silent: the inner window, which the
//!   paper takes, is not known here (HTPC-A8). p and b are QUIC's estimate of loss over the paths in use; below one in
//!   a thousand nothing is combined, since rounding up (HTPC-A3) would cost more than it saves.
//! - One copy of a flow at a time (SLP's `dup_bytes`) is one in each round trip here: the inner ACKs
//!   that would end it are not looked at.
//! - Retransmissions of inner TCP are part of units, so that their numbers follow on each other
//!   (HTPC-A9 leaves them out), but do not count as sent.
//! - The first packet of a conversation over UDP counts as a handshake.

mod books;
mod copies;
mod rebuild;
mod unit;

use std::{fmt, str::FromStr};

use recovery::{
    htpc_redundancy::{Parameters, Redundancy, Thresholds},
    slp_arbiter::{Conditions, Marks},
    slp_goodput::group_loss,
};
use units::{BitRate, Duration};

pub use self::books::Extra;
pub(super) use self::{
    books::Extras,
    copies::Copies,
    rebuild::{Combination, Rebuild},
    unit::{Sent, Units},
};

/// Loss that is none.
const HARDLY_ANY: f64 = 0.001;
/// How rarely a unit of a flow's beginning may stay without a packet, for `auto`.
const RARE: f64 = 0.02;

/// What is sent beside packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coding {
    /// Nothing.
    None,
    /// Copies of single packets.
    Slp,
    /// Combinations.
    Htpc,
    /// What is best.
    #[default]
    Auto,
}

impl Coding {
    /// All, as users choose among them.
    pub const ALL: [Self; 4] = [Self::None, Self::Slp, Self::Htpc, Self::Auto];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Slp => "slp",
            Self::Htpc => "htpc",
            Self::Auto => "auto",
        }
    }

    pub(super) fn copies(self) -> bool {
        matches!(self, Self::Slp | Self::Auto)
    }

    /// How long a unit may last: the paper's round trip, or so short that what it brings back comes
    /// while a hole is waited for.
    fn longest_unit(self, rtt: Duration) -> Duration {
        if self == Self::Auto { rtt / 2 } else { rtt }
    }

    pub(super) fn combines(self) -> bool {
        matches!(self, Self::Htpc | Self::Auto)
    }
}

impl fmt::Display for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Coding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let names = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|coding| coding.name() == text);
        found.ok_or_else(|| format!("there is no `{text}`: use one of {names}"))
    }
}

/// What the tunnel knows of the paths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// The share of packets that are lost, of those that leave now.
    pub loss: f64,
    /// What the paths carry together.
    pub bandwidth: BitRate,
    /// The round trip.
    pub rtt: Duration,
    /// Packets in the windows of all paths.
    pub window: u64,
}

impl Default for Network {
    /// As SLP's prototype assumes, over an ordinary path.
    fn default() -> Self {
        let Conditions { loss, bandwidth, .. } = Conditions::default();
        Self { loss, bandwidth, rtt: Duration::from_millis(100), window: 10 }
    }
}

impl Network {
    /// Whether a packet of `bytes` is worth a copy, if its loss costs `timeout` with probability
    /// `odds`.
    fn worth_a_copy(&self, bytes: u64, odds: f64, timeout: Duration) -> bool {
        let Self { loss, bandwidth, .. } = *self;
        loss >= HARDLY_ANY && Conditions { loss, bandwidth, timeout }.worth_duplicating(bytes, odds)
    }

    /// How many combinations follow a unit of `packets` of a flow that had sent `before` bytes.
    fn combinations(&self, coding: Coding, packets: u32, before: u64) -> u32 {
        if self.loss < HARDLY_ANY || packets == 0 {
            return 0;
        }
        let paper = || Redundancy::new(Parameters::default()).packets(packets, before, self.loss);
        match coding {
            Coding::None | Coding::Slp => 0,
            Coding::Htpc => paper(),
            Coding::Auto => {
                let weight = Thresholds::default().weight(before);
                let enough = |k: &u32| group_loss(packets, *k, self.loss) <= RARE;
                let all = (0..=packets).find(enough).unwrap_or(packets);
                paper().max((weight * f64::from(all)).ceil() as u32)
            }
        }
    }
}

/// How long inner TCP waits before it sends again: Linux's first timeout for handshakes, and its
/// least one besides (RFC 6298 with 200 ms in the place of a second).
fn timeout(marks: Marks, rtt: Duration) -> Duration {
    if marks.handshake { Duration::from_secs(1) } else { (rtt * 2).max(Duration::from_millis(200)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for coding in Coding::ALL {
            assert_eq!(coding.to_string().parse(), Ok(coding));
        }
        assert!("fec".parse::<Coding>().unwrap_err().contains("none, slp, htpc, auto"));
    }

    #[test]
    fn combinations_follow_loss_and_fade() {
        let lossy = Network { loss: 0.02, ..Network::default() };
        assert_eq!(lossy.combinations(Coding::Htpc, 10, 0), 1);
        let worse = Network { loss: 0.05, ..lossy };
        assert_eq!(worse.combinations(Coding::Auto, 10, 0), 2, "1 would fail 1 time in 10");
        assert_eq!(lossy.combinations(Coding::Auto, 1, 0), 1);
        assert_eq!(lossy.combinations(Coding::Auto, 100, 2_000_000), 0);
        assert_eq!(lossy.combinations(Coding::Auto, 2, 2_000_000), 2, "a loss is noticed by three");
        let counts: Vec<u32> = (0..12).map(|n| lossy.combinations(Coding::Auto, 40, n * 100_000)).collect();
        assert!(counts.is_sorted_by(|a, b| a >= b) && counts[0] > 2 && counts[11] == 0, "{counts:?}");
        for coding in [Coding::None, Coding::Slp] {
            assert_eq!(lossy.combinations(coding, 10, 0), 0);
        }
        let clean = Network { loss: 0.000_5, ..lossy };
        assert_eq!(clean.combinations(Coding::Auto, 10, 0), 0);
        let dead = Network { loss: 1.0, ..lossy };
        assert_eq!(dead.combinations(Coding::Auto, 10, 0), 10, "never more than there are packets");
    }

    #[test]
    fn handshakes_are_worth_a_copy_where_there_is_loss() {
        let lossy = Network::default();
        let syn = Marks { handshake: true, ..Marks::default() };
        assert!(lossy.worth_a_copy(60, 1.0, timeout(syn, lossy.rtt)));
        assert!(!Network { loss: 0.0, ..lossy }.worth_a_copy(60, 1.0, timeout(syn, lossy.rtt)));
        let push = Marks { push: true, ..Marks::default() };
        assert!(!lossy.worth_a_copy(1_500, 0.1, timeout(push, lossy.rtt)), "10 Mbit/s are too little");
        let fast = Network { bandwidth: BitRate::from_mbps(100), ..lossy };
        assert!(fast.worth_a_copy(1_500, 0.1, timeout(push, lossy.rtt)));
    }
}
