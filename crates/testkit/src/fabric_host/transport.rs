//! The transport that ships as one of `tcpsim`'s [`Protocol`]s: wherever a scheme of the simulator
//! can stand, it can, with the same flows, records, totals and timelines.
//!
//! # Model
//! That of [`fabric_host`](super), and:
//! - A connection opens with its first write. A flow starts when it is written or when the
//!   connection is ready, whichever is later, as that of TCP with a handshake does.
//! - What the sender's end sends counts as data packets, whatever is in them: the handshake,
//!   acknowledgements and probes of the path's size too.
//! - Copies and repair symbols are counted as extra packets, packets declared lost as
//!   retransmissions: each leads to one, unless recovery was first. They are looked up every
//!   [`COUNT_EVERY`] packets and when a flow arrives, for the oldest flow that has not arrived.
//! - Probe timeouts are not told apart by the transport's statistics, and are counted as none.
//! - A connection that ends with its flow vanishes on both sides when the flow has arrived; where
//!   paths are known ([`Mendpath::known_paths`]), when all that was sent is acknowledged, as only
//!   then is anything learnt. All hosts share one store, which keeps
//!   [`PathStore::MAX_PATHS`](proto::PathStore::MAX_PATHS) pairs of addresses, each end's for itself.
//!
//! # Bounds
//! [`DATAGRAMS`] under way per connection; the oldest gives way, as if lost, and
//! [`Carried::displaced`] counts it.

use std::{collections::VecDeque, sync::Arc};

use netsim::{
    Seed,
    fabric::{Class, Ecn as FabricEcn, Packet},
};
use proto::{ConnectionStats, TransportConfig};
use tcpsim::{
    FlowId,
    segment::{Kind, Segment},
    transport::{Direction, Endpoints, Io, Protocol, Timer, Transport},
};
use units::{Duration, Instant};

use super::{
    MAX_PATHS,
    datagrams::Datagrams,
    pair::{End, Outgoing, Pair},
};
use crate::{forgetful::forgetful, world::IP_UDP_HEADERS};

/// Most datagrams of one connection that are under way, lost ones included until they are the
/// oldest.
pub const DATAGRAMS: usize = 1 << 14;
/// Packets after which the sender's statistics are looked at again.
pub const COUNT_EVERY: u64 = 64;
/// The timer of the first end, of the second, and the one that ends the wait for paths.
const TIMERS: [Timer; 3] = [Timer::Subflow(0), Timer::Subflow(1), Timer::Subflow(2)];

/// The transport that ships, as a protocol of the simulator. A connection knows nothing of those
/// before it: what flows learn from each other would hang on the order in which runs are made.
///
/// ```
/// use mendpath_testkit::fabric_host::Mendpath;
/// use netsim::fabric::{Options, topology::Dumbbell};
/// use tcpsim::{Profile, SchemeKind, Sim, Tcp};
/// use units::{BitRate, Duration, Instant};
///
/// let topology = Dumbbell::new(1, BitRate::from_mbps(10), Duration::from_millis(20), 100).build();
/// let mut sim = Sim::new(&topology, &Options::default()).unwrap();
/// let scheme = SchemeKind::transport(Mendpath::default());
/// let profile = sim.add_profile(Profile { tcp: Tcp::default(), scheme });
/// let flow = sim.add_flow(profile, 0, 1, 20_000, Instant::ORIGIN).unwrap();
/// sim.run_until_done(Instant::ORIGIN + Duration::from_secs(1)).unwrap();
/// assert!(sim.flow(flow).unwrap().completion_time().unwrap() > Duration::from_millis(26));
/// ```
#[derive(Clone, Debug)]
pub struct Mendpath {
    /// Everything about the transport.
    pub config: TransportConfig,
    /// Paths of a connection, 1 to [`MAX_PATHS`]; others are cut to that.
    pub paths: usize,
    /// Whether connections begin with what earlier ones of the same simulation have learnt of the
    /// paths between the same hosts, as those of one client and one server do.
    pub known_paths: bool,
}

impl Default for Mendpath {
    /// What ships, on one path.
    fn default() -> Self {
        Self { config: TransportConfig::default(), paths: 1, known_paths: false }
    }
}

impl Protocol for Mendpath {
    fn name(&self) -> &'static str {
        "mendpath"
    }

    fn connect(&self, ends: Endpoints) -> Box<dyn Transport> {
        // What differs between runs is what happens to a connection; its identifiers need not.
        let seed = Seed(u64::from(ends.conn)).child("fabric transport", 0);
        let config = if self.known_paths { self.config.clone() } else { forgetful(&self.config) };
        let mut pair = Pair::new(ends.from, ends.to, &config, self.paths.clamp(1, MAX_PATHS), seed);
        pair.one_shot = ends.ends_with_its_flow();
        pair.learns = self.known_paths;
        Box::new(Carried {
            ends,
            pair,
            begun: false,
            datagrams: Datagrams::new(DATAGRAMS),
            armed: [Instant::MAX; 2],
            unfinished: VecDeque::new(),
            counted: ConnectionStats::default(),
            uncounted: 0,
        })
    }

    fn for_simulation(&self) -> Option<Arc<dyn Protocol>> {
        let config = forgetful(&self.config);
        self.known_paths.then(|| Arc::new(Self { config, ..self.clone() }) as Arc<dyn Protocol>)
    }
}

/// Both ends of a connection of the transport on the simulator's hosts.
#[derive(Debug)]
pub struct Carried {
    ends: Endpoints,
    pair: Pair,
    begun: bool,
    datagrams: Datagrams,
    /// When each end's timer is set to run out at the earliest; it cannot be taken back.
    armed: [Instant; 2],
    /// Flows that have not arrived, in the order in which they were written.
    unfinished: VecDeque<FlowId>,
    /// The statistics that are in the books, and packets sent since.
    counted: ConnectionStats,
    uncounted: u64,
}

impl Carried {
    /// The sender's statistics.
    pub fn stats(&self) -> ConnectionStats {
        self.pair.sender_stats()
    }

    /// Datagrams that were taken for lost because [`DATAGRAMS`] was reached.
    pub fn displaced(&self) -> u64 {
        self.datagrams.displaced()
    }

    /// After anything happened at one end: applications act, datagrams leave, the books and the
    /// timer follow.
    fn attend(&mut self, io: &mut Io<'_>, end: End) {
        let now = io.now();
        let Self { ends, pair, datagrams, .. } = self;
        let (mut sent, mut bytes) = (0_u64, 0_u64);
        pair.attend(end, now, &mut |datagram: Outgoing<'_>| {
            let packet = wrap(ends, end, &datagram, datagrams.push(datagram.bytes));
            (sent, bytes) = (sent + 1, bytes + u64::from(packet.size));
            io.send(packet, 0);
        });
        if end == End::Client {
            io.totals().packets += sent;
            io.totals().bytes += bytes;
            self.uncounted += sent;
        }
        self.keep_books(io);
        if self.pair.is_done() {
            return io.close();
        }
        self.arm(io, end);
    }

    /// Flows that started and arrived, and what the sender did for them.
    fn keep_books(&mut self, io: &mut Io<'_>) {
        let now = io.now();
        for flow in self.pair.take_started() {
            if let Some(record) = io.record(FlowId(flow)) {
                record.started = now;
            }
        }
        let finished = self.pair.take_finished();
        if !finished.is_empty() || self.uncounted >= COUNT_EVERY {
            self.count(io);
        }
        for flow in finished {
            io.finish(FlowId(flow));
            self.unfinished.retain(|known| known.0 != flow);
        }
    }

    /// What the sender has done since the last time.
    fn count(&mut self, io: &mut Io<'_>) {
        let (stats, before) = (self.pair.sender_stats(), &self.counted);
        let copies = stats.copies_sent - before.copies_sent;
        let symbols = stats.repair_symbols_sent - before.repair_symbols_sent;
        let lost = stats.packets_lost - before.packets_lost;
        let repaired = stats.packets_rebuilt_by_peer - before.packets_rebuilt_by_peer;
        let totals = io.totals();
        totals.copies += copies;
        totals.parities += symbols;
        totals.extra_bytes += stats.recovery_bytes_sent - before.recovery_bytes_sent;
        totals.retransmissions += lost;
        totals.repaired += repaired;
        if let Some(record) = self.unfinished.front().and_then(|flow| io.record(*flow)) {
            record.packets += std::mem::take(&mut self.uncounted) as u32;
            record.extra += (copies + symbols) as u32;
            record.retransmissions += lost as u32;
            record.repaired += repaired as u32;
        }
        self.counted = stats;
    }

    /// Sets the timer of an end's deadline, unless an earlier one is set: that one will look again.
    fn arm(&mut self, io: &mut Io<'_>, end: End) {
        let place = usize::from(end == End::Server);
        let deadline = self.pair.deadline(end);
        if deadline < self.armed[place] {
            // A deadline that is past and changed nothing must not come back at the same moment.
            let at = deadline.max(io.now() + Duration::from_nanos(1));
            self.armed[place] = at;
            io.set_timer(at, TIMERS[place]);
        }
    }
}

/// A datagram as a packet of the fabric, which carries its number.
fn wrap(ends: &Endpoints, end: End, datagram: &Outgoing<'_>, number: u64) -> Packet<Segment> {
    let (direction, class, kind) = match end {
        End::Client => (Direction::ToReceiver, Class::Data, Kind::Data),
        End::Server => (Direction::ToSender, Class::Control, Kind::Extra),
    };
    let (seq, dsn) = (number as u32, (number >> 32) as u32);
    let payload = datagram.bytes.len() as u16;
    let body = Segment { kind, sub: datagram.path, seq, dsn, payload, ..Segment::default() };
    let size = u32::from(payload) + IP_UDP_HEADERS as u32;
    let ecn = if datagram.ecn { FabricEcn::Capable } else { FabricEcn::NotCapable };
    Packet { size, ecn, ..ends.packet(direction, class, body) }
}

impl Transport for Carried {
    fn endpoints(&self) -> &Endpoints {
        &self.ends
    }

    fn write(&mut self, io: &mut Io<'_>, bytes: u64, flow: FlowId) {
        if !self.begun {
            self.begun = true;
            io.set_timer(self.pair.begin(io.now()), TIMERS[2]);
        }
        self.unfinished.push_back(flow);
        self.pair.write(flow.0, bytes);
        self.attend(io, End::Client);
    }

    fn on_packet(&mut self, io: &mut Io<'_>, packet: &Packet<Segment>) {
        let number = u64::from(packet.body.dsn) << 32 | u64::from(packet.body.seq);
        let Some(mut bytes) = self.datagrams.take(number) else { return };
        let end = if packet.dst == self.ends.to { End::Server } else { End::Client };
        self.pair.receive(end, io.now(), packet.body.sub, packet.ecn, &mut bytes);
        self.attend(io, end);
    }

    fn on_timer(&mut self, io: &mut Io<'_>, timer: Timer) {
        let end = if timer == TIMERS[1] { End::Server } else { End::Client };
        if timer == TIMERS[2] {
            self.pair.stop_waiting();
            return self.attend(io, end);
        }
        let place = usize::from(end == End::Server);
        if self.armed[place] > io.now() {
            return; // an earlier one has been here
        }
        self.armed[place] = Instant::MAX;
        if self.pair.deadline(end) <= io.now() {
            self.pair.time_out(end, io.now());
            return self.attend(io, end);
        }
        self.arm(io, end);
    }

    /// What the receiver's application has read, in TCP's segments.
    fn delivered(&self) -> u32 {
        (self.pair.read / u64::from(self.ends.tcp.mss.max(1))) as u32
    }

    /// Of the first path, in TCP's segments.
    fn window(&self) -> u32 {
        (self.pair.window() / u64::from(self.ends.tcp.mss.max(1))) as u32
    }
}
