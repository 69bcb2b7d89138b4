/// QUIC version 1 (RFC 9000).
pub const VERSION_1: u32 = 1;

/// The kinds of packets that carry frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketKind {
    /// Initial: the first handshake messages, under keys that everybody can derive.
    Initial,
    /// 0-RTT: early data of the client.
    ZeroRtt,
    /// Handshake: the rest of the handshake.
    Handshake,
    /// 1-RTT: everything else.
    OneRtt,
}
