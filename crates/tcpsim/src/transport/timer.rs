//! What timers are for: a type, and the fabric's 32-bit token that stands for it.

/// Most connections: their numbers and a slot share a timer's token.
pub const MAX_CONNECTIONS: u32 = (1 << 28) - 1;

/// What a timer of one connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// A sub-flow's next deadline, 0 to 13. A transport without sub-flows has the first.
    Subflow(u8),
    /// A layer's below the transport ([`Shim`](crate::shim::Shim)).
    Layer,
    /// A scheme's on top of it ([`Scheme`](crate::connection::scheme::Scheme)).
    Scheme,
}

/// Bits of a token that tell a connection's timers apart.
const SLOT_BITS: u32 = 4;
/// The slots behind those of sub-flows.
const LAYER: u32 = 14;
const SCHEME: u32 = 15;
/// Tokens of this connection, which does not exist, are nobody's.
const NOBODY: u32 = MAX_CONNECTIONS;

/// What a timer of the simulation is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// A connection's.
    Connection(u32, Timer),
    /// The next write of an application.
    NextWrite,
    /// A protocol's beside TCP.
    Foreign,
    /// The next PULL of a host ([`ndp`](crate::ndp)).
    Pulls,
}

impl Token {
    /// The fabric's word for it. Timers of the same moment run out in the order of these words.
    #[inline]
    pub(crate) const fn pack(self) -> u32 {
        let (conn, slot) = match self {
            Self::Connection(conn, Timer::Subflow(sub)) => (conn, sub as u32),
            Self::Connection(conn, Timer::Layer) => (conn, LAYER),
            Self::Connection(conn, Timer::Scheme) => (conn, SCHEME),
            Self::Foreign => (NOBODY, 0),
            Self::Pulls => (NOBODY, 1),
            Self::NextWrite => (NOBODY, SCHEME), // the last word: whatever else is due acts first
        };
        conn << SLOT_BITS | slot
    }

    /// What the fabric's word stands for.
    #[inline]
    pub(crate) const fn unpack(token: u32) -> Self {
        let (conn, slot) = (token >> SLOT_BITS, token & ((1 << SLOT_BITS) - 1));
        match (conn, slot) {
            (NOBODY, SCHEME) => Self::NextWrite,
            (NOBODY, 1) => Self::Pulls,
            (NOBODY, _) => Self::Foreign,
            (_, LAYER) => Self::Connection(conn, Timer::Layer),
            (_, SCHEME) => Self::Connection(conn, Timer::Scheme),
            _ => Self::Connection(conn, Timer::Subflow(slot as u8)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_as_what_they_were() {
        let timers = [Timer::Subflow(0), Timer::Subflow(13), Timer::Layer, Timer::Scheme];
        let connections = [0, 1, MAX_CONNECTIONS - 1].map(|conn| timers.map(|timer| (conn, timer)));
        for (conn, timer) in connections.into_iter().flatten() {
            let token = Token::Connection(conn, timer);
            assert_eq!(Token::unpack(token.pack()), token);
        }
        for token in [Token::NextWrite, Token::Foreign, Token::Pulls] {
            assert_eq!(Token::unpack(token.pack()), token);
        }
        assert_eq!(Token::NextWrite.pack(), u32::MAX);
    }
}
