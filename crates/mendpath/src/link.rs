//! What the local link towards a peer carries, as the operating system knows it.

use proto::NetworkPath;

/// Bytes of UDP payload that fit one packet of the link from a path's local address to its remote one;
/// `None` where the operating system does not tell.
pub(crate) fn udp_payload(path: &NetworkPath) -> Option<u16> {
    let headers = if path.remote.is_ipv4() { 20 + 8 } else { 40 + 8 };
    let payload = mtu(path)?.checked_sub(headers)?;
    Some(u16::try_from(payload).unwrap_or(u16::MAX))
}

/// The MTU of the route that a socket of its own would take.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn mtu(path: &NetworkPath) -> Option<u32> {
    use rustix::net::sockopt;

    let socket = std::net::UdpSocket::bind((path.local.ip(), 0)).ok()?;
    socket.connect(path.remote).ok()?;
    let mtu = if path.remote.is_ipv4() { sockopt::ip_mtu(&socket) } else { sockopt::ipv6_mtu(&socket) };
    mtu.ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn mtu(_: &NetworkPath) -> Option<u32> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Whatever its MTU is, it is more than Ethernet's.
    #[test]
    fn loopback_is_wide() {
        let path = |local: &str, remote: &str| NetworkPath {
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
        };
        assert!(udp_payload(&path("127.0.0.1:7", "127.0.0.1:9")).unwrap() > 8_000);
        assert!(udp_payload(&path("0.0.0.0:7", "127.0.0.1:9")).unwrap() > 8_000);
        assert_eq!(udp_payload(&path("127.0.0.1:7", "[::1]:9")), None, "no such route");
    }
}
