//! HTPC's units at the sending end: which packets of a flow are combined, and when.

use fec::random_linear::Encoder;
use units::{Duration, Instant};

use super::{Coding, Network};
use crate::raw::wire::Body;

/// Packets of a unit.
const MOST_PACKETS: u64 = 128;
/// The shortest silence that ends a unit: timers are no more precise.
const SHORTEST: Duration = Duration::from_millis(1);
/// Packets from which on a flow that has sent much needs no combination (T_fr and some).
const NOTICED: u64 = 8;

/// What is to be known of a packet that was numbered.
#[derive(Clone, Copy, Debug)]
pub(in crate::raw) struct Sent<'a> {
    /// Its number.
    pub(in crate::raw) sequence: u64,
    pub(in crate::raw) packet: &'a [u8],
    /// Bytes of new data in it.
    pub(in crate::raw) fresh: u64,
    /// Whether it ends a write.
    pub(in crate::raw) push: bool,
}

/// The units of one flow.
#[derive(Debug, Default)]
pub(in crate::raw) struct Units {
    /// Most flows have none, and it is large.
    open: Option<Box<Open>>,
    /// D: bytes of new data so far.
    sent: u64,
}

#[derive(Debug)]
struct Open {
    first: u64,
    since: Instant,
    last: Instant,
    /// D at its beginning.
    sent_before: u64,
    packets: u64,
    /// None once it is known that nothing will be combined.
    sources: Option<Encoder>,
    bytes: usize,
}

impl Units {
    /// Bytes that are kept.
    pub(in crate::raw) fn kept(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.bytes)
    }

    /// Whether one is open.
    pub(in crate::raw) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether combinations may follow the packets of the unit that is open.
    pub(in crate::raw) fn keeps(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.sources.is_some())
    }

    /// Whether a packet would be part of a unit, one that is open if there is any. Pure ACKs open
    /// none.
    pub(in crate::raw) fn takes(&self, sent: &Sent<'_>, coding: Coding, network: &Network) -> bool {
        let worth = network.combinations(coding, 1, self.sent) > 0;
        self.open.as_ref().map_or(worth && sent.fresh > 0, |open| open.end() == sent.sequence)
    }

    /// A packet has left that is part of a unit. Whether the unit is complete.
    pub(in crate::raw) fn push(
        &mut self,
        now: Instant,
        sent: &Sent<'_>,
        coding: Coding,
        network: &Network,
    ) -> bool {
        let sent_before = self.sent;
        let open = self.open.get_or_insert_with(|| {
            Box::new(Open {
                first: sent.sequence,
                since: now,
                last: now,
                sent_before,
                packets: 0,
                sources: Some(Encoder::new(sent.sequence as u32)),
                bytes: 0,
            })
        });
        (open.last, open.packets) = (now, open.packets + 1);
        if let Some(sources) = &mut open.sources
            && sources.push(sent.packet).is_ok()
        {
            open.bytes += sent.packet.len();
        }
        // A flow that has sent much has no use for combinations of a unit that is large already.
        if open.packets >= NOTICED && network.combinations(coding, open.packets as u32, sent_before) == 0 {
            (open.sources, open.bytes) = (None, 0);
        }
        open.packets >= MOST_PACKETS || sent.push
    }

    /// So much new data has left, in a unit or not.
    pub(in crate::raw) fn count(&mut self, fresh: u64) {
        self.sent += fresh;
    }

    /// When the unit ends at the latest.
    pub(in crate::raw) fn deadline(&self, coding: Coding, rtt: Duration) -> Option<Instant> {
        let longest = coding.longest_unit(rtt);
        self.open.as_ref().map(|open| (open.since + longest).min(open.last + (longest / 4).max(SHORTEST)))
    }

    /// Ends the unit, and gives `out` its combinations.
    pub(in crate::raw) fn close(
        &mut self,
        flow: u64,
        coding: Coding,
        network: &Network,
        mut out: impl FnMut(&Body<'_>),
    ) {
        let Some(open) = self.open.take() else { return };
        let Some(sources) = open.sources else { return };
        let packets = sources.sources() as u32;
        let combinations = network.combinations(coding, packets, open.sent_before).min(u8::MAX.into());
        let mut symbol = vec![0; sources.symbol_len()];
        for index in 0..combinations as u8 {
            if sources.write(index.into(), &mut symbol).is_ok() {
                let count = packets as u8;
                out(&Body::Coded { flow, first: open.first, count, index, symbol: &symbol });
            }
        }
    }
}

impl Open {
    /// The number after its last packet.
    fn end(&self) -> u64 {
        self.first + self.packets
    }
}
