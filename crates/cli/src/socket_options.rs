//! What is set on TCP's sockets: on those that listen, and on the connections at both ends of the
//! proxy pair.

use std::{io, net::SocketAddr, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Bytes that may wait in the kernel unsent, beside those that the other side's window lets leave.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNSENT: u32 = 128 << 10;

/// Without a word, until the other end is asked whether it is still there.
const ASKED_AFTER: Duration = Duration::from_secs(30);

/// Listens at `address`, which a server that is started again takes at once. The kernel holds as many
/// as `waiting` connections that are not accepted yet.
pub(crate) fn listen(address: SocketAddr, waiting: u32) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(waiting)
}

/// Prepares a connection with a program.
///
/// - The transport below decides which bytes travel together; waiting here only adds delay.
/// - The kernel would take megabytes for a program that does not read: memory that nobody counts,
///   and reading so fast at first earns a stream a window that others then miss.
/// - A program whose machine is gone without a word leaves its seat after a minute.
pub(crate) fn prepare_program(tcp: &TcpStream) {
    let keepalive = TcpKeepalive::new().with_time(ASKED_AFTER);
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "freebsd"))]
    let keepalive = keepalive.with_interval(ASKED_AFTER / 3).with_retries(3);
    prepare(tcp, &keepalive);
}

/// Prepares a connection with a host: as with a program, but a network that does not get through for
/// a few minutes breaks nothing off. How often a host is asked is the system's to say.
pub(crate) fn prepare_host(tcp: &TcpStream) {
    prepare(tcp, &TcpKeepalive::new().with_time(ASKED_AFTER));
}

fn prepare(tcp: &TcpStream, keepalive: &TcpKeepalive) {
    // Without them it works as well, only worse.
    let _ = tcp.set_nodelay(true);
    let _ = SockRef::from(tcp).set_tcp_keepalive(keepalive);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = SockRef::from(tcp).set_tcp_notsent_lowat(UNSENT);
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_is_gone_without_a_word_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        for prepare in [prepare_program, prepare_host] {
            let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            prepare(&tcp);
            let socket = SockRef::from(&tcp);
            assert!(socket.keepalive().unwrap());
            assert_eq!(socket.tcp_keepalive_time().unwrap(), ASKED_AFTER);
        }
    }
}
