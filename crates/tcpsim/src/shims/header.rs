//! What a coding layer adds to packets. Like all of the layer's header it takes no bytes.

use units::{Duration, Instant};

use crate::segment::{Header, Words};

/// When a packet was sent, in units of 256 ns, so that 32 bits last for 18 minutes. Acknowledgements
/// return it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stamp(pub u32);

/// Stamps count so many bits above nanoseconds.
const BITS: u32 = 8;

impl Stamp {
    /// That moment's.
    pub(super) fn at(at: Instant) -> Self {
        Self((at.as_nanos() >> BITS) as u32)
    }

    /// The stamp of a packet that waited, which leaves that time out of the round trip.
    pub(super) fn later_by(self, waited: Duration) -> Self {
        Self(self.0.wrapping_add((waited.as_nanos() >> BITS) as u32))
    }

    /// How long ago it was.
    pub(super) fn age(self, now: Instant) -> Duration {
        let ticks = Self::at(now).0.wrapping_sub(self.0);
        Duration::from_nanos(u64::from(ticks) << BITS)
    }
}

impl Header for Stamp {
    fn pack(&self) -> Words {
        [0, 0, 0, 0, self.0, 0]
    }

    fn unpack(words: &Words) -> Self {
        Self(words[4])
    }
}

/// What a source packet tells the receiving end.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Source {
    /// When it was sent.
    pub stamp: Stamp,
    /// The average RTT that the sending end knew then, to 256 ns; zero before its first sample.
    pub mean_rtt: Duration,
}

impl Header for Source {
    fn pack(&self) -> Words {
        let ticks = u32::try_from(self.mean_rtt.as_nanos() >> BITS).unwrap_or(u32::MAX);
        [0, 0, 0, 0, self.stamp.0, ticks]
    }

    fn unpack(words: &Words) -> Self {
        let [_, _, _, _, stamp, ticks] = *words;
        Self { stamp: Stamp(stamp), mean_rtt: Duration::from_nanos(u64::from(ticks) << BITS) }
    }
}

/// A coded packet: a combination of the source packets `first..end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coded {
    /// The unit's first packet.
    pub first: u32,
    /// The number after its last.
    pub end: u32,
    /// Which combination, from 0.
    pub index: u32,
    /// When it was sent.
    pub stamp: Stamp,
}

impl Header for Coded {
    fn pack(&self) -> Words {
        [self.first, self.end, self.index, 0, self.stamp.0, 0]
    }

    fn unpack(words: &Words) -> Self {
        let [first, end, index, _, stamp, _] = *words;
        Self { first, end, index, stamp: Stamp(stamp) }
    }
}
