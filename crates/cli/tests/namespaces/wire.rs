//! A path between two TUN devices that does to packets what real ones do: swallows, changes,
//! renames.

use std::{
    fs::File,
    io::{ErrorKind, Read as _, Write as _},
    os::fd::{AsFd as _, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread::JoinHandle,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

const UDP: u8 = 17;
/// Where a UDP payload begins in an IPv4 packet without options.
const PAYLOAD: usize = 28;
/// Bindings of a NAT that are counted.
const BINDINGS: usize = 4;

/// A path, carried by two threads that end with it.
pub struct Wire {
    rules: Arc<Rules>,
    threads: Vec<JoinHandle<()>>,
}

/// What happens to packets, and what has.
struct Rules {
    ended: AtomicBool,
    largest: AtomicUsize,
    /// 0: none.
    corrupt_one_in: AtomicU64,
    /// Added to the second octet of the client's address.
    binding: AtomicU8,
    passed: AtomicU64,
    passed_from: [AtomicU64; BINDINGS],
    swallowed: AtomicU64,
    corrupted: AtomicU64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl Wire {
    /// Joins the devices.
    pub fn new(client: OwnedFd, server: OwnedFd) -> std::io::Result<Self> {
        let rules = Arc::new(Rules {
            ended: AtomicBool::new(false),
            largest: AtomicUsize::new(usize::MAX),
            corrupt_one_in: AtomicU64::new(0),
            binding: AtomicU8::new(0),
            passed: AtomicU64::new(0),
            passed_from: Default::default(),
            swallowed: AtomicU64::new(0),
            corrupted: AtomicU64::new(0),
        });
        let (client, server) = (File::from(client), File::from(server));
        let up = (client.try_clone()?, server.try_clone()?, Direction::Up);
        let threads = [up, (server, client, Direction::Down)].map(|(from, to, direction)| {
            let rules = rules.clone();
            std::thread::spawn(move || rules.carry(from, to, direction))
        });
        Ok(Self { rules, threads: threads.into() })
    }

    /// Gives the client another address outside, as a NAT that has forgotten it does. Packets to
    /// the old one are lost.
    pub fn rebind(&self, binding: u8) {
        self.rules.binding.store(binding, Relaxed);
    }

    /// Lets no IP packet through that is larger.
    pub fn swallow_larger_than(&self, bytes: usize) {
        self.rules.largest.store(bytes, Relaxed);
    }

    /// Changes a byte in one packet of `n`, and makes its checksum right.
    pub fn corrupt_one_in(&self, n: u64) {
        self.rules.corrupt_one_in.store(n, Relaxed);
    }

    /// Packets carried, in both directions.
    pub fn passed(&self) -> u64 {
        self.rules.passed.load(Relaxed)
    }

    /// Packets from the client under a binding.
    pub fn passed_from(&self, binding: u8) -> u64 {
        self.rules.passed_from[usize::from(binding)].load(Relaxed)
    }

    /// Packets that were too large.
    pub fn swallowed(&self) -> u64 {
        self.rules.swallowed.load(Relaxed)
    }

    /// Packets that were changed.
    pub fn corrupted(&self) -> u64 {
        self.rules.corrupted.load(Relaxed)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.rules.ended.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Rules {
    /// Carries packets one way until the end.
    fn carry(&self, mut from: File, mut to: File, direction: Direction) {
        let mut packet = vec![0; 65_536];
        while !self.ended.load(Relaxed) {
            // Wakes up now and then to see whether it is over.
            let mut wait = [PollFd::new(from.as_fd(), PollFlags::POLLIN)];
            if !poll(&mut wait, PollTimeout::from(100_u8)).is_ok_and(|ready| ready > 0) {
                continue;
            }
            match from.read(&mut packet) {
                Ok(n) if self.passes(&mut packet[..n], direction) => {
                    self.passed.fetch_add(1, Relaxed);
                    // A device that is down takes nothing: lost, as on any cable.
                    let _ = to.write(&packet[..n]);
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The device is down: it has nothing to read until it is up again.
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    /// Does to a packet what is to be done; false if it is lost.
    fn passes(&self, packet: &mut [u8], direction: Direction) -> bool {
        if packet.len() > self.largest.load(Relaxed) {
            self.swallowed.fetch_add(1, Relaxed);
            return false;
        }
        let is_v4_udp = packet.len() > PAYLOAD && packet[0] == 0x45 && packet[9] == UDP;
        if !is_v4_udp {
            return true;
        }
        if !self.translate(packet, direction) {
            return false;
        }
        let one_in = self.corrupt_one_in.load(Relaxed);
        if one_in > 0 && (self.passed.load(Relaxed) + 1).is_multiple_of(one_in) {
            // Another place each time: headers, frames, tags.
            let count = self.corrupted.fetch_add(1, Relaxed) as usize;
            let at = PAYLOAD + count.wrapping_mul(7_919) % (packet.len() - PAYLOAD);
            packet[at] ^= 1 << (count % 8);
            without_checksum(packet);
        }
        true
    }

    /// Network address translation; false if there is no such binding any more.
    fn translate(&self, packet: &mut [u8], direction: Direction) -> bool {
        let binding = self.binding.load(Relaxed);
        let second = match direction {
            Direction::Up => &mut packet[13],
            Direction::Down => &mut packet[17],
        };
        match direction {
            Direction::Up => {
                *second += binding;
                self.passed_from[usize::from(binding)].fetch_add(1, Relaxed);
            }
            Direction::Down if *second != super::bed::CLIENT_NET + binding => return false,
            Direction::Down => *second -= binding,
        }
        if binding > 0 {
            without_checksum(packet);
        }
        true
    }
}

/// Makes the IP header's checksum right (RFC 1071) and leaves UDP's out, which IPv4 permits
/// (RFC 768).
fn without_checksum(packet: &mut [u8]) {
    packet[26..28].fill(0);
    packet[10..12].fill(0);
    let words = packet[..20].chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = ((folded & 0xffff) + (folded >> 16)) as u16;
    packet[10..12].copy_from_slice(&(!folded).to_be_bytes());
}
