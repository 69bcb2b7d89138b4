//! The repair extension: source symbols that are kept, repair symbols that are sent, and the
//! decoder (docs/wire-format.md).
//!
//! A source symbol is the exact plaintext of one packet. The sender keeps those of un-ACKed packets
//! while a coding scheme is in use, or what makes them with the bytes that streams hold; the receiver
//! keeps those that arrived recently. Both have a limit in bytes, and what does not fit is not
//! protected, which is counted.

mod blocks;
mod copy;
mod counters;
mod credit;
mod decoder;
mod flight_copy;
mod in_time;
mod late_copy;
mod opportunity;
mod rebuilt;
mod source_log;
mod symbols;

use units::Instant;

use crate::{
    by_path::ByPath,
    policy::{Coding, RecoveryEvent, RecoveryKind, RecoveryPolicy, RepairConfig, Terms},
    stats::{ConnectionStats, RecoveryReasons},
    wire::{CodeSchemes, PathId, RepairParameters},
};
use blocks::Blocks;
pub(super) use blocks::Next;
pub(crate) use decoder::Decoder;
use flight_copy::FlightCopy;
use in_time::BooksIfAny;
use symbols::EncodedBlock;
#[cfg(feature = "fuzzing")]
pub(crate) use symbols::receiver::Rebuilt;

/// Room that data packets leave, so that a REPAIR frame over them fits a packet of the same size:
/// type 4, path id 4, scheme and count 2, symbol id 2, symbol length 2 and the virtual symbol's
/// length prefix 2 bytes; the rest is for the members: 8 bytes for the first number and 2 for each
/// end of a run.
const HEADROOM: usize = 48;

/// Both directions of the extension for one connection.
pub(crate) struct Repair {
    config: RepairConfig,
    peer: Option<RepairParameters>,
    /// Buffers of plaintexts that are not in use.
    free: Vec<Vec<u8>>,
    kept_bytes: u64,
    /// The block of un-ACKed packets of each path whose repair symbols are being sent.
    symbols: ByPath<EncodedBlock>,
    /// Blocks of new data.
    blocks: Blocks,
    pub(crate) decoder: Decoder,
    policy: Box<dyn RecoveryPolicy>,
    /// When the policy wants to be asked again.
    ask_at: Option<Instant>,
    flight_copy: FlightCopy,
    /// Packets with datagrams that have deadlines.
    in_time: BooksIfAny,
    /// Whether what is sent now may still be un-ACKed when spare window comes, so that its
    /// plaintext must be kept.
    keep_sources: bool,
}

impl Repair {
    pub(crate) fn new(config: &RepairConfig, recovery: RecoveryKind) -> Self {
        let terms = Terms { repair: config, decodes: CodeSchemes::NONE };
        Self {
            decoder: Decoder::new(config.decoder_memory, config.k_max),
            config: config.clone(),
            peer: None,
            free: Vec::new(),
            kept_bytes: 0,
            symbols: ByPath::new(),
            blocks: Blocks::default(),
            policy: (recovery.scheme().build)(&terms).policy,
            ask_at: None,
            flight_copy: FlightCopy::default(),
            in_time: BooksIfAny::default(),
            keep_sources: true,
        }
    }

    /// The handshake has told what the peer decodes: the scheme begins. Returns how it makes do if
    /// that is not what it needs.
    pub(super) fn begin(&mut self, recovery: RecoveryKind) -> Option<&'static str> {
        let terms = Terms { repair: &self.block_limits(), decodes: self.decodable() };
        let built = (recovery.scheme().build)(&terms);
        self.policy = built.policy;
        built.instead
    }

    // ---- the policy

    /// Tells the policy what has happened.
    pub(super) fn on_event(&mut self, now: Instant, event: &RecoveryEvent) {
        self.policy.on_event(now, event);
    }

    /// What the policy did, and why.
    pub(super) fn reasons(&self) -> RecoveryReasons {
        self.policy.reasons()
    }

    /// When recovery wants to send, or to be asked again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        [self.ask_at, self.flight_copy.due, self.policy.deadline(), self.in_time.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Takes note of deadlines that have passed, but for the flight's copy.
    pub(super) fn on_deadline(&mut self, now: Instant) {
        if self.ask_at.is_some_and(|at| at <= now) {
            self.ask_at = None;
        }
        if self.policy.deadline().is_some_and(|at| at <= now) {
            self.policy.on_event(now, &RecoveryEvent::Deadline);
        }
        if self.in_time.deadline().is_some_and(|at| at <= now) {
            for buffer in self.in_time.on_deadline(now) {
                self.recycle(buffer);
            }
        }
    }

    /// A packet with datagrams that have deadlines was declared lost.
    pub(super) fn on_timed_lost(&mut self, path: PathId, number: u64) {
        self.in_time.on_lost((path, number));
    }

    /// A path is closed: what it has not delivered of datagrams with deadlines is repaired over others.
    pub(super) fn on_path_closed(&mut self, path: PathId) {
        if self.follows_datagrams() {
            self.in_time.on_path_closed(path);
        }
    }

    /// Whether the scheme sees to it that datagrams arrive before their deadlines.
    pub(super) fn follows_datagrams(&self) -> bool {
        self.policy.keeps_deadlines().is_some()
    }

    /// Whether the plaintext of the next packet with data is kept.
    pub(super) fn keeps_sources(&self) -> bool {
        self.keep_sources && self.policy.coding() != Coding::Nothing
    }

    /// Whether it is coded only when there is spare window, if ever: what a stream holds until then need not be
    /// kept beside it.
    pub(super) fn codes_later(&self) -> bool {
        self.policy.coding() == Coding::Unacked
    }

    // ---- source symbols

    pub(crate) fn set_peer(&mut self, peer: &RepairParameters) {
        let ours = CodeSchemes::ALL.intersection(peer.schemes);
        let usable = !ours.is_empty() && peer.max_block.into_inner() > 0;
        self.peer = usable.then_some(*peer);
    }

    /// Our limits of blocks, within what the peer decodes.
    fn block_limits(&self) -> RepairConfig {
        let peer_max =
            self.peer.as_ref().map_or(u8::MAX, |p| u8::try_from(p.max_block.into_inner()).unwrap_or(u8::MAX));
        let decoder_memory = self.peer.as_ref().map_or(u64::MAX, |p| p.decoder_memory.into_inner());
        RepairConfig {
            k_max: self.config.k_max.min(peer_max),
            decoder_memory: self.config.decoder_memory.min(decoder_memory),
            ..self.config.clone()
        }
    }

    /// Whether the peer rebuilds packets from our repair symbols of any scheme.
    pub(crate) fn peer_decodes(&self) -> bool {
        self.peer.is_some()
    }

    /// The schemes of which it does.
    fn decodable(&self) -> CodeSchemes {
        self.peer.as_ref().map_or(CodeSchemes::NONE, |p| p.schemes)
    }

    /// Bytes that every data packet leaves free.
    pub(crate) fn headroom(&self) -> usize {
        if self.peer_decodes() { HEADROOM } else { 0 }
    }

    /// The same at most, as long as the handshake has not told whether the peer decodes.
    pub(crate) fn largest_headroom(&self) -> usize {
        if self.config.accept { HEADROOM } else { 0 }
    }

    /// Keeps a plaintext; `None` if the memory for source symbols is used up.
    pub(crate) fn keep(&mut self, plaintext: &[u8]) -> Option<Vec<u8>> {
        if self.kept_bytes + plaintext.len() as u64 > self.config.source_memory {
            return None;
        }
        let mut buffer = self.free.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(plaintext);
        self.kept_bytes += plaintext.len() as u64;
        Some(buffer)
    }

    /// Takes a kept plaintext back.
    pub(crate) fn recycle(&mut self, payload: Vec<u8>) {
        if payload.capacity() == 0 {
            return;
        }
        self.kept_bytes = self.kept_bytes.saturating_sub(payload.len() as u64);
        // Idle connections do not hold on to the buffers of their busiest moment.
        if self.free.len() < 64 {
            self.free.push(payload);
        }
    }

    /// Nothing has come or left for long, and nothing is un-ACKed.
    pub(super) fn rest(&mut self) {
        (self.free, self.symbols) = (Vec::new(), ByPath::new());
        self.decoder.rest();
        self.blocks.rest();
        self.in_time.rest();
    }

    /// The block whose repair symbols are being sent for `path`.
    pub(crate) fn block(&self, path: PathId) -> Option<&EncodedBlock> {
        self.symbols.get(&path)
    }

    /// Codes a new block, which replaces the path's last one.
    pub(crate) fn encode(&mut self, path: PathId, members: &[u64], sources: &[&[u8]], count: u8) -> bool {
        self.symbols.get_or_default(path).encode(members, sources, count)
    }

    pub(crate) fn forget_path(&mut self, path: PathId) {
        self.symbols.remove(&path);
        self.in_time.forget_path(path);
        self.decoder.forget_path(path);
    }

    pub(crate) fn fill_stats(&self, stats: &mut ConnectionStats) {
        let counters = self.decoder.counters();
        stats.timed = self.in_time.stats();
        stats.repair_symbols_received = counters.received;
        stats.repair_symbols_used = counters.used;
        stats.repair_symbols_wasted = counters.wasted;
        stats.repair_symbols_refused = counters.refused;
        stats.decoder_work = counters.work;
        stats.packets_rebuilt = counters.rebuilt;
        stats.decoder_memory = self.decoder.memory();
        stats.source_memory = self.kept_bytes;
        stats.decoder_memory_peak = counters.memory_peak;
    }
}
