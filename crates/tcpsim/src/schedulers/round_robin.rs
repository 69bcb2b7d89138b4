//! Round robin: the next sub-flow with room after the one that took the last segment.

use units::Instant;

use crate::own::{Scheduler, SubflowView, Unsent};

#[derive(Default, Debug)]
pub(super) struct RoundRobin {
    /// Where the search begins.
    next: usize,
}

impl Scheduler for RoundRobin {
    fn choose(&mut self, _now: Instant, _unsent: Unsent, subflows: &[SubflowView]) -> Option<usize> {
        let count = subflows.len();
        let from_here = (0..count).map(|step| (self.next + step) % count);
        let chosen = from_here.into_iter().find(|sub| subflows[*sub].room > 0)?;
        self.next = chosen + 1;
        Some(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::flow, *};

    #[test]
    fn everybody_has_a_turn_and_who_has_no_room_is_passed_over() {
        let flows = [flow(0, 10, 0), flow(1, 10, 10), flow(2, 50, 0)];
        let unsent = Unsent { segments: 9, allowed: 9 };
        let mut robin = RoundRobin::default();
        let chosen: Vec<_> = (0..4).map(|_| robin.choose(Instant::ORIGIN, unsent, &flows)).collect();
        assert_eq!(chosen, [Some(0), Some(2), Some(0), Some(2)]);
    }
}
