//! The static table of QPACK (RFC 9204 appendix A).

/// A name, and values of it with their indices.
type Named = (&'static str, &'static [(&'static str, u8)]);

/// Names, each with its values and their indices: short names first, names of one length in their order, and so the
/// indices of a name.
#[rustfmt::skip]
const STATIC_TABLE: [Named; 52] = [
    ("age", &[("0", 2)]),
    ("date", &[("", 6)]),
    ("etag", &[("", 7)]),
    ("link", &[("", 11)]),
    ("vary", &[("accept-encoding", 59), ("origin", 60)]),
    (":path", &[("/", 1)]),
    ("range", &[("bytes=0-", 55)]),
    ("accept", &[("*/*", 29), ("application/dns-message", 30)]),
    ("cookie", &[("", 5)]),
    ("origin", &[("", 90)]),
    ("server", &[("", 92)]),
    (":method", &[
        ("CONNECT", 15),
        ("DELETE", 16),
        ("GET", 17),
        ("HEAD", 18),
        ("OPTIONS", 19),
        ("POST", 20),
        ("PUT", 21),
    ]),
    (":scheme", &[("http", 22), ("https", 23)]),
    (":status", &[
        ("103", 24),
        ("200", 25),
        ("304", 26),
        ("404", 27),
        ("503", 28),
        ("100", 63),
        ("204", 64),
        ("206", 65),
        ("302", 66),
        ("400", 67),
        ("403", 68),
        ("421", 69),
        ("425", 70),
        ("500", 71),
    ]),
    ("alt-svc", &[("clear", 83)]),
    ("purpose", &[("prefetch", 91)]),
    ("referer", &[("", 13)]),
    ("if-range", &[("", 89)]),
    ("location", &[("", 12)]),
    ("expect-ct", &[("", 87)]),
    ("forwarded", &[("", 88)]),
    (":authority", &[("", 0)]),
    ("early-data", &[("1", 86)]),
    ("set-cookie", &[("", 14)]),
    ("user-agent", &[("", 95)]),
    ("content-type", &[
        ("application/dns-message", 44),
        ("application/javascript", 45),
        ("application/json", 46),
        ("application/x-www-form-urlencoded", 47),
        ("image/gif", 48),
        ("image/jpeg", 49),
        ("image/png", 50),
        ("text/css", 51),
        ("text/html; charset=utf-8", 52),
        ("text/plain", 53),
        ("text/plain;charset=utf-8", 54),
    ]),
    ("accept-ranges", &[("bytes", 32)]),
    ("authorization", &[("", 84)]),
    ("cache-control", &[
        ("max-age=0", 36),
        ("max-age=2592000", 37),
        ("max-age=604800", 38),
        ("no-cache", 39),
        ("no-store", 40),
        ("public, max-age=31536000", 41),
    ]),
    ("if-none-match", &[("", 9)]),
    ("last-modified", &[("", 10)]),
    ("content-length", &[("0", 4)]),
    ("accept-encoding", &[("gzip, deflate, br", 31)]),
    ("accept-language", &[("", 72)]),
    ("x-forwarded-for", &[("", 96)]),
    ("x-frame-options", &[("deny", 97), ("sameorigin", 98)]),
    ("content-encoding", &[("br", 42), ("gzip", 43)]),
    ("x-xss-protection", &[("1; mode=block", 62)]),
    ("if-modified-since", &[("", 8)]),
    ("content-disposition", &[("", 3)]),
    ("timing-allow-origin", &[("*", 93)]),
    ("x-content-type-options", &[("nosniff", 61)]),
    ("content-security-policy", &[("script-src 'none'; object-src 'none'; base-uri 'none'", 85)]),
    ("strict-transport-security", &[
        ("max-age=31536000", 56),
        ("max-age=31536000; includesubdomains", 57),
        ("max-age=31536000; includesubdomains; preload", 58),
    ]),
    ("upgrade-insecure-requests", &[("1", 94)]),
    ("access-control-allow-origin", &[("*", 35)]),
    ("access-control-allow-headers", &[("cache-control", 33), ("content-type", 34), ("*", 75)]),
    ("access-control-allow-methods", &[("get", 76), ("get, post, options", 77), ("options", 78)]),
    ("access-control-expose-headers", &[("content-length", 79)]),
    ("access-control-request-method", &[("get", 81), ("post", 82)]),
    ("access-control-request-headers", &[("content-type", 80)]),
    ("access-control-allow-credentials", &[("FALSE", 73), ("TRUE", 74)]),
];

/// The longest name, in bytes.
const LONGEST: usize = STATIC_TABLE[STATIC_TABLE.len() - 1].0.len();

/// Where the names of each length begin: length tells nearly all of them apart.
static OF_LENGTH: [u8; LONGEST + 2] = begins();

const fn begins() -> [u8; LONGEST + 2] {
    let (mut begins, mut length) = ([0; LONGEST + 2], 1);
    while length < begins.len() {
        let mut at = begins[length - 1];
        while (at as usize) < STATIC_TABLE.len() && STATIC_TABLE[at as usize].0.len() < length {
            at += 1;
        }
        begins[length] = at;
        length += 1;
    }
    begins
}

/// What the table has of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The field, at this index.
    Field(u8),
    /// Its name, at this index.
    Name(u8),
}

/// Looks for a field.
pub(super) fn find(name: &str, value: &[u8]) -> Option<Found> {
    let (begin, end) = (*OF_LENGTH.get(name.len())?, *OF_LENGTH.get(name.len() + 1)?);
    let alike = &STATIC_TABLE[usize::from(begin)..usize::from(end)];
    let &(_, values) = alike.iter().find(|(entry, _)| *entry == name)?;
    match values.iter().find(|(entry, _)| entry.as_bytes() == value) {
        Some((_, index)) => Some(Found::Field(*index)),
        None => values.first().map(|(_, index)| Found::Name(*index)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, value and index of each.
    fn entries() -> impl Iterator<Item = (&'static str, &'static str, u8)> {
        STATIC_TABLE
            .into_iter()
            .flat_map(|(name, values)| values.iter().map(move |(value, index)| (name, *value, *index)))
    }

    #[test]
    fn every_index_is_there_once_and_found() {
        let mut indices: Vec<_> = entries().map(|(_, _, index)| index).collect();
        assert!(entries().is_sorted_by_key(|(name, _, index)| (name.len(), name, index)));
        indices.sort_unstable();
        assert!(indices.into_iter().eq(0..99));
        for (name, value, index) in entries() {
            assert_eq!(find(name, value.as_bytes()), Some(Found::Field(index)), "{name}: {value}");
        }
    }

    #[test]
    fn a_value_that_is_not_there_has_the_first_of_its_name() {
        for (name, index) in [(":status", 24), ("content-type", 44), ("etag", 7), ("x-frame-options", 97)] {
            assert_eq!(find(name, b"other"), Some(Found::Name(index)), "{name}");
        }
        let too_long = "a".repeat(LONGEST + 2);
        for name in ["", "a", "content", "content-types", "zz", &too_long[1..], too_long.as_str()] {
            assert_eq!(find(name, b""), None, "{name}");
        }
    }
}
