//! What is remembered of a run.

use netsim::fabric::HostId;
use units::{Duration, Instant, percentile};

/// A flow (or a message on a long-lived connection), by the order in which they were added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowId(pub u32);

impl FlowId {
    /// No flow.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// One flow's history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowRecord {
    /// Who sends.
    pub from: HostId,
    /// Who receives.
    pub to: HostId,
    /// How much.
    pub bytes: u64,
    /// When the application asked for it: [`started`](Self::started) may be later, as it does not
    /// include the handshake.
    pub asked: Instant,
    /// When the sender's application wrote it, or its connection opened, whichever was later.
    pub started: Instant,
    /// When the receiver's application had all of it; [`Instant::MAX`] until then.
    pub finished: Instant,
    /// Retransmission timeouts of its connection while it was the oldest unfinished one.
    pub timeouts: u32,
    /// Segments sent again by its connection likewise.
    pub retransmissions: u32,
    /// Copies, parities and other redundant packets likewise.
    pub extra: u32,
    /// Segments that the receiver first got from one of those.
    pub repaired: u32,
    /// Data packets of all kinds, likewise.
    pub packets: u32,
    /// When its last segment was sent for the first time; [`Instant::MAX`] until then, and if
    /// another message of its connection was waiting behind it.
    pub all_sent: Instant,
    /// When the fifth redundant packet was sent (CoFUSO Fig. 5); [`Instant::MAX`] until then.
    pub fifth_extra: Instant,
    /// Redundant packets of a scheme on MPTCP that had arrived on its connection before the first
    /// one that repaired something (CoFUSO Fig. 4); meaningful if something was repaired.
    pub before_hit: u32,
    /// Redundant packets likewise that had been sent before that one.
    pub sent_before_hit: u32,
    /// Redundant packets that were sent within 20, 50 and 100 ms of [`all_sent`](Self::all_sent)
    /// (CoFUSO Fig. 5).
    pub chances: [u32; 3],
}

/// Within which times after the last new segment redundant packets are counted.
const CHANCES_WITHIN: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(50), Duration::from_millis(100)];

impl FlowRecord {
    pub(crate) fn new(from: HostId, to: HostId, bytes: u64, at: Instant) -> Self {
        Self {
            from,
            to,
            bytes,
            asked: at,
            started: at,
            finished: Instant::MAX,
            timeouts: 0,
            retransmissions: 0,
            extra: 0,
            repaired: 0,
            packets: 0,
            all_sent: Instant::MAX,
            fifth_extra: Instant::MAX,
            before_hit: 0,
            sent_before_hit: 0,
            chances: [0; 3],
        }
    }

    /// A redundant packet leaves.
    pub(crate) fn count_extra(&mut self, now: Instant) {
        self.extra += 1;
        if self.extra == 5 {
            self.fifth_extra = now;
        }
        if self.all_sent != Instant::MAX {
            let since = now.saturating_duration_since(self.all_sent);
            for (chances, limit) in self.chances.iter_mut().zip(CHANCES_WITHIN) {
                *chances += u32::from(since <= limit);
            }
        }
    }

    /// Flow completion time; `None` while it lasts.
    pub fn completion_time(&self) -> Option<Duration> {
        (self.finished != Instant::MAX).then(|| self.finished - self.started)
    }

    /// From when it was asked for to its end, handshake included; `None` while it lasts.
    pub fn whole_time(&self) -> Option<Duration> {
        (self.finished != Instant::MAX).then(|| self.finished - self.asked)
    }
}

/// Sums over all connections.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Totals {
    /// Data packets sent, of every kind.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Segments sent again on their own sub-flow.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Fast recoveries entered.
    pub recoveries: u64,
    /// Tail loss probes.
    pub probes: u64,
    /// Copies of packets on another sub-flow, or duplicates.
    pub copies: u64,
    /// Coded packets.
    pub parities: u64,
    /// Bytes on the wire of copies and coded packets.
    pub extra_bytes: u64,
    /// Segments that the receiver first got from a copy or a coded packet.
    pub repaired: u64,
    /// Copies and coded packets that brought at least one of those.
    pub useful: u64,
    /// Segments of the data level that arrived more than once.
    pub duplicates: u64,
    /// Flows finished.
    pub finished: u64,
    /// Most PULLs that waited at one host at once ([`ndp`](crate::ndp)).
    pub most_pulls: u64,
}

impl Totals {
    /// Extra load: redundant bytes over all bytes of data packets (FUSO Fig. 7c).
    pub fn extra_load(&self) -> f64 {
        if self.bytes == 0 { 0.0 } else { self.extra_bytes as f64 / self.bytes as f64 }
    }
}

/// The value that a share `q` of the sorted `values` lies at or below (nearest rank); `None`
/// without values.
pub fn quantile(values: &mut [Duration], q: f64) -> Option<Duration> {
    values.sort_unstable();
    percentile(values, q)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let mut values: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
        let mut find = |q| quantile(&mut values, q).unwrap().as_millis();
        assert_eq!([find(0.0), find(0.5), find(0.99), find(1.0)], [1, 50, 99, 100]);
        assert_eq!(quantile(&mut [], 0.5), None);
    }
}
