//! SLP: single packets whose loss would lead to a timeout leave twice (sections II-C1 and II-C2).
//!
//! The arbiter is asked about every packet of new data, and about the flights of the handshake: is
//! p q RTO, what a copy is expected to save, at least (1-p) pkt_size / bw, what it costs? The copy
//! leaves a gap later, over the best other path, if the window has room and nothing new waits.
//! There is one at a time per connection.
//!
//! | paper     | here                                                                  |
//! |-----------|-----------------------------------------------------------------------|
//! | p         | the path's share of lost packets, as if [`PRIOR_PACKETS`] had lost 2 % |
//! | bw        | window over round-trip time; in slow start no less than the default    |
//! | RTO       | the path's probe timeout; 1 s before the first round trip              |
//! | q         | learnt per kind of packet ([`LearntOdds`])                             |
//! | gap       | a packet's share of the round trip (SLP-A9), 1 ms in the handshake     |
//!
//! # Departures
//! - The paper's RTO is at least 200 ms, and often 1 s; a probe timeout is about three round trips
//!   at first and little more than one later. With q = 0.1 few full packets are therefore worth a
//!   copy until timeouts have been seen, since then q grows.
//! - In slow start the window says nothing about the bandwidth that is available, so the default of
//!   SLP-A4 counts if it is more.
//! - A copy that new data keeps waiting is given up after eight gaps: new data always goes first.

use recovery::{
    UnackedView,
    path_choice::fuso::best,
    slp_arbiter::{Conditions, Marks},
    slp_duplicates::{Duplicates, Original},
    slp_odds::LearntOdds,
    slp_window::{self, HANDSHAKE_GAP},
};
use units::{BitRate, Duration, Instant};

use super::{
    Built, Carried, Flight, LostPacket, PathSnapshot, RecoveryAction, RecoveryEvent, RecoveryPolicy, Scheme,
    SentData, paced, samples,
};
use crate::{by_path::ByPath, stats::RecoveryReasons, wire::PathId};

pub(super) const SCHEME: Scheme = Scheme { name: "slp", build: |_| Built::new(Slp::default()) };

/// Packets that the paper's loss rate counts for.
const PRIOR_PACKETS: f64 = 100.0;
/// Packets at which a path's counts are halved.
const MEMORY: u32 = 4_096;

#[derive(Debug, Default)]
struct Slp {
    odds: LearntOdds,
    duplicates: Duplicates,
    /// What is special about the packet whose copy is pending.
    pending: Marks,
    losses: ByPath<Losses>,
    reasons: RecoveryReasons,
}

/// What one path sent and lost.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    sent: u32,
    lost: u32,
}

impl Losses {
    fn on_sent(&mut self) {
        self.sent += 1;
        if self.sent >= MEMORY {
            *self = Self { sent: self.sent / 2, lost: self.lost / 2 };
        }
    }

    fn on_lost(&mut self) {
        self.lost = (self.lost + 1).min(self.sent);
    }

    fn rate(self) -> f64 {
        let prior = Conditions::default().loss * PRIOR_PACKETS;
        ((f64::from(self.lost) + prior) / (f64::from(self.sent) + PRIOR_PACKETS)).min(1.0)
    }
}

impl Slp {
    fn conditions(&self, path: &PathSnapshot) -> Conditions {
        let default = Conditions::default();
        let loss = self.losses.get(&path.id).copied().unwrap_or_default().rate();
        if !path.measured {
            return Conditions { loss, ..default };
        }
        Conditions { loss, bandwidth: bandwidth(path), timeout: path.probe_timeout }
    }

    fn on_lost(&mut self, packet: &LostPacket) {
        self.duplicates.on_lost(packet.path, packet.number);
        if !packet.counts {
            return;
        }
        if let Some(losses) = self.losses.get_mut(&packet.path) {
            losses.on_lost();
        }
        if !packet.copied {
            self.odds.on_lost(packet.marks, packet.timed_out);
        }
    }
}

/// bw: what the connection can say of it.
fn bandwidth(path: &PathSnapshot) -> BitRate {
    let used = path.window as f64 * 8.0 / path.rtt.max(Duration::from_micros(1)).as_secs_f64();
    let least = if path.slow_start { Conditions::default().bandwidth } else { BitRate(1) };
    BitRate((used as u64).max(least.bits_per_second()))
}

/// Where the copy of a packet of `of` goes: the best other path, or the same if there is no other.
fn copy_path(of: PathId, paths: &[PathSnapshot]) -> Option<PathId> {
    if !paths.iter().any(|p| p.id != of && p.usable) {
        return Some(of);
    }
    let mut others = samples(paths);
    others.retain(|sample| sample.path != of);
    best(&others)
}

fn spare(on: Option<PathId>, paths: &[PathSnapshot]) -> u64 {
    paths.iter().find(|p| Some(p.id) == on).map_or(0, PathSnapshot::spare)
}

impl RecoveryPolicy for Slp {
    fn on_opportunity(
        &mut self,
        now: Instant,
        paths: &[PathSnapshot],
        _unacked: &dyn UnackedView,
    ) -> RecoveryAction {
        let Some(pending) = self.duplicates.pending() else { return RecoveryAction::Nothing };
        if pending.due > now {
            return RecoveryAction::WaitUntil { at: pending.due };
        }
        let of = pending.path;
        let on = copy_path(of, paths);
        match (self.duplicates.next(now, spare(on, paths)), on) {
            (Some(next), Some(on)) => {
                paced(RecoveryAction::Reinject { packet: next.number, of, on }, on, paths)
            }
            _ => RecoveryAction::Nothing,
        }
    }

    fn on_done(&mut self, action: &RecoveryAction, sent: Option<Carried>) {
        let RecoveryAction::Reinject { on, .. } = *action else { return };
        let Some(sent) = sent else { return self.duplicates.abandon() };
        self.duplicates.on_duplicated(on, sent.number);
        let reason = match self.pending {
            Marks { push: true, .. } => &mut self.reasons.end_of_write,
            Marks { fin: true, .. } => &mut self.reasons.end_of_stream,
            _ => &mut self.reasons.learnt,
        };
        *reason += 1;
    }

    fn on_flight(&mut self, flight: &Flight) -> Option<Duration> {
        let marks = Marks { handshake: true, ..Marks::default() };
        let conditions = Conditions { timeout: flight.timeout, ..Conditions::default() };
        conditions.worth_duplicating(flight.bytes, self.odds.of(marks)).then_some(HANDSHAKE_GAP)
    }

    fn on_data(&mut self, now: Instant, packet: &SentData, paths: &[PathSnapshot]) {
        if !packet.fresh {
            return;
        }
        let Some(path) = paths.iter().find(|p| p.id == packet.path) else { return };
        let original = Original {
            path: packet.path,
            number: packet.number,
            bytes: packet.bytes,
            odds: self.odds.of(packet.marks),
        };
        let conditions = self.conditions(path);
        let packet_time = conditions.bandwidth.time_to_send(packet.bytes);
        let gap = slp_window::gap(path.rtt, path.window / path.mtu.max(1), packet_time);
        let spare = spare(copy_path(packet.path, paths), paths);
        if self.duplicates.on_sent(now, &original, &conditions, spare, gap) {
            self.pending = packet.marks;
        }
    }

    fn on_event(&mut self, _now: Instant, event: &RecoveryEvent) {
        match *event {
            RecoveryEvent::Sent { path } => self.losses.get_or_default(path).on_sent(),
            RecoveryEvent::Acked { path, number, .. } => self.duplicates.on_acked(path, number),
            RecoveryEvent::Lost(packet) => self.on_lost(&packet),
            RecoveryEvent::SpuriousLoss { path } => {
                if let Some(losses) = self.losses.get_mut(&path) {
                    losses.lost = losses.lost.saturating_sub(1);
                }
            }
            RecoveryEvent::PathTimeout { .. } => self.duplicates.on_timeout(),
            RecoveryEvent::PathClosed { path } => {
                self.duplicates.on_timeout();
                self.losses.remove(&path);
            }
            _ => {}
        }
    }

    fn reasons(&self) -> RecoveryReasons {
        self.reasons
    }
}

#[cfg(test)]
mod tests;
