//! Packets through emulated paths on loopback. Time limits here only end a test that would
//! otherwise hang.

use std::{
    collections::BTreeSet,
    io::IoSliceMut,
    net::{SocketAddr, UdpSocket},
    time::Duration,
};

use mendpath_emulator::{Direction, Emulator, EmulatorError, OutageKind, PathId, PathStats, Seed, UdpPath};
use netsim::{LinkConfig, Loss};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use units::BitRate;

const PATH: PathId = PathId(0);

fn socket(addr: &str) -> UdpSocket {
    let socket = UdpSocket::bind(addr).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

fn link(text: &str) -> LinkConfig {
    text.parse().unwrap()
}

/// A server, and an emulator whose only path leads to it.
fn relay(up: &str, down: &str) -> (UdpSocket, Emulator) {
    let server = socket("127.0.0.1:0");
    let path = UdpPath::new(server.local_addr().unwrap(), link(up), link(down));
    let emulator = Emulator::start([path], Seed(1)).unwrap();
    (server, emulator)
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = vec![0; 65_535];
    let (n, from) = socket.recv_from(&mut buffer).unwrap();
    buffer.truncate(n);
    (buffer, from)
}

/// A payload that names its number and whose length varies.
fn numbered(n: u32) -> Vec<u8> {
    n.to_be_bytes().repeat(1 + (n as usize * 37) % 300)
}

fn number(payload: &[u8]) -> u32 {
    u32::from_be_bytes(payload[..4].try_into().unwrap())
}

/// Asks for the statistics until they are as wanted.
fn wait_until(emulator: &Emulator, wanted: impl Fn(&PathStats) -> bool) -> PathStats {
    loop {
        let stats = emulator.stats(PATH).unwrap();
        if wanted(&stats) {
            return stats;
        }
        std::thread::yield_now();
    }
}

#[test]
fn packets_arrive_intact_and_in_order_both_ways() {
    let (server, emulator) = relay("rate=200mbit,delay=2ms,jitter=1ms", "rate=100mbit,delay=1ms");
    let client = socket("127.0.0.1:0");
    let relay = emulator.client_addr(PATH).unwrap();
    // Small groups, so that no socket's buffer overflows.
    for group in 0..40 {
        let numbers = group * 25..(group + 1) * 25;
        for n in numbers.clone() {
            client.send_to(&numbered(n), relay).unwrap();
        }
        for n in numbers.clone() {
            let (payload, from) = receive(&server);
            assert!(payload == numbered(n), "packet {n} is {}", number(&payload));
            server.send_to(&payload, from).unwrap();
        }
        for n in numbers {
            let (payload, from) = receive(&client);
            assert!(payload == numbered(n), "packet {n} is {}", number(&payload));
            assert_eq!(from, relay);
        }
    }
    let stats = emulator.stats(PATH).unwrap();
    for direction in [stats.up, stats.down] {
        assert_eq!((direction.link.offered, direction.link.delivered, direction.sent), (1_000, 1_000, 1_000));
        assert_eq!((direction.in_link, direction.send_failed, direction.orphaned), (0, 0, 0));
    }
    assert_eq!((stats.clients, stats.evicted, stats.strangers, stats.receive_failed), (1, 0, 0, 0));
}

#[test]
fn empty_and_largest_datagrams_pass() {
    let (server, emulator) = relay("", "");
    let client = socket("127.0.0.1:0");
    for size in [0, 1, 9_000, 65_000, 0] {
        client.send_to(&vec![7; size], emulator.client_addr(PATH).unwrap()).unwrap();
        let (payload, from) = receive(&server);
        assert!(payload == vec![7; size], "{size}");
        server.send_to(&payload, from).unwrap();
        assert_eq!(receive(&client).0.len(), size);
    }
}

#[test]
fn equal_packets_that_leave_together_stay_apart() {
    // Held back, then released at once: they may leave in one call.
    let (server, emulator) = relay("", "");
    let client = socket("127.0.0.1:0");
    emulator.cut(PATH, None, OutageKind::Hold).unwrap();
    let payload = |n: u8| vec![n; if n % 10 == 9 { 50 } else { 100 }];
    for n in 0..60 {
        client.send_to(&payload(n), emulator.client_addr(PATH).unwrap()).unwrap();
    }
    wait_until(&emulator, |stats| stats.up.link.offered == 60);
    emulator.restore(PATH, None).unwrap();
    for n in 0..60 {
        assert_eq!(receive(&server).0, payload(n));
    }
    assert_eq!(wait_until(&emulator, |stats| stats.up.sent == 60).up.send_failed, 0);
}

#[test]
fn exactly_the_named_packets_are_lost() {
    let (server, emulator) = relay("drop=0/3/17", "drop=1");
    let client = socket("127.0.0.1:0");
    for n in 0..20 {
        client.send_to(&numbered(n), emulator.client_addr(PATH).unwrap()).unwrap();
    }
    let expected: Vec<u32> = (0..20).filter(|n| ![0, 3, 17].contains(n)).collect();
    let mut from = None;
    for n in &expected {
        let (payload, peer) = receive(&server);
        assert_eq!(number(&payload), *n);
        from = Some(peer);
    }
    for n in 0..3 {
        server.send_to(&numbered(n), from.unwrap()).unwrap();
    }
    assert_eq!([receive(&client), receive(&client)].map(|(payload, _)| number(&payload)), [0, 2]);
    let stats = emulator.stats(PATH).unwrap();
    assert_eq!((stats.up.link.lost, stats.down.link.lost), (3, 1));
}

#[test]
fn the_same_seed_loses_the_same_packets_after_reseeding_too() {
    let lost = |emulator: &Emulator, server: &UdpSocket| -> Vec<u32> {
        let client = socket("127.0.0.1:0");
        let before = emulator.stats(PATH).unwrap().up.link;
        for n in 0..100 {
            client.send_to(&numbered(n), emulator.client_addr(PATH).unwrap()).unwrap();
        }
        let stats = wait_until(emulator, |stats| {
            stats.up.link.offered == before.offered + 100 && stats.up.in_link == 0
        });
        let arrived: BTreeSet<u32> =
            (before.delivered..stats.up.link.delivered).map(|_| number(&receive(server).0)).collect();
        (0..100).filter(|n| !arrived.contains(n)).collect()
    };
    let server = socket("127.0.0.1:0");
    let path = UdpPath::new(server.local_addr().unwrap(), link("loss=20%"), link("")).seed(Seed(7));
    let emulator = Emulator::start([path.clone()], Seed(1)).unwrap();
    let first = lost(&emulator, &server);
    assert!((5..50).contains(&first.len()), "{first:?}");
    assert_ne!(lost(&emulator, &server), first);
    emulator.reseed(PATH, Seed(7)).unwrap();
    assert_eq!(lost(&emulator, &server), first);
    let emulator = Emulator::start([path], Seed(2)).unwrap();
    assert_eq!(lost(&emulator, &server), first);
    emulator.set_loss(PATH, None, Loss::None).unwrap();
    assert_eq!(lost(&emulator, &server), []);
}

#[test]
fn a_restarted_path_is_as_at_first() {
    let (server, emulator) = relay("drop=0", "");
    let (client, relay) = (socket("127.0.0.1:0"), emulator.client_addr(PATH).unwrap());
    emulator.set_rate(PATH, None, Some(BitRate(0))).unwrap();
    client.send_to(b"lost", relay).unwrap();
    client.send_to(b"held", relay).unwrap();
    wait_until(&emulator, |stats| (stats.up.link.offered, stats.up.in_link) == (2, 1));
    emulator.restart(PATH).unwrap();
    assert_eq!(receive(&server).0, b"held");
    emulator.reseed(PATH, Seed(1)).unwrap();
    client.send_to(b"lost again", relay).unwrap();
    client.send_to(b"two", relay).unwrap();
    assert_eq!(receive(&server).0, b"two");
}

#[test]
fn the_server_sees_one_address_per_client_and_path() {
    let server = socket("127.0.0.1:0");
    let path = UdpPath::new(server.local_addr().unwrap(), link(""), link(""));
    let emulator = Emulator::start([path.clone(), path], Seed(1)).unwrap();
    let clients = [socket("127.0.0.1:0"), socket("127.0.0.1:0")];
    let mut peers = BTreeSet::new();
    for (index, client) in clients.iter().enumerate() {
        for path in [PathId(0), PathId(1)] {
            let hello = [index as u8, path.0 as u8];
            client.send_to(&hello, emulator.client_addr(path).unwrap()).unwrap();
            let (payload, peer) = receive(&server);
            assert_eq!(payload, hello);
            peers.insert(peer);
            server.send_to(&payload, peer).unwrap();
            assert_eq!(receive(client), (hello.to_vec(), emulator.client_addr(path).unwrap()));
        }
    }
    assert_eq!(peers.len(), 4);
    assert_eq!(emulator.stats(PathId(1)).unwrap().clients, 2);
}

#[test]
fn the_idlest_client_makes_room() {
    let server = socket("127.0.0.1:0");
    let path = UdpPath::new(server.local_addr().unwrap(), link(""), link("")).max_clients(2);
    let emulator = Emulator::start([path], Seed(1)).unwrap();
    let relay = emulator.client_addr(PATH).unwrap();
    let [a, b, c] = std::array::from_fn(|_| socket("127.0.0.1:0"));
    let greet = |client: &UdpSocket| {
        client.send_to(b"hi", relay).unwrap();
        receive(&server).1
    };
    let first = greet(&a);
    let second = greet(&b);
    assert_eq!(greet(&a), first);
    greet(&c); // b has been idle for longest
    assert_eq!(greet(&a), first);
    assert_ne!(greet(&b), second); // back with a new address, in place of c
    let stats = emulator.stats(PATH).unwrap();
    assert_eq!((stats.clients, stats.evicted), (2, 2));
}

#[test]
fn strangers_are_not_let_in() {
    let (server, emulator) = relay("", "");
    let client = socket("127.0.0.1:0");
    client.send_to(b"hello", emulator.client_addr(PATH).unwrap()).unwrap();
    let (_, peer) = receive(&server);
    socket("127.0.0.1:0").send_to(b"intruder", peer).unwrap();
    wait_until(&emulator, |stats| stats.strangers == 1);
    server.send_to(b"answer", peer).unwrap();
    assert_eq!(receive(&client).0, b"answer");
}

#[test]
fn cut_drops_one_direction_until_restored() {
    let (server, emulator) = relay("", "");
    let client = socket("127.0.0.1:0");
    let relay = emulator.client_addr(PATH).unwrap();
    client.send_to(b"one", relay).unwrap();
    let (_, peer) = receive(&server);
    emulator.cut(PATH, Some(Direction::Forward), OutageKind::Drop).unwrap();
    client.send_to(b"two", relay).unwrap();
    wait_until(&emulator, |stats| stats.up.link.dropped_outage == 1);
    server.send_to(b"back", peer).unwrap();
    assert_eq!(receive(&client).0, b"back");
    emulator.restore(PATH, Some(Direction::Forward)).unwrap();
    client.send_to(b"three", relay).unwrap();
    assert_eq!(receive(&server).0, b"three");
}

#[test]
fn queues_are_limited() {
    let (_server, emulator) = relay("rate=1kbit,queue=3p", "");
    let client = socket("127.0.0.1:0");
    for _ in 0..10 {
        client.send_to(&[0; 1_000], emulator.client_addr(PATH).unwrap()).unwrap();
    }
    let stats = wait_until(&emulator, |stats| stats.up.link.offered == 10);
    // One is being sent, which takes eight seconds; three wait.
    assert_eq!((stats.up.link.dropped_queue, stats.up.in_link), (6, 4));
    assert_eq!(stats.up.link.offered_bytes, 10 * 1_028);
}

#[test]
fn ecn_marks_are_kept_and_full_queues_mark() {
    let (server, emulator) = relay("ecn=1p", "");
    let client = socket("127.0.0.1:0");
    let destination = emulator.client_addr(PATH).unwrap();
    let (sender, receiver) =
        (UdpSocketState::new((&client).into()).unwrap(), UdpSocketState::new((&server).into()).unwrap());
    client.set_nonblocking(false).unwrap();
    server.set_nonblocking(false).unwrap();
    let mut send = |ecn| {
        let transmit = Transmit { destination, ecn, contents: b"x", segment_size: None, src_ip: None };
        sender.try_send((&client).into(), &transmit).unwrap();
    };
    let receive_mark = || {
        let (mut buffer, mut meta) = (vec![0; 65_535], [RecvMeta::default()]);
        let n = receiver.recv((&server).into(), &mut [IoSliceMut::new(&mut buffer)], &mut meta).unwrap();
        assert_eq!((n, meta[0].len), (1, 1)); // different marks are never joined
        meta[0].ecn
    };
    let marks = [Some(EcnCodepoint::Ect0), Some(EcnCodepoint::Ect1), None, Some(EcnCodepoint::Ce)];
    for mark in marks {
        send(mark);
        assert_eq!(receive_mark(), mark);
    }
    // While the path is held, the third and fourth packet find more than one waiting; only
    // ECN-capable ones are marked.
    emulator.cut(PATH, None, OutageKind::Hold).unwrap();
    let sent = [Some(EcnCodepoint::Ect1), Some(EcnCodepoint::Ect0), Some(EcnCodepoint::Ect1), None];
    sent.into_iter().for_each(&mut send);
    wait_until(&emulator, |stats| stats.up.link.offered == 8);
    emulator.restore(PATH, None).unwrap();
    let expected = [Some(EcnCodepoint::Ect1), Some(EcnCodepoint::Ect0), Some(EcnCodepoint::Ce), None];
    assert_eq!([(); 4].map(|()| receive_mark()), expected);
}

/// What was sent in one call comes to the emulator in one piece, of which the kernel has more to say.
#[cfg(target_os = "linux")]
#[test]
fn ecn_marks_of_batches_are_kept() {
    use nix::sys::socket::{setsockopt, sockopt::ReceiveTimestampns};

    const SEGMENT: usize = 100;
    let (server, emulator) = relay("", "");
    let client = socket("127.0.0.1:0");
    let destination = emulator.client_addr(PATH).unwrap();
    let (sender, receiver) =
        (UdpSocketState::new((&client).into()).unwrap(), UdpSocketState::new((&server).into()).unwrap());
    server.set_nonblocking(false).unwrap();
    // They take the room of the mark, which is to be seen here.
    setsockopt(&server, ReceiveTimestampns, &false).unwrap();
    let contents = vec![7; SEGMENT * sender.max_gso_segments().min(8)];
    let segment_size = (contents.len() > SEGMENT).then_some(SEGMENT);
    let ecn = Some(EcnCodepoint::Ect0);
    let transmit = Transmit { destination, ecn, contents: &contents, segment_size, src_ip: None };
    sender.try_send((&client).into(), &transmit).unwrap();
    let mut received = 0;
    while received < contents.len() {
        let (mut buffer, mut meta) = (vec![0; 65_535], [RecvMeta::default()]);
        receiver.recv((&server).into(), &mut [IoSliceMut::new(&mut buffer)], &mut meta).unwrap();
        assert_eq!((meta[0].ecn, meta[0].stride), (ecn, SEGMENT));
        received += meta[0].len;
    }
}

#[test]
fn paths_over_ipv6() {
    let Ok(server) = UdpSocket::bind("[::1]:0") else {
        eprintln!("skipped: no IPv6 on this machine");
        return;
    };
    server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let path = UdpPath::new(server.local_addr().unwrap(), link(""), link(""));
    let emulator = Emulator::start([path], Seed(1)).unwrap();
    let client = socket("[::1]:0");
    client.send_to(b"six", emulator.client_addr(PATH).unwrap()).unwrap();
    assert_eq!(receive(&server).0, b"six");
}

#[test]
fn mistakes_are_explained() {
    let server = socket("127.0.0.1:0");
    let busy = server.local_addr().unwrap();
    let path = UdpPath::new(busy, link(""), link("")).listen(busy);
    let error = Emulator::start([path], Seed(1)).unwrap_err();
    assert!(matches!(error, EmulatorError::Listen { addr, .. } if addr == busy), "{error}");

    let (_server, emulator) = relay("", "");
    let error = emulator.stats(PathId(3)).unwrap_err();
    assert_eq!(error.to_string(), "there is no emulated path 3: paths are numbered from 0 to 0");
    emulator.shutdown().unwrap();
}

#[test]
fn dropping_frees_the_address() {
    let (_server, emulator) = relay("", "");
    let addr = emulator.client_addr(PATH).unwrap();
    assert!(UdpSocket::bind(addr).is_err());
    drop(emulator);
    assert!(UdpSocket::bind(addr).is_ok());
}
