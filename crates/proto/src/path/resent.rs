//! Whether the frames of an un-ACKed packet have left once more, and where.

use super::sent::{Content, SentPacket};

/// Whether the frames of an un-ACKed packet have left once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resent {
    No,
    /// They are pending again since a probe timeout, or recovery found nothing left to copy.
    Elsewhere,
    /// Recovery has copied the packet, but nothing of that is under way on another path: the copies took the
    /// packet's own, or were lost.
    CopiedHere,
    /// Recovery has sent a copy of the packet over another path.
    Copied,
    /// Recovery has copied the packet, and a probe timeout has made its frames pending again: whatever becomes of
    /// the copies, another packet answers for them.
    CopiedAndMoved,
}

impl SentPacket {
    /// Its frames are pending again, or nothing of them was left to copy.
    pub(crate) fn on_moved(&mut self) {
        self.resent = match self.resent {
            Resent::No | Resent::Elsewhere => Resent::Elsewhere,
            Resent::CopiedHere | Resent::Copied | Resent::CopiedAndMoved => Resent::CopiedAndMoved,
        };
    }

    /// Recovery is about to copy it, or finds nothing left to copy: it is not the first to be looked at any more.
    /// Returns what was known of it, for [`on_copied`](Self::on_copied).
    pub(crate) fn on_copy_tried(&mut self) -> Resent {
        let before = self.resent;
        self.on_moved();
        before
    }

    /// Recovery has sent a copy of it, of which this was known `before`; `here`: over its own path, and nothing of it
    /// has left over another one.
    pub(crate) fn on_copied(&mut self, before: Resent, here: bool) {
        self.resent = match before {
            Resent::Elsewhere | Resent::CopiedAndMoved => Resent::CopiedAndMoved,
            _ if here => Resent::CopiedHere,
            _ => Resent::Copied,
        };
    }

    /// A copy of it was lost.
    pub(crate) fn on_copy_lost(&mut self) {
        if self.resent == Resent::Copied {
            self.resent = Resent::CopiedHere;
        }
    }

    /// Whether recovery has resent its frames, or a probe timeout has moved them to another path.
    pub(crate) fn is_resent(&self) -> bool {
        self.resent != Resent::No
    }

    /// Whether recovery has sent a copy of it.
    pub(crate) fn is_copied(&self) -> bool {
        matches!(self.resent, Resent::CopiedHere | Resent::Copied | Resent::CopiedAndMoved)
    }

    /// Whether what it carried is under way on its own path alone.
    pub(crate) fn is_stuck(&self) -> bool {
        let here = matches!(self.resent, Resent::No | Resent::CopiedHere);
        here && self.content == Content::Awaited && self.waits_for_delivery()
    }
}

#[cfg(test)]
mod tests {
    use units::Instant;

    use super::*;

    /// What becomes of a packet that these have happened to: whether it is copied, and whether it is stuck.
    fn after(events: &[fn(&mut SentPacket)]) -> (bool, bool) {
        let mut packet = SentPacket::for_test(Instant::ORIGIN);
        packet.frames.datagram = true;
        events.iter().for_each(|event| event(&mut packet));
        (packet.is_copied(), packet.is_stuck())
    }

    #[test]
    fn a_packet_is_stuck_until_something_of_it_is_under_way_on_another_path() {
        type Event = fn(&mut SentPacket);
        let here: Event = |packet| {
            let before = packet.on_copy_tried();
            packet.on_copied(before, true);
        };
        let elsewhere: Event = |packet| {
            let before = packet.on_copy_tried();
            packet.on_copied(before, false);
        };
        let arrived: Event = |packet| packet.on_arrived(Content::CopyArrived);
        let (moved, lost): (Event, Event) = (SentPacket::on_moved, SentPacket::on_copy_lost);
        assert_eq!(after(&[]), (false, true));
        assert_eq!(after(&[moved]), (false, false));
        assert_eq!(after(&[here]), (true, true), "a copy beside it is as late");
        assert_eq!(after(&[elsewhere]), (true, false));
        assert_eq!(after(&[elsewhere, lost]), (true, true));
        assert_eq!(after(&[here, moved]), (true, false));
        assert_eq!(after(&[moved, lost]), (false, false), "what was moved waits elsewhere");
        assert_eq!(after(&[elsewhere, arrived, lost]), (true, false));
        assert_eq!(after(&[here, elsewhere]), (true, false));
        assert_eq!(after(&[elsewhere, moved, lost]), (true, false), "the copy was not all");
        assert_eq!(after(&[elsewhere, lost, moved, lost]), (true, false));
        assert_eq!(
            after(&[moved, elsewhere, lost]),
            (true, false),
            "a copy after the probes, of what waits elsewhere"
        );
    }
}
