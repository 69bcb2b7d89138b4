//! Sockets that the service manager has bound and hands over (systemd's socket activation): they
//! stay bound while the program is started again, and what arrives meanwhile waits in them.

use std::net::UdpSocket;

use listenfd::ListenFd;

use crate::failure::{Failure, io_reason};

/// The UDP sockets that were handed over to this process; none as a rule. Each call takes them all.
///
/// # Errors
/// When there are sockets of another kind.
pub fn handed_over() -> Result<Vec<UdpSocket>, Failure> {
    let mut handed = ListenFd::from_env();
    let count = handed.len();
    let take = |at| {
        let socket = handed.take_udp_socket(at).and_then(|socket| {
            if let Some(socket) = &socket {
                socket.set_nonblocking(true)?;
            }
            Ok(socket)
        });
        let failed = |error: std::io::Error| {
            Failure::usage(
                "cannot use the sockets that the service manager hands over",
                io_reason(&error),
                "Let its unit have ListenDatagram= and nothing else that listens",
            )
        };
        socket.map_err(failed).transpose()
    };
    (0..count).filter_map(take).collect()
}
