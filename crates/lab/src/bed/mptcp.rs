//! The kernel's MPTCP path manager: from which addresses it opens sub-flows, and how many really
//! were.
//!
//! Message layout: include/uapi/linux/mptcp_pm.h (Documentation/netlink/specs/mptcp_pm.yaml of the
//! kernel).

use std::{io, net::Ipv4Addr};

use netlink_packet_core::{
    DefaultNla, Emitable, NLM_F_ACK, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_packet_generic::{
    GenlFamily, GenlMessage,
    ctrl::{GenlCtrl, GenlCtrlCmd, nlas::GenlCtrlAttrs},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};

use crate::LabError;

const ADD_ADDRESS: u8 = 1;
const SET_LIMITS: u8 = 5;

const ATTR_ADDRESS: u16 = 1;
const ATTR_RECEIVED_ADDRESSES: u16 = 2;
const ATTR_SUBFLOWS: u16 = 3;
const NESTED: u16 = 1 << 15;

const ADDRESS_FAMILY: u16 = 1;
const ADDRESS_IPV4: u16 = 3;
const ADDRESS_FLAGS: u16 = 6;
/// Opens a sub-flow from this address.
const FLAG_SUBFLOW: u32 = 1 << 1;

const AF_INET: u16 = 2;
/// The kernel's own limit (MPTCP_PM_ADDR_MAX).
const MOST_SUBFLOWS: u32 = 8;

/// Lets connections have as many sub-flows as the kernel allows, opened from each of `addresses`.
/// Where the kernel has no MPTCP nothing happens: the contender will say so.
pub(super) fn prepare(addresses: impl IntoIterator<Item = Ipv4Addr>) -> Result<(), LabError> {
    let wrong = || LabError::system("set up the kernel's MPTCP path manager");
    let mut socket = open().map_err(wrong())?;
    let Some(family) = family(&mut socket).map_err(wrong())? else { return Ok(()) };
    let limits = [ATTR_RECEIVED_ADDRESSES, ATTR_SUBFLOWS]
        .map(|kind| DefaultNla::new(kind, MOST_SUBFLOWS.to_ne_bytes().to_vec()));
    request(&mut socket, family, SET_LIMITS, limits.to_vec()).map_err(wrong())?;
    for address in addresses {
        let endpoint = [
            DefaultNla::new(ADDRESS_FAMILY, AF_INET.to_ne_bytes().to_vec()),
            DefaultNla::new(ADDRESS_IPV4, address.octets().to_vec()),
            DefaultNla::new(ADDRESS_FLAGS, FLAG_SUBFLOW.to_ne_bytes().to_vec()),
        ];
        let mut nested = vec![0; endpoint.as_slice().buffer_len()];
        endpoint.as_slice().emit(&mut nested);
        let attributes = vec![DefaultNla::new(ATTR_ADDRESS | NESTED, nested)];
        request(&mut socket, family, ADD_ADDRESS, attributes).map_err(wrong())?;
    }
    Ok(())
}

/// What the server's kernel counted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct MptcpCounters {
    /// Connections that began as MPTCP (MPCapableSYNRX).
    pub(crate) connections: u64,
    /// Further sub-flows that completed their handshake (MPJoinAckRx).
    pub(crate) joins: u64,
    /// Connections that fell back to plain TCP (MPCapableFallbackACK).
    pub(crate) fallbacks: u64,
}

/// Reads the counters of the calling thread's namespace.
pub(crate) fn counters() -> MptcpCounters {
    parse(&std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap_or_default())
}

/// Pairs of lines: names, then values.
fn parse(netstat: &str) -> MptcpCounters {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("MPTcpExt:"));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let value = |wanted: &str| {
        let mut pairs = names.split_whitespace().zip(values.split_whitespace());
        pairs.find(|(name, _)| *name == wanted).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
    };
    MptcpCounters {
        connections: value("MPCapableSYNRX"),
        joins: value("MPJoinAckRx"),
        fallbacks: value("MPCapableFallbackACK"),
    }
}

#[derive(Clone, Debug)]
struct PathManager {
    command: u8,
    attributes: Vec<DefaultNla>,
}

impl GenlFamily for PathManager {
    fn family_name() -> &'static str {
        "mptcp_pm"
    }

    fn command(&self) -> u8 {
        self.command
    }

    fn version(&self) -> u8 {
        1
    }
}

impl Emitable for PathManager {
    fn buffer_len(&self) -> usize {
        self.attributes.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.attributes.as_slice().emit(buffer);
    }
}

fn open() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_GENERIC)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    Ok(socket)
}

/// The number that this kernel gave the path manager; `None` without MPTCP.
fn family(socket: &mut Socket) -> io::Result<Option<u16>> {
    let name = GenlCtrlAttrs::FamilyName(PathManager::family_name().to_owned());
    let message = GenlMessage::from_payload(GenlCtrl { cmd: GenlCtrlCmd::GetFamily, nlas: vec![name] });
    Ok(match exchange(socket, message, NLM_F_REQUEST)? {
        NetlinkPayload::InnerMessage(answer) => {
            answer.payload.nlas.iter().find_map(|attribute| match attribute {
                GenlCtrlAttrs::FamilyId(id) => Some(*id),
                _ => None,
            })
        }
        _ => None,
    })
}

fn request(socket: &mut Socket, family: u16, command: u8, attributes: Vec<DefaultNla>) -> io::Result<()> {
    let mut message = GenlMessage::from_payload(PathManager { command, attributes });
    message.set_resolved_family_id(family);
    match exchange(socket, message, NLM_F_REQUEST | NLM_F_ACK)? {
        NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
        _ => Ok(()),
    }
}

/// Sends a request and reads the first message of the answer.
fn exchange<F>(
    socket: &mut Socket,
    message: GenlMessage<F>,
    flags: u16,
) -> io::Result<NetlinkPayload<GenlMessage<GenlCtrl>>>
where
    GenlMessage<F>: NetlinkSerializable,
    F: GenlFamily + Emitable + Clone + std::fmt::Debug,
{
    let mut message = message;
    message.finalize();
    let mut message = NetlinkMessage::from(message);
    message.header.flags = flags;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    NetlinkMessage::<GenlMessage<GenlCtrl>>::deserialize(&answer)
        .map(|answer| answer.payload)
        .map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let text = "TcpExt: SyncookiesSent\nTcpExt: 3\nMPTcpExt: MPCapableSYNRX MPJoinAckRx Other\nMPTcpExt: 7 5 1\n";
        assert_eq!(parse(text), MptcpCounters { connections: 7, joins: 5, fallbacks: 0 });
        assert_eq!(parse(""), MptcpCounters::default());
    }
}
