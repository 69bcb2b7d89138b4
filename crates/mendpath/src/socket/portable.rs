//! A UDP socket at the runtime, where all that is known of it is what tokio offers everywhere.

use std::{io, net, sync::Arc, time::Duration};

use tokio::{io::Interest, net::UdpSocket};

/// A socket that does not block.
#[derive(Debug)]
pub(super) struct Io(Arc<UdpSocket>);

/// Its receiving end, of which there is one.
#[derive(Debug)]
pub(super) struct Receiver(Arc<UdpSocket>);

impl Io {
    /// Takes over a socket; must be called within the runtime.
    ///
    /// # Errors
    /// If the runtime cannot watch it.
    pub(super) fn new(socket: net::UdpSocket) -> io::Result<(Self, Receiver)> {
        socket.set_nonblocking(true)?;
        let socket = Arc::new(UdpSocket::from_std(socket)?);
        Ok((Self(socket.clone()), Receiver(socket)))
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

impl Receiver {
    /// Waits until receiving may work.
    ///
    /// # Errors
    /// If the runtime ends.
    pub(super) async fn readable(&mut self) -> io::Result<()> {
        self.0.readable().await
    }

    /// Waits for so long at least, whatever arrives.
    #[allow(clippy::disallowed_methods, reason = "to let time pass, whatever comes, is what it is for")]
    pub(super) async fn gather(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Receives with `receive`, which returns how many messages it got.
    ///
    /// # Errors
    /// `WouldBlock` if none is there, or as `receive`.
    pub(super) fn try_receive(
        &mut self,
        _most: usize,
        receive: impl FnOnce(&UdpSocket) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.0.try_io(Interest::READABLE, || receive(&self.0))
    }

    /// Whether a call that got `received` messages where there was room for `most` has left none, as far
    /// as that is known: Windows gives one at a time, whatever is there.
    pub(super) fn took_all(_received: usize, _most: usize) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound() -> (Io, Receiver, net::SocketAddr) {
        let socket = net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let (io, receiver) = Io::new(socket).unwrap();
        (io, receiver, address)
    }

    #[tokio::test]
    async fn what_is_sent_makes_the_other_end_readable() {
        let ((from, ..), (_, mut to, address)) = (bound(), bound());
        let mut buffer = [0; 8];
        let nothing = to.try_receive(1, |socket| socket.try_recv(&mut buffer));
        assert_eq!(nothing.unwrap_err().kind(), io::ErrorKind::WouldBlock);

        from.writable().await;
        from.try_send(|socket| socket.try_send_to(b"symbol", address).map(drop)).unwrap();
        to.readable().await.unwrap();
        to.gather(Duration::ZERO).await;
        assert_eq!(to.try_receive(1, |socket| socket.try_recv(&mut buffer)).unwrap(), 6);
        assert_eq!(&buffer[..6], b"symbol");
        assert!(!Receiver::took_all(1, 2), "there may be more");
    }
}
