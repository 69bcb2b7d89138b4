//! A limit on frames that have to be held whole before anything can be made of them.
//!
//! `h3` gathers every frame but DATA in memory until its last byte is there, and the transport
//! gives the sender new credit for what is gathered. Without this, a peer would only have to
//! announce a frame of a gigabyte.

/// DATA, the frame that is handed on as it comes (RFC 9114 section 7.2.1).
const DATA: u64 = 0x00;
/// WEBTRANSPORT_STREAM, behind which there are no more frames.
const WEBTRANSPORT: u64 = 0x41;

/// Follows the frames of a stream (RFC 9114 section 7.1) without keeping them.
#[derive(Debug)]
pub(crate) struct FrameGuard {
    max: u64,
    state: State,
    number: Number,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The type of a frame is next.
    Kind,
    /// Its length is.
    Length { kind: u64 },
    /// So many bytes of it are.
    Payload { left: u64 },
    /// There are no frames, or none any more.
    Raw,
}

/// A frame that is too long to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong {
    /// Its payload, in bytes.
    pub(crate) length: u64,
    /// What would be held.
    pub(crate) max: u64,
}

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a frame of {} bytes; at most {} are held", self.length, self.max)
    }
}

impl std::error::Error for TooLong {}

impl FrameGuard {
    /// For a stream that begins with a frame.
    pub(crate) fn new(max: u64) -> Self {
        Self { max, state: State::Kind, number: Number::default() }
    }

    /// Looks at the bytes that come next.
    pub(crate) fn check(&mut self, mut bytes: &[u8]) -> Result<(), TooLong> {
        while let Some((&first, rest)) = bytes.split_first() {
            match self.state {
                State::Raw => return Ok(()),
                State::Payload { left } => {
                    let taken = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                    bytes = &bytes[taken..];
                    self.payload(left - taken as u64);
                }
                State::Kind => {
                    bytes = rest;
                    if let Some(kind) = self.number.push(first) {
                        self.state = if kind == WEBTRANSPORT { State::Raw } else { State::Length { kind } };
                    }
                }
                State::Length { kind } => {
                    bytes = rest;
                    if let Some(length) = self.number.push(first) {
                        if kind != DATA && length > self.max {
                            return Err(TooLong { length, max: self.max });
                        }
                        self.payload(length);
                    }
                }
            }
        }
        Ok(())
    }

    fn payload(&mut self, left: u64) {
        self.state = if left == 0 { State::Kind } else { State::Payload { left } };
    }
}

/// A variable-length integer (RFC 9000 section 16), byte by byte.
#[derive(Debug, Default)]
pub(crate) struct Number {
    value: u64,
    /// Bytes to come.
    left: u32,
}

impl Number {
    /// The number, with its last byte.
    pub(crate) fn push(&mut self, byte: u8) -> Option<u64> {
        if self.left == 0 {
            self.left = 1 << (byte >> 6);
            self.value = u64::from(byte & 0x3f);
        } else {
            self.value = self.value << 8 | u64::from(byte);
        }
        self.left -= 1;
        (self.left == 0).then_some(self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a guard of 100 bytes says, whichever way the bytes are cut into two.
    fn check(bytes: &[u8]) -> Result<(), u64> {
        let outcomes = (0..=bytes.len()).map(|cut| {
            let mut guard = FrameGuard::new(100);
            guard.check(&bytes[..cut]).and_then(|()| guard.check(&bytes[cut..])).map_err(|long| long.length)
        });
        let outcomes: Vec<_> = outcomes.collect();
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:?}");
        outcomes[0]
    }

    #[test]
    fn the_longest_that_is_held_and_one_byte_more() {
        let headers = |length: u8| [&[0x01, 0x40, length][..], &vec![0; length.into()]].concat();
        assert_eq!(check(&headers(100)), Ok(()));
        assert_eq!(check(&headers(101)), Err(101));
        assert_eq!(check(&[headers(100), headers(100)].concat()), Ok(()));
        assert_eq!(check(&[headers(100), headers(101)].concat()), Err(101));
    }

    #[test]
    fn data_may_be_as_long_as_it_likes() {
        let mut bytes = vec![0x00, 0x44, 0x00];
        bytes.extend([0xff; 0x400]);
        assert_eq!(check(&bytes), Ok(()));
        bytes.extend([0x01, 0x80, 0x01, 0x00, 0x00]);
        assert_eq!(check(&bytes), Err(0x1_0000));
    }

    #[test]
    fn frames_nobody_knows_count_and_the_empty_are_none() {
        assert_eq!(check(&[0x21, 0x00, 0x40, 0x21, 0x00, 0x01, 0x00]), Ok(()));
        let unknown = [&[0x21][..], &[0xff; 8]].concat();
        assert_eq!(check(&unknown), Err((1 << 62) - 1));
    }

    #[test]
    fn behind_webtransport_there_are_no_frames() {
        assert_eq!(check(&[0x40, 0x41, 0x00, 0x01, 0x80, 0xff, 0xff, 0xff]), Ok(()));
    }
}
