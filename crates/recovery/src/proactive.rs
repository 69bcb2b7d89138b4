//! Proactive: every packet is sent twice on its own path, right behind the original, whether or not data waits.
//!
//! The baseline of FUSO section VI-A and CoFUSO section 6.1.2, kept as the bad example: it doubles the load, and a burst
//! takes both copies.
//!
//! # Invariants
//! One copy per packet, none of a copy.

use crate::{UnackedView, fuso::Reinjection};

/// The copy that `path` owes, if any. It goes before new data, under the path's own window.
pub fn step(path: u32, view: &dyn UnackedView) -> Option<Reinjection> {
    view.oldest_resendable(path).map(|packet| Reinjection { packet, of: path, on: path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unacked::test_view::Packets;

    #[test]
    fn each_packet_once() {
        let mut packets = Packets::new(0, [3, 4]);
        for packet in [3, 4] {
            assert_eq!(step(0, &packets), Some(Reinjection { packet, of: 0, on: 0 }));
            packets.mark_resent(0, packet);
        }
        assert_eq!(step(0, &packets), None);
    }
}
