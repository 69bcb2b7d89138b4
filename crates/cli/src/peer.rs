//! What the system knows of the other end of a TCP connection, above all where that is on this machine.
//!
//! A program that closes, or is killed, while nobody reads from it has its last words wait in the
//! kernel, and the end of its stream behind them: no packet tells of it for minutes. The kernel can
//! be asked about its socket, though (`sock_diag(7)`).

use tokio::net::TcpStream;

/// Whether no program has the other end any more, while what it said last waits to be read. What the
/// system does not tell counts as no.
pub(crate) fn is_abandoned(tcp: &TcpStream) -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return linux::is_abandoned(tcp).unwrap_or(false);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    return {
        let _ = tcp;
        false
    };
}

/// How many bytes the other end of `tcp`, wherever it is, has not acknowledged of what was said to it, of which
/// the end is one. `None` where the system does not tell.
#[cfg(feature = "serve")]
pub(crate) fn unacknowledged(tcp: &TcpStream) -> Option<u32> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return linux::unacknowledged(tcp).ok().flatten();
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    return {
        let _ = tcp;
        None
    };
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use std::{io, net::SocketAddr};

    use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
    use netlink_packet_sock_diag::{
        SockDiagMessage,
        constants::{AF_INET, AF_INET6, IPPROTO_TCP, TCP_FIN_WAIT1},
        inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags},
    };
    use netlink_sys::{Socket, protocols::NETLINK_SOCK_DIAG};
    use tokio::net::TcpStream;

    use crate::target::canonical;

    const NO_COOKIE: [u8; 8] = [0xff; 8];

    pub(super) fn is_abandoned(tcp: &TcpStream) -> io::Result<bool> {
        Ok(ask(tcp.peer_addr()?, tcp.local_addr()?)?.is_some_and(|socket| is_orphan(&socket)))
    }

    #[cfg(feature = "serve")]
    pub(super) fn unacknowledged(tcp: &TcpStream) -> io::Result<Option<u32>> {
        Ok(ask(tcp.local_addr()?, tcp.peer_addr()?)?.map(|socket| socket.header.send_queue))
    }

    /// What the kernel says of the socket with these addresses, if there is one on this machine.
    fn ask(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Box<InetResponse>>> {
        let question = question(canonical(local), canonical(remote));
        let socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.set_non_blocking(true)?;
        // The kernel has answered when the call returns.
        socket.send(&question, 0)?;
        let (answer, _) = socket.recv_from_full()?;
        let answer = NetlinkMessage::deserialize(&answer).map_err(io::Error::other)?;
        Ok(match answer.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(socket)) => Some(socket),
            _ => None,
        })
    }

    /// Asks for the socket with these addresses.
    fn question(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
        let socket_id = SocketId {
            source_port: local.port(),
            destination_port: remote.port(),
            source_address: local.ip(),
            destination_address: remote.ip(),
            interface_id: 0,
            cookie: NO_COOKIE,
        };
        let request = InetRequest {
            family: if local.is_ipv4() { AF_INET } else { AF_INET6 },
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::empty(),
            states: StateFlags::all(),
            socket_id,
        };
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST;
        let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes
    }

    /// All that was said has an end, which has not been acknowledged. Without an inode nobody has a
    /// descriptor of it.
    fn is_orphan(socket: &InetResponse) -> bool {
        socket.header.state == TCP_FIN_WAIT1 && socket.header.inode == 0
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::SocketAddr;

    use tokio::net::TcpSocket;

    use super::*;

    /// It has said more than there is room for, so that nothing tells of its end.
    #[tokio::test]
    async fn who_closes_behind_what_nobody_reads_is_noticed() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let address: SocketAddr = address.parse().unwrap();
            let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
            let Ok(socket) = socket else { continue };
            socket.set_recv_buffer_size(4_096).unwrap();
            if socket.bind(address).is_err() {
                continue;
            }
            let listener = socket.listen(1).unwrap();
            let at = listener.local_addr().unwrap();
            let ip = if at.ip().is_unspecified() { "127.0.0.1".parse().unwrap() } else { at.ip() };
            let program = TcpStream::connect((ip, at.port())).await.unwrap();
            let (tcp, _) = listener.accept().await.unwrap();
            program.writable().await.unwrap();
            while program.try_write(&[0; 65_536]).is_ok() {}
            assert!(!is_abandoned(&tcp), "{address}: it is there");
            drop(program);
            assert!(is_abandoned(&tcp), "{address}");
            drop(tcp);
        }
    }

    #[cfg(feature = "serve")]
    #[tokio::test]
    async fn what_nobody_takes_is_not_acknowledged() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let listener = socket.listen(1).unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (_program, _) = listener.accept().await.unwrap();
        assert_eq!(unacknowledged(&tcp), Some(0), "nothing was said");
        tcp.writable().await.unwrap();
        while tcp.try_write(&[0; 65_536]).is_ok() {}
        assert!(unacknowledged(&tcp).is_some_and(|bytes| bytes > 4_096));
    }
}
