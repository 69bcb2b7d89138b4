//! Forward error correction as others do it: a fixed code rate, over blocks or sliding windows of a
//! flow's segments, or over a whole message spread over several sub-flows.
//!
//! | code                 | after                                 | coded packets                                  |
//! |----------------------|---------------------------------------|------------------------------------------------|
//! | [`Code::Block`]      | k segments, and at the end of data    | r over those k, or fewer                       |
//! | [`Code::Window`]     | every n-th segment                    | one over the last w that are un-acknowledged   |
//! |                      | the end of data                       | one for each n of those                        |
//! | [`Code::Message`]    | the end of data                       | a share of the message's segments, over all of it |
//!
//! The first is the block code of draft-michel-quic-fec (Reed-Solomon or XOR over a source block);
//! the second its convolutional one and that of FlEC (Michel and others, "FlEC: Enhancing QUIC with
//! Application-Tailored Reliability Mechanisms", IEEE/ACM ToN 2022), whose window is what is
//! un-acknowledged and which protects the end of a burst more; the third is CloudBurst (Zeng and
//! others, "Optimizing Tail Latency in Commodity Datacenters using Forward Error Correction", 2021),
//! which spreads a message's packets over all paths and needs the first that arrive.
//!
//! Coded packets are segments of their sub-flow: inside its window, acknowledged, and lost like
//! others. What is sent next has room before new data, as repair symbols of these drafts are queued
//! when their block is complete. What was rebuilt is delivered; the sub-flow below still sees a loss
//! and sends the segment again, as drafts ask congestion control to (they spare the retransmission:
//! a departure that costs bandwidth, not time).
//!
//! # Bounds
//! `MAX_DUE` runs whose coded packets wait for room; the receiver as `span_decoder`. A coded packet combines
//! at most `MAX_SPAN` segments: of a longer message only its end is coded.

use std::collections::VecDeque;

use super::{
    Mptcp,
    span_decoder::{MAX_SPAN, SpanDecoder},
};
use crate::{
    connection::{Connection, scheme::Scheme},
    segment::{Header, PARITY, Segment, Words},
    transport::Io,
};

/// Most runs whose coded packets wait for room; of one more, the oldest is given up.
const MAX_DUE: usize = 64;

/// Which segments are coded, and when.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Code {
    /// `repair` coded packets for `size` segments.
    Block {
        /// k.
        size: u32,
        /// r.
        repair: u32,
    },
    /// One coded packet for `every` segments, over the last `size`.
    Window {
        /// w.
        size: u32,
        /// n.
        every: u32,
    },
    /// Coded packets for a whole message.
    Message {
        /// Their share of the message's segments; at least one.
        share: f64,
    },
}

/// Parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QuicFec {
    /// The sub-flows, with a receiver that takes data of any of them at once, as QUIC's does.
    pub mptcp: Mptcp,
    /// The code.
    pub code: Code,
}

impl QuicFec {
    /// On one path.
    pub const fn new(code: Code) -> Self {
        Self { mptcp: Mptcp::new(1).with_early_delivery(), code }
    }
}

/// What a coded packet says: which data-level segments it combines, and its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Coded {
    first: u32,
    end: u32,
    number: u32,
}

impl Header for Coded {
    fn pack(&self) -> Words {
        [self.first, self.end, self.number, 0, 0, 0]
    }

    fn unpack(words: &Words) -> Self {
        Self { first: words[0], end: words[1], number: words[2] }
    }
}

/// A run of segments, and how many coded packets it is to have yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Due {
    first: u32,
    end: u32,
    packets: u32,
}

/// What is to be coded when segments up to `end` were sent, those from `fresh` on since the last
/// time, and those below `acknowledged` arrived; `last` if there are no more.
fn due(code: Code, (fresh, end): (u32, u32), acknowledged: u32, last: bool) -> Option<Due> {
    let new = end.saturating_sub(fresh);
    let run = |size: u32, packets| Due { first: end.saturating_sub(size), end, packets };
    match code {
        Code::Block { size, repair } if new >= size.max(1) || (last && new > 0) => {
            Some(run(new, repair.min(new)))
        }
        Code::Window { size, every } if last && new > 0 => {
            let size = size.min(end.saturating_sub(acknowledged)).max(1);
            Some(run(size, size.div_ceil(every.max(1))))
        }
        Code::Window { size, every } if new >= every.max(1) => {
            Some(run(size.min(end.saturating_sub(acknowledged)).max(1), 1))
        }
        Code::Message { share } if last && new > 0 => {
            let size = new.min(MAX_SPAN);
            Some(run(size, ((f64::from(size) * share).ceil() as u32).max(1)))
        }
        _ => None,
    }
}

/// Both ends' state.
#[derive(Debug)]
pub(crate) struct State {
    code: Code,
    /// First data-level segment that no coded packet has been made for.
    fresh: u32,
    /// End of the segments that were sent.
    end: u32,
    due: VecDeque<Due>,
    number: u32,
    /// The sub-flow that took the last coded packet.
    last_on: usize,
    decoder: SpanDecoder,
}

impl State {
    pub(crate) fn new(parameters: QuicFec) -> Self {
        Self {
            code: parameters.code,
            fresh: 0,
            end: 0,
            due: VecDeque::new(),
            number: 0,
            last_on: 0,
            decoder: SpanDecoder::default(),
        }
    }

    /// Plans what the code wants now.
    fn plan(&mut self, conn: &Connection, last: bool) {
        let acknowledged = conn.acknowledged() as u32;
        if let Some(due) = due(self.code, (self.fresh, self.end), acknowledged, last) {
            self.fresh = self.end;
            self.due.push_back(due);
            if self.due.len() > MAX_DUE {
                self.due.pop_front();
            }
        }
    }

    /// Sends what is due as far as there is room, on each sub-flow in turn.
    fn send_due(&mut self, conn: &mut Connection, io: &mut Io<'_>) {
        let (subs, mss) = (conn.subflows(), conn.ends.tcp.mss);
        while let Some(due) = self.due.front_mut() {
            let mut in_turn = (1..=subs).map(|step| (self.last_on + step) % subs);
            let Some(on) = in_turn.find(|sub| conn.room(*sub) > 0) else { return };
            due.packets -= 1;
            let coded = Coded { first: due.first, end: due.end, number: self.number };
            if due.packets == 0 {
                self.due.pop_front();
            }
            (self.last_on, self.number) = (on, self.number + 1);
            conn.send_coded(io, on, mss, &coded);
        }
    }

    fn deliver(conn: &mut Connection, io: &mut Io<'_>, rebuilt: &[u32]) {
        for dsn in rebuilt {
            conn.deliver(io, *dsn, true);
        }
    }
}

impl Scheme for State {
    fn on_sent(&mut self, conn: &mut Connection, io: &mut Io<'_>, sub: usize, seq: u32, again: bool) {
        let Some(sent) = conn.outstanding(sub, seq).copied() else { return };
        if again || sent.dsn < self.end || sent.dsn == u32::MAX {
            return;
        }
        self.end = sent.dsn + 1;
        self.plan(conn, false);
        self.send_due(conn, io);
    }

    fn on_ack(&mut self, conn: &mut Connection, io: &mut Io<'_>, _sub: usize) {
        self.send_due(conn, io);
    }

    fn on_opportunity(&mut self, conn: &mut Connection, io: &mut Io<'_>) {
        self.plan(conn, true);
        self.send_due(conn, io);
    }

    fn on_data(&mut self, conn: &mut Connection, io: &mut Io<'_>, segment: &Segment) {
        let mut rebuilt = Vec::new();
        if segment.has(PARITY) {
            let Coded { first, end, number } = segment.header();
            self.decoder.add(number, (first, end), |dsn| conn.has_delivered(dsn), &mut rebuilt);
        } else {
            self.decoder.learn(segment.dsn, &mut rebuilt);
        }
        Self::deliver(conn, io, &rebuilt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u32, end: u32, packets: u32) -> Option<Due> {
        Some(Due { first, end, packets })
    }

    #[test]
    fn a_block_is_coded_when_it_is_full_or_the_data_end() {
        let code = Code::Block { size: 10, repair: 2 };
        assert_eq!(due(code, (0, 9), 0, false), None);
        assert_eq!(due(code, (0, 10), 0, false), run(0, 10, 2));
        assert_eq!(due(code, (10, 13), 5, true), run(10, 13, 2));
        assert_eq!(due(code, (10, 11), 5, true), run(10, 11, 1), "one segment needs no two");
        assert_eq!(due(code, (11, 11), 5, true), None);
    }

    #[test]
    fn a_window_slides_over_what_is_not_acknowledged() {
        let code = Code::Window { size: 20, every: 5 };
        assert_eq!(due(code, (0, 4), 0, false), None);
        assert_eq!(due(code, (0, 5), 0, false), run(0, 5, 1));
        assert_eq!(due(code, (25, 30), 3, false), run(10, 30, 1));
        assert_eq!(due(code, (25, 30), 27, false), run(27, 30, 1));
        assert_eq!(due(code, (30, 31), 19, true), run(19, 31, 3), "twelve in flight at the end: three");
    }

    #[test]
    fn a_message_is_coded_as_a_whole_at_its_end() {
        let code = Code::Message { share: 0.2 };
        assert_eq!(due(code, (0, 12), 0, false), None);
        assert_eq!(due(code, (0, 12), 0, true), run(0, 12, 3));
        assert_eq!(due(code, (0, 1), 0, true), run(0, 1, 1));
        assert_eq!(due(code, (0, 1_000), 0, true), run(745, 1_000, 51), "a long one: its end");
    }

    #[test]
    fn a_coded_packets_header_survives_its_packing() {
        let coded = Coded { first: 70_000, end: 70_020, number: 9 };
        assert_eq!(Coded::unpack(&coded.pack()), coded);
    }
}
