//! XLINK's re-injection: what is un-acknowledged on one sub-flow is sent over another as well, while
//! the receiver has little left to play.
//!
//! Zheng and others, "XLINK: QoE-Driven Multi-Path QUIC Transport in Large-scale Video Services",
//! SIGCOMM 2021. No estimate of loss: a packet is re-injected because it is slow, whatever the
//! reason, and the player's buffer says whether that matters.
//!
//! | paper                                   | here                                          |
//! |-----------------------------------------|-----------------------------------------------|
//! | play-time left, reported by the client  | `State::left`, from what acknowledgements say |
//! | thresholds T_th1, T_th2                 | [`Xlink::always_below`], [`Xlink::never_above`] |
//! | between them: play-time left against the longest expected delivery | [`wants`]  |
//! | un-acknowledged packets, earliest in the stream first, over the fastest other path with room | [`Scheme::on_opportunity`] |
//!
//! # Departures
//! - A file that is not played (no [`Xlink::play`]) has nothing left to play at any time, so that
//!   all that is un-acknowledged when the last data was sent is re-injected once.
//! - The player's buffer is worked out by the sender, from the data level's acknowledgements and the
//!   rate of play, instead of in a frame of its own: as old as what an acknowledgement brings.
//! - One message at a time is what is played; priorities of streams and frames, and the choice of
//!   the primary path, are not modelled.

use recovery::{PathId, UnackedView};
use units::{BitRate, Duration, Instant};

use super::Mptcp;
use crate::{
    connection::{Connection, scheme::Scheme},
    transport::Io,
};

/// Parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Xlink {
    /// The sub-flows, with a receiver that takes data of any of them at once, as QUIC's does.
    pub mptcp: Mptcp,
    /// How fast the receiver plays; `None` if nothing is played.
    pub play: Option<BitRate>,
    /// T_th1: with less than this left to play, everything is re-injected.
    pub always_below: Duration,
    /// T_th2: with more, nothing is.
    pub never_above: Duration,
}

impl Xlink {
    /// With `subflows` sub-flows, for a file that is not played. The paper sets its thresholds by
    /// what the operator wants to pay; these are ours.
    pub const fn new(subflows: usize) -> Self {
        Self {
            mptcp: Mptcp::new(subflows).with_early_delivery(),
            play: None,
            always_below: Duration::from_millis(500),
            never_above: Duration::from_secs(2),
        }
    }
}

/// Whether to re-inject with `left` to play, when the slowest sub-flow with something in flight
/// delivers in `slowest`.
pub fn wants(parameters: &Xlink, left: Duration, slowest: Duration) -> bool {
    left < parameters.always_below || (left <= parameters.never_above && left < slowest)
}

/// What the sender knows of the player.
#[derive(Debug)]
pub(crate) struct State {
    parameters: Xlink,
    /// Segments played by `looked`, of those that were acknowledged.
    played: f64,
    looked: Option<Instant>,
}

impl State {
    pub(crate) fn new(parameters: Xlink) -> Self {
        Self { parameters, played: 0.0, looked: None }
    }

    /// What is left to play at `now`, if the receiver has `segments` of `size` bytes in order.
    fn left(&mut self, now: Instant, segments: u64, size: u16) -> Duration {
        let Some(play) = self.parameters.play else { return Duration::ZERO };
        let rate = play.bits_per_second() as f64 / 8.0 / f64::from(size.max(1));
        let passed = self.looked.map_or(Duration::ZERO, |looked| now.saturating_duration_since(looked));
        self.played = (self.played + rate * passed.as_secs_f64()).min(segments as f64);
        self.looked = (segments > 0).then_some(now);
        Duration::from_secs_f64((segments as f64 - self.played).max(0.0) / rate.max(1e-9))
    }

    /// The earliest segment that another sub-flow than its own has room for, and the fastest of those:
    /// what is on the fastest of all goes over the next.
    fn next(conn: &Connection) -> Option<(usize, u32, usize)> {
        let fastest_but = |own: usize| {
            let others = (0..conn.subflows()).filter(|sub| *sub != own);
            let ready = others.filter(|sub| conn.room(*sub) > 0 && !conn.smoothed_rtt(*sub).is_zero());
            ready.min_by_key(|sub| (conn.smoothed_rtt(*sub), *sub))
        };
        let oldest = (0..conn.subflows()).filter_map(|sub| {
            let seq = conn.oldest_resendable(PathId(sub as u32))?.0 as u32;
            Some((conn.outstanding(sub, seq)?.dsn, sub, seq, fastest_but(sub)?))
        });
        oldest.min().map(|(_, of, seq, on)| (of, seq, on))
    }
}

impl Scheme for State {
    fn on_opportunity(&mut self, conn: &mut Connection, io: &mut Io<'_>) {
        let left = self.left(io.now(), conn.acknowledged(), conn.ends.tcp.mss);
        let busy = (0..conn.subflows()).filter(|sub| conn.pipe(*sub) > 0);
        let slowest = busy.map(|sub| conn.smoothed_rtt(sub) + conn.rtt_variance(sub)).max();
        if !wants(&self.parameters, left, slowest.unwrap_or(Duration::ZERO)) {
            return;
        }
        conn.refresh_resend_marks();
        while let Some((of, seq, on)) = Self::next(conn) {
            if !conn.send_copy(io, of, seq, on) {
                break;
            }
            conn.refresh_resend_marks();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_players_buffer_decides() {
        let xlink = Xlink::new(2);
        assert!(wants(&xlink, ms(499), ms(10)), "little left: always");
        assert!(!wants(&xlink, ms(501), ms(500)), "what is under way comes in time");
        assert!(wants(&xlink, ms(501), ms(502)), "what is under way comes too late");
        assert!(!wants(&xlink, ms(2_001), ms(9_000)), "enough left: never");
    }

    /// 8 Mbit/s are 1,000 segments of 1,000 bytes per second.
    #[test]
    fn what_is_left_is_what_came_less_what_was_played_since() {
        let mut state = State::new(Xlink { play: Some(BitRate::from_mbps(8)), ..Xlink::new(2) });
        let at = |ms| Instant::ORIGIN + Duration::from_millis(ms);
        assert_eq!(state.left(at(0), 0, 1_000), ms(0));
        assert_eq!(state.left(at(100), 300, 1_000), ms(300), "playing begins with the first data");
        assert_eq!(state.left(at(200), 350, 1_000), ms(250));
        assert_eq!(state.left(at(900), 350, 1_000), ms(0), "it ran dry after 250 ms");
        assert_eq!(state.left(at(1_000), 500, 1_000), ms(50));
        assert_eq!(State::new(Xlink::new(2)).left(at(0), 300, 1_000), ms(0), "nothing is played");
    }
}
