//! A call over datagrams in virtual time: audio and video whose frames are of use for 150 ms, sent
//! by the code that ships, over paths that lose.
//!
//! | stream | frames | bytes of a frame |
//! | --- | --- | --- |
//! | audio | 50 per second | 120 |
//! | video | 30 per second | about 6,500; a key frame, every 3 s, about five times that |
//!
//! A frame is cut into datagrams of at most [`PIECE`] bytes, and is in time if enough of them have
//! been read at the other end within the deadline. Audio has the higher priority.

use std::collections::BTreeMap;

use netsim::{
    LinkConfig, Loss, Rng, Seed,
    link::{OutageKind, QueueSize},
    loss::GilbertElliott,
    network::Direction,
};
use proto::{Connection, DatagramOptions, RecoveryKind, TimedStats, TransportConfig};
use units::{BitRate, Duration, Instant, LossRate};

use crate::{
    response::{Exchange, PathPlan},
    world::Step,
};

/// Payload bytes of a datagram, at most.
pub const PIECE: usize = 1_050;
/// Bytes in front of them: stream, frame, piece, sources.
const HEADER: usize = 10;
/// Audio frames, of which fixed FEC protects so many together.
const AUDIO_GROUP: u32 = 5;
/// Time between audio frames, between video frames, and how many of these from key frame to key
/// frame.
const AUDIO_EVERY: Duration = Duration::from_millis(20);
const VIDEO_EVERY: Duration = Duration::from_micros(33_333);
const KEY_EVERY: u64 = 90;

/// How long the ends are given to find out what became of the last frames.
const SETTLE: Duration = Duration::from_secs(5);

/// What is done about loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// The transport's recovery scheme.
    Scheme(RecoveryKind),
    /// Every datagram twice, by the application.
    Copies,
    /// One parity for five datagrams, by the application: of a video frame's pieces (rounded up), of
    /// five audio frames.
    Fec,
}

impl Protection {
    /// All that are compared.
    pub const ALL: [Self; 6] = [
        Self::Scheme(RecoveryKind::Auto),
        Self::Scheme(RecoveryKind::Streaming),
        Self::Scheme(RecoveryKind::Cofuso),
        Self::Copies,
        Self::Fec,
        Self::Scheme(RecoveryKind::None),
    ];

    /// What it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scheme(kind) => kind.name(),
            Self::Copies => "copies",
            Self::Fec => "fec 20 %",
        }
    }

    fn recovery(self) -> RecoveryKind {
        match self {
            Self::Scheme(kind) => kind,
            Self::Copies | Self::Fec => RecoveryKind::None,
        }
    }
}

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
    PathPlan { up: link.clone(), down: link, loss }
}

/// How many frames of a kind there were, and how many in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// All.
    pub all: u64,
    /// Those that were complete in time.
    pub in_time: u64,
}

impl Frames {
    /// The share of frames in time, 0 to 1.
    pub fn share(&self) -> f64 {
        self.in_time as f64 / self.all.max(1) as f64
    }

    fn count(&mut self, in_time: bool) {
        self.all += 1;
        self.in_time += u64::from(in_time);
    }
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

/// A frame on its way: stream 0 is audio.
type Name = (u8, u32);

struct Frame {
    taken_at: Instant,
    /// Datagrams that are enough.
    needed: usize,
    got: Vec<u8>,
    done_at: Option<Instant>,
    while_cut: bool,
}

struct Ends {
    frames: BTreeMap<Name, Frame>,
    sizes: Rng,
    protection: Protection,
    deadline: Duration,
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
            frames: BTreeMap::new(),
            sizes: Rng::new(seed.child("frame sizes", 0)),
            protection: self.protection,
            deadline: self.deadline,
        };
        let (mut audio, mut video) = (0_u32, 0_u32);
        let mut cut = false;
        let (end, mut next_change) = (start + self.time, self.cuts.map(|cuts| start + cuts.every));
        loop {
            let (audio_at, video_at) =
                (start + AUDIO_EVERY * u64::from(audio), start + VIDEO_EVERY * u64::from(video));
            let next = audio_at.min(video_at);
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
            if audio_at <= video_at {
                ends.send_audio(&mut exchange, audio, cut);
                audio += 1;
            } else {
                ends.send_video(&mut exchange, video, cut);
                video += 1;
            }
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
    fn send_audio(&mut self, exchange: &mut Exchange, number: u32, while_cut: bool) {
        self.send(exchange, (0, number), &[120], while_cut);
        if self.protection == Protection::Fec && number % AUDIO_GROUP == AUDIO_GROUP - 1 {
            // Parity over the last five: a datagram of "stream 2" stands for it.
            self.post(exchange, (2, number / AUDIO_GROUP), 0, 120, 1);
        }
    }

    fn send_video(&mut self, exchange: &mut Exchange, number: u32, while_cut: bool) {
        let key = u64::from(number) % KEY_EVERY == 0;
        // 0.7 to 1.3 of the mean.
        let spread = 0.7 + 0.6 * (self.sizes.next_u64() % 1_000) as f64 / 1_000.0;
        let bytes = (6_500.0 * spread * if key { 5.0 } else { 1.0 }) as usize;
        let mut pieces = vec![PIECE; bytes / PIECE];
        pieces.push(bytes % PIECE + 1);
        self.send(exchange, (1, number), &pieces, while_cut);
    }

    fn send(&mut self, exchange: &mut Exchange, name: Name, pieces: &[usize], while_cut: bool) {
        let frame = Frame {
            taken_at: exchange.world.now(),
            needed: pieces.len(),
            got: Vec::new(),
            done_at: None,
            while_cut,
        };
        self.frames.insert(name, frame);
        for (piece, len) in pieces.iter().enumerate() {
            self.post(exchange, name, piece as u8, *len, pieces.len());
            if self.protection == Protection::Copies {
                self.post(exchange, name, piece as u8, *len, pieces.len());
            }
        }
        if self.protection == Protection::Fec && name.0 == 1 {
            for parity in 0..pieces.len().div_ceil(5) {
                self.post(exchange, name, (pieces.len() + parity) as u8, PIECE, pieces.len());
            }
        }
    }

    fn post(&self, exchange: &mut Exchange, name: Name, piece: u8, len: usize, sources: usize) {
        let mut data = vec![0; HEADER + len];
        data[0] = name.0;
        data[1..5].copy_from_slice(&name.1.to_be_bytes());
        (data[5], data[6]) = (piece, sources as u8);
        let options = DatagramOptions::new().within(self.deadline.into()).priority(i32::from(name.0 != 1));
        // A full queue or a path that is too narrow loses it, which the frame shows.
        let server = exchange.server;
        exchange.world.with(server, |c, now| _ = c.send_datagram_with(now, data.into(), options));
    }

    fn read(&mut self, c: &mut Connection, now: Instant) {
        while let Some(data) = c.receive_datagram() {
            let number = u32::from_be_bytes([data[1], data[2], data[3], data[4]]);
            if data[0] == 2 {
                self.mend_audio(number, now);
                continue;
            }
            let Some(frame) = self.frames.get_mut(&(data[0], number)) else { continue };
            if !frame.got.contains(&data[5]) {
                frame.got.push(data[5]);
            }
            if frame.got.len() >= frame.needed && frame.done_at.is_none() {
                frame.done_at = Some(now);
            }
        }
    }

    /// A parity has come: it stands for one frame of its five, if the others are there by now.
    fn mend_audio(&mut self, group: u32, now: Instant) {
        let numbers = group * AUDIO_GROUP..(group + 1) * AUDIO_GROUP;
        let missing: Vec<u32> = numbers
            .filter(|number| self.frames.get(&(0, *number)).is_none_or(|frame| frame.done_at.is_none()))
            .collect();
        if let [number] = missing[..]
            && let Some(frame) = self.frames.get_mut(&(0, number))
        {
            frame.done_at = Some(now);
        }
    }

    fn outcome(self, exchange: &Exchange, sent_before: u64) -> Outcome {
        let [mut frames, mut audio, mut while_cut] = [Frames::default(); 3];
        let mut missed = Vec::new();
        for ((stream, _), frame) in &self.frames {
            let in_time = frame.done_at.is_some_and(|at| at - frame.taken_at <= self.deadline);
            frames.count(in_time);
            if *stream == 0 {
                audio.count(in_time);
            }
            if frame.while_cut {
                while_cut.count(in_time);
            }
            if !in_time {
                missed.push((frame.taken_at, frame.needed.saturating_sub(frame.got.len())));
            }
        }
        missed.sort();
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
