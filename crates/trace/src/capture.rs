//! Reading captures: pcap and pcapng, packet by packet, in bounded memory. The formats are the
//! crate pcap-parser's business; what is here says clearly what is wrong with a file, and keeps
//! what was read before.

use std::io::{self, Read};

use pcap_parser::{
    Block, InterfaceDescriptionBlock, Linktype, PcapBlockOwned, PcapError, create_reader,
    traits::{PcapNGPacketBlock, PcapReaderIterator},
};
use units::Instant;

use crate::{
    Analyzer,
    blocks::{Needed, STUB_BYTES, stub_of},
    frame::LinkLayer,
    report::FileReport,
};

/// The buffer at first, and the largest it may grow to for a large block.
const BUFFER: usize = 1 << 18;
const LARGEST_BLOCK: usize = 16 << 20;
/// More interfaces than this in a pcapng section are taken as damage.
const INTERFACES: usize = 65_536;
/// Packets between two calls of the progress function.
const PROGRESS: u64 = 8_192;

/// Reads the capture `input` to its end, or to what is wrong with it, into `analyzer`. `progress`
/// is told now and then how many bytes were read. Memory does not depend on the size of the
/// capture.
///
/// The result is also part of the analyzer's report.
pub fn read_capture<R: Read + Send>(
    name: &str,
    input: R,
    analyzer: &mut Analyzer,
    progress: &mut dyn FnMut(u64),
) -> FileReport {
    let mut file = FileReport {
        name: name.to_owned(),
        format: None,
        packets: 0,
        bytes: 0,
        unknown_link: None,
        error: None,
    };
    file.error = read(input, analyzer, &mut file, progress).err();
    progress(file.bytes);
    analyzer.file(file.clone());
    file
}

/// Whether a file that begins with `start` is a capture, or compressed and perhaps one.
pub fn is_capture(start: &[u8]) -> bool {
    const PCAP: [u32; 3] = [0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34];
    let number = start.first_chunk().copied().map(u32::from_le_bytes);
    let is_pcap = |number: u32| PCAP.iter().any(|&pcap| number == pcap || number == pcap.swap_bytes());
    number.is_some_and(|number| is_pcap(number) || number == 0x0a0d_0d0a) || other_format(start).is_some()
}

fn read<R: Read + Send>(
    input: R,
    analyzer: &mut Analyzer,
    file: &mut FileReport,
    progress: &mut dyn FnMut(u64),
) -> Result<(), String> {
    let input = Whole::new(Needed::new(input)).map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory => "is a directory; name the captures in it".to_owned(),
        _ => format!("cannot be read: {error}"),
    })?;
    if let Some(other) = input.other_format() {
        return Err(other.to_owned());
    }
    let mut reader = create_reader(BUFFER, input).map_err(|error| match error {
        PcapError::Eof => "is empty".to_owned(),
        PcapError::ReadError => "cannot be read".to_owned(),
        PcapError::Incomplete(_) => "ends within its header".to_owned(),
        _ => "is neither pcap nor pcapng".to_owned(),
    })?;
    let mut context = Context::default();
    let mut capacity = BUFFER;
    loop {
        let step = match reader.next() {
            Ok((length, block)) => {
                context.block(&block, analyzer, file)?;
                Step::Consumed(length)
            }
            Err(PcapError::Eof) => return Ok(()),
            Err(PcapError::Incomplete(_)) => Step::More,
            Err(PcapError::BufferTooSmall) => Step::Larger,
            Err(PcapError::UnexpectedEof) => return Err(at(file, "ends in the middle of a packet or block")),
            Err(_) => return Err(at(file, "is damaged")),
        };
        match step {
            Step::Consumed(length) => {
                reader.consume(length);
                file.bytes += length as u64;
                if file.packets.is_multiple_of(PROGRESS) {
                    progress(file.bytes);
                }
            }
            Step::More => more(reader.as_mut(), file)?,
            Step::Larger if capacity < LARGEST_BLOCK => {
                capacity *= 2;
                reader.grow(capacity);
            }
            Step::Larger => return Err(at(file, "is damaged: a packet or block claims more than 16 MiB")),
        }
    }
}

enum Step {
    Consumed(usize),
    More,
    Larger,
}

fn at(file: &FileReport, wrong: &str) -> String {
    format!("{wrong}, {} bytes from its start, after {} packets", file.bytes, file.packets)
}

fn more(reader: &mut dyn PcapReaderIterator, file: &FileReport) -> Result<(), String> {
    let before = reader.data().len();
    if reader.refill().is_err() {
        return Err(at(file, "could not be read further"));
    }
    // A block that is complete but wants more than it has would ask for ever.
    if reader.data().len() == before && !reader.reader_exhausted() {
        return Err(at(file, "is damaged: a block contradicts its own length"));
    }
    if reader.reader_exhausted() && before > 0 && reader.data().len() == before {
        return Err(at(file, "ends in the middle of a packet or block"));
    }
    Ok(())
}

/// What the blocks before say about those behind.
#[derive(Default)]
struct Context {
    link: Option<LinkLayer>,
    nanoseconds: bool,
    /// Of the section of a pcapng.
    big_endian: bool,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy)]
struct Interface {
    link: LinkLayer,
    /// Units per second, and seconds to be added.
    resolution: u64,
    offset: i64,
}

impl Context {
    fn block(
        &mut self,
        block: &PcapBlockOwned<'_>,
        analyzer: &mut Analyzer,
        file: &mut FileReport,
    ) -> Result<(), String> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                file.format = Some("pcap");
                self.link = Some(link(header.network));
                self.nanoseconds = header.is_nanosecond_precision();
            }
            PcapBlockOwned::Legacy(packet) => {
                let unit = if self.nanoseconds { 1 } else { 1_000 };
                let nanos = u64::from(packet.ts_sec) * 1_000_000_000 + u64::from(packet.ts_usec) * unit;
                let link = self.link.unwrap_or(LinkLayer::Other(-1));
                feed(analyzer, file, Instant::from_nanos(nanos), link, packet.data, packet.origlen);
            }
            PcapBlockOwned::NG(block) => self.ng_block(block, analyzer, file)?,
        }
        Ok(())
    }

    fn ng_block(
        &mut self,
        block: &Block<'_>,
        analyzer: &mut Analyzer,
        file: &mut FileReport,
    ) -> Result<(), String> {
        match block {
            Block::SectionHeader(section) => {
                file.format = Some("pcapng");
                self.big_endian = section.big_endian();
                self.interfaces.clear();
            }
            Block::InterfaceDescription(interface) => {
                if self.interfaces.len() == INTERFACES {
                    return Err(at(file, "is damaged: more than 65,536 interfaces"));
                }
                let interface = Interface::new(interface, self.big_endian);
                self.interfaces.push(interface.map_err(|wrong| at(file, &wrong))?);
            }
            Block::EnhancedPacket(packet) => {
                let Some(interface) = self.interfaces.get(packet.if_id as usize) else {
                    return Err(at(file, "is damaged: a packet of an interface that was not described"));
                };
                let at = interface.instant((u64::from(packet.ts_high) << 32) | u64::from(packet.ts_low));
                feed(analyzer, file, at, interface.link, packet.packet_data(), packet.origlen);
            }
            Block::SimplePacket(_) => {
                return Err(at(file, "has packets without a time, which cannot be analysed"));
            }
            // Consumed as a stub, read as what it stands for.
            Block::Unknown(block) => {
                let left_out = stub_of(block.data).unwrap_or(STUB_BYTES);
                file.bytes = (file.bytes + left_out).saturating_sub(STUB_BYTES);
            }
            _ => {}
        }
        Ok(())
    }
}

fn feed(
    analyzer: &mut Analyzer,
    file: &mut FileReport,
    at: Instant,
    link: LinkLayer,
    data: &[u8],
    wire: u32,
) {
    file.packets += 1;
    if let LinkLayer::Other(number) = link {
        let count = file.unknown_link.map_or(0, |(_, count)| count);
        file.unknown_link = Some((number, count + 1));
    }
    analyzer.packet(at, link, data, wire);
}

fn link(linktype: Linktype) -> LinkLayer {
    // The upper bits say how long the frame check sequence is.
    LinkLayer::from_number(linktype.0 & 0xffff)
}

impl Interface {
    /// # Errors
    /// When its clock is so fine that 64 bits hold no second.
    fn new(block: &InterfaceDescriptionBlock<'_>, big_endian: bool) -> Result<Self, String> {
        // The crate knows no powers of two (its `ts_resolution` takes them for too large).
        let (base, power) =
            if block.if_tsresol & 0x80 == 0 { (10, block.if_tsresol) } else { (2, block.if_tsresol & 0x7f) };
        let resolution = u64::checked_pow(base, power.into())
            .ok_or_else(|| format!("is damaged: an interface counts time in units of {base}^-{power} s"))?;
        // The crate takes it for little-endian in every section.
        let offset = if big_endian { block.ts_offset().swap_bytes() } else { block.ts_offset() };
        Ok(Self { link: link(block.linktype), resolution, offset })
    }

    fn instant(&self, units: u64) -> Instant {
        let nanos = match self.resolution {
            1_000_000 => units.saturating_mul(1_000),
            1_000_000_000 => units,
            resolution => {
                let nanos = u128::from(units) * 1_000_000_000 / u128::from(resolution);
                u64::try_from(nanos).unwrap_or(u64::MAX)
            }
        };
        let offset = self.offset.saturating_mul(1_000_000_000);
        Instant::from_nanos(nanos.saturating_add_signed(offset))
    }
}

/// Reads as much as there is room for, so that a pipe's short reads are no different from a file's,
/// and knows how the input began.
struct Whole<R> {
    start: Vec<u8>,
    given: usize,
    input: R,
}

impl<R: Read> Whole<R> {
    fn new(mut input: R) -> io::Result<Self> {
        let mut start = vec![0; 6];
        let length = fill(&mut input, &mut start)?;
        start.truncate(length);
        Ok(Self { start, given: 0, input })
    }

    fn other_format(&self) -> Option<&'static str> {
        other_format(&self.start)
    }
}

/// What to do with files that are often mistaken for captures.
fn other_format(start: &[u8]) -> Option<&'static str> {
    match start {
        [0x1f, 0x8b, ..] => {
            Some("is compressed; decompress it first: gunzip -c FILE | mendpath trace analyze -")
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Some("is compressed; decompress it first: zstd -dc FILE | mendpath trace analyze -")
        }
        [0xfd, b'7', b'z', b'X', b'Z', ..] => {
            Some("is compressed; decompress it first: xz -dc FILE | mendpath trace analyze -")
        }
        [0x04, 0x22, 0x4d, 0x18, ..] => {
            Some("is compressed; decompress it first: lz4 -dc FILE | mendpath trace analyze -")
        }
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => {
            Some("is compressed; decompress it first: bzip2 -dc FILE | mendpath trace analyze -")
        }
        [b'P', b'K', 0x03, 0x04, ..] => {
            Some("is an archive; unpack it first: unzip -p FILE | mendpath trace analyze -")
        }
        [b's', b'n', b'o', b'o', b'p', ..] => {
            Some("is a snoop capture; convert it first: editcap -F pcapng FILE out.pcapng")
        }
        _ => None,
    }
}

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = &self.start[self.given..];
        let given = left.len().min(out.len());
        out[..given].copy_from_slice(&left[..given]);
        self.given += given;
        Ok(given + fill(&mut self.input, &mut out[given..])?)
    }
}

fn fill(input: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < out.len() {
        match input.read(&mut out[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if filled == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(filled)
}
