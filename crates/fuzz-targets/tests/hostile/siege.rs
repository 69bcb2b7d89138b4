//! [`Siege`]: a connection under attack by its peer, with everything counted.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use fuzz_targets::pair::{Pair, Settings, network};
use peak_alloc::PeakAlloc;
use proto::{
    Admission, Connection, ConnectionError, Event, PathId, RepairConfig, TransportConfig, TransportErrorCode,
    wire::{Frame, PacketKind},
};
use units::{Duration, Instant};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The allocator counts for the whole process: one scenario at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Events of the victim's clock within one call of [`Siege::pass`]: more would be a timer that
/// never rests.
const MAX_TIMEOUTS: u32 = 10_000;

/// Bytes of frames that the attacker puts into one packet.
pub const PAYLOAD: usize = 1_200;

/// Measures heap memory from its making on, of one scenario at a time.
pub struct Meter {
    before: usize,
    _turn: MutexGuard<'static, ()>,
}

impl Meter {
    /// Waits for its turn.
    pub fn start() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut meter = Self { before: 0, _turn: turn };
        meter.reset();
        meter
    }

    /// Counts from here on.
    pub fn reset(&mut self) {
        MEMORY.reset_peak_usage();
        self.before = MEMORY.current_usage();
    }

    /// The most bytes that were held at once.
    pub fn peak(&self) -> usize {
        MEMORY.peak_usage().saturating_sub(self.before)
    }

    /// Bytes held now.
    pub fn held(&self) -> usize {
        MEMORY.current_usage().saturating_sub(self.before)
    }
}

/// What went one way.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// UDP datagrams.
    pub datagrams: u64,
    /// Their payload bytes.
    pub bytes: u64,
}

impl Traffic {
    fn count(&mut self, size: usize) {
        self.datagrams += 1;
        self.bytes += size as u64;
    }
}

/// A connection whose peer attacks: it has the keys, sends what it likes, and reads nothing that it
/// is not told to.
pub struct Siege {
    /// Both ends.
    pub pair: Pair,
    /// What the attacker has sent.
    pub sent: Traffic,
    /// What the victim has sent.
    pub answered: Traffic,
    /// Why the victim gave the connection up, if it has.
    pub end: Option<ConnectionError>,
    /// The memory of both ends since the attack began; the attacker's own hardly changes.
    pub meter: Meter,
    victim_is_server: bool,
}

/// Limits that a test reaches quickly.
pub fn config() -> TransportConfig {
    TransportConfig {
        receive_window: 1 << 20,
        stream_receive_window: 1 << 20,
        initial_stream_window: Some(1 << 20),
        send_buffer: 1 << 20,
        max_concurrent_bidi: 100,
        max_concurrent_uni: 100,
        datagram_receive_buffer: 64 << 10,
        datagram_send_buffer: 64 << 10,
        max_paths: 4,
        repair: RepairConfig {
            decoder_memory: 256 << 10,
            source_memory: 256 << 10,
            ..RepairConfig::default()
        },
        ..TransportConfig::default()
    }
}

impl Siege {
    /// A server whose client attacks.
    pub fn of_server(config: &TransportConfig) -> Self {
        Self::new(&Settings::new(config.clone()), true)
    }

    /// A server whose client attacks before it is let in.
    pub fn of_door(config: &TransportConfig) -> Self {
        let admission = Some(Admission::default());
        Self::new(&Settings { admission, ..Settings::new(config.clone()) }, true)
    }

    /// A client whose server attacks.
    pub fn of_client(config: &TransportConfig) -> Self {
        Self::new(&Settings::new(config.clone()), false)
    }

    fn new(settings: &Settings, victim_is_server: bool) -> Self {
        let mut meter = Meter::start();
        let mut pair = Pair::new(settings);
        pair.run(Duration::from_secs(1));
        assert!(pair.is_up());
        pair.wire = VecDeque::new();
        meter.reset();
        let (sent, answered) = Default::default();
        Self { pair, sent, answered, end: None, meter, victim_is_server }
    }

    /// The end that is attacked.
    pub fn victim(&mut self) -> &mut Connection {
        self.pair.connection(self.victim_is_server).expect("it is there until the test ends")
    }

    /// The end that attacks; only to look at, or to have it know paths.
    pub fn attacker(&mut self) -> &mut Connection {
        self.pair.connection(!self.victim_is_server).expect("it is there until the test ends")
    }

    /// Sends a payload on path 0.
    pub fn send(&mut self, payload: &[u8]) {
        self.send_on(PathId::ZERO, 1, payload);
    }

    /// Sends a payload on a path, from or to that port of the client.
    pub fn send_on(&mut self, path: PathId, port: u16, payload: &[u8]) {
        let now = self.pair.now;
        let packet = self.attacker().seal_for_fuzzing(now, PacketKind::OneRtt, path, payload);
        let packet = packet.expect("the attacker knows the path and has the keys");
        self.sent.count(packet.len());
        self.pair.deliver(self.victim_is_server, network(port, self.victim_is_server), packet);
    }

    /// Sends frames, each encoded by a call of `encode` with its number, filling packets; after
    /// each packet the victim may answer.
    pub fn flood(&mut self, frames: u64, mut encode: impl FnMut(u64, &mut Vec<u8>)) {
        let mut payload = Vec::with_capacity(2 * PAYLOAD);
        for number in 0..frames {
            encode(number, &mut payload);
            if payload.len() >= PAYLOAD || number + 1 == frames {
                self.send(&payload);
                self.hear();
                payload.clear();
            }
            if self.end.is_some() {
                break;
            }
        }
    }

    /// Lets the victim send what it has to; the attacker takes no notice.
    pub fn hear(&mut self) {
        let (now, mut out) = (self.pair.now, Vec::new());
        let peer = self.pair.peer(self.victim_is_server);
        let (handle, connection) = peer.connection.as_mut().expect("it is there until the test ends");
        loop {
            while let Some(event) = connection.poll_endpoint_event() {
                peer.endpoint.handle_event(*handle, event);
            }
            out.clear();
            let Some(transmit) = connection.poll_transmit(now, 10, &mut out) else { break };
            for datagram in out.chunks(transmit.segment_size.unwrap_or(transmit.size)) {
                self.answered.count(datagram.len());
            }
        }
        while let Some(event) = connection.poll_event() {
            if let Event::ConnectionLost(error) = event {
                assert!(self.end.replace(error).is_none(), "lost twice");
                peer.lost = true;
            }
        }
    }

    /// Time passes for the victim, while the attacker is silent and deaf.
    pub fn pass(&mut self, time: Duration) {
        let end = self.pair.now + time;
        let mut timeouts = 0;
        loop {
            self.hear();
            let next = self.victim().poll_timeout().filter(|next| *next <= end);
            let Some(next) = next else { break };
            timeouts += 1;
            assert!(timeouts < MAX_TIMEOUTS, "a timer never rests");
            self.pair.now = self.pair.now.max(next);
            let now = self.pair.now;
            self.victim().handle_timeout(now);
        }
        self.pair.now = end;
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.pair.now
    }

    /// The victim closed the connection with this code.
    pub fn assert_closed_with(&self, code: TransportErrorCode) {
        match &self.end {
            Some(ConnectionError::TransportError(error)) => assert_eq!(error.code, code, "{error}"),
            other => panic!("not closed with {code:?}: {other:?}"),
        }
    }

    /// The victim bears it.
    pub fn assert_open(&mut self) {
        assert_eq!(self.end, None);
        assert!(!self.victim().is_closed());
    }

    /// The most heap that the attack took is at most `limit` bytes.
    pub fn assert_memory(&self, limit: usize) {
        let peak = self.meter.peak();
        assert!(peak <= limit, "the attack took {peak} bytes at its peak, more than {limit}");
    }

    /// The same, beside what the configuration gives to decoding: packets are kept as source
    /// symbols.
    pub fn assert_memory_beside_decoder(&self, limit: usize) {
        self.assert_memory(limit + config().repair.decoder_memory as usize * 5 / 4);
    }

    /// The victim has sent at most `per_datagram` datagrams for each that it got, and `more`.
    pub fn assert_answers(&self, per_datagram: u64, more: u64) {
        let limit = self.sent.datagrams * per_datagram + more;
        assert!(self.answered.datagrams <= limit, "{:?} for {:?}", self.answered, self.sent);
    }
}

/// A payload of these frames.
pub fn frames<'a>(frames: impl IntoIterator<Item = Frame<'a>>) -> Vec<u8> {
    let mut payload = Vec::new();
    for frame in frames {
        frame.encode(&mut payload);
    }
    payload
}
