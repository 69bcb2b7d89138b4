//! What streams carry: every byte follows from the stream, its direction and its offset, so a
//! receiver needs no copy to compare.

use proto::{Side, StreamId};

/// The bytes of one direction of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Content(u64);

impl Content {
    /// What `sender` sends on a stream.
    pub fn of(id: StreamId, sender: Side) -> Self {
        Self(mix(id.0 * 2 + u64::from(sender == Side::Server)))
    }

    /// Fills `buffer` with the bytes from `offset` on.
    pub fn fill(self, offset: u64, buffer: &mut [u8]) {
        // Up to a whole word, whole words, and what is left.
        let ahead = ((8 - offset % 8) % 8) as usize;
        let (head, rest) = buffer.split_at_mut(ahead.min(buffer.len()));
        let first = mix(self.0 ^ (offset / 8)).to_le_bytes();
        let skip = 8 - ahead;
        head.copy_from_slice(&first[skip..skip + head.len()]);
        let mut index = offset.div_ceil(8);
        let (words, tail) = rest.as_chunks_mut::<8>();
        for word in words {
            *word = mix(self.0 ^ index).to_le_bytes();
            index += 1;
        }
        tail.copy_from_slice(&mix(self.0 ^ index).to_le_bytes()[..tail.len()]);
    }

    /// Where `data`, received at `offset`, differs first.
    pub fn first_difference(self, offset: u64, data: &[u8]) -> Option<u64> {
        const CHUNK: usize = 1_024;
        let mut expected = [0; CHUNK];
        data.chunks(CHUNK).enumerate().find_map(|(i, chunk)| {
            let at = offset + (i * CHUNK) as u64;
            let expected = &mut expected[..chunk.len()];
            self.fill(at, expected);
            if expected == chunk {
                return None;
            }
            expected.iter().zip(chunk).position(|(a, b)| a != b).map(|n| at + n as u64)
        })
    }
}

/// A bijection of words whose neighbours look unrelated (the finalizer of SplitMix64).
pub(crate) fn mix(word: u64) -> u64 {
    let z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use proto::Dir;

    use super::*;

    #[test]
    fn pieces_agree_with_the_whole_and_differences_are_found() {
        let content = Content::of(StreamId::new(Side::Client, Dir::Bi, 3), Side::Server);
        let mut whole = [0; 300];
        content.fill(5, &mut whole);
        for from in 0..300 {
            assert_eq!(content.first_difference(5 + from as u64, &whole[from..]), None);
        }
        whole[131] ^= 1;
        assert_eq!(content.first_difference(5, &whole), Some(136));
        // One byte too early, or another direction, shows at once or nearly so.
        assert!(content.first_difference(6, &whole).is_some_and(|at| at < 10));
        let other = Content::of(StreamId::new(Side::Client, Dir::Bi, 3), Side::Client);
        assert!(other.first_difference(5, &whole).is_some_and(|at| at < 10));
    }
}
