//! SOCKS5's UDP ASSOCIATE (RFC 1928 section 7): a local UDP port for as long as the program's TCP
//! connection lasts.

use std::net::{IpAddr, SocketAddr};

use fast_socks5::{ReplyError, new_udp_header, parse_udp_request};
use tokio::net::{TcpStream, UdpSocket};
use tracing::debug;

use super::{
    Shared, associate,
    socks5::{Waiting, refuse, reply_error, target_of},
};
use crate::{
    association::Association,
    protocol::Packet,
    target::{DNS_PORT, Host, Target},
};

/// The longest UDP payload with SOCKS5's header.
const MAX_DATAGRAM: usize = 65_535;

/// Serves one association until the program, whose TCP connection came to `local`, closes that, or the
/// server ends it.
pub(super) async fn serve(
    waiting: Waiting<&mut TcpStream>,
    local: SocketAddr,
    program: SocketAddr,
    shared: &Shared,
) {
    let program = program.ip().to_canonical();
    let Ok(socket) = UdpSocket::bind(beside(local)).await else {
        return refuse(waiting, ReplyError::GeneralFailure).await;
    };
    let Ok(address) = socket.local_addr() else { return };
    let association = match associate(&shared.uplink).await {
        Ok(association) => association,
        Err(reply) => return refuse(waiting, reply_error(&reply)).await,
    };
    let Ok(tcp) = waiting.reply_success(address).await else { return };
    let mut ignored = tokio::io::sink();
    tokio::select! {
        () = relay(&socket, association, program) => {}
        // What the program says here means nothing; the end of its connection ends the association.
        _ = tokio::io::copy(tcp, &mut ignored) => {}
    }
    debug!(%program, "UDP association ended");
}

/// The same address with a port that the system chooses. A link-local one keeps its interface (RFC 4007
/// section 6), without which nobody can be bound to it.
fn beside(local: SocketAddr) -> SocketAddr {
    match local.ip().to_canonical() {
        // At `[::]` programs of IPv4 come from addresses of IPv6, to which their sockets cannot send.
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), 0),
        IpAddr::V6(_) => {
            let mut beside = local;
            beside.set_port(0);
            beside
        }
    }
}

/// Moves packets between the program and the association.
async fn relay(socket: &UdpSocket, mut association: Association, program: IpAddr) {
    let mut buffer = vec![0; MAX_DATAGRAM];
    // The port is the one of the program's first packet; strangers on this machine are not listened
    // to.
    let mut peer: Option<SocketAddr> = None;
    loop {
        tokio::select! {
            received = socket.recv_from(&mut buffer) => {
                let Ok((n, from)) = received else { continue };
                if from.ip() != program || peer.is_some_and(|known| known != from) {
                    continue;
                }
                if let Some(packet) = unwrap(&buffer[..n]).await {
                    peer = Some(from);
                    if packet.peer.port == DNS_PORT {
                        association.send_surely(&packet);
                    } else {
                        association.send(&packet);
                    }
                }
            }
            packet = association.receive() => {
                let Some(packet) = packet else { return };
                if let (Some(peer), Some(datagram)) = (peer, wrap(&packet.packet)) {
                    let _ = socket.send_to(&datagram, peer).await;
                }
            }
        }
    }
}

/// Takes SOCKS5's header off; `None` for fragments (which may be dropped, RFC 1928 section 7) and
/// for what is malformed.
pub(super) async fn unwrap(datagram: &[u8]) -> Option<Packet> {
    let (fragment, address, payload) = parse_udp_request(datagram).await.ok()?;
    let peer = target_of(address)?;
    (fragment == 0).then(|| Packet { peer, payload: payload.to_vec() })
}

/// Puts SOCKS5's header on.
pub(super) fn wrap(packet: &Packet) -> Option<Vec<u8>> {
    let Target { host, port } = &packet.peer;
    let header = match host {
        Host::Ip(ip) => new_udp_header(SocketAddr::new(*ip, *port)),
        Host::Name(name) => new_udp_header((name.as_str(), *port)),
    };
    let mut datagram = header.ok()?;
    datagram.extend(&packet.payload);
    Some(datagram)
}

#[cfg(test)]
mod tests {
    use std::{net::SocketAddrV6, sync::Arc, time::Duration};

    use proptest::prelude::*;

    use super::*;
    use crate::{
        association::{Hub, tests::connected},
        protocol::{MAX_PACKET, read_frame},
    };

    /// A lost question costs a program seconds.
    #[tokio::test]
    async fn questions_for_name_servers_go_where_a_loss_is_mended() {
        let (connection, stream, other) = connected().await;
        let hub = Arc::new(Hub::new(connection));
        let association = Association::begin(&hub, 1, stream).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let program = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let question = Packet { peer: "192.0.2.1:53".parse().unwrap(), payload: b"query".to_vec() };
        program.send_to(&wrap(&question).unwrap(), socket.local_addr().unwrap()).await.unwrap();
        let arrives = tokio::time::timeout(Duration::from_secs(60), async {
            let (_send, mut receive) = other.accept_bi().await.unwrap();
            read_frame(&mut receive, MAX_PACKET).await.unwrap().unwrap()
        });
        let frame = tokio::select! {
            () = relay(&socket, association, program.local_addr().unwrap().ip()) => panic!("it ended"),
            arrived = arrives => arrived.expect("it goes on the stream"),
        };
        assert_eq!(Packet::decode(&frame), Ok(question));
    }

    #[tokio::test]
    async fn headers_come_off_and_go_on() {
        for peer in ["192.0.2.1:53", "[2001:db8::1]:53"] {
            let packet = Packet { peer: peer.parse().unwrap(), payload: b"query".to_vec() };
            assert_eq!(unwrap(&wrap(&packet).unwrap()).await, Some(packet));
        }
        assert_eq!(unwrap(b"\0\0\0\x03\x01a\0\x35x").await.unwrap().peer.to_string(), "a:53");
        assert_eq!(unwrap(b"\0\0\x01\x03\x01a\0\x35x").await, None, "a fragment");
    }

    #[test]
    fn a_link_local_address_keeps_its_interface() {
        let link_local = SocketAddrV6::new("fe80::1".parse().unwrap(), 1080, 0, 7);
        let port_0 = SocketAddrV6::new(*link_local.ip(), 0, 0, 7);
        assert_eq!(beside(link_local.into()), SocketAddr::V6(port_0));
        for (local, expected) in [
            ("127.0.0.1:1080", "127.0.0.1:0"),
            ("[::ffff:192.0.2.1]:1080", "192.0.2.1:0"),
            ("[2001:db8::1]:1080", "[2001:db8::1]:0"),
        ] {
            assert_eq!(beside(local.parse().unwrap()), expected.parse::<SocketAddr>().unwrap());
        }
    }

    proptest! {
        #[test]
        fn any_datagram_is_survived(datagram in proptest::collection::vec(any::<u8>(), 0..60)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let _ = runtime.block_on(unwrap(&datagram));
        }
    }
}
