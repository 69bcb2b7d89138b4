//! The event that wakes a connection for its next deadline.

use units::Instant;

use super::{Io, Timer};

/// At most one event is awaited. One that was set before a deadline moved back still comes, and
/// finds that it is not the one; so deadlines may move as often as they like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarm {
    /// [`Instant::MAX`] if none is set.
    at: Instant,
}

impl Default for Alarm {
    fn default() -> Self {
        Self { at: Instant::MAX }
    }
}

impl Alarm {
    /// Sets the event of a deadline, unless an earlier one is set: that one will look again.
    #[inline]
    pub(crate) fn set(&mut self, io: &mut Io<'_>, deadline: Instant, timer: Timer) {
        if deadline < self.at {
            self.at = deadline;
            io.set_timer(deadline, timer);
        }
    }

    /// An event is due: whether it is the one that is awaited, after which none is.
    pub(crate) fn rings(&mut self, now: Instant) -> bool {
        let rings = self.at == now;
        if rings {
            self.at = Instant::MAX;
        }
        rings
    }
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;

    #[test]
    fn only_what_is_awaited_rings_and_only_once() {
        let at = |us| Instant::ORIGIN + Duration::from_micros(us);
        assert!(!Alarm::default().rings(at(1)));
        let mut alarm = Alarm { at: at(5) };
        assert!(!alarm.rings(at(4)) && alarm.rings(at(5)) && !alarm.rings(at(5)));
    }
}
