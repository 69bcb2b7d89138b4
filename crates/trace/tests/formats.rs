//! Capture formats, link layers, cut-off frames, and files that are damaged or no captures.

mod support;

use mendpath_trace::{Analyzer, Options, Report, read_capture, text};
use support::{
    analyse,
    tcp_model::{SYN, mix, ordinary},
    wire::{Capture, Format, Link, Packet, block, frame},
};

fn packets() -> Vec<Packet> {
    mix(&ordinary(40, 0.04, 5)).into_iter().map(|(packet, _)| packet).collect()
}

/// The report without what differs between formats.
fn comparable(mut report: Report) -> Report {
    report.files.clear();
    report.packets.bytes = 0;
    report
}

#[test]
fn every_format_and_link_layer_gives_the_same_report() {
    let packets: Vec<Packet> = packets()
        .into_iter()
        .map(|packet| Packet { at_ns: packet.at_ns / 1_000 * 1_000, ..packet })
        .collect();
    let expected = comparable(analyse(&Capture::of(&packets), Options::default()));
    assert!(expected.retransmissions.seen_before > 20);
    for format in Format::ALL {
        for link in Link::ALL {
            let report = analyse(&Capture::with(&packets, format, link, 128), Options::default());
            assert_eq!(report.files[0].error, None);
            assert_eq!(comparable(report), expected, "{format:?} {link:?}");
        }
    }
}

#[test]
fn frames_cut_off_behind_the_window_field_are_enough() {
    // Not behind a SYN's: whether windows are scaled would not be known.
    let options = |packet: &Packet| if packet.flags & SYN == 0 { vec![1; 12] } else { Vec::new() };
    let packets: Vec<Packet> =
        packets().into_iter().map(|packet| Packet { options: options(&packet), ..packet }).collect();
    let whole =
        comparable(analyse(&Capture::with(&packets, Format::Pcap, Link::Vlan, 1_600), Options::default()));
    // VLAN header, the longer of the IP headers, ports to window.
    let cut = analyse(&Capture::with(&packets, Format::Pcap, Link::Vlan, 18 + 40 + 16), Options::default());
    assert_eq!(comparable(cut), whole);
    let cut = analyse(&Capture::with(&packets, Format::Pcap, Link::Vlan, 18 + 40 + 4), Options::default());
    assert!(cut.packets.unreadable > 0);
    assert!(cut.warnings.iter().any(|warning| warning.contains("cut off")), "{:?}", cut.warnings);
}

#[test]
fn several_files_are_one_trace() {
    let packets = packets();
    let whole = comparable(analyse(&Capture::of(&packets), Options::default()));
    let (first, second) = packets.split_at(packets.len() / 2);
    let mut analyzer = Analyzer::new(Options::default());
    for (name, part, format) in [("a", first, Format::PcapNanoseconds), ("b", second, Format::PcapNg)] {
        let capture = Capture::with(part, format, Link::Ethernet, 96);
        read_capture(name, &capture[..], &mut analyzer, &mut |_| ());
    }
    let report = analyzer.finish();
    assert_eq!(report.files.len(), 2);
    assert_eq!(comparable(report), whole);
}

#[test]
fn files_in_the_wrong_order_are_noticed() {
    let packets = packets();
    let mut analyzer = Analyzer::new(Options::default());
    for part in [&packets[packets.len() - 50..], &packets[..50]] {
        read_capture("part", &Capture::of(part)[..], &mut analyzer, &mut |_| ());
    }
    let report = analyzer.finish();
    assert!(report.warnings.iter().any(|warning| warning.contains("order of time")), "{:?}", report.warnings);
}

/// A packet captured at both ends, or on two interfaces, is no retransmission; only its
/// identification tells.
#[test]
fn packets_captured_at_two_places_are_noticed() {
    let number = |(ident, packet): (u16, Packet)| Packet { ident, ..packet };
    let once: Vec<Packet> = (1..).zip(packets()).map(number).collect();
    let again = |packet: &Packet| Packet { at_ns: packet.at_ns + 50_000, ..packet.clone() };
    let mut twice: Vec<Packet> = once.iter().flat_map(|packet| [packet.clone(), again(packet)]).collect();
    twice.sort_by_key(|packet| packet.at_ns);
    let warned = |packets: &[Packet]| {
        let report = analyse(&Capture::of(packets), Options::default());
        assert!(report.retransmissions.seen_before > 20);
        let warned = report.warnings.iter().any(|warning| warning.contains("captured at two places"));
        (report.retransmissions.captured_twice * 2 > report.retransmissions.seen_before, warned)
    };
    assert_eq!((warned(&once), warned(&twice)), ((false, false), (true, true)));
    // A small capture is no less misleading.
    let few = analyse(&Capture::of(&twice[..40]), Options::default());
    assert!(few.retransmissions.captured_twice < 20, "{:?}", few.retransmissions);
    assert!(few.warnings.iter().any(|warning| warning.contains("captured at two places")));
    // Where all packets have the same identification, as some systems and tools write it, it tells
    // nothing.
    let same: Vec<Packet> = once.iter().map(|packet| Packet { ident: 1, ..packet.clone() }).collect();
    assert_eq!(warned(&same), (false, false));
}

/// A capture whose interface claims this resolution (`if_tsresol`), and counts by milliseconds.
fn with_resolution(resolution: u8) -> Report {
    let packets: Vec<Packet> =
        packets().into_iter().map(|packet| Packet { at_ns: packet.at_ns / 1_000_000, ..packet }).collect();
    let mut capture = Capture::with(&packets, Format::PcapNg, Link::Ethernet, 96);
    let option = capture.windows(5).position(|bytes| bytes == [9, 0, 1, 0, 9]).unwrap();
    capture[option + 4] = resolution;
    analyse(&capture, Options::default())
}

#[test]
fn clocks_that_count_by_powers_of_two_are_read() {
    let [tens, twos] = [3, 0x8a].map(with_resolution);
    assert_eq!((&tens.files[0].error, &twos.files[0].error), (&None, &None));
    // 1,000 and 1,024 to the second.
    assert!(tens.span_ms > 1e3, "{}", tens.span_ms);
    assert!(
        (twos.span_ms - tens.span_ms * 1_000.0 / 1_024.0).abs() < 1.0,
        "{} {}",
        tens.span_ms,
        twos.span_ms
    );
}

/// Two packets a second apart, in a section of either byte order whose clock is a million seconds
/// ahead (`if_tsoffset`).
fn ahead(order: fn(u64, usize) -> Vec<u8>) -> Vec<u8> {
    let block = |kind: u64, content: &[u8]| {
        let length = order(12 + content.len() as u64, 4);
        [&order(kind, 4)[..], &length, content, &length].concat()
    };
    let section = [order(0x1a2b_3c4d, 4), order(1, 2), order(0, 2), order(u64::MAX, 8)].concat();
    let offset = [order(14, 2), order(8, 2), order(-1_000_000_i64 as u64, 8), order(0, 4)].concat();
    let interface = [order(1, 2), order(0, 2), order(0, 4), offset].concat();
    let mut capture = [block(0x0a0d_0d0a, &section), block(1, &interface)].concat();
    for (second, packet) in packets()[..2].iter().enumerate() {
        let mut frame = frame(packet, Link::Ethernet);
        frame.resize(frame.len().next_multiple_of(4), 0);
        let (micros, length) = ((2_000_000 + second as u64) * 1_000_000, order(frame.len() as u64, 4));
        let times = [order(0, 4), order(micros >> 32, 4), order(micros & 0xffff_ffff, 4)].concat();
        capture.extend(block(6, &[times, length.clone(), length, frame].concat()));
    }
    capture
}

#[test]
fn a_clock_that_is_ahead_is_set_back_in_either_byte_order() {
    let little = ahead(|number, bytes| number.to_le_bytes()[..bytes].to_vec());
    let big = ahead(|number, bytes| number.to_be_bytes()[8 - bytes..].to_vec());
    for capture in [little, big] {
        let report = analyse(&capture, Options::default());
        assert_eq!((report.files[0].error.clone(), report.packets.tcp), (None, 2));
        assert_eq!(report.span_ms, 1_000.0);
    }
}

#[test]
fn a_clock_too_fine_for_any_time_is_damage() {
    for (resolution, unit) in [(0xff, "2^-127"), (100, "10^-100"), (20, "10^-20"), (0xc0, "2^-64")] {
        let error = with_resolution(resolution).files[0].error.clone().unwrap();
        assert!(error.contains(&format!("counts time in units of {unit} s")), "{error}");
    }
    for finest in [19, 0xbf] {
        assert_eq!(with_resolution(finest).files[0].error, None);
    }
}

#[test]
fn one_is_one() {
    let told = |packets: &[Packet]| text(&analyse(&Capture::of(packets), Options::default()));
    let one = told(&packets()[..1]);
    assert!(
        one.contains(" 1 packet, ") && one.contains("\n1 TCP packet of 1 in 0.0 s; 1 connection, "),
        "{one}"
    );
    let all = packets();
    let one =
        (2..).map(|end| told(&all[..end])).find(|told| !told.contains("\n0 retransmissions (")).unwrap();
    assert!(
        one.contains("\n1 retransmission (") && one.contains("As Wireshark counts: 1 retransmission ("),
        "{one}"
    );
}

#[test]
fn a_directory_is_said_to_be_one() {
    struct Folder;
    impl std::io::Read for Folder {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::IsADirectory.into())
        }
    }
    let mut analyzer = Analyzer::new(Options::default());
    let error = read_capture("captures", Folder, &mut analyzer, &mut |_| ()).error.unwrap();
    assert_eq!(error, "is a directory; name the captures in it");
}

#[test]
fn what_was_read_before_the_damage_is_reported() {
    let packets = packets();
    for format in Format::ALL {
        let capture = Capture::with(&packets, format, Link::Ethernet, 96);
        let cut = analyse(&capture[..capture.len() / 2 + 1], Options::default());
        let error = cut.files[0].error.clone().expect("half a packet is an error");
        assert!(error.contains("ends in the middle"), "{format:?}: {error}");
        assert!(cut.packets.tcp > packets.len() as u64 / 3, "{format:?}");
        assert!(text(&cut).contains("ends in the middle"));

        let mut damaged = capture.clone();
        let middle = damaged.len() / 2;
        damaged[middle..].fill(0xff);
        let report = analyse(&damaged, Options::default());
        let error = report.files[0].error.clone().expect("nonsense is an error");
        assert!(error.contains("damaged") || error.contains("ends in the middle"), "{format:?}: {error}");
        assert!(report.packets.tcp > packets.len() as u64 / 3, "{format:?}");
    }
}

#[test]
fn what_is_no_capture_is_said_so() {
    let cases: [(&[u8], &str); 9] = [
        (b"", "is empty"),
        (b"\xd4\xc3\xb2\xa1\x02", "ends within its header"),
        (b"this is a text of more than 24 bytes, not a capture", "neither pcap nor pcapng"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00", "gunzip"),
        (b"snoop\0\0\0\0\0\0\x02", "editcap"),
        (b"\x28\xb5\x2f\xfd\x04\x00", "zstd"),
        (b"\x04\x22\x4d\x18\x64\x40", "lz4"),
        (b"BZh91AY&SY", "bzip2"),
        (b"PK\x03\x04\x14\x00", "unzip"),
    ];
    for (bytes, expected) in cases {
        let report = analyse(bytes, Options::default());
        let error = report.files[0].error.clone().unwrap();
        assert!(error.contains(expected), "{error}");
        assert!(report.has_no_tcp());
        let text = text(&report);
        assert!(text.contains("no TCP") && text.contains(expected), "{text}");
    }
}

#[test]
fn a_capture_without_tcp_says_so() {
    let mut capture = Capture::new(Format::Pcap, Link::Ethernet, 1_600);
    for packet in &packets()[..10] {
        let mut frame = frame(packet, Link::Ethernet);
        frame[12..14].copy_from_slice(&[0x08, 0x06]); // ARP
        capture.push_frame(packet.at_ns, &frame);
    }
    let report = analyse(capture.bytes(), Options::default());
    assert_eq!((report.packets.total, report.packets.tcp), (10, 0));
    assert!(text(&report).contains("no TCP"));
}

#[test]
fn an_unknown_link_layer_is_named() {
    let mut capture = Capture::of(&packets());
    capture[20] = 105; // 802.11
    let report = analyse(&capture, Options::default());
    assert!(
        report.warnings.iter().any(|warning| warning.contains("link-layer type 105")),
        "{:?}",
        report.warnings
    );
}

#[test]
fn blocks_that_are_not_needed_are_skipped_and_a_monstrous_packet_is_damage() {
    let packets = packets();
    let capture = Capture::with(&packets, Format::PcapNg, Link::Ethernet, 96);
    let header = 28 + 12 + 20;
    let with = |kind: u32, size: usize| {
        [&capture[..header], &block(kind, &vec![0; size]), &capture[header..]].concat()
    };
    // Unknown ones, and an empty one of a known kind (statistics).
    for (kind, size) in [(0x0bad_0000, 0), (0x0bad_0000, 3 << 20), (0x0bad_0000, 17 << 20), (5, 0)] {
        let capture = with(kind, size);
        let report = analyse(&capture, Options::default());
        assert_eq!((report.files[0].error.clone(), report.packets.tcp), (None, packets.len() as u64));
        assert_eq!(report.files[0].bytes, capture.len() as u64);
    }
    let report = analyse(&with(6, 17 << 20), Options::default());
    assert!(report.files[0].error.clone().unwrap().contains("16 MiB"), "{:?}", report.files[0]);
}

/// Tools of before 2010 write packets in another block.
#[test]
fn obsolete_packet_blocks_are_packets() {
    let capture = Capture::with(&packets(), Format::PcapNg, Link::Ethernet, 96);
    let word = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().unwrap()) as usize;
    let (mut old, mut at) = (capture.clone(), 0);
    while at < capture.len() {
        if word(at) == 6 {
            old[at] = 2;
            old[at + 10] = 7; // packets dropped before this one
        }
        at += word(at + 4);
    }
    let expected = analyse(&capture, Options::default());
    assert_eq!(analyse(&old, Options::default()), expected);
}

#[test]
fn packets_without_a_time_or_an_interface_are_refused() {
    let start = Capture::new(Format::PcapNg, Link::Ethernet, 96).bytes().to_vec();
    let simple = [start.clone(), block(3, &[&60u32.to_le_bytes()[..], &[0; 60]].concat())].concat();
    assert!(analyse(&simple, Options::default()).files[0].error.clone().unwrap().contains("without a time"));
    let stray: Vec<u8> = [9u32, 0, 0, 4, 4, 0].into_iter().flat_map(u32::to_le_bytes).collect();
    let stray = [start, block(6, &stray)].concat();
    assert!(analyse(&stray, Options::default()).files[0].error.clone().unwrap().contains("interface"));
}
