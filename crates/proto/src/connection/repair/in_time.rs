//! Datagrams with deadlines: packets that carry them are followed, and what may not arrive in time
//! is repaired (docs/datagrams.md).
//!
//! [`recovery::in_time`] decides when to look after a packet and how much repair is enough; here
//! that is carried out. Repair leaves when nothing else waits, within the window and the pacer of
//! the path that carries it. A peer that decodes gets repair symbols, and an application there sees
//! every datagram once; another peer gets the datagrams again.

mod books;
mod stream;

use recovery::{
    gilbert::Gilbert,
    in_time::{self, AtRisk, Attend, Plan, Way},
};
use smallvec::SmallVec;
use units::{Duration, Instant};

use super::symbols::EncodedBlock;
use crate::{
    GRANULARITY, PacketPurpose, PathSnapshot,
    connection::{
        Connection,
        packet::{Built, PacketBuilder},
    },
    crypto::Level,
    path::{Path, snapshot::View},
    policy::StreamCode,
    wire::{CodeScheme, DatagramHeader, PathId, RepairHeader},
};
pub(crate) use books::BooksIfAny;
use books::{Fate, Guarded, Means, Name, Round};
use stream::Member;

/// How much more probably repair is lost on the path of what it repairs than elsewhere: losses come
/// together.
const SAME_PATH: f64 = 2.0;
/// The loss to expect of a path on which packets have not been heard of: it may be cut.
const SILENT_PATH: f64 = 0.5;
/// When a path without room in its window is looked at again if no ACK comes.
const ASK_AGAIN: Duration = Duration::from_millis(5);
/// Runs of packet numbers that the headroom of a packet can name (`HEADROOM`).
const MAX_RUNS: usize = 5;
/// Source and repair symbols of a block together, at most (GF(256)); a count of them fits a byte.
const MAX_SYMBOLS: u16 = 255;

impl Connection {
    // ---- following packets

    /// A packet is about to be sealed: what has to be kept of it if it carries datagrams with
    /// deadlines.
    pub(in crate::connection) fn guard(
        &mut self,
        now: Instant,
        builder: &mut PacketBuilder,
        plaintext: &[u8],
    ) -> Option<Guarded> {
        if builder.timed.is_empty() {
            return None;
        }
        let timed = core::mem::take(&mut builder.timed);
        if builder.level != Level::OneRtt || !self.repair.in_time.has_room() {
            self.repair.in_time.stats.unprotected += timed.len() as u64;
            return None;
        }
        let deadline = timed.iter().map(|datagram| datagram.deadline).min()?;
        let priority = timed.first()?.priority;
        let otherwise = self.repair.policy.keeps_deadlines().unwrap_or(1.0);
        let may_miss = timed.iter().map(|datagram| datagram.may_miss(otherwise)).fold(1.0, f64::min);
        let datagrams = timed.into_iter().map(|datagram| datagram.data).collect();
        let decodes = self.repair.decodable().contains(CodeScheme::ReedSolomon);
        let wanted = decodes && self.repair.policy.keeps_deadlines().is_some();
        let payload = if wanted { self.repair.keep(plaintext).unwrap_or_default() } else { Vec::new() };
        let max_ack_delay = self.peer_max_ack_delay();
        let path = self.paths.get(&builder.path)?;
        let answer = way(now, path, max_ack_delay, Duration::ZERO).answer;
        Some(Guarded::new(now, (deadline, priority, may_miss), datagrams, payload, answer))
    }

    /// The packet has left.
    pub(in crate::connection) fn follow_timed(&mut self, now: Instant, name: Name, packet: Guarded) {
        let attend = self.repair.policy.keeps_deadlines().and_then(|_| {
            let (usable, max_ack_delay) = (self.usable(), self.peer_max_ack_delay());
            let carries = |p: &&Path| usable(p) && p.may_carry_recovery();
            let ways: SmallVec<[Way; 4]> = self
                .paths
                .values()
                .filter(carries)
                .map(|path| way(now, path, max_ack_delay, Duration::ZERO))
                .collect();
            let own = way(now, self.paths.get(&name.0)?, max_ack_delay, Duration::ZERO);
            let attend = in_time::attend(now, packet.deadline, &own, &ways)?;
            Some((attend, in_time::latest(packet.deadline, now, &ways)?))
        });
        let streamed = attend.and_then(|(attend, latest)| match (self.repair.policy.stream_code(), attend) {
            (StreamCode::Always, _) | (StreamCode::Unanswered, Attend::Blind { .. }) => Some(latest),
            _ => None,
        });
        let decodes = self.repair.decodable().contains(CodeScheme::Window) && !packet.payload.is_empty();
        match streamed {
            Some(latest) if decodes => {
                let (priority, may_miss, len) = (packet.priority, packet.may_miss, packet.payload.len());
                self.repair.in_time.insert(name, packet, None);
                let stream = self.repair.in_time.streams.get_or_default(name.0);
                stream.on_packet(now, priority, Member { number: name.1, len, latest, may_miss });
            }
            _ => self.repair.in_time.insert(name, packet, attend.map(|(attend, _)| attend.as_block())),
        }
    }

    /// A packet was acknowledged. It arrived half a round trip after it was sent, as far as that
    /// can be known.
    pub(in crate::connection) fn on_timed_acked(&mut self, id: PathId, number: u64) {
        let Some(packet) = self.repair.in_time.get((id, number)) else { return };
        let Some(path) = self.paths.get(&id) else { return };
        let arrived = packet.sent_at + path.rtt().latest_adjusted() / 2;
        let buffer = self.repair.in_time.on_arrived((id, number), arrived, false);
        self.repair.recycle(buffer.unwrap_or_default());
    }

    /// The peer has told that repair of a packet has arrived: half a round trip ago.
    pub(in crate::connection) fn on_timed_mended(&mut self, now: Instant, id: PathId, number: u64) {
        if self.repair.in_time.is_empty() {
            return;
        }
        let fastest = self.paths.values().filter(|p| p.works()).map(|p| p.rtt().min()).min();
        let told_at = now.as_nanos().saturating_sub((fastest.unwrap_or(Duration::ZERO) / 2).as_nanos());
        let arrived = Instant::from_nanos(told_at);
        let buffer = self.repair.in_time.on_arrived((id, number), arrived, true);
        self.repair.recycle(buffer.unwrap_or_default());
    }

    /// When datagrams would arrive that leave now, at the earliest; zero as long as no path has
    /// been measured.
    pub(in crate::connection) fn earliest_arrival(&self, now: Instant) -> Instant {
        let usable = self.usable();
        let measured =
            self.paths.values().filter(|p| usable(p)).filter(|p| p.rtt().first_sample_at().is_some());
        now + measured.map(|p| p.rtt().min() / 2 + p.queue()).min().unwrap_or(Duration::ZERO)
    }

    // ---- repair

    /// Builds a packet of repair that is due, if there is one; `Some` is the path it is for.
    pub(in crate::connection) fn build_in_time(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<PathId> {
        if !self.repair.in_time.has_work() {
            return None;
        }
        let mut snapshots = core::mem::take(&mut self.scratch.snapshots);
        self.take_snapshots(now, View::Recovery, &mut snapshots);
        self.decide(now, &snapshots);
        self.repair.in_time.end_useless(now);
        let sent = self.send_due(now, &snapshots, out).or_else(|| self.send_streams(now, &snapshots, out));
        self.scratch.snapshots = snapshots;
        sent
    }

    /// Decides about the packets that are ready, path by path.
    fn decide(&mut self, now: Instant, snapshots: &[PathSnapshot]) {
        if self.repair.policy.keeps_deadlines().is_none() {
            return;
        }
        while let Some(&(of, _)) = self.repair.in_time.ready.first() {
            let ready = &mut self.repair.in_time.ready;
            let later = ready.split_off(&(PathId(of.0 + 1), 0));
            let names = core::mem::replace(ready, later);
            let max = usize::from(self.repair.block_limits().k_max).max(1);
            // Those with and those without a kept payload take different means.
            let (coded, plain): (Vec<Name>, Vec<Name>) = names
                .into_iter()
                .partition(|name| self.repair.in_time.get(*name).is_some_and(|p| !p.payload.is_empty()));
            for group in groups(&coded, max) {
                self.decide_group(now, of, group, true, snapshots);
            }
            for group in groups(&plain, max) {
                self.decide_group(now, of, group, false, snapshots);
            }
        }
    }

    fn decide_group(
        &mut self,
        now: Instant,
        of: PathId,
        names: &[Name],
        decodes: bool,
        snapshots: &[PathSnapshot],
    ) {
        let packets = || names.iter().filter_map(|name| self.repair.in_time.get(*name));
        // Of a path that is closed everything is lost, and there is nothing to expect of it.
        let own = snapshots.iter().find(|path| path.id == of);
        let silent = packets().any(|packet| packet.fate == Fate::Silent);
        let ways = self.ways(now, of, silent, snapshots);
        let only: SmallVec<[Way; 4]> = ways.iter().map(|(_, way)| *way).collect();
        // What is too late for repair must not hurry the others.
        let still = |packet: &&Guarded| in_time::latest(packet.deadline, now, &only).is_some();
        let Some(deadline) = packets().filter(still).map(|packet| packet.deadline).min() else { return };
        let lost = packets().filter(still).filter(|packet| packet.fate != Fate::Open).count();
        let in_flight = packets().filter(still).count() - lost;
        let target = packets().filter(still).map(|packet| packet.may_miss).fold(1.0, f64::min);
        let risk = AtRisk {
            deadline,
            lost: lost as u16,
            in_flight: in_flight as u16,
            loss: own.map_or_else(Gilbert::lossless, |own| own.history.model()),
            decodes,
        };
        let (way, symbols, interval) = match in_time::plan(now, &risk, &only, target) {
            Plan::Repair { way, symbols, interval } => (way, symbols, interval),
            Plan::Enough => {
                names.iter().for_each(|name| self.repair.in_time.wait_and_see(now, *name));
                return;
            }
            Plan::TooLate => return,
        };
        // The peer soon forgets a path that is closed, and does not rebuild its packets any more.
        let interval = if own.is_some() { interval } else { Duration::ZERO };
        let members: Vec<Name> = names
            .iter()
            .copied()
            .filter(|name| self.repair.in_time.get(*name).is_some_and(|p| still(&p)))
            .collect();
        let (on, way) = ways[way];
        // If nothing is heard after the last of it, the rest is decided about once more.
        let again = now + interval * u64::from(symbols.saturating_sub(1)) + way.answer;
        for name in &members {
            self.repair.in_time.attend(*name, (again <= deadline).then_some(again));
        }
        self.begin_round(of, on, &members, (symbols, interval), deadline, decodes);
    }

    fn begin_round(
        &mut self,
        of: PathId,
        on: PathId,
        names: &[Name],
        (symbols, interval): (u16, Duration),
        deadline: Instant,
        decodes: bool,
    ) {
        let members: Vec<u64> = names.iter().map(|(_, number)| *number).collect();
        let (means, first, count) = if decodes {
            let first = self.repair.in_time.take_symbols(names, symbols, MAX_SYMBOLS - names.len() as u16);
            let sources: Vec<&[u8]> = names
                .iter()
                .filter_map(|name| Some(self.repair.in_time.get(*name)?.payload.as_slice()))
                .collect();
            let mut block = EncodedBlock::default();
            if !block.encode(&members, &sources, (first + symbols) as u8) {
                return;
            }
            (Means::Symbols(block), first, first + symbols)
        } else {
            (Means::Copies, 0, symbols.saturating_mul(members.len() as u16))
        };
        let interval = if decodes { interval } else { interval / members.len().max(1) as u64 };
        let round = Round { of, members, means, on, next: first, count, interval, deadline, due: None };
        self.repair.in_time.begin(round);
    }

    /// The ways that repair of packets of `of` may take now.
    fn ways(
        &self,
        now: Instant,
        of: PathId,
        silent: bool,
        snapshots: &[PathSnapshot],
    ) -> SmallVec<[(PathId, Way); 4]> {
        let max_ack_delay = self.peer_max_ack_delay();
        let usable = snapshots.iter().filter(|path| path.usable && path.measured);
        usable
            .filter_map(|path| {
                let wait = if path.has_window() { path.pacing_wait } else { path.next_ack };
                let mut way = way(now, self.paths.get(&path.id)?, max_ack_delay, wait);
                way.loss = path.history.loss();
                if path.id == of {
                    way.loss = (way.loss * SAME_PATH).min(1.0);
                    way.loss = if silent { way.loss.max(SILENT_PATH) } else { way.loss };
                }
                Some((path.id, way))
            })
            .collect()
    }

    /// Sends the first packet of a round that is due and has a path with room.
    fn send_due(&mut self, now: Instant, snapshots: &[PathSnapshot], out: &mut Vec<u8>) -> Option<PathId> {
        let mut at = 0;
        while let Some(round) = self.repair.in_time.rounds.get(at) {
            let on = snapshots.iter().find(|path| path.id == round.on && path.usable);
            match on {
                _ if round.due.is_some() => {}
                Some(path) if !path.has_window() => {
                    self.repair.in_time.rounds[at].due = Some(now + ASK_AGAIN);
                }
                Some(path) if !path.pacing_wait.is_zero() => {
                    self.wait_for_pacer(now, path.id, path.pacing_wait);
                }
                Some(path) if now + path.rtt / 2 > round.deadline => {
                    self.repair.in_time.rounds.remove(at);
                    continue;
                }
                Some(path) => {
                    let id = path.id;
                    let sent = self.send_of_round(now, at, out);
                    let round = &mut self.repair.in_time.rounds[at];
                    round.next += 1;
                    round.due = (!round.interval.is_zero()).then(|| now + round.interval);
                    if sent.is_some() {
                        return Some(id);
                    }
                    if round.next < round.count {
                        continue;
                    }
                }
                None => {
                    self.dissolve_round(now, at);
                    continue;
                }
            }
            at += 1;
        }
        None
    }

    /// The path of a round has gone: its packets are decided about anew.
    fn dissolve_round(&mut self, now: Instant, at: usize) {
        let round = self.repair.in_time.rounds.remove(at);
        let names = round.members.iter().map(|number| (round.of, *number));
        let waits = |name: &Name| self.repair.in_time.get(*name).is_some();
        let names: Vec<Name> = names.filter(waits).collect();
        for name in names {
            self.repair.in_time.attend(name, Some(now + GRANULARITY));
        }
    }

    /// Sends the next packet of a round; `None` if it does not fit, or is of no use any more.
    fn send_of_round(&mut self, now: Instant, at: usize, out: &mut Vec<u8>) -> Option<Built> {
        let round = self.repair.in_time.rounds.get(at)?;
        let mut builder = self.begin_full(round.on, out)?;
        let start = out.len();
        let purpose = match &round.means {
            Means::Symbols(block) => {
                if let Some(symbol) = block.symbol(round.next as u8) {
                    let header = RepairHeader {
                        path: round.of,
                        scheme: CodeScheme::ReedSolomon,
                        repair_count: block.count(),
                        symbol_id: u64::from(round.next),
                        symbol_len: symbol.len(),
                    };
                    header.encode(block.members(), out);
                    out.extend_from_slice(symbol);
                }
                PacketPurpose::Repair
            }
            Means::Copies => {
                let member = round.members[usize::from(round.next) % round.members.len()];
                for data in self.repair.in_time.get((round.of, member)).iter().flat_map(|p| &p.datagrams) {
                    DatagramHeader { data_len: Some(data.len()) }.encode(out);
                    out.extend_from_slice(data);
                }
                builder.frames.copy_of = Some((round.of, member));
                PacketPurpose::Copy
            }
        };
        if out.len() > builder.limit {
            out.truncate(start);
        }
        builder.ack_eliciting = true;
        let built = self.finish_packet(now, builder, purpose, out)?;
        self.count_in_time(purpose, built.size as u64);
        Some(built)
    }

    fn count_in_time(&mut self, purpose: PacketPurpose, size: u64) {
        match purpose {
            PacketPurpose::Copy => self.stats.copies_sent += 1,
            _ => self.stats.repair_symbols_sent += 1,
        }
        self.stats.recovery_bytes_sent += size;
        let stats = &mut self.repair.in_time.stats;
        stats.recovery_packets_sent += 1;
        stats.recovery_bytes_sent += size;
    }
}

/// The packets, in ascending order, in groups that one block can hold and one frame can name.
fn groups(names: &[Name], max: usize) -> Vec<&[Name]> {
    let (mut groups, mut start, mut runs) = (Vec::new(), 0, 1);
    for at in 1..names.len() {
        runs += usize::from(names[at - 1].1 + 1 != names[at].1);
        if at - start == max || runs > MAX_RUNS {
            groups.push(&names[start..at]);
            (start, runs) = (at, 1);
        }
    }
    groups.extend((start < names.len()).then(|| &names[start..]));
    groups
}

/// A path as a way for repair that leaves after `wait`. The variation of its round-trip time is the
/// margin.
fn way(now: Instant, path: &Path, max_ack_delay: Duration, wait: Duration) -> Way {
    let (rtt, expected) = (path.rtt(), path.expected_rtt(now));
    let variance = rtt.variance().max(GRANULARITY);
    Way {
        // Whatever the round trip is longer than the shortest is a queue on the way there.
        one_way: wait + expected.saturating_sub(rtt.min() / 2) + variance,
        prompt: expected + variance * 2,
        answer: expected + expected / 8 + variance * 4 + max_ack_delay,
        loss: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DatagramOptions, connection::tests::connected_client};

    /// The header of a packet that has nothing in it would go out with the next one.
    #[test]
    fn a_round_without_another_symbol_leaves_nothing_behind() {
        let (mut client, _) = connected_client();
        let mut block = EncodedBlock::default();
        assert!(block.encode(&[0], &[b"plaintext".as_slice()], 1));
        client.repair.in_time.begin(Round {
            of: PathId::ZERO,
            members: vec![0],
            means: Means::Symbols(block),
            on: PathId::ZERO,
            next: 0,
            count: 2,
            interval: Duration::ZERO,
            deadline: Instant::ORIGIN + Duration::from_secs(1),
            due: None,
        });
        let mut out = Vec::new();
        assert!(client.send_of_round(Instant::ORIGIN, 0, &mut out).is_some());
        let before = out.clone();
        client.repair.in_time.rounds[0].next = 1;
        assert!(client.send_of_round(Instant::ORIGIN, 0, &mut out).is_none());
        assert_eq!(out, before);
    }

    /// A packet that is lost, over a path that loses some 3 % and has no time for a second answer.
    #[test]
    fn repair_is_sized_by_what_may_be_missed() {
        let symbols = |may_miss: &[f64]| {
            let (mut client, _) = connected_client();
            let names: Vec<Name> = (0..may_miss.len() as u64).map(|number| (PathId::ZERO, number)).collect();
            let deadline = Instant::ORIGIN + Duration::from_secs(1);
            for (name, may_miss) in names.iter().zip(may_miss) {
                let (when, payload) = ((deadline, 0, *may_miss), b"plaintext".to_vec());
                let mut packet =
                    Guarded::new(Instant::ORIGIN, when, SmallVec::new(), payload, Duration::ZERO);
                packet.fate = Fate::Lost;
                client.repair.in_time.insert(*name, packet, None);
            }
            let mut path = PathSnapshot::new(PathId::ZERO, Duration::from_millis(300), 1_200);
            for number in 0..1_000 {
                path.history.on_sent();
                if number % 33 == 0 {
                    path.history.on_lost(recovery::PacketNumber(number));
                }
            }
            client.decide_group(Instant::ORIGIN, PathId::ZERO, &names, true, &[path]);
            client.repair.in_time.rounds.iter().map(|round| round.count).sum::<u16>()
        };
        assert_eq!(symbols(&[2e-3]), 2, "one of which is lost with 6 %");
        assert_eq!(symbols(&[0.1]), 1);
        assert!(symbols(&[0.1, 2e-3]) > symbols(&[0.1, 0.1]), "the strictest counts");
    }

    #[test]
    fn the_strictest_datagram_of_a_packet_counts() {
        let (mut client, _) = connected_client();
        client.peer.max_datagram_frame_size = 1_200u16.into();
        for one_late_in in [1_000, 10] {
            let call =
                DatagramOptions::new().within(std::time::Duration::from_millis(150)).one_late_in(one_late_in);
            client.send_datagram_with(Instant::ORIGIN, b"frame".to_vec().into(), call).unwrap();
        }
        client.poll_transmit(Instant::ORIGIN, 1, &mut Vec::new()).unwrap();
        let (number, packet) = client.paths[&PathId::ZERO].sent().iter().next().unwrap();
        assert!(packet.frames.timed);
        let guarded = client.repair.in_time.get((PathId::ZERO, number)).unwrap();
        assert_eq!((guarded.datagrams.len(), guarded.may_miss), (2, 1e-3));
    }

    #[test]
    fn groups_fit_a_block_and_a_frame() {
        let names = |numbers: &[u64]| numbers.iter().map(|n| (PathId(0), *n)).collect::<Vec<_>>();
        let sizes = |numbers: &[u64], max| {
            groups(&names(numbers), max).iter().map(|group| group.len()).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&[], 10), [0; 0]);
        assert_eq!(sizes(&[1, 2, 3, 4, 5, 6, 7], 3), [3, 3, 1]);
        assert_eq!(sizes(&[1, 3, 5, 7, 9, 11, 12, 14], 100), [5, 3], "five runs are named");
    }
}
