//! Whose turn it is among flows of datagrams: start-time fair queueing (P. Goyal, H. M. Vin, H. Cheng,
//! "Start-time Fair Queuing", SIGCOMM 1996, section 2).
//!
//! A datagram begins where the one before it of its flow ends, counted in bytes, but not before the
//! one that is about to leave. What begins first leaves first. So flows that have more waiting than
//! they get share by bytes, and one that sends less has at most one datagram of each other before it.
//!
//! | paper                              | here                                                     |
//! |------------------------------------|----------------------------------------------------------|
//! | start tag `S(p)`                   | `Outgoing::start`, from [`Turns::start`]                  |
//! | finish tag `F(p)`                  | [`Share::end`], of the last datagram of a flow            |
//! | virtual time `v(t)`: start tag of the packet in service | start of the next to leave, of those of the same priority |
//! | weights                            | all alike                                                |
//!
//! Where none of a priority waits, all begin anew at 0.

/// Flows that are followed at a time. Datagrams of one more leave behind all others, and once it is followed the
/// next may pass those.
const MOST_FLOWS: usize = 512;

/// How far the flows have got that are ahead of what leaves next.
#[derive(Debug, Default)]
pub(super) struct Turns {
    shares: Vec<Share>,
}

/// A flow, among datagrams of a priority.
#[derive(Debug)]
struct Share {
    /// `None`: all that say nothing of flows.
    flow: Option<u32>,
    priority: i32,
    /// Where the last one that was queued ends, in bytes.
    end: u64,
}

impl Turns {
    /// Where a datagram begins that is queued now. `next` tells of a priority where the one begins that is
    /// the next of it to leave.
    pub(super) fn start(
        &mut self,
        flow: Option<u32>,
        priority: i32,
        next: impl Fn(i32) -> Option<u64>,
    ) -> u64 {
        let own = next(priority);
        // Who is not ahead needs no place: the usual one where hardly anything waits.
        self.shares.retain(|share| {
            let next = if share.priority == priority { own } else { next(share.priority) };
            next.is_some_and(|next| share.end > next)
        });
        if let Some(share) = self.share(flow, priority) {
            return share.end;
        }
        if self.shares.len() < MOST_FLOWS {
            return own.unwrap_or(0);
        }
        let ends = self.shares.iter().filter(|share| share.priority == priority).map(|share| share.end);
        ends.max().or(own).unwrap_or(0)
    }

    /// The last datagram of a flow that is queued ends there.
    pub(super) fn set_end(&mut self, flow: Option<u32>, priority: i32, end: u64) {
        if let Some(share) = self.share(flow, priority) {
            share.end = end;
        } else if self.shares.len() < MOST_FLOWS {
            self.shares.push(Share { flow, priority, end });
        }
    }

    fn share(&mut self, flow: Option<u32>, priority: i32) -> Option<&mut Share> {
        self.shares.iter_mut().find(|share| share.flow == flow && share.priority == priority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a datagram of 100 bytes begins.
    fn queue(turns: &mut Turns, flow: u32, priority: i32, next: Option<u64>) -> u64 {
        let start = turns.start(Some(flow), priority, |of| next.filter(|_| of == priority));
        turns.set_end(Some(flow), priority, start + 100);
        start
    }

    #[test]
    fn a_flow_begins_where_it_has_got_to_and_not_before_what_leaves_next() {
        let mut turns = Turns::default();
        assert_eq!(queue(&mut turns, 1, 0, None), 0);
        assert_eq!([0, 0, 50].map(|next| queue(&mut turns, 1, 0, Some(next))), [100, 200, 300]);
        assert_eq!(queue(&mut turns, 2, 0, Some(50)), 50);
        assert_eq!(queue(&mut turns, 2, 0, Some(300)), 300, "it was behind");
        assert_eq!(queue(&mut turns, 1, 0, None), 0, "nothing waits");
        assert_eq!(queue(&mut turns, 2, 0, Some(0)), 0);
    }

    #[test]
    fn who_is_not_ahead_takes_no_place() {
        let mut turns = Turns::default();
        for flow in 0..100_000 {
            queue(&mut turns, flow, 0, Some(u64::from(flow) * 10));
            assert!(turns.shares.len() <= 10);
        }
        // Priorities of which nothing waits are forgotten.
        for priority in 0..1_000 {
            queue(&mut turns, 1, priority, Some(0));
            assert!(turns.shares.len() <= 11);
        }
    }

    #[test]
    fn more_flows_than_are_followed_leave_behind_all_others() {
        let mut turns = Turns::default();
        let most = MOST_FLOWS as u32;
        assert!((0..most).all(|flow| queue(&mut turns, flow, 0, Some(0)) == 0));
        queue(&mut turns, 7, 0, Some(0));
        assert!((most..2 * most).all(|flow| queue(&mut turns, flow, 0, Some(0)) == 200));
        assert_eq!(turns.shares.len(), MOST_FLOWS);
        assert_eq!(queue(&mut turns, 8, 0, Some(0)), 100, "the others go on");
        assert_eq!(queue(&mut turns, most, 0, Some(100)), 100, "there is room again");
    }
}
