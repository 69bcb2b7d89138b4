//! Corrective, or TCP-IR: for the packets sent in a time bin, one XOR packet follows a quarter of a
//! round trip later.
//!
//! FUSO section VI-A, CoFUSO section 6.2.1. The bin is half an RTT in one paper and a quarter in
//! the other (BASE-A1); at most 16 packets per block; the receiver repairs one loss per block and
//! says so, whereupon the sender reduces its window once, as for a mark.
//!
//! Coded packets are outside the sequence space and the window, and are not themselves repaired.
//! Each is as long as a full segment, though all of its block may be shorter.

use std::collections::VecDeque;

use units::{Duration, Instant};

use crate::{
    connection::{Connection, scheme::Scheme},
    segment::{Header, Segment, Words},
    transport::{Io, Timer},
};

/// RTT assumed before the first sample.
const UNKNOWN_RTT: Duration = Duration::from_millis(10);
/// Blocks that the receiver keeps; an older one is given up.
const MAX_BLOCKS: usize = 64;

/// Parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Corrective {
    /// Length of a bin in smoothed RTTs.
    pub ir_bin_rtt: f64,
    /// How long a coded packet waits behind its bin's last packet, in smoothed RTTs.
    pub delay_rtt: f64,
    /// Most packets of a block.
    pub block: u32,
}

impl Corrective {
    /// FUSO's: bins of half an RTT.
    pub const fn fuso() -> Self {
        Self { ir_bin_rtt: 0.5, delay_rtt: 0.25, block: 16 }
    }

    /// CoFUSO's: bins of a quarter of an RTT.
    pub const fn cofuso() -> Self {
        Self { ir_bin_rtt: 0.25, ..Self::fuso() }
    }
}

/// A run of segments `first..end` that one coded packet protects.
#[derive(Clone, Copy, Debug)]
struct Block {
    first: u32,
    end: u32,
    /// Open: when its bin is over. Closed: when its packet is due.
    at: Instant,
}

/// What a coded packet says: the XOR of segments `first..end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Coded {
    first: u32,
    end: u32,
}

impl Header for Coded {
    fn pack(&self) -> Words {
        [self.first, self.end, 0, 0, 0, 0]
    }

    fn unpack(words: &Words) -> Self {
        Self { first: words[0], end: words[1] }
    }
}

/// Both ends' state.
#[derive(Debug)]
pub(crate) struct State {
    parameters: Corrective,
    open: Option<Block>,
    due: VecDeque<Block>,
    /// Receiver: blocks whose coded packet is here and which miss more than one segment.
    waiting: VecDeque<Coded>,
}

impl State {
    pub(crate) fn new(parameters: Corrective) -> Self {
        Self { parameters, open: None, due: VecDeque::new(), waiting: VecDeque::new() }
    }

    fn rtt(conn: &Connection) -> Duration {
        let rtt = conn.smoothed_rtt(0);
        if rtt.is_zero() { UNKNOWN_RTT } else { rtt }
    }

    fn close(&mut self, conn: &Connection, io: &mut Io<'_>) {
        let Some(block) = self.open.take() else { return };
        let at = io.now() + Self::rtt(conn).mul_f64(self.parameters.delay_rtt);
        self.due.push_back(Block { at, ..block });
        io.set_timer(at, Timer::Scheme);
    }

    /// Repairs a block if exactly one segment is missing. True if the block needs nothing more.
    fn decode(conn: &mut Connection, io: &mut Io<'_>, block: Coded) -> bool {
        let receiver = &mut conn.subs[0].receiver;
        let mut missing = (block.first..block.end).filter(|seq| !receiver.has(*seq));
        let (seq, more) = (missing.next(), missing.next().is_some());
        if let (Some(seq), false) = (seq, more) {
            receiver.arrive(seq);
            receiver.note_repair();
            conn.count_repair(io);
        }
        !more
    }
}

impl Scheme for State {
    fn on_sent(&mut self, conn: &mut Connection, io: &mut Io<'_>, _sub: usize, seq: u32, again: bool) {
        if again {
            return;
        }
        let now = io.now();
        if self.open.is_some_and(|block| block.at <= now || block.end - block.first >= self.parameters.block)
        {
            self.close(conn, io);
        }
        match &mut self.open {
            Some(block) => block.end = seq + 1,
            None => {
                let at = now + Self::rtt(conn).mul_f64(self.parameters.ir_bin_rtt);
                self.open = Some(Block { first: seq, end: seq + 1, at });
                io.set_timer(at, Timer::Scheme);
            }
        }
    }

    fn on_timer(&mut self, conn: &mut Connection, io: &mut Io<'_>) {
        let now = io.now();
        if self.open.is_some_and(|block| block.at <= now) {
            self.close(conn, io);
        }
        while let Some(block) = self.due.front().copied().filter(|block| block.at <= now) {
            self.due.pop_front();
            let mss = conn.ends.tcp.mss;
            conn.send_extra(io, 0, mss, &Coded { first: block.first, end: block.end });
        }
    }

    fn on_extra(&mut self, conn: &mut Connection, io: &mut Io<'_>, segment: &Segment) {
        let before = conn.subs[0].receiver.next;
        let repaired = io.totals().repaired;
        let block = segment.header();
        if !Self::decode(conn, io, block) {
            self.waiting.push_back(block);
            if self.waiting.len() > MAX_BLOCKS {
                self.waiting.pop_front();
            }
        }
        if io.totals().repaired > repaired {
            conn.on_repaired_in_place(io, before);
        }
    }

    fn on_data(&mut self, conn: &mut Connection, io: &mut Io<'_>, segment: &Segment) {
        if !self.waiting.is_empty() {
            self.waiting.retain(|block| {
                !(block.first..block.end).contains(&segment.seq) || !Self::decode(conn, io, *block)
            });
        }
    }
}
