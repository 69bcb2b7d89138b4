//! Whether pseudo-header fields make a request: each once, before all others, and none of a response
//! (RFC 9114 section 4.3).
//!
//! Of several that are alike `h3` takes the last, and does not say that there were others. That is told
//! by QPACK alone (RFC 9204 section 4.5), of which no more is read here than tells names apart: nothing
//! is decoded. What cannot be read is for `h3` to refuse.

use crate::malformed::Malformed;

/// What a field is by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Authority,
    Method,
    Path,
    Protocol,
    Scheme,
    /// Of responses alone.
    Status,
    /// No pseudo-header field, or one that `h3` does not know.
    Other,
}

/// How names begin in Huffman's code, as far as it tells them apart, and in how many bits (RFC 7541
/// appendix B): `:a`, `:m`, `:pa`, `:pr`, `:sc`, `:st`.
const CODED: [(u32, u32, Kind); 6] = [
    (0x5c << 5 | 0x03, 12, Kind::Authority),
    (0x5c << 6 | 0x29, 13, Kind::Method),
    ((0x5c << 6 | 0x2b) << 5 | 0x03, 18, Kind::Path),
    ((0x5c << 6 | 0x2b) << 6 | 0x2c, 19, Kind::Protocol),
    ((0x5c << 5 | 0x08) << 5 | 0x04, 17, Kind::Scheme),
    ((0x5c << 5 | 0x08) << 5 | 0x09, 17, Kind::Status),
];

/// Looks at the fields of a request, as a frame of HEADERS has them.
///
/// # Errors
/// If they do not make a request.
pub(super) fn check(section: &[u8]) -> Result<(), Malformed> {
    let (mut seen, mut behind) = (0_u8, false);
    for kind in kinds(section) {
        if kind == Kind::Other {
            behind = true;
            continue;
        }
        let bit = 1 << kind as u8;
        if behind || kind == Kind::Status || seen & bit != 0 {
            return Err(Malformed);
        }
        seen |= bit;
    }
    Ok(())
}

/// What the fields of a section are, up to its end or to what cannot be read.
fn kinds(section: &[u8]) -> impl Iterator<Item = Kind> {
    let mut rest = Rest(section);
    let begins = rest.integer(8).and_then(|_| rest.integer(7)).is_some();
    std::iter::from_fn(move || if begins { rest.kind() } else { None })
}

/// What is left of a section.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    /// The next field. One of a dynamic table, which there is none of, cannot be read.
    fn kind(&mut self) -> Option<Kind> {
        match *self.0.first()? {
            line @ 0x80.. => {
                let index = self.integer(6)?;
                (line & 0x40 != 0).then(|| in_table(index))
            }
            line @ 0x40.. => {
                let index = self.integer(4)?;
                self.string(7)?;
                (line & 0x10 != 0).then(|| in_table(index))
            }
            0x20.. => {
                let (is_coded, name) = self.string(3)?;
                self.string(7)?;
                Some(if is_coded { coded(name) } else { named(name) })
            }
            _ => None,
        }
    }

    /// An integer with a prefix of so many bits (RFC 7541 section 5.1).
    fn integer(&mut self, prefix: u32) -> Option<usize> {
        let most = (1_u128 << prefix) - 1;
        let mut value = u128::from(self.byte()?) & most;
        if value == most {
            let mut power = 0;
            loop {
                let byte = self.byte()?;
                value += u128::from(byte & 0x7f) << power;
                power += 7;
                if byte & 0x80 == 0 {
                    break;
                }
                // More than `h3` takes.
                if power > 70 {
                    return None;
                }
            }
        }
        usize::try_from(value).ok()
    }

    /// A string behind a prefix of so many bits for its length, and whether it is in Huffman's code (RFC 9204
    /// section 4.1.2).
    fn string(&mut self, prefix: u32) -> Option<(bool, &'a [u8])> {
        let is_coded = *self.0.first()? >> prefix & 1 == 1;
        let length = self.integer(prefix)?;
        let (string, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some((is_coded, string))
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }
}

/// By its place in the static table (RFC 9204 appendix A).
fn in_table(index: usize) -> Kind {
    match index {
        0 => Kind::Authority,
        1 => Kind::Path,
        15..=21 => Kind::Method,
        22 | 23 => Kind::Scheme,
        24..=28 | 63..=71 => Kind::Status,
        _ => Kind::Other,
    }
}

fn named(name: &[u8]) -> Kind {
    match name {
        b":authority" => Kind::Authority,
        b":method" => Kind::Method,
        b":path" => Kind::Path,
        b":protocol" => Kind::Protocol,
        b":scheme" => Kind::Scheme,
        b":status" => Kind::Status,
        _ => Kind::Other,
    }
}

/// By the first letters: `h3` takes no others that begin with them.
fn coded(name: &[u8]) -> Kind {
    let bytes = name.iter().copied().chain([0; 4]).take(4);
    let first = bytes.fold(0_u32, |bits, byte| bits << 8 | u32::from(byte));
    let found = CODED.iter().find(|(code, length, _)| first >> (u32::BITS - length) == *code);
    found.map_or(Kind::Other, |(_, _, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `:method: GET`, `:scheme: https`, `:path: /` and `:authority: x`.
    const ROOT: &[u8] = &[0, 0, 0xd1, 0xd7, 0xc1, 0x50, 1, b'x'];
    /// `accept: */*`.
    const ACCEPT: &[u8] = &[0xdd];

    fn with(more: &[&[u8]]) -> Result<(), Malformed> {
        check(&[ROOT, &more.concat()].concat())
    }

    #[test]
    fn pseudo_headers_come_once_and_first() {
        assert_eq!(with(&[]), Ok(()));
        assert_eq!(with(&[ACCEPT, ACCEPT]), Ok(()));
        // As websockets ask, and in either form.
        let protocol: [&[u8]; 2] = [b"\x27\x02:protocol\x01x", b"\x2f\x00\xb9\x5d\x87\x49\xc8\x7a\x3f\x01x"];
        assert_eq!(with(&[protocol[0], ACCEPT]), Ok(()));
        assert_eq!(with(&[protocol[1], ACCEPT]), Ok(()));
        assert_eq!(with(&protocol), Err(Malformed));
        assert_eq!(with(&[ACCEPT, protocol[0]]), Err(Malformed));
    }

    #[test]
    fn one_that_comes_again_is_seen_in_every_form() {
        let again: [&[u8]; 9] = [
            // All of it, and its name, from the static table.
            &[0xc1],
            &[0x51, 1, b'/'],
            &[0x5f, 0, 1, b'x'],
            &[0x5f, 8, 1, b'x'],
            // Never to be indexed.
            &[0x71, 1, b'/'],
            // Spelled out.
            b"\x25:path\x01/",
            b"\x27\x03:authority\x01x",
            // In Huffman's code.
            b"\x2c\xb9\x58\xd3\x3f\x01/",
            b"\x2f\x01\xb8\x3b\x53\x39\xec\x32\x7d\x7f\x01x",
        ];
        for again in again {
            assert_eq!(with(&[again]), Err(Malformed), "{again:x?}");
            // Nor behind others.
            let late = [&[0, 0][..], ACCEPT, again].concat();
            assert_eq!(check(&late), Err(Malformed), "{again:x?}");
            assert_eq!(check(&[&[0, 0][..], again].concat()), Ok(()), "once, and nothing else: {again:x?}");
        }
    }

    #[test]
    fn a_request_has_no_status() {
        let status: [&[u8]; 4] =
            [&[0xd9], b"\x5f\x09\x03200", b"\x27\x00:status\x03200", b"\x2d\xb8\x84\x8d\x36\xa3\x03200"];
        for status in status {
            assert_eq!(with(&[status]), Err(Malformed), "{status:x?}");
        }
    }

    /// RFC 7541 appendix B, written out.
    #[test]
    fn names_in_huffmans_code() {
        let coded_names: [(&[u8], Kind); 7] = [
            (&[0xb8, 0x3b, 0x53, 0x39, 0xec, 0x32, 0x7d, 0x7f], Kind::Authority),
            (&[0xb9, 0x49, 0x53, 0x39, 0xe4], Kind::Method),
            (&[0xb9, 0x58, 0xd3, 0x3f], Kind::Path),
            (&[0xb9, 0x5d, 0x87, 0x49, 0xc8, 0x7a, 0x3f], Kind::Protocol),
            (&[0xb8, 0x82, 0x4e, 0x5a, 0x4b], Kind::Scheme),
            (&[0xb8, 0x84, 0x8d, 0x36, 0xa3], Kind::Status),
            // `cookie`.
            (&[0x21, 0xcf, 0xd4, 0xc5], Kind::Other),
        ];
        for (name, kind) in coded_names {
            assert_eq!(coded(name), kind, "{name:x?}");
        }
        assert_eq!(coded(&[]), Kind::Other);
    }

    /// Whatever is wrong with it, `h3` says.
    #[test]
    fn what_cannot_be_read_ends_the_list() {
        let broken: [&[u8]; 6] = [&[0x81], &[0x41, 1, b'/'], &[0x10], &[0x00], &[0x51, 9, b'/'], &[0xff; 20]];
        for broken in broken {
            assert_eq!(with(&[broken, &[0xc1]]), Ok(()), "{broken:x?}");
        }
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[0xff; 40]), Ok(()));
    }
}
