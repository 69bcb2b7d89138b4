//! CTCP's choice of the block to send from when a token is free.
//!
//! CTCP section 4.5 (Algorithm 3).
//!
//! | paper               | here                        | unit        |
//! |---------------------|-----------------------------|-------------|
//! | blksize             | [`BlockState::size`]        | packets     |
//! | currdof             | [`BlockState::received`] of the first block | packets |
//! | onfly\[blkno\]      | [`BlockState::on_fly`]      | packets     |
//! | 1.5 RTT             | [`FlightTime`]                | time        |
//! | p                   | `loss`                      | probability |
//! | currblk, numblks    | first block, number of blocks given | blocks |
//!
//! # Departures
//! - The first (current) block is judged by its own test only (CTCP-A10); one token sends one
//!   packet.
//! - For later blocks the packets ACKed so far count as well, because ACKs tell degrees of freedom
//!   of the current block only (CTCP-A11).
//! - No hysteresis, double precision (CTCP-A12). A short last block counts with its own size
//!   (CTCP-A13).
//! - An ACK about another block than the current one does not touch its degrees of freedom
//!   (CTCP-A5).
//! - Coefficients are drawn by the code (`fec`), where CTCP-A17 is decided.
//!
//! # Invariants
//! The earliest block in need is served first. A block that has what it needs is never chosen.

use units::{Duration, Instant};

/// How long a transmission counts as on the fly before it is taken as lost or too late.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlightTime {
    /// Multiple of the RTT, at least 1. Default 1.5.
    pub rtt_factor: f64,
    /// Time on top, for short RTTs. Default 10 ms (CTCP-A14).
    pub extra: Duration,
}

impl Default for FlightTime {
    fn default() -> Self {
        Self { rtt_factor: 1.5, extra: Duration::from_millis(10) }
    }
}

impl FlightTime {
    /// When a packet sent at `sent_at` stops to count.
    pub fn deadline(&self, sent_at: Instant, rtt: Duration) -> Instant {
        sent_at + rtt.mul_f64(self.rtt_factor) + self.extra
    }

    /// Whether a packet sent at `sent_at` still counts.
    pub fn is_on_fly(&self, now: Instant, sent_at: Instant, rtt: Duration) -> bool {
        now < self.deadline(sent_at, rtt)
    }
}

/// One block that is not decoded yet, as the sender knows it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct BlockState {
    /// The block's number.
    pub number: u64,
    /// Source packets in it now: blksize, or fewer at the end of the data.
    pub size: u32,
    /// What the receiver holds: degrees of freedom (currdof) for the first block, ACKed packets for
    /// later ones.
    pub received: u32,
    /// Transmissions for it that are neither ACKed nor overdue.
    pub on_fly: u32,
}

impl BlockState {
    /// The receiver reports `dof` degrees of freedom for block `number`: a report about another
    /// block is stale, and an older report of the same block is no news.
    pub fn on_dof(&mut self, number: u64, dof: u32) {
        if number == self.number {
            self.received = self.received.max(dof.min(self.size));
        }
    }

    /// Whether what the receiver holds and what will probably arrive falls short of the block.
    pub fn falls_short(&self, loss: f64) -> bool {
        let arriving = (1.0 - loss) * f64::from(self.on_fly);
        arriving < f64::from(self.size) - f64::from(self.received)
    }
}

/// The block that the next packet belongs to: the first that falls short. `blocks` start at the
/// current block and go on in order, at most numblks of them. `None`: nothing needs to be sent.
pub fn select(blocks: impl IntoIterator<Item = BlockState>, loss: f64) -> Option<u64> {
    blocks.into_iter().find(|block| block.falls_short(loss)).map(|block| block.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets sent for a fresh block if nothing is ACKed.
    fn sent_unasked(size: u32, loss: f64) -> u32 {
        let mut block = BlockState { size, ..BlockState::default() };
        while select([block], loss).is_some() {
            block.on_fly += 1;
        }
        block.on_fly
    }

    #[test]
    fn worked_example() {
        for (loss, packets) in [(0.0, 32), (0.01, 33), (0.05, 34), (0.1, 36), (0.2, 40)] {
            assert_eq!(sent_unasked(32, loss), packets, "{loss}");
        }
        assert_eq!(sent_unasked(5, 0.1), 6); // a short last block
    }

    #[test]
    fn earlier_blocks_come_first_and_covered_ones_never() {
        let block = |number, received, on_fly| BlockState { number, size: 32, received, on_fly };
        assert_eq!(select([block(7, 30, 1), block(8, 0, 0)], 0.0), Some(7));
        assert_eq!(select([block(7, 30, 2), block(8, 0, 0)], 0.0), Some(8)); // CTCP-A10: not 7 again
        assert_eq!(select([block(7, 30, 2), block(8, 20, 12)], 0.0), None); // CTCP-A11: ACKed ones count
        assert_eq!(select([block(7, 30, 2), block(8, 20, 12)], 0.01), Some(7));
        assert_eq!(select([], 0.5), None);
    }

    #[test]
    fn stale_reports_are_ignored() {
        let mut block = BlockState { number: 7, size: 32, received: 10, on_fly: 0 };
        block.on_dof(6, 31);
        block.on_dof(7, 9);
        assert_eq!(block.received, 10);
        block.on_dof(7, 40);
        assert_eq!(block.received, 32);
        assert!(!block.falls_short(0.9));
    }

    #[test]
    fn flight_time_ends_after_one_and_a_half_rtt() {
        let (flight_time, rtt) = (FlightTime::default(), Duration::from_millis(100));
        let at = |ms| Instant::ORIGIN + Duration::from_millis(ms);
        assert!(flight_time.is_on_fly(at(159), at(0), rtt));
        assert!(!flight_time.is_on_fly(at(160), at(0), rtt));
    }
}
