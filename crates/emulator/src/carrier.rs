//! What carries a path's packets to and from its links: UDP sockets or TUN devices.

use std::{
    net::SocketAddr,
    os::fd::{AsFd as _, BorrowedFd},
};

use units::Instant;

use crate::{PathStats, clock::Clock, links::Links, path::Path, socket::Buffers, tun::Tun};

pub(crate) enum Carrier {
    Udp(Box<Path>),
    Tun(Box<Tun>),
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

    pub(crate) fn links(&self) -> &Links {
        match self {
            Self::Udp(path) => &path.links,
            Self::Tun(path) => &path.links,
        }
    }

    pub(crate) fn links_mut(&mut self) -> &mut Links {
        match self {
            Self::Udp(path) => &mut path.links,
            Self::Tun(path) => &mut path.links,
        }
    }

    /// Shows what to wait for, numbered as [`receive`](Self::receive) wants it.
    pub(crate) fn each_descriptor<'a>(&'a self, mut see: impl FnMut(usize, BorrowedFd<'a>)) {
        match self {
            Self::Udp(path) => {
                path.sockets().enumerate().for_each(|(index, socket)| see(index, socket.as_fd()));
            }
            Self::Tun(path) => path.devices().for_each(|(index, device)| see(index, device)),
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
