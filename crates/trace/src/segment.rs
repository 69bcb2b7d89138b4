//! A TCP segment's header as the analysis needs it.

use std::{fmt, net::IpAddr};

/// The flags byte of a TCP header.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push: the end of what the application wrote.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement number counts.
    pub const ACK: Self = Self(0x10);

    /// Whether any of `flags` is set.
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// SYN or FIN, which take a sequence number of their own.
    pub(crate) const OCCUPIES: Self = Self(Self::SYN.0 | Self::FIN.0);
    /// SYN, FIN or RST.
    pub(crate) const CONTROL: Self = Self(Self::SYN.0 | Self::FIN.0 | Self::RST.0);
}

impl fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(u8, &str); 8] = [
            (0x02, "SYN"),
            (0x01, "FIN"),
            (0x04, "RST"),
            (0x08, "PSH"),
            (0x20, "URG"),
            (0x40, "ECE"),
            (0x80, "CWR"),
            (0x10, "ACK"),
        ];
        let mut gap = "";
        for (_, name) in NAMES.iter().filter(|(bit, _)| self.0 & bit != 0) {
            write!(f, "{gap}{name}")?;
            gap = " ";
        }
        if self.0 == 0 { f.write_str("none") } else { Ok(()) }
    }
}

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Endpoint {
    /// Address.
    pub address: IpAddr,
    /// TCP port.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            IpAddr::V4(address) => write!(f, "{address}:{}", self.port),
            IpAddr::V6(address) => write!(f, "[{address}]:{}", self.port),
        }
    }
}

/// Both ends of a connection, the smaller first, so that both directions have the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pair {
    pub(crate) ends: [Endpoint; 2],
}

/// The timestamps option (RFC 7323).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamps {
    /// The sender's clock.
    pub(crate) value: u32,
    /// The latest of the other side that it echoes.
    pub(crate) echo: u32,
}

/// What a SYN says of the scale of its sender's windows (RFC 7323 section 2).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) enum Scaling {
    /// No SYN was captured, or its options were cut off.
    #[default]
    Unknown,
    /// It has no such option: then nobody's windows are scaled.
    Off,
    /// It has; the shift counts if the other side's has one, too.
    By(u8),
}

/// What a TCP header says, and how much it carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    pub(crate) pair: Pair,
    /// The sender's place in `pair`.
    pub(crate) from: usize,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: TcpFlags,
    /// As in the header, not scaled.
    pub(crate) window: u16,
    /// The window scale option, of which only a SYN's counts.
    pub(crate) scaling: Scaling,
    /// The first block of a SACK option, if it lies below the acknowledgement or within the second
    /// block: the receiver had the data already (RFC 2883 sections 4.1 and 4.2).
    pub(crate) duplicate_sack: Option<(u32, u32)>,
    /// The first block of a SACK option: what came last, if it is above the acknowledgement and had not
    /// come before.
    pub(crate) sack: Option<(u32, u32)>,
    /// A block of a SACK option lies above the acknowledgement: something before it is missing.
    pub(crate) misses: bool,
    /// An option of MPTCP is there.
    pub(crate) multipath: bool,
    /// The timestamps option, if it is there.
    pub(crate) stamps: Option<Stamps>,
    /// Bytes of data, from the lengths in the headers: captures may have cut them off.
    pub(crate) payload: u32,
    /// Bytes of the IP packet.
    pub(crate) bytes: u32,
    /// The low byte of IPv4's identification, which senders change with every packet; 0 without
    /// one.
    pub(crate) ident: u8,
}

impl Segment {
    /// Sequence numbers that the segment takes.
    pub(crate) fn occupied(&self) -> u32 {
        let marks = u32::from(self.flags.has(TcpFlags::SYN)) + u32::from(self.flags.has(TcpFlags::FIN));
        self.payload.saturating_add(marks)
    }

    /// Whether the acknowledgement number counts.
    pub(crate) fn acknowledges(&self) -> bool {
        self.flags.has(TcpFlags::ACK)
    }

    /// Whether the segment would be retransmitted if lost.
    pub(crate) fn occupies(&self) -> bool {
        self.payload > 0 || self.flags.has(TcpFlags::OCCUPIES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_names() {
        assert_eq!(TcpFlags(0x02).to_string(), "SYN");
        assert_eq!(TcpFlags(0x18).to_string(), "PSH ACK");
        assert_eq!(TcpFlags(0).to_string(), "none");
    }
}
