//! What is set on the TCP connections at both ends of the proxy pair.

use tokio::net::TcpStream;

/// Bytes that may wait in the kernel unsent, beside those that the other side's window lets leave.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNSENT: u32 = 128 << 10;

/// Prepares a connection with a program or a host.
///
/// - The transport below decides which bytes travel together; waiting here only adds delay.
/// - The kernel would take megabytes for a program that does not read: memory that nobody counts,
///   and reading so fast at first earns a stream a window that others then miss.
pub(crate) fn prepare(tcp: &TcpStream) {
    // Without them it works as well, only worse.
    let _ = tcp.set_nodelay(true);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = socket2::SockRef::from(tcp).set_tcp_notsent_lowat(UNSENT);
}
