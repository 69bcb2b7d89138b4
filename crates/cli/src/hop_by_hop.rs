//! Fields that are about one connection, and that the other side of a proxy must not see (RFC 9110
//! section 7.6.1), what says how many proxies a request may come through (section 7.6.2), and that a
//! message says its length once (section 8.6).

use hyper::{
    HeaderMap,
    header::{
        CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, MAX_FORWARDS, PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
    },
};

/// Those that have names of their own. What Trailer announces need not be passed on: by HTTP/1.1 it is
/// not, which is every recipient's right (RFC 9110 section 6.5.1).
const HOP_BY_HOP: [HeaderName; 11] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    HeaderName::from_static("proxy-authentication-info"),
    PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("http2-settings"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Removes them, and those that Connection names.
pub(crate) fn strip(fields: &mut HeaderMap) {
    let named: Vec<HeaderName> = fields
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|&byte| byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        fields.remove(name);
    }
}

/// Counts Max-Forwards down, which counts for TRACE and OPTIONS alone; false if it was 0.
pub(crate) fn may_go_on(fields: &mut HeaderMap) -> bool {
    let left = fields.get(MAX_FORWARDS).and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
    match left {
        Some(0) => false,
        Some(left) => {
            fields.insert(MAX_FORWARDS, (left - 1).into());
            true
        }
        None => true,
    }
}

/// That a message says its length several times is what some read otherwise than others. Whoever has read a body
/// has seen to it that they are equal. Where there was none to read, as with the answer to HEAD, nobody has: of
/// several that differ none is passed on (RFC 9110 section 8.6).
pub(crate) fn say_length_once(fields: &mut HeaderMap) {
    let all = fields.get_all(CONTENT_LENGTH).iter();
    let mut said = all.flat_map(|field| field.as_bytes().split(|&byte| byte == b',')).map(<[u8]>::trim_ascii);
    let Some(first) = said.next() else { return };
    let mut others = said.peekable();
    if others.peek().is_none() {
        return;
    }
    let only = if others.all(|other| other == first) { HeaderValue::from_bytes(first).ok() } else { None };
    match only {
        Some(only) => _ = fields.insert(CONTENT_LENGTH, only),
        None => _ = fields.remove(CONTENT_LENGTH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_proxy_counts_down() {
        let mut fields = HeaderMap::new();
        assert!(may_go_on(&mut fields) && fields.is_empty());
        fields.insert(MAX_FORWARDS, 2_u32.into());
        assert!(may_go_on(&mut fields) && may_go_on(&mut fields) && !may_go_on(&mut fields));
        assert_eq!(fields[MAX_FORWARDS], "0");
    }

    /// An answer to HEAD, whose length nobody has looked at.
    #[test]
    fn a_length_is_said_once_and_one_of_several_that_differ_is_none() {
        for (said, once) in [
            (&[][..], None),
            (&["5"], Some("5")),
            (&["5, 5"], Some("5")),
            (&["5", "5"], Some("5")),
            (&["5, 6"], None),
            (&["5", "5,6"], None),
        ] {
            let mut fields = HeaderMap::new();
            said.iter().for_each(|length| _ = fields.append(CONTENT_LENGTH, length.parse().unwrap()));
            say_length_once(&mut fields);
            let left = fields.get_all(CONTENT_LENGTH).iter().map(|length| length.to_str().unwrap());
            assert_eq!(Vec::from_iter(left), Vec::from_iter(once), "{said:?}");
        }
    }

    #[test]
    fn what_connection_names_goes_with_it() {
        let mut fields = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-One ,,x-two"),
            ("connection", "X-Three, not a name"),
            ("x-one", "1"),
            ("x-two", "2"),
            ("x-three", "3"),
            ("x-four", "4"),
            ("cookie", "a=b"),
            ("proxy-authorization", "Basic eA=="),
            ("proxy-connection", "keep-alive"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("trailer", "x"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("http2-settings", "x"),
        ] {
            fields.append(name, value.parse().unwrap());
        }
        strip(&mut fields);
        let left: Vec<_> = fields.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["x-four", "cookie"]);
    }
}
