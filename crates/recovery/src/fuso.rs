//! FUSO: copies of the worst path's oldest un-ACKed packets go over the best path when nothing else
//! wants to be sent.
//!
//! FUSO sections III-B and III-B.1.
//!
//! | paper                               | here                                        | unit    |
//! |-------------------------------------|---------------------------------------------|---------|
//! | BytesInFlight_Total, CWND_Total     | [`Budget::in_flight`], [`Budget::window`]   | bytes   |
//! | no new application data             | not [`Budget::new_data`]                    |         |
//! | TRY_SEND_RECOVERIES                 | call [`step`] until it answers `None`       |         |
//! | SEND_A_RECOVERY                     | [`step`]                                    |         |
//! | un-ACKed, not recovered before      | [`UnackedView::oldest_resendable`]          | packet  |
//! | proactive recovery                  | [`Reinjection`]                             |         |
//!
//! # Departures
//! - Both budgets are required: the totals, and spare window on the best path as its controller
//!   sees it (FUSO-A4, A5).
//! - A path whose un-ACKed packets were all resent is no candidate for worst (FUSO-A3).
//!
//! # Invariants
//! A packet is resent at most once, and a copy never; both hold because the caller's view says so
//! after each step.

use crate::{PacketNumber, PathId, PathSample, UnackedView, path_choice};

/// Whether the connection as a whole has room for recovery packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Sum of the bytes in flight of all paths.
    pub in_flight: u64,
    /// Sum of the congestion windows of all paths, in bytes.
    pub window: u64,
    /// Whether new data (or data to retransmit) could be sent now: it always goes first.
    pub new_data: bool,
}

impl Budget {
    /// The condition of Algorithm 1's loop.
    pub fn allows_recovery(&self) -> bool {
        !self.new_data && self.in_flight < self.window
    }
}

/// Send a copy of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reinjection {
    /// The packet's number on its own path.
    pub packet: PacketNumber,
    /// The path that it was sent on.
    pub of: PathId,
    /// The path to send the copy on.
    pub on: PathId,
}

/// The next copy to send, if there is room and a packet worth it. After sending, mark the packet as
/// resent, account for the copy as for any packet, and ask again.
pub fn step(budget: &Budget, samples: &[PathSample], view: &dyn UnackedView) -> Option<Reinjection> {
    if !budget.allows_recovery() {
        return None;
    }
    let of = path_choice::fuso::worst(samples)?;
    let on = path_choice::fuso::best(samples)?;
    let packet = view.oldest_resendable(of)?;
    Some(Reinjection { packet, of, on })
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;
    use crate::unacked::test_view::Packets;

    const ROOM: Budget = Budget { in_flight: 5_000, window: 10_000, new_data: false };

    fn samples(packets: &Packets) -> [PathSample; 2] {
        [(PathId(0), 0.0), (PathId(1), 0.02)].map(|(path, loss)| PathSample {
            path,
            loss,
            rtt: Duration::from_millis(50),
            spare: path == PathId(0),
            protectable: packets.oldest_resendable(path).is_some(),
            ever_sent: true,
        })
    }

    #[test]
    fn worst_path_first_oldest_packet_first_each_once() {
        let mut packets = Packets::new(PathId(1), [4, 5, 9]);
        packets.send(PathId(0), [7]);
        let mut sent = Vec::new();
        while let Some(copy) = step(&ROOM, &samples(&packets), &packets) {
            packets.mark_resent(copy.of, copy.packet);
            sent.push((copy.of.0, copy.packet.0, copy.on.0));
        }
        // When the lossy path has nothing left to protect, the clean one protects itself.
        assert_eq!(sent, [(1, 4, 0), (1, 5, 0), (1, 9, 0), (0, 7, 0)]);
    }

    #[test]
    fn both_budgets_and_new_data_are_respected() {
        let packets = Packets::new(PathId(1), [4]);
        let samples = samples(&packets);
        assert!(step(&ROOM, &samples, &packets).is_some());
        assert_eq!(step(&Budget { in_flight: 10_000, ..ROOM }, &samples, &packets), None);
        assert_eq!(step(&Budget { new_data: true, ..ROOM }, &samples, &packets), None);
        let full = samples.map(|s| PathSample { spare: false, ..s });
        assert_eq!(step(&ROOM, &full, &packets), None);
    }
}
