//! TCP's parameters: plain data.

use units::Duration;

use crate::own::{OwnController, OwnScheduler};

/// Congestion control of a sub-flow.
#[derive(Clone, Default, PartialEq, Debug)]
pub enum CongestionKind {
    /// RFC 5681 in segments: slow start, one segment per round trip, halving.
    #[default]
    Reno,
    /// RFC 8257: the window falls by half the share of marked packets.
    Dctcp,
    /// A controller of the crate `congestion`, coupled ones over all sub-flows of the connection.
    Shared(congestion::ControllerKind),
    /// One of your own, counted in segments.
    Custom(OwnController),
}

impl CongestionKind {
    /// Receivers echo each segment's mark (RFC 8257 section 3.2) instead of repeating one until the
    /// sender has reacted.
    pub(crate) fn wants_each_mark(&self) -> bool {
        matches!(self, Self::Dctcp | Self::Shared(congestion::ControllerKind::Dctcp))
    }
}

/// Tail loss probe (RFC 8985 section 7): "Reactive" in the papers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tlp {
    /// The probe timeout is twice the smoothed RTT, but at least this.
    pub min: Duration,
    /// Added when a single segment is outstanding: the longest time an acknowledgement may be
    /// delayed.
    pub ack_delay: Duration,
}

impl Default for Tlp {
    /// No minimum; no delay, as receivers acknowledge every segment by default.
    fn default() -> Self {
        Self { min: Duration::ZERO, ack_delay: Duration::ZERO }
    }
}

/// TCP's parameters. The default is the papers' TCP: SACK recovery, Limited Transmit, Early
/// Retransmit (FUSO section VI-A).
#[derive(Clone, PartialEq, Debug)]
pub struct Tcp {
    /// Payload of a full segment, in bytes. Default 1,460.
    pub mss: u16,
    /// Bytes of headers on the wire; an acknowledgement has nothing else. Default 40.
    pub header: u16,
    /// Initial window in segments, for all sub-flows together if `split_initial_window`.
    /// Default 10.
    pub initial_window: u32,
    /// Sub-flows share the initial window; the remainder goes to the first, each has at least 1
    /// (FUSO-A8). Default off.
    pub split_initial_window: bool,
    /// Receive window in segments, over the whole connection. Default 65,536.
    pub receive_window: u32,
    /// Congestion control. Default Reno.
    pub congestion: CongestionKind,
    /// Which sub-flow takes new data ([`schedulers`](crate::schedulers)). Default the one with room
    /// and the smallest smoothed RTT.
    pub scheduler: Option<OwnScheduler>,
    /// The rules of CUBIC where RFC 9438 and Linux differ. Default RFC 9438.
    pub cubic_rules: congestion::CubicRules,
    /// Whether packets can be marked. Default off.
    pub ecn: bool,
    /// DupThresh: segments above one that make it lost (RFC 6675). Default 3.
    pub dup_thresh: u32,
    /// Also lost: whatever is `dup_thresh` below the highest SACKed segment (Linux until 4.15).
    /// Default off.
    pub fack: bool,
    /// Selective acknowledgements (RFC 2018). Without them duplicate acknowledgements are counted,
    /// and losses are repaired one per round trip (NewReno, RFC 6582), as in ns-2's TCP of that
    /// name. Default on.
    pub sack: bool,
    /// Limited Transmit (RFC 3042): new segments on the first duplicate ACKs. Default on.
    pub limited_transmit: bool,
    /// Early Retransmit (RFC 5827, segment-based, with SACK). Default on.
    pub early_retransmit: bool,
    /// Tail loss probe. Default none.
    pub tlp: Option<Tlp>,
    /// RACK (RFC 8985 section 6), beside RFC 6675's rule. Default off.
    pub rack: bool,
    /// Proportional rate reduction (RFC 9937) in fast recovery, instead of RFC 6675's pipe below
    /// the reduced window. Default off.
    pub prr: bool,
    /// RTO before the first sample. Default 1 s.
    pub initial_rto: Duration,
    /// Smallest RTO. Default 200 ms.
    pub min_rto: Duration,
    /// The minimum applies to what is above the smoothed RTT, as in Linux, instead of to the sum
    /// (RFC 6298). Default off.
    pub rto_above_srtt: bool,
    /// As in Linux, segments that are SACKed give samples of the round-trip time, and restart the
    /// timer if they were sent before the lowest outstanding one was sent again. RFC 6298
    /// section 5.3 waits for the cumulative acknowledgement. Default off.
    pub sack_timing: bool,
    /// Largest RTO. Default 60 s.
    pub max_rto: Duration,
    /// G of RFC 6298. Default 1 us.
    pub clock: Duration,
    /// Acknowledge every n-th segment; 1 acknowledges each. Default 1.
    pub ack_every: u8,
    /// So many acknowledgements at the start of a connection are sent at once (Linux's quick
    /// acknowledgements). Default 0.
    pub quick_acks: u8,
    /// How long an acknowledgement may wait. Default 40 ms; without effect if each is acknowledged.
    pub ack_delay: Duration,
    /// Back to the initial window after an RTO without sending (RFC 5681 section 4.1). Default on.
    pub restart_after_idle: bool,
    /// Open sub-flows by a handshake before data, which gives the first RTT sample. Completion
    /// times do not include it. Default off: connections are open, without a sample.
    pub handshake: bool,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            mss: 1_460,
            header: 40,
            initial_window: 10,
            split_initial_window: false,
            receive_window: 1 << 16,
            congestion: CongestionKind::Reno,
            scheduler: None,
            cubic_rules: congestion::CubicRules::Rfc9438,
            ecn: false,
            dup_thresh: 3,
            fack: false,
            sack: true,
            limited_transmit: true,
            early_retransmit: true,
            tlp: None,
            rack: false,
            prr: false,
            initial_rto: Duration::from_secs(1),
            min_rto: Duration::from_millis(200),
            rto_above_srtt: false,
            sack_timing: false,
            max_rto: Duration::from_secs(60),
            clock: Duration::from_micros(1),
            ack_every: 1,
            quick_acks: 0,
            ack_delay: Duration::from_millis(40),
            restart_after_idle: true,
            handshake: false,
        }
    }
}

impl Tcp {
    /// FUSO's testbed and simulation (sections V-B, VI-A): minRTO 5 ms, 16 segments per connection,
    /// ECN.
    pub fn fuso() -> Self {
        Self {
            initial_window: 16,
            split_initial_window: true,
            min_rto: Duration::from_millis(5),
            ecn: true,
            ..Self::default()
        }
    }

    /// CoFUSO's testbed and simulation (section 6): 10 segments per sub-flow, no ECN, Linux's 200
    /// ms (COF-A17).
    pub fn cofuso() -> Self {
        Self { handshake: true, ..Self::default() }
    }

    /// Linux of today (6.18), as far as it is modelled: CUBIC by the kernel's rules with its
    /// HyStart, RACK and the tail loss probe (which waits for a delayed acknowledgement when a
    /// single segment is out), proportional rate reduction, 200 ms above the smoothed RTT as the
    /// smallest timeout, a timer that SACKs restart, timestamps, every second segment acknowledged
    /// and the first 16 acknowledgements at once. Not modelled: F-RTO and undoing, autotuning of
    /// windows, the coarse wheel of its timers.
    pub fn linux() -> Self {
        Self {
            mss: 1_448,
            header: 52,
            congestion: CongestionKind::Shared(congestion::ControllerKind::Cubic),
            early_retransmit: false,
            tlp: Some(Tlp { min: Duration::from_millis(2), ack_delay: Duration::from_millis(200) }),
            cubic_rules: congestion::CubicRules::Linux,
            rack: true,
            prr: true,
            rto_above_srtt: true,
            sack_timing: true,
            ack_every: 2,
            quick_acks: 16,
            handshake: true,
            ..Self::default()
        }
    }

    /// The initial window of sub-flow `sub` of `subs`.
    pub(crate) fn window_of(&self, sub: usize, subs: usize) -> u32 {
        if !self.split_initial_window {
            return self.initial_window.max(1);
        }
        let subs = subs.max(1) as u32;
        let rest = if sub == 0 { self.initial_window % subs } else { 0 };
        (self.initial_window / subs + rest).max(1)
    }
}
