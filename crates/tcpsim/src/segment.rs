//! What travels between the ends of a connection.
//!
//! Sequence numbers count segments, not bytes, from 0; every segment but the last of a message
//! carries a full MSS. Payload bytes do not exist, only their count.

/// What a segment is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Data, new or sent again, of a sub-flow.
    #[default]
    Data,
    /// An acknowledgement.
    Ack,
    /// Opens a sub-flow.
    Syn,
    /// Answers one that opens.
    SynAck,
    /// Outside the sequence space: a scheme's own packet (TCP-IR's coded packet), or one of a layer
    /// below TCP.
    Extra,
    /// Of another protocol on the same fabric, which says what the fields mean
    /// ([`Sim::run_beside`](crate::Sim::run_beside)).
    Foreign,
}

/// ECN-echo (RFC 3168 section 6.1.2; RFC 8257 section 3.2).
pub const ECE: u8 = 1;
/// Congestion window reduced.
pub const CWR: u8 = 2;
/// The segment that caused this acknowledgement had been received before (RFC 2883).
pub const DSACK: u8 = 4;
/// The receiver repaired a loss by itself, and says so.
pub const REPAIRED: u8 = 8;
/// On data: a coded packet, whose content is its [`Header`].
pub const PARITY: u8 = 16;
/// On data: a copy of another sub-flow's packet.
pub const COPIED: u8 = 32;
/// On data: the last segment of what the application wrote in one go.
pub const PSH: u8 = 64;

/// The part of a segment that each protocol writes and reads in its own way.
pub type Words = [u32; 6];

/// What a protocol writes into [`Segment::words`]: a type with names for its fields.
pub trait Header: Sized {
    /// As it travels.
    fn pack(&self) -> Words;

    /// What [`pack`](Self::pack) packed.
    fn unpack(words: &Words) -> Self;
}

/// A segment's fields. 44 bytes, so that a packet is one cache line.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Segment {
    /// The connection.
    pub conn: u32,
    /// Data: its sub-flow sequence number. Acknowledgement: everything below has arrived.
    pub seq: u32,
    /// Data: its data-level sequence number. Acknowledgement: the same for the data level.
    pub dsn: u32,
    /// Payload in bytes.
    pub payload: u16,
    /// The sub-flow.
    pub sub: u8,
    /// What it is.
    pub kind: Kind,
    /// [`ECE`], [`CWR`], [`DSACK`], [`REPAIRED`], [`PARITY`], [`COPIED`], [`PSH`].
    pub flags: u8,
    /// How many SACK blocks it has.
    pub sacks: u8,
    /// SACK blocks, or what else a protocol writes behind the fields above: see [`Header`].
    pub words: Words,
}

impl Segment {
    /// Whether `flag` is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The same with a header.
    #[inline]
    pub fn with(self, header: &impl Header) -> Self {
        Self { words: header.pack(), ..self }
    }

    /// The header that a protocol's sender wrote.
    #[inline]
    pub fn header<H: Header>(&self) -> H {
        H::unpack(&self.words)
    }

    /// SACK blocks, first included, last excluded, the most recent first (RFC 2018).
    #[inline]
    pub fn sack_blocks(&self) -> impl Iterator<Item = (u32, u32)> {
        let (blocks, _) = self.words.as_chunks();
        blocks.iter().take(self.sacks.into()).map(|[first, end]| (*first, *end))
    }

    /// Adds a SACK block, if there is room and it is not there yet.
    pub(crate) fn add_sack_block(&mut self, block: (u32, u32)) {
        let at = 2 * usize::from(self.sacks);
        if at + 2 <= self.words.len() && !self.sack_blocks().any(|known| known == block) {
            self.words[at..at + 2].copy_from_slice(&[block.0, block.1]);
            self.sacks += 1;
        }
    }
}
