//! TCP connections over lossy paths, as a capture point in the middle sees them: every packet that
//! was sent, before it may be lost. Selective acknowledgements, three of them for a fast
//! retransmission, Linux's retransmission timer (SRTT + 200 ms or more) with backoff, slow start
//! after it. Every packet carries the truth of why it was sent.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use super::wire::Packet;

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;
const MS: u64 = 1_000_000;
const MSS: u32 = 1_448;

/// Why a packet was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    First,
    Fast,
    Timeout,
    Ack,
}

/// A connection to be modelled.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub number: u32,
    pub start_ns: u64,
    pub rtt_ms: f64,
    /// Of every packet, in both directions.
    pub loss: f64,
    /// Packets of the response.
    pub response: u32,
    pub ipv6: bool,
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            number: 0,
            start_ns: 1_000_000_000,
            rtt_ms: 40.0,
            loss: 0.0,
            response: 20,
            ipv6: false,
            seed: 1,
        }
    }
}

/// The packets of many connections, in the order of time, with the truth.
pub fn mix(plans: &[Plan]) -> Vec<(Packet, Why)> {
    let mut packets: Vec<(Packet, Why)> = plans.iter().flat_map(|plan| Model::new(*plan).run()).collect();
    packets.sort_by_key(|(packet, _)| packet.at_ns);
    packets
}

/// An ordinary mix: round trips of 10 to 120 ms, responses of 1 to 200 packets, starts spread over
/// `count` times 20 ms.
pub fn ordinary(count: u32, loss: f64, seed: u64) -> Vec<Plan> {
    let mut random = Random(seed);
    let plan = |number| Plan {
        number,
        start_ns: 1_000_000_000 + u64::from(number) * 20 * MS + random.below(20 * MS),
        rtt_ms: 10.0 * 12f64.powf(random.unit()),
        loss,
        response: (200f64.powf(random.unit())) as u32,
        ipv6: number % 3 == 0,
        seed: random.next(),
    };
    (0..count).map(plan).collect()
}

#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A piece of what a side sends, which takes sequence numbers.
#[derive(Clone, Copy, Debug)]
struct Unit {
    flags: u8,
    payload: u32,
    seq: u32,
    sent: Option<u64>,
    tries: u32,
    delivered: bool,
    lost: Option<Why>,
    acked: bool,
}

impl Unit {
    fn end(&self) -> u32 {
        self.seq + self.payload + u32::from(self.flags & (SYN | FIN) != 0)
    }
}

#[derive(Debug)]
struct Side {
    address: SocketAddr,
    units: Vec<Unit>,
    /// How many units the application has released.
    released: usize,
    window: f64,
    timer: u64,
    backoff: u32,
    /// Smoothed round-trip time and its deviation (RFC 6298).
    rtt: Option<(u64, u64)>,
    ack: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// Unit `.1` arrives at side `.0`.
    Unit(usize, usize),
    /// An acknowledgement arrives at side `.0`: units of it that are delivered, as of `.1` units
    /// cumulatively and all marked.
    Ack(usize, u64),
    Timer(usize, u64),
}

struct Model {
    plan: Plan,
    sides: [Side; 2],
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    random: Random,
    out: Vec<(Packet, Why)>,
    now: u64,
    /// What each acknowledgement under way says.
    acks: Vec<Vec<bool>>,
}

impl Model {
    fn new(plan: Plan) -> Self {
        let n = plan.number;
        let (client, server): (IpAddr, IpAddr) = if plan.ipv6 {
            let client = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, (n >> 16) as u16, n as u16);
            (client.into(), Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 1).into())
        } else {
            let client = Ipv4Addr::new(10, (n >> 16) as u8, (n >> 8) as u8, n as u8);
            (client.into(), Ipv4Addr::new(192, 0, 2, 1).into())
        };
        let mut random = Random(plan.seed);
        let response = (0..plan.response).map(|i| {
            (
                if i + 1 == plan.response { PSH | ACK } else { ACK },
                if i + 1 == plan.response { 700 } else { MSS },
            )
        });
        let client_units = [(SYN, 0), (PSH | ACK, 300), (FIN | ACK, 0)];
        let server_units: Vec<(u8, u32)> =
            [(SYN | ACK, 0)].into_iter().chain(response).chain([(FIN | ACK, 0)]).collect();
        let sides = [
            Side::new(
                SocketAddr::new(client, 40_000 + (n % 20_000) as u16),
                &client_units,
                random.next() as u32 >> 1,
            ),
            Side::new(SocketAddr::new(server, 80), &server_units, random.next() as u32 >> 1),
        ];
        Self {
            plan,
            sides,
            events: BinaryHeap::new(),
            order: 0,
            random,
            out: Vec::new(),
            now: plan.start_ns,
            acks: Vec::new(),
        }
    }

    fn run(mut self) -> Vec<(Packet, Why)> {
        self.sides[0].released = 1;
        self.send(0);
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            self.now = at;
            match event {
                Event::Unit(to, index) => self.on_unit(to, index),
                Event::Ack(to, which) => self.on_ack(to, which as usize),
                Event::Timer(side, timer) if self.sides[side].timer == timer => self.on_timer(side),
                Event::Timer(..) => {}
            }
        }
        self.out
    }

    fn half(&self) -> u64 {
        (self.plan.rtt_ms * 1e6 / 2.0) as u64
    }

    fn later(&mut self, delay: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((self.now + delay, self.order, event)));
    }

    /// Sends what the window lets go: lost units first, then new ones.
    fn send(&mut self, side: usize) {
        loop {
            let state = &self.sides[side];
            let flying = |unit: &&Unit| unit.sent.is_some() && !unit.acked && unit.lost.is_none();
            if state.units.iter().filter(flying).count() as f64 >= state.window.floor() {
                break;
            }
            let lost = state.units.iter().position(|unit| unit.lost.is_some() && !unit.acked);
            let new = state.units[..state.released].iter().position(|unit| unit.sent.is_none());
            let Some(index) = lost.or(new) else { break };
            let why = state.units[index].lost.unwrap_or(Why::First);
            self.transmit(side, index, why);
        }
    }

    fn transmit(&mut self, side: usize, index: usize, why: Why) {
        let now = self.now;
        let ack = self.sides[side].ack;
        let unit = &mut self.sides[side].units[index];
        (unit.sent, unit.lost) = (Some(now), None);
        unit.tries += 1;
        let unit = *unit;
        self.capture(side, unit.seq, ack, unit.flags, unit.payload, why);
        if self.random.unit() >= self.plan.loss {
            self.later(self.half(), Event::Unit(1 - side, index));
        }
        self.start_timer(side);
    }

    /// The capture point is in the middle, before whatever loses packets.
    fn capture(&mut self, side: usize, seq: u32, ack: u32, flags: u8, payload: u32, why: Why) {
        let packet = Packet {
            at_ns: self.now + self.half() / 2,
            from: self.sides[side].address,
            to: self.sides[1 - side].address,
            seq,
            ack: if flags & ACK != 0 { ack } else { 0 },
            flags,
            window: 65_000,
            payload,
            ident: 0,
            options: Vec::new(),
        };
        self.out.push((packet, why));
    }

    fn on_unit(&mut self, to: usize, index: usize) {
        let from = 1 - to;
        self.sides[from].units[index].delivered = true;
        let delivered: Vec<bool> = self.sides[from].units.iter().map(|unit| unit.delivered).collect();
        let through = delivered.iter().take_while(|&&delivered| delivered).count();
        if through > 0 {
            self.sides[to].ack = self.sides[from].units[through - 1].end();
        }
        self.release(to, through);
        let before = self.out.len();
        self.send(to);
        // Data carries the acknowledgement, but the model's receiver always sends one of its own as
        // well unless it opens.
        if self.out.len() == before || self.sides[to].units[0].acked {
            let next =
                self.sides[to].units.iter().rev().find(|unit| unit.sent.is_some()).map_or(0, Unit::end);
            let ack = self.sides[to].ack;
            if next > 0 {
                self.capture(to, next, ack, ACK, 0, Why::Ack);
            }
        }
        self.acks.push(delivered);
        if self.random.unit() >= self.plan.loss {
            self.later(self.half(), Event::Ack(from, self.acks.len() as u64 - 1));
        }
    }

    /// The application at `side` has seen `through` units of the other side.
    fn release(&mut self, side: usize, through: usize) {
        let other = self.sides[1 - side].units.len();
        let all = self.sides[side].units.len();
        let released = match (side, through) {
            (_, 0) => 0,
            (0, n) if n == other => 3,
            (0, _) => 2,
            (1, 1) => 1,
            _ => all,
        };
        self.sides[side].released = self.sides[side].released.max(released);
    }

    fn on_ack(&mut self, side: usize, which: usize) {
        let marks = std::mem::take(&mut self.acks[which]);
        let now = self.now;
        let state = &mut self.sides[side];
        let mut progress = false;
        for (unit, _) in
            state.units.iter_mut().zip(&marks).filter(|(unit, delivered)| **delivered && !unit.acked)
        {
            unit.acked = true;
            progress = true;
            if unit.tries == 1 {
                let sample = now - unit.sent.expect("what is acknowledged was sent");
                state.rtt = Some(match state.rtt {
                    None => (sample, sample / 2),
                    Some((rtt, var)) => ((7 * rtt + sample) / 8, (3 * var + rtt.abs_diff(sample)) / 4),
                });
            }
            state.window += 1.0;
        }
        if !progress {
            return;
        }
        state.backoff = 0;
        let acked: Vec<bool> = state.units.iter().map(|unit| unit.acked).collect();
        let mut cut = false;
        for index in 0..state.units.len() {
            let behind = acked[index + 1..].iter().filter(|&&acked| acked).count();
            let unit = &mut state.units[index];
            if !unit.acked && unit.lost.is_none() && unit.tries == 1 && behind >= 3 {
                unit.lost = Some(Why::Fast);
                cut = true;
            }
        }
        if cut {
            state.window = (state.window / 2.0).max(2.0);
        }
        self.start_timer(side);
        self.send(side);
    }

    fn start_timer(&mut self, side: usize) {
        let state = &mut self.sides[side];
        state.timer += 1;
        let timer = state.timer;
        if state.units.iter().all(|unit| unit.sent.is_none() || unit.acked) || state.backoff > 6 {
            return;
        }
        let timeout =
            state.rtt.map_or(1_000 * MS, |(rtt, var)| rtt + (4 * var).max(200 * MS)) << state.backoff;
        self.later(timeout, Event::Timer(side, timer));
    }

    fn on_timer(&mut self, side: usize) {
        let state = &mut self.sides[side];
        state.backoff += 1;
        state.window = 1.0;
        for unit in state.units.iter_mut().filter(|unit| unit.sent.is_some() && !unit.acked) {
            unit.lost = Some(Why::Timeout);
        }
        self.send(side);
    }
}

impl Side {
    fn new(address: SocketAddr, units: &[(u8, u32)], mut seq: u32) -> Self {
        let units = units
            .iter()
            .map(|&(flags, payload)| {
                let unit = Unit {
                    flags,
                    payload,
                    seq,
                    sent: None,
                    tries: 0,
                    delivered: false,
                    lost: None,
                    acked: false,
                };
                seq = unit.end();
                unit
            })
            .collect();
        Self { address, units, released: 0, window: 10.0, timer: 0, backoff: 0, rtt: None, ack: 0 }
    }
}
