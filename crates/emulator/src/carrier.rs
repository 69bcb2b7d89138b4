//! What carries a path's packets to and from its links: UDP sockets or TUN devices.

use std::{
    net::SocketAddr,
    os::fd::{AsFd as _, BorrowedFd},
};

use netsim::{Link, Seed};
use units::Instant;

use crate::{
    PathStats,
    clock::Clock,
    path::{Packet, Path},
    socket::Buffers,
    tun::Tun,
};

pub(crate) enum Carrier {
    Udp(Path),
    Tun(Tun),
}

impl Carrier {
    /// Where clients send to, if there is such a place.
    pub(crate) fn client_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Udp(path) => Some(path.client_addr()),
            Self::Tun(_) => None,
        }
    }

    pub(crate) fn stats(&self) -> PathStats {
        match self {
            Self::Udp(path) => path.stats(),
            Self::Tun(path) => path.stats(),
        }
    }

    /// The links up and down.
    pub(crate) fn links(&mut self) -> (&mut Link<Packet>, &mut Link<Packet>) {
        match self {
            Self::Udp(path) => path.links(),
            Self::Tun(path) => path.links(),
        }
    }

    /// Starts all randomness afresh, as if the path had been opened with `seed`.
    pub(crate) fn reseed(&mut self, now: Instant, seed: Seed) {
        let (up, down) = self.links();
        up.reseed(now, seed.child("up", 0));
        down.reseed(now, seed.child("down", 0));
    }

    /// When a link has something to deliver next.
    pub(crate) fn next_delivery(&self) -> Option<Instant> {
        match self {
            Self::Udp(path) => path.next_delivery(),
            Self::Tun(path) => path.next_delivery(),
        }
    }

    /// Shows what to wait for, numbered as [`receive`](Self::receive) wants it.
    pub(crate) fn each_descriptor<'a>(&'a self, mut see: impl FnMut(usize, BorrowedFd<'a>)) {
        match self {
            Self::Udp(path) => {
                path.sockets().enumerate().for_each(|(index, socket)| see(index, socket.as_fd()));
            }
            Self::Tun(path) => path.devices().into_iter().enumerate().for_each(|(index, fd)| see(index, fd)),
        }
    }

    /// Reads what waits in the `index`-th descriptor into the links.
    pub(crate) fn receive(&mut self, index: usize, clock: &Clock, buffers: &mut Buffers) {
        match self {
            Self::Udp(path) => path.receive(index, clock, buffers),
            Self::Tun(path) => path.receive(index, clock, buffers),
        }
    }

    /// Sends on what has come out of the links by `now`.
    pub(crate) fn deliver(&mut self, now: Instant) {
        match self {
            Self::Udp(path) => path.deliver(now),
            Self::Tun(path) => path.deliver(now),
        }
    }
}
