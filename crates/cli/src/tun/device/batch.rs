//! Packets on their way from a device and to one, several at a time.

use std::{io, os::fd::OwnedFd};

use tun_rs::{ExpandBuffer, GROTable, SyncDevice, VIRTIO_NET_HDR_LEN};

/// The longest packet, and the most that segments are together.
const LONGEST: usize = 65_535;
/// Segments that come together at most; with those of a Linux host (RFC 879's 536 bytes and more)
/// that is twice what 64 KiB hold.
const MOST_SEGMENTS: usize = 256;
/// The longest of them.
const LONGEST_SEGMENT: usize = 2_048;
/// Packets of more than this are joined ones, for which room is made anew.
const KEPT: usize = 4_096;

/// What was read from a device.
pub(crate) struct Intake {
    /// A packet, or several that are still one.
    whole: Vec<u8>,
    /// The segments; none where each read is a packet.
    segments: Vec<Vec<u8>>,
    lengths: Vec<usize>,
    count: usize,
}

impl Intake {
    pub(super) fn new(segments: bool) -> Self {
        let count = if segments { MOST_SEGMENTS } else { 0 };
        Self {
            whole: vec![0; VIRTIO_NET_HDR_LEN + LONGEST],
            segments: vec![vec![0; LONGEST_SEGMENT]; count],
            lengths: vec![0; count.max(1)],
            count: 0,
        }
    }

    pub(super) fn read_packet(&mut self, device: &OwnedFd) -> io::Result<()> {
        self.count = 0;
        self.lengths[0] = rustix::io::read(device, &mut self.whole)?;
        self.count = 1;
        Ok(())
    }

    pub(super) fn read_segments(&mut self, device: &SyncDevice) -> io::Result<()> {
        self.count = 0;
        self.count = device.recv_multiple(&mut self.whole, &mut self.segments, &mut self.lengths, 0)?;
        Ok(())
    }

    /// The packets that were read last.
    pub(crate) fn packets(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let whole = std::iter::once(&mut self.whole[..]).take(usize::from(self.segments.is_empty()));
        let buffers = whole.chain(self.segments.iter_mut().map(Vec::as_mut_slice));
        buffers.zip(&self.lengths).take(self.count).map(|(buffer, length)| &mut buffer[..*length])
    }
}

/// Packets for a device, gathered.
#[derive(Default)]
pub(crate) struct Outbox {
    /// Those that wait, then room for more.
    packets: Vec<Gathered>,
    count: usize,
    joiner: GROTable,
}

impl Outbox {
    /// Adds a packet, and returns it as it will be written.
    pub(crate) fn push(&mut self, packet: &[u8]) -> &mut [u8] {
        if self.packets.len() == self.count {
            self.packets.push(Gathered::default());
        }
        let Gathered(gathered) = &mut self.packets[self.count];
        gathered.clear();
        gathered.extend([0; VIRTIO_NET_HDR_LEN]);
        gathered.extend(packet);
        self.count += 1;
        &mut gathered[VIRTIO_NET_HDR_LEN..]
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn packets(&self) -> impl Iterator<Item = &[u8]> {
        self.packets[..self.count].iter().map(|packet| &packet.0[VIRTIO_NET_HDR_LEN..])
    }

    pub(super) fn write_joined(&mut self, device: &SyncDevice) -> io::Result<()> {
        let packets = &mut self.packets[..self.count];
        device.send_multiple(&mut self.joiner, packets, VIRTIO_NET_HDR_LEN).map(|_| ())
    }

    pub(super) fn clear(&mut self) {
        // Room for 64 KiB is kept once, for the next to be joined.
        for Gathered(packet) in self.packets.iter_mut().skip(1) {
            if packet.capacity() > KEPT {
                *packet = Vec::new();
            }
        }
        self.count = 0;
    }
}

/// A packet behind room for the kernel's header, to which others may be joined until it is as long
/// as a packet can be.
#[derive(Default)]
struct Gathered(Vec<u8>);

impl AsRef<[u8]> for Gathered {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Gathered {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl ExpandBuffer for Gathered {
    fn buf_capacity(&self) -> usize {
        LONGEST
    }

    fn buf_resize(&mut self, new_len: usize, value: u8) {
        self.0.resize(new_len, value);
    }

    fn buf_extend_from_slice(&mut self, src: &[u8]) {
        self.0.extend_from_slice(src);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{Ipv4Addr, UdpSocket},
        time::Duration,
    };

    use tokio::time::timeout;

    use super::{
        super::{Device, NewDevice},
        *,
    };

    /// A pipe's end to write to stands for it: it has nothing to read either, and wakes with an error.
    #[tokio::test]
    async fn a_device_that_is_taken_away_is_noticed() {
        let (reader, writer) = io::pipe().unwrap();
        let device = Device::new(NewDevice::from(OwnedFd::from(writer))).unwrap();
        drop(reader);
        let mut intake = device.intake();
        let read = timeout(Duration::from_secs(20), device.read(&mut intake));
        read.await.expect("it is noticed").unwrap_err();
    }

    /// As for who reads between the kernel's word and the removal. A socket whose datagram was refused
    /// stands for it: one read takes the reason, and the next finds nothing.
    #[tokio::test]
    async fn a_device_with_an_error_and_nothing_to_read_is_taken_away() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        // Nobody listens there.
        socket.connect((Ipv4Addr::LOCALHOST, 1)).unwrap();
        socket.send(b"x").unwrap();
        let device = Device::new(NewDevice::from(OwnedFd::from(socket))).unwrap();
        let mut intake = device.intake();
        for reason in [io::ErrorKind::ConnectionRefused, io::ErrorKind::NotConnected] {
            let read = timeout(Duration::from_secs(20), device.read(&mut intake));
            let error = read.await.expect("it is noticed").unwrap_err();
            assert_eq!(error.kind(), reason);
        }
    }

    #[tokio::test]
    async fn packets_stay_apart() {
        let (device, other) = Device::for_test();
        let mut intake = device.intake();
        for length in [1, 1_500, LONGEST] {
            other.send(&vec![length as u8; length]).unwrap();
            device.read(&mut intake).await.unwrap();
            let read: Vec<Vec<u8>> = intake.packets().map(|packet| packet.to_vec()).collect();
            assert_eq!(read, [vec![length as u8; length]]);
        }
        let mut outbox = Outbox::default();
        for round in 0..3 {
            for length in 1..=5 {
                outbox.push(&vec![round; length]);
            }
            assert_eq!(outbox.len(), 5);
            device.write_all(&mut outbox);
            assert_eq!(outbox.len(), 0);
            let mut buffer = [0; 10];
            for length in 1..=5 {
                assert_eq!(other.recv(&mut buffer).unwrap(), length);
                assert!(buffer[..length].iter().all(|byte| *byte == round));
            }
        }
    }

    #[test]
    fn room_for_joined_packets_is_kept_once() {
        let mut outbox = Outbox::default();
        for _ in 0..4 {
            outbox.push(&[0; 60_000]);
        }
        outbox.clear();
        let room: usize = outbox.packets.iter().map(|packet| packet.0.capacity()).sum();
        assert!(room < 2 * LONGEST, "{room}");
    }
}
