//! The static table of QPACK (RFC 9204 appendix A).

/// Name, value and index: short names first, names of one length in their order, and so the indices of a name.
#[rustfmt::skip]
const STATIC_TABLE: [(&str, &str, u8); 99] = [
    ("age", "0", 2),
    ("date", "", 6),
    ("etag", "", 7),
    ("link", "", 11),
    ("vary", "accept-encoding", 59),
    ("vary", "origin", 60),
    (":path", "/", 1),
    ("range", "bytes=0-", 55),
    ("accept", "*/*", 29),
    ("accept", "application/dns-message", 30),
    ("cookie", "", 5),
    ("origin", "", 90),
    ("server", "", 92),
    (":method", "CONNECT", 15),
    (":method", "DELETE", 16),
    (":method", "GET", 17),
    (":method", "HEAD", 18),
    (":method", "OPTIONS", 19),
    (":method", "POST", 20),
    (":method", "PUT", 21),
    (":scheme", "http", 22),
    (":scheme", "https", 23),
    (":status", "103", 24),
    (":status", "200", 25),
    (":status", "304", 26),
    (":status", "404", 27),
    (":status", "503", 28),
    (":status", "100", 63),
    (":status", "204", 64),
    (":status", "206", 65),
    (":status", "302", 66),
    (":status", "400", 67),
    (":status", "403", 68),
    (":status", "421", 69),
    (":status", "425", 70),
    (":status", "500", 71),
    ("alt-svc", "clear", 83),
    ("purpose", "prefetch", 91),
    ("referer", "", 13),
    ("if-range", "", 89),
    ("location", "", 12),
    ("expect-ct", "", 87),
    ("forwarded", "", 88),
    (":authority", "", 0),
    ("early-data", "1", 86),
    ("set-cookie", "", 14),
    ("user-agent", "", 95),
    ("content-type", "application/dns-message", 44),
    ("content-type", "application/javascript", 45),
    ("content-type", "application/json", 46),
    ("content-type", "application/x-www-form-urlencoded", 47),
    ("content-type", "image/gif", 48),
    ("content-type", "image/jpeg", 49),
    ("content-type", "image/png", 50),
    ("content-type", "text/css", 51),
    ("content-type", "text/html; charset=utf-8", 52),
    ("content-type", "text/plain", 53),
    ("content-type", "text/plain;charset=utf-8", 54),
    ("accept-ranges", "bytes", 32),
    ("authorization", "", 84),
    ("cache-control", "max-age=0", 36),
    ("cache-control", "max-age=2592000", 37),
    ("cache-control", "max-age=604800", 38),
    ("cache-control", "no-cache", 39),
    ("cache-control", "no-store", 40),
    ("cache-control", "public, max-age=31536000", 41),
    ("if-none-match", "", 9),
    ("last-modified", "", 10),
    ("content-length", "0", 4),
    ("accept-encoding", "gzip, deflate, br", 31),
    ("accept-language", "", 72),
    ("x-forwarded-for", "", 96),
    ("x-frame-options", "deny", 97),
    ("x-frame-options", "sameorigin", 98),
    ("content-encoding", "br", 42),
    ("content-encoding", "gzip", 43),
    ("x-xss-protection", "1; mode=block", 62),
    ("if-modified-since", "", 8),
    ("content-disposition", "", 3),
    ("timing-allow-origin", "*", 93),
    ("x-content-type-options", "nosniff", 61),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'", 85),
    ("strict-transport-security", "max-age=31536000", 56),
    ("strict-transport-security", "max-age=31536000; includesubdomains", 57),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload", 58),
    ("upgrade-insecure-requests", "1", 94),
    ("access-control-allow-origin", "*", 35),
    ("access-control-allow-headers", "cache-control", 33),
    ("access-control-allow-headers", "content-type", 34),
    ("access-control-allow-headers", "*", 75),
    ("access-control-allow-methods", "get", 76),
    ("access-control-allow-methods", "get, post, options", 77),
    ("access-control-allow-methods", "options", 78),
    ("access-control-expose-headers", "content-length", 79),
    ("access-control-request-method", "get", 81),
    ("access-control-request-method", "post", 82),
    ("access-control-request-headers", "content-type", 80),
    ("access-control-allow-credentials", "FALSE", 73),
    ("access-control-allow-credentials", "TRUE", 74),
];

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
    // Lengths tell nearly all names apart, and are compared in no time.
    let first = STATIC_TABLE.partition_point(|(entry, ..)| (entry.len(), *entry) < (name.len(), name));
    let mut named = STATIC_TABLE[first..].iter().take_while(|(entry, ..)| *entry == name).peekable();
    let &&(_, _, index) = named.peek()?;
    let field = named.find(|(_, entry, _)| entry.as_bytes() == value);
    Some(field.map_or(Found::Name(index), |(_, _, index)| Found::Field(*index)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_is_there_once_and_found() {
        let mut indices: Vec<_> = STATIC_TABLE.iter().map(|(_, _, index)| *index).collect();
        assert!(STATIC_TABLE.is_sorted_by_key(|(name, _, index)| (name.len(), *name, *index)));
        indices.sort_unstable();
        assert!(indices.into_iter().eq(0..99));
        for (name, value, index) in STATIC_TABLE {
            assert_eq!(find(name, value.as_bytes()), Some(Found::Field(index)), "{name}: {value}");
        }
    }

    #[test]
    fn a_value_that_is_not_there_has_the_first_of_its_name() {
        for (name, index) in [(":status", 24), ("content-type", 44), ("etag", 7), ("x-frame-options", 97)] {
            assert_eq!(find(name, b"other"), Some(Found::Name(index)), "{name}");
        }
        for name in ["", "a", "content", "content-types", "zz"] {
            assert_eq!(find(name, b""), None, "{name}");
        }
    }
}
