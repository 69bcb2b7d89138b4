//! The packets of a TUN device, and what whoever carries them says to the engine between.

use std::net::{IpAddr, SocketAddr};

use tunnel::{Action, Addresses, Config, Engine, FlowId, Refusal};
use units::{Duration, Instant};

use crate::input::Input;

/// Flows at a time.
const MOST: usize = 4;

/// Steps: a packet, as it is or with its lengths and checksums put right, or an event.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let addresses = |device: &str, peer: &str| Addresses {
        device: device.parse().expect("an address"),
        peer: peer.parse().expect("an address"),
        listener: 9,
    };
    let v4 = addresses("198.18.0.1", "198.18.0.2");
    let mut engine = Engine::new(Config { v4, v6: addresses("fd00::1", "fd00::2"), most_flows: MOST });
    let (mut ids, mut now) = (Vec::<FlowId>::new(), Instant::ORIGIN);
    while let Some(step) = input.step() {
        match step % 8 {
            0..=3 => {
                let length = usize::from(input.u8());
                let mut packet = input.bytes(length).to_vec();
                if step & 8 == 0 {
                    repair(&mut packet);
                }
                if let Action::Connect { id, .. } = handle(&mut engine, &mut packet, now) {
                    ids.insert(0, id);
                    ids.truncate(2 * MOST);
                }
            }
            4 => now += Duration::from_secs(input.u8().into()),
            5 => _ = engine.expire(now),
            event => {
                let Some(id) = ids.get(usize::from(step >> 5)).copied() else { continue };
                match (event, step & 8) {
                    (6, 0) => check(engine.grant(id, now).as_deref()),
                    (6, _) => check(engine.refuse(id, input.pick(&REFUSALS)).as_deref()),
                    (_, 0) => _ = engine.accepted(SocketAddr::new(v4.peer, id.port), now),
                    _ => engine.closed(id, now),
                }
            }
        }
        assert!(engine.counters().flows <= MOST);
    }
}

const REFUSALS: [Refusal; 4] = [Refusal::Refused, Refusal::Network, Refusal::Host, Refusal::Prohibited];

fn handle(engine: &mut Engine, packet: &mut [u8], now: Instant) -> Action {
    let (before, length) = (packet.to_vec(), packet.len());
    let action = engine.handle(packet, now);
    match &action {
        Action::Write(end) | Action::Cancel { write: end, .. } if *end > 0 => {
            assert!(*end <= length);
            assert_eq!(is_right(&packet[..*end]), is_right(&before[..*end]), "as right as it was");
        }
        Action::Reply(reply) => {
            check(Some(reply));
            assert_eq!(ends(reply).map(|(_, to)| to), ends(&before).map(|(from, _)| from), "to the sender");
        }
        Action::Udp(datagram) => assert!(datagram.payload.end <= length),
        Action::Echo(echo) => {
            let payload = &before[echo.payload.clone()];
            let (from, to) = (echo.remote.ip(), echo.program.ip());
            check(tunnel::echo_reply(from, to, echo.identifier, echo.sequence, payload).as_deref());
            check(engine.unreachable(&before, Refusal::Prohibited).as_deref());
        }
        _ => assert_eq!(packet, before, "what is not written is left alone"),
    }
    action
}

/// What we make ourselves is right.
fn check(packet: Option<&[u8]>) {
    assert!(packet.is_none_or(is_right), "{packet:?}");
}

fn ends(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let address = |at: usize, length: usize| -> Option<IpAddr> {
        let bytes = packet.get(at..at + length)?;
        let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
        v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
    };
    match packet.first()? >> 4 {
        4 => Some((address(12, 4)?, address(16, 4)?)),
        6 => Some((address(8, 16)?, address(24, 16)?)),
        _ => None,
    }
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0))).sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Where IPv4's header ends, or the fixed one of IPv6, and the protocol.
fn transport(packet: &[u8]) -> Option<(usize, u8)> {
    let (at, protocol) = match packet.first()? >> 4 {
        4 => (usize::from(packet[0] & 0xf) * 4, *packet.get(9)?),
        6 => (40, *packet.get(6)?),
        _ => return None,
    };
    (at >= 20 && at <= packet.len()).then_some((at, protocol))
}

/// The sum over the transport and its pseudo-header.
fn transport_sum(packet: &[u8], at: usize, protocol: u8) -> u64 {
    let addresses = if packet[0] >> 4 == 4 { sum(&packet[12..20]) } else { sum(&packet[8..40]) };
    let pseudo = if protocol == 1 { 0 } else { addresses + u64::from(protocol) + (packet.len() - at) as u64 };
    pseudo + sum(&packet[at..])
}

/// Whether the checksums are right; extension headers are none that it knows.
fn is_right(packet: &[u8]) -> bool {
    let Some((at, protocol)) = transport(packet) else { return false };
    let header = packet[0] >> 4 != 4 || fold(sum(&packet[..at])) == 0xffff;
    header && fold(transport_sum(packet, at, protocol)) == 0xffff
}

/// Puts lengths and checksums right, as far as there are any.
fn repair(packet: &mut [u8]) {
    let length = packet.len() as u16;
    match transport(packet) {
        Some((at, _)) if packet[0] >> 4 == 4 => {
            packet[2..4].copy_from_slice(&length.to_be_bytes());
            packet[10..12].fill(0);
            let checksum = !fold(sum(&packet[..at]));
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        Some(_) => packet[4..6].copy_from_slice(&(length - 40).to_be_bytes()),
        None => return,
    }
    let Some((at, protocol)) = transport(packet) else { return };
    let field = match protocol {
        6 => 16,
        17 => 6,
        1 | 58 => 2,
        _ => return,
    };
    if packet.len() < at + field + 2 {
        return;
    }
    if protocol == 17 {
        let length = (packet.len() - at) as u16;
        packet[at + 4..at + 6].copy_from_slice(&length.to_be_bytes());
    }
    packet[at + field..at + field + 2].fill(0);
    let checksum = !fold(transport_sum(packet, at, protocol));
    packet[at + field..at + field + 2].copy_from_slice(&checksum.to_be_bytes());
}
