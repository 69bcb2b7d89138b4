//! What a user may choose, and how much memory the analysis may take.

use serde::Serialize;
use units::{BitRate, Duration};

use crate::Scale;

/// How much is kept. Memory depends on these limits and not on the size of the captures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections followed at a time. When one more comes, the closed one that has been silent
    /// longest is finished; if all are open, the open one that has, and it counts as evicted.
    /// Default 65,536.
    pub connections: usize,
    /// Sent packets remembered over all connections, about 56 bytes each. When there are more,
    /// connections are finished as above. Default 4,000,000.
    pub packets: usize,
    /// Sent packets remembered per direction of a connection; older ones are forgotten, and what
    /// retransmits them counts as having an unknown original. Default 16,384.
    pub packets_per_direction: usize,
    /// Retransmissions kept for the statistics. Of more, a uniform sample is. Default 262,144.
    pub retransmissions: usize,
    /// Connections kept for the what-if's percentiles. Of more, a uniform sample is. Default
    /// 262,144.
    pub mended_connections: usize,
    /// Silence, in the capture's time, after which an open connection is finished. Default 10 min.
    pub idle: Duration,
    /// The same for a connection that was closed: one side's FIN is sent again until it hears that
    /// the other has it. Default 60 s.
    pub closed_idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 65_536,
            packets: 4_000_000,
            packets_per_direction: 16_384,
            retransmissions: 262_144,
            mended_connections: 262_144,
            idle: Duration::from_secs(600),
            closed_idle: Duration::from_secs(60),
        }
    }
}

/// Where the arbiter's q comes from (SLP-A5).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Odds {
    /// SYN 1, PSH 0.1, others 0, as the prototype has them.
    #[default]
    Paper,
    /// The share of timeouts among the retransmissions of this trace, per kind of packet.
    Measured,
}

/// How timeouts are told from fast retransmissions.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// By what had just happened when the packet left: an acknowledgement, or nothing
    /// ([`Class`](crate::Class)). Connection by connection.
    #[default]
    AckClock,
    /// By the interval alone, all connections together: SLP's two-means clusters
    /// ([`Grouping`](crate::Grouping)).
    Paper,
}

/// What a user may choose.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// How timeouts are told from fast retransmissions. What the paper's method gives is reported in
    /// either case.
    pub method: Method,
    /// What the paper's method clusters (SLP-A11). Default: round trips if at least 90 % of the retransmissions
    /// belong to connections whose handshake was captured and there are two groups, the short one
    /// of less than three round trips; else logarithms.
    pub scale: Option<Scale>,
    /// Intervals from here on are timeouts to the paper's method, without clustering.
    pub timeout_at: Option<Duration>,
    /// How many packets at a connection's end, per direction, the what-if duplicates. Default 1, at
    /// most 100.
    pub tail: u32,
    /// p of the arbiter. Default: the trace's own estimate.
    pub loss: Option<f64>,
    /// bw of the arbiter. Default 10 Mbit/s (SLP-A4).
    pub bandwidth: BitRate,
    /// q of the arbiter.
    pub odds: Odds,
    /// How many lost packets the report lists one by one. Default 1,000.
    pub listed: usize,
    /// Memory.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            method: Method::AckClock,
            scale: None,
            timeout_at: None,
            tail: 1,
            loss: None,
            bandwidth: BitRate::from_mbps(10),
            odds: Odds::Paper,
            listed: 1_000,
            limits: Limits::default(),
        }
    }
}
