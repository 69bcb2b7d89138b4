//! The only place that reads the time.

use std::time::SystemTime;

use units::{Duration, Instant};

/// The wall clock, counted from when the emulator started.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "an emulator is the place where links meet the wall clock")]
    pub(crate) fn start() -> Self {
        Self { origin: std::time::Instant::now() }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::ORIGIN + Duration::from(self.origin.elapsed())
    }

    /// The present on this clock and on that of the kernel's receive timestamps.
    #[allow(clippy::disallowed_methods, reason = "receive timestamps are in calendar time")]
    pub(crate) fn read(&self) -> Reading {
        let calendar = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Reading { now: self.now(), calendar: calendar.into() }
    }
}

/// Two clocks read at once.
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    now: Instant,
    calendar: Duration,
}

impl Reading {
    /// The moment of a receive timestamp, so that a thread that wakes late does not lengthen the
    /// path. Never in the future; a timestamp too old to be true (the calendar was set) counts as
    /// the present.
    pub(crate) fn moment_of(&self, timestamp: Option<core::time::Duration>) -> Instant {
        const OLDEST: Duration = Duration::from_millis(500);
        match timestamp.map(|timestamp| self.calendar - Duration::from(timestamp)) {
            Some(age) if age <= OLDEST => self.now - age,
            _ => self.now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_become_moments() {
        let ms = core::time::Duration::from_millis;
        let reading =
            Reading { now: Instant::from_nanos(9_000_000_000), calendar: Duration::from_millis(1_000_000) };
        assert_eq!(reading.moment_of(None), reading.now);
        assert_eq!(reading.moment_of(Some(ms(999_997))), reading.now - Duration::from_millis(3));
        assert_eq!(reading.moment_of(Some(ms(1_000_001))), reading.now);
        assert_eq!(reading.moment_of(Some(ms(900_000))), reading.now);
    }
}
