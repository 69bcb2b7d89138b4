//! When datagrams may gather in a socket before they are taken out of it, and for how long
//! (docs/decisions/0038-packets-that-gather.md).

use std::time::Duration;

/// How long datagrams gather. The runtime's timers go off at whole milliseconds, and this is before
/// the next of them: who waits again and again looks once every millisecond.
pub(super) const GATHER: Duration = Duration::from_micros(500);

/// From one such look to the next.
const PERIOD: units::Duration = units::Duration::from_millis(1);

/// Fewer datagrams than that in a period are not worth a timer.
const FEWEST: u64 = 2;

/// More than that come in batches by themselves, and would fill a socket's buffer of the usual size.
const MOST: u64 = 32;

/// Whether datagrams may gather that come at such an interval, and with nothing else to do
/// ([`proto::Connection::bulk_interval`]).
pub(super) fn may_gather(interval: Option<units::Duration>) -> bool {
    interval.is_some_and(|interval| (PERIOD / MOST..=PERIOD / FEWEST).contains(&interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_datagrams_in_a_period_may_gather_and_neither_one_nor_many() {
        let may = |micros| may_gather(Some(units::Duration::from_micros(micros)));
        assert!(!may_gather(None));
        assert_eq!(
            [1_000, 501, 500, 116, 32, 31, 0].map(may),
            [false, false, true, true, true, false, false]
        );
    }
}
