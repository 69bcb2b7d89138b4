//! Which sizes of packets pass to a server and back, over one path, without an invitation.
//!
//! A QUIC packet of a version that nobody speaks must be answered with the versions that are spoken
//! (RFC 9000 section 6.1), whatever its size above 1,200 bytes. Routers may not split it (DF): one
//! that is too large is refused here, reported by a router, or swallowed.

use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    time::Duration,
};

use mendpath::BindError;
use quinn_udp::UdpSocketState;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::{net::UdpSocket, time::timeout};

use crate::{failure::io_reason, interfaces::WantedPath};

/// UDP payloads that are tried: what QUIC needs at least, what most tunnels leave, and nearly what
/// Ethernet carries.
pub(crate) const SIZES: [usize; 3] = [1_200, 1_350, 1_450];
/// Each size is sent so many times, since packets are lost.
const TRIES: usize = 4;
/// For each answer.
const PATIENCE: Duration = Duration::from_millis(700);
/// A version of the form that is reserved for this (RFC 9000 section 15).
const NO_VERSION: [u8; 4] = [0x1a, 0x2a, 0x3a, 0x4a];
const ID: usize = 8;

/// What became of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was answered.
    Passes,
    /// No answer to any.
    Silence,
    /// The interface takes none that are so large.
    TooLargeHere,
    /// A router has said that it is too large.
    TooLargeThere,
    /// The host has said that nothing listens there.
    Refused,
    /// It cannot be sent, for another reason.
    Fails(ErrorKind),
}

/// Tries all [`SIZES`] at once.
pub(crate) async fn sizes(path: &WantedPath, server: SocketAddr) -> [Outcome; 3] {
    let [a, b, c] = SIZES.map(|size| one(path, server, size));
    let (a, b, c) = tokio::join!(a, b, c);
    [a, b, c]
}

/// Tries the least of [`SIZES`].
pub(crate) async fn least(path: &WantedPath, server: SocketAddr) -> Outcome {
    one(path, server, SIZES[0]).await
}

async fn one(path: &WantedPath, server: SocketAddr, size: usize) -> Outcome {
    exchange(path, server, size).await.unwrap_or_else(|error| match error.kind() {
        ErrorKind::ConnectionRefused => Outcome::Refused,
        kind => Outcome::Fails(kind),
    })
}

async fn exchange(path: &WantedPath, server: SocketAddr, size: usize) -> io::Result<Outcome> {
    let socket = open(path, server)?;
    let (question, ids) = question(size);
    let mut answer = [0; 1_500];
    for _ in 0..TRIES {
        match socket.send(&question).await {
            Err(error) if is_too_large(&error) => return Ok(Outcome::TooLargeHere),
            other => other?,
        };
        match timeout(PATIENCE, socket.recv(&mut answer)).await {
            Ok(Ok(length)) if is_answer(&answer[..length], &ids) => return Ok(Outcome::Passes),
            Ok(Err(error)) if is_too_large(&error) => return Ok(Outcome::TooLargeThere),
            Ok(Err(error)) => return Err(error),
            _ => {}
        }
    }
    Ok(Outcome::Silence)
}

/// EMSGSIZE, which has no name in the standard library.
fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error())
}

fn open(path: &WantedPath, server: SocketAddr) -> io::Result<UdpSocket> {
    // By the interface that the path itself would take, as far as the system lets it.
    let socket = path.options().bind(server).map_err(|error| match error {
        BindError::Io { source, .. } => source,
        other => io::Error::new(ErrorKind::AddrNotAvailable, other),
    })?;
    socket.connect(server)?;
    // Sets DF, as for the transport's own sockets.
    UdpSocketState::new((&socket).into())?;
    UdpSocket::from_std(socket)
}

/// A packet of that size, and its two connection ids.
fn question(size: usize) -> (Vec<u8>, [u8; 2 * ID]) {
    let mut ids = [0; 2 * ID];
    SystemRandom::new().fill(&mut ids).expect("the system has random numbers");
    let mut packet = vec![0xc0];
    packet.extend(NO_VERSION);
    for id in ids.chunks(ID) {
        packet.push(ID as u8);
        packet.extend(id);
    }
    packet.resize(size, 0);
    (packet, ids)
}

/// Whether another end is being probed with `packet`.
#[cfg(test)]
pub(crate) fn is_question(packet: &[u8]) -> bool {
    packet.get(1..5) == Some(&NO_VERSION)
}

/// A Version Negotiation packet with our ids the other way round (RFC 8999 section 6).
fn is_answer(packet: &[u8], ids: &[u8; 2 * ID]) -> bool {
    let expected: Vec<u8> = [&[0, 0, 0, 0, ID as u8], &ids[ID..], &[ID as u8], &ids[..ID]].concat();
    packet.first().is_some_and(|first| first & 0x80 != 0) && packet[1..].starts_with(&expected)
}

/// What became of packets of a size; follows that size.
pub(crate) fn words(outcome: Outcome) -> String {
    match outcome {
        Outcome::Passes => "pass".to_owned(),
        Outcome::Silence => "get no answer, and nobody says why".to_owned(),
        Outcome::TooLargeHere => "are too large for the interface".to_owned(),
        Outcome::TooLargeThere => "are too large for a router on the way, which says so".to_owned(),
        Outcome::Refused => "are refused: the host is there, and nothing listens on that port".to_owned(),
        Outcome::Fails(kind) => format!("cannot be sent: {}", io_reason(&kind.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_told_from_noise() {
        let (packet, ids) = question(1_350);
        assert_eq!(packet.len(), 1_350);
        let answer = [&[0x80, 0, 0, 0, 0, 8], &ids[8..], &[8], &ids[..8], &[0, 0, 0, 1]].concat();
        assert!(is_answer(&answer, &ids));
        assert!(!is_answer(&packet, &ids) && !is_answer(&[], &ids) && !is_answer(&answer[..20], &ids));
    }
}
