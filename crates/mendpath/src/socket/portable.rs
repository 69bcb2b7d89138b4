//! A UDP socket at the runtime, where all that is known of it is what tokio offers everywhere.

use std::{io, net};

use tokio::{io::Interest, net::UdpSocket};

/// A socket that does not block.
#[derive(Debug)]
pub(super) struct Io(UdpSocket);

impl Io {
    /// Takes over a socket; must be called within the runtime.
    ///
    /// # Errors
    /// If the runtime cannot watch it.
    pub(super) fn new(socket: net::UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        UdpSocket::from_std(socket).map(Self)
    }

    /// Waits until receiving may work.
    ///
    /// # Errors
    /// If the runtime ends.
    pub(super) async fn readable(&self) -> io::Result<()> {
        self.0.readable().await
    }

    /// Receives with `receive`, which returns how many messages it got.
    ///
    /// # Errors
    /// `WouldBlock` if none is there, or as `receive`.
    pub(super) fn try_receive(
        &self,
        _most: usize,
        receive: impl FnOnce(&UdpSocket) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.0.try_io(Interest::READABLE, || receive(&self.0))
    }

    /// Sends with `send`.
    ///
    /// # Errors
    /// `WouldBlock` if the socket is full, or as `send`.
    pub(super) fn try_send(&self, send: impl FnOnce(&UdpSocket) -> io::Result<()>) -> io::Result<()> {
        self.0.try_io(Interest::WRITABLE, || send(&self.0))
    }

    /// Waits until sending may work again, or never will.
    pub(super) async fn writable(&self) {
        // An error shows again when sending, where it is dealt with.
        let _ = self.0.writable().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound() -> (Io, net::SocketAddr) {
        let socket = net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        (Io::new(socket).unwrap(), address)
    }

    #[tokio::test]
    async fn what_is_sent_makes_the_other_end_readable() {
        let ((from, _), (to, address)) = (bound(), bound());
        let mut buffer = [0; 8];
        let nothing = to.try_receive(1, |socket| socket.try_recv(&mut buffer));
        assert_eq!(nothing.unwrap_err().kind(), io::ErrorKind::WouldBlock);

        from.writable().await;
        from.try_send(|socket| socket.try_send_to(b"symbol", address).map(drop)).unwrap();
        to.readable().await.unwrap();
        assert_eq!(to.try_receive(1, |socket| socket.try_recv(&mut buffer)).unwrap(), 6);
        assert_eq!(&buffer[..6], b"symbol");
    }
}
