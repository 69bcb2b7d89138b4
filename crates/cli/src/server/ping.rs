//! Echo requests (ping) for clients, from sockets that need no root (icmp(7)).
//!
//! Which groups may open them is for `net.ipv4.ping_group_range` to say, which systemd sets to all.
//! Where they may not, requests go unanswered, as if the host were silent. The kernel gives each
//! socket an identifier of its own, and hands it the answers to that alone.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::OnceLock,
};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tracing::debug;

use super::{means::Allowance, shares::Part};

/// Type, code, checksum and identifier; the sequence number follows.
const HEADER: usize = 6;

/// The sockets of one association, opened when they are needed. If that fails, the next request tries
/// again: there may be descriptors by then.
#[derive(Default)]
pub(super) struct Ping {
    v4: OnceLock<(UdpSocket, Part)>,
    v6: OnceLock<(UdpSocket, Part)>,
}

impl Ping {
    /// Asks a host. `payload` is the sequence number in two bytes and what is to come back.
    pub(super) async fn send(&self, payload: &[u8], to: SocketAddr, allowance: &Allowance) {
        let (slot, request) = if to.is_ipv4() { (&self.v4, 8) } else { (&self.v6, 128) };
        if slot.get().is_none()
            && let Ok(room) = allowance.sockets(1)
        {
            match open(to.is_ipv4()) {
                Ok(socket) => _ = slot.set((socket, room)),
                Err(error) => debug!(%error, "no socket for ping"),
            }
        }
        if let Some((socket, _)) = slot.get()
            && payload.len() >= 2
        {
            // The kernel fills in checksum and identifier.
            let message = [&[request, 0, 0, 0, 0, 0], payload].concat();
            if let Err(error) = socket.send_to(&message, to).await {
                debug!(%to, %error, "cannot ask for an echo");
            }
        }
    }

    /// The sockets that there are: IPv4, IPv6.
    pub(super) fn sockets(&self) -> [Option<&UdpSocket>; 2] {
        [&self.v4, &self.v6].map(|slot| slot.get().map(|(socket, _)| socket))
    }
}

/// What a host answers, as the client sent it; `None` for anything but an answer.
pub(super) fn answer(message: &[u8], from: SocketAddr) -> Option<(Vec<u8>, SocketAddr)> {
    let reply = if from.is_ipv4() { 0 } else { 129 };
    let payload = message.get(HEADER..).filter(|payload| payload.len() >= 2)?;
    (message[..2] == [reply, 0]).then(|| (payload.to_vec(), SocketAddr::new(from.ip(), 0)))
}

fn open(v4: bool) -> std::io::Result<UdpSocket> {
    let (domain, protocol, any): (_, _, SocketAddr) = if v4 {
        (Domain::IPV4, Protocol::ICMPV4, (Ipv4Addr::UNSPECIFIED, 0).into())
    } else {
        (Domain::IPV6, Protocol::ICMPV6, (Ipv6Addr::UNSPECIFIED, 0).into())
    };
    let socket = Socket::new(domain, Type::DGRAM, Some(protocol))?;
    socket.set_nonblocking(true)?;
    socket.bind(&any.into())?;
    // Not of UDP, but its calls are the same.
    UdpSocket::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{accounts::Account, destination::DestinationPolicy, server::test_shared};

    #[tokio::test]
    async fn a_socket_that_could_not_be_opened_is_tried_again() {
        if open(true).is_err() {
            return eprintln!("skipped: net.ipv4.ping_group_range lets this user open no such socket");
        }
        let shared = test_shared(DestinationPolicy::AllowPrivate);
        let allowance = shared.means.allowance(Account::unlimited());
        let all: Vec<_> = std::iter::from_fn(|| allowance.spare_sockets(1)).collect();
        let (ping, here) = (Ping::default(), "127.0.0.1:0".parse().unwrap());
        ping.send(&[0, 1], here, &allowance).await;
        assert!(!all.is_empty() && ping.sockets()[0].is_none());
        drop(all);
        ping.send(&[0, 1], here, &allowance).await;
        assert!(ping.sockets()[0].is_some());
    }

    #[test]
    fn answers_come_back_as_they_were_asked_for() {
        let (v4, v6) = ("192.0.2.1:9".parse().unwrap(), "[2001:db8::1]:0".parse().unwrap());
        let reply = |kind: u8| [kind, 0, 1, 2, 3, 4, 0, 7, 5];
        let host: SocketAddr = "192.0.2.1:0".parse().unwrap();
        assert_eq!(answer(&reply(0), v4), Some((vec![0, 7, 5], host)));
        assert_eq!(answer(&reply(129), v6), Some((vec![0, 7, 5], v6)));
        assert_eq!(answer(&reply(3), v4), None, "an error");
        assert_eq!(answer(&reply(0)[..7], v4), None, "cut short");
        assert_eq!(answer(&[], v4), None);
    }
}
