//! What the schemes ask about un-ACKed packets.

use units::Instant;

use crate::{PacketNumber, PathId};

/// A run of source packets of one path, in ascending packet number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceRun {
    /// The lowest packet number of the run.
    pub first: PacketNumber,
    /// The highest.
    pub last: PacketNumber,
    /// How many source packets lie in `first..=last`; other packet numbers in between are not part
    /// of the run.
    pub packets: u32,
}

/// The un-ACKed packets of one path that nothing protects: neither copied, nor in a block, nor
/// recovery packets themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exposed {
    /// The lowest packet number of them.
    pub first: PacketNumber,
    /// The highest.
    pub last: PacketNumber,
    /// How many there are.
    pub packets: u32,
    /// Their bytes together.
    pub bytes: u64,
    /// When the last of them left.
    pub last_sent_at: Instant,
}

impl Exposed {
    /// Those of `before`, if any, and a packet with a higher number.
    pub fn and(before: Option<Self>, number: PacketNumber, bytes: u64, sent_at: Instant) -> Self {
        Self {
            first: before.map_or(number, |before| before.first),
            last: number,
            packets: before.map_or(0, |before| before.packets) + 1,
            bytes: before.map_or(0, |before| before.bytes) + bytes,
            last_sent_at: sent_at,
        }
    }
}

/// The un-ACKed packets of every path, as the owner of the packet records answers for them.
///
/// "Un-ACKed" is a packet that carries retransmittable data and is neither acknowledged nor
/// declared lost on its path. Packet numbers count up per path. Every query must be cheap, since
/// schemes ask at every sending opportunity.
pub trait UnackedView {
    /// The lowest un-ACKed packet of `path` that is not itself a recovery packet and has not been
    /// resent before.
    fn oldest_resendable(&self, path: PathId) -> Option<PacketNumber>;

    /// At most `limit` (at least 1) un-ACKed source packets of `path` with numbers above `after`
    /// (from the start if `None`), the lowest ones. Source packets are those whose content is at
    /// hand for coding; recovery packets never are. `None` if there are none.
    ///
    /// A view may let the run include packets that were acknowledged in between (COF-A11), or leave
    /// them out.
    fn source_run(&self, path: PathId, after: Option<PacketNumber>, limit: u32) -> Option<SourceRun>;

    /// Whether any packet of `path` in `first..=last` is still un-ACKed.
    fn any_unacked(&self, path: PathId, first: PacketNumber, last: PacketNumber) -> bool;

    /// At most the `limit` (at least 1) lowest un-ACKed packets of `path` that nothing protects
    /// yet. `None` if there are none.
    fn exposed(&self, path: PathId, limit: u32) -> Option<Exposed>;

    /// The lowest un-ACKed packet of `path` in `first..=last` that is not a recovery packet,
    /// whether or not it was resent before.
    fn next_unacked(&self, path: PathId, first: PacketNumber, last: PacketNumber) -> Option<PacketNumber>;
}

#[cfg(test)]
pub(crate) mod test_view {
    use std::collections::BTreeMap;

    use units::Instant;

    use super::{Exposed, SourceRun, UnackedView};
    use crate::{PacketNumber, PathId};

    /// Un-ACKed packets in a map; the value tells whether the packet was resent.
    #[derive(Default)]
    pub(crate) struct Packets(pub(crate) BTreeMap<(PathId, PacketNumber), bool>);

    impl Packets {
        pub(crate) fn new(path: PathId, numbers: impl IntoIterator<Item = u64>) -> Self {
            Self(numbers.into_iter().map(|n| ((path, PacketNumber(n)), false)).collect())
        }

        pub(crate) fn send(&mut self, path: PathId, numbers: impl IntoIterator<Item = u64>) {
            self.0.extend(numbers.into_iter().map(|n| ((path, PacketNumber(n)), false)));
        }

        pub(crate) fn acknowledge(&mut self, path: PathId, numbers: impl IntoIterator<Item = u64>) {
            for number in numbers {
                self.0.remove(&(path, PacketNumber(number)));
            }
        }

        pub(crate) fn mark_resent(&mut self, path: PathId, number: PacketNumber) {
            *self.0.get_mut(&(path, number)).expect("un-ACKed") = true;
        }
    }

    impl UnackedView for Packets {
        fn oldest_resendable(&self, path: PathId) -> Option<PacketNumber> {
            let packets = self.0.range((path, PacketNumber::ZERO)..=(path, PacketNumber::MAX));
            packets.filter(|(_, resent)| !**resent).map(|((_, number), _)| *number).next()
        }

        fn source_run(&self, path: PathId, after: Option<PacketNumber>, limit: u32) -> Option<SourceRun> {
            let from = after.map_or(PacketNumber::ZERO, PacketNumber::next);
            let mut numbers =
                self.0.range((path, from)..=(path, PacketNumber::MAX)).map(|((_, number), _)| *number);
            let first = numbers.next()?;
            let run = SourceRun { first, last: first, packets: 1 };
            Some(numbers.take(limit as usize - 1).fold(run, |run, number| SourceRun {
                last: number,
                packets: run.packets + 1,
                ..run
            }))
        }

        fn any_unacked(&self, path: PathId, first: PacketNumber, last: PacketNumber) -> bool {
            self.next_unacked(path, first, last).is_some()
        }

        fn exposed(&self, path: PathId, limit: u32) -> Option<Exposed> {
            let packets = self.0.range((path, PacketNumber::ZERO)..=(path, PacketNumber::MAX));
            let numbers = packets.filter(|(_, resent)| !**resent).map(|((_, number), _)| *number);
            numbers
                .take(limit as usize)
                .fold(None, |all, number| Some(Exposed::and(all, number, 1_200, Instant::ORIGIN)))
        }

        fn next_unacked(
            &self,
            path: PathId,
            first: PacketNumber,
            last: PacketNumber,
        ) -> Option<PacketNumber> {
            self.0
                .range((path, first)..)
                .map(|((of, n), _)| (*of, *n))
                .next()
                .filter(|(of, n)| *of == path && *n <= last)
                .map(|(_, n)| n)
        }
    }
}
