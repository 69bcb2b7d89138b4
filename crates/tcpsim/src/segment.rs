//! What travels between the ends of a connection.
//!
//! Sequence numbers count segments, not bytes, from 0; every segment but the last of a message carries a full MSS.
//! Payload bytes do not exist, only their count.

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
    /// Outside the sequence space: a scheme's own packet (TCP-IR's coded packet), or one of a layer below TCP.
    Extra,
    /// Of another protocol on the same fabric, which says what the fields mean ([`Sim::run_beside`](crate::Sim::run_beside)).
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
/// On data: a coded packet, whose content is in [`Segment::blocks`].
pub const PARITY: u8 = 16;
/// On data: a copy of another sub-flow's packet.
pub const COPIED: u8 = 32;
/// On data: the last segment of what the application wrote in one go.
pub const PSH: u8 = 64;

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
    /// How many of `blocks` are SACK blocks.
    pub sacks: u8,
    /// SACK blocks, first included, last excluded (RFC 2018); or a parity's content.
    pub blocks: [(u32, u32); 3],
}

impl Segment {
    /// Whether `flag` is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}
