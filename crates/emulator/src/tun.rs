//! One emulated path between two TUN devices: whole IP packets, so that a kernel's own protocols
//! meet the links.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use netsim::{Delivered, LinkConfig, Seed};
use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
};
use units::Instant;

use crate::{
    PathStats,
    clock::Clock,
    links::{Links, OneWay, Packet},
    socket::Buffers,
};

/// Packets read from one device before the others get their turn.
const ROUND: usize = 64;

/// A path between two TUN devices, of which the descriptors are given: each read and each write is
/// one IP packet, without a header before it (`IFF_TUN | IFF_NO_PI`). The devices may belong to
/// different network namespaces.
///
/// Its links count packets as they are, IP header included.
#[derive(Debug)]
#[non_exhaustive]
pub struct TunPath {
    /// The client's device.
    pub client: OwnedFd,
    /// The server's device.
    pub server: OwnedFd,
    /// The link from client to server.
    pub up: LinkConfig,
    /// The link from server to client.
    pub down: LinkConfig,
    /// Where the randomness of this path comes from; unless set, from the emulator's seed and the
    /// path's number.
    pub seed: Option<Seed>,
}

impl TunPath {
    /// A path between the devices `client` and `server`.
    pub fn new(client: OwnedFd, server: OwnedFd, up: LinkConfig, down: LinkConfig) -> Self {
        Self { client, server, up, down, seed: None }
    }

    /// Gives the path a seed of its own: it loses the same packets in whatever emulator, under
    /// whatever number.
    pub fn seed(mut self, seed: Seed) -> Self {
        self.seed = Some(seed);
        self
    }
}

pub(crate) struct Tun {
    client: OwnedFd,
    server: OwnedFd,
    pub(crate) links: Links,
    /// Which of the devices cannot be read any more.
    gone: [bool; 2],
    receive_failed: u64,
}

impl Tun {
    /// A path whose links start at `now`, with the seed `default` unless it has one of its own.
    pub(crate) fn open(config: TunPath, default: Seed, now: Instant) -> io::Result<Self> {
        for device in [&config.client, &config.server] {
            fcntl_setfl(device, fcntl_getfl(device)? | OFlags::NONBLOCK)?;
        }
        let seed = config.seed.unwrap_or(default);
        Ok(Self {
            links: Links::new(&config.up, &config.down, seed, now),
            client: config.client,
            server: config.server,
            gone: [false; 2],
            receive_failed: 0,
        })
    }

    pub(crate) fn stats(&self) -> PathStats {
        let (Links { up, down }, receive_failed) = (&self.links, self.receive_failed);
        PathStats { up: up.stats(), down: down.stats(), receive_failed, ..PathStats::default() }
    }

    /// What to wait for: the client's device is number 0, the server's 1. One that somebody has removed is
    /// not among them, since it would wake whoever waits for it again and again.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let devices = [self.client.as_fd(), self.server.as_fd()].into_iter().enumerate();
        devices.filter(move |(index, _)| !self.gone[*index])
    }

    /// Reads the `index`-th of [`devices`](Self::devices) into its link.
    pub(crate) fn receive(&mut self, index: usize, clock: &Clock, buffers: &mut Buffers) {
        let Links { up, down } = &mut self.links;
        let (device, way) = if index == 0 { (&self.client, up) } else { (&self.server, down) };
        let buffer = buffers.bytes();
        for _ in 0..ROUND {
            match rustix::io::read(device, &mut *buffer) {
                Ok(0) | Err(Errno::AGAIN) => return,
                Ok(size) => {
                    let packet = Packet { payload: buffer[..size].into(), ecn: None, client: 0 };
                    way.link.offer(clock.now(), packet, size as u64);
                }
                Err(Errno::INTR) => {}
                // It was removed: there is no other reason.
                Err(_) => {
                    self.receive_failed += 1;
                    self.gone[index] = true;
                    return;
                }
            }
        }
    }

    pub(crate) fn deliver(&mut self, now: Instant) {
        forward(&mut self.links.up, now, &self.server);
        forward(&mut self.links.down, now, &self.client);
    }
}

/// Moves packets from a link to a device.
fn forward(way: &mut OneWay, now: Instant, device: &OwnedFd) {
    while let Some(Delivered { mut packet, ce, .. }) = way.deliver(now) {
        if ce {
            mark(&mut packet.payload);
        }
        // A device that is down refuses packets, as a cable that is not plugged in would lose them.
        match rustix::io::write(device, &packet.payload) {
            Ok(_) => way.counted.sent += 1,
            Err(_) => way.counted.send_failed += 1,
        }
    }
}

/// Sets "congestion experienced" in the header of an IP packet that is ECN-capable (RFC 3168
/// section 5), and keeps an IPv4 header's checksum right (RFC 1624 equation 3).
fn mark(packet: &mut [u8]) {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= 20 && is_capable(packet[1]) => {
            let word = |packet: &[u8], at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
            let (old, checksum) = (word(packet, 0), word(packet, 10));
            packet[1] |= 0b11;
            let sum = u32::from(!checksum) + u32::from(!old) + u32::from(word(packet, 0));
            let folded = (sum & 0xffff) + (sum >> 16);
            let folded = ((folded & 0xffff) + (folded >> 16)) as u16;
            packet[10..12].copy_from_slice(&(!folded).to_be_bytes());
        }
        // The traffic class of IPv6 lies across bytes 0 and 1; there is no checksum.
        Some(6) if packet.len() >= 40 && is_capable(packet[1] >> 4) => packet[1] |= 0b11 << 4,
        _ => {}
    }
}

/// Whether the two low bits say ECT(0), ECT(1) or CE.
fn is_capable(traffic_class: u8) -> bool {
    traffic_class & 0b11 != 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use units::Duration;

    use super::*;
    use crate::Emulator;

    /// One's complement sum over a header: 0xffff if its checksum is right (RFC 1071).
    fn sum(header: &[u8]) -> u32 {
        let sum: u32 = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
        (sum & 0xffff) + (sum >> 16)
    }

    #[test]
    fn marks_keep_the_checksum_right() {
        for ecn in 0..4u8 {
            let mut header =
                [0x45, 0xb8 | ecn, 0, 40, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 77, 0, 1, 10, 99, 0, 1];
            let checksum = !(sum(&header) as u16);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            assert_eq!(sum(&header), 0xffff);
            mark(&mut header);
            assert_eq!(header[1], if ecn == 0 { 0xb8 } else { 0xbb });
            assert_eq!(sum(&header), 0xffff);
        }
        let mut v6 = [0u8; 40];
        v6[..2].copy_from_slice(&[0x60, 0x20]);
        mark(&mut v6);
        assert_eq!(v6[..2], [0x60, 0x30]);
        mark(&mut [0x45, 0x02]); // too short: left alone
    }

    /// As does who tries what becomes of a connection without its interface. A pipe's end to write to stands
    /// for such a device: it wakes who waits once nobody reads from it, and cannot be read.
    #[test]
    fn a_device_that_is_removed_does_not_keep_the_thread_awake() {
        let (reader, writer) = io::pipe().unwrap();
        let (_server, server_device) = UnixDatagram::pair().unwrap();
        drop(reader);
        let config = LinkConfig::new();
        let path = TunPath::new(writer.into(), server_device.into(), config.clone(), config);
        let mut emulator = Emulator::start([], Seed(1)).unwrap();
        let id = emulator.add_tun_path(path).unwrap();
        // Each question wakes the thread, which looks at what it waits for before it answers.
        let failed = || emulator.stats(id).unwrap().receive_failed;
        while failed() == 0 {}
        assert!((0..100).all(|_| failed() == 1));
    }

    /// Datagram sockets stand in for devices: they too give one packet per read.
    #[test]
    fn packets_cross_both_ways_and_lose_their_share() {
        let (client, client_device) = UnixDatagram::pair().unwrap();
        let (server, server_device) = UnixDatagram::pair().unwrap();
        let config: LinkConfig = "delay=1ms,drop=1".parse().unwrap();
        let path = TunPath::new(client_device.into(), server_device.into(), config.clone(), config);
        let clock = Clock::start();
        let mut tun = Tun::open(path, Seed(1), clock.now()).unwrap();
        let mut buffers = Buffers::new();
        for byte in 0..3 {
            client.send(&[byte; 100]).unwrap();
            server.send(&[byte + 10; 100]).unwrap();
        }
        tun.receive(0, &clock, &mut buffers);
        tun.receive(1, &clock, &mut buffers);
        assert!(tun.links.next_delivery().is_some());
        tun.deliver(clock.now() + Duration::from_secs(1));
        let mut got = [0; 200];
        for byte in [0, 2] {
            assert_eq!(server.recv(&mut got).unwrap(), 100);
            assert_eq!(got[0], byte);
            assert_eq!(client.recv(&mut got).unwrap(), 100);
            assert_eq!(got[0], byte + 10);
        }
        let stats = tun.stats();
        assert_eq!((stats.up.sent, stats.up.link.lost, stats.down.sent), (2, 1, 2));
        assert_eq!(stats.down.link.delivered_bytes, 200);
    }
}
