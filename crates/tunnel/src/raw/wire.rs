//! What a datagram of a raw tunnel holds: a context id, then a payload (RFC 9484 section 6).
//!
//! | context | payload                                                     |
//! |---------|-------------------------------------------------------------|
//! | 0       | an IP packet                                                |
//! | 2       | flow, sequence, an IP packet                                |
//! | 4       | flow, first sequence, count (1 byte), index (1 byte), a combination of those packets |
//! | 6       | as 2; the packet is a source of a unit, which combinations may follow |
//!
//! Context id, flow and sequence are variable-length integers (RFC 9000 section 16). Flows are
//! numbered by whoever sends them, from 0 and never twice, and the packets of a flow from 0.

/// Bytes that at most come before a packet or a combination, while there are less than a billion
/// flows and packets of a flow.
pub const USUAL_OVERHEAD: usize = 1 + 4 + 4 + 2 + fec::PREFIX;

const PACKET: u64 = 0;
const SEQUENCED: u64 = 2;
const CODED: u64 = 4;
const SOURCE: u64 = 6;
/// The largest variable-length integer.
const LARGEST: u64 = (1 << 62) - 1;

/// A datagram that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// An IP packet without a place in any order.
    Packet(&'a [u8]),
    /// An IP packet of a flow.
    Sequenced {
        /// The flow.
        flow: u64,
        /// The packet's number in it.
        sequence: u64,
        /// Whether it is worth keeping, since a combination may need it.
        is_source: bool,
        /// The packet.
        packet: &'a [u8],
    },
    /// A combination of packets of a flow.
    Coded {
        /// The flow.
        flow: u64,
        /// Number of the first packet of the unit.
        first: u64,
        /// How many packets it has, 1 to 255.
        count: u8,
        /// Number of the combination, from 0.
        index: u8,
        /// The repair symbol, of `fec`'s random linear code with the seed `first` modulo 2^32.
        symbol: &'a [u8],
    },
}

/// A datagram that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// It ends inside a field.
    Short,
    /// A context that is none of ours.
    Context,
    /// A unit without packets, or beyond all numbers.
    Unit,
}

impl<'a> Body<'a> {
    /// Reads a datagram.
    ///
    /// # Errors
    /// What does not make sense.
    pub fn decode(datagram: &'a [u8]) -> Result<Self, WireError> {
        let mut rest = datagram;
        match varint(&mut rest)? {
            PACKET => Ok(Self::Packet(rest)),
            context @ (SEQUENCED | SOURCE) => {
                let (flow, sequence) = (varint(&mut rest)?, varint(&mut rest)?);
                Ok(Self::Sequenced { flow, sequence, is_source: context == SOURCE, packet: rest })
            }
            CODED => {
                let (flow, first) = (varint(&mut rest)?, varint(&mut rest)?);
                let (&[count, index], symbol) = rest.split_first_chunk().ok_or(WireError::Short)?;
                if symbol.len() < fec::PREFIX {
                    return Err(WireError::Short);
                }
                if count == 0 || first > LARGEST - u64::from(count) {
                    return Err(WireError::Unit);
                }
                Ok(Self::Coded { flow, first, count, index, symbol })
            }
            _ => Err(WireError::Context),
        }
    }

    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Packet(packet) => {
                put(PACKET, out);
                out.extend(packet);
            }
            Self::Sequenced { flow, sequence, is_source, packet } => {
                put(if is_source { SOURCE } else { SEQUENCED }, out);
                put(flow, out);
                put(sequence, out);
                out.extend(packet);
            }
            Self::Coded { flow, first, count, index, symbol } => {
                put(CODED, out);
                put(flow, out);
                put(first, out);
                out.extend([count, index]);
                out.extend(symbol);
            }
        }
    }
}

/// Reads a variable-length integer from the front.
fn varint(rest: &mut &[u8]) -> Result<u64, WireError> {
    let (&head, _) = rest.split_first().ok_or(WireError::Short)?;
    let (bytes, after) = rest.split_at_checked(1 << (head >> 6)).ok_or(WireError::Short)?;
    *rest = after;
    let value = bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    Ok(value & (LARGEST >> (64 - 8 * bytes.len())))
}

/// Appends a variable-length integer in its shortest form; a larger one is cut.
fn put(value: u64, out: &mut Vec<u8>) {
    let value = value & LARGEST;
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend((value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend((value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend((value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(body: &Body<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        body.encode(&mut out);
        out
    }

    #[test]
    fn layout() {
        assert_eq!(encoded(&Body::Packet(&[0x45, 1])), [0, 0x45, 1]);
        let sequenced = Body::Sequenced { flow: 63, sequence: 64, is_source: false, packet: &[9] };
        assert_eq!(encoded(&sequenced), [2, 63, 0x40, 64, 9]);
        let coded = Body::Coded { flow: 1, first: 0x4000, count: 7, index: 2, symbol: &[0, 0, 8] };
        assert_eq!(encoded(&coded), [4, 1, 0x80, 0, 0x40, 0, 7, 2, 0, 0, 8]);
        assert_eq!(Body::decode(&encoded(&coded)), Ok(coded));
    }

    /// RFC 9000 appendix A.1.
    #[test]
    fn integers_are_those_of_quic() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            assert_eq!(varint(&mut &bytes[..]), Ok(value));
            let mut out = Vec::new();
            put(value, &mut out);
            assert_eq!(out, bytes);
        }
        assert_eq!(varint(&mut &[0x40, 0x25][..]), Ok(37), "longer than need be");
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(Body::decode(&[]), Err(WireError::Short));
        assert_eq!(Body::decode(&[2, 1]), Err(WireError::Short));
        assert_eq!(Body::decode(&[1, 1]), Err(WireError::Context));
        assert_eq!(Body::decode(&[4, 1, 1, 0, 0, 0, 0]), Err(WireError::Unit));
        assert_eq!(Body::decode(&[4, 1, 1, 3, 0, 0]), Err(WireError::Short));
        let end = [4, 1, 255, 255, 255, 255, 255, 255, 255, 255, 9, 0, 0, 0];
        assert_eq!(Body::decode(&end), Err(WireError::Unit));
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(body) = Body::decode(&bytes) {
                let again = encoded(&body);
                prop_assert_eq!(Body::decode(&again), Ok(body));
                prop_assert!(again.len() <= bytes.len());
            }
        }
    }
}
