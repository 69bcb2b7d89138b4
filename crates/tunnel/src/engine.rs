//! Decides what becomes of every packet.

use std::net::{IpAddr, SocketAddr};

use units::Instant;

use crate::{
    Action, Counters, Dropped, Echo, FlowId, Refusal, UdpPacket, checksum,
    flows::{Ends, Flows, Gone, State},
    packet::{self, ACK, FIN, ICMP, ICMPV6, Packet, RST, SYN, TCP, Tcp, UDP},
    replies, rewrite,
};

/// The port of DNS, the one service of the peer.
const DNS: u16 = 53;
/// Headers of a SYN, options and all: 60 bytes each of IPv4 and TCP, or more with extension
/// headers.
const LONGEST_SYN: usize = 256;

/// Of how many flows one may be half open, and how many may be in any case.
const HALF_OPEN: usize = 8;
const LEAST_HALF_OPEN: usize = 8;

/// The two ends of the device, for one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The device's own address, which is the kernel's.
    pub device: IpAddr,
    /// The address behind it, which is nobody's: the engine seems to be there.
    pub peer: IpAddr,
    /// The port of [`device`](Self::device) on which the kernel listens for connections that were
    /// granted.
    pub listener: u16,
}

/// How an engine is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// For IPv4.
    pub v4: Addresses,
    /// For IPv6.
    pub v6: Addresses,
    /// TCP flows at a time, 1 to 32,255. An eighth of them, or eight, may be asked for and not open
    /// yet: the oldest goes for a new one, so that a flood of SYNs keeps nobody out.
    pub most_flows: usize,
}

/// The engine. Whoever owns it reads the device, calls [`handle`](Self::handle), and does what it
/// says.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    flows: Flows,
    counters: Counters,
    /// Who had to go for the latest flow, until somebody asks.
    displaced: Option<FlowId>,
}

impl Engine {
    /// An engine without flows.
    pub fn new(config: Config) -> Self {
        let flows = Flows::new(config.most_flows, (config.most_flows / HALF_OPEN).max(LEAST_HALF_OPEN));
        Self { config, flows, counters: Counters::default(), displaced: None }
    }

    /// Counts of everything so far.
    pub fn counters(&self) -> Counters {
        let mut counters = self.counters;
        counters.flows = self.flows.len();
        counters
    }

    /// Takes a packet that was read from the device. It may be rewritten in place.
    pub fn handle(&mut self, bytes: &mut [u8], now: Instant) -> Action {
        self.counters.packets += 1;
        self.counters.bytes += bytes.len() as u64;
        let action = self.judge(bytes, now).unwrap_or_else(Action::Drop);
        match action {
            Action::Drop(reason) => self.counters.drop(reason),
            Action::Write(_) => self.counters.rewritten += 1,
            Action::Cancel { write, .. } => self.counters.rewritten += u64::from(write > 0),
            Action::Reply(_) => self.counters.replies += 1,
            Action::Connect { .. } => self.counters.asked += 1,
            Action::Udp(_) | Action::Echo(_) => {}
        }
        action
    }

    fn judge(&mut self, bytes: &mut [u8], now: Instant) -> Result<Action, Dropped> {
        let packet = Packet::read(bytes)?;
        let addresses = *self.addresses(packet.source);
        if packet.source == addresses.peer || packet.destination == addresses.device {
            return Err(Dropped::Loop);
        }
        if !is_host(packet.source) || !is_host(packet.destination) {
            return Err(Dropped::Address);
        }
        match packet.protocol {
            TCP => self.tcp(bytes, &packet, &addresses, now),
            UDP => udp(bytes, &packet, &addresses),
            ICMP | ICMPV6 => echo(bytes, &packet),
            _ => {
                self.counters.drop(Dropped::Protocol);
                Ok(Action::Reply(replies::unreachable(bytes, &packet, Refusal::Prohibited, addresses.peer)))
            }
        }
    }

    fn addresses(&self, ip: IpAddr) -> &Addresses {
        if ip.is_ipv4() { &self.config.v4 } else { &self.config.v6 }
    }

    fn tcp(
        &mut self,
        bytes: &mut [u8],
        packet: &Packet,
        addresses: &Addresses,
        now: Instant,
    ) -> Result<Action, Dropped> {
        let tcp = packet.tcp(bytes)?;
        let (source, destination) = replies::ends(packet, &tcp);
        if source == SocketAddr::new(addresses.device, addresses.listener)
            && destination.ip() == addresses.peer
        {
            return self.listener_says(bytes, packet, &tcp, now);
        }
        if tcp.flags & SYN != 0 && tcp.flags & (FIN | RST) != 0 {
            return Err(Dropped::Malformed);
        }
        let ends = Ends { program: source, remote: destination };
        match self.flows.port_of(&ends) {
            Some(port) => self.of_flow(bytes, packet, &tcp, port, now),
            None if tcp.flags & (SYN | ACK) == SYN => self.begin(bytes, packet, &tcp, ends, now),
            None => self.of_none(packet, &tcp),
        }
    }

    /// From the kernel's listener: to the program, in the name of the destination.
    fn listener_says(
        &mut self,
        bytes: &mut [u8],
        packet: &Packet,
        tcp: &Tcp,
        now: Instant,
    ) -> Result<Action, Dropped> {
        match self.flows.by_port(tcp.destination) {
            Some(flow) if !matches!(flow.state, State::Asking { .. }) => {
                rewrite::tcp(bytes, packet, flow.ends.remote, flow.ends.program);
                self.flows.passes(tcp.destination, now);
                Ok(Action::Write(packet.end))
            }
            _ => self.of_none(packet, tcp),
        }
    }

    /// From a program, of a flow that is known: to the listener, in the name of the peer.
    fn of_flow(
        &mut self,
        bytes: &mut [u8],
        packet: &Packet,
        tcp: &Tcp,
        port: u16,
        now: Instant,
    ) -> Result<Action, Dropped> {
        let begins = tcp.flags & (SYN | ACK) == SYN;
        let addresses = *self.addresses(packet.source);
        let Some(flow) = self.flows.by_port(port) else { return Err(Dropped::Unknown) };
        let (ends, id) = (flow.ends, FlowId { port, number: flow.number });
        match &flow.state {
            State::Closing if begins => {
                self.flows.remove_port(port);
                return self.begin(bytes, packet, tcp, ends, now);
            }
            State::Asking { .. } if tcp.flags & RST != 0 => {
                self.flows.remove_port(port);
                return Ok(Action::Cancel { id, write: 0 });
            }
            State::Asking { .. } if begins => {
                // The last one counts: its number is what the program expects an answer to.
                self.flows.hold(port, held(bytes, packet, tcp)?);
                return Err(Dropped::Repeated);
            }
            State::Asking { .. } => return Err(Dropped::Unknown),
            _ => {}
        }
        rewrite::tcp(
            bytes,
            packet,
            SocketAddr::new(addresses.peer, port),
            SocketAddr::new(addresses.device, addresses.listener),
        );
        if tcp.flags & RST != 0 && flow.state == State::Opening {
            self.flows.enter(port, State::Closing, now);
            return Ok(Action::Cancel { id, write: packet.end });
        }
        self.flows.passes(port, now);
        Ok(Action::Write(packet.end))
    }

    fn begin(
        &mut self,
        bytes: &[u8],
        packet: &Packet,
        tcp: &Tcp,
        ends: Ends,
        now: Instant,
    ) -> Result<Action, Dropped> {
        let addresses = *self.addresses(packet.source);
        if ends.remote.ip() == addresses.peer && ends.remote.port() != DNS {
            return Ok(Action::Reply(replies::reset(packet, tcp)));
        }
        if ends.remote.port() == 0 || ends.program.port() == 0 {
            return Err(Dropped::Malformed);
        }
        let syn = held(bytes, packet, tcp)?;
        let (id, gone) = self.flows.begin(ends, syn, now).ok_or(Dropped::Full)?;
        self.counters.forgotten += u64::from(gone.is_some());
        self.displaced = match gone {
            Some(Gone::HalfOpen(id)) => Some(id),
            _ => None,
        };
        Ok(Action::Connect { id, program: ends.program, remote: ends.remote })
    }

    /// The flow, asked for and not open yet, that had to go for the one of the latest
    /// [`Connect`](Action::Connect): nobody need wait for it any more.
    pub fn displaced(&mut self) -> Option<FlowId> {
        self.displaced.take()
    }

    /// Of a connection from before the tunnel, or one that was forgotten: its owner should know.
    fn of_none(&mut self, packet: &Packet, tcp: &Tcp) -> Result<Action, Dropped> {
        if tcp.flags & RST != 0 {
            return Err(Dropped::Unknown);
        }
        self.counters.drop(Dropped::Unknown);
        Ok(Action::Reply(replies::reset(packet, tcp)))
    }

    /// The destination has answered: the packet to write to the device, for the listener. `None`
    /// if the program has given up.
    pub fn grant(&mut self, id: FlowId, now: Instant) -> Option<Vec<u8>> {
        if !matches!(self.flows.get(id)?.state, State::Asking { .. }) {
            return None;
        }
        let State::Asking { mut syn } = self.flows.enter(id.port, State::Opening, now)? else { return None };
        let addresses = *self.addresses(Packet::read(&syn).ok()?.source);
        let packet = Packet::read(&syn).ok()?;
        let peer = SocketAddr::new(addresses.peer, id.port);
        rewrite::tcp(&mut syn, &packet, peer, SocketAddr::new(addresses.device, addresses.listener));
        self.counters.granted += 1;
        self.counters.rewritten += 1;
        Some(syn)
    }

    /// There will be no connection: the packet to write to the device, for the program. `None` if
    /// it has given up.
    pub fn refuse(&mut self, id: FlowId, refusal: Refusal) -> Option<Vec<u8>> {
        if !matches!(self.flows.get(id)?.state, State::Asking { .. }) {
            return None;
        }
        let flow = self.flows.remove(id)?;
        let State::Asking { syn } = flow.state else { return None };
        self.counters.refused += 1;
        self.counters.replies += 1;
        replies::refusal(&syn, refusal, self.addresses(flow.ends.program.ip()).peer)
    }

    /// The listener has accepted a connection whose other end is `from`: whose it is, or `None` if
    /// it is none of the engine's and must be closed.
    pub fn accepted(&mut self, from: SocketAddr, now: Instant) -> Option<FlowId> {
        if from.ip() != self.addresses(from.ip()).peer {
            return None;
        }
        let flow = self.flows.by_port(from.port())?;
        if flow.state != State::Opening {
            return None;
        }
        let id = FlowId { port: from.port(), number: flow.number };
        self.flows.enter(id.port, State::Open, now);
        Some(id)
    }

    /// Whoever carried a connection is done with it; its last packets still pass.
    pub fn closed(&mut self, id: FlowId, now: Instant) {
        match self.flows.get(id).map(|flow| &flow.state) {
            None | Some(State::Closing) => {}
            Some(State::Asking { .. }) => _ = self.flows.remove(id),
            Some(_) => _ = self.flows.enter(id.port, State::Closing, now),
        }
    }

    /// An ICMP error to the sender of `bytes`, which this engine has handled and not rewritten.
    pub fn unreachable(&mut self, bytes: &[u8], refusal: Refusal) -> Option<Vec<u8>> {
        let packet = Packet::read(bytes).ok()?;
        self.counters.replies += 1;
        Some(replies::unreachable(bytes, &packet, refusal, self.addresses(packet.source).peer))
    }

    /// Forgets what has ended; call it about once a second. Returns the flows whose handshake with
    /// the listener did not come to an end: nobody need wait for them.
    pub fn expire(&mut self, now: Instant) -> Vec<FlowId> {
        let in_vain = self.flows.expire(now);
        self.counters.forgotten += in_vain.len() as u64;
        in_vain
    }
}

/// A SYN as it is held: without data, which the program sends again.
fn held(bytes: &[u8], packet: &Packet, tcp: &Tcp) -> Result<Vec<u8>, Dropped> {
    let headers = packet.transport + tcp.header;
    if headers > LONGEST_SYN {
        return Err(Dropped::Malformed);
    }
    let segment = packet.segment(bytes);
    let pseudo = |length| checksum::pseudo_header(packet.source, packet.destination, TCP, length);
    if checksum::fold(checksum::sum(segment) + pseudo(segment.len())) != 0xffff {
        return Err(Dropped::Checksum);
    }
    let mut syn = bytes[..headers].to_vec();
    if headers < packet.end {
        cut_to_length(&mut syn);
        let segment = &mut syn[packet.transport..];
        segment[16..18].fill(0);
        let checksum = !checksum::fold(checksum::sum(segment) + pseudo(segment.len()));
        segment[16..18].copy_from_slice(&checksum.to_be_bytes());
    }
    Ok(syn)
}

/// Makes the length in an IP header that of the packet.
fn cut_to_length(packet: &mut [u8]) {
    let length = packet.len();
    if packet[0] >> 4 == 4 {
        let new = (length as u16).to_be_bytes();
        let change = checksum::change(&packet[2..4], &new);
        packet[2..4].copy_from_slice(&new);
        checksum::adjust(&mut packet[10..12], change);
    } else {
        packet[4..6].copy_from_slice(&(length as u16 - 40).to_be_bytes());
    }
}

/// RFC 768, RFC 8200 section 8.1.
fn udp(bytes: &[u8], packet: &Packet, addresses: &Addresses) -> Result<Action, Dropped> {
    let segment = packet.segment(bytes);
    let header: &[u8; 8] = segment.first_chunk().ok_or(Dropped::Malformed)?;
    let length = usize::from(packet::be16(header, 4));
    if length < header.len() {
        return Err(Dropped::Malformed);
    }
    let segment = segment.get(..length).ok_or(Dropped::Malformed)?;
    let none = packet::be16(header, 6) == 0 && packet.source.is_ipv4();
    let pseudo = checksum::pseudo_header(packet.source, packet.destination, UDP, length);
    if !none && checksum::fold(checksum::sum(segment) + pseudo) != 0xffff {
        return Err(Dropped::Checksum);
    }
    let program = SocketAddr::new(packet.source, packet::be16(header, 0));
    let remote = SocketAddr::new(packet.destination, packet::be16(header, 2));
    if program.port() == 0 || remote.port() == 0 {
        return Err(Dropped::Malformed);
    }
    if remote.ip() == addresses.peer && remote.port() != DNS {
        return Ok(Action::Reply(replies::unreachable(bytes, packet, Refusal::Refused, addresses.peer)));
    }
    let payload = packet.transport + 8..packet.transport + length;
    Ok(Action::Udp(UdpPacket { program, remote, payload }))
}

/// RFC 792, RFC 4443 section 4.1.
fn echo(bytes: &[u8], packet: &Packet) -> Result<Action, Dropped> {
    let message = packet.segment(bytes);
    let header: &[u8; 8] = message.first_chunk().ok_or(Dropped::Malformed)?;
    let pseudo = match (packet.source, packet.protocol) {
        (IpAddr::V4(_), ICMP) if header[..2] == [8, 0] => 0,
        (IpAddr::V6(_), ICMPV6) if header[..2] == [128, 0] => {
            checksum::pseudo_header(packet.source, packet.destination, ICMPV6, message.len())
        }
        _ => return Err(Dropped::Protocol),
    };
    if checksum::fold(checksum::sum(message) + pseudo) != 0xffff {
        return Err(Dropped::Checksum);
    }
    Ok(Action::Echo(Echo {
        program: SocketAddr::new(packet.source, 0),
        remote: SocketAddr::new(packet.destination, 0),
        identifier: packet::be16(header, 4),
        sequence: packet::be16(header, 6),
        payload: packet.transport + 8..packet.end,
    }))
}

/// Whether an address may be one end of a packet through the tunnel.
fn is_host(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || ip.is_broadcast())
        }
        IpAddr::V6(ip) => {
            !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || ip.is_unicast_link_local())
        }
    }
}

#[cfg(test)]
mod tests;
