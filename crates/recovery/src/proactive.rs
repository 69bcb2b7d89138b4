//! Proactive: every packet is sent twice on its own path, right behind the original, whether or not
//! data waits.
//!
//! The baseline of FUSO section VI-A and CoFUSO section 6.1.2, kept as the bad example: it doubles
//! the load, and a burst takes both copies.
//!
//! # Invariants
//! One copy per packet, none of a copy.

use crate::{PathId, UnackedView, fuso::Reinjection};

/// The copy that `path` owes, if any. It goes before new data, under the path's own window.
pub fn step(path: PathId, view: &dyn UnackedView) -> Option<Reinjection> {
    view.oldest_resendable(path).map(|packet| Reinjection { packet, of: path, on: path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PacketNumber, unacked::test_view::Packets};

    const PATH: PathId = PathId(0);

    #[test]
    fn each_packet_once() {
        let mut packets = Packets::new(PATH, [3, 4]);
        for packet in [3, 4].map(PacketNumber) {
            assert_eq!(step(PATH, &packets), Some(Reinjection { packet, of: PATH, on: PATH }));
            packets.mark_resent(PATH, packet);
        }
        assert_eq!(step(PATH, &packets), None);
    }
}
