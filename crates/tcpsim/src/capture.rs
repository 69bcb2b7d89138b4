//! A port's packets as a pcapng file that Wireshark opens: IPv4 and TCP headers without payload.
//!
//! Hosts are 10.0.0.0 plus their number. Ports stand for the label, so every sub-flow is a TCP
//! stream of its own. Sequence numbers are segment numbers times the MSS; a segment that is shorter
//! leaves a gap, since the model counts segments. SACK blocks are there, although a packet's
//! modelled size does not count them.

use std::{
    borrow::Cow,
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use etherparse::{PacketBuilder, TcpOptionElement};
use netsim::fabric::{Ecn, Packet, Tap};
use pcap_file::{
    DataLink, PcapError,
    pcapng::{
        PcapNgWriter,
        blocks::{
            enhanced_packet::EnhancedPacketBlock,
            interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption},
        },
    },
};
use thiserror::Error;
use units::Instant;

use crate::segment::{CWR, ECE, Kind, PSH, Segment};

/// Most packets that one capture keeps; later ones are counted, not written.
pub const MAX_PACKETS: u64 = 10_000_000;

/// Why a capture could not begin.
#[derive(Debug, Error)]
#[error("the capture's head could not be written: {0}")]
pub struct CaptureError(#[from] PcapError);

/// How a capture goes. Clones count together.
#[derive(Clone, Default, Debug)]
pub struct Captured {
    written: Arc<AtomicU64>,
    left_out: Arc<AtomicU64>,
}

impl Captured {
    /// Packets written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Packets left out, because of [`MAX_PACKETS`] or because the writer failed.
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }
}

/// A tap that writes to `writer`.
pub(crate) fn tap(
    writer: impl Write + Send + 'static,
    mss: u16,
) -> Result<(Tap<Segment>, Captured), CaptureError> {
    let mut file = PcapNgWriter::new(writer)?;
    file.write_pcapng_block(InterfaceDescriptionBlock {
        linktype: DataLink::RAW,
        snaplen: 0,
        options: vec![InterfaceDescriptionOption::IfTsResol(9)],
    })?;
    let captured = Captured::default();
    let counts = captured.clone();
    let tap = move |at: Instant, packet: &Packet<Segment>| {
        let data = if counts.written() < MAX_PACKETS { headers(packet, mss) } else { None };
        let block = data.map(|data| EnhancedPacketBlock {
            interface_id: 0,
            timestamp: core::time::Duration::from_nanos(at.as_nanos()),
            original_len: packet.size.max(data.len() as u32),
            data: Cow::Owned(data),
            options: Vec::new(),
        });
        match block.map(|block| file.write_pcapng_block(block)) {
            Some(Ok(_)) => counts.written.fetch_add(1, Ordering::Relaxed),
            _ => counts.left_out.fetch_add(1, Ordering::Relaxed),
        };
    };
    Ok((Box::new(tap), captured))
}

/// The sender's and the receiver's port of a label.
fn ports(label: u32) -> (u16, u16) {
    (0x8000 | (label & 0x7fff) as u16, 0x1000 | (label >> 15 & 0x0fff) as u16)
}

/// The IPv4 and TCP headers of a packet.
fn headers(packet: &Packet<Segment>, mss: u16) -> Option<Vec<u8>> {
    let segment = &packet.body;
    let data = matches!(segment.kind, Kind::Data | Kind::Extra);
    let (sender, receiver) = ports(packet.label);
    let (from, to) = if data || segment.kind == Kind::Syn { (sender, receiver) } else { (receiver, sender) };
    let address = |host: u32| (0x0a00_0000 | host).to_be_bytes();
    let bytes = segment.seq.wrapping_mul(u32::from(mss)).wrapping_add(1);
    let number = match segment.kind {
        Kind::Data | Kind::Extra => bytes,
        Kind::Syn | Kind::SynAck => 0,
        Kind::Ack | Kind::Foreign => 1,
    };
    let mut tcp =
        PacketBuilder::ipv4(address(packet.src.0), address(packet.dst.0), 64).tcp(from, to, number, u16::MAX);
    match segment.kind {
        Kind::Data | Kind::Extra => tcp = tcp.ack(1),
        Kind::Ack => tcp = tcp.ack(bytes),
        Kind::Syn => tcp = tcp.syn(),
        Kind::SynAck => tcp = tcp.syn().ack(1),
        Kind::Foreign => return None, // no TCP
    }
    if segment.has(PSH) {
        tcp = tcp.psh();
    }
    if segment.has(ECE) {
        tcp = tcp.ece();
    }
    if segment.has(CWR) {
        tcp = tcp.cwr();
    }
    let blocks: Vec<(u32, u32)> = segment
        .sack_blocks()
        .map(|(a, b)| {
            (a.wrapping_mul(mss.into()).wrapping_add(1), b.wrapping_mul(mss.into()).wrapping_add(1))
        })
        .collect();
    if let Some((first, more)) = blocks.split_first() {
        let rest = [more.first().copied(), more.get(1).copied(), None];
        tcp = tcp.options(&[TcpOptionElement::SelectiveAcknowledgement(*first, rest)]).ok()?;
    }
    let payload = if data { usize::from(segment.payload) } else { 0 };
    let mut bytes = Vec::with_capacity(tcp.size(payload));
    tcp.write(&mut bytes, &vec![0; payload]).ok()?;
    bytes.truncate(bytes.len() - payload);
    if packet.ecn != Ecn::NotCapable {
        bytes[1] |= if packet.ecn == Ecn::Marked { 3 } else { 2 };
        checksum(&mut bytes);
    }
    Some(bytes)
}

/// The IPv4 header's checksum (RFC 791), since the ECN field was set behind the builder's back.
fn checksum(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let words = packet[..20].chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum = words.sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = !((folded & 0xffff) + (folded >> 16)) as u16;
    packet[10..12].copy_from_slice(&folded.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use netsim::{
        Loss,
        fabric::{Failure, Fault, LinkId, Options, topology::Dumbbell},
    };
    use pcap_file::pcapng::{Block, PcapNgReader};
    use units::{BitRate, Duration};

    use super::*;
    use crate::{Profile, Sim, Tcp};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn both_directions_of_a_flow_can_be_read_back() {
        let topology = Dumbbell::new(1, BitRate::from_mbps(100), Duration::from_millis(1), 100).build();
        let loss = Loss::nth([3]);
        let failure = Failure::Loss { loss, data_only: true, before_rate: false };
        let faults = vec![Fault::both(Dumbbell::BOTTLENECK, failure)];
        let mut sim = Sim::new(&topology, &Options { faults, ..Options::default() }).unwrap();
        let tcp = sim.add_profile(Profile::tcp(Tcp { ecn: true, ..Tcp::default() }));
        let (there, back) = (Shared::default(), Shared::default());
        let counts = sim.capture(LinkId(0).forward(), there.clone(), 1_460).unwrap();
        sim.capture(LinkId(0).backward(), back.clone(), 1_460).unwrap();
        sim.add_flow(tcp, 0, 1, 10_000, Instant::ORIGIN).unwrap();
        sim.run_until_done(Instant::MAX).unwrap();
        assert_eq!((counts.written(), counts.left_out()), (8, 0));

        let mut seen = Vec::new();
        for file in [there, back] {
            let bytes = file.0.lock().unwrap().clone();
            let mut reader = PcapNgReader::new(bytes.as_slice()).unwrap();
            while let Some(block) = reader.next_block() {
                let Block::EnhancedPacket(packet) = block.unwrap() else { continue };
                let word = |at: usize| u32::from_be_bytes(packet.data[at..at + 4].try_into().unwrap());
                let header =
                    packet.data[..20].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
                assert_eq!(header.sum::<u32>() % 0xffff, 0, "the IPv4 checksum");
                let (sequence, acknowledgment, options) = (word(24), word(28), packet.data.len() - 40);
                seen.push((sequence, acknowledgment, options));
            }
        }
        assert_eq!(seen.len(), 8 + 7); // seven segments and a retransmission; seven arrived
        assert!(seen.contains(&(1 + 3 * 1_460, 1, 0)));
        assert!(seen.iter().any(|(_, ack, options)| *ack == 1 + 3 * 1_460 && *options > 0)); // SACKs
    }
}
