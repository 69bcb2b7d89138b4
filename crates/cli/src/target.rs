//! A place to connect to as people write it: `example.org:443`, `192.0.2.7:22`,
//! `[2001:db8::1]:853`.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

/// Stands for the server's own name server, whatever its address is; on port 53 alone. No name of
/// the Internet ends so (RFC 6761 section 6.4).
pub const RESOLVER: &str = "resolver.mendpath.invalid";

/// The port of DNS.
pub const DNS_PORT: u16 = 53;

/// The longest host name that DNS allows, in bytes (RFC 1035 section 2.3.4).
pub const MAX_NAME: usize = 253;

/// An address or a name that somebody else resolves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// A literal address.
    Ip(IpAddr),
    /// A name, 1 to [`MAX_NAME`] bytes of letters, digits, `-`, `_` and `.`.
    Name(String),
}

/// Host and port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Where.
    pub host: Host,
    /// Which port there.
    pub port: u16,
}

/// Text that names no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// There is no `:PORT` at the end.
    #[error("`{0}` has no port: write HOST:PORT, for example example.org:443")]
    NoPort(String),
    /// The port is not a number from 1 to 65535.
    #[error("`{0}` is not a port: use a number from 1 to 65535")]
    BadPort(String),
    /// An IPv6 address without brackets, so that nobody can tell where the port begins.
    #[error("`{0}` looks like an IPv6 address: put it in brackets, for example [2001:db8::1]:443")]
    BareIpv6(String),
    /// Neither an address nor a host name.
    #[error("`{0}` is neither an address nor a host name")]
    BadHost(String),
}

impl Target {
    /// The server's own name server.
    pub fn resolver() -> Self {
        Self { host: Host::Name(RESOLVER.to_owned()), port: DNS_PORT }
    }

    /// Whether the server's own name server is meant.
    pub fn is_resolver(&self) -> bool {
        matches!(&self.host, Host::Name(name) if name == RESOLVER)
    }

    /// The same place with a literal address.
    pub fn from_addr(addr: SocketAddr) -> Self {
        Self { host: Host::Ip(addr.ip()), port: addr.port() }
    }
}

/// An address as it is known elsewhere: to a socket of IPv6, those of IPv4 look like
/// `::ffff:192.0.2.7`.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl FromStr for Host {
    type Err = TargetError;

    /// Accepts `192.0.2.1`, `[2001:db8::1]` and names.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || TargetError::BadHost(text.to_owned());
        if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            return inner.parse::<Ipv6Addr>().map(|ip| Self::Ip(ip.into())).map_err(|_| bad());
        }
        if text.contains(':') {
            return Err(TargetError::BareIpv6(text.to_owned()));
        }
        if let Ok(ip) = text.parse() {
            return Ok(Self::Ip(ip));
        }
        if is_name(text) { Ok(Self::Name(text.to_owned())) } else { Err(bad()) }
    }
}

/// Whether `text` may be handed to a resolver as a host name.
pub fn is_name(text: &str) -> bool {
    let fits = (1..=MAX_NAME).contains(&text.len());
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    fits && !text.starts_with(['.', '-']) && !text.contains("..") && text.bytes().all(legal)
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) = text.rsplit_once(':').ok_or_else(|| TargetError::NoPort(text.to_owned()))?;
        if text.parse::<Ipv6Addr>().is_ok() {
            return Err(TargetError::BareIpv6(text.to_owned()));
        }
        let number = port.bytes().all(|b| b.is_ascii_digit()).then(|| port.parse().ok()).flatten();
        let port = number.filter(|&p| p != 0).ok_or_else(|| TargetError::BadPort(port.to_owned()))?;
        Ok(Self { host: host.parse()?, port })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
            Self::Ip(ip) => write!(f, "{ip}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_of_ipv4_are_known_as_such() {
        for (address, known) in [
            ("[::ffff:192.0.2.7]:443", "192.0.2.7:443"),
            ("192.0.2.7:443", "192.0.2.7:443"),
            ("[2001:db8::7]:443", "[2001:db8::7]:443"),
        ] {
            assert_eq!(canonical(address.parse().unwrap()), known.parse().unwrap());
        }
    }

    #[test]
    fn what_people_write() {
        for text in ["example.org:443", "192.0.2.7:22", "[2001:db8::1]:853", "my_host:1"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn errors_name_the_cure() {
        let error = |text: &str| text.parse::<Target>().unwrap_err().to_string();
        assert!(error("example.org").contains("HOST:PORT"));
        assert!(error("example.org:0").contains("1 to 65535"));
        assert!(error("example.org:+1").contains("1 to 65535"));
        assert!(error("2001:db8::1").contains("brackets"));
        assert!(error("2001:db8:::1").contains("brackets"));
        assert!(error("exa mple:1").contains("neither"));
        assert!(error(":1").contains("neither"));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in ".{0,80}") {
            if let Ok(target) = text.parse::<Target>() {
                prop_assert_eq!(target.to_string().parse::<Target>().unwrap(), target);
            }
        }

        #[test]
        fn any_target_reads_back(ip: IpAddr, port in 1u16..) {
            let target = Target { host: Host::Ip(ip), port };
            prop_assert_eq!(target.to_string().parse::<Target>().unwrap(), target);
        }
    }
}
