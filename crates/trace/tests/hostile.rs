//! No capture makes the program panic or run for ever.

mod support;

use mendpath_trace::{Analyzer, LinkLayer, Options, html, text};
use proptest::prelude::*;
use support::{
    analyse,
    tcp_model::{mix, ordinary},
    wire::{Capture, Format, Link, Packet},
};
use units::Instant;

fn look_at(capture: &[u8]) {
    let report = analyse(capture, Options::default());
    assert!(!text(&report).is_empty() && html(&report).ends_with("</html>\n"));
    assert!(report.packets.tcp <= report.packets.total);
}

fn base(format: usize, link: usize) -> Vec<u8> {
    let packets: Vec<Packet> = mix(&ordinary(3, 0.1, 21)).into_iter().map(|(packet, _)| packet).collect();
    Capture::with(&packets, Format::ALL[format], Link::ALL[link], 96)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..600), format in 0usize..4) {
        look_at(&bytes);
        let header = Capture::new(Format::ALL[format], Link::Ethernet, 96).bytes().to_vec();
        look_at(&[header, bytes].concat());
    }

    #[test]
    fn mutated_captures(
        format in 0usize..4,
        link in 0usize..6,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut capture = base(format, link);
        for (place, value) in &changes {
            let place = place.index(capture.len());
            capture[place] = *value;
        }
        look_at(&capture);
        capture.truncate(cut.index(capture.len()));
        look_at(&capture);
    }

    #[test]
    fn random_frames(
        frames in prop::collection::vec((any::<u64>(), prop::collection::vec(any::<u8>(), 0..80), any::<u32>()), 0..20),
        number in prop::sample::select(vec![0, 1, 101, 113, 276, 105]),
    ) {
        let mut analyzer = Analyzer::new(Options::default());
        for (at, frame, wire) in &frames {
            analyzer.packet(Instant::from_nanos(*at), LinkLayer::from_number(number), frame, *wire);
        }
        prop_assert_eq!(analyzer.finish().packets.total, frames.len() as u64);
    }

    /// Sequence numbers, flags, sizes and times at will, between two ends, so that every packet
    /// meets state of others.
    #[test]
    fn hostile_conversations(
        packets in prop::collection::vec(
            (any::<bool>(), prop::sample::select(vec![0u32, 1, 100, 1 << 31, u32::MAX - 5]), 0u32..3_000, any::<u32>(), any::<u8>(), 0u32..3_000, any::<u32>()),
            1..120,
        ),
    ) {
        let ends = ["10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap()];
        let packets: Vec<Packet> = packets
            .into_iter()
            .map(|(way, base, offset, ack, flags, payload, at)| Packet {
                at_ns: u64::from(at),
                from: ends[usize::from(way)],
                to: ends[usize::from(!way)],
                seq: base.wrapping_add(offset),
                ack,
                flags,
                window: ack as u16,
                payload,
                ident: 0,
            options: Vec::new(),
            })
            .collect();
        look_at(&Capture::of(&packets));
    }
}

/// One packet retransmitted without end, and very many close to a connection's end.
#[test]
fn endless_retransmissions_take_bounded_memory() {
    let packet = |at: u64, seq: u32| Packet {
        at_ns: at,
        from: "10.0.0.1:1".parse().unwrap(),
        to: "10.0.0.2:2".parse().unwrap(),
        seq,
        ack: 0,
        flags: 2,
        window: 1,
        payload: 10,
        ident: 0,
        options: Vec::new(),
    };
    let packets: Vec<Packet> = (0..5_000).map(|i| packet(i, 7)).collect();
    let report = analyse(&Capture::of(&packets), Options::default());
    assert_eq!(report.retransmissions.seen_before, 4_999);
    let known: u64 = report.positions.iter().flat_map(|s| &s.points).map(|point| point.retransmissions).sum();
    assert!((1_000..1_100).contains(&known), "{known} have a position, the others' stay unknown");
}
