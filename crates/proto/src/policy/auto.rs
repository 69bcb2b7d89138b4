//! `auto`: as much repair as makes it improbable that what is un-ACKed is not enough, in the form
//! that suits, within a budget.
//!
//! Ours. The papers' schemes repair by rule: a copy of everything as long as there is window
//! (FUSO), K x L symbols (CoFUSO), a copy of single packets (SLP). Here [`repair_size::plan`]
//! answers how much is needed, from the path's loss history and what is under way, and picks the
//! form:
//!
//! | what is un-ACKed and unprotected              | what is sent                                          | counted as |
//! | --- | --- | --- |
//! | probable enough to arrive as it is            | nothing                                               | `not_needed` |
//! | fits one packet (a lone packet always does)   | copies, so many that [`TARGET`] is met (as SLP)        | `single` |
//! | more, and the peer decodes                    | repair symbols over the block, so many (as CoFUSO)     | `block` |
//! | more, and it does not                         | one copy of each, oldest first (as FUSO)               | `uncoded` |
//! | either, without a decoder, and soon ACKed     | nothing before that ([`SOON`])                        | - |
//! | lost with its repair, on this path            | nothing, but for a trial now and then                 | `in_vain` |
//! | stuck on a path whose probe timer has fired   | all of it on another path, by the transport           | `moved` |
//! | the same, or all others are far slower        | copies between the probes                             | `after_silence` |
//!
//! Repair leaves on the path where it is expected earliest, a loss on the way counted with what it
//! would cost ([`arrival`]). That is another path than the packets' own unless the others are much
//! slower or worse. A much faster path whose window is full until the next ACK is waited for ([`room_soon`]).
//!
//! The flights of the handshake leave twice if SLP's arbiter says so: at once where the path is known to
//! lose packets, else as soon as an answer is late, which is long before a probe timeout. After a timeout, more
//! datagrams of them follow the probes.
//!
//! # Invariants
//! Repair never exceeds the budget ([`RepairBudget`]: 1 % of the data on a path without loss, and
//! an allowance per exchange), but for the copies after a probe timeout, and leaves only when nothing
//! else waits and a window has room.
//! Nothing is computed again while nothing has changed.

mod silence;

use recovery::{
    Exposed, PacketNumber, UnackedView,
    cofuso::{Block, MAX_BLOCK},
    repair_budget::RepairBudget,
    repair_size::{self, Exposure, Means, Protection},
    repair_yield::RepairYield,
    slp_arbiter::Conditions,
    slp_window::HANDSHAKE_GAP,
};
use smallvec::SmallVec;
use units::{Duration, Instant};

use super::{
    Built, Carried, CodeScheme, Coding, Flight, PathSnapshot, RecoveryAction, RecoveryEvent, RecoveryPolicy,
    RepairConfig, Scheme, SentData, StreamCode, Terms, paced,
};
use crate::{GRANULARITY, by_path::ByPath, stats::RecoveryReasons, wire::PathId};
use silence::{COPIES_AFTER_PROBES, COPIES_PER_ROUND_TRIP, SILENT_TIMEOUTS, Silence};

pub(super) const SCHEME: Scheme = Scheme { name: "auto", build };

fn build(terms: &Terms<'_>) -> Built {
    if terms.decodes.contains(CodeScheme::ReedSolomon) {
        Built::new(Auto::new(terms.repair, Coding::Unacked))
    } else {
        Built::instead(Auto::new(terms.repair, Coding::Nothing), "without symbols")
    }
}

/// The probability with which a block may stay incomplete: what counts is the 99th percentile, and
/// a response has several blocks.
const TARGET: f64 = 1e-3;
/// The probability with which datagrams that are repaired together may miss their deadline all the
/// same. Above what a path without loss is credited with for a frame of some packets, so that such a
/// path costs nothing.
const IN_TIME: f64 = 2e-3;
/// Most repair symbols of a block.
const MAX_SYMBOLS: u16 = 32;
/// How much more probably repair is lost on the path of what it repairs than elsewhere: losses come
/// together.
const SAME_PATH: f64 = 2.0;

/// Where the peer does not decode, so that repair means copies of everything, it waits for the ACK if that
/// takes no longer than this: nobody who looks at a page notices so much, a probe timeout is ten times as
/// long, and what has arrived needs none. Where a host close by is asked for thousands of things a second,
/// almost all of it has.
const SOON: Duration = Duration::from_millis(2);

/// The loss rate from which on a path is known to lose packets: each flight of a handshake leaves
/// twice. On others a flight leaves again when no answer has come.
const KNOWN_LOSS: f64 = 0.002;
/// How long an answer may take where nothing is known of the path, and how much longer than the
/// round-trip time at least where it has been measured.
const UNANSWERED: Duration = Duration::from_millis(100);
const LATE: Duration = Duration::from_millis(10);

#[derive(Debug)]
struct Auto {
    coding: Coding,
    k_max: u16,
    budget: RepairBudget,
    /// When the last packet with new data left.
    fresh_at: Instant,
    /// Nothing has waited to be sent since then.
    all_sent: bool,
    /// Since when repair waits for a faster path, as [`micros`]; zero if it does not. Every connection has it, and
    /// there is room for four bytes.
    waits_since: u32,
    watches: ByPath<Watch>,
    reasons: RecoveryReasons,
}

/// What is known and under way for one path's packets.
#[derive(Debug, Default)]
struct Watch {
    task: Option<Task>,
    /// The last exposure that nothing was done about, and why.
    left: Option<(Exposed, Left)>,
    /// What repair of the path's packets mends.
    mends: RepairYield,
    /// What is to follow the probes of its last timeout.
    silence: Silence,
}

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    NotNeeded,
    NoBudget,
    NoWindow,
    InVain,
    TooSoon,
}

/// What comes of looking at unprotected packets.
enum Plan {
    Nothing,
    /// Nothing before this moment.
    Wait(Instant),
    Repair(Task),
}

/// Repair that has been decided on.
#[derive(Clone, Copy, Debug)]
enum Task {
    /// The block's symbols from `next` on.
    Symbols { block: Block, next: u16 },
    /// Copies of the packets `first..=last` from `next` on, and then `rounds` times more from the
    /// start.
    Copies { first: PacketNumber, last: PacketNumber, next: PacketNumber, rounds: u16, single: bool },
}

impl Task {
    /// Whether anything is left that it is to protect.
    fn is_of_use(&self, of: PathId, unacked: &dyn UnackedView) -> bool {
        match *self {
            Self::Symbols { block, next } => next < block.m && unacked_in(unacked, of, &block, next),
            Self::Copies { first, last, next, rounds, .. } => {
                let from = if rounds > 0 { first } else { next };
                unacked.next_unacked(of, from, last).is_some()
            }
        }
    }
}

impl Auto {
    fn new(repair: &RepairConfig, coding: Coding) -> Self {
        Self {
            coding,
            k_max: u16::from(repair.k_max),
            budget: RepairBudget::default(),
            fresh_at: Instant::ORIGIN,
            all_sent: false,
            waits_since: 0,
            watches: ByPath::new(),
            reasons: RecoveryReasons::default(),
        }
    }

    /// When the last of these packets of `of` should have been acknowledged, if that is worth waiting for: not
    /// where an answer always takes longer than anybody would wait. Where it does so at the moment there is a
    /// queue, to which copies would only add.
    fn answered_at(&self, exposed: &Exposed, of: &PathSnapshot) -> Option<Instant> {
        let patience = |rtt: Duration| rtt + rtt / 4;
        let near = of.measured && patience(of.min_rtt) <= SOON;
        let waits = near && self.coding == Coding::Nothing;
        waits.then(|| exposed.last_sent_at + patience(of.expected_rtt).min(SOON))
    }

    /// The path for repair of `of`: the one with room where it is expected first.
    fn carrier<'a>(of: &PathSnapshot, paths: &'a [PathSnapshot]) -> Option<&'a PathSnapshot> {
        let expected = |p: &PathSnapshot| arrival(of, p);
        paths.iter().filter(|p| p.has_window()).min_by(|a, b| expected(a).total_cmp(&expected(b)))
    }

    /// What is to be done about the unprotected packets of `of`, if anything.
    fn plan(
        &mut self,
        now: Instant,
        of: &PathSnapshot,
        paths: &[PathSnapshot],
        unacked: &dyn UnackedView,
    ) -> Plan {
        let Some(exposed) = unacked.exposed(of.id, u32::from(self.k_max)) else { return Plan::Nothing };
        let answered = self.answered_at(&exposed, of).filter(|at| *at > now);
        let before = self.watches.get(&of.id).and_then(|watch| watch.left);
        match (before, answered) {
            (Some((same, Left::NotNeeded | Left::InVain)), _) if same == exposed => return Plan::Nothing,
            (Some((same, Left::TooSoon)), Some(at)) if same == exposed => return Plan::Wait(at),
            _ => {}
        }
        let Some(on) = Self::carrier(of, paths) else { return self.leave(of.id, exposed, Left::NoWindow) };
        let affordable = self.budget.packets(on.mtu).min(MAX_SYMBOLS);
        if affordable == 0 {
            return self.leave(of.id, exposed, Left::NoBudget);
        }
        let exposure = Exposure {
            in_flight: u16::try_from(exposed.packets).unwrap_or(u16::MAX),
            lost: 0,
            loss: of.history.model(),
            repairs: 0,
            repair_loss: on.history.loss(),
        };
        let means = Means {
            decodes: self.coding == Coding::Unacked,
            bytes: exposed.bytes,
            packet: on.mtu,
            affordable,
        };
        let task = self.task(of, &exposed, repair_size::plan(&exposure, &means, TARGET), unacked);
        match (task, answered) {
            (None, _) => self.leave(of.id, exposed, Left::NotNeeded),
            (Some(_), Some(at)) => {
                self.leave(of.id, exposed, Left::TooSoon);
                Plan::Wait(at)
            }
            (Some(_), None) if self.watches.get_or_default(of.id).mends.leaves_out() => {
                self.leave(of.id, exposed, Left::InVain)
            }
            (Some(task), None) => Plan::Repair(task),
        }
    }

    /// What `protection` of the unprotected packets of `of` means.
    fn task(
        &self,
        of: &PathSnapshot,
        exposed: &Exposed,
        protection: Protection,
        unacked: &dyn UnackedView,
    ) -> Option<Task> {
        let copies = |last, rounds, single| Task::Copies {
            first: exposed.first,
            last,
            next: exposed.first,
            rounds,
            single,
        };
        match protection {
            Protection::Nothing => None,
            Protection::Again(times) => Some(copies(exposed.last, times.saturating_sub(1), true)),
            Protection::Copies(_) => Some(copies(exposed.last, 0, false)),
            Protection::Symbols(m) => match unacked.source_run(of.id, None, u32::from(self.k_max)) {
                Some(run) => {
                    let k = (run.packets as u16).min(MAX_BLOCK - m);
                    let block = Block { first: run.first, last: run.last, k, m };
                    Some(Task::Symbols { block, next: 0 })
                }
                None => Some(copies(exposed.last, 0, false)),
            },
        }
    }

    /// Whether new data may be the answer to what the peer said when it had received everything: there was
    /// nothing new to send for a round trip. Recovery packets may still be in flight, and what they have mended
    /// may have been sent again.
    fn may_answer(&self, now: Instant, path: &PathSnapshot) -> bool {
        self.all_sent && path.measured && now >= self.fresh_at + path.min_rtt
    }

    /// Notes that nothing is done about `exposed`; each exposure counts once.
    fn leave(&mut self, of: PathId, exposed: Exposed, why: Left) -> Plan {
        let watch = self.watches.get_or_default(of);
        if watch.left.replace((exposed, why)) != Some((exposed, why)) {
            match why {
                Left::NotNeeded => self.reasons.not_needed += 1,
                Left::NoBudget => self.reasons.no_budget += 1,
                Left::NoWindow => self.reasons.no_window += 1,
                Left::InVain => self.reasons.in_vain += 1,
                Left::TooSoon => {}
            }
        }
        Plan::Nothing
    }

    /// The next copy that follows the probes of a timeout: within the window, if there was no queue
    /// before the path fell silent.
    fn after_silence(
        &mut self,
        now: Instant,
        of: &PathSnapshot,
        paths: &[PathSnapshot],
        unacked: &dyn UnackedView,
    ) -> Option<RecoveryAction> {
        let silence = &mut self.watches.get_mut(&of.id)?.silence;
        if silence.left == 0 {
            return None;
        }
        let queue = of.expected_rtt.saturating_sub(of.min_rtt);
        let room = of.in_flight + of.mtu <= of.window;
        if !silence.allows(of, paths) || !room || queue > (of.min_rtt / 2).max(LATE) {
            return None;
        }
        let gap = (of.rtt / COPIES_PER_ROUND_TRIP).max(GRANULARITY);
        let at = *silence.at.get_or_insert(now + gap);
        if now < at {
            return Some(RecoveryAction::WaitUntil { at });
        }
        let from = |first| unacked.next_unacked(of.id, first, PacketNumber(u64::MAX));
        let packet = from(silence.next).or_else(|| from(PacketNumber::ZERO))?;
        let copy = RecoveryAction::Reinject { packet, of: of.id, on: of.id };
        Some(paced(copy, of.id, core::slice::from_ref(of)))
    }

    /// Whether repair of the path's packets has been decided on.
    fn is_busy(&self, of: PathId) -> bool {
        self.watches.get(&of).is_some_and(|watch| watch.task.is_some())
    }

    /// When to ask again where the path's task waits for a faster path. All waiting since the last repair counts:
    /// others may take the room that an ACK makes again and again. Nothing waits that is of no use any more, or too dear.
    fn waits(
        &mut self,
        now: Instant,
        of: &PathSnapshot,
        paths: &[PathSnapshot],
        unacked: &dyn UnackedView,
    ) -> Option<Instant> {
        let task = self.watches.get(&of.id)?.task?;
        let is_affordable = Self::carrier(of, paths).is_some_and(|on| self.budget.allows(on.mtu));
        if !is_affordable || !task.is_of_use(of.id, unacked) {
            return None;
        }
        let since = if self.waits_since == 0 { micros(now) } else { self.waits_since };
        let waited = Duration::from_micros(micros(now).wrapping_sub(since).into());
        let at = room_soon(now, waited, of, paths)?;
        self.waits_since = since;
        Some(at)
    }

    /// What the path's task asks for next; `None` if it is over, which is noted, or can get no
    /// further now.
    fn next(
        &mut self,
        of: &PathSnapshot,
        paths: &[PathSnapshot],
        unacked: &dyn UnackedView,
    ) -> Option<RecoveryAction> {
        let on = Self::carrier(of, paths).filter(|on| self.budget.allows(on.mtu))?;
        let task = &mut self.watches.get_mut(&of.id)?.task;
        let (of, on) = (of.id, on.id);
        let action = match task.as_mut()? {
            Task::Symbols { block, next } => {
                let wanted = *next < block.m && unacked_in(unacked, of, block, *next);
                wanted.then_some(RecoveryAction::Repair { block: *block, index: *next, of, on })
            }
            Task::Copies { first, last, next, rounds, .. } => {
                let mut packet = unacked.next_unacked(of, *next, *last);
                if packet.is_none() && *rounds > 0 {
                    *rounds -= 1;
                    packet = unacked.next_unacked(of, *first, *last);
                }
                packet.map(|packet| RecoveryAction::Reinject { packet, of, on })
            }
        };
        if action.is_none() {
            *task = None;
        }
        action.map(|action| paced(action, on, paths))
    }
}

/// Whether a symbol of the block is of use. The packets of a block are on record as such from its
/// first symbol on.
fn unacked_in(unacked: &dyn UnackedView, path: PathId, block: &Block, next: u16) -> bool {
    if next == 0 {
        return unacked.source_run(path, block.first.before(), 1).is_some_and(|r| r.first <= block.last);
    }
    unacked.any_unacked(path, block.first, block.last)
}

/// Seconds after which repair of a packet of `of` is expected to have arrived if it leaves on `on`:
/// half a round trip, and the probe timeout that a loss would cost.
fn arrival(of: &PathSnapshot, on: &PathSnapshot) -> f64 {
    let loss = if of.id == on.id { on.history.loss() * SAME_PATH } else { on.history.loss() };
    let way = on.pacing_wait + on.expected_rtt / 2;
    way.as_secs_f64() + loss.min(1.0) * of.probe_timeout.as_secs_f64()
}

/// Microseconds modulo 2^32, which is more than an hour, but for zero.
fn micros(at: Instant) -> u32 {
    ((at - Instant::ORIGIN).as_micros() as u32).max(1)
}

/// When to ask again, at the latest, where repair of `of` had better wait for a path whose window is full: the next
/// ACK, mostly of two packets, makes room there, and even then it arrives sooner than on any path that has room now,
/// by an eighth of that one's round trip, with what it has `waited` already. `None` where there is nothing to wait
/// for, or where that ACK is overdue: the path may be dead, and is then told as if its packets had left only now.
fn room_soon(now: Instant, waited: Duration, of: &PathSnapshot, paths: &[PathSnapshot]) -> Option<Instant> {
    let on = Auto::carrier(of, paths)?;
    let beaten = arrival(of, on) - (on.rtt / 8).max(GRANULARITY).as_secs_f64();
    let opens = |p: &&PathSnapshot| {
        let by_next_ack = p.in_flight > 0 && p.in_flight <= p.window.saturating_add(p.mtu);
        let known = p.usable && p.measured && p.next_ack <= p.rtt;
        let wait = (waited + p.next_ack).as_secs_f64();
        known && !p.has_window() && by_next_ack && wait + arrival(of, p) < beaten
    };
    let patience = |p: &PathSnapshot| p.next_ack + p.rtt_variance.max(GRANULARITY) + GRANULARITY;
    paths.iter().filter(opens).map(|p| now + patience(p)).min()
}

impl RecoveryPolicy for Auto {
    fn coding(&self) -> Coding {
        self.coding
    }

    fn on_opportunity(
        &mut self,
        now: Instant,
        paths: &[PathSnapshot],
        unacked: &dyn UnackedView,
    ) -> RecoveryAction {
        self.all_sent = true;
        let mut not_before: Option<Instant> = None;
        for of in paths {
            let at = match self.after_silence(now, of, paths, unacked) {
                // Other paths have theirs to do meanwhile.
                Some(RecoveryAction::WaitUntil { at }) if !of.usable => at,
                Some(RecoveryAction::Wait { .. }) if !of.usable => now + of.pacing_wait,
                Some(action) => return action,
                None => continue,
            };
            not_before = Some(not_before.map_or(at, |other| other.min(at)));
        }
        // The path that loses most comes first.
        let mut order: SmallVec<[(f64, &PathSnapshot); 8]> =
            paths.iter().map(|path| (path.history.loss(), path)).collect();
        order.sort_by(|(a, p), (b, q)| b.total_cmp(a).then(q.rtt.cmp(&p.rtt)).then(p.id.cmp(&q.id)));
        for (_, of) in order {
            for _ in 0..2 {
                if let Some(at) = self.waits(now, of, paths, unacked) {
                    not_before = Some(not_before.map_or(at, |other| other.min(at)));
                    break;
                }
                if let Some(action) = self.next(of, paths, unacked) {
                    return action;
                }
                if self.is_busy(of.id) {
                    break;
                }
                match self.plan(now, of, paths, unacked) {
                    Plan::Nothing => break,
                    Plan::Wait(at) => {
                        not_before = Some(not_before.map_or(at, |other| other.min(at)));
                        break;
                    }
                    Plan::Repair(task) => {
                        self.watches.get_or_default(of.id).task = Some(task);
                        self.waits_since = 0;
                    }
                }
            }
        }
        not_before.map_or(RecoveryAction::Nothing, |at| RecoveryAction::WaitUntil { at })
    }

    fn on_done(&mut self, action: &RecoveryAction, sent: Option<Carried>) {
        let (RecoveryAction::Reinject { of, .. } | RecoveryAction::Repair { of, .. }) = *action else {
            return;
        };
        let Some(Watch { task, silence, .. }) = self.watches.get_mut(&of) else { return };
        if let RecoveryAction::Reinject { packet, on, .. } = *action
            && on == of
            && silence.at.is_some()
        {
            let left = silence.left.saturating_sub(1);
            *silence = Silence { left, at: None, next: packet.next(), ..*silence };
            self.reasons.after_silence += u64::from(sent.is_some());
            return;
        }
        let reason = match (action, task.as_mut()) {
            (RecoveryAction::Repair { index, .. }, Some(Task::Symbols { next, .. })) => {
                *next = index + 1;
                &mut self.reasons.block
            }
            (RecoveryAction::Reinject { packet, .. }, Some(Task::Copies { next, single, .. })) => {
                *next = packet.next();
                if *single { &mut self.reasons.single } else { &mut self.reasons.uncoded }
            }
            _ => return,
        };
        match (sent, action) {
            (Some(sent), _) => {
                *reason += 1;
                self.waits_since = 0;
                self.budget.on_repair(sent.bytes);
            }
            // A symbol that does not fit the path; a packet that cannot be copied does not keep the
            // next one from it.
            (None, &RecoveryAction::Repair { block, index: 0, .. }) => {
                let Block { first, last, .. } = block;
                *task = Some(Task::Copies { first, last, next: first, rounds: 0, single: false });
            }
            (None, RecoveryAction::Repair { .. }) => *task = None,
            (None, _) => {}
        }
    }

    fn on_flight(&mut self, flight: &Flight) -> Option<Duration> {
        let conditions = Conditions { timeout: flight.timeout, ..Conditions::default() };
        let gap = if flight.known_loss >= KNOWN_LOSS {
            HANDSHAKE_GAP
        } else {
            flight.rtt.map_or(UNANSWERED, |rtt| rtt + (rtt / 4).max(LATE))
        };
        conditions.worth_duplicating(flight.bytes, 1.0).then_some(gap)
    }

    fn on_flight_timeout(&mut self, nth: u32) -> u8 {
        if nth <= u32::from(SILENT_TIMEOUTS) { COPIES_AFTER_PROBES } else { 0 }
    }

    fn on_data(&mut self, now: Instant, packet: &SentData, paths: &[PathSnapshot]) {
        let path = paths.iter().find(|p| p.id == packet.path);
        let alone = paths.iter().map(|p| p.in_flight).sum::<u64>() <= packet.bytes;
        if alone || packet.fresh && path.is_some_and(|path| self.may_answer(now, path)) {
            self.budget.on_idle();
        }
        self.budget.on_data(packet.bytes, path.map_or(0.0, |p| p.history.loss()));
        if packet.fresh {
            (self.fresh_at, self.all_sent) = (now, false);
        }
    }

    fn on_event(&mut self, now: Instant, event: &RecoveryEvent) {
        match event {
            RecoveryEvent::PathTimeout { path, moved: true } => {
                if let Some(watch) = self.watches.get_mut(path) {
                    watch.task = None;
                    watch.silence.on_timeout(true);
                    self.reasons.moved += 1;
                }
            }
            RecoveryEvent::PathTimeout { path, moved: false } => {
                self.watches.get_or_default(*path).silence.on_timeout(false);
            }
            RecoveryEvent::Acked { path, .. } => {
                if let Some(watch) = self.watches.get_mut(path) {
                    watch.silence = Silence::default();
                }
            }
            RecoveryEvent::Lost(lost) if lost.counts && (lost.copied || lost.coded) => {
                if let Some(watch) = self.watches.get_mut(&lost.path) {
                    watch.mends.on_lost(now, lost.rtt);
                }
            }
            RecoveryEvent::Mended { path } => {
                if let Some(watch) = self.watches.get_mut(path) {
                    watch.mends.on_mended();
                }
            }
            RecoveryEvent::PathClosed { path } => _ = self.watches.remove(path),
            _ => {}
        }
    }

    fn keeps_deadlines(&self) -> Option<f64> {
        Some(IN_TIME)
    }

    fn stream_code(&self) -> StreamCode {
        StreamCode::Unanswered
    }

    fn reasons(&self) -> RecoveryReasons {
        self.reasons
    }
}

#[cfg(test)]
mod tests;
