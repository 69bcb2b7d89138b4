//! What the system knows of the other end of a TCP connection, where that is on this machine.
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

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use std::{
        io::{self, Read as _, Write as _},
        net::{IpAddr, SocketAddr},
    };

    use socket2::{Domain, Socket, Type};
    use tokio::net::TcpStream;

    const AF_NETLINK: i32 = 16;
    const NETLINK_SOCK_DIAG: i32 = 4;
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const NLM_F_REQUEST: u16 = 1;
    const AF_INET: u8 = 2;
    const AF_INET6: u8 = 10;
    const IPPROTO_TCP: u8 = 6;
    /// All that was said has an end, which has not been acknowledged.
    const TCP_FIN_WAIT1: u8 = 4;
    const NO_COOKIE: [u8; 8] = [0xff; 8];
    /// Of `struct nlmsghdr` and `struct inet_diag_req_v2`.
    const QUESTION: usize = 16 + 56;
    /// Where `struct inet_diag_msg` has them, behind the same header.
    const STATE: usize = 16 + 1;
    const INODE: std::ops::Range<usize> = 16 + 68..16 + 72;

    pub(super) fn is_abandoned(tcp: &TcpStream) -> io::Result<bool> {
        let canonical = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
        let question = question(canonical(tcp.peer_addr()?), canonical(tcp.local_addr()?));
        let mut socket = Socket::new(Domain::from(AF_NETLINK), Type::DGRAM, Some(NETLINK_SOCK_DIAG.into()))?;
        socket.set_nonblocking(true)?;
        // The kernel has answered when the call returns.
        socket.write_all(&question)?;
        let mut answer = [0; 512];
        let length = socket.read(&mut answer)?;
        Ok(is_orphan(&answer[..length]))
    }

    /// Asks for the socket with these addresses.
    fn question(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(QUESTION);
        bytes.extend((QUESTION as u32).to_ne_bytes());
        bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        bytes.extend(NLM_F_REQUEST.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend([if local.is_ipv4() { AF_INET } else { AF_INET6 }, IPPROTO_TCP, 0, 0]);
        bytes.extend(u32::MAX.to_ne_bytes());
        bytes.extend(local.port().to_be_bytes());
        bytes.extend(remote.port().to_be_bytes());
        for end in [local, remote] {
            match end.ip() {
                IpAddr::V4(ip) => bytes.extend([&ip.octets()[..], &[0; 12]].concat()),
                IpAddr::V6(ip) => bytes.extend(ip.octets()),
            }
        }
        bytes.extend([0; 4]);
        bytes.extend(NO_COOKIE);
        bytes
    }

    /// Without an inode nobody has a descriptor of it.
    fn is_orphan(answer: &[u8]) -> bool {
        answer.get(4..6) == Some(&SOCK_DIAG_BY_FAMILY.to_ne_bytes())
            && answer.get(STATE) == Some(&TCP_FIN_WAIT1)
            && answer.get(INODE) == Some(&[0; 4])
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn questions_have_the_kernel_s_form() {
            for ends in [["127.0.0.1:1", "127.0.0.1:2"], ["[::1]:1", "[::1]:2"]] {
                let [local, remote] = ends.map(|end| end.parse().unwrap());
                assert_eq!(question(local, remote).len(), QUESTION);
            }
            assert!(!is_orphan(&[]));
        }
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
}
