//! What is kept of a packet's plaintext, so that it can become a source symbol.
//!
//! Nearly every packet with data ends with bytes of one stream, which holds them until they are
//! acknowledged. Then it is enough to keep what stands before them: the plaintext is made again
//! when a block is coded, and most packets are acknowledged before anybody asks for it.

use crate::streams::{StreamRange, Streams};

/// Longest beginning that is kept. It holds a STREAM frame's longest header, or a usual one behind
/// an ACK of a few ranges.
const LONGEST_HEAD: usize = 30;

/// What is kept of a plaintext.
#[derive(Clone, Debug, Default)]
pub(crate) enum Source {
    /// Nothing: the packet becomes no source symbol.
    #[default]
    Nothing,
    /// All of it.
    Plaintext(Vec<u8>),
    /// What stands before the bytes of the packet's only stream range, with which it ends.
    Head {
        /// The first so many are the head.
        bytes: [u8; LONGEST_HEAD],
        len: u8,
    },
}

impl Source {
    /// Keeps the head of a plaintext that ends with stream bytes; `None` if it is too long.
    pub(crate) fn head(head: &[u8]) -> Option<Self> {
        let mut bytes = [0; LONGEST_HEAD];
        bytes.get_mut(..head.len())?.copy_from_slice(head);
        Some(Self::Head { bytes, len: head.len() as u8 })
    }

    /// Whether the packet becomes no source symbol.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// Takes out the plaintext; empty if it is not kept as a whole.
    pub(crate) fn take_plaintext(&mut self) -> Vec<u8> {
        match core::mem::take(self) {
            Self::Plaintext(plaintext) => plaintext,
            Self::Nothing | Self::Head { .. } => Vec::new(),
        }
    }

    /// Bytes of the plaintext of a packet that carried `ranges`; `None` if it cannot be made any
    /// more, because a stream no longer holds what it ends with.
    pub(crate) fn plaintext_len(&self, ranges: &[StreamRange], streams: &Streams) -> Option<usize> {
        match (self, ranges) {
            (Self::Plaintext(plaintext), _) => Some(plaintext.len()),
            (Self::Head { len, .. }, [range]) if streams.holds(*range) => {
                Some(usize::from(*len) + range.len as usize)
            }
            _ => None,
        }
    }

    /// Appends the plaintext to `out`; nothing if it cannot be made any more.
    pub(crate) fn write_plaintext(&self, ranges: &[StreamRange], streams: &Streams, out: &mut Vec<u8>) {
        match (self, ranges) {
            (Self::Plaintext(plaintext), _) => out.extend_from_slice(plaintext),
            (Self::Head { bytes, len }, [range]) if streams.holds(*range) => {
                out.reserve(usize::from(*len) + range.len as usize);
                out.extend_from_slice(&bytes[..usize::from(*len)]);
                streams.copy_held(*range, out);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Dir, Side, VarInt,
        streams::{SentStreamFrames, StreamsConfig},
        wire::TransportParameters,
    };

    /// A client's streams, one of which holds bytes, and the plaintexts and ranges of two packets.
    fn two_packets() -> (Streams, [(Vec<u8>, SentStreamFrames); 2]) {
        let config = StreamsConfig::default();
        let mut parameters = TransportParameters::default();
        config.apply(&mut parameters);
        let mut streams = Streams::new(Side::Client, &config);
        streams.set_peer_limits(&parameters);
        let id = streams.open(Dir::Bi).unwrap();
        let data: Vec<u8> = (0..3_000).map(|n| (n % 251) as u8).collect();
        assert_eq!(streams.write(id, &data), Ok(3_000));
        let packets = [1_000, 1_200].map(|limit| {
            let (mut out, mut sent) = (Vec::new(), SentStreamFrames::default());
            streams.write_data(&mut out, limit, &mut sent);
            (out, sent)
        });
        (streams, packets)
    }

    fn made(source: &Source, sent: &SentStreamFrames, streams: &Streams) -> (Option<usize>, Vec<u8>) {
        let mut out = Vec::new();
        source.write_plaintext(&sent.ranges, streams, &mut out);
        (source.plaintext_len(&sent.ranges, streams), out)
    }

    fn head((plaintext, sent): &(Vec<u8>, SentStreamFrames)) -> Source {
        Source::head(&plaintext[..plaintext.len() - sent.ranges[0].len as usize]).unwrap()
    }

    #[test]
    fn a_plaintext_is_made_again_as_long_as_its_stream_holds_the_bytes() {
        let (mut streams, packets) = two_packets();
        let [first, second] = [0, 1].map(|n| head(&packets[n]));
        let [(plaintext, sent), (later, sent_later)] = &packets;
        assert_eq!(made(&first, sent, &streams), (Some(plaintext.len()), plaintext.clone()));
        assert_eq!(made(&second, sent_later, &streams), (Some(later.len()), later.clone()));
        // What is acknowledged behind a gap is still held.
        streams.on_acked(sent_later);
        assert_eq!(made(&second, sent_later, &streams), (Some(later.len()), later.clone()));
        streams.on_acked(sent);
        for (source, sent) in [(&first, sent), (&second, sent_later)] {
            assert_eq!(made(source, sent, &streams), (None, Vec::new()));
        }
    }

    #[test]
    fn nothing_is_made_of_a_stream_that_was_reset() {
        let (mut streams, packets) = two_packets();
        streams.reset(packets[0].1.ranges[0].id, VarInt::from_u32(1)).unwrap();
        for packet in &packets {
            assert_eq!(made(&head(packet), &packet.1, &streams), (None, Vec::new()));
        }
    }

    #[test]
    fn a_long_head_is_not_kept() {
        assert!(Source::head(&[1; LONGEST_HEAD]).is_some());
        assert!(Source::head(&[1; LONGEST_HEAD + 1]).is_none());
    }
}
