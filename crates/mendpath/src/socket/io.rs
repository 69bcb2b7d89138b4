//! A UDP socket at the runtime, which wakes us for what arrives, and for room to send only while
//! somebody waits for that.
//!
//! The kernel says that a socket has room again for every packet that has left. A runtime that asks
//! for such news is woken once for each, almost always in vain: the socket was never full.

use std::{
    io, net,
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
    time::Duration,
};

use tokio::io::{Interest, unix::AsyncFd};

/// How long to wait where the system has nothing left to wait with (such as descriptors).
const WITHOUT_NEWS: Duration = Duration::from_millis(1);

/// A socket that does not block.
#[derive(Debug)]
pub(super) struct Io(Arc<net::UdpSocket>);

/// Its receiving end, of which there is one.
#[derive(Debug)]
pub(super) struct Receiver {
    socket: Arc<net::UdpSocket>,
    /// `None` while nobody wants to hear of what arrives.
    watched: Option<AsyncFd<Arc<net::UdpSocket>>>,
}

impl Io {
    /// Takes over a socket; must be called within the runtime.
    ///
    /// # Errors
    /// If the runtime cannot watch it.
    pub(super) fn new(socket: net::UdpSocket) -> io::Result<(Self, Receiver)> {
        socket.set_nonblocking(true)?;
        let socket = Arc::new(socket);
        let watched = watch(socket.clone(), Interest::READABLE)?;
        Ok((Self(socket.clone()), Receiver { socket, watched: Some(watched) }))
    }

    /// Sends with `send`, whatever is known of the socket's room.
    ///
    /// # Errors
    /// `WouldBlock` if the socket is full, or as `send`.
    pub(super) fn try_send(&self, send: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>) -> io::Result<()> {
        send(self.0.as_fd())
    }

    /// Waits until sending may work again, or never will.
    pub(super) async fn writable(&self) {
        if self.room().await.is_err() {
            pass(WITHOUT_NEWS).await;
        }
    }

    async fn room(&self) -> io::Result<()> {
        let twin = watch(Arc::new(self.0.try_clone()?), Interest::WRITABLE)?;
        twin.writable().await.map(|mut guard| guard.retain_ready())
    }
}

impl Receiver {
    /// Waits until receiving may work.
    ///
    /// # Errors
    /// If the runtime ends.
    pub(super) async fn readable(&mut self) -> io::Result<()> {
        if self.watched.is_none() {
            self.watched = watch(self.socket.clone(), Interest::READABLE).ok();
        }
        let Some(watched) = &self.watched else {
            self.gather(WITHOUT_NEWS).await;
            return Ok(());
        };
        watched.readable().await.map(|mut guard| guard.retain_ready())
    }

    /// Waits for so long at least, whatever arrives: the runtime is not woken for it.
    pub(super) async fn gather(&mut self, time: Duration) {
        self.watched = None;
        pass(time).await;
    }

    /// Receives with `receive`, which returns how many of `most` messages it got.
    ///
    /// # Errors
    /// `WouldBlock` if none is there, or as `receive`.
    pub(super) fn try_receive(
        &mut self,
        most: usize,
        receive: impl FnOnce(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let Some(watched) = &self.watched else { return receive(self.socket.as_fd()) };
        let mut received = 0;
        let result = watched.try_io(Interest::READABLE, |socket| {
            received = receive(socket.as_fd())?;
            // Another call need not tell that nothing is left. What has arrived since makes the socket
            // readable again.
            if Self::took_all(received, most) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        if received > 0 { Ok(received) } else { result.map(|()| 0) }
    }

    /// Whether a call that got `received` messages where there was room for `most` has left none, as far
    /// as that is known.
    pub(super) fn took_all(received: usize, most: usize) -> bool {
        DRAINS && received < most
    }
}

/// Lets time pass, whatever comes.
#[allow(clippy::disallowed_methods, reason = "there is nothing to wait for but time")]
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Has the runtime watch a socket.
#[expect(
    deprecated,
    reason = "unsound only for types that may close their descriptor before they are dropped"
)]
fn watch(socket: Arc<net::UdpSocket>, interest: Interest) -> io::Result<AsyncFd<Arc<net::UdpSocket>>> {
    AsyncFd::with_interest(socket, interest)
}

/// Whether a call takes all messages that are there, and the runtime hears of each that comes later. On
/// Apple's systems, OpenBSD and NetBSD it takes one.
const DRAINS: bool = cfg!(any(target_os = "linux", target_os = "android"));

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::pin, task::Context};

    use super::*;

    fn bound() -> (Io, Receiver) {
        Io::new(net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap()
    }

    fn is_ready(future: impl Future) -> bool {
        pin!(future).poll(&mut Context::from_waker(std::task::Waker::noop())).is_ready()
    }

    fn receive(receiver: &mut Receiver, most: usize) -> io::Result<usize> {
        let socket = receiver.socket.clone();
        receiver.try_receive(most, |_| socket.recv(&mut [0; 64]).map(|_| 1))
    }

    /// Sends a datagram to `receiver`.
    fn send(receiver: &Receiver) {
        let sender = net::UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"datagram", receiver.socket.local_addr().unwrap()).unwrap();
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[tokio::test]
    async fn what_has_taken_all_that_was_there_waits_for_more() {
        let (_io, mut receiver) = bound();
        send(&receiver);
        receiver.readable().await.unwrap();
        assert_eq!(receive(&mut receiver, 2).unwrap(), 1);
        assert!(Receiver::took_all(1, 2) && !Receiver::took_all(1, 1));
        assert!(!is_ready(receiver.readable()), "without a call that finds nothing");
        send(&receiver);
        receiver.readable().await.unwrap();
        assert_eq!(receive(&mut receiver, 1).unwrap(), 1);
        assert!(is_ready(receiver.readable()), "there may be more than fitted");
        assert_eq!(receive(&mut receiver, 1).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(!is_ready(receiver.readable()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_gathers_is_there_afterwards() {
        let (_io, mut receiver) = bound();
        receiver.gather(Duration::from_millis(1)).await;
        assert_eq!(receive(&mut receiver, 2).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        (0..3).for_each(|_| send(&receiver));
        receiver.gather(Duration::from_millis(1)).await;
        assert_eq!(receive(&mut receiver, 2).unwrap(), 1, "the runtime need not have heard of it");
        receiver.readable().await.unwrap();
        assert_eq!(receive(&mut receiver, 1).unwrap(), 1);
        assert_eq!(receive(&mut receiver, 1).unwrap(), 1);
    }

    /// What the runtime's poll asks the kernel for, by its own account.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn nobody_is_woken_because_a_packet_has_left() {
        use std::{fs, os::fd::AsRawFd};

        const EPOLLOUT: u32 = 4;
        let (io, mut receiver) = bound();
        let watched = |socket: i32| -> Vec<u32> {
            let infos = fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
            let texts: Vec<String> = infos.filter_map(|info| fs::read_to_string(info.path()).ok()).collect();
            let of_socket = |line: &str| -> Option<u32> {
                let words: Vec<&str> = line.split_whitespace().collect();
                let found = words.first() == Some(&"tfd:") && words.get(1) == Some(&&*socket.to_string());
                found.then(|| u32::from_str_radix(words[3], 16).unwrap())
            };
            texts.iter().flat_map(|text| text.lines()).filter_map(of_socket).collect()
        };
        let events = watched(io.0.as_raw_fd());
        assert!(!events.is_empty(), "the socket is watched");
        assert!(events.iter().all(|events| events & EPOLLOUT == 0), "{events:x?}");
        io.writable().await;
        assert_eq!(watched(io.0.as_raw_fd()), events);
        receiver.gather(Duration::ZERO).await;
        assert!(watched(io.0.as_raw_fd()).is_empty(), "nor for what gathers");
        assert!(!is_ready(receiver.readable()));
        assert_eq!(watched(io.0.as_raw_fd()), events);
    }
}
