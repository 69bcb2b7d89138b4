//! The counters of a connection, which `/stats` and `/metrics` show and a server adds up.

use std::ops::AddAssign;

use mendpath::{ConnectionStats, RecoveryReasons};
use serde::{Serialize, Serializer, ser::SerializeMap as _};

/// One of the counters.
#[derive(Debug)]
pub(crate) struct Counter {
    /// As the field of [`ConnectionStats`] is called.
    pub(crate) name: &'static str,
    /// What it counts, in a sentence.
    pub(crate) help: &'static str,
    of: fn(&ConnectionStats) -> u64,
}

macro_rules! counter {
    ($field:ident, $help:literal) => {
        Counter { name: stringify!($field), help: $help, of: |stats| stats.$field }
    };
}

/// All counters, in the order in which they are shown.
static COUNTERS: [Counter; 18] = [
    counter!(bytes_sent, "UDP payload bytes sent."),
    counter!(bytes_received, "UDP payload bytes received."),
    counter!(packets_sent, "Packets sent."),
    counter!(packets_received, "Packets received."),
    counter!(packets_lost, "Packets declared lost."),
    counter!(stream_bytes_sent, "Stream bytes sent for the first time."),
    counter!(stream_bytes_received, "Stream bytes received and read."),
    counter!(recovery_bytes_sent, "Bytes of copies and repair symbols sent."),
    counter!(copies_sent, "Copies of packets sent."),
    counter!(late_copies_sent, "Copies of data that was stuck on a slow or dead path."),
    counter!(repair_symbols_sent, "Repair symbols sent."),
    counter!(repair_symbols_received, "Repair symbols received."),
    counter!(repair_symbols_used, "Received repair symbols from which a packet was rebuilt."),
    counter!(repair_symbols_wasted, "Received repair symbols that were not needed or not usable."),
    counter!(packets_rebuilt, "Packets of the peer rebuilt here."),
    counter!(packets_rebuilt_by_peer, "Packets of ours that the peer rebuilt."),
    counter!(packets_mended, "Lost packets whose data had reached the peer by a copy or a repair symbol."),
    counter!(
        datagrams_dropped,
        "Datagrams dropped: not read in time, too long for packets by now, or to make room."
    ),
];

/// The values of the counters, of one connection or of several.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counters {
    values: [u64; COUNTERS.len()],
    recovery_reasons: RecoveryReasons,
}

impl Counters {
    /// Every counter with its value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static Counter, u64)> {
        COUNTERS.iter().zip(self.values)
    }

    /// What recovery did and why.
    pub(crate) fn recovery_reasons(&self) -> &RecoveryReasons {
        &self.recovery_reasons
    }
}

impl From<&ConnectionStats> for Counters {
    fn from(stats: &ConnectionStats) -> Self {
        Self {
            values: COUNTERS.each_ref().map(|counter| (counter.of)(stats)),
            recovery_reasons: stats.reasons,
        }
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.values.iter_mut().zip(other.values).for_each(|(sum, value)| *sum += value);
        self.recovery_reasons += other.recovery_reasons;
    }
}

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(COUNTERS.len() + 1))?;
        for (counter, value) in self.iter() {
            map.serialize_entry(counter.name, &value)?;
        }
        map.serialize_entry("recovery_reasons", &ByName(&self.recovery_reasons))?;
        map.end()
    }
}

struct ByName<'a>(&'a RecoveryReasons);

impl Serialize for ByName<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.named())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted() -> Counters {
        let mut stats = ConnectionStats::default();
        (stats.bytes_sent, stats.packets_mended, stats.reasons.single) = (100, 7, 2);
        Counters::from(&stats)
    }

    #[test]
    fn each_has_its_name_and_value() {
        let shown = serde_json::to_value(counted()).unwrap();
        assert_eq!(shown.as_object().unwrap().len(), COUNTERS.len() + 1);
        assert_eq!((&shown["bytes_sent"], &shown["packets_mended"]), (&100.into(), &7.into()));
        assert_eq!(shown["bytes_received"], 0);
        assert_eq!(shown["recovery_reasons"]["single"], 2);
    }

    #[test]
    fn connections_add_up() {
        let mut sum = counted();
        sum += counted();
        let shown = serde_json::to_value(sum).unwrap();
        assert_eq!((&shown["bytes_sent"], &shown["packets_mended"]), (&200.into(), &14.into()));
        assert_eq!(shown["recovery_reasons"]["single"], 4);
    }
}
