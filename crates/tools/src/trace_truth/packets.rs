//! What must be known of every packet of a capture to find it again in another: little-endian pcap
//! with nanoseconds, as tcpdump writes it here, of IPv4 and TCP.

use std::{fs, io, path::Path};

/// A TCP packet of a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Captured {
    /// In ns of Unix time.
    pub at: u64,
    pub ports: (u16, u16),
    pub id: u16,
    pub seq: u32,
}

/// All TCP packets of the capture `file`.
pub fn read(file: &Path) -> io::Result<Vec<Captured>> {
    let bytes = fs::read(file)?;
    let word = |at: usize| bytes.get(at..at + 4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]));
    if word(0) != Some(0xa1b2_3c4d) {
        return Err(io::Error::other("tcpdump wrote another format than it was asked for"));
    }
    let link = if word(20) == Some(1) { 14 } else { 0 }; // Ethernet or raw IP
    let (mut at, mut found) = (24, Vec::new());
    while let (Some(seconds), Some(nanos), Some(kept)) = (word(at), word(at + 4), word(at + 8)) {
        let from = at + 16 + link;
        at += 16 + kept as usize;
        let Some(packet) = bytes.get(from..at) else { break };
        if let Some(captured) = parse(packet) {
            found.push(Captured { at: u64::from(seconds) * 1_000_000_000 + u64::from(nanos), ..captured });
        }
    }
    Ok(found)
}

fn parse(ip: &[u8]) -> Option<Captured> {
    if ip.len() < 40 || ip[0] >> 4 != 4 || ip[9] != 6 {
        return None;
    }
    let tcp = ip.get(usize::from(ip[0] & 15) * 4..)?;
    let half = |at: usize| Some(u16::from_be_bytes([*tcp.get(at)?, *tcp.get(at + 1)?]));
    let seq = u32::from(half(4)?) << 16 | u32::from(half(6)?);
    Some(Captured { at: 0, ports: (half(0)?, half(2)?), id: u16::from_be_bytes([ip[4], ip[5]]), seq })
}
