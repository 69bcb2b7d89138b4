//! Fields on their way to the server behind, and from it.

use hyper::{
    HeaderMap, StatusCode, Version,
    body::Frame,
    header::{CONTENT_LENGTH, COOKIE, HeaderName, HeaderValue, TRANSFER_ENCODING, VIA},
};

use crate::hop_by_hop::{say_length_once, strip};

/// What the client says of itself is not for it to say.
const CLAIMS: [&str; 3] = ["forwarded", "proxy", "x-real-ip"];
/// The same of all names that begin so: some programs make their own addresses of `X-Forwarded-Prefix`, or
/// take `X-Forwarded-Ssl` for `X-Forwarded-Proto`.
const CLAIMS_BEGIN: &str = "x-forwarded-";

/// What servers like this one are called in Via.
const PSEUDONYM: &str = "mendpath";
/// How many of them a request may come through. Some in a row may be meant so; more are the same ones again
/// and again.
const MAX_PASSES: usize = 8;

/// Removes what only a proxy may say. Names with `_` go as well: CGI and its heirs take
/// `X_Forwarded_For` for `X-Forwarded-For` (RFC 3875 section 4.1.18).
pub(super) fn remove_claims(fields: &mut HeaderMap) {
    for name in CLAIMS {
        fields.remove(name);
    }
    let is_claim =
        |name: &&HeaderName| name.as_str().contains('_') || name.as_str().starts_with(CLAIMS_BEGIN);
    let claims: Vec<HeaderName> = fields.keys().filter(is_claim).cloned().collect();
    for name in claims {
        fields.remove(name);
    }
}

/// Says which way a request came: by what version, to whom (RFC 9110 section 7.6.3).
pub(super) fn add_via(fields: &mut HeaderMap, version: Version) {
    let number = match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2.0",
        Version::HTTP_3 => "3.0",
        _ => "1.1",
    };
    let via = HeaderValue::try_from(format!("{number} {PSEUDONYM}"));
    fields.append(VIA, via.expect("digits and letters"));
}

/// Whether a request goes round in circles: the server behind hands it on to this one again.
pub(super) fn goes_round(fields: &HeaderMap) -> bool {
    let ways = fields.get_all(VIA).iter().filter_map(|value| value.to_str().ok());
    let names = ways.flat_map(|value| value.split(',')).filter_map(|way| way.split_whitespace().nth(1));
    names.filter(|name| name.eq_ignore_ascii_case(PSEUDONYM)).count() >= MAX_PASSES
}

/// HTTP/2 and 3 may send cookies one by one, HTTP/1.1 has one field for them (RFC 9113 section 8.2.3,
/// RFC 9114 section 4.2.1).
pub(super) fn join_cookies(fields: &mut HeaderMap) {
    let cookies: Vec<&[u8]> = fields.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if cookies.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&cookies.join(&b"; "[..]))
    {
        fields.insert(COOKIE, joined);
    }
}

/// Leaves at most one length of a response, and none where it is not for it to say: beside
/// Transfer-Encoding (RFC 9112 section 6.3) and without a body by its status (RFC 9110 section 8.6).
pub(super) fn settle_length(fields: &mut HeaderMap, status: StatusCode) {
    let bodiless = status.is_informational() || status == StatusCode::NO_CONTENT;
    if bodiless || fields.contains_key(TRANSFER_ENCODING) {
        fields.remove(CONTENT_LENGTH);
    } else {
        say_length_once(fields);
    }
}

/// A transfer coding of a message that is not undone. Only `chunked` may be used without being asked
/// for (RFC 9112 section 7.4), and once (section 6.1); `identity` was a name for none until RFC 7230.
pub(super) fn foreign_coding(fields: &HeaderMap) -> Option<String> {
    let all = fields.get_all(TRANSFER_ENCODING).iter();
    let all = all.map(|value| String::from_utf8_lossy(value.as_bytes())).collect::<Vec<_>>().join(", ");
    let of_note = |name: &&str| !name.is_empty() && !name.eq_ignore_ascii_case("identity");
    let mut codings = all.split(',').map(str::trim).filter(of_note);
    let is_taken = codings.next().is_none_or(|only| only.eq_ignore_ascii_case("chunked"));
    (!is_taken || codings.next().is_some()).then_some(all)
}

/// Removes from trailers what says where a message ends or is about a connection, which is not for
/// them to say (RFC 9110 section 6.5.1); by HTTP/2 and 3 it would make the response malformed.
pub(super) fn settle_trailers<T>(mut frame: Frame<T>) -> Frame<T> {
    if let Some(trailers) = frame.trailers_mut() {
        strip(trailers);
        trailers.remove(CONTENT_LENGTH);
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut fields = HeaderMap::new();
        for (name, value) in all {
            fields.append(*name, HeaderValue::from_static(value));
        }
        fields
    }

    #[test]
    fn cookies_become_one_field() {
        let mut some =
            fields(&[("cookie", "a=1"), ("accept", "x"), ("cookie", "b=2"), ("cookie", "c=3; d=4")]);
        join_cookies(&mut some);
        let cookies: Vec<_> = some.get_all(COOKIE).iter().collect();
        assert_eq!(cookies, ["a=1; b=2; c=3; d=4"]);
        assert_eq!(some.len(), 2);
    }

    #[test]
    fn what_a_client_claims_is_removed_however_it_is_spelled() {
        let mut some = fields(&[
            ("x_forwarded_for", "192.0.2.1"),
            ("X-Forwarded_Proto", "http"),
            ("x-forwarded-for", "192.0.2.1"),
            ("x-forwarded-port", "1"),
            ("x-forwarded-server", "x"),
            ("X-Forwarded-Prefix", "//example.org"),
            ("x-forwarded-ssl", "off"),
            ("x-real-ip", "192.0.2.1"),
            ("forwarded", "for=192.0.2.1"),
            ("proxy", "http://192.0.2.1"),
            ("accept", "x"),
        ]);
        remove_claims(&mut some);
        assert_eq!(some, fields(&[("accept", "x")]));
    }

    #[test]
    fn who_came_this_way_often_goes_round() {
        let often = ["1.1 mendpath, 1.1 a"; MAX_PASSES - 1];
        for (last, round) in [
            (None, false),
            (Some("1.1 b, 1.1 mendpath2, mendpath, 1.1 c mendpath"), false),
            (Some("1.1 b ,HTTP/3.0  Mendpath (a comment)"), true),
        ] {
            let mut some = HeaderMap::new();
            for value in often.into_iter().chain(last) {
                some.append(VIA, HeaderValue::from_static(value));
            }
            assert_eq!(goes_round(&some), round, "{last:?}");
        }
    }

    #[test]
    fn a_response_has_one_length_or_none() {
        for (status, all, left) in [
            (200, &[("content-length", "5")][..], Some("5")),
            (200, &[("content-length", "5"), ("transfer-encoding", "chunked")], None),
            (200, &[("content-length", "5"), ("content-length", "5")], Some("5")),
            (200, &[("content-length", "5, 5")], Some("5")),
            (204, &[("content-length", "0")], None),
            (304, &[("content-length", "5")], Some("5")),
            (200, &[], None),
        ] {
            let mut some = fields(all);
            settle_length(&mut some, StatusCode::from_u16(status).unwrap());
            let lengths: Vec<_> = some.get_all(CONTENT_LENGTH).iter().collect();
            assert_eq!(lengths, left.into_iter().collect::<Vec<_>>(), "{status} {all:?}");
        }
    }

    #[test]
    fn a_message_is_chunked_once_or_not_at_all() {
        for (codings, foreign) in [
            (&[][..], None),
            (&["chunked"], None),
            (&["Chunked"], None),
            (&["identity"], None),
            (&["identity, chunked"], None),
            (&["chunked,"], None),
            (&["gzip, chunked"], Some("gzip, chunked")),
            (&["gzip", "chunked"], Some("gzip, chunked")),
            (&["gzip"], Some("gzip")),
            (&["chunked", "chunked"], Some("chunked, chunked")),
            (&["chunked;a=b"], Some("chunked;a=b")),
        ] {
            let mut some = HeaderMap::new();
            codings.iter().for_each(|coding| {
                some.append(TRANSFER_ENCODING, HeaderValue::from_static(coding));
            });
            assert_eq!(foreign_coding(&some).as_deref(), foreign, "{codings:?}");
        }
    }
}
