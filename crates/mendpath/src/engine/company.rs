//! Whether the first to write waits for others who write at the same time.
//!
//! What several write together leaves in a few full datagrams, if the connection's driver lets the
//! tasks that are ready have their turn before it sends. That costs the runtime a look at its sockets
//! and wakes its other threads, for nothing where one writes at a time, as on a connection that
//! carries one conversation. Whether it pays is known by what came of it lately. A transfer has enough
//! for all threads to do, and is faster if they do it at the same time.

use proto::StreamId;
use units::{Duration, Instant};

/// After so many times in vain others are waited for no more.
const TRIES: u8 = 8;
/// Two streams that write within so long might have left together.
const TOGETHER: Duration = Duration::from_millis(1);

/// The streams that were written to since the driver sent last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Writers {
    #[default]
    None,
    One(StreamId),
    Several,
}

impl Writers {
    /// Somebody has written to a stream.
    pub(crate) fn add(&mut self, id: StreamId) {
        *self = match *self {
            Self::None => Self::One(id),
            Self::One(other) if other == id => return,
            _ => Self::Several,
        };
    }
}

/// What came of waiting, and of not waiting, lately.
#[derive(Debug)]
pub(super) struct Company {
    tries: u8,
    /// Who was sent for alone last, and when.
    alone: Option<(StreamId, Instant)>,
}

impl Default for Company {
    fn default() -> Self {
        Self { tries: TRIES, alone: None }
    }
}

impl Company {
    /// Whether others are to have their turn before what was written is sent.
    pub(super) fn is_expected(&self) -> bool {
        self.tries > 0
    }

    /// What `writers` wrote is sent now, and others did or did not have their turn before. `is_bulk`
    /// tells of a transfer.
    pub(super) fn on_send(&mut self, now: Instant, writers: Writers, is_bulk: bool) {
        match writers {
            _ if is_bulk => self.tries = TRIES,
            Writers::None => {}
            Writers::Several => self.tries = TRIES,
            Writers::One(id) => {
                let missed = |(other, at)| other != id && now.saturating_duration_since(at) < TOGETHER;
                self.tries =
                    if self.alone.is_some_and(missed) { TRIES } else { self.tries.saturating_sub(1) };
                self.alone = Some((id, now));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::{Dir, Side};

    use super::*;

    fn stream(index: u64) -> StreamId {
        StreamId::new(Side::Client, Dir::Bi, index)
    }

    fn at(us: u64) -> Instant {
        Instant::ORIGIN + Duration::from_micros(us)
    }

    #[test]
    fn who_writes_alone_waits_for_nobody_until_two_write_together() {
        let mut company = Company::default();
        for time in 0..u64::from(TRIES) {
            assert!(company.is_expected());
            company.on_send(at(time), Writers::One(stream(0)), false);
        }
        assert!(!company.is_expected());
        company.on_send(at(5_000), Writers::None, false);
        company.on_send(at(5_000), Writers::One(stream(1)), false);
        assert!(!company.is_expected(), "long after the other");
        company.on_send(at(5_100), Writers::One(stream(0)), false);
        assert!(company.is_expected(), "it could have left with the other's");
        for time in 0..u64::from(TRIES) {
            company.on_send(at(9_000 + time), Writers::One(stream(0)), false);
        }
        assert!(!company.is_expected());
        company.on_send(at(9_100), Writers::Several, false);
        assert!(company.is_expected());
        for time in 0..u64::from(TRIES) {
            company.on_send(at(9_200 + time), Writers::One(stream(0)), false);
        }
        assert!(!company.is_expected());
        company.on_send(at(9_300), Writers::One(stream(0)), true);
        assert!(company.is_expected(), "a transfer has begun");
    }

    #[test]
    fn writers_are_counted_up_to_two() {
        let mut writers = Writers::default();
        writers.add(stream(3));
        writers.add(stream(3));
        assert_eq!(writers, Writers::One(stream(3)));
        writers.add(stream(4));
        writers.add(stream(4));
        assert_eq!(writers, Writers::Several);
    }
}
