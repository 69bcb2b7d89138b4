//! The two primitives of every wire image: a bounds-checked cursor and the variable-length integer
//! (RFC 9000 section 16).

/// The largest value of a variable-length integer: 2^62 - 1 (RFC 9000 section 16).
pub const MAX_VARINT: u64 = (1 << 62) - 1;

/// The input ended inside a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the input ends inside a value")]
pub struct Truncated;

/// A cursor over received bytes. A read either succeeds whole or fails with [`Truncated`] and
/// leaves the position where it was.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// A cursor at the start of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Bytes read so far.
    pub const fn position(&self) -> usize {
        self.position
    }

    /// Bytes not read yet.
    pub const fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// Whether everything has been read.
    pub const fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// The next `n` bytes.
    ///
    /// # Errors
    /// [`Truncated`] if fewer bytes are left.
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], Truncated> {
        let taken = self.bytes[self.position..].get(..n).ok_or(Truncated)?;
        self.position += n;
        Ok(taken)
    }

    /// The next `N` bytes as an array.
    ///
    /// # Errors
    /// [`Truncated`] if fewer bytes are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let taken = self.bytes[self.position..].first_chunk::<N>().ok_or(Truncated)?;
        self.position += N;
        Ok(*taken)
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.position..];
        self.position = self.bytes.len();
        rest
    }

    /// One byte.
    ///
    /// # Errors
    /// [`Truncated`] if fewer bytes are left.
    pub fn u8(&mut self) -> Result<u8, Truncated> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes, big-endian.
    ///
    /// # Errors
    /// [`Truncated`] if fewer bytes are left.
    pub fn u16(&mut self) -> Result<u16, Truncated> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes, big-endian.
    ///
    /// # Errors
    /// [`Truncated`] if fewer bytes are left.
    pub fn u32(&mut self) -> Result<u32, Truncated> {
        self.array().map(u32::from_be_bytes)
    }

    /// Eight bytes, big-endian.
    ///
    /// # Errors
    /// [`Truncated`] if fewer bytes are left.
    pub fn u64(&mut self) -> Result<u64, Truncated> {
        self.array().map(u64::from_be_bytes)
    }

    /// A variable-length integer, from 0 to [`MAX_VARINT`]; longer encodings than necessary are
    /// accepted, as RFC 9000 section 16 demands.
    ///
    /// # Errors
    /// [`Truncated`] if fewer bytes are left.
    pub fn varint(&mut self) -> Result<u64, Truncated> {
        let first = *self.bytes.get(self.position).ok_or(Truncated)?;
        Ok(match first >> 6 {
            0 => u64::from(self.u8()?),
            1 => u64::from(self.u16()? & 0x3fff),
            2 => u64::from(self.u32()? & 0x3fff_ffff),
            _ => self.u64()? & MAX_VARINT,
        })
    }

    /// As many bytes as the variable-length integer in front of them says.
    ///
    /// # Errors
    /// [`Truncated`] if fewer bytes are left.
    pub fn varint_prefixed(&mut self) -> Result<&'a [u8], Truncated> {
        let start = self.position;
        let len = self.varint()?;
        let taken = usize::try_from(len).map_err(|_| Truncated).and_then(|len| self.bytes(len));
        if taken.is_err() {
            self.position = start;
        }
        taken
    }

    /// As many bytes as the single byte in front of them says.
    ///
    /// # Errors
    /// [`Truncated`] if fewer bytes are left.
    pub fn u8_prefixed(&mut self) -> Result<&'a [u8], Truncated> {
        let start = self.position;
        let len = self.u8()?;
        let taken = self.bytes(usize::from(len));
        if taken.is_err() {
            self.position = start;
        }
        taken
    }

    /// Skips bytes equal to `byte` and returns how many there were.
    pub(super) fn skip_run(&mut self, byte: u8) -> usize {
        let rest = &self.bytes[self.position..];
        let run = rest.iter().position(|&b| b != byte).unwrap_or(rest.len());
        self.position += run;
        run
    }
}

/// Bytes that [`put_varint`] writes for `value`: 1, 2, 4 or 8.
pub const fn varint_len(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Appends `value` in its shortest encoding. A value above [`MAX_VARINT`] is a bug of this crate:
/// what applications choose comes as [`VarInt`](super::VarInt). Where debug assertions are off, it
/// is written as [`MAX_VARINT`].
pub fn put_varint(out: &mut Vec<u8>, value: u64) {
    debug_assert!(value <= MAX_VARINT, "{value} does not fit a variable-length integer");
    match varint_len(value) {
        1 => out.push(value as u8),
        2 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        4 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value.min(MAX_VARINT) | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 9000 appendix A.1.
    #[test]
    fn rfc_9000_examples() {
        let cases: [(&[u8], u64); 5] = [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ];
        for (bytes, value) in cases {
            let mut reader = Reader::new(bytes);
            assert_eq!(reader.varint(), Ok(value));
            assert!(reader.is_empty());
            for end in 0..bytes.len() {
                assert_eq!(Reader::new(&bytes[..end]).varint(), Err(Truncated));
            }
        }
    }

    #[test]
    fn a_failed_read_moves_nothing() {
        let mut reader = Reader::new(&[5, 1, 2]);
        assert_eq!(reader.varint_prefixed(), Err(Truncated));
        assert_eq!(reader.u8_prefixed(), Err(Truncated));
        assert_eq!(reader.u32(), Err(Truncated));
        assert_eq!((reader.position(), reader.remaining()), (0, 3));
        assert_eq!(reader.rest(), [5, 1, 2]);
        assert_eq!(reader.rest(), []);
    }

    #[test]
    fn a_claimed_length_beyond_usize_is_truncation() {
        assert_eq!(Reader::new(&[0xff; 8]).varint_prefixed(), Err(Truncated));
    }

    proptest! {
        #[test]
        fn varints_round_trip(value in 0..=MAX_VARINT, shift in 0..62u32) {
            let value = value >> shift;
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(out.len(), varint_len(value));
            prop_assert_eq!(Reader::new(&out).varint(), Ok(value));
        }
    }
}
