//! Datagrams larger than Ethernet's, where the local link carries them: who is asked, when, and what
//! becomes of the answer (docs/decisions/0041-jumbo-datagrams.md).

use mendpath_proto::{Dir, PathId, Read, TransportConfig};
use units::Duration;

use crate::common::{Pair, addr};

/// What a link of 9,000 bytes leaves below IPv4.
const JUMBO: u16 = 8_972;

fn pair(round_trip: Duration) -> Pair {
    let mut pair = Pair::new(TransportConfig::default());
    pair.delay = Box::new(move |_, _| round_trip / 2);
    pair.connect();
    pair
}

fn short_pair() -> Pair {
    pair(Duration::from_micros(200))
}

/// Answers the client's question, which must be asked.
fn answer(pair: &mut Pair, size: u16) {
    let (id, path) = pair.client().poll_link_question().expect("a question");
    assert_eq!((id, path.local), (PathId::ZERO, addr(1)));
    pair.client().on_link_size(id, size);
}

fn mtu(pair: &mut Pair) -> u16 {
    pair.client().paths()[0].mtu
}

/// One that has gone beyond.
fn jumbo_pair() -> Pair {
    let mut pair = short_pair();
    pair.transfer(1_000_000, Duration::from_secs(1));
    answer(&mut pair, JUMBO);
    pair.transfer(1_000_000, Duration::from_secs(1));
    assert_eq!(mtu(&mut pair), JUMBO);
    pair
}

/// The client sends to a stream without an end for 40 ms, and the server reads.
fn stream(pair: &mut Pair) {
    let id = pair.client().open(Dir::Uni).unwrap();
    let mut buffer = vec![0; 65_536];
    for _ in 0..40 {
        while pair.client().write(id, &[7; 65_536]).is_ok() {}
        pair.run(Duration::from_millis(1));
        while pair.server().accept(Dir::Uni).is_some() {}
        while let Ok(Read::Data(_)) = pair.server().read(id, &mut buffer) {}
    }
}

#[test]
fn a_busy_short_path_goes_as_far_as_its_link() {
    let mut pair = short_pair();
    pair.transfer(100_000, Duration::from_secs(1));
    assert_eq!(pair.client().poll_link_question(), None, "over soon, for all we know");
    pair.transfer(1_000_000, Duration::from_secs(1));
    answer(&mut pair, JUMBO);
    assert_eq!(pair.client().poll_link_question(), None, "asked once");
    let before = pair.client().stats().packets_sent;
    pair.transfer(10_000_000, Duration::from_secs(1));
    assert_eq!(mtu(&mut pair), JUMBO);
    assert_eq!(pair.client().stats().packets_lost, 0);
    let sent = pair.client().stats().packets_sent - before;
    assert!((10_000_000 / 8_972..2_000).contains(&sent), "{sent} packets");
}

/// Exchanges of 10 kB never fill a window of ten packets, so that it does not grow.
#[test]
fn small_exchanges_get_there_in_steps() {
    let mut pair = short_pair();
    (0..30).for_each(|_| pair.transfer(10_000, Duration::from_secs(1)));
    assert!(pair.client().paths()[0].window < 32_752);
    answer(&mut pair, 65_507);
    (0..5).for_each(|_| pair.transfer(10_000, Duration::from_secs(1)));
    assert_eq!(mtu(&mut pair), TransportConfig::default().jumbo_datagram_size);
    let before = pair.client().stats().packets_sent;
    pair.transfer(10_000, Duration::from_secs(1));
    assert!(pair.client().stats().packets_sent - before <= 4);
}

#[test]
fn no_further_than_the_configuration_allows() {
    let transport = TransportConfig { jumbo_datagram_size: 4_000, ..TransportConfig::default() };
    let mut pair = Pair::new(transport);
    pair.connect();
    pair.transfer(1_000_000, Duration::from_secs(1));
    answer(&mut pair, JUMBO);
    pair.transfer(1_000_000, Duration::from_secs(1));
    assert_eq!(mtu(&mut pair), 4_000);
    let never = TransportConfig { jumbo_datagram_size: 0, ..TransportConfig::default() };
    let smaller = TransportConfig { max_datagram_size: 1_350, ..TransportConfig::default() };
    let larger = TransportConfig { max_datagram_size: 8_900, ..TransportConfig::default() };
    for (transport, most) in [(never, 1_452), (smaller, 1_350), (larger, 8_900)] {
        let mut pair = Pair::new(transport);
        pair.connect();
        pair.transfer(1_000_000, Duration::from_secs(1));
        assert_eq!(pair.client().poll_link_question(), None);
        assert_eq!(mtu(&mut pair), most);
    }
}

#[test]
fn long_paths_and_those_that_lose_are_not_asked_about() {
    let mut long = pair(Duration::from_millis(3));
    long.transfer(1_000_000, Duration::from_secs(5));
    assert_eq!(long.client().poll_link_question(), None);
    let mut lossy = short_pair();
    lossy.lose = Box::new(|n, _| n == 100);
    lossy.transfer(1_000_000, Duration::from_secs(5));
    assert_eq!(lossy.client().stats().packets_lost, 1);
    assert_eq!(lossy.client().poll_link_question(), None);
}

/// A router without jumbo frames after a link with them: three probes, and all stays as it was.
#[test]
fn a_narrow_network_behind_a_wide_link_loses_probes_and_no_data() {
    let mut pair = short_pair();
    pair.largest = 1_472;
    pair.transfer(1_000_000, Duration::from_secs(1));
    answer(&mut pair, JUMBO);
    pair.transfer(3_000_000, Duration::from_secs(2));
    pair.transfer(3_000_000, Duration::from_secs(2));
    assert_eq!((mtu(&mut pair), pair.too_large), (1_452, 3));
    assert_eq!(pair.client().stats().packets_lost, 0, "probes are not counted");
    assert!(pair.client().paths()[0].window > 100_000, "nor are they congestion");
}

/// What one path carries must fit the others, or it could not be mended there.
#[test]
fn a_second_path_brings_the_usual_size_back() {
    for mut pair in [jumbo_pair(), short_pair()] {
        let second = pair.open_path(2);
        assert_eq!(mtu(&mut pair), 1_452);
        pair.transfer(3_000_000, Duration::from_secs(1));
        assert_eq!(pair.client().poll_link_question(), None);
        let now = pair.now;
        pair.client().close_path(now, second, 0u8.into()).unwrap();
        pair.run(Duration::from_secs(2));
        assert_eq!(pair.client().paths().len(), 1);
        pair.transfer(1_000_000, Duration::from_secs(1));
        assert_eq!((pair.client().poll_link_question(), mtu(&mut pair)), (None, 1_452), "for good");
    }
}

/// A millisecond of them would fill a socket's buffer (docs/decisions/0038-packets-that-gather.md).
#[test]
fn jumbo_datagrams_do_not_gather() {
    let mut pair = short_pair();
    stream(&mut pair);
    assert!(pair.server().bulk_interval().is_some(), "those of the usual size do");
    answer(&mut pair, JUMBO);
    stream(&mut pair);
    assert_eq!(mtu(&mut pair), JUMBO);
    assert_eq!(pair.server().bulk_interval(), None);
}

/// The route leads elsewhere, where large datagrams vanish: all that was sent arrives.
#[test]
fn a_route_that_becomes_narrow_is_noticed() {
    let mut pair = jumbo_pair();
    pair.largest = 1_472;
    pair.transfer(1_000_000, Duration::from_secs(5));
    assert!(mtu(&mut pair) <= 1_452);
}
