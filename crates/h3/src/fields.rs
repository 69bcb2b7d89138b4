//! The fields of responses as QPACK has them (RFC 9204), without a table of our own and without Huffman's code.
//!
//! `h3` writes Huffman's code bit by bit, an eighth of a server's time where responses are small; without it
//! they are some 30 bytes longer (docs/decisions/0044).

mod static_table;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use self::static_table::{Found, find};
use crate::malformed::OF_CONNECTIONS;

/// What a field counts for besides its name and value, in bytes (RFC 9114 section 4.2.2).
const OVERHEAD: usize = 32;
/// A frame of HEADERS, before its length is known, which mostly takes two bytes (RFC 9114 section 7.2.2).
const HEAD: [u8; 3] = [0x01, 0, 0];
/// Neither dynamic table nor base (RFC 9204 section 4.5.1).
const PREFIX: [u8; 2] = [0, 0];

/// A frame with the fields of a response, without those of connections; `None` if they count for more than
/// `most` bytes (RFC 9114 section 4.2.2).
pub(crate) fn encode(status: StatusCode, fields: &HeaderMap, most: u64) -> Option<Bytes> {
    let mut frame = Vec::with_capacity(256);
    frame.extend(HEAD);
    frame.extend(PREFIX);
    let mut size = 0;
    let mut push = |name: &str, value: &[u8], never_indexed| {
        size += (name.len() + value.len() + OVERHEAD) as u64;
        push_field(&mut frame, name, value, never_indexed);
    };
    push(":status", status.as_str().as_bytes(), false);
    for (name, value) in fields.iter().filter(|(name, _)| !OF_CONNECTIONS.contains(name)) {
        push(name.as_str(), value.as_bytes(), value.is_sensitive());
    }
    say_length(&mut frame);
    (size <= most).then(|| frame.into())
}

/// Says in the head of a frame how long it is (RFC 9000 section 16).
fn say_length(frame: &mut Vec<u8>) {
    let length = frame.len() - HEAD.len();
    match u16::try_from(length) {
        Ok(length @ ..0x4000) => frame[1..HEAD.len()].copy_from_slice(&(length | 0x4000).to_be_bytes()),
        _ => drop(frame.splice(1..HEAD.len(), (length as u64 | 0xc000_0000_0000_0000).to_be_bytes())),
    }
}

/// A field line (RFC 9204 sections 4.5.2, 4.5.4 and 4.5.6). What is `never_indexed` stays so on its further way.
fn push_field(section: &mut Vec<u8>, name: &str, value: &[u8], never_indexed: bool) {
    match find(name, value) {
        Some(Found::Field(index)) if !never_indexed => push_integer(section, 0xc0, 6, index.into()),
        Some(Found::Field(index) | Found::Name(index)) => {
            push_integer(section, if never_indexed { 0x70 } else { 0x50 }, 4, index.into());
            push_string(section, 0, 7, value);
        }
        None => {
            push_string(section, if never_indexed { 0x30 } else { 0x20 }, 3, name.as_bytes());
            push_string(section, 0, 7, value);
        }
    }
}

/// A string as it is (RFC 9204 section 4.1.2): the bit for Huffman's code, before the length, is not set.
fn push_string(section: &mut Vec<u8>, pattern: u8, prefix: u32, string: &[u8]) {
    push_integer(section, pattern, prefix, string.len());
    section.extend(string);
}

/// An integer with a prefix of so many bits behind a pattern (RFC 7541 section 5.1).
fn push_integer(section: &mut Vec<u8>, pattern: u8, prefix: u32, integer: usize) {
    let most = (1 << prefix) - 1;
    let Some(mut rest) = integer.checked_sub(most) else {
        section.push(pattern | integer as u8);
        return;
    };
    section.push(pattern | most as u8);
    while rest >= 0x80 {
        section.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    section.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn field(name: &str, value: &[u8], never_indexed: bool) -> Vec<u8> {
        let mut section = Vec::new();
        push_field(&mut section, name, value, never_indexed);
        section
    }

    /// RFC 9204 appendix B.1.
    #[test]
    fn a_name_of_the_static_table() {
        assert_eq!(field(":path", b"/index.html", false), b"\x51\x0b/index.html");
    }

    #[test]
    fn each_form_of_a_field_line() {
        assert_eq!(field(":status", b"200", false), [0xd9]);
        // Index 98 is more than six bits.
        assert_eq!(field("x-frame-options", b"sameorigin", false), [0xff, 98 - 63]);
        assert_eq!(field("date", b"", true), [0x76, 0]);
        assert_eq!(field("x-frame-options", b"x", true), [0x7f, 97 - 15, 1, b'x']);
        assert_eq!(field("a", b"bc", false), b"\x21a\x02bc");
        assert_eq!(field("a-long-name", b"", true), b"\x37\x04a-long-name\0");
    }

    /// RFC 7541 appendices C.1.1 to C.1.3.
    #[test]
    fn integers() {
        for (prefix, integer, bytes) in
            [(5, 10, &[10][..]), (5, 1337, &[0x1f, 0x9a, 0x0a]), (8, 42, &[42]), (3, 7, &[7, 0])]
        {
            let mut section = Vec::new();
            push_integer(&mut section, 0, prefix, integer);
            assert_eq!(section, bytes, "{integer}");
        }
    }

    #[test]
    fn a_response_counts_as_its_fields_do() {
        let mut fields = HeaderMap::new();
        fields.insert(HeaderName::from_static("keep-alive"), HeaderValue::from_static("1"));
        for value in ["1", "22"] {
            fields.append(HeaderName::from_static("name"), HeaderValue::from_static(value));
        }
        let size = (7 + 3 + 32) + (4 + 1 + 32) + (4 + 2 + 32);
        assert_eq!(encode(StatusCode::OK, &fields, size - 1), None);
        let encoded = encode(StatusCode::OK, &fields, size).expect("it is as large as it may be");
        assert_eq!(*encoded, *b"\x01\x40\x12\0\0\xd9\x24name\x011\x24name\x0222");
    }

    #[test]
    fn a_frame_says_its_length() {
        for (length, head) in [
            (0, &[0x01_u8, 0x40, 0x00][..]),
            ((1 << 14) - 1, &[0x01, 0x7f, 0xff]),
            (1 << 14, &[0x01, 0xc0, 0, 0, 0, 0, 0, 0x40, 0]),
            (1 << 16, &[0x01, 0xc0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let mut frame = [&HEAD[..], &vec![7; length]].concat();
            say_length(&mut frame);
            assert_eq!(frame, [head, &vec![7; length]].concat(), "{length}");
        }
    }
}
