//! What an NDP receiver tells a sender. The segment's own number is that of TCP: everything below has
//! arrived.

use crate::segment::{Header, Words};

/// An answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// A packet has arrived.
    Ack {
        /// Its number.
        seq: u32,
        /// Everything up to the last packet that said so has, and no PULL waits any more.
        complete: bool,
    },
    /// Of a packet only the header has.
    Nack {
        /// Its number.
        seq: u32,
    },
    /// Send as many packets as this number is above the last.
    Pull {
        /// PULLs so far.
        number: u32,
    },
}

impl Header for Answer {
    fn pack(&self) -> Words {
        let (kind, number) = match *self {
            Self::Ack { seq, complete: false } => (0, seq),
            Self::Ack { seq, complete: true } => (1, seq),
            Self::Nack { seq } => (2, seq),
            Self::Pull { number } => (3, number),
        };
        [kind, number, 0, 0, 0, 0]
    }

    fn unpack(words: &Words) -> Self {
        let [kind, number, ..] = *words;
        match kind {
            0 | 1 => Self::Ack { seq: number, complete: kind == 1 },
            2 => Self::Nack { seq: number },
            _ => Self::Pull { number },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_back_as_what_they_were() {
        let seq = u32::MAX - 7;
        for answer in [
            Answer::Ack { seq, complete: false },
            Answer::Ack { seq: 0, complete: true },
            Answer::Nack { seq },
            Answer::Pull { number: seq },
        ] {
            assert_eq!(Answer::unpack(&answer.pack()), answer);
        }
    }
}
