//! Finds the end of a chunked body (RFC 9112 section 7.1) without reading what is in it. What hyper would take
//! offence at is none: the program is to blame for that, and not the origin server.

use super::head::MAX_FIELDS;

/// The longest line that tells a chunk's size, and all trailer fields together, in bytes.
const MAX_LINES: usize = 4 * 1024;
/// Bytes of all chunk extensions of a body together (RFC 9112 section 7.1.1): so many hyper refuses.
const MAX_EXTENSIONS: usize = 16 * 1024;

/// Where in a chunked body we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunks {
    at: At,
    /// Bytes of the present size line, or of the trailer section.
    line: usize,
    /// Bytes of extensions so far.
    extensions: usize,
    /// Trailer fields so far.
    fields: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In the digits of a size; `None` before the first.
    Size(Option<u64>),
    /// In spaces after a size, which may only lead to an extension or the end of the line.
    Space(u64),
    /// In an extension, which nobody here understands.
    Extension(u64),
    /// Before the line feed that ends the line of a size.
    SizeEnd(u64),
    /// In a chunk of which so many bytes are missing.
    Data(u64),
    /// Before the line end after a chunk.
    DataCr,
    DataLf,
    /// At the beginning of a line after the last chunk.
    Line,
    /// In the name of a trailer field.
    Name,
    /// In its value.
    Trailer,
    TrailerLf,
    /// Before the last line feed.
    End,
}

/// It is no chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadChunk;

impl Chunks {
    pub(super) fn new() -> Self {
        Self { at: At::Size(None), line: 0, extensions: 0, fields: 0 }
    }

    /// How many of `bytes`, which go on where the last ones ended, belong to the body, and whether
    /// it ends there.
    pub(super) fn scan(&mut self, bytes: &[u8]) -> Result<(usize, bool), BadChunk> {
        let mut i = 0;
        while let Some(&byte) = bytes.get(i) {
            if let At::Data(missing) = self.at {
                let taken = missing.min((bytes.len() - i) as u64);
                i += taken as usize;
                self.at = if taken == missing { At::DataCr } else { At::Data(missing - taken) };
                continue;
            }
            i += 1;
            if self.at == At::End {
                return if byte == b'\n' { Ok((i, true)) } else { Err(BadChunk) };
            }
            self.at = self.step(byte)?;
        }
        Ok((i, false))
    }

    fn step(&mut self, byte: u8) -> Result<At, BadChunk> {
        self.line += 1;
        if self.line > MAX_LINES {
            return Err(BadChunk);
        }
        Ok(match (self.at, byte) {
            (At::Size(size), _) if byte.is_ascii_hexdigit() => At::Size(Some(append(size, byte)?)),
            (At::Size(Some(size)) | At::Space(size), b' ' | b'\t') => At::Space(size),
            (At::Size(Some(size)) | At::Space(size), b';') => At::Extension(size),
            (At::Size(Some(size)) | At::Space(size) | At::Extension(size), b'\r') => At::SizeEnd(size),
            (At::Extension(size), _) if is_text(byte) => {
                self.extensions += 1;
                if self.extensions >= MAX_EXTENSIONS {
                    return Err(BadChunk);
                }
                At::Extension(size)
            }
            (At::SizeEnd(size), b'\n') => {
                self.line = 0;
                if size == 0 { At::Line } else { At::Data(size) }
            }
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => {
                self.line = 0;
                At::Size(None)
            }
            (At::Line, b'\r') => At::End,
            // A line that begins with a space would be a folded one.
            (At::Line | At::Name, _) if is_token(byte) => At::Name,
            (At::Name, b':') => At::Trailer,
            (At::Trailer, b'\r') => At::TrailerLf,
            (At::Trailer, _) if is_text(byte) => At::Trailer,
            (At::TrailerLf, b'\n') if self.fields < MAX_FIELDS => {
                self.fields += 1;
                At::Line
            }
            _ => return Err(BadChunk),
        })
    }
}

fn append(size: Option<u64>, digit: u8) -> Result<u64, BadChunk> {
    let digit = char::from(digit).to_digit(16).ok_or(BadChunk)?;
    size.unwrap_or(0).checked_mul(16).map(|size| size | u64::from(digit)).ok_or(BadChunk)
}

/// Of the name of a field (RFC 9110 section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Neither a control character nor the end of a line.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ends_are_found() {
        for body in [
            "0\r\n\r\n",
            "5\r\nhello\r\n0\r\n\r\n",
            "5;a=b\r\nhello\r\n000\r\n\r\n",
            "A \t;x=\"y\"\r\n0123456789\r\n0;z\r\nTrailer: x\r\nOther: y\r\n\r\n",
        ] {
            let with_more = [body, "GET http://b/"].concat();
            assert_eq!(Chunks::new().scan(with_more.as_bytes()), Ok((body.len(), true)), "{body:?}");
            assert_eq!(
                Chunks::new().scan(&body.as_bytes()[..body.len() - 1]),
                Ok((body.len() - 1, false)),
                "{body:?}"
            );
        }
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        for body in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "+5\r\n",
            "0x5\r\nhello\r\n",
            " 5\r\nhello\r\n",
            "5 5\r\nhello\r\n",
            "5\nhello\r\n",
            "5\rhello\r\n",
            "5;a\nb\r\nhello\r\n",
            "5;a\rb\r\nhello\r\n",
            "5;\0\r\nhello\r\n",
            "5\r\nhelloworld\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "0\r\n\n",
            "0\r\n folded: x\r\n\r\n",
            "0\r\nA: b\nc: d\r\n\r\n",
            "0\r\nno field\r\n\r\n",
            "0\r\n: nameless\r\n\r\n",
            "0\r\nA : b\r\n\r\n",
            "10000000000000000\r\n",
        ] {
            assert_eq!(Chunks::new().scan(body.as_bytes()), Err(BadChunk), "{body:?}");
        }
        let long = format!("5;{}\r\n", "a".repeat(MAX_LINES));
        assert_eq!(Chunks::new().scan(long.as_bytes()), Err(BadChunk));
        let trailers = format!("0\r\nA: {}\r\n\r\n", "b".repeat(MAX_LINES));
        assert_eq!(Chunks::new().scan(trailers.as_bytes()), Err(BadChunk));
    }

    /// It would be a 502 otherwise, as if the origin server were at fault.
    #[test]
    fn what_hyper_has_no_room_for_is_no_chunk() {
        let chunk = format!("1;{}\r\nx\r\n", "a".repeat(MAX_EXTENSIONS / 16 - 1));
        let extended = |chunks| format!("{}0\r\n\r\n", chunk.repeat(chunks));
        let trailed = |fields| format!("0\r\n{}\r\n", "A: b\r\n".repeat(fields));
        for (fits, too_much) in [(extended(16), extended(17)), (trailed(MAX_FIELDS), trailed(MAX_FIELDS + 1))]
        {
            assert_eq!(Chunks::new().scan(fits.as_bytes()), Ok((fits.len(), true)));
            assert_eq!(Chunks::new().scan(too_much.as_bytes()), Err(BadChunk));
        }
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            chunks in proptest::collection::vec("[a-z\r\n]{1,20}", 0..4),
            garbage in "[0-9a-f;\r\n ]{0,8}",
            piece in 1usize..9,
        ) {
            let mut body: String = chunks.iter().map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len())).collect();
            body += &garbage;
            body += "0\r\n\r\nrest";
            let whole = Chunks::new().scan(body.as_bytes());
            let (mut chunked, mut length) = (Chunks::new(), 0);
            let mut in_pieces = Ok((0, false));
            for bytes in body.as_bytes().chunks(piece) {
                in_pieces = chunked.scan(bytes).map(|(taken, end)| {
                    length += taken;
                    (length, end)
                });
                if !matches!(in_pieces, Ok((_, false))) {
                    break;
                }
            }
            prop_assert_eq!(whole, in_pieces);
        }
    }
}
