//! Packets with deadlines that travel with a streaming code (scheme 3, docs/wire-format.md).
//!
//! [`recovery::streaming`] decides how many symbols leave while a packet is of use, and spreads them;
//! here each is made from the window of the moment: the latest packets of the path and of one priority
//! that nobody has reported, and that a symbol can still rebuild in time.

mod window;

use recovery::{
    in_time::Way,
    streaming::{Allowance, Lane, Window},
};
use smallvec::SmallVec;
use units::{Duration, Instant};

use super::ASK_AGAIN;
use crate::{
    PacketPurpose, PathSnapshot,
    connection::{Connection, packet::Built},
    wire::{CodeScheme, PathId, RepairHeader, Runs},
};
use window::Class;
pub(super) use window::Member;

/// What is wanted of a frame is wanted of so many packets together.
const PACKETS_PER_FRAME: f64 = 8.0;
/// Priorities that are told apart; packets of others go with the lowest of these.
const MAX_CLASSES: usize = 4;

/// The packets of one path, and what is due for them.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The highest priority first.
    classes: Vec<Class>,
    /// Symbols are numbered through the life of the path.
    next_symbol: u64,
    /// It has other packets than when it was decided about.
    has_changed: bool,
}

impl Stream {
    /// A packet has left that repair is of use to.
    pub(super) fn on_packet(&mut self, now: Instant, priority: i32, member: Member) {
        let place = self.classes.partition_point(|class| class.priority > priority);
        let is_there = self.classes.get(place).is_some_and(|class| class.priority == priority);
        if !is_there && self.classes.len() < MAX_CLASSES {
            self.classes.insert(place, Class::new(priority));
        }
        let last = self.classes.len() - 1;
        self.classes[place.min(last)].push(now, member);
        self.has_changed = true;
    }

    /// Keeps the packets that are wanted and that repair is still of use to.
    pub(super) fn prune(&mut self, now: Instant, is_wanted: impl Fn(u64) -> bool) {
        self.classes.iter_mut().for_each(|class| class.prune(now, &is_wanted));
    }

    /// When it wants to be woken.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        self.classes.iter().filter_map(Class::wakes_at).min()
    }

    /// Takes note of the time.
    pub(super) fn on_deadline(&mut self, now: Instant) {
        self.classes.iter_mut().for_each(|class| class.on_deadline(now));
    }

    /// Whether anything is to be decided or sent.
    pub(super) fn has_work(&self) -> bool {
        self.has_changed || self.classes.iter().any(Class::is_due)
    }
}

impl Connection {
    /// Sends the next symbol that is due and has a path with room; `Some` is that path.
    pub(super) fn send_streams(
        &mut self,
        now: Instant,
        snapshots: &[PathSnapshot],
        out: &mut Vec<u8>,
    ) -> Option<PathId> {
        let ids: SmallVec<[PathId; 4]> = self.repair.in_time.streams.keys().copied().collect();
        for of in ids {
            let stream = self.repair.in_time.pruned_stream(now, of)?;
            let classes = stream.classes.len();
            if core::mem::take(&mut stream.has_changed) {
                self.plan_stream(now, of, snapshots);
            }
            for at in 0..classes {
                let sent = self.send_symbol_if_due(now, (of, at), snapshots, out);
                if sent.is_some() {
                    return sent;
                }
            }
        }
        None
    }

    /// Decides how many symbols leave for each priority, and where.
    fn plan_stream(&mut self, now: Instant, of: PathId, snapshots: &[PathSnapshot]) {
        let ways = self.ways(now, of, false, snapshots);
        let fastest = ways.iter().map(|(_, way)| way.one_way).min().unwrap_or(Duration::ZERO);
        let own = snapshots.iter().find(|path| path.id == of);
        let Some(stream) = self.repair.in_time.streams.get_mut(&of) else { return };
        let mut allowance = Allowance::of(stream.classes.iter().map(Class::bytes).sum());
        for class in &mut stream.classes {
            let (Some(own), Some(latest)) = (own, class.latest()) else {
                class.rest(now);
                continue;
            };
            let window = Window { packets: class.packets(), loss: own.history.model() };
            let target = class.may_miss() / PACKETS_PER_FRAME;
            // The latest moment was that of the fastest way.
            let in_time = |way: &Way| now + way.one_way <= latest + fastest;
            let best = ways
                .iter()
                .filter(|(_, way)| in_time(way))
                .map(|(on, way)| {
                    let lane = if *on == of { Lane::Same } else { Lane::Other(way.loss) };
                    (class.wanted(*on, window, lane, target), way.one_way, *on)
                })
                .min();
            match best {
                Some((wanted, _, on)) => {
                    class.plan(now, allowance.grant(wanted, class.symbol_len()), (on, on == of));
                }
                None => class.rest(now),
            }
        }
    }

    fn send_symbol_if_due(
        &mut self,
        now: Instant,
        (of, at): (PathId, usize),
        snapshots: &[PathSnapshot],
        out: &mut Vec<u8>,
    ) -> Option<PathId> {
        let class = self.repair.in_time.streams.get_mut(&of)?.classes.get_mut(at)?;
        if !class.is_due() {
            return None;
        }
        let on = class.on;
        match snapshots.iter().find(|path| path.id == on && path.usable) {
            _ if class.packets() == 0 => {
                class.rest(now);
                return None;
            }
            // Its path is not to be used any more. What is due leaves on another: as long as it is, no deadline wakes
            // the connection for it.
            None => {
                self.plan_stream(now, of, snapshots);
                return self.send_symbol_if_due(now, (of, at), snapshots, out);
            }
            Some(path) if !path.has_window() => {
                class.wait(now + ASK_AGAIN);
                return None;
            }
            Some(path) if !path.pacing_wait.is_zero() => {
                self.wait_for_pacer(now, on, path.pacing_wait);
                return None;
            }
            Some(_) => {}
        }
        let sent = self.send_symbol(now, (of, at), on, out);
        let class = self.repair.in_time.streams.get_mut(&of)?.classes.get_mut(at)?;
        if class.on_symbol(now) {
            self.plan_stream(now, of, snapshots);
        }
        sent.map(|_| on)
    }

    /// Makes a symbol over the window, without its oldest packets if their names need too much room.
    fn send_symbol(
        &mut self,
        now: Instant,
        (of, at): (PathId, usize),
        on: PathId,
        out: &mut Vec<u8>,
    ) -> Option<Built> {
        let mut builder = self.begin_full(on, out)?;
        let (start, books) = (out.len(), &self.repair.in_time);
        let stream = books.streams.get(&of)?;
        let most = usize::from(self.repair.block_limits().k_max.max(1));
        let numbers = stream.classes.get(at)?.within(fec::window::SPAN);
        let mut sources: Vec<(u64, &[u8])> = numbers
            .filter_map(|number| Some((number, books.get((of, number))?.payload.as_slice())))
            .collect();
        sources.drain(..sources.len().saturating_sub(most));
        let symbol_id = stream.next_symbol;
        while !sources.is_empty() {
            let bytes: Vec<&[u8]> = sources.iter().map(|(_, bytes)| *bytes).collect();
            let symbol_len = fec::symbol_len(&bytes);
            let scheme = CodeScheme::Window;
            let header = RepairHeader { path: of, scheme, repair_count: 1, symbol_id, symbol_len };
            let members = Runs::new(sources.iter().map(|(number, _)| *number));
            if out.len() + header.encoded_len(members.clone()) + symbol_len > builder.limit {
                let oldest = members.clone().next().map_or(1, |run| run.end() - run.start() + 1);
                sources.drain(..(oldest as usize).min(sources.len()));
                continue;
            }
            header.encode(members, out);
            let at = out.len();
            out.resize(at + symbol_len, 0);
            if fec::window::encode(&sources, symbol_id, &mut out[at..]).is_err() {
                out.truncate(start);
            }
            break;
        }
        builder.ack_eliciting = true;
        let built = self.finish_packet(now, builder, PacketPurpose::Repair, out)?;
        self.repair.in_time.streams.get_mut(&of)?.next_symbol += 1;
        self.count_in_time(PacketPurpose::Repair, built.size as u64);
        Some(built)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::books::Guarded, *};
    use crate::connection::tests::connected_client;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + MS * ms
    }

    #[test]
    fn priorities_are_few_and_have_windows_of_their_own() {
        let mut stream = Stream::default();
        for (number, priority) in [(0, 1), (1, 5), (2, 3), (3, 5), (4, -1), (5, 9), (6, 4), (7, -7)] {
            stream.on_packet(at(0), priority, Member { number, len: 100, latest: at(90), may_miss: 2e-3 });
        }
        let view = |stream: &Stream| -> Vec<(i32, Vec<u64>)> {
            stream.classes.iter().map(|class| (class.priority, class.within(192).collect())).collect()
        };
        assert_eq!(
            view(&stream),
            [(5, vec![1, 3, 5]), (3, vec![2, 6]), (1, vec![0]), (-1, vec![4, 7])],
            "four of them; others go with the next lower one, or the lowest"
        );
        stream.prune(at(0), |number| number != 3);
        assert_eq!(view(&stream)[0], (5, vec![1, 5]));
        stream.prune(at(91), |_| true);
        assert!(view(&stream).iter().all(|(_, numbers)| numbers.is_empty()), "too late for repair");
    }

    /// Until something else woke the connection, it waited for a path that has stopped answering.
    #[test]
    fn a_symbol_that_is_due_leaves_at_once_on_another_path_than_planned() {
        let (mut client, _) = connected_client();
        let (of, silent) = (PathId::ZERO, PathId(1));
        let payload = b"plaintext".to_vec();
        let member = Member { number: 0, len: payload.len(), latest: at(90), may_miss: 2e-3 };
        let packet = Guarded::new(at(0), (at(100), 0, 2e-3), SmallVec::new(), payload, MS * 50);
        client.repair.in_time.insert((of, 0), packet, None);
        let stream = client.repair.in_time.streams.get_or_default(of);
        stream.on_packet(at(0), 0, member);
        stream.classes[0].plan(at(0), 16, (silent, false));
        let due = stream.wakes_at().unwrap();
        stream.on_deadline(due);
        assert!(stream.classes[0].is_due());
        let works = PathSnapshot::new(of, MS * 20, 1_200);
        let silent = PathSnapshot { usable: false, ..PathSnapshot::new(silent, MS * 20, 1_200) };
        let sent = client.send_symbol_if_due(due, (of, 0), &[works, silent], &mut Vec::new());
        assert_eq!(sent, Some(of));
    }
}
