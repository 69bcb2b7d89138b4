//! Packets in, report out.

use units::Instant;

use crate::{
    connection::{Connection, Noted},
    frame::{LinkLayer, Skipped, dissect},
    options::Options,
    report::{FileReport, Report, SentAgain, Tally},
    reservoir::Reservoir,
    retransmission::{Filled, Retransmission},
    segment::{Segment, TcpFlags},
    table::{Left, Table},
    what_if::{Outcome, Variant},
};

/// Follows the connections of one or more captures.
///
/// Feed it packets in the order of time with [`packet`](Self::packet), or whole files with
/// [`read_capture`](crate::read_capture); then [`finish`](Self::finish).
#[derive(Debug)]
pub struct Analyzer {
    options: Options,
    table: Table,
    tally: Tally,
    retransmissions: Reservoir<Retransmission>,
    filled: Reservoir<Filled>,
    outcomes: [Reservoir<Outcome>; 3],
}

impl Analyzer {
    /// An analysis that has seen nothing yet.
    pub fn new(options: Options) -> Self {
        let limits = options.limits;
        Self {
            options: Options { tail: options.tail.clamp(1, 100), ..options },
            table: Table::new(limits),
            tally: Tally::default(),
            retransmissions: Reservoir::new(limits.retransmissions),
            filled: Reservoir::new(limits.retransmissions),
            outcomes: Variant::ALL.map(|_| Reservoir::new(limits.mended_connections)),
        }
    }

    /// A captured packet: when, what there is of it, and how many bytes it had on the wire.
    pub fn packet(&mut self, at: Instant, link: LinkLayer, frame: &[u8], wire_bytes: u32) {
        self.tally.on_packet(at, wire_bytes);
        match dissect(link, frame, wire_bytes) {
            Ok(segment) => self.segment(&segment, at),
            Err(Skipped::NotTcp) => self.tally.packets.other += 1,
            Err(Skipped::Fragment) => self.tally.packets.fragments += 1,
            Err(Skipped::Unreadable) => self.tally.packets.unreadable += 1,
        }
    }

    /// A file was read, wholly or in part.
    pub(crate) fn file(&mut self, file: FileReport) {
        self.tally.files.push(file);
    }

    /// Ends all connections and draws the conclusions.
    pub fn finish(mut self) -> Report {
        let end = self.tally.last;
        while let Some(connection) = self.table.drain() {
            let left = if connection.is_under_way(end) { Left::UnderWay } else { Left::Over };
            self.finish_connection(connection, left);
        }
        let sampled = self.retransmissions.is_sample();
        let mut again = self.retransmissions.into_items();
        again.sort_by_key(|packet| packet.at);
        let mut filled = self.filled.into_items();
        filled.sort_by_key(|packet| packet.at);
        let lost = [0, 1, 2].map(|i| self.outcomes[i].seen());
        let outcomes = self.outcomes.map(Reservoir::into_items);
        let packets = SentAgain { again: &again, filled: &filled, sampled };
        Report::new(&self.options, self.tally, &packets, &outcomes, lost)
    }

    fn segment(&mut self, segment: &Segment, at: Instant) {
        self.tally.on_segment(segment);
        while let Some(connection) = self.table.expired(at) {
            self.finish_connection(connection, Left::Over);
        }
        let place = self.place(segment, at);
        let (limit, sample) = (self.options.limits.packets_per_direction.max(1), &mut self.retransmissions);
        let noted =
            self.table.connection(place).on_segment(segment, at, limit, &mut |found| sample.push(found));
        self.tally.on_noted(segment, noted);
        if let Some(filled) = noted.filled {
            self.filled.push(filled);
        }
        self.table.heard(place);
        while self.table.is_heavy() {
            let Some((connection, left)) = self.table.evict() else { break };
            self.finish_connection(connection, left);
        }
    }

    /// Where the segment's connection is; it is made if it is new.
    fn place(&mut self, segment: &Segment, at: Instant) -> usize {
        if let Some(place) = self.table.find(&segment.pair) {
            if !self.table.connection(place).is_succeeded_by(segment) {
                return place;
            }
            let connection = self.table.remove(place);
            self.finish_connection(connection, Left::Over);
        }
        if self.table.is_full()
            && let Some((connection, left)) = self.table.evict()
        {
            self.finish_connection(connection, left);
        }
        self.table.insert(Connection::new(segment.pair, at))
    }

    fn finish_connection(&mut self, connection: Connection, left: Left) {
        self.tally.on_finished(&connection, left);
        let sample = &mut self.retransmissions;
        let cut = left != Left::Over;
        let outcome = connection.finish(self.options.tail, cut, &mut |found| sample.push(found));
        self.tally.on_outcome(&outcome);
        let lost = [outcome.syn, outcome.push, outcome.tail];
        for (sample, _) in self.outcomes.iter_mut().zip(lost).filter(|(_, lost)| lost.is_some()) {
            sample.push(outcome);
        }
    }
}

impl Tally {
    fn on_packet(&mut self, at: Instant, wire_bytes: u32) {
        self.packets.total += 1;
        self.packets.bytes += u64::from(wire_bytes);
        let first = *self.first.get_or_insert(at);
        if at < first {
            self.first = Some(at);
        }
        if at + BACKWARDS < self.last {
            self.backwards += 1;
        }
        self.last = self.last.max(at);
    }

    fn on_segment(&mut self, segment: &Segment) {
        self.packets.tcp += 1;
        self.flags[usize::from(segment.flags.0)] += 1;
    }

    fn on_noted(&mut self, segment: &Segment, noted: Noted) {
        self.probes += u64::from(noted.probe);
        if !segment.occupies() || noted.probe {
            return;
        }
        self.packets.sequenced += 1;
        self.on_kind(noted);
        self.again += u64::from(noted.again);
        self.captured_twice += u64::from(noted.captured_twice);
        self.fillers += u64::from(noted.filler);
        self.lost_before += u64::from(noted.filled.is_some());
        self.forgotten += u64::from(noted.forgotten);
        if noted.distinct {
            for (mark, cost) in [(TcpFlags::SYN, 0), (TcpFlags::PSH, 1)] {
                if segment.flags.has(mark) {
                    self.costs[cost].packets += 1;
                    self.costs[cost].bytes += u64::from(segment.bytes);
                }
            }
        }
    }

    fn on_kind(&mut self, noted: Noted) {
        use crate::WiresharkKind::{Fast, OutOfOrder, Retransmission, Spurious};
        match noted.kind {
            Some(Retransmission) => self.wireshark.retransmission += 1,
            Some(Fast) => self.wireshark.fast += 1,
            Some(Spurious) => self.wireshark.spurious += 1,
            Some(OutOfOrder) => self.wireshark.out_of_order += 1,
            None => {}
        }
    }

    fn on_finished(&mut self, connection: &Connection, left: Left) {
        self.connections.total += 1;
        self.connections.paired += u64::from(connection.is_paired());
        self.connections.from_the_start += u64::from(connection.has_client());
        self.connections.closed += u64::from(connection.closed);
        self.connections.evicted += u64::from(left == Left::Evicted);
        let unanswered = connection.is_unanswered();
        self.connections.unanswered += u64::from(unanswered);
        for way in &connection.ways {
            let needless = way.needless.max(way.duplicate_sacks).min(way.retransmitted);
            self.needless += u64::from(needless);
            self.duplicate_sacks += u64::from(way.duplicate_sacks);
            if unanswered {
                self.unanswered_again += u64::from(way.retransmitted);
                self.unanswered_needless += u64::from(needless);
            }
        }
    }

    fn on_outcome(&mut self, outcome: &Outcome) {
        self.costs[2].packets += outcome.tail_cost.0;
        self.costs[2].bytes += outcome.tail_cost.1;
        if outcome.began_captured && outcome.syn.is_some() {
            self.lost_syn_from_the_start += 1;
        }
    }
}

/// A packet that is earlier than the one before by more than this is noted: captures may be in the
/// wrong order.
const BACKWARDS: units::Duration = units::Duration::from_secs(1);
