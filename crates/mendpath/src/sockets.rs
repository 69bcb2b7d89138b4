//! The sockets of an endpoint, and which of them a packet leaves by.

use std::{
    net::SocketAddr,
    sync::{Arc, PoisonError, RwLock},
};

use crate::socket::Socket;

/// The sockets, in the order they were bound.
#[derive(Debug, Default)]
pub(crate) struct Sockets(RwLock<Vec<Arc<Socket>>>);

impl Sockets {
    pub(crate) fn add(&self, socket: Arc<Socket>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(socket);
    }

    pub(crate) fn remove(&self, socket: &Arc<Socket>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).retain(|other| !Arc::ptr_eq(other, socket));
    }

    /// Closes all of them.
    pub(crate) fn close(&self) {
        for socket in self.0.write().unwrap_or_else(PoisonError::into_inner).drain(..) {
            socket.close();
        }
    }

    /// The socket that packets with this local address leave by: the one bound exactly there, else
    /// one with that port on any address, else (port 0) the first that fits.
    pub(crate) fn select(&self, local: SocketAddr) -> Option<Arc<Socket>> {
        self.with(|sockets| best(sockets.iter().map(|socket| (socket.fits(local), socket))).cloned())
    }

    /// The first socket not bound for a path of its own from which `remote` can be reached.
    pub(crate) fn towards(&self, remote: SocketAddr) -> Option<Arc<Socket>> {
        self.with(|sockets| {
            sockets.iter().find(|socket| !socket.is_dedicated() && socket.reaches(remote.ip())).cloned()
        })
    }

    /// Takes out every socket not bound for a path of its own whose place `new` can take.
    pub(crate) fn replace(&self, new: &Arc<Socket>) -> Vec<Arc<Socket>> {
        let mut sockets = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let replaced = |socket: &mut Arc<Socket>| {
            !socket.is_dedicated() && !Arc::ptr_eq(socket, new) && new.reaches(socket.local().ip())
        };
        sockets.extract_if(.., replaced).collect()
    }

    pub(crate) fn local_addrs(&self) -> Vec<SocketAddr> {
        self.with(|sockets| sockets.iter().map(|socket| socket.local()).collect())
    }

    fn with<T>(&self, read: impl FnOnce(&[Arc<Socket>]) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The candidate that fits best, the first of equals.
fn best<T>(candidates: impl Iterator<Item = (Option<u8>, T)>) -> Option<T> {
    let mut best: Option<(u8, T)> = None;
    for (fit, candidate) in candidates {
        if let Some(fit) = fit
            && best.as_ref().is_none_or(|(other, _)| fit > *other)
        {
            best = Some((fit, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{ErrorKind, IoSliceMut},
        net::UdpSocket,
    };

    use proto::{Ecn, NetworkPath, Transmit};
    use quinn_udp::RecvMeta;

    use super::*;
    use crate::{
        bind::bind,
        socket::{self, Receiver, UsedBy},
    };

    fn receiver(local: &str) -> Receiver {
        Receiver::new(bind(local.parse().unwrap()).unwrap(), UsedBy::All).unwrap()
    }

    fn bound(local: &str) -> Arc<Socket> {
        receiver(local).socket().clone()
    }

    #[tokio::test]
    async fn the_socket_that_fits_best_is_selected() {
        let (any, one, two) = (bound("0.0.0.0:0"), bound("127.0.0.1:0"), bound("127.0.0.2:0"));
        let sockets = Sockets::default();
        [&any, &one, &two].into_iter().for_each(|socket| sockets.add(socket.clone()));
        let select = |local: SocketAddr| sockets.select(local).map(|socket| socket.local());
        for socket in [&any, &one, &two] {
            assert_eq!(select(socket.local()), Some(socket.local()));
        }
        let elsewhere = |socket: &Socket| SocketAddr::new([192, 0, 2, 1].into(), socket.local().port());
        assert_eq!(select(elsewhere(&any)), Some(any.local()), "bound to any address");
        assert_eq!(select(elsewhere(&two)), None, "bound to another address");
        assert_eq!(select("127.0.0.2:0".parse().unwrap()), Some(two.local()));
        assert_eq!(select("192.0.2.1:0".parse().unwrap()), Some(any.local()));
        assert_eq!(select("[::1]:0".parse().unwrap()), None);
        sockets.remove(&any);
        assert_eq!(select("192.0.2.1:0".parse().unwrap()), None);
        assert_eq!(sockets.towards("192.0.2.1:1".parse().unwrap()).unwrap().local(), one.local());
    }

    /// As systemd hands over one of each family for the same port.
    #[tokio::test]
    async fn a_socket_of_ipv6_alone_sends_no_ipv4() {
        let alone = || {
            let socket = socket2::Socket::new(socket2::Domain::IPV6, socket2::Type::DGRAM, None)?;
            socket.set_only_v6(true)?;
            socket.bind(&SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, 0)).into())?;
            Receiver::new(socket.into(), UsedBy::All)
        };
        let Ok(v6) = alone() else {
            eprintln!("skipped: no IPv6 here");
            return;
        };
        let (v6, v4) = (v6.socket().clone(), bound("0.0.0.0:0"));
        let sockets = Sockets::default();
        [&v6, &v4].into_iter().for_each(|socket| sockets.add(socket.clone()));
        let towards = |remote: &str| sockets.towards(remote.parse().unwrap()).map(|socket| socket.local());
        assert_eq!(towards("192.0.2.1:1"), Some(v4.local()));
        assert_eq!(towards("[2001:db8::1]:1"), Some(v6.local()));
        assert!(sockets.select(SocketAddr::new([192, 0, 2, 1].into(), v6.local().port())).is_none());
    }

    /// Everything that one transmit holds, in as many calls as it takes.
    async fn send(socket: &Arc<Socket>, transmit: &Transmit, bytes: &[u8]) {
        let mut sent = 0;
        while sent < transmit.size {
            match socket.try_send(transmit, bytes, sent) {
                (size, Ok(())) => sent += size,
                (_, Err(error)) if error.kind() == ErrorKind::WouldBlock => socket.clone().writable().await,
                (_, Err(error)) => panic!("{error}"),
            }
        }
    }

    /// Receives until `count` datagrams are there; returns their sizes and what was known about the
    /// last of them.
    async fn receive(receiver: &mut Receiver, count: usize) -> (Vec<usize>, RecvMeta) {
        let mut buffer = vec![0; 1 << 16];
        let mut sizes = Vec::new();
        let mut meta = [RecvMeta::default()];
        while sizes.len() < count {
            receiver.readable().await.unwrap();
            if receiver.try_recv(&mut [IoSliceMut::new(&mut buffer)], &mut meta).is_ok() {
                sizes.extend(buffer[..meta[0].len].chunks(meta[0].stride).map(<[u8]>::len));
            }
        }
        (sizes, meta[0])
    }

    #[tokio::test]
    async fn a_batch_above_the_limit_of_one_call_is_divided() {
        let (sender, mut receiving) = (bound("127.0.0.1:0"), receiver("127.0.0.1:0"));
        let receiver = receiving.socket().clone();
        let path = NetworkPath { local: sender.local(), remote: receiver.local() };
        let bytes = vec![3; 70 * 1_200 + 7];
        let transmit = Transmit { path, ecn: Some(Ecn::Ect0), size: bytes.len(), segment_size: Some(1_200) };
        send(&sender, &transmit, &bytes).await;
        let (sizes, meta) = receive(&mut receiving, 71).await;
        assert_eq!(sizes[..70], [1_200; 70]);
        assert_eq!(sizes[70..], [7]);
        assert_eq!(socket::ecn(&meta), Some(Ecn::Ect0));
        assert_eq!(receiver.path_of(&meta), NetworkPath { local: receiver.local(), remote: sender.local() });
    }

    #[tokio::test]
    async fn a_wildcard_socket_answers_from_the_address_that_was_asked() {
        let mut ends = [receiver("0.0.0.0:0"), receiver("127.0.0.1:0")];
        let [server, client] = ends.each_ref().map(|end| end.socket().clone());
        let asked: SocketAddr = SocketAddr::new([127, 0, 0, 3].into(), server.local().port());
        let path = NetworkPath { local: client.local(), remote: asked };
        send(&client, &Transmit { path, ecn: None, size: 5, segment_size: None }, b"hello").await;
        let (_, meta) = receive(&mut ends[0], 1).await;
        let path = server.path_of(&meta);
        assert_eq!(path, NetworkPath { local: asked, remote: client.local() });
        send(&server, &Transmit { path, ecn: None, size: 5, segment_size: None }, b"hello").await;
        let (_, meta) = receive(&mut ends[1], 1).await;
        assert_eq!(client.path_of(&meta).remote, asked);
    }

    #[tokio::test]
    async fn a_dual_stack_socket_speaks_ipv4() {
        let Ok(server) = UdpSocket::bind("[::1]:0").and_then(|_| bind_dual()) else {
            eprintln!("skipped: no IPv6 here");
            return;
        };
        let mut ends = [server, receiver("127.0.0.1:0")];
        let [server, client] = ends.each_ref().map(|end| end.socket().clone());
        let asked = SocketAddr::new([127, 0, 0, 1].into(), server.local().port());
        let path = NetworkPath { local: client.local(), remote: asked };
        send(&client, &Transmit { path, ecn: None, size: 2, segment_size: None }, b"v4").await;
        let (_, meta) = receive(&mut ends[0], 1).await;
        let path = server.path_of(&meta);
        assert_eq!(path, NetworkPath { local: asked, remote: client.local() });
        assert_eq!(server.fits(path.local), Some(2));
        send(&server, &Transmit { path, ecn: None, size: 2, segment_size: None }, b"v4").await;
        assert_eq!(receive(&mut ends[1], 1).await.1.addr, asked);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_source_that_is_gone_takes_nothing_from_a_socket() {
        let Ok(receiver) = UdpSocket::bind("[::1]:0") else {
            eprintln!("skipped: no IPv6 here");
            return;
        };
        let sender = bind_dual().unwrap().socket().clone();
        let (port, remote) = (sender.local().port(), receiver.local_addr().unwrap());
        let transmit = |from: &str, size, segment_size| {
            let path = NetworkPath { local: SocketAddr::new(from.parse().unwrap(), port), remote };
            sender.try_send(&Transmit { path, ecn: None, size, segment_size }, &[0; 2_000][..size], 0)
        };
        let of_one_call = || transmit("::1", 2_000, Some(1_000)).0;
        let before = of_one_call();
        for (size, segment_size) in [(5, None), (2_000, Some(1_000))] {
            let error = transmit("2001:db8::1", size, segment_size).1.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            assert_eq!(of_one_call(), before);
        }
    }

    /// As over many modems before Linux 6.11: their devices compute no checksums.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn what_nothing_divides_is_sent_one_by_one_and_marked() {
        use socket2::{Domain, Protocol, Type};

        // Of UDP-Lite (RFC 3828) the kernel divides nothing.
        let lite = || {
            let socket = socket2::Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::from(136)))?;
            socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
            Receiver::new(socket.into(), UsedBy::All)
        };
        let (Ok(sender), Ok(mut receiver)) = (lite(), lite()) else {
            eprintln!("skipped: no UDP-Lite here");
            return;
        };
        let sender = sender.socket().clone();
        let path = NetworkPath { local: sender.local(), remote: receiver.socket().local() };
        let transmit = Transmit { path, ecn: Some(Ecn::Ect0), size: 2_500, segment_size: Some(1_000) };
        send(&sender, &transmit, &[3; 2_500]).await;
        let (sizes, meta) = receive(&mut receiver, 3).await;
        assert_eq!(sizes, [1_000, 1_000, 500]);
        assert_eq!(socket::ecn(&meta), Some(Ecn::Ect0));
    }

    fn bind_dual() -> std::io::Result<Receiver> {
        let socket = bind("[::]:0".parse().unwrap()).map_err(std::io::Error::other)?;
        Receiver::new(socket, UsedBy::All)
    }

    async fn is_open(socket: &Socket) -> bool {
        tokio::time::timeout(std::time::Duration::from_secs(60), socket.end_of_life()).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn a_socket_of_several_paths_lives_as_long_as_the_last() {
        let (retired, left) = (bound("127.0.0.1:0"), bound("127.0.0.1:0"));
        assert!(retired.join() && retired.join() && left.join());
        retired.retire();
        retired.leave();
        left.leave();
        assert!(is_open(&retired).await && is_open(&left).await);
        retired.retire();
        left.leave();
        assert!(!retired.join() && !left.join(), "too late");
        assert!(!is_open(&retired).await && !is_open(&left).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_retired_socket_lingers_and_a_closed_one_does_not() {
        let (retired, closed) = (bound("127.0.0.1:0"), bound("127.0.0.1:0"));
        let before = tokio::time::Instant::now();
        closed.close();
        closed.retire();
        closed.end_of_life().await;
        assert_eq!(tokio::time::Instant::now(), before);
        retired.retire();
        retired.end_of_life().await;
        assert!(tokio::time::Instant::now() > before);
    }
}
