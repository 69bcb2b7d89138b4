use etherparse::{IpSlice, PacketBuilder, TcpSlice};
use proptest::prelude::*;

use super::*;
use crate::datagram;

const NOW: Instant = Instant::ORIGIN;
const PROGRAM: &str = "198.18.0.1:40000";
const REMOTE: &str = "192.0.2.7:443";

fn config() -> Config {
    let addresses = |device: &str, peer: &str| Addresses {
        device: device.parse().unwrap(),
        peer: peer.parse().unwrap(),
        listener: 9,
    };
    let (v4, v6) = (addresses("198.18.0.1", "198.18.0.2"), addresses("fd6d::1", "fd6d::2"));
    Config { v4, v6, most_flows: 4 }
}

fn engine() -> Engine {
    Engine::new(config())
}

/// A segment, with a right checksum.
fn segment(from: &str, to: &str, flags: u8, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
    let mut out = Vec::new();
    let builder = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), 64),
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), 64),
        _ => unreachable!(),
    };
    let mut builder = builder.tcp(from.port(), to.port(), sequence, 1_000);
    if flags & SYN != 0 {
        builder = builder.syn();
    }
    if flags & ACK != 0 {
        builder = builder.ack(1);
    }
    if flags & RST != 0 {
        builder = builder.rst();
    }
    if flags & FIN != 0 {
        builder = builder.fin();
    }
    builder.write(&mut out, payload).unwrap();
    out
}

/// The ends and the flags of a packet whose checksums are right.
fn read(packet: &[u8]) -> (String, String, u8) {
    let ip = IpSlice::from_slice(packet).unwrap();
    let tcp = TcpSlice::from_slice(ip.payload().payload).unwrap();
    let (from, to) = (ip.source_addr(), ip.destination_addr());
    let pseudo = checksum::pseudo_header(from, to, TCP, tcp.slice().len());
    assert_eq!(checksum::fold(checksum::sum(tcp.slice()) + pseudo), 0xffff);
    let from = SocketAddr::new(from, tcp.source_port());
    let to = SocketAddr::new(to, tcp.destination_port());
    (from.to_string(), to.to_string(), tcp.slice()[13])
}

fn ask(engine: &mut Engine, from: &str, to: &str) -> FlowId {
    match engine.handle(&mut segment(from, to, SYN, 7, &[]), NOW) {
        Action::Connect { id, program, remote } => {
            assert_eq!((program.to_string(), remote.to_string()), (from.to_owned(), to.to_owned()));
            id
        }
        other => panic!("{other:?}"),
    }
}

/// A connection of either family from its SYN to its end.
#[test]
fn a_connection_from_its_syn_to_its_end() {
    for (program, remote, peer, listener) in [
        (PROGRAM, REMOTE, "198.18.0.2", "198.18.0.1:9"),
        ("[fd6d::1]:40000", "[2001:db8::7]:443", "[fd6d::2]", "[fd6d::1]:9"),
    ] {
        let mut engine = engine();
        let id = ask(&mut engine, program, remote);
        let alias = format!("{peer}:{}", id.port);
        let from: SocketAddr = alias.parse().unwrap();
        assert_eq!(engine.accepted(from, NOW), None, "nobody was let in");
        let syn = engine.grant(id, NOW).unwrap();
        assert_eq!(read(&syn), (alias.clone(), listener.to_owned(), SYN));
        assert_eq!(engine.grant(id, NOW), None, "once is enough");

        let mut answer = segment(listener, &alias, SYN | ACK, 9, &[]);
        assert_eq!(engine.handle(&mut answer, NOW), Action::Write(answer.len()));
        assert_eq!(read(&answer), (remote.to_owned(), program.to_owned(), SYN | ACK));
        let mut data = segment(program, remote, ACK, 8, b"hello");
        assert_eq!(engine.handle(&mut data, NOW), Action::Write(data.len()));
        assert_eq!(read(&data), (alias.clone(), listener.to_owned(), ACK));
        assert_eq!(engine.accepted(from, NOW), Some(id));
        assert_eq!(engine.accepted(from, NOW), None, "one connection for one SYN");

        engine.closed(id, NOW);
        let mut last = segment(program, remote, FIN | ACK, 8, &[]);
        assert_eq!(engine.handle(&mut last, NOW), Action::Write(last.len()), "last packets pass");
        let again = ask(&mut engine, program, remote);
        assert_ne!(again, id, "the same ports may be used again");
        let counters = engine.counters();
        assert_eq!((counters.asked, counters.granted, counters.refused, counters.flows), (2, 1, 0, 1));
    }
}

#[test]
fn a_refusal_is_seen_as_if_the_destination_or_a_router_had_sent_it() {
    let mut engine = engine();
    let id = ask(&mut engine, PROGRAM, REMOTE);
    let reset = engine.refuse(id, Refusal::Refused).unwrap();
    assert_eq!(read(&reset), (REMOTE.to_owned(), PROGRAM.to_owned(), RST | ACK));
    assert_eq!(engine.refuse(id, Refusal::Refused), None);
    let id = ask(&mut engine, PROGRAM, REMOTE);
    let error = engine.refuse(id, Refusal::Host).unwrap();
    let ip = IpSlice::from_slice(&error).unwrap();
    assert_eq!((ip.source_addr(), ip.destination_addr()), (config().v4.peer, config().v4.device));
    assert_eq!(ip.payload().payload[..2], [3, 1]);
    assert_eq!((engine.counters().refused, engine.counters().flows), (2, 0));
}

#[test]
fn a_syn_that_comes_again_is_asked_for_once() {
    let mut engine = engine();
    let id = ask(&mut engine, PROGRAM, REMOTE);
    let mut again = segment(PROGRAM, REMOTE, SYN, 99, &[]);
    assert_eq!(engine.handle(&mut again, NOW), Action::Drop(Dropped::Repeated));
    let syn = engine.grant(id, NOW).unwrap();
    assert_eq!(packet::be32(&syn, 24), 99, "the last one counts");
    let mut again = segment(PROGRAM, REMOTE, SYN, 99, &[]);
    assert_eq!(engine.handle(&mut again, NOW), Action::Write(again.len()), "the listener answers it");
}

#[test]
fn who_gives_up_is_not_waited_for() {
    let mut engine = engine();
    let id = ask(&mut engine, PROGRAM, REMOTE);
    let mut reset = segment(PROGRAM, REMOTE, RST, 8, &[]);
    assert_eq!(engine.handle(&mut reset, NOW), Action::Cancel { id, write: 0 });
    assert_eq!(engine.grant(id, NOW), None);
    let id = ask(&mut engine, PROGRAM, REMOTE);
    engine.grant(id, NOW).unwrap();
    let mut reset = segment(PROGRAM, REMOTE, RST, 8, &[]);
    assert_eq!(engine.handle(&mut reset, NOW), Action::Cancel { id, write: reset.len() });
    assert_eq!(engine.accepted(format!("198.18.0.2:{}", id.port).parse().unwrap(), NOW), None);
}

/// TCP Fast Open: what came with the SYN comes again when the answer does not acknowledge it.
#[test]
fn data_in_a_syn_are_left_out() {
    for (program, remote) in [(PROGRAM, REMOTE), ("[fd6d::1]:40000", "[2001:db8::7]:443")] {
        let mut engine = engine();
        let action = engine.handle(&mut segment(program, remote, SYN, 7, &[1; 1_000]), NOW);
        let Action::Connect { id, .. } = action else { panic!("{action:?}") };
        let syn = engine.grant(id, NOW).unwrap();
        let packet = Packet::read(&syn).unwrap();
        assert_eq!((packet.end, syn.len()), (packet.transport + 20, packet.transport + 20));
        assert_eq!(read(&syn).2, SYN);
        if program == PROGRAM {
            assert_eq!(checksum::checksum(&syn[..20]), 0);
        }
    }
}

#[test]
fn what_belongs_to_no_flow_is_reset() {
    let mut engine = engine();
    let Action::Reply(reset) = engine.handle(&mut segment(PROGRAM, REMOTE, ACK, 7, b"x"), NOW) else {
        panic!("no answer")
    };
    assert_eq!(read(&reset), (REMOTE.to_owned(), PROGRAM.to_owned(), RST));
    let silent = engine.handle(&mut segment(PROGRAM, REMOTE, RST, 7, &[]), NOW);
    assert_eq!(silent, Action::Drop(Dropped::Unknown), "resets are not answered");
    let listener = engine.handle(&mut segment("198.18.0.1:9", "198.18.0.2:5", ACK, 7, &[]), NOW);
    assert!(matches!(listener, Action::Reply(_)), "{listener:?}");
    let Action::Reply(reset) = engine.handle(&mut segment(PROGRAM, "198.18.0.2:80", SYN, 7, &[]), NOW) else {
        panic!("the peer has no such service")
    };
    assert_eq!(read(&reset).2, RST | ACK);
    ask(&mut engine, PROGRAM, "198.18.0.2:53");
}

/// Of `remote` from its wish until the listener has accepted.
fn open(engine: &mut Engine, remote: &str) -> FlowId {
    let id = ask(engine, PROGRAM, remote);
    engine.grant(id, NOW).unwrap();
    assert_eq!(engine.accepted(format!("198.18.0.2:{}", id.port).parse().unwrap(), NOW), Some(id));
    id
}

#[test]
fn a_table_full_of_connections_takes_no_more_and_counts_it() {
    let mut engine = engine();
    let remote = |n: usize| format!("192.0.2.7:{}", 100 + n);
    let ids: Vec<_> = (0..4).map(|n| open(&mut engine, &remote(n))).collect();
    let more = engine.handle(&mut segment(PROGRAM, &remote(4), SYN, 7, &[]), NOW);
    assert_eq!(more, Action::Drop(Dropped::Full));
    engine.closed(ids[2], NOW);
    let id = ask(&mut engine, PROGRAM, &remote(5));
    let counters = engine.counters();
    assert_eq!((counters.dropped(Dropped::Full), counters.forgotten, counters.flows), (1, 1, 4));
    engine.closed(id, NOW);
    assert_eq!(engine.counters().flows, 3, "who asked and went away holds no place");
}

/// SYNs to where nobody answers, as fast as somebody likes.
#[test]
fn a_flood_of_requests_keeps_nobody_out() {
    let mut engine = Engine::new(Config { most_flows: 16, ..config() });
    let open = open(&mut engine, REMOTE);
    let mut flood = (0..1_000u16).map(|n| {
        let id = ask(&mut engine, PROGRAM, &format!("203.0.113.9:{}", n + 1));
        (id, engine.displaced())
    });
    let first: Vec<_> = flood.by_ref().take(LEAST_HALF_OPEN).collect();
    assert!(first.iter().all(|(_, displaced)| displaced.is_none()));
    assert_eq!(flood.next().unwrap().1, Some(first[0].0), "the oldest");
    assert_eq!(flood.count(), 999 - LEAST_HALF_OPEN);
    assert_eq!(engine.grant(first[0].0, NOW), None);
    let (flows, forgotten) = (engine.counters().flows, engine.counters().forgotten);
    assert_eq!((flows, forgotten), (9, 992), "the one that is open stays");
    let id = ask(&mut engine, PROGRAM, "192.0.2.8:443");
    assert!(engine.grant(id, NOW).is_some(), "it is asked for at once");
    let mut data = segment(PROGRAM, REMOTE, ACK, 8, b"x");
    assert_eq!(engine.handle(&mut data, NOW), Action::Write(data.len()));
    engine.closed(open, NOW);
}

#[test]
fn handshakes_that_do_not_end_are_told_of() {
    let mut engine = engine();
    let id = ask(&mut engine, PROGRAM, REMOTE);
    engine.grant(id, NOW).unwrap();
    assert_eq!(engine.expire(NOW + units::Duration::from_secs(29)), []);
    assert_eq!(engine.expire(NOW + units::Duration::from_secs(31)), [id]);
    assert_eq!((engine.counters().forgotten, engine.counters().flows), (1, 0));
}

/// A program that has closed its own direction, and reads the end of the answer slowly.
#[test]
fn a_connection_that_has_ended_lasts_while_its_packets_pass() {
    let mut engine = engine();
    let id = open(&mut engine, REMOTE);
    let alias = format!("198.18.0.2:{}", id.port);
    engine.closed(id, NOW);
    let at = |seconds| NOW + units::Duration::from_secs(seconds);
    for seconds in [100, 200, 300] {
        assert_eq!(engine.expire(at(seconds)), []);
        let mut data = segment("198.18.0.1:9", &alias, ACK, 9, b"data");
        assert_eq!(engine.handle(&mut data, at(seconds)), Action::Write(data.len()));
        let mut acknowledged = segment(PROGRAM, REMOTE, ACK, 8, &[]);
        assert_eq!(engine.handle(&mut acknowledged, at(seconds + 1)), Action::Write(acknowledged.len()));
    }
    assert_eq!((engine.expire(at(500)), engine.counters().flows), (vec![], 0));
    let mut late = segment("198.18.0.1:9", &alias, ACK, 9, b"data");
    assert!(matches!(engine.handle(&mut late, at(500)), Action::Reply(_)));
}

#[test]
fn datagrams_come_out_with_their_ends() {
    let mut engine = engine();
    for (program, remote) in [("198.18.0.1:5000", "192.0.2.9:53"), ("[fd6d::1]:5000", "[2001:db8::9]:53")] {
        let (program, remote) = (program.parse().unwrap(), remote.parse().unwrap());
        let mut packet = datagram::udp(program, remote, b"query").unwrap();
        let bytes = packet.clone();
        let Action::Udp(datagram) = engine.handle(&mut packet, NOW) else { panic!("no datagram") };
        assert_eq!((datagram.program, datagram.remote), (program, remote));
        assert_eq!(&bytes[datagram.payload], b"query");
        let last = packet.len() - 1;
        packet[last] ^= 1;
        assert_eq!(engine.handle(&mut packet, NOW), Action::Drop(Dropped::Checksum));
        packet[last] ^= 1;
        let udp_length = packet.len() - 5 - 8 + 4;
        packet[udp_length..udp_length + 2].copy_from_slice(&7u16.to_be_bytes());
        assert_eq!(
            engine.handle(&mut packet, NOW),
            Action::Drop(Dropped::Malformed),
            "shorter than its header"
        );
    }
    let (peer, program) = ("198.18.0.2:54".parse().unwrap(), "198.18.0.1:5".parse().unwrap());
    let Action::Reply(error) = engine.handle(&mut datagram::udp(program, peer, b"").unwrap(), NOW) else {
        panic!("the peer has no such service")
    };
    assert_eq!(error[20..22], [3, 3], "port unreachable");
}

#[test]
fn pings_come_out_and_other_messages_are_dropped() {
    let mut engine = engine();
    let mut ping = Vec::new();
    let builder = PacketBuilder::ipv4([198, 18, 0, 1], [192, 0, 2, 1], 64);
    builder.icmpv4_echo_request(3, 4).write(&mut ping, b"data").unwrap();
    let Action::Echo(echo) = engine.handle(&mut ping, NOW) else { panic!("no echo") };
    assert_eq!((echo.identifier, echo.sequence, &ping[echo.payload]), (3, 4, &b"data"[..]));
    let error = engine.unreachable(&ping, Refusal::Prohibited).unwrap();
    assert_eq!(error[20..22], [3, 13]);
    let mut error = error;
    error[12..16].copy_from_slice(&[198, 18, 0, 1]);
    error[16..20].copy_from_slice(&[192, 0, 2, 1]);
    assert_eq!(engine.handle(&mut error, NOW), Action::Drop(Dropped::Protocol), "errors are not answered");
}

#[test]
fn odd_packets_are_counted_by_their_reason() {
    let mut engine = engine();
    let mut expect = |mut packet: Vec<u8>, reason| {
        let before = engine.counters().dropped(reason);
        assert_eq!(engine.handle(&mut packet, NOW), Action::Drop(reason));
        assert_eq!(engine.counters().dropped(reason), before + 1);
    };
    expect(Vec::new(), Dropped::Malformed);
    expect(segment(PROGRAM, REMOTE, SYN | FIN, 7, &[]), Dropped::Malformed);
    expect(segment(PROGRAM, "192.0.2.7:0", SYN, 7, &[]), Dropped::Malformed);
    expect(segment("198.18.0.2:5", REMOTE, SYN, 7, &[]), Dropped::Loop);
    expect(segment(PROGRAM, "198.18.0.1:80", SYN, 7, &[]), Dropped::Loop);
    expect(segment(PROGRAM, "224.0.0.1:80", SYN, 7, &[]), Dropped::Address);
    expect(segment("127.0.0.1:5", REMOTE, SYN, 7, &[]), Dropped::Address);
    expect(segment("[fe80::1]:5", "[ff02::1]:5", SYN, 7, &[]), Dropped::Address);
    let mut wrong = segment(PROGRAM, REMOTE, SYN, 7, &[]);
    wrong[37] ^= 1;
    expect(wrong, Dropped::Checksum);
    let mut gre = segment(PROGRAM, REMOTE, SYN, 7, &[]);
    gre[9] = 47;
    let Action::Reply(error) = engine.handle(&mut gre, NOW) else { panic!("no answer") };
    assert_eq!((error[20], engine.counters().dropped(Dropped::Protocol)), (3, 1));
}

proptest! {
    /// Whatever is done in whatever order: no panic, and no more flows than there may be.
    #[test]
    fn any_order_of_events_is_survived(
        events in proptest::collection::vec((0u8..8, 0u16..6, any::<u8>(), 0u64..40), 0..200)
    ) {
        let mut engine = engine();
        let (mut ids, mut now) = (Vec::new(), NOW);
        for (event, n, flags, seconds) in events {
            let remote = format!("192.0.2.7:{}", 100 + n);
            let some: Option<FlowId> = ids.get(usize::from(n)).copied();
            match (event, some) {
                (0..=2, _) => {
                    let flags = if event == 0 { SYN } else { flags & (SYN | ACK | RST | FIN) };
                    if let Action::Connect { id, .. } = engine.handle(&mut segment(PROGRAM, &remote, flags, 7, &[]), now) {
                        ids.insert(0, id);
                    }
                }
                (3, Some(id)) => _ = engine.grant(id, now),
                (4, Some(id)) => _ = engine.refuse(id, Refusal::Refused),
                (5, Some(id)) => _ = engine.accepted(SocketAddr::new(config().v4.peer, id.port), now),
                (6, Some(id)) => engine.closed(id, now),
                _ => {
                    now += units::Duration::from_secs(seconds);
                    _ = engine.expire(now);
                }
            }
            prop_assert!(engine.counters().flows <= 4);
        }
    }

    /// A packet that is rewritten stays one, and nothing else is written.
    #[test]
    fn damaged_packets_are_survived(
        at in 0usize..60, value: u8, cut in 0usize..70, bytes in proptest::collection::vec(any::<u8>(), 0..90)
    ) {
        let mut engine = engine();
        let id = ask(&mut engine, PROGRAM, REMOTE);
        engine.grant(id, NOW).unwrap();
        let mut packet = segment(PROGRAM, REMOTE, ACK, 7, &[5; 20]);
        packet[at] = value;
        packet.truncate(cut);
        for mut packet in [packet, bytes] {
            let length = packet.len();
            match engine.handle(&mut packet, NOW) {
                Action::Write(end) => prop_assert!(end <= length && Packet::read(&packet).is_ok()),
                Action::Reply(reply) => prop_assert!(Packet::read(&reply).is_ok()),
                _ => {}
            }
        }
    }
}
