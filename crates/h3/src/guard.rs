//! What `h3` is shown of a stream's frames, in which pieces, and what ends the stream instead.
//!
//! `h3` gathers every frame but DATA in memory until its last byte is there, and the transport
//! gives the sender new credit for what is gathered. Without a limit, a peer would only have to
//! announce a frame of a gigabyte. The same came of three other things that `h3` does:
//!
//! - It waits for more, for ever, where a frame ends before the number in it, and goes on behind the
//!   number where the frame does not end with it. Such frames are not shown to it.
//! - It reads another piece of the stream before every frame and every piece of DATA that it hands on,
//!   whatever it has still. No piece goes beyond a frame, or beyond the header of one of DATA.
//! - It takes a stream that ends within a frame of DATA, and a frame of DATA that is empty, for the end
//!   of a body. The first is an error, the second is left out.

use bytes::Bytes;

/// DATA, the frame that is handed on as it comes (RFC 9114 section 7.2.1).
const DATA: u64 = 0x00;
/// HEADERS, which is before DATA and may be behind it (section 7.2.2).
const HEADERS: u64 = 0x01;
/// CANCEL_PUSH, a number (section 7.2.3).
const CANCEL_PUSH: u64 = 0x03;
/// PUSH_PROMISE, a number and fields (section 7.2.5).
const PUSH_PROMISE: u64 = 0x05;
/// GOAWAY, a number (section 7.2.6).
const GOAWAY: u64 = 0x07;
/// MAX_PUSH_ID, a number (section 7.2.7).
const MAX_PUSH_ID: u64 = 0x0d;
/// WEBTRANSPORT_STREAM, behind which there are no more frames.
const WEBTRANSPORT: u64 = 0x41;

/// Follows the frames of a stream (RFC 9114 section 7.1), keeping no more than the beginning of a header.
#[derive(Debug)]
pub(crate) struct FrameGuard {
    max: u64,
    state: State,
    number: Number,
    /// A header whose rest has not come yet, below 16 bytes.
    held: Vec<u8>,
    message: Message,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The type of a frame is next.
    Kind,
    /// Its length is.
    Length { kind: u64 },
    /// All of its payload is, and begins with a number.
    Numbered { kind: u64, length: u64 },
    /// So many bytes of its payload are.
    Payload { kind: u64, left: u64 },
    /// There are no frames any more.
    Raw,
}

/// How much of a message there was (RFC 9114 section 4.1): an empty frame of DATA is only left out where
/// DATA may be. Elsewhere it is for `h3` to refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Nothing,
    Fields,
    Body,
    Trailers,
}

impl Message {
    /// The same with a frame more.
    fn with(self, kind: u64) -> Self {
        match (kind, self) {
            (HEADERS, Self::Nothing | Self::Fields) => Self::Fields,
            (HEADERS, Self::Body | Self::Trailers) => Self::Trailers,
            (DATA, Self::Fields | Self::Body) => Self::Body,
            (_, same) => same,
        }
    }
}

/// Why no more of a stream's frames are passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A frame is too long to be held.
    TooLong {
        /// Its payload, in bytes.
        length: u64,
        /// What would be held.
        max: u64,
    },
    /// A frame ends before the number in it, or behind it where it should end with it (RFC 9114
    /// section 7.1).
    Malformed {
        /// Its type.
        kind: u64,
        /// Its payload, in bytes.
        length: u64,
    },
    /// The stream ends within a frame (RFC 9114 section 7.1).
    Truncated,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong { length, max } => write!(f, "a frame of {length} bytes; at most {max} are held"),
            Self::Malformed { kind, length } => {
                write!(f, "a frame of type {kind:#x} and {length} bytes is not as long as the number in it")
            }
            Self::Truncated => write!(f, "the stream ends within a frame"),
        }
    }
}

impl std::error::Error for Broken {}

impl FrameGuard {
    /// For a stream that begins with a frame; `max` bytes of payload are held.
    pub(crate) fn new(max: u64) -> Self {
        let (state, number, message) = (State::Kind, Number::default(), Message::Nothing);
        Self { max, state, number, held: Vec::new(), message }
    }

    /// Takes the next piece from the front of what has come: a frame that is whole and not of DATA, a header,
    /// or as much of a payload as there is. It is empty if nothing of what was taken is to be passed on yet,
    /// or at all.
    ///
    /// # Errors
    /// If a frame is too long, or malformed.
    pub(crate) fn next(&mut self, come: &mut Bytes) -> Result<Bytes, Broken> {
        match self.state {
            State::Kind | State::Length { .. } => self.header(come),
            State::Numbered { kind, length } => {
                let Some(&first) = come.first() else { return Ok(Bytes::new()) };
                let number = u64::from(Number::size(first));
                let fits = if kind == PUSH_PROMISE { number <= length } else { number == length };
                if fits {
                    Ok(self.payload(kind, length, come))
                } else {
                    Err(Broken::Malformed { kind, length })
                }
            }
            State::Payload { kind, left } => Ok(self.payload(kind, left, come)),
            State::Raw => Ok(std::mem::take(come)),
        }
    }

    /// Whether the stream may end here.
    ///
    /// # Errors
    /// If this is within a frame.
    pub(crate) fn end(&self) -> Result<(), Broken> {
        match self.state {
            State::Raw => Ok(()),
            State::Kind if self.held.is_empty() => Ok(()),
            _ => Err(Broken::Truncated),
        }
    }

    /// The last piece before the end of a stream that [ends](Self::end) within a frame, or whose frame is
    /// [malformed](Broken::Malformed), so that `h3` finds a frame that is not whole; it may be empty. `None` if
    /// no piece does that: within DATA.
    pub(crate) fn unfinished(&self) -> Option<Bytes> {
        match self.state {
            State::Payload { kind: DATA, .. } => None,
            // It has the beginning of one, which a byte more might complete.
            State::Payload { .. } => Some(Bytes::new()),
            // The first byte of a number of two.
            State::Kind | State::Length { .. } | State::Numbered { .. } | State::Raw => {
                Some(Bytes::from_static(&[0x40]))
            }
        }
    }

    fn payload(&mut self, kind: u64, left: u64, come: &mut Bytes) -> Bytes {
        let taken = usize::try_from(left).map_or(come.len(), |left| left.min(come.len()));
        self.expect(kind, left - taken as u64);
        come.split_to(taken)
    }

    fn expect(&mut self, kind: u64, left: u64) {
        self.state = if left == 0 { State::Kind } else { State::Payload { kind, left } };
    }

    fn header(&mut self, come: &mut Bytes) -> Result<Bytes, Broken> {
        let whole = come.iter().enumerate().find_map(|(at, &byte)| Some((at, self.push(byte)?)));
        let Some((last, (kind, length))) = whole else {
            self.held.extend_from_slice(come);
            *come = Bytes::new();
            return Ok(Bytes::new());
        };
        self.begin(kind, length)?;
        let mut payload = come.slice(last + 1..);
        if kind != DATA && self.held.is_empty() && (1..=payload.len() as u64).contains(&length) {
            let size = last + 1 + self.next(&mut payload)?.len();
            return Ok(come.split_to(size));
        }
        let mut header = come.split_to(last + 1);
        if !self.held.is_empty() {
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(&header);
            header = held.into();
        }
        let nothing = kind == DATA && length == 0 && self.message == Message::Body;
        Ok(if nothing { Bytes::new() } else { header })
    }

    /// Takes a byte of a header; gives the frame's type and length with the last.
    fn push(&mut self, byte: u8) -> Option<(u64, u64)> {
        let value = self.number.push(byte)?;
        match self.state {
            State::Length { kind } => Some((kind, value)),
            // Which has no length.
            _ if value == WEBTRANSPORT => Some((WEBTRANSPORT, 0)),
            _ => {
                self.state = State::Length { kind: value };
                None
            }
        }
    }

    /// Says what is behind a header.
    fn begin(&mut self, kind: u64, length: u64) -> Result<(), Broken> {
        if kind != DATA && length > self.max {
            return Err(Broken::TooLong { length, max: self.max });
        }
        self.message = self.message.with(kind);
        match kind {
            WEBTRANSPORT => self.state = State::Raw,
            CANCEL_PUSH | PUSH_PROMISE | GOAWAY | MAX_PUSH_ID => {
                if length == 0 {
                    return Err(Broken::Malformed { kind, length });
                }
                self.state = State::Numbered { kind, length };
            }
            _ => self.expect(kind, length),
        }
        Ok(())
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
            self.left = Self::size(byte);
            self.value = u64::from(byte & 0x3f);
        } else {
            self.value = self.value << 8 | u64::from(byte);
        }
        self.left -= 1;
        (self.left == 0).then_some(self.value)
    }

    /// How many bytes it has that begins with this one.
    fn size(first: u8) -> u32 {
        1 << (first >> 6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces that a guard of 100 bytes passes on of a stream that comes in these parts.
    fn pieces(parts: &[&[u8]]) -> Result<Vec<Bytes>, Broken> {
        let mut guard = FrameGuard::new(100);
        let mut pieces = Vec::new();
        for part in parts {
            let mut come = Bytes::copy_from_slice(part);
            while !come.is_empty() {
                pieces.push(guard.next(&mut come)?);
            }
        }
        guard.end()?;
        pieces.retain(|piece| !piece.is_empty());
        Ok(pieces)
    }

    /// What is passed on of a stream, whichever way it is cut into two, or byte by byte.
    fn pass(bytes: &[u8]) -> Result<Vec<u8>, Broken> {
        let mut outcomes: Vec<_> =
            (0..=bytes.len()).map(|cut| pieces(&[&bytes[..cut], &bytes[cut..]])).collect();
        outcomes.push(pieces(&bytes.chunks(1).collect::<Vec<_>>()));
        let mut outcomes: Vec<Result<Vec<u8>, Broken>> =
            outcomes.into_iter().map(|outcome| outcome.map(|pieces| pieces.concat())).collect();
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:?}");
        outcomes.swap_remove(0)
    }

    /// Passes all of it on.
    fn passes(bytes: &[u8]) {
        assert_eq!(pass(bytes), Ok(bytes.to_vec()));
    }

    fn too_long(length: u64) -> Result<Vec<u8>, Broken> {
        Err(Broken::TooLong { length, max: 100 })
    }

    #[test]
    fn the_longest_that_is_held_and_one_byte_more() {
        let headers = |length: u8| [&[0x01, 0x40, length][..], &vec![0; length.into()]].concat();
        passes(&headers(100));
        assert_eq!(pass(&headers(101)), too_long(101));
        passes(&[headers(100), headers(100)].concat());
        assert_eq!(pass(&[headers(100), headers(101)].concat()), too_long(101));
    }

    #[test]
    fn data_may_be_as_long_as_it_likes() {
        let mut bytes = vec![0x00, 0x44, 0x00];
        bytes.extend([0xff; 0x400]);
        passes(&bytes);
        bytes.extend([0x01, 0x80, 0x01, 0x00, 0x00]);
        assert_eq!(pass(&bytes), too_long(0x1_0000));
    }

    #[test]
    fn frames_nobody_knows_count_and_the_empty_are_none() {
        passes(&[0x21, 0x00, 0x40, 0x21, 0x00, 0x01, 0x00]);
        let unknown = [&[0x21][..], &[0xff; 8]].concat();
        assert_eq!(pass(&unknown), too_long((1 << 62) - 1));
    }

    #[test]
    fn behind_webtransport_there_are_no_frames() {
        passes(&[0x40, 0x41, 0x00, 0x01, 0x80, 0xff, 0xff, 0xff]);
        passes(&[0x40, 0x41]);
    }

    /// RFC 9114 section 7.1, for CANCEL_PUSH, GOAWAY and MAX_PUSH_ID.
    #[test]
    fn a_frame_of_a_number_is_as_long_as_the_number() {
        for kind in [0x03_u8, 0x07, 0x0d] {
            for size in [1_u8, 2, 4, 8] {
                let number =
                    [&[(size.trailing_zeros() as u8) << 6][..], &vec![0; usize::from(size) - 1]].concat();
                passes(&[&[kind, size][..], &number, &[0x21, 0x00]].concat());
                for wrong in (0..=9).filter(|length| *length != size) {
                    // Enough of what `h3` would take for frames, or wait for.
                    let bytes = [&[kind, wrong][..], &number, &[0; 100]].concat();
                    let malformed = Broken::Malformed { kind: kind.into(), length: wrong.into() };
                    assert_eq!(pass(&bytes), Err(malformed), "{size} bytes");
                }
            }
        }
    }

    #[test]
    fn a_promise_is_not_shorter_than_its_number() {
        passes(&[0x05, 0x01, 0x00]);
        passes(&[0x05, 0x03, 0x40, 0x00, 0xd1]);
        for bytes in
            [&[0x05_u8, 0x00, 0x21, 0x00][..], &[0x05, 0x01, 0x40, 0x00], &[0x05, 0x03, 0x80, 0, 0, 0]]
        {
            let malformed = Broken::Malformed { kind: 0x05, length: bytes[1].into() };
            assert_eq!(pass(bytes), Err(malformed), "{bytes:x?}");
        }
    }

    #[test]
    fn a_stream_ends_between_frames() {
        let whole = [0x01, 0x01, 0xd1, 0x40, 0x00, 0x40, 0x02, 0xaa, 0xbb];
        for length in 0..=whole.len() {
            let outcome = pass(&whole[..length]);
            match length {
                0 | 3 | 9 => assert_eq!(outcome, Ok(whole[..length].to_vec())),
                _ => assert_eq!(outcome, Err(Broken::Truncated), "{length} bytes"),
            }
        }
    }

    #[test]
    fn empty_data_is_left_out_of_a_body() {
        const FIELDS: [u8; 3] = [0x01, 0x01, 0xd1];
        const SOME: [u8; 4] = [0x00, 0x02, 0xaa, 0xbb];
        // In any number of bytes.
        let empty: [&[u8]; 3] = [&[0x00, 0x00], &[0x40, 0x00, 0x00], &[0x00, 0xc0, 0, 0, 0, 0, 0, 0, 0]];
        for empty in empty {
            let without = [&FIELDS[..], &SOME, &SOME, &FIELDS].concat();
            let with = [&FIELDS[..], empty, &SOME, empty, empty, &SOME, empty, &FIELDS].concat();
            assert_eq!(pass(&with), Ok(without));
            assert_eq!(pass(&[&FIELDS[..], empty].concat()), Ok(FIELDS.to_vec()));
            // Where there must be none, `h3` sees it and says so.
            passes(&[empty, &FIELDS].concat());
            passes(&[&FIELDS[..], &SOME, &FIELDS, empty].concat());
        }
    }

    /// `h3` reads a piece for each that it consumes.
    #[test]
    fn no_piece_goes_beyond_a_frame_or_a_header_of_data() {
        let frames =
            [0x01, 0x01, 0xd1, 0x00, 0x01, 0xaa, 0x00, 0x02, 0xbb, 0xcc, 0x21, 0x00, 0x07, 0x01, 0x00];
        let pieces = pieces(&[&frames]).unwrap();
        let expected: [&[u8]; 7] = [
            &[0x01, 0x01, 0xd1],
            &[0x00, 0x01],
            &[0xaa],
            &[0x00, 0x02],
            &[0xbb, 0xcc],
            &[0x21, 0x00],
            &[0x07, 0x01, 0x00],
        ];
        assert_eq!(pieces, expected);
    }
}
