//! The head of a request to the proxy.

use crate::target::{Host, Target, TargetError};

/// Fields of a request; more are refused.
const MAX_FIELDS: usize = 96;

/// Fields about the connection to the proxy, which the origin server must not see (RFC 9110 section 7.6.1).
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "upgrade",
    "host",
];

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Where to connect.
    pub(super) target: Target,
    /// What to do there.
    pub(super) wanted: Wanted,
    /// The value of Proxy-Authorization.
    pub(super) authorization: Option<String>,
}

/// What a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// CONNECT: bytes both ways.
    Tunnel,
    /// A plain request, whose head the origin server is to see like this.
    Forward {
        /// Request line and fields in origin form, with `Connection: close`.
        rewritten: Vec<u8>,
    },
}

/// A request that cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeadError {
    /// Not HTTP/1.
    #[error("That was not an HTTP/1 request ({0}).")]
    Malformed(httparse::Error),
    /// More than the proxy reads.
    #[error("The head of the request is too long.")]
    TooLong,
    /// A request for the proxy itself.
    #[error("This is a proxy: ask for http://HOST/..., or use CONNECT.")]
    NotForProxy,
    /// An absolute target with another scheme.
    #[error("Only http:// is forwarded; everything else goes through CONNECT.")]
    Scheme,
    /// No place to connect to.
    #[error("{0}.")]
    Target(#[from] TargetError),
}

impl HeadError {
    /// The answer's status code and reason.
    pub(super) fn status(&self) -> (u16, &'static str) {
        match self {
            Self::Malformed(_) | Self::Target(_) => (400, "Bad Request"),
            Self::TooLong => (431, "Request Header Fields Too Large"),
            Self::NotForProxy | Self::Scheme => (405, "Method Not Allowed"),
        }
    }
}

impl Head {
    /// Reads a head and its length in bytes; `None` while it is incomplete.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, HeadError> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        let length = match request.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLong),
            Err(error) => return Err(HeadError::Malformed(error)),
        };
        let (method, uri) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
        let authorization =
            request.headers.iter().find(|field| field.name.eq_ignore_ascii_case("proxy-authorization"));
        let authorization = authorization.map(|field| String::from_utf8_lossy(field.value).into_owned());
        let (target, wanted) = if method == "CONNECT" {
            (uri.parse()?, Wanted::Tunnel)
        } else {
            let (authority, target, path) = split_absolute(uri)?;
            (target, Wanted::Forward { rewritten: rewrite(method, &path, authority, request.headers) })
        };
        Ok(Some((Self { target, wanted, authorization }, length)))
    }
}

/// The authority, its target, and the origin form of an absolute `http` target (RFC 9112 section 3.2.2).
fn split_absolute(uri: &str) -> Result<(&str, Target, String), HeadError> {
    let (scheme, rest) = uri.split_once("://").ok_or(HeadError::NotForProxy)?;
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(HeadError::Scheme);
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    // User information has no place in http targets (RFC 9110 section 4.2.4), and the part after it is the host.
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let path = path.split('#').next().unwrap_or_default();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let target = match authority.parse::<Target>() {
        Err(TargetError::NoPort(_)) => Target { host: authority.parse::<Host>()?, port: 80 },
        Err(TargetError::BadPort(port)) if authority.ends_with(']') || port.is_empty() => {
            Target { host: authority.trim_end_matches(':').parse::<Host>()?, port: 80 }
        }
        other => other?,
    };
    Ok((authority, target, path))
}

fn rewrite(method: &str, path: &str, authority: &str, fields: &[httparse::Header<'_>]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
    for field in fields {
        if HOP_BY_HOP.iter().any(|name| field.name.eq_ignore_ascii_case(name)) {
            continue;
        }
        head.extend(field.name.as_bytes());
        head.extend(b": ");
        head.extend(field.value);
        head.extend(b"\r\n");
    }
    // The next request may be for another server: it comes on a connection of its own.
    head.extend(b"Connection: close\r\n\r\n");
    head
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Head, HeadError> {
        Head::parse(text.as_bytes()).map(|head| head.expect("complete").0)
    }

    #[test]
    fn connect() {
        let head = parse("CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!((head.target.to_string().as_str(), head.wanted), ("[2001:db8::1]:443", Wanted::Tunnel));
        assert_eq!(parse("CONNECT example.org HTTP/1.1\r\n\r\n").unwrap_err().status().0, 400);
    }

    #[test]
    fn plain_requests_are_rewritten_for_the_origin() {
        let request = "GET http://example.org/a?b HTTP/1.1\r\nHost: other\r\nProxy-Connection: keep-alive\r\n\
                       Connection: keep-alive\r\nAccept: */*\r\nProxy-Authorization: Basic eA==\r\n\r\n";
        let head = parse(request).unwrap();
        assert_eq!(head.target.to_string(), "example.org:80");
        assert_eq!(head.authorization.as_deref(), Some("Basic eA=="));
        let Wanted::Forward { rewritten } = head.wanted else { panic!("not a plain request") };
        let expected = "GET /a?b HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\nConnection: close\r\n\r\n";
        assert_eq!(String::from_utf8(rewritten).unwrap(), expected);
    }

    #[test]
    fn forms_of_absolute_targets() {
        let target =
            |uri: &str| parse(&format!("GET {uri} HTTP/1.1\r\n\r\n")).map(|head| head.target.to_string());
        assert_eq!(target("http://a.example").unwrap(), "a.example:80");
        assert_eq!(target("HTTP://a.example:8080?q").unwrap(), "a.example:8080");
        assert_eq!(target("http://[::1]/").unwrap(), "[::1]:80");
        assert_eq!(target("http://[::1]:81/").unwrap(), "[::1]:81");
        assert_eq!(target("http://a.example:/x").unwrap(), "a.example:80");
        assert_eq!(target("http://user@b.example/").unwrap(), "b.example:80");
        assert_eq!(target("https://a.example/"), Err(HeadError::Scheme));
        assert_eq!(target("/index.html"), Err(HeadError::NotForProxy));
        assert!(target("http://").is_err());
    }

    #[test]
    fn incomplete_and_oversized_heads() {
        assert_eq!(Head::parse(b"CONNECT a:1 HTTP/1.1\r\nHost"), Ok(None));
        let many = format!("CONNECT a:1 HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(MAX_FIELDS + 1));
        assert_eq!(parse(&many), Err(HeadError::TooLong));
        assert!(matches!(parse("\x16\x03\x01 \r\n\r\n"), Err(HeadError::Malformed(_))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Head::parse(&bytes);
        }

        #[test]
        fn any_target_is_parsed_or_refused(uri in "(http://)?[!-~]{0,40}") {
            let _ = Head::parse(format!("GET {uri} HTTP/1.1\r\n\r\n").as_bytes());
        }

        #[test]
        fn no_field_slips_a_line_into_the_rewritten_head(value in "[ -~]{0,40}") {
            if let Ok(Some((Head { wanted: Wanted::Forward { rewritten }, .. }, _))) =
                Head::parse(format!("GET http://a/ HTTP/1.1\r\nX: {value}\r\n\r\n").as_bytes())
            {
                prop_assert_eq!(rewritten.windows(4).filter(|four| four == b"\r\n\r\n").count(), 1);
                prop_assert!(rewritten.ends_with(b"\r\n\r\n"));
            }
        }
    }
}
