//! Statistics never contradict each other or run backwards, and memory stays within its limits.

use proto::{Connection, ConnectionStats, MAX_GAPS, PathStats, StreamsStats, TransportConfig};

use super::Broken;

/// Transmits between two looks at the connection's statistics, which cost more than those of paths.
const EVERY: u32 = 32;

/// Control frames that two sides which behave ever owe each other at once.
const MAX_CONTROL: usize = 1_024;

#[derive(Debug)]
pub(super) struct Books {
    limits: TransportConfig,
    transmits: u32,
}

/// An error that names the first false relation of a list.
macro_rules! all_true {
    ($kind:ident, $about:expr; $($relation:expr),+ $(,)?) => {
        $(if !$relation {
            return Err(Broken::$kind(format!("not {}: {:?}", stringify!($relation), $about)));
        })+
    };
}

impl Books {
    pub(super) fn new(limits: &TransportConfig) -> Self {
        Self { limits: limits.clone(), transmits: 0 }
    }

    pub(super) fn on_transmit(
        &mut self,
        before: &[PathStats],
        after: &[PathStats],
        connection: &Connection,
    ) -> Result<(), Broken> {
        for path in after {
            check_path(path)?;
            if let Some(earlier) = before.iter().find(|p| p.id == path.id) {
                check_growth(earlier, path)?;
            }
        }
        self.transmits += 1;
        if self.transmits.is_multiple_of(EVERY) { self.check(connection) } else { Ok(()) }
    }

    /// The connection's own books, and its memory.
    pub(super) fn check(&self, connection: &Connection) -> Result<(), Broken> {
        self.check_stats(&connection.stats())?;
        self.check_streams(&connection.stream_stats())
    }

    fn check_stats(&self, s: &ConnectionStats) -> Result<(), Broken> {
        all_true!(Books, s;
            s.packets_lost <= s.packets_sent,
            s.packets_mended <= s.packets_lost,
            s.copies_sent + s.repair_symbols_sent <= s.packets_sent,
            s.recovery_bytes_sent <= s.bytes_sent,
            s.repair_symbols_used + s.repair_symbols_wasted <= s.repair_symbols_received,
            s.packets_rebuilt <= s.repair_symbols_received,
            // Whoever is honest has always paid for its symbols.
            s.repair_symbols_refused == 0,
            s.decoder_memory <= s.decoder_memory_peak,
        );
        all_true!(Memory, s;
            s.decoder_memory_peak <= self.limits.repair.decoder_memory,
            s.source_memory <= self.limits.repair.source_memory,
            s.control_pending <= MAX_CONTROL,
        );
        Ok(())
    }

    fn check_streams(&self, held: &StreamsStats) -> Result<(), Broken> {
        all_true!(Memory, held;
            held.receive_buffered_max <= self.limits.receive_window,
            held.send_buffered <= self.limits.send_buffer,
            held.gaps_max <= MAX_GAPS,
        );
        Ok(())
    }
}

fn check_path(p: &PathStats) -> Result<(), Broken> {
    all_true!(Books, p;
        p.packets_lost <= p.packets_sent,
        p.bytes_lost + p.in_flight <= p.bytes_sent,
        p.packets_mended <= p.packets_lost,
        p.copies_sent + p.repair_symbols_sent <= p.packets_sent,
        p.window >= u64::from(p.mtu),
        p.rtt_min <= p.rtt,
        (0.0..=1.0).contains(&p.loss_estimate),
    );
    Ok(())
}

fn check_growth(earlier: &PathStats, later: &PathStats) -> Result<(), Broken> {
    all_true!(Books, (earlier, later);
        earlier.packets_sent <= later.packets_sent,
        earlier.bytes_sent <= later.bytes_sent,
        earlier.packets_lost == later.packets_lost,
        earlier.packets_received == later.packets_received,
        later.in_flight - earlier.in_flight.min(later.in_flight) <= later.bytes_sent - earlier.bytes_sent,
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checks::tests::paths, scenario::default_transport};

    #[test]
    fn memory_beyond_its_limits_is_seen() {
        let books = Books::new(&default_transport());
        let limits = default_transport();
        let connection = |change: &dyn Fn(&mut ConnectionStats)| {
            let mut stats = ConnectionStats::default();
            change(&mut stats);
            books.check_stats(&stats)
        };
        assert_eq!(connection(&|_| {}), Ok(()));
        assert!(connection(&|s| s.decoder_memory_peak = limits.repair.decoder_memory + 1).is_err());
        assert!(connection(&|s| s.source_memory = limits.repair.source_memory + 1).is_err());
        assert!(connection(&|s| s.control_pending = MAX_CONTROL + 1).is_err());
        let streams = |stats: StreamsStats| books.check_streams(&stats);
        let none = StreamsStats::default();
        assert_eq!(streams(none), Ok(()));
        assert!(streams(StreamsStats { receive_buffered_max: limits.receive_window + 1, ..none }).is_err());
        assert!(streams(StreamsStats { send_buffered: limits.send_buffer + 1, ..none }).is_err());
        assert!(streams(StreamsStats { gaps_max: MAX_GAPS + 1, ..none }).is_err());
    }

    #[test]
    fn statistics_that_contradict_each_other_are_seen() {
        let books = Books::new(&default_transport());
        let mut lost = ConnectionStats::default();
        lost.packets_lost = 1;
        assert!(books.check_stats(&lost).is_err(), "more lost than sent");
        let mut used = ConnectionStats::default();
        used.repair_symbols_used = 1;
        assert!(books.check_stats(&used).is_err(), "a symbol that never came was used");
        let mut refused = ConnectionStats::default();
        (refused.repair_symbols_received, refused.repair_symbols_wasted, refused.repair_symbols_refused) =
            (1, 1, 1);
        assert!(books.check_stats(&refused).is_err(), "an honest symbol was refused");
        let paths = paths();
        let with = |change: fn(&mut PathStats)| {
            let mut path = paths[1].clone();
            change(&mut path);
            check_path(&path)
        };
        assert_eq!(with(|_| {}), Ok(()));
        assert!(with(|p| p.window = u64::from(p.mtu) - 1).is_err());
        assert!(with(|p| p.in_flight = p.bytes_sent + 1).is_err());
        assert!(with(|p| p.loss_estimate = 1.1).is_err());
        let mut later = paths[1].clone();
        assert_eq!(check_growth(&paths[1], &later), Ok(()));
        later.packets_sent -= 1;
        assert!(check_growth(&paths[1], &later).is_err(), "a counter ran backwards");
    }
}
