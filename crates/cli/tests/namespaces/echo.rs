//! Hosts that send back what they get, for as long as the test's program runs.

use std::{
    io,
    net::{SocketAddr, TcpListener, UdpSocket},
    thread,
};

/// Where connections to it are echoed.
pub(super) fn tcp(listener: TcpListener) -> SocketAddr {
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((tcp, _)) = listener.accept() {
            thread::spawn(move || io::copy(&mut &tcp, &mut &tcp));
        }
    });
    address
}

/// Where datagrams are echoed, each by itself.
pub(super) fn udp(socket: UdpSocket) -> SocketAddr {
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; 65_535];
        while let Ok((n, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..n], from);
        }
    });
    address
}
