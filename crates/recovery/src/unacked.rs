//! What the schemes ask about un-ACKed packets.

/// A run of source packets of one path, in ascending packet number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceRun {
    /// The lowest packet number of the run.
    pub first: u64,
    /// The highest.
    pub last: u64,
    /// How many source packets lie in `first..=last`; other packet numbers in between are not part of the run.
    pub packets: u32,
}

/// The un-ACKed packets of every path, as the owner of the packet records answers for them.
///
/// "Un-ACKed" is a packet that carries retransmittable data and is neither acknowledged nor declared lost on its path.
/// Packet numbers count up per path. Every query must be cheap, since schemes ask at every sending opportunity.
pub trait UnackedView {
    /// The lowest un-ACKed packet of `path` that is not itself a recovery packet and has not been resent before.
    fn oldest_resendable(&self, path: u32) -> Option<u64>;

    /// At most `limit` (at least 1) un-ACKed source packets of `path` with numbers above `after` (from the start if
    /// `None`), the lowest ones. Source packets are those whose content is at hand for coding; recovery packets never
    /// are. `None` if there are none.
    ///
    /// A view may let the run include packets that were acknowledged in between (COF-A11), or leave them out.
    fn source_run(&self, path: u32, after: Option<u64>, limit: u32) -> Option<SourceRun>;

    /// Whether any packet of `path` in `first..=last` is still un-ACKed.
    fn any_unacked(&self, path: u32, first: u64, last: u64) -> bool;
}

#[cfg(test)]
pub(crate) mod test_view {
    use std::collections::BTreeMap;

    use super::{SourceRun, UnackedView};

    /// Un-ACKed packets in a map; the value tells whether the packet was resent.
    #[derive(Default)]
    pub(crate) struct Packets(pub(crate) BTreeMap<(u32, u64), bool>);

    impl Packets {
        pub(crate) fn new(path: u32, numbers: impl IntoIterator<Item = u64>) -> Self {
            Self(numbers.into_iter().map(|n| ((path, n), false)).collect())
        }

        pub(crate) fn send(&mut self, path: u32, numbers: impl IntoIterator<Item = u64>) {
            self.0.extend(numbers.into_iter().map(|n| ((path, n), false)));
        }

        pub(crate) fn acknowledge(&mut self, path: u32, numbers: impl IntoIterator<Item = u64>) {
            for number in numbers {
                self.0.remove(&(path, number));
            }
        }

        pub(crate) fn mark_resent(&mut self, path: u32, number: u64) {
            *self.0.get_mut(&(path, number)).expect("un-ACKed") = true;
        }
    }

    impl UnackedView for Packets {
        fn oldest_resendable(&self, path: u32) -> Option<u64> {
            let packets = self.0.range((path, 0)..=(path, u64::MAX));
            packets.filter(|(_, resent)| !**resent).map(|((_, number), _)| *number).next()
        }

        fn source_run(&self, path: u32, after: Option<u64>, limit: u32) -> Option<SourceRun> {
            let from = after.map_or(0, |after| after + 1);
            let mut numbers = self.0.range((path, from)..=(path, u64::MAX)).map(|((_, number), _)| *number);
            let first = numbers.next()?;
            let run = SourceRun { first, last: first, packets: 1 };
            Some(numbers.take(limit as usize - 1).fold(run, |run, number| SourceRun {
                last: number,
                packets: run.packets + 1,
                ..run
            }))
        }

        fn any_unacked(&self, path: u32, first: u64, last: u64) -> bool {
            self.0.range((path, first)..=(path, last)).next().is_some()
        }
    }
}
