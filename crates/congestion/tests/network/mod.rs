//! Bulk flows through shared bottlenecks, packet by packet: the smallest network in which
//! controllers meet.
//!
//! sender (window, pacing) -> random loss -> drop-tail queue -> rate -> delay + jitter ->
//! receiver -> ACK of every packet
//!
//! Every path of every flow always has data. Losses are found as in RFC 9002, by three later ACKs,
//! or where jitter reorders, by age: a round-trip time and four variations. Everything is a
//! function of the seed.

#![allow(dead_code, reason = "each test binary uses a part")]

pub mod lab;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use mendpath_congestion::{
    Ack, Bottlenecks, Config, Controller, ControllerKind, Load, Loss, PathWindow, Phase, Rtt,
};
use units::{BitRate, Duration, Instant};

/// Bytes of a packet.
pub const SIZE: u64 = 1_200;

/// A bottleneck: a drop-tail queue before a transmitter.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// What it carries.
    pub rate: BitRate,
    /// What may wait, in bytes.
    pub buffer: u64,
    /// The queue in bytes from which on packets are marked CE.
    pub mark_above: Option<u64>,
    free_at: Instant,
    /// Packets that found the queue full.
    pub overflows: u64,
}

impl Link {
    /// A link of `mbps` Mbit/s with a buffer of `bytes`.
    pub fn new(mbps: u64, buffer: u64) -> Self {
        let rate = BitRate::from_mbps(mbps);
        Self { rate, buffer, mark_above: None, free_at: Instant::ORIGIN, overflows: 0 }
    }

    /// Takes a packet. When it leaves, and whether it is marked; `None` if it is dropped.
    fn offer(&mut self, now: Instant) -> Option<(Instant, bool)> {
        let queue = self.rate.bytes_in(self.free_at.saturating_duration_since(now));
        if queue + SIZE > self.buffer {
            self.overflows += 1;
            return None;
        }
        self.free_at = self.free_at.max(now) + self.rate.time_to_send(SIZE);
        Some((self.free_at, self.mark_above.is_some_and(|above| queue > above)))
    }
}

/// How round-trip times vary: each packet's by up to `span` to both sides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jitter {
    /// The largest deviation.
    pub span: Duration,
    /// Whether it may reorder; else an early packet waits for its predecessor.
    pub reorder: bool,
}

/// Losses in bursts: a channel that is good or bad (Gilbert and Elliott), and loses packets while
/// it is bad.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    /// Chance per packet that the good state ends.
    pub to_bad: f64,
    /// Chance per packet that the bad state ends.
    pub to_good: f64,
    /// Share of packets that the bad state loses.
    pub loss_in_bad: f64,
}

impl Chain {
    /// A channel by its three parameters.
    pub const fn new(to_bad: f64, to_good: f64, loss_in_bad: f64) -> Self {
        Self { to_bad, to_good, loss_in_bad }
    }

    /// The share of packets that it loses.
    pub fn loss(&self) -> f64 {
        self.loss_in_bad * self.to_bad / (self.to_bad + self.to_good)
    }
}

/// One path of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Which link it goes through.
    pub link: usize,
    /// Its round-trip time without queue and jitter.
    pub rtt: Duration,
    /// Losses before the link.
    pub loss: f64,
    /// Losses in bursts before the link.
    pub chain: Option<Chain>,
    /// Its jitter.
    pub jitter: Jitter,
    /// How seldom its busy sender runs, on average: what arrives or is due in between waits, and
    /// then goes in bursts of up to ten packets.
    pub nap: Duration,
}

impl Path {
    /// A path through link 0 without loss or jitter.
    pub fn new(rtt_ms: u64) -> Self {
        Self {
            link: 0,
            rtt: Duration::from_millis(rtt_ms),
            loss: 0.0,
            chain: None,
            jitter: Jitter::default(),
            nap: Duration::ZERO,
        }
    }

    /// With random loss.
    pub fn loss(self, loss: f64) -> Self {
        Self { loss, ..self }
    }

    /// With losses in bursts.
    pub fn chain(self, chain: Chain) -> Self {
        Self { chain: Some(chain), ..self }
    }

    /// With jitter.
    pub fn jitter(self, span_ms: u64, reorder: bool) -> Self {
        Self { jitter: Jitter { span: Duration::from_millis(span_ms), reorder }, ..self }
    }

    /// With a sender that runs only every so many ms on average.
    pub fn nap(self, ms: u64) -> Self {
        Self { nap: Duration::from_millis(ms), ..self }
    }

    /// When a sender runs that something happens to at `at`: once in every `nap`, at a moment of
    /// chance.
    fn runs_at(&self, at: Instant) -> Instant {
        let since = (at - Instant::ORIGIN).as_nanos();
        let nap = self.nap.as_nanos();
        if nap == 0 {
            return at;
        }
        let moment = |n: u64| n * nap + (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) % nap;
        let runs = [moment(since / nap), moment(since / nap + 1)];
        Instant::ORIGIN + Duration::from_nanos(if runs[0] >= since { runs[0] } else { runs[1] })
    }

    /// What a sender that naps may make up for at once: ten packets (RFC 9002 section 7.7).
    fn burst(&self) -> u64 {
        if self.nap.is_zero() { 0 } else { 9 * SIZE }
    }

    /// Through another link.
    pub fn over(self, link: usize) -> Self {
        Self { link, ..self }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// The sender of a path may send.
    Wake { sender: usize },
    /// An ACK arrives.
    Ack { sender: usize, number: u64, marked: bool },
}

/// The sending side of one path.
#[derive(Debug)]
struct Sender {
    flow: usize,
    path: Path,
    /// Whether the path's chain is in its bad state.
    bad: bool,
    controller: Box<dyn Controller>,
    rtt: Rtt,
    next: u64,
    /// When each un-ACKed packet was sent.
    flying: BTreeMap<u64, Instant>,
    paced_until: Instant,
    /// The next event of waking; later ones are stale.
    wakes_at: Instant,
    last_ack_at: Instant,
    /// When something was last acknowledged or given up.
    progress_at: Instant,
    delivered: u64,
    lost: u64,
    /// Sum and number of samples.
    rtts: (Duration, u64),
}

/// The network and the flows in it.
#[derive(Debug)]
pub struct Network {
    /// The links; they may be changed between two runs.
    pub links: Vec<Link>,
    senders: Vec<Sender>,
    flows: usize,
    /// Whether flows find out about their paths' bottlenecks.
    pub experiments: bool,
    /// What each flow knows of its paths' bottlenecks.
    bottlenecks: Vec<Bottlenecks>,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    scheduled: u64,
    random: u64,
}

impl Network {
    /// A network without flows.
    pub fn new(links: &[Link], seed: u64) -> Self {
        Self {
            links: links.to_vec(),
            senders: Vec::new(),
            flows: 0,
            experiments: true,
            bottlenecks: Vec::new(),
            events: BinaryHeap::new(),
            scheduled: 0,
            random: seed * 2 + 1,
        }
    }

    /// Adds a flow that starts at `start`, with one controller per path. Returns its index.
    pub fn flow(&mut self, kind: ControllerKind, paths: &[Path], start: Duration) -> usize {
        self.flow_of(|| kind.build(&Config::with_max_datagram_size(SIZE)), paths, start)
    }

    /// The same with controllers of one's own.
    pub fn flow_of(
        &mut self,
        controller: impl Fn() -> Box<dyn Controller>,
        paths: &[Path],
        start: Duration,
    ) -> usize {
        let start = Instant::ORIGIN + start;
        for &path in paths {
            let sender = Sender {
                flow: self.flows,
                path,
                bad: false,
                controller: controller(),
                rtt: Rtt::default(),
                next: 0,
                flying: BTreeMap::new(),
                paced_until: start,
                wakes_at: start,
                last_ack_at: start,
                progress_at: start,
                delivered: 0,
                lost: 0,
                rtts: (Duration::ZERO, 0),
            };
            self.senders.push(sender);
            self.schedule(start, Event::Wake { sender: self.senders.len() - 1 });
        }
        self.flows += 1;
        self.bottlenecks.push(Bottlenecks::default());
        self.flows - 1
    }

    /// The controller of path `path` of flow `flow`.
    pub fn controller(&self, flow: usize, path: usize) -> &dyn Controller {
        &*self.sender(flow, path).controller
    }

    /// Bytes that path `path` of flow `flow` has delivered.
    pub fn delivered(&self, flow: usize, path: usize) -> u64 {
        self.sender(flow, path).delivered
    }

    /// Bytes that path `path` of flow `flow` has lost.
    pub fn lost(&self, flow: usize, path: usize) -> u64 {
        self.sender(flow, path).lost
    }

    /// The mean round-trip time of path `path` of flow `flow`, in ms.
    pub fn mean_rtt(&self, flow: usize, path: usize) -> f64 {
        let (sum, samples) = self.sender(flow, path).rtts;
        sum.as_millis_f64() / samples as f64
    }

    /// The window of path `path` of flow `flow`, in packets.
    pub fn window(&self, flow: usize, path: usize) -> f64 {
        self.sender(flow, path).controller.window() as f64 / SIZE as f64
    }

    /// Mean goodput in Mbit/s of each path of each flow, from `from` to `to` seconds; runs the
    /// network.
    pub fn goodput(&mut self, from: u64, to: u64) -> Vec<Vec<f64>> {
        self.run_until(Duration::from_secs(from));
        let before: Vec<u64> = self.senders.iter().map(|s| s.delivered).collect();
        self.run_until(Duration::from_secs(to));
        let mut rates = vec![Vec::new(); self.flows];
        for (sender, before) in self.senders.iter().zip(before) {
            rates[sender.flow].push((sender.delivered - before) as f64 * 8e-6 / (to - from) as f64);
        }
        rates
    }

    /// Changes the path.
    pub fn path_mut(&mut self, flow: usize, path: usize) -> &mut Path {
        let found = self.senders.iter_mut().filter(|s| s.flow == flow).nth(path);
        &mut found.expect("no such path").path
    }

    /// Lets time pass until `end` after the start.
    pub fn run_until(&mut self, end: Duration) {
        let end = Instant::ORIGIN + end;
        while let Some(&Reverse((now, _, event))) = self.events.peek() {
            if now > end {
                break;
            }
            self.events.pop();
            match event {
                Event::Wake { sender } if self.senders[sender].wakes_at == now => self.wake(now, sender),
                Event::Wake { .. } => {}
                Event::Ack { sender, number, marked } => self.on_ack(now, sender, number, marked),
            }
        }
    }

    fn sender(&self, flow: usize, path: usize) -> &Sender {
        self.senders.iter().filter(|s| s.flow == flow).nth(path).expect("no such path")
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((at, self.scheduled, event)));
    }

    /// Uniform in 0 to 1.
    fn random(&mut self) -> f64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Sends what window and pacer allow, and gives up everything after a long silence.
    fn wake(&mut self, now: Instant, index: usize) {
        let sender = &mut self.senders[index];
        let patience = sender.rtt.smoothed * 4 + Duration::from_millis(200);
        if !sender.flying.is_empty() && now >= sender.progress_at + patience {
            let all: Vec<u64> = sender.flying.keys().copied().collect();
            self.on_lost(now, index, &all);
        }
        loop {
            let sender = &mut self.senders[index];
            if (sender.flying.len() as u64 + 1) * SIZE > sender.controller.window()
                || sender.paced_until > now
            {
                break;
            }
            let number = sender.next;
            sender.next += 1;
            sender.flying.insert(number, now);
            let rate = sender.controller.pacing_rate(&sender.rtt);
            let earliest = Instant::ORIGIN
                + (now - Instant::ORIGIN).saturating_sub(rate.time_to_send(sender.path.burst()));
            sender.paced_until = sender.paced_until.max(earliest) + rate.time_to_send(SIZE);
            let in_flight = sender.flying.len() as u64 * SIZE;
            sender.controller.on_sent(now, SIZE, in_flight);
            self.transmit(now, index, number);
        }
        let sender = &mut self.senders[index];
        let blocked = (sender.flying.len() as u64 + 1) * SIZE > sender.controller.window();
        let wakes_at = if blocked { sender.progress_at.max(now) + patience } else { sender.paced_until };
        let wakes_at = sender.path.runs_at(wakes_at);
        sender.wakes_at = wakes_at;
        self.schedule(wakes_at, Event::Wake { sender: index });
    }

    fn transmit(&mut self, now: Instant, index: usize, number: u64) {
        let (lost, jitter) = (self.random(), self.random());
        let path = self.senders[index].path;
        if lost < path.loss || path.chain.is_some_and(|chain| self.loses(index, chain)) {
            return;
        }
        let Some((left, marked)) = self.links[path.link].offer(now) else { return };
        let jitter = path.jitter.span.mul_f64(2.0 * jitter);
        let mut at = left + (path.rtt + jitter).saturating_sub(path.jitter.span);
        if !path.jitter.reorder {
            at = at.max(self.senders[index].last_ack_at);
        }
        self.senders[index].last_ack_at = at;
        self.schedule(path.runs_at(at), Event::Ack { sender: index, number, marked });
    }

    /// One packet through a chain. The loss rate is that of the state before the transition, as in
    /// netem.
    fn loses(&mut self, index: usize, chain: Chain) -> bool {
        let (change, lost) = (self.random(), self.random());
        let bad = &mut self.senders[index].bad;
        let was_bad = *bad;
        *bad ^= change < if was_bad { chain.to_good } else { chain.to_bad };
        was_bad && lost < chain.loss_in_bad
    }

    fn on_ack(&mut self, now: Instant, index: usize, number: u64, marked: bool) {
        let sender = &mut self.senders[index];
        sender.delivered += SIZE;
        sender.progress_at = now;
        let Some(sent_at) = sender.flying.remove(&number) else { return }; // declared lost too early
        let in_flight_before = (sender.flying.len() as u64 + 1) * SIZE;
        sender.sample(now - sent_at);
        let (rtt, reorder) = (sender.rtt, sender.path.jitter.reorder);
        let age = rtt.smoothed.max(rtt.latest) + rtt.variance * 4;
        let is_lost = |(&n, &at): (&u64, &Instant)| if reorder { at + age < now } else { n + 3 <= number };
        let older = sender.flying.range(..number).filter(|&packet| is_lost(packet));
        let lost: Vec<u64> = older.map(|(&n, _)| n).collect();
        self.on_lost(now, index, &lost);
        let group = self.group(index);
        let controller = &mut self.senders[index].controller;
        if marked {
            controller.on_ecn_ce(now, sent_at);
        }
        let ack = Ack {
            now,
            bytes: SIZE,
            largest_sent_at: sent_at,
            in_flight_before,
            ce_bytes: SIZE * u64::from(marked),
            rtt,
            adjusted_rtt: rtt.latest,
            ..Ack::default()
        };
        controller.on_ack(&ack, &group);
        let load = Load { window: controller.window(), steady: controller.is_steady() };
        self.experiment(index, &ack, load);
        self.wake(now, index);
    }

    /// Lets a flow find out about its bottlenecks.
    fn experiment(&mut self, index: usize, ack: &Ack, load: Load) {
        let flow = self.senders[index].flow;
        if !self.experiments {
            return;
        }
        let Some(hold) = self.bottlenecks[flow].on_ack(index as u32, ack, load) else { return };
        self.senders[hold.path as usize].controller.hold(hold.window, hold.until);
    }

    /// What a flow knows of its paths' bottlenecks; paths count from 0 over all flows.
    pub fn bottlenecks(&self, flow: usize) -> &Bottlenecks {
        &self.bottlenecks[flow]
    }

    fn on_lost(&mut self, now: Instant, index: usize, numbers: &[u64]) {
        if numbers.is_empty() {
            return;
        }
        let group = self.group(index);
        let sender = &mut self.senders[index];
        let sent: Vec<Instant> = numbers.iter().filter_map(|n| sender.flying.remove(n)).collect();
        sender.progress_at = now;
        sender.lost += SIZE * sent.len() as u64;
        let loss = Loss {
            now,
            bytes: SIZE * sent.len() as u64,
            packets: sent.len() as u32,
            largest_sent_at: sent.into_iter().max().unwrap_or(now),
            rtt: sender.rtt,
        };
        sender.controller.on_loss(&loss, &group);
    }

    fn group(&self, index: usize) -> Vec<PathWindow> {
        let flow = self.senders[index].flow;
        let siblings = self.senders.iter().enumerate().filter(|(_, s)| s.flow == flow);
        let window = |(i, s): (usize, &Sender)| PathWindow {
            path: i as u32,
            window: s.controller.window(),
            in_flight: s.flying.len() as u64 * SIZE,
            smoothed_rtt: s.rtt.smoothed,
            slow_start: s.controller.state().phase == Phase::SlowStart,
            is_self: i == index,
            inter_loss: s.controller.inter_loss(),
            shared: self.bottlenecks[flow].share(index as u32, i as u32),
            congested_at: s.controller.congested_at(),
        };
        siblings.map(window).collect()
    }
}

impl Sender {
    /// RFC 9002 section 5.3.
    fn sample(&mut self, latest: Duration) {
        self.rtts = (self.rtts.0 + latest, self.rtts.1 + 1);
        let rtt = &mut self.rtt;
        rtt.latest = latest;
        if rtt.smoothed.is_zero() {
            (rtt.smoothed, rtt.variance, rtt.min) = (latest, latest / 2, latest);
            return;
        }
        rtt.variance = (rtt.variance * 3 + rtt.smoothed.abs_diff(latest)) / 4;
        rtt.smoothed = (rtt.smoothed * 7 + latest) / 8;
        rtt.min = rtt.min.min(latest);
    }
}
