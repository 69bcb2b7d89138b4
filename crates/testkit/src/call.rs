//! A call over datagrams in virtual time: audio and video whose frames are of use for 150 ms, sent
//! by the code that ships, over paths that lose. [`traffic`] says what is sent.

pub mod traffic;

use netsim::{
    LinkConfig, Loss, Seed,
    link::{OutageKind, QueueSize},
    loss::GilbertElliott,
    network::Direction,
};
use proto::{Connection, DatagramOptions, TimedStats, TransportConfig};
use units::{BitRate, Duration, Instant, LossRate};

use crate::{
    response::{Exchange, PathPlan},
    world::Step,
};
use traffic::{Arrivals, Frame, Sent, Traffic, Verdict};
pub use traffic::{Frames, Protection};

/// How long the ends are given to find out what became of the last frames.
const SETTLE: Duration = Duration::from_secs(5);

/// A path that is cut, again and again.
#[derive(Clone, Copy, Debug)]
pub struct Cuts {
    /// Which one.
    pub path: usize,
    /// From the start of one cut to that of the next; the first comes after that.
    pub every: Duration,
    /// How long it stays cut.
    pub time: Duration,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its paths; both directions lose as [`PathPlan::loss`] says.
    pub paths: Vec<PathPlan>,
    /// What is done about loss.
    pub protection: Protection,
    /// How long it takes.
    pub time: Duration,
    /// For how long a frame is of use.
    pub deadline: Duration,
    /// Whether a path is cut.
    pub cuts: Option<Cuts>,
    /// Whether the receiver rebuilds packets from repair symbols.
    pub decodes: bool,
    /// Of so many frames one may be late, as the application says it; `None`: as the scheme has it.
    pub one_late_in: Option<u32>,
}

/// A path with a queue of 100 packets that loses `loss` of all packets, in bursts of `burst`
/// packets on average; 1 is random loss.
pub fn path(rate: BitRate, rtt: Duration, loss: f64, burst: f64) -> PathPlan {
    let link = LinkConfig::new().rate(rate).delay(rtt / 2).queue(QueueSize::Packets(100));
    let rate = LossRate::new(loss).unwrap_or_default();
    let loss = match GilbertElliott::from_stationary(rate, burst) {
        _ if rate == LossRate::ZERO => Loss::None,
        Ok(channel) if burst > 1.0 => Loss::GilbertElliott(channel),
        _ => Loss::Bernoulli(rate),
    };
    PathPlan::symmetric(link, loss)
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// All frames.
    pub frames: Frames,
    /// Those of audio.
    pub audio: Frames,
    /// Those taken while a path was cut.
    pub while_cut: Frames,
    /// UDP payload bytes that the sender sent.
    pub bytes_sent: u64,
    /// What the sender knows.
    pub known: TimedStats,
    /// Times of the frames that were late, and how many of their datagrams were missing.
    pub missed: Vec<(Instant, usize)>,
    /// Hash over everything.
    pub trace_hash: u64,
}

struct Ends {
    traffic: Traffic,
    sent: Vec<Sent>,
    arrivals: Arrivals,
    deadline: Duration,
    one_late_in: Option<u32>,
}

impl Call {
    /// Makes the call; the server sends. One seed decides everything.
    ///
    /// # Panics
    /// If the connection is not set up within virtual minutes.
    pub fn run(&self, seed: Seed) -> Outcome {
        let mut transport =
            TransportConfig { recovery: self.protection.recovery(), ..TransportConfig::default() };
        transport.repair.accept = self.decodes;
        let mut exchange = Exchange::establish(seed, &self.paths, &transport);
        for (i, path) in self.paths.iter().enumerate() {
            exchange.lose(i, Direction::Backward, seed.child("call loss", i as u64), &path.loss);
            exchange.lose(i, Direction::Forward, seed.child("call loss of ACKs", i as u64), &path.loss);
        }
        let start = exchange.world.now();
        let sent_before = exchange.world.connection(exchange.server).stats().bytes_sent;
        let mut ends = Ends {
            traffic: Traffic::new(seed, self.protection),
            sent: Vec::new(),
            arrivals: Arrivals::new(self.time),
            deadline: self.deadline,
            one_late_in: self.one_late_in,
        };
        let mut cut = false;
        let (end, mut next_change) = (start + self.time, self.cuts.map(|cuts| start + cuts.every));
        loop {
            let next = start + ends.traffic.next_at();
            let over = next >= end;
            let until = if over { end + SETTLE } else { next };
            let until = next_change.map_or(until, |at| at.min(until));
            self.pass(&mut exchange, &mut ends, until);
            if let Some(cuts) = self.cuts
                && next_change == Some(until)
            {
                cut = !cut;
                self.set_cut(&mut exchange, cuts.path, cut);
                let wait = if cut { cuts.time } else { cuts.every.saturating_sub(cuts.time) };
                next_change = (!over).then_some(until + wait);
                continue;
            }
            if over {
                break;
            }
            ends.send(&mut exchange, cut);
        }
        ends.outcome(&exchange, sent_before)
    }

    /// Lets time pass; whatever arrives is read.
    fn pass(&self, exchange: &mut Exchange, ends: &mut Ends, until: Instant) {
        let client = exchange.client;
        loop {
            let step = exchange.world.step(until);
            while exchange.world.poll_event(exchange.server).is_some() {}
            while exchange.world.poll_event(client).is_some() {}
            exchange.world.with(client, |c, now| ends.read(c, now));
            if step == Step::Limit {
                return;
            }
        }
    }

    fn set_cut(&self, exchange: &mut Exchange, path: usize, cut: bool) {
        let link = exchange.links[path];
        for direction in [Direction::Forward, Direction::Backward] {
            exchange.world.network_mut().change(link, direction, |link, now| {
                if cut { link.cut(now, OutageKind::Drop) } else { link.restore(now) }
            });
        }
    }
}

impl Ends {
    fn send(&mut self, exchange: &mut Exchange, while_cut: bool) {
        let Frame { name, needed, datagrams, priority, .. } = self.traffic.take();
        self.sent.push(Sent { name, at: exchange.world.now(), needed, while_cut });
        let mut options = DatagramOptions::new().within(self.deadline.into()).priority(priority);
        options.one_late_in = self.one_late_in;
        let server = exchange.server;
        for data in datagrams {
            // A full queue or a path that is too narrow loses it, which the frame shows.
            exchange.world.with(server, |c, now| _ = c.send_datagram_with(now, data.into(), options));
        }
    }

    fn read(&mut self, c: &mut Connection, now: Instant) {
        while let Some(data) = c.receive_datagram() {
            self.arrivals.read(&data, now);
        }
    }

    fn outcome(self, exchange: &Exchange, sent_before: u64) -> Outcome {
        let Verdict { frames, audio, while_cut, missed } =
            Verdict::of(&self.sent, &self.arrivals, self.deadline);
        let stats = exchange.world.connection(exchange.server).stats();
        Outcome {
            frames,
            audio,
            while_cut,
            bytes_sent: stats.bytes_sent - sent_before,
            known: stats.timed,
            missed,
            trace_hash: exchange.world.trace_hash(),
        }
    }
}
