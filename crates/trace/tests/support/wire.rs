//! Packets as bytes, and captures of them.

use std::net::{IpAddr, SocketAddr};

/// A TCP packet at a moment.
#[derive(Clone, Debug)]
pub struct Packet {
    pub at_ns: u64,
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub payload: u32,
    /// IPv4's identification.
    pub ident: u16,
    /// Bytes of TCP options, padded by the caller to whole words.
    pub options: Vec<u8>,
}

/// How frames begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    Ethernet,
    Vlan,
    DoubleVlan,
    /// A session of PPPoE on a VLAN.
    PppoeVlan,
    /// Two labels.
    Mpls,
    Cooked,
    Cooked2,
    Raw,
}

impl Link {
    pub const ALL: [Self; 8] = [
        Self::Ethernet,
        Self::Vlan,
        Self::DoubleVlan,
        Self::PppoeVlan,
        Self::Mpls,
        Self::Cooked,
        Self::Cooked2,
        Self::Raw,
    ];

    pub fn number(self) -> u32 {
        match self {
            Self::Ethernet | Self::Vlan | Self::DoubleVlan | Self::PppoeVlan | Self::Mpls => 1,
            Self::Cooked => 113,
            Self::Cooked2 => 276,
            Self::Raw => 101,
        }
    }

    fn header(self, ether_type: u16) -> Vec<u8> {
        let is_v4 = ether_type == 0x0800;
        let ether_type = ether_type.to_be_bytes();
        let mut out = match self {
            Self::Ethernet | Self::Vlan | Self::DoubleVlan | Self::PppoeVlan | Self::Mpls => vec![2; 12],
            Self::Cooked => vec![0; 14],
            Self::Cooked2 => return [&ether_type[..], &[0; 18]].concat(),
            Self::Raw => return Vec::new(),
        };
        match self {
            Self::Vlan => out.extend([0x81, 0, 0, 7]),
            Self::DoubleVlan => out.extend([0x88, 0xa8, 0, 9, 0x81, 0, 0, 7]),
            Self::PppoeVlan => {
                let protocol = if is_v4 { 0x21 } else { 0x57 };
                out.extend([0x81, 0, 0, 7, 0x88, 0x64, 0x11, 0, 0, 1, 0, 99, 0, protocol]);
                return out;
            }
            Self::Mpls => {
                out.extend([0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64]);
                return out;
            }
            _ => {}
        }
        out.extend(ether_type);
        out
    }
}

/// A frame with `packet`, with zeros as its data.
pub fn frame(packet: &Packet, link: Link) -> Vec<u8> {
    let tcp = tcp(packet);
    let length = tcp.len() + packet.payload as usize;
    let mut out = match (packet.from.ip(), packet.to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut out = link.header(0x0800);
            out.extend([0x45, 0]);
            out.extend(((20 + length) as u16).to_be_bytes());
            out.extend(packet.ident.to_be_bytes());
            out.extend([0x40, 0, 64, 6, 0, 0]);
            out.extend(from.octets());
            out.extend(to.octets());
            out
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut out = link.header(0x86dd);
            out.extend([0x60, 0, 0, 0]);
            out.extend((length as u16).to_be_bytes());
            out.extend([6, 64]);
            out.extend(from.octets());
            out.extend(to.octets());
            out
        }
        _ => panic!("both ends speak the same version"),
    };
    out.extend(tcp);
    out.resize(out.len() + packet.payload as usize, 0);
    out
}

fn tcp(packet: &Packet) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(packet.from.port().to_be_bytes());
    out.extend(packet.to.port().to_be_bytes());
    out.extend(packet.seq.to_be_bytes());
    out.extend(packet.ack.to_be_bytes());
    let words = 5 + packet.options.len() / 4;
    out.extend([(words << 4) as u8, packet.flags]);
    out.extend(packet.window.to_be_bytes());
    out.extend([0; 4]);
    out.extend(&packet.options);
    out
}

/// A capture in memory.
pub struct Capture {
    bytes: Vec<u8>,
    link: Link,
    snaplen: usize,
    format: Format,
}

/// Capture formats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Pcap,
    PcapNanoseconds,
    PcapBigEndian,
    PcapNg,
}

impl Format {
    pub const ALL: [Self; 4] = [Self::Pcap, Self::PcapNanoseconds, Self::PcapBigEndian, Self::PcapNg];
}

impl Capture {
    pub fn new(format: Format, link: Link, snaplen: usize) -> Self {
        let number = link.number();
        let mut bytes = Vec::new();
        match format {
            Format::PcapNg => {
                bytes.extend(block(
                    0x0a0d_0d0a,
                    &[&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat(),
                ));
                // Nanoseconds: if_tsresol = 9.
                let options = [9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0];
                let interface =
                    [&number.to_le_bytes()[..], &(snaplen as u32).to_le_bytes(), &options].concat();
                bytes.extend(block(1, &interface));
            }
            Format::PcapBigEndian => {
                for word in [0xa1b2_c3d4, 0x0002_0004, 0, 0, snaplen as u32, number] {
                    bytes.extend(u32::to_be_bytes(word));
                }
            }
            Format::Pcap | Format::PcapNanoseconds => {
                let magic = if format == Format::Pcap { 0xa1b2_c3d4 } else { 0xa1b2_3c4d };
                for word in [magic, 0x0004_0002, 0, 0, snaplen as u32, number] {
                    bytes.extend(u32::to_le_bytes(word));
                }
            }
        }
        Self { bytes, link, snaplen, format }
    }

    pub fn push(&mut self, packet: &Packet) {
        let frame = frame(packet, self.link);
        self.push_frame(packet.at_ns, &frame);
    }

    pub fn push_frame(&mut self, at_ns: u64, frame: &[u8]) {
        let kept = &frame[..frame.len().min(self.snaplen)];
        let (kept_len, wire_len) = (kept.len() as u32, frame.len() as u32);
        let (seconds, nanos) = ((at_ns / 1_000_000_000) as u32, (at_ns % 1_000_000_000) as u32);
        let words = |fraction: u32| [seconds, fraction, kept_len, wire_len];
        match self.format {
            Format::PcapNg => {
                let fields = [0, (at_ns >> 32) as u32, at_ns as u32, kept_len, wire_len];
                let mut content: Vec<u8> = fields.into_iter().flat_map(u32::to_le_bytes).collect();
                content.extend(kept);
                content.resize(content.len().next_multiple_of(4), 0);
                self.bytes.extend(block(6, &content));
                return;
            }
            Format::PcapBigEndian => {
                self.bytes.extend(words(nanos / 1_000).into_iter().flat_map(u32::to_be_bytes))
            }
            Format::Pcap => self.bytes.extend(words(nanos / 1_000).into_iter().flat_map(u32::to_le_bytes)),
            Format::PcapNanoseconds => self.bytes.extend(words(nanos).into_iter().flat_map(u32::to_le_bytes)),
        }
        self.bytes.extend(kept);
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All of `packets` in the common form.
    pub fn of(packets: &[Packet]) -> Vec<u8> {
        Self::with(packets, Format::PcapNanoseconds, Link::Ethernet, 96)
    }

    pub fn with(packets: &[Packet], format: Format, link: Link, snaplen: usize) -> Vec<u8> {
        let mut capture = Self::new(format, link, snaplen);
        packets.iter().for_each(|packet| capture.push(packet));
        capture.bytes
    }
}

/// A pcapng block.
pub fn block(kind: u32, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &length, content, &length].concat()
}
