//! The address that an invitation names.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use super::Advertise;
use crate::{
    console::say,
    destination::{self, DestinationPolicy},
    target::{Host, Target, TargetError},
};

impl FromStr for Advertise {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(target) => Ok(Self::Target(target)),
            Err(TargetError::NoPort(_)) => text.parse().map(Self::Host),
            // An address of IPv6 has colons of its own.
            Err(_) if text.starts_with('[') && text.ends_with(']') => text.parse().map(Self::Host),
            Err(error) => Err(error),
        }
    }
}

/// Where clients reach a server that listens on `listening`: what the operator says, else that
/// address, else, when it stands for every address, the one from which this machine reaches the
/// internet. The operator is told if only this network reaches that.
pub fn advertised(chosen: Option<&Advertise>, listening: SocketAddr) -> Target {
    let place = place(chosen, listening);
    if let (None, true, Host::Ip(ip)) = (chosen, listening.ip().is_unspecified(), &place.host)
        && DestinationPolicy::PublicOnly.check(*ip).is_err()
    {
        say(format_args!(
            "the invitation names {ip}, which only this network reaches; --advertise HOST names another"
        ));
    }
    place
}

/// The same without a word.
pub(crate) fn place(chosen: Option<&Advertise>, listening: SocketAddr) -> Target {
    match chosen {
        Some(Advertise::Target(target)) => target.clone(),
        Some(Advertise::Host(host)) => Target { host: host.clone(), port: listening.port() },
        None if !listening.ip().is_unspecified() => Target::from_addr(listening),
        None => guessed(listening),
    }
}

fn guessed(listening: SocketAddr) -> Target {
    let ip = source_towards(Ipv4Addr::new(192, 0, 2, 1).into())
        .or_else(|| {
            listening
                .is_ipv6()
                .then(|| source_towards(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()))
                .flatten()
        })
        .unwrap_or(Ipv4Addr::LOCALHOST.into());
    Target { host: Host::Ip(ip), port: listening.port() }
}

/// The address that packets to `destination` would come from.
fn source_towards(destination: IpAddr) -> Option<IpAddr> {
    destination::source_towards(destination).ok().filter(|ip| !ip.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_knows_best() {
        let listening = "0.0.0.0:4433".parse().unwrap();
        let host = Advertise::Host("vps.example".parse().unwrap());
        assert_eq!(advertised(Some(&host), listening).to_string(), "vps.example:4433");
        let target = Advertise::Target("vps.example:443".parse().unwrap());
        assert_eq!(advertised(Some(&target), listening).to_string(), "vps.example:443");
        assert_eq!(advertised(None, "192.0.2.8:1".parse().unwrap()).to_string(), "192.0.2.8:1");
    }

    #[test]
    fn a_port_may_be_left_out_and_not_be_wrong() {
        for text in ["vps.example", "192.0.2.7", "[2001:db8::1]"] {
            assert_eq!(text.parse::<Advertise>(), Ok(Advertise::Host(text.parse().unwrap())));
        }
        for text in ["vps.example:443", "192.0.2.7:443", "[2001:db8::1]:443"] {
            assert_eq!(text.parse::<Advertise>(), Ok(Advertise::Target(text.parse().unwrap())));
        }
        for text in ["vps.example:99999", "192.0.2.7:0", "vps.example:"] {
            let error = text.parse::<Advertise>().unwrap_err().to_string();
            assert!(error.contains("is not a port: use a number"), "{text}: {error}");
        }
        assert!("2001:db8::1".parse::<Advertise>().unwrap_err().to_string().contains("in brackets"));
    }

    #[test]
    fn a_guess_is_never_the_wildcard() {
        assert!(!advertised(None, "0.0.0.0:4433".parse().unwrap()).to_string().starts_with("0.0.0.0"));
    }
}
