//! Round robin: the next path with room after the one that took the last packet.

use units::Instant;

use super::Scheduler;
use crate::{PathSnapshot, wire::PathId};

#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    /// The path of the last packet.
    last: Option<PathId>,
}

impl Scheduler for RoundRobin {
    fn select(&mut self, _now: Instant, paths: &[PathSnapshot], _queued: u64) -> Option<PathId> {
        let open = || paths.iter().filter(|p| p.may_send()).map(|p| p.id);
        let chosen = open().find(|id| Some(*id) > self.last).or_else(|| open().next())?;
        self.last = Some(chosen);
        Some(chosen)
    }

    /// Packets leave one by one, each on its own path.
    fn stays(&mut self, _now: Instant, last: PathId, paths: &[PathSnapshot], _queued: u64) -> bool {
        paths.iter().filter(|p| p.may_send()).all(|p| p.id == last) && paths.iter().any(|p| p.may_send())
    }
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;

    #[test]
    fn everybody_has_a_turn_and_who_has_no_room_is_passed_over() {
        let mut paths = [1, 3, 7].map(|id| PathSnapshot::new(PathId(id), Duration::from_millis(20), 1_200));
        let mut robin = RoundRobin::default();
        let mut turns = |paths: &[PathSnapshot]| {
            [(); 4].map(|()| robin.select(Instant::ORIGIN, paths, 9_000).map(|id| id.0))
        };
        assert_eq!(turns(&paths), [Some(1), Some(3), Some(7), Some(1)]);
        paths[1].in_flight = paths[1].window;
        assert_eq!(turns(&paths), [Some(7), Some(1), Some(7), Some(1)]);
        let mut stays = |paths: &[PathSnapshot]| robin.stays(Instant::ORIGIN, PathId(1), paths, 9_000);
        assert!(!stays(&paths));
        (paths[0].in_flight, paths[2].in_flight) = (0, paths[2].window);
        assert!(stays(&paths), "nobody else has room");
        paths[0].in_flight = paths[0].window;
        assert!(!stays(&paths), "nor has it");
    }
}
