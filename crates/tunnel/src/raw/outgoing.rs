//! The sending end: numbers for the packets of every flow, and what is sent beside them.

use std::collections::{BTreeMap, BTreeSet};

use recovery::slp_odds::LearntOdds;
use units::{Duration, Instant};

use super::{
    coding::{Coding, Copies, Extra, Extras, Network, Sent, Units},
    glance::{self, FlowKey, Glance},
    wire::Body,
};

/// What a sending end may use up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutgoingConfig {
    /// What every datagram begins with: whatever names the tunnel.
    pub prefix: Vec<u8>,
    /// Flows that have numbers; of more, those that were silent longest begin afresh. Default
    /// 4,096.
    pub most_flows: usize,
    /// What is sent beside packets. Default nothing.
    pub coding: Coding,
    /// Bytes that are kept for combinations, of all flows; packets beyond are not combined. Default
    /// 4 MiB.
    pub most_kept: usize,
}

impl Default for OutgoingConfig {
    fn default() -> Self {
        Self { prefix: Vec::new(), most_flows: 4_096, coding: Coding::None, most_kept: 4 << 20 }
    }
}

/// Counts since the beginning, but for the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutgoingCounters {
    /// Packets that came from the device.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Packets of no flow, which have no number.
    pub unnumbered: u64,
    /// Flows that were forgotten because there were too many.
    pub forgotten: u64,
    /// Copies that have left.
    pub copies: u64,
    /// Combinations that have left.
    pub combinations: u64,
    /// Bytes of copies and combinations.
    pub extra_bytes: u64,
    /// Copies and combinations that never left, since too many waited or for too long.
    pub extras_dropped: u64,
    /// Flows at the moment.
    pub flows: usize,
    /// Bytes that are kept for combinations at the moment.
    pub kept_bytes: usize,
}

impl std::ops::AddAssign for OutgoingCounters {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.unnumbered += other.unnumbered;
        self.forgotten += other.forgotten;
        self.copies += other.copies;
        self.combinations += other.combinations;
        self.extra_bytes += other.extra_bytes;
        self.extras_dropped += other.extras_dropped;
        self.flows += other.flows;
        self.kept_bytes += other.kept_bytes;
    }
}

#[derive(Debug)]
struct Flow {
    id: u64,
    next: u64,
    last: Instant,
    copies: Copies,
    units: Units,
    /// When to look whether its unit has ended: not later than it does.
    look: Option<Instant>,
}

/// After so long without a packet a flow is forgotten: before the other end does.
const SILENT: Duration = Duration::from_secs(110);

/// The sending end of one tunnel.
#[derive(Debug, Default)]
pub struct Outgoing {
    config: OutgoingConfig,
    flows: BTreeMap<FlowKey, Flow>,
    next_flow: u64,
    network: Network,
    odds: LearntOdds,
    extras: Extras,
    /// The flows whose units are to be looked at, and when.
    ending: BTreeSet<(Instant, FlowKey)>,
    kept_bytes: usize,
    counters: OutgoingCounters,
}

impl Outgoing {
    /// Nothing was sent yet.
    pub fn new(config: OutgoingConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Counts of everything so far.
    pub fn counters(&self) -> OutgoingCounters {
        OutgoingCounters {
            flows: self.flows.len(),
            extras_dropped: self.extras.dropped,
            kept_bytes: self.kept_bytes,
            ..self.counters
        }
    }

    /// What is known of the paths from now on.
    pub fn set_network(&mut self, network: Network) {
        self.network = network;
    }

    /// Takes a packet from the device, and returns the datagram to send. A packet of more than
    /// `fits` bytes travels in another way than those beside which something is sent.
    pub fn handle(&mut self, packet: &[u8], fits: usize, now: Instant) -> Vec<u8> {
        self.counters.packets += 1;
        self.counters.bytes += packet.len() as u64;
        let Some(key) = glance::flow(packet) else {
            self.counters.unnumbered += 1;
            return self.datagram(&Body::Packet(packet));
        };
        if !self.flows.contains_key(&key) {
            self.make_room();
        }
        let next_flow = &mut self.next_flow;
        let flow = self.flows.entry(key).or_insert_with(|| {
            let id = *next_flow;
            *next_flow += 1;
            Flow { id, next: 0, last: now, copies: Copies::default(), units: Units::default(), look: None }
        });
        let (id, sequence) = (flow.id, flow.next);
        (flow.next, flow.last) = (sequence + 1, now);
        let glance = if self.config.coding == Coding::None || packet.len() > fits {
            None
        } else {
            glance::glance(packet)
        };
        let Some(glance) = glance else {
            return self.datagram(&Body::Sequenced { flow: id, sequence, is_source: false, packet });
        };
        self.protect(key, &glance, packet, sequence, now)
    }

    /// The datagram of a packet, and whatever is sent beside it.
    fn protect(
        &mut self,
        key: FlowKey,
        glance: &Glance,
        packet: &[u8],
        sequence: u64,
        now: Instant,
    ) -> Vec<u8> {
        let Self { config, network, odds, kept_bytes, .. } = self;
        let (coding, network) = (config.coding, *network);
        let Some(flow) = self.flows.get_mut(&key) else { return Vec::new() };
        let id = flow.id;
        let judged = flow.copies.judge(now, glance, packet.len(), &network, coding.copies(), odds);
        // SYN and FIN are no data.
        let data = match glance {
            Glance::Tcp { payload, .. } | Glance::Udp { payload } => *payload as u64,
        };
        let fresh = judged.fresh.min(data);
        let sent = Sent { sequence, packet, fresh, push: judged.ends_write };
        let fits = *kept_bytes + packet.len() <= config.most_kept;
        let takes = coding.combines() && fits && flow.units.takes(&sent, coding, &network);
        let (was_open, before) = (flow.units.is_open(), flow.units.kept());
        let is_complete = if takes { flow.units.push(now, &sent, coding, &network) } else { was_open };
        flow.units.count(fresh);
        let is_source = takes && flow.units.keeps();
        let opened = if was_open { None } else { flow.units.deadline(coding, network.rtt) };
        *kept_bytes = *kept_bytes + flow.units.kept() - before;
        if let Some(at) = opened
            && flow.look.is_none_or(|look| at < look)
        {
            flow.look.map(|look| self.ending.remove(&(look, key)));
            self.ending.insert((at, key));
            flow.look = Some(at);
        }
        let datagram = self.datagram(&Body::Sequenced { flow: id, sequence, is_source, packet });
        if let Some(after) = judged.copy_after {
            self.extras.push(now + after, Extra { datagram: datagram.clone(), is_copy: true });
        }
        if is_complete {
            self.end_unit(key, now);
        }
        datagram
    }

    /// Ends the unit of a flow: its combinations may leave.
    fn end_unit(&mut self, key: FlowKey, now: Instant) {
        let Some(flow) = self.flows.get_mut(&key) else { return };
        self.kept_bytes -= flow.units.kept();
        let (prefix, extras) = (&self.config.prefix, &mut self.extras);
        flow.units.close(flow.id, self.config.coding, &self.network, |body| {
            let mut datagram = prefix.clone();
            body.encode(&mut datagram);
            extras.push(now, Extra { datagram, is_copy: false });
        });
    }

    /// The next copy or combination that may leave; for when no packet waits.
    pub fn next_extra(&mut self, now: Instant) -> Option<Extra> {
        let extra = self.extras.pop(now, self.network.rtt)?;
        let count = if extra.is_copy { &mut self.counters.copies } else { &mut self.counters.combinations };
        *count += 1;
        self.counters.extra_bytes += extra.datagram.len() as u64;
        Some(extra)
    }

    /// What [`next_extra`](Self::next_extra) gave last, of so many bytes, could not leave after all.
    pub fn refused(&mut self, is_copy: bool, bytes: usize) {
        let count = if is_copy { &mut self.counters.copies } else { &mut self.counters.combinations };
        *count -= 1;
        self.counters.extra_bytes -= bytes as u64;
        self.extras.dropped += 1;
    }

    /// When [`on_timer`](Self::on_timer) has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.ending.first().map(|(at, _)| *at)
    }

    /// From when on [`next_extra`](Self::next_extra) has something to give: past, where that has not been
    /// asked for since.
    pub fn extra_due(&self) -> Option<Instant> {
        self.extras.deadline()
    }

    /// Ends units that have lasted long enough, and drops what was to be sent beside packets and is too old.
    pub fn on_timer(&mut self, now: Instant) {
        self.extras.expire(now, self.network.rtt);
        while let Some((at, key)) = self.ending.first().copied()
            && at <= now
        {
            self.ending.remove(&(at, key));
            let Some(flow) = self.flows.get_mut(&key) else { continue };
            let deadline = flow.units.deadline(self.config.coding, self.network.rtt);
            flow.look = deadline.filter(|later| *later > now);
            match flow.look {
                Some(later) => _ = self.ending.insert((later, key)),
                None => self.end_unit(key, now),
            }
        }
    }

    fn datagram(&self, body: &Body<'_>) -> Vec<u8> {
        let mut datagram = self.config.prefix.clone();
        body.encode(&mut datagram);
        datagram
    }

    /// Forgets flows that have been silent for long; call it about once a second.
    pub fn expire(&mut self, now: Instant) {
        self.on_timer(now);
        self.flows.retain(|_, flow| now.saturating_duration_since(flow.last) < SILENT);
    }

    /// Forgets an eighth of the flows if there are as many as there may be.
    fn make_room(&mut self) {
        if self.flows.len() < self.config.most_flows.max(1) {
            return;
        }
        let mut by_age: Vec<(Instant, FlowKey)> =
            self.flows.iter().map(|(key, flow)| (flow.last, *key)).collect();
        by_age.sort_unstable();
        for (_, key) in by_age.into_iter().take(self.config.most_flows / 8 + 1) {
            let Some(flow) = self.flows.remove(&key) else { continue };
            self.kept_bytes -= flow.units.kept();
            flow.look.map(|look| self.ending.remove(&(look, key)));
            self.counters.forgotten += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::*;

    fn udp(from: u16) -> Vec<u8> {
        let mut bytes = Vec::new();
        PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(from, 9).write(&mut bytes, b"x").unwrap();
        bytes
    }

    #[test]
    fn flows_and_their_packets_are_numbered() {
        let config = OutgoingConfig { prefix: vec![1, 2], ..OutgoingConfig::default() };
        let mut outgoing = Outgoing::new(config);
        let mut send = |packet: &[u8]| outgoing.handle(packet, 1_500, Instant::ORIGIN);
        for (from, flow, sequence) in [(1, 0, 0), (1, 0, 1), (2, 1, 0), (1, 0, 2)] {
            let packet = udp(from);
            let sent = send(&packet);
            let wanted = Body::Sequenced { flow, sequence, is_source: false, packet: &packet };
            assert_eq!((&sent[..2], Body::decode(&sent[2..])), (&[1, 2][..], Ok(wanted)));
        }
        let mut ping = Vec::new();
        let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        builder.icmpv4_echo_request(1, 2).write(&mut ping, b"x").unwrap();
        let sent = send(&ping);
        assert_eq!(Body::decode(&sent[2..]), Ok(Body::Packet(&ping)));
    }

    #[test]
    fn what_could_not_leave_counts_as_dropped() {
        let mut outgoing = Outgoing::new(OutgoingConfig { coding: Coding::Slp, ..OutgoingConfig::default() });
        for from in 1..3 {
            outgoing.handle(&udp(from), 1_500, Instant::ORIGIN);
        }
        let due = outgoing.extra_due().unwrap();
        let extra = outgoing.next_extra(due).unwrap();
        let (is_copy, bytes) = (extra.is_copy, extra.datagram.len());
        assert!(is_copy && outgoing.next_extra(due).is_some());
        outgoing.refused(is_copy, bytes);
        let OutgoingCounters { copies, extra_bytes, extras_dropped, .. } = outgoing.counters();
        assert_eq!((copies, extra_bytes, extras_dropped), (1, bytes as u64, 1));
    }

    /// Every packet opens a unit, and ends it: what is to be looked at is no more than the flows.
    #[test]
    fn ends_of_units_are_awaited_once_a_flow() {
        let config = OutgoingConfig { most_flows: 16, coding: Coding::Htpc, ..OutgoingConfig::default() };
        let mut outgoing = Outgoing::new(config);
        for n in 0..1_000_u16 {
            let mut packet = Vec::new();
            let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
            let builder = builder.tcp(n % 20, 9, u32::from(n), 1_000).psh();
            builder.write(&mut packet, b"x").unwrap();
            outgoing.handle(&packet, 1_500, Instant::ORIGIN + Duration::from_micros(n.into()));
            assert!(outgoing.ending.len() <= outgoing.flows.len());
        }
        assert!(!outgoing.ending.is_empty(), "units were opened");
        outgoing.on_timer(Instant::ORIGIN + Duration::from_secs(1));
        assert_eq!((outgoing.ending.len(), outgoing.counters().kept_bytes), (0, 0));
    }

    /// There are thousands, of each client of a server.
    #[test]
    fn a_flow_without_a_unit_takes_little() {
        assert!(size_of::<Flow>() <= 256, "{}", size_of::<Flow>());
    }

    #[test]
    fn flows_are_bounded() {
        let mut outgoing = Outgoing::new(OutgoingConfig { most_flows: 16, ..OutgoingConfig::default() });
        for from in 0..1_000 {
            outgoing.handle(&udp(from), 1_500, Instant::ORIGIN + Duration::from_millis(from.into()));
            assert!(outgoing.counters().flows <= 16);
        }
        assert!(outgoing.counters().forgotten > 900);
        outgoing.expire(Instant::ORIGIN + Duration::from_secs(200));
        assert_eq!(outgoing.counters().flows, 0);
    }
}
