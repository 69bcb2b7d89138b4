//! The head of a request to the proxy: where it wants to go, and how long it is.
//!
//! `hyper` reads requests as well, and is as lenient as the standard allows. Here is what it would
//! forgive and we do not: whatever two programs could understand differently is refused, so that no
//! request can hide in another (RFC 9112 section 11.2).

use hyper::Uri;

use crate::target::{Host, Target, TargetError};

/// Fields of a request; more are refused.
pub(super) const MAX_FIELDS: usize = 128;
/// The longest head of a request, in bytes.
pub(super) const MAX_HEAD: usize = 32 * 1024;

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The target as it was written.
    pub(super) uri: Uri,
    /// Where to connect.
    pub(super) target: Target,
    /// What to do there.
    pub(super) wanted: Wanted,
    /// The value of Proxy-Authorization, if there is exactly one.
    pub(super) authorization: Option<String>,
    /// What follows the head.
    pub(super) body: Framing,
    /// Whether it asks to go on with another protocol (RFC 9110 section 7.8).
    pub(super) upgrades: bool,
}

/// What a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// CONNECT: bytes both ways.
    Tunnel,
    /// A plain request for this resource of the origin server.
    Forward(Uri),
}

/// How the end of a request's body is known (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// By its length; 0 without a body.
    Length(u64),
    /// By its last chunk.
    Chunked,
}

/// A request that cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeadError {
    /// Not HTTP/1.
    #[error("That was not an HTTP/1 request ({0}).")]
    Malformed(httparse::Error),
    /// Another version.
    #[error("This proxy speaks HTTP/1.1 and HTTP/1.0.")]
    Version,
    /// More than the proxy reads.
    #[error("The head of the request is too long.")]
    TooLong,
    /// Less than the proxy waits for.
    #[error("The request did not arrive in time.")]
    Late,
    /// A request for the proxy itself.
    #[error("This is a proxy: ask for http://HOST/..., or use CONNECT.")]
    NotForProxy,
    /// An absolute target with another scheme.
    #[error("Only http:// is forwarded; everything else goes through CONNECT.")]
    Scheme,
    /// User information in the target.
    #[error("A user and a password do not belong in the address; they go in an Authorization field.")]
    UserInfo,
    /// The target has characters that no address has.
    #[error("The address is not well-formed.")]
    Address,
    /// No place to connect to.
    #[error("{0}.")]
    Target(#[from] TargetError),
    /// More than one Host.
    #[error("There is more than one Host field.")]
    Hosts,
    /// Two ways to find the end of the body.
    #[error("Content-Length and Transfer-Encoding contradict each other.")]
    BothLengths,
    /// No number, or several that differ.
    #[error("Content-Length is not one number.")]
    Length,
    /// Encodings that the proxy does not know.
    #[error("The only Transfer-Encoding this proxy knows is chunked, once, in HTTP/1.1.")]
    Encoding,
    /// CONNECT with a body, which has no meaning (RFC 9110 section 9.3.6).
    #[error("CONNECT has no body.")]
    BodyOfConnect,
}

impl HeadError {
    /// The answer's status code.
    pub(super) fn status(&self) -> u16 {
        match self {
            Self::Late => 408,
            Self::TooLong => 431,
            Self::NotForProxy | Self::Scheme => 405,
            Self::Encoding => 501,
            Self::Version => 505,
            _ => 400,
        }
    }
}

impl Head {
    /// Reads a head and its length in bytes; `None` while it is incomplete.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, HeadError> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        // It refuses folded lines, space before a colon, and carriage returns on their own.
        let length = match request.parse(bytes) {
            Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD => length,
            Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return Ok(None),
            Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLong),
            Err(httparse::Error::Version) => return Err(HeadError::Version),
            Err(error) => return Err(HeadError::Malformed(error)),
        };
        let (method, uri) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
        let is_http_11 = request.version == Some(1);
        let fields = Fields(request.headers);
        // RFC 9112 section 3.2: more than one Host is refused; one that differs from the target is
        // replaced (section 3.2.2).
        if fields.all("host").count() > 1 {
            return Err(HeadError::Hosts);
        }
        let body = fields.framing(is_http_11)?;
        let (target, wanted) = if method == "CONNECT" {
            if body != Framing::Length(0) {
                return Err(HeadError::BodyOfConnect);
            }
            (uri.parse()?, Wanted::Tunnel)
        } else {
            let (target, path) = split_absolute(uri, method)?;
            (target, Wanted::Forward(path.parse().map_err(|_| HeadError::Address)?))
        };
        let upgrades = is_http_11
            && body == Framing::Length(0)
            && fields.all("upgrade").next().is_some()
            && fields.all("connection").any(|value| tokens(value).any(|token| token == b"upgrade"));
        let authorization = fields.only("proxy-authorization");
        let authorization = authorization.map(|value| String::from_utf8_lossy(value).into_owned());
        let uri = uri.parse().map_err(|_| HeadError::Address)?;
        Ok(Some((Self { uri, target, wanted, authorization, body, upgrades }, length)))
    }
}

struct Fields<'a>(&'a [httparse::Header<'a>]);

impl<'a> Fields<'a> {
    fn all(&self, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }

    fn only(&self, name: &'static str) -> Option<&'a [u8]> {
        let mut all = self.all(name);
        let value = all.next()?;
        if all.next().is_some() { None } else { Some(value) }
    }

    /// Stricter than RFC 9112 section 6.3, which lets a proxy repair some of what is refused here.
    fn framing(&self, is_http_11: bool) -> Result<Framing, HeadError> {
        let mut lengths = self.all("content-length");
        let length = match lengths.next() {
            Some(first) if lengths.all(|other| other == first) => {
                Some(decimal(first).ok_or(HeadError::Length)?)
            }
            Some(_) => return Err(HeadError::Length),
            None => None,
        };
        if self.all("transfer-encoding").next().is_none() {
            return Ok(Framing::Length(length.unwrap_or(0)));
        }
        if length.is_some() {
            return Err(HeadError::BothLengths);
        }
        match self.only("transfer-encoding") {
            Some(value) if is_http_11 && value.eq_ignore_ascii_case(b"chunked") => Ok(Framing::Chunked),
            _ => Err(HeadError::Encoding),
        }
    }
}

fn decimal(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    // The two highest values mean something else to hyper.
    let number = digits.then(|| str::from_utf8(value).ok()?.parse().ok()).flatten();
    number.filter(|&length| length <= u64::MAX - 2)
}

/// The members of a comma-separated list, in lower case.
fn tokens(value: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    value.split(|&byte| byte == b',').map(|token| token.trim_ascii().to_ascii_lowercase())
}

/// The target of an absolute `http` address and its origin form (RFC 9112 section 3.2.2).
fn split_absolute(uri: &str, method: &str) -> Result<(Target, String), HeadError> {
    let (scheme, rest) = uri.split_once("://").ok_or(HeadError::NotForProxy)?;
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(HeadError::Scheme);
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    // RFC 9110 section 4.2.4: it has no place in http targets, and may be there to hide what the
    // host is.
    if authority.contains('@') {
        return Err(HeadError::UserInfo);
    }
    let path = path.split('#').next().unwrap_or_default();
    let path = match path {
        // RFC 9112 section 3.2.4.
        "" if method == "OPTIONS" => "*".to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        path => format!("/{path}"),
    };
    let target = match authority.parse::<Target>() {
        Err(TargetError::NoPort(_)) => Target { host: authority.parse::<Host>()?, port: 80 },
        Err(TargetError::BadPort(port)) if authority.ends_with(']') || port.is_empty() => {
            let host = authority.strip_suffix(':').unwrap_or(authority);
            Target { host: host.parse::<Host>()?, port: 80 }
        }
        other => other?,
    };
    Ok((target, path))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Head, HeadError> {
        Head::parse(text.as_bytes()).map(|head| head.expect("complete").0)
    }

    /// What is made of a request with these fields.
    fn with(fields: &str) -> Result<Head, HeadError> {
        parse(&format!("POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n"))
    }

    #[test]
    fn connect() {
        let head = parse("CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!((head.target.to_string().as_str(), head.wanted), ("[2001:db8::1]:443", Wanted::Tunnel));
        assert_eq!(parse("CONNECT example.org HTTP/1.1\r\n\r\n").unwrap_err().status(), 400);
        let with_a_body = "CONNECT a:1 HTTP/1.1\r\nContent-Length: 1\r\n\r\n";
        assert_eq!(parse(with_a_body), Err(HeadError::BodyOfConnect));
    }

    #[test]
    fn forms_of_absolute_targets() {
        let forward = |method: &str, uri: &str| {
            parse(&format!("{method} {uri} HTTP/1.1\r\n\r\n")).map(|head| match head.wanted {
                Wanted::Forward(path) => format!("{} {path}", head.target),
                Wanted::Tunnel => panic!("a tunnel"),
            })
        };
        let get = |uri: &str| forward("GET", uri);
        assert_eq!(get("http://a.example").unwrap(), "a.example:80 /");
        assert_eq!(get("HTTP://a.example:8080?q").unwrap(), "a.example:8080 /?q");
        assert_eq!(get("http://[::1]/a/b?c#d").unwrap(), "[::1]:80 /a/b?c");
        assert_eq!(get("http://[::1]:81/").unwrap(), "[::1]:81 /");
        assert_eq!(get("http://a.example:/x").unwrap(), "a.example:80 /x");
        assert_eq!(get("http://a.example//b").unwrap(), "a.example:80 //b");
        assert_eq!(forward("OPTIONS", "http://a.example").unwrap(), "a.example:80 *");
        assert_eq!(get("http://user@b.example/"), Err(HeadError::UserInfo));
        assert_eq!(get("https://a.example/"), Err(HeadError::Scheme));
        assert_eq!(get("/index.html"), Err(HeadError::NotForProxy));
        for bad in ["http://", "http://a:0/", "http://a:x/", "http://a:1:2/", "http://a%20b/", "http://a::/"]
        {
            assert_eq!(get(bad).unwrap_err().status(), 400, "{bad}");
        }
    }

    #[test]
    fn the_end_of_a_body_is_known_in_one_way_only() {
        let framing = |fields: &str| with(fields).map(|head| head.body);
        assert_eq!(framing(""), Ok(Framing::Length(0)));
        assert_eq!(framing("Content-Length: 7\r\n"), Ok(Framing::Length(7)));
        assert_eq!(framing("Content-Length: 7\r\nContent-Length: 7\r\n"), Ok(Framing::Length(7)));
        assert_eq!(framing("transfer-encoding: Chunked\r\n"), Ok(Framing::Chunked));
        let both = "Content-Length: 7\r\nTransfer-Encoding: chunked\r\n";
        assert_eq!(framing(both), Err(HeadError::BothLengths));
        let both = "Transfer-Encoding: chunked\r\nContent-Length: 7\r\n";
        assert_eq!(framing(both), Err(HeadError::BothLengths));
        assert_eq!(framing("Content-Length: 7\r\nContent-Length: 8\r\n"), Err(HeadError::Length));
        for length in ["", "+7", "-1", "0x7", "7, 7", "7 7", "18446744073709551616", "18446744073709551615"] {
            assert_eq!(framing(&format!("Content-Length: {length}\r\n")), Err(HeadError::Length), "{length}");
        }
        for encoding in ["gzip, chunked", "chunked, chunked", "identity", "xchunked", "chunked;a=b", ""] {
            let fields = format!("Transfer-Encoding: {encoding}\r\n");
            assert_eq!(framing(&fields), Err(HeadError::Encoding), "{encoding}");
        }
        let twice = "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n";
        assert_eq!(framing(twice), Err(HeadError::Encoding));
        let old = parse("POST http://a/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(old, Err(HeadError::Encoding));
    }

    #[test]
    fn what_two_parsers_could_read_differently_is_refused() {
        for fields in [
            "A: b\r\n folded\r\n",
            "A: b\r\n\tfolded\r\n",
            "Content-Length : 7\r\n",
            "A: b\rContent-Length: 7\r\n",
            "A: b\0c\r\n",
            " A: b\r\n",
            "A\r\n",
            ": b\r\n",
            "Host: b.example\r\n",
        ] {
            assert_eq!(with(fields).map_err(|error| error.status()), Err(400), "{fields:?}");
        }
        assert_eq!(parse("GET http://a/ HTTP/2.0\r\n\r\n").unwrap_err().status(), 505);
        assert!(matches!(parse("\x16\x03\x01 \r\n\r\n"), Err(HeadError::Malformed(_))));
    }

    #[test]
    fn incomplete_and_oversized_heads() {
        assert_eq!(Head::parse(b"CONNECT a:1 HTTP/1.1\r\nHost"), Ok(None));
        let many = format!("CONNECT a:1 HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(MAX_FIELDS + 1));
        assert_eq!(parse(&many), Err(HeadError::TooLong));
        let long = format!("CONNECT a:1 HTTP/1.1\r\nA: {}", "b".repeat(MAX_HEAD));
        assert_eq!(Head::parse(long.as_bytes()), Err(HeadError::TooLong));
        assert_eq!(Head::parse((long + "\r\n\r\n").as_bytes()), Err(HeadError::TooLong));
    }

    #[test]
    fn two_passwords_are_none() {
        let one = "Proxy-Authorization: Basic eA==\r\n";
        assert_eq!(with(one).unwrap().authorization.as_deref(), Some("Basic eA=="));
        assert_eq!(with(&one.repeat(2)).unwrap().authorization, None);
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
    }
}
