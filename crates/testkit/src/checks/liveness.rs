//! Every poll ends, and no timer runs without a reason.

use units::{Duration, Instant};

use super::Broken;

/// Datagrams of one connection at one instant that no window of a test explains.
const MAX_AT_ONCE: u64 = 20_000;
/// Timer calls without a datagram that may fall into one period.
const MAX_IDLE_WAKES: u32 = 200;
/// The period.
const PERIOD: Duration = Duration::from_millis(1);
/// Timer calls at one and the same instant.
const MAX_SAME_INSTANT: u32 = 8;

#[derive(Default, Debug)]
pub(super) struct Liveness {
    instant: Instant,
    sent_at_instant: u64,
    wakes_at_instant: u32,
    period_from: Instant,
    idle_wakes: u32,
}

impl Liveness {
    pub(super) fn on_transmit(&mut self, now: Instant, datagrams: u64) -> Result<(), Broken> {
        self.enter(now);
        self.sent_at_instant += datagrams;
        if self.sent_at_instant > MAX_AT_ONCE { Err(Broken::Livelock(self.sent_at_instant)) } else { Ok(()) }
    }

    /// Something from outside: the same instant may need its timers again.
    pub(super) fn on_arrival(&mut self) {
        self.wakes_at_instant = 0;
    }

    pub(super) fn after_timeout(
        &mut self,
        now: Instant,
        next: Option<Instant>,
        sent: u64,
    ) -> Result<(), Broken> {
        self.enter(now);
        self.wakes_at_instant += 1;
        if now - self.period_from > PERIOD {
            (self.period_from, self.idle_wakes) = (now, 0);
        }
        self.idle_wakes += u32::from(sent == 0);
        let in_the_past = next.is_some_and(|next| next <= now);
        if in_the_past && self.wakes_at_instant > MAX_SAME_INSTANT {
            return Err(Broken::BusyLoop { wakes: self.wakes_at_instant, next });
        }
        if self.idle_wakes > MAX_IDLE_WAKES {
            return Err(Broken::BusyLoop { wakes: self.idle_wakes, next });
        }
        Ok(())
    }

    fn enter(&mut self, now: Instant) {
        if now != self.instant {
            (self.instant, self.sent_at_instant, self.wakes_at_instant) = (now, 0, 0);
        }
    }
}
