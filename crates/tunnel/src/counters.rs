//! What became of packets.

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dropped {
    /// Headers that are cut short, or lengths that contradict each other.
    Malformed,
    /// A fragment: the device's MTU is as large as a packet can be, so that no program needs any.
    Fragment,
    /// A checksum that is wrong.
    Checksum,
    /// A protocol that is neither TCP, UDP nor ICMP, or an ICMP message that asks for nothing.
    Protocol,
    /// From or to an address that is no host's: multicast, loopback, link-local, unspecified.
    Address,
    /// From the peer, or to the device itself: the engine's own packets come back.
    Loop,
    /// Part of no flow, and no beginning of one.
    Unknown,
    /// The table of flows is full of connections in use.
    Full,
    /// A program repeats a request that is under way.
    Repeated,
}

impl Dropped {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Malformed,
        Self::Fragment,
        Self::Checksum,
        Self::Protocol,
        Self::Address,
        Self::Loop,
        Self::Unknown,
        Self::Full,
        Self::Repeated,
    ];

    /// As metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Fragment => "fragment",
            Self::Checksum => "checksum",
            Self::Protocol => "protocol",
            Self::Address => "address",
            Self::Loop => "loop",
            Self::Unknown => "unknown",
            Self::Full => "full",
            Self::Repeated => "repeated",
        }
    }
}

/// Counts since the beginning, but for [`flows`](Self::flows).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets read from the device.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Packets rewritten, in either direction.
    pub rewritten: u64,
    /// Resets and ICMP errors that answered a packet.
    pub replies: u64,
    /// TCP connections that programs asked for.
    pub asked: u64,
    /// Those that were granted.
    pub granted: u64,
    /// Those that were refused.
    pub refused: u64,
    /// Flows that were forgotten before they had ended, because nothing happened for too long or
    /// others needed the room.
    pub forgotten: u64,
    /// TCP flows in the table at the moment.
    pub flows: usize,
    dropped: [u64; Dropped::ALL.len()],
}

impl Counters {
    /// Packets dropped for this reason.
    pub fn dropped(&self, reason: Dropped) -> u64 {
        self.dropped[reason as usize]
    }

    pub(crate) fn drop(&mut self, reason: Dropped) {
        self.dropped[reason as usize] += 1;
    }
}
