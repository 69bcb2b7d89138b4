//! Which host a request is for.

use hyper::{Method, Request, Version, header::HOST, http::uri::Authority};

/// Whether that is clear (RFC 9112 section 3.2, RFC 9113 section 8.3.1, RFC 9114 section 4.3.1): one
/// proxy or cache might understand it otherwise than the next.
pub(super) fn has_host<B>(request: &Request<B>) -> bool {
    let (target, version) = (request.uri(), request.version());
    let named = target.authority();
    if named.is_some_and(|named| !names_host(named)) {
        return false;
    }
    // `GET localhost` is none: a host alone is for CONNECT.
    if named.is_some() && target.scheme().is_none() && request.method() != Method::CONNECT {
        return false;
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => version != Version::HTTP_11,
        // By HTTP/1 the target counts, and a proxy before this one may have left the field as it was.
        (Some(host), None) if version < Version::HTTP_2 => is_host(host.as_bytes()),
        (Some(host), None) => match named {
            Some(named) => host.as_bytes().eq_ignore_ascii_case(named.as_str().as_bytes()),
            None => is_host(host.as_bytes()),
        },
        _ => false,
    }
}

fn is_host(host: &[u8]) -> bool {
    Authority::try_from(host).is_ok_and(|host| names_host(&host))
}

fn names_host(authority: &Authority) -> bool {
    !authority.host().is_empty() && !authority.as_str().contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_once_which_host_it_is_for() {
        use Version as V;
        for (version, target, hosts, is_clear) in [
            (V::HTTP_11, "/", &["localhost"][..], true),
            (V::HTTP_11, "/", &["localhost:8443"], true),
            (V::HTTP_11, "/", &["[::1]:8443"], true),
            (V::HTTP_11, "/", &[], false),
            (V::HTTP_10, "/", &[], true),
            (V::HTTP_11, "/", &["localhost", "localhost"], false),
            (V::HTTP_10, "/", &["localhost", "other"], false),
            (V::HTTP_11, "/", &["a/b"], false),
            (V::HTTP_11, "/", &["a b"], false),
            (V::HTTP_11, "/", &["me@localhost"], false),
            (V::HTTP_11, "/", &[""], false),
            (V::HTTP_11, "/", &[":443"], false),
            (V::HTTP_11, "*", &["localhost"], true),
            (V::HTTP_11, "http://localhost/", &["other"], true),
            (V::HTTP_11, "http://me@localhost/", &["localhost"], false),
            (V::HTTP_11, "localhost", &["localhost"], false),
            (V::HTTP_11, "localhost:443", &["localhost"], false),
            (V::HTTP_2, "/", &[], true),
            (V::HTTP_2, "/", &["localhost"], true),
            (V::HTTP_2, "/", &["a, b"], false),
            (V::HTTP_2, "/", &["me@localhost"], false),
            (V::HTTP_2, "/", &["localhost", "other"], false),
            (V::HTTP_2, "https://localhost/", &[], true),
            (V::HTTP_2, "https://me@localhost/", &[], false),
            (V::HTTP_3, "https://localhost/", &["LOCALHOST"], true),
            (V::HTTP_3, "https://localhost/", &["other"], false),
        ] {
            let request = Request::get(target).version(version);
            let request = hosts.iter().fold(request, |request, host| request.header(HOST, *host));
            assert_eq!(has_host(&request.body(()).unwrap()), is_clear, "{version:?} {target} {hosts:?}");
        }
        let connect = Request::connect("localhost:443").header(HOST, "localhost:443");
        assert!(has_host(&connect.body(()).unwrap()));
    }
}
