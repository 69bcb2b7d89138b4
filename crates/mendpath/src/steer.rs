//! Sockets that share an address, among which the kernel chooses by connection id.
//!
//! Only Linux can do that (SO_REUSEPORT since 3.9 with a filter since 4.5). Elsewhere, or where it is
//! not permitted, the caller makes do with one socket.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
};

use proto::Steering;

#[cfg(target_os = "linux")]
use crate::bind::{bind, bind_sharing};

/// How packets find their worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steered {
    steering: Steering,
    cid_len: usize,
}

impl Steered {
    /// For an endpoint that issues connection ids of so many bytes.
    pub(crate) fn new(steering: Steering, cid_len: usize) -> Self {
        Self { steering, cid_len }
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.steering.workers() as usize
    }

    /// A socket per worker, among which the kernel chooses.
    ///
    /// # Errors
    /// If the address is taken or there is none such, or the system lets no sockets share it.
    pub(crate) fn bind(&self, local: SocketAddr) -> Result<Vec<UdpSocket>, GroupError> {
        let group = bind_group(local, self.workers())?;
        steer(&group, &self.steering, self.cid_len).map_err(GroupError::Share)?;
        Ok(group)
    }
}

/// Binds as many sockets to an address as there are workers. The first one takes it for itself: who
/// has it already, this program in an earlier life included, is not joined by accident.
#[cfg(target_os = "linux")]
fn bind_group(local: SocketAddr, workers: usize) -> Result<Vec<UdpSocket>, GroupError> {
    let first = bind(local).map_err(GroupError::Bind)?;
    let alone = |error| GroupError::Share(error);
    let shared = first.local_addr().map_err(alone)?;
    socket2::SockRef::from(&first).set_reuse_port(true).map_err(alone)?;
    let others = (1..workers).map(|_| bind_sharing(shared).map_err(alone));
    std::iter::once(Ok(first)).chain(others).collect()
}

/// Nothing can share here.
#[cfg(not(target_os = "linux"))]
fn bind_group(_: SocketAddr, _: usize) -> Result<Vec<UdpSocket>, GroupError> {
    Err(GroupError::Share(io::ErrorKind::Unsupported.into()))
}

/// Why there is no group of sockets.
#[derive(Debug)]
pub(crate) enum GroupError {
    /// Not even one can be bound.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "never tried there"))]
    Bind(crate::BindError),
    /// One can, but not several.
    Share(io::Error),
}

/// Lets the kernel choose the socket of a group, in the order they were bound, by the destination
/// connection id of each packet: those that the endpoint issues have `cid_len` bytes.
#[cfg(target_os = "linux")]
fn steer(group: &[UdpSocket], steering: &Steering, cid_len: usize) -> io::Result<()> {
    use nix::{
        libc::sock_fprog,
        sys::socket::{setsockopt, sockopt::AttachReusePortCbpf},
    };
    let Some(any) = group.first() else { return Ok(()) };
    let mut program = program(steering, cid_len);
    let filter = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    setsockopt(any, AttachReusePortCbpf, &filter).map_err(io::Error::from)
}

/// As little.
#[cfg(not(target_os = "linux"))]
fn steer(_: &[UdpSocket], _: &Steering, _: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// [`Steering::worker_of`] as a filter over the bytes of a UDP payload. A packet that is too short
/// for it is the first worker's.
#[cfg(target_os = "linux")]
fn program(steering: &Steering, cid_len: usize) -> Vec<nix::libc::sock_filter> {
    use nix::libc::{
        BPF_A, BPF_ABS, BPF_ALU, BPF_B, BPF_IND, BPF_JA, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_MISC, BPF_MOD,
        BPF_MUL, BPF_RET, BPF_RSH, BPF_TAX, BPF_W, sock_filter,
    };
    let step = |code: u32, k: u32| sock_filter { code: code as u16, jt: 0, jf: 0, k };
    // RFC 8999 section 5: a long header has the length of the id in byte 5 and the id behind it, a
    // short header has it in byte 1.
    let long_header = sock_filter { jt: 2, ..step(BPF_JMP | BPF_JSET | BPF_K, 0x80) };
    vec![
        step(BPF_LD | BPF_B | BPF_ABS, 0),
        long_header,
        step(BPF_LD | BPF_W | BPF_ABS, 1 + cid_len as u32 - Steering::BYTES as u32),
        step(BPF_JMP | BPF_JA, 3),
        step(BPF_LD | BPF_B | BPF_ABS, 5),
        step(BPF_MISC | BPF_TAX, 0),
        step(BPF_LD | BPF_W | BPF_IND, 6 - Steering::BYTES as u32),
        step(BPF_ALU | BPF_MUL | BPF_K, steering.factor()),
        step(BPF_ALU | BPF_RSH | BPF_K, 16),
        step(BPF_ALU | BPF_MOD | BPF_K, steering.workers()),
        step(BPF_RET | BPF_A, 0),
    ]
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn steering(workers: usize) -> Steering {
        proto::Endpoint::new(None, [9; 32]).steering(workers)
    }

    /// The kernel and [`Steering::worker_of`] agree, about ids of every length and of both headers.
    #[test]
    fn the_kernel_delivers_where_the_arithmetic_says() {
        let (steering, cid_len) = (steering(3), 11);
        let group = bind_group("127.0.0.1:0".parse().unwrap(), 3).unwrap();
        steer(&group, &steering, cid_len).unwrap();
        let to = group[0].local_addr().unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (mut expected, mut buffer) = ([0; 3], [0; 64]);
        for n in 0..120_u64 {
            let id: Vec<u8> = (0..20).map(|at| ((n * 0x9e37_79b9) >> (at % 8)) as u8 ^ at as u8).collect();
            let long_len = 4 + n as usize % 17;
            let (packet, cid) = match n % 2 {
                0 => ([&[0x40][..], &id[..cid_len], &[0; 20]].concat(), &id[..cid_len]),
                _ => {
                    let header = [0xc0, 0, 0, 0, 1, long_len as u8];
                    ([&header[..], &id[..long_len], &[0; 20]].concat(), &id[..long_len])
                }
            };
            client.send_to(&packet, to).unwrap();
            expected[steering.worker_of(cid)] += 1;
        }
        for (socket, expected) in group.iter().zip(expected) {
            socket.set_nonblocking(true).unwrap();
            let received = std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count();
            assert_eq!(received, expected);
            assert!(expected > 10, "{expected}");
        }
    }

    /// A program that is started again does not join the sockets of its former life.
    #[test]
    fn an_address_that_is_taken_is_not_shared() {
        let group = bind_group("127.0.0.1:0".parse().unwrap(), 2).unwrap();
        let again = bind_group(group[0].local_addr().unwrap(), 2);
        assert!(matches!(again, Err(GroupError::Bind(_))), "{again:?}");
    }
}
