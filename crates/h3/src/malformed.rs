//! Requests that are not what HTTP/3 allows (RFC 9114 section 4.1.2).

use http::{HeaderMap, HeaderName, header};

/// Fields that have no meaning in HTTP/3 (RFC 9114 section 4.2).
pub(crate) static OF_CONNECTIONS: [HeaderName; 5] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Whether fields speak of a connection, which makes the message malformed, also in trailers.
pub(crate) fn are_of_a_connection(fields: &HeaderMap) -> bool {
    OF_CONNECTIONS.iter().any(|name| fields.contains_key(name))
}

/// The fields do not make a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The length of a body as the fields of its request say it; whatever speaks of a connection makes
/// the request malformed, as do lengths that differ or are none.
pub(crate) fn length(fields: &HeaderMap) -> Result<Option<u64>, Malformed> {
    let mut te = fields.get_all(header::TE).iter();
    let asks_for_codings = te.any(|te| !te.as_bytes().eq_ignore_ascii_case(b"trailers"));
    if asks_for_codings || are_of_a_connection(fields) {
        return Err(Malformed);
    }
    let mut length = None;
    for field in fields.get_all(header::CONTENT_LENGTH) {
        for digits in field.as_bytes().split(|&byte| byte == b',') {
            let said = number(digits.trim_ascii()).ok_or(Malformed)?;
            if *length.get_or_insert(said) != said {
                return Err(Malformed);
            }
        }
    }
    Ok(length)
}

/// Digits and nothing else, not even a sign.
fn number(digits: &[u8]) -> Option<u64> {
    let are_digits = digits.iter().all(u8::is_ascii_digit);
    are_digits.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_length_is_one_number_and_nothing_speaks_of_the_connection() {
        for (fields, expected) in [
            (&[][..], Ok(None)),
            (&[("content-length", "5")], Ok(Some(5))),
            (&[("content-length", "5"), ("content-length", "5")], Ok(Some(5))),
            (&[("content-length", "5, 5")], Ok(Some(5))),
            (&[("content-length", "5"), ("content-length", "6")], Err(Malformed)),
            (&[("content-length", "+5")], Err(Malformed)),
            (&[("content-length", "")], Err(Malformed)),
            (&[("content-length", "99999999999999999999")], Err(Malformed)),
            (&[("te", "trailers")], Ok(None)),
            (&[("te", "gzip")], Err(Malformed)),
            (&[("connection", "close")], Err(Malformed)),
            (&[("keep-alive", "5")], Err(Malformed)),
            (&[("proxy-connection", "close")], Err(Malformed)),
            (&[("transfer-encoding", "chunked")], Err(Malformed)),
            (&[("upgrade", "x")], Err(Malformed)),
        ] {
            let named = fields
                .iter()
                .map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            let mut all = HeaderMap::new();
            named.for_each(|(name, value)| _ = all.append(name, value));
            assert_eq!(length(&all), expected, "{fields:?}");
        }
    }
}
