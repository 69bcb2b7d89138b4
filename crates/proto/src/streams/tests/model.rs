//! Two endpoints, a channel that loses, reorders and duplicates packets, random acknowledgements,
//! spurious losses and copies: every byte is checked, and so is every promise of [`Streams`].

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// SplitMix64: a small generator, so that a case is its seed.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// What both sides know that `from` sends on a stream.
fn length(id: StreamId, from: Side) -> u64 {
    Rng(id.0 * 2 + from as u64).below(700)
}

fn byte(id: StreamId, from: Side, offset: u64) -> u8 {
    Rng(id.0 * 2 + from as u64 + offset * 1_000).below(256) as u8
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    InFlight,
    Lost,
    Acked,
}

struct Record {
    sent: SentStreamFrames,
    fate: Fate,
    arrived: bool,
}

/// What the application of one side knows of a half.
#[derive(Default, Debug)]
struct Half {
    offset: u64,
    done: bool,
    /// A write was `Blocked`, and no event has said since that it may go on.
    blocked: bool,
    /// Ended otherwise than by reading or writing to the end.
    aborted: bool,
    /// Of the writer, how much is delivered nevertheless; of the reader, whether it wants no more.
    boundary: u64,
    promised: u64,
    stopped: bool,
}

struct Endpoint {
    side: Side,
    streams: Streams,
    config: StreamsConfig,
    records: Vec<Record>,
    writing: BTreeMap<StreamId, Half>,
    reading: BTreeMap<StreamId, Half>,
    to_open: [u64; 2],
    finished: u64,
}

impl Endpoint {
    fn new(side: Side, config: &StreamsConfig, streams: Streams) -> Self {
        let (writing, reading) = (BTreeMap::new(), BTreeMap::new());
        Self {
            side,
            streams,
            config: config.clone(),
            records: vec![],
            writing,
            reading,
            to_open: [4, 4],
            finished: 0,
        }
    }

    fn adopt(&mut self, id: StreamId) {
        if self.streams.can_send(id) {
            self.writing.insert(id, Half::default());
        }
        if self.streams.can_receive(id) {
            self.reading.insert(id, Half::default());
        }
    }

    fn open_and_accept(&mut self) {
        for dir in DIRS {
            if self.to_open[dir as usize] > 0
                && let Some(id) = self.streams.open(dir)
            {
                self.to_open[dir as usize] -= 1;
                self.adopt(id);
            }
            while let Some(id) = self.streams.accept(dir) {
                self.adopt(id);
            }
        }
        while let Some(event) = self.streams.poll_event() {
            self.finished += u64::from(matches!(event, StreamEvent::Finished(_)));
            if let StreamEvent::Writable(id) | StreamEvent::Stopped { id, .. } = event
                && let Some(half) = self.writing.get_mut(&id)
            {
                half.blocked = false;
            }
        }
    }

    /// Writes on every stream that may be written to, up to `max` bytes.
    fn write(&mut self, rng: &mut Rng, max: u64, aborts: bool) {
        for (&id, half) in self.writing.iter_mut().filter(|(_, half)| !half.done && !half.blocked) {
            if rng.one_in(10) {
                self.streams.set_priority(id, rng.below(3) as i32 - 1);
            }
            // Refused if the peer has stopped it.
            if aborts && rng.one_in(20) && self.streams.set_reliable_boundary(id).is_ok() {
                half.boundary = half.offset;
            }
            if aborts && rng.one_in(100) {
                half.promised = half.boundary;
                if rng.one_in(2) && self.streams.reset_when_delivered(id, 5u8.into()).is_ok() {
                    half.promised = half.offset;
                } else {
                    self.streams.reset(id, 5u8.into()).unwrap();
                }
                (half.done, half.aborted) = (true, true);
                continue;
            }
            let end = length(id, self.side);
            let n = (end - half.offset).min(rng.below(max));
            let data: Vec<u8> = (half.offset..half.offset + n).map(|at| byte(id, self.side, at)).collect();
            match self.streams.write(id, &data) {
                Ok(n) => half.offset += n as u64,
                Err(WriteError::Blocked) => half.blocked = true,
                Err(WriteError::Stopped(code)) if code.into_inner() == 6 => {
                    (half.done, half.aborted) = (true, true)
                }
                Err(error) => panic!("{error:?}"),
            }
            if half.offset == end && !half.done {
                half.done = true;
                half.aborted = self.streams.finish(id).is_err();
            }
        }
    }

    /// Gives up more of what was reset.
    fn lower(&mut self, rng: &mut Rng) {
        for (&id, half) in self.writing.iter_mut().filter(|(_, half)| half.promised > half.boundary) {
            if rng.one_in(20) && self.streams.reset(id, 5u8.into()).is_ok() {
                half.promised = half.boundary;
            }
        }
    }

    /// Reads up to `max` bytes of every stream, and checks them.
    fn read(&mut self, rng: &mut Rng, max: u64, aborts: bool) {
        let from = self.side.peer();
        for (&id, half) in self.reading.iter_mut().filter(|(_, half)| !half.done) {
            if aborts && rng.one_in(100) {
                self.streams.stop(id, 6u8.into()).unwrap();
                (half.done, half.aborted, half.stopped) = (true, true, true);
                continue;
            }
            let mut buf = vec![0; rng.below(max) as usize + 1];
            match self.streams.read(id, &mut buf) {
                Ok(Read::Data(n)) => {
                    for &got in &buf[..n] {
                        assert_eq!(got, byte(id, from, half.offset), "{id} at {}", half.offset);
                        half.offset += 1;
                    }
                }
                Ok(Read::Finished) => {
                    assert_eq!(half.offset, length(id, from), "{id} ended early");
                    half.done = true;
                }
                Err(ReadError::Reset(_)) => (half.done, half.aborted) = (true, true),
                Err(ReadError::Blocked) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    /// Builds a packet: what is pending, or a copy of an older one. Returns its payload and number.
    fn send(&mut self, rng: &mut Rng, copies: bool) -> Option<(usize, Vec<u8>)> {
        let limit = 40 + rng.below(200) as usize;
        let (mut out, mut sent) = (Vec::new(), SentStreamFrames::default());
        let copied = copies && !self.records.is_empty() && rng.one_in(3);
        if copied {
            let of = rng.below(self.records.len() as u64) as usize;
            let remaining = self.streams.unacked_data(&self.records[of].sent);
            let ranges = self.records[of].sent.ranges.clone();
            let wrote = self.streams.write_ranges(&ranges, &mut out, limit, &mut sent);
            assert_eq!(wrote != Again::Nothing, remaining, "unacked_data tells what write_ranges does");
        } else {
            let pending = self.streams.has_pending();
            let sendable = self.streams.sendable_bytes();
            self.streams.write_control(&mut out, limit, &mut sent);
            let control = out.len();
            self.streams.write_data(&mut out, limit, &mut sent);
            assert_eq!(!out.is_empty(), pending, "has_pending tells whether a packet can be built");
            assert!(control > 0 || sendable == 0 || sent.data_len() > 0);
            assert_eq!(sendable - self.streams.sendable_bytes(), sent.data_len());
        }
        assert!(out.len() <= limit);
        self.check_sent(&sent);
        if out.is_empty() {
            return None;
        }
        self.records.push(Record { sent, fate: Fate::InFlight, arrived: false });
        Some((self.records.len() - 1, out))
    }

    /// No byte that was acknowledged is sent, and no byte has two packets that answer for it.
    fn check_sent(&self, sent: &SentStreamFrames) {
        for new in &sent.ranges {
            let overlaps =
                |old: &StreamRange| old.id == new.id && old.offset < new.end() && new.offset < old.end();
            for record in &self.records {
                let touched = record.sent.ranges.iter().find(|old| overlaps(old));
                let Some(old) = touched else { continue };
                assert_ne!(record.fate, Fate::Acked, "{new:?} was acknowledged as {old:?}");
                let answers = record.sent.ranges.iter().any(|old| overlaps(old) && !old.copy);
                assert!(
                    new.copy || !answers || record.fate == Fate::Lost,
                    "{new:?} is already answered for by {old:?}"
                );
            }
        }
    }

    fn on_acked(&mut self, number: usize) {
        let record = &mut self.records[number];
        record.fate = Fate::Acked;
        self.streams.on_acked(&record.sent);
        assert!(!self.streams.unacked_data(&record.sent));
    }

    fn on_lost(&mut self, number: usize) {
        let record = &mut self.records[number];
        if record.fate == Fate::InFlight {
            record.fate = Fate::Lost;
        }
        self.streams.on_lost(&mut record.sent);
    }

    /// Random news about random packets: acknowledged if it arrived, lost if it may have been.
    fn feedback(&mut self, rng: &mut Rng) {
        if self.records.is_empty() {
            return;
        }
        let number = rng.below(self.records.len() as u64) as usize;
        let (fate, arrived) = (self.records[number].fate, self.records[number].arrived);
        match rng.below(4) {
            0 if fate != Fate::Acked => self.on_lost(number),
            1..=3 if arrived => self.on_acked(number),
            2 if fate == Fate::InFlight => self.on_lost(number),
            _ => {}
        }
    }

    fn check_bounds(&self) {
        let stats = self.streams.stats();
        assert!(stats.send_buffered <= self.config.send_buffer);
        assert!(stats.receive_buffered <= self.config.receive_window);
        assert!(self.streams.writers.len() <= stats.open, "each writer waits once");
    }

    fn is_done(&self) -> bool {
        self.to_open == [0, 0]
            && self.writing.values().chain(self.reading.values()).all(|half| half.done)
            && self.streams.stats().open == 0
    }
}

fn config_strategy() -> impl Strategy<Value = StreamsConfig> {
    let limits = (1..600u64, 1..300u64, 1..300u64, 1..600u64, 1..4u64, 1..4u64);
    limits.prop_map(|(connection, stream, initial, send, bidi, uni)| StreamsConfig {
        receive_window: connection,
        stream_receive_window: stream,
        initial_stream_window: initial.min(stream),
        send_buffer: send,
        max_concurrent_bidi: bidi,
        max_concurrent_uni: uni,
    })
}

/// A phase of disorder, then orderly rounds until everything has arrived.
fn run(seed: u64, client: &StreamsConfig, server: &StreamsConfig, aborts: bool) {
    let mut rng = Rng(seed);
    let (mut a, mut b) = pair(client, server);
    let resets_at = rng.one_in(2);
    if resets_at {
        take_resets_at(&mut a, server);
        take_resets_at(&mut b, client);
    }
    let mut ends = [Endpoint::new(Side::Client, client, a), Endpoint::new(Side::Server, server, b)];
    // Packets under way: who receives it, its number, its payload.
    let mut wire: Vec<(usize, usize, Vec<u8>)> = Vec::new();
    let mut now = Instant::ORIGIN;
    for _ in 0..1_500 {
        let who = rng.below(2) as usize;
        let end = &mut ends[who];
        now += Duration::from_micros(rng.below(2_000));
        end.streams.note_network(Network { now, rtt: Duration::from_millis(10), need: rng.below(200) });
        match rng.below(10) {
            0 => end.open_and_accept(),
            1 => {
                end.write(&mut rng, 200, aborts);
                end.lower(&mut rng);
            }
            2 => end.read(&mut rng, 200, aborts),
            3..=5 => {
                wire.extend(end.send(&mut rng, true).map(|(number, payload)| (1 - who, number, payload)))
            }
            6 => end.feedback(&mut rng),
            7 if !wire.is_empty() => drop(wire.swap_remove(rng.below(wire.len() as u64) as usize)),
            _ if !wire.is_empty() => {
                let at = rng.below(wire.len() as u64) as usize;
                let (to, number, payload) =
                    if rng.one_in(4) { wire[at].clone() } else { wire.swap_remove(at) };
                receive(&mut ends[to].streams, &payload).unwrap();
                ends[1 - to].records[number].arrived = true;
            }
            _ => {}
        }
        ends[who].check_bounds();
    }
    for (to, number, payload) in wire {
        receive(&mut ends[to].streams, &payload).unwrap();
        ends[1 - to].records[number].arrived = true;
    }
    for _ in 0..50_000 {
        if ends.iter().all(Endpoint::is_done) {
            break;
        }
        orderly_round(&mut ends, &mut rng);
    }
    for end in &ends {
        let state = (&end.writing, &end.reading, end.to_open, end.streams.stats());
        assert!(end.is_done(), "{:?} is stuck: {state:?}", end.side);
        let delivered = end.writing.values().filter(|half| half.done && !half.aborted).count() as u64;
        assert!(aborts || end.finished == delivered, "every finished stream is reported once");
        let stats = end.streams.stats();
        assert_eq!((stats.send_buffered, stats.receive_buffered, stats.gaps), (0, 0, 0));
        assert_eq!(end.streams.sendable_bytes(), 0);
    }
    if resets_at {
        let [a, b] = &ends;
        check_promises(a, b);
        check_promises(b, a);
    }
}

/// Whoever reads a stream that was reset has got what was promised of it.
fn check_promises(from: &Endpoint, to: &Endpoint) {
    for (id, half) in from.writing.iter().filter(|(_, half)| half.promised > 0) {
        let reader = &to.reading[id];
        assert!(reader.stopped || reader.offset >= half.promised, "{id}: {half:?}, {reader:?}");
    }
}

/// Both sides do all they can, every packet arrives and is acknowledged; what was sent earlier and
/// did not is lost.
fn orderly_round(ends: &mut [Endpoint; 2], rng: &mut Rng) {
    for who in [0, 1] {
        let end = &mut ends[who];
        for number in 0..end.records.len() {
            match (end.records[number].fate, end.records[number].arrived) {
                (Fate::InFlight | Fate::Lost, true) => end.on_acked(number),
                (Fate::InFlight, false) => end.on_lost(number),
                _ => {}
            }
        }
        end.open_and_accept();
        end.write(rng, 1_000, false);
        while let Some((number, payload)) = ends[who].send(rng, false) {
            receive(&mut ends[1 - who].streams, &payload).unwrap();
            ends[who].records[number].arrived = true;
            ends[who].on_acked(number);
        }
        ends[who].records.clear();
        ends[1 - who].open_and_accept();
        ends[1 - who].read(rng, 1_000, false);
        ends[who].check_bounds();
    }
    for end in ends {
        end.open_and_accept();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn everything_arrives_once(seed: u64, client in config_strategy(), server in config_strategy()) {
        run(seed, &client, &server, false);
    }

    #[test]
    fn resets_and_stops_leave_nothing_behind(
        seed: u64,
        client in config_strategy(),
        server in config_strategy(),
    ) {
        run(seed, &client, &server, true);
    }
}
