//! What the command's process and ours hand each other over the socket between them, before the
//! command begins: the terminal's input one way, the ends of the device the other.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    net::{Ipv4Addr, Ipv6Addr, TcpListener},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use super::device::NewDevice;
use crate::failure::Failure;

/// The longest message: a failure in words.
const LONGEST: usize = 4_096;
/// The most descriptors in a message.
const DESCRIPTORS: usize = 3;
/// First bytes of messages.
const INPUT: u8 = b'i';
const READY: u8 = b'r';
const GO: u8 = b'g';
const FAILED: u8 = b'f';

/// What a namespace gives to those outside.
pub(crate) struct Ends {
    /// The TUN device.
    pub(crate) device: NewDevice,
    /// The kernel's listeners behind it: IPv4, and IPv6 where there is any.
    pub(crate) listeners: Vec<TcpListener>,
}

/// What the server has given to a tunnel of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Ipv6Addr,
    pub(crate) mtu: u16,
}

impl Given {
    fn read(bytes: &[u8; 22]) -> Self {
        let (v4, rest) = bytes.split_first_chunk::<4>().expect("it is longer");
        let (v6, mtu) = rest.split_first_chunk::<16>().expect("it is longer");
        Self { v4: (*v4).into(), v6: (*v6).into(), mtu: u16::from_be_bytes([mtu[0], mtu[1]]) }
    }
}

/// The end of the socket that stays outside.
pub(crate) struct Parent(OwnedFd);

/// The end inside.
pub(super) struct Child(OwnedFd);

impl Parent {
    /// Makes a socket; the second value is to become the child's standard input.
    ///
    /// # Errors
    /// When descriptors are short.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        let (parent, child) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self(parent), child))
    }

    /// Hands over the input that the command is to have.
    ///
    /// # Errors
    /// When the child is gone.
    pub(crate) fn give_input(&self, input: BorrowedFd<'_>) -> io::Result<()> {
        send(&self.0, &[INPUT], &[input])
    }

    /// Waits for the ends of the device.
    ///
    /// # Errors
    /// What the child says went wrong.
    pub(crate) fn take_ends(&self) -> Result<Ends, Failure> {
        let lost = |error: io::Error| {
            let next = "Please report this with the output of -vv";
            Failure::new("cannot make a namespace for the command", error, next)
        };
        let (message, mut descriptors) = receive(&self.0).map_err(lost)?;
        match message.split_first() {
            Some((&READY, _)) if !descriptors.is_empty() => {
                let device = descriptors.remove(0);
                let device = device.into();
                Ok(Ends { device, listeners: descriptors.into_iter().map(TcpListener::from).collect() })
            }
            Some((&FAILED, words)) => Err(failure(words)),
            _ => Err(lost(io::Error::other("its process ended unexpectedly"))),
        }
    }

    /// Lets the command begin, with these addresses if they are not those of the plan.
    ///
    /// # Errors
    /// When the child is gone.
    pub(crate) fn go(&self, given: Option<Given>) -> io::Result<()> {
        let mut message = vec![GO];
        if let Some(Given { v4, v6, mtu }) = given {
            message.extend(v4.octets());
            message.extend(v6.octets());
            message.extend(mtu.to_be_bytes());
        }
        send(&self.0, &message, &[])
    }
}

impl Child {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// Waits for the input that the command is to have.
    pub(super) fn take_input(&self) -> io::Result<OwnedFd> {
        let (message, descriptors) = receive(&self.0)?;
        match descriptors.into_iter().next() {
            Some(input) if message == [INPUT] => Ok(input),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    pub(super) fn give_ends(&self, ends: &Ends) -> io::Result<()> {
        let mut descriptors = vec![ends.device.as_fd()];
        descriptors.extend(ends.listeners.iter().map(AsFd::as_fd));
        send(&self.0, &[READY], &descriptors)
    }

    /// Waits until the command may begin, and returns the addresses that it is to have if they are
    /// not those of the plan.
    ///
    /// # Errors
    /// When the parent is gone.
    pub(super) fn may_go(&self) -> io::Result<Option<Given>> {
        let (message, _) = receive(&self.0)?;
        match message.split_first() {
            Some((&GO, [])) => Ok(None),
            Some((&GO, given)) => {
                given.try_into().map(|given| Some(Given::read(given))).map_err(io::Error::other)
            }
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    pub(super) fn fail(&self, failure: &Failure) {
        let (tried, wrong, next) = failure.parts();
        let mut message = vec![FAILED];
        message.extend(format!("{tried}\n{wrong}\n{next}").bytes().take(LONGEST - 1));
        let _ = send(&self.0, &message, &[]);
    }
}

fn failure(words: &[u8]) -> Failure {
    let words = String::from_utf8_lossy(words);
    let mut lines = words.splitn(3, '\n').map(str::to_owned);
    let mut line = || lines.next().unwrap_or_default();
    let (tried, wrong) = (line(), line());
    Failure::new(tried, wrong, line())
}

fn send(socket: &OwnedFd, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    sendmsg(socket, &[IoSlice::new(message)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive(socket: &OwnedFd) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut message = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let buffers = &mut [IoSliceMut::new(&mut message)];
    let received = loop {
        match recvmsg(socket, buffers, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    let mut descriptors = Vec::new();
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            descriptors.extend(rights);
        }
    }
    message.truncate(received.bytes);
    Ok((message, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_and_words_cross() {
        let (parent, socket) = Parent::new().unwrap();
        let child = Child::new(socket);
        let file = tempfile::tempfile().unwrap();
        parent.give_input(file.as_fd()).unwrap();
        assert_eq!(
            rustix::fs::fstat(child.take_input().unwrap()).unwrap().st_ino,
            rustix::fs::fstat(&file).unwrap().st_ino
        );
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        child.give_ends(&Ends { device: OwnedFd::from(file).into(), listeners: vec![listener] }).unwrap();
        assert_eq!(parent.take_ends().unwrap().listeners[0].local_addr().unwrap(), address);
        parent.go(None).unwrap();
        assert_eq!(child.may_go().unwrap(), None);
        let given = Given { v4: [198, 19, 0, 7].into(), v6: Ipv6Addr::LOCALHOST, mtu: 1_500 };
        parent.go(Some(given)).unwrap();
        assert_eq!(child.may_go().unwrap(), Some(given));
        let failure = Failure::new("cannot x", "y", "Do z");
        child.fail(&failure);
        assert_eq!(parent.take_ends().err(), Some(failure));
        drop(child);
        assert!(parent.take_ends().is_err() && parent.go(None).is_err());
    }

    #[test]
    fn a_child_without_parent_does_not_go() {
        let (parent, socket) = Parent::new().unwrap();
        let child = Child::new(socket);
        drop(parent);
        assert!(child.may_go().is_err() && child.take_input().is_err());
    }
}
