//! Statistics never contradict each other or run backwards, and memory stays within its limits.

use proto::{Connection, MAX_GAPS, PathStats, TransportConfig};

use super::Broken;

/// Transmits between two looks at the connection's statistics, which cost more than those of paths.
const EVERY: u32 = 32;

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
        let s = connection.stats();
        all_true!(Books, s;
            s.packets_lost <= s.packets_sent,
            s.packets_mended <= s.packets_lost,
            s.copies_sent + s.repair_sent <= s.packets_sent,
            s.recovery_bytes_sent <= s.bytes_sent,
            s.repair_used + s.repair_wasted <= s.repair_received,
            s.packets_recovered <= s.repair_received,
            s.decoder_memory <= s.decoder_memory_peak,
        );
        all_true!(Memory, s; s.decoder_memory_peak <= self.limits.repair.decoder_memory);
        let held = connection.stream_stats();
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
        p.packets_recovered <= p.packets_lost,
        p.copies_sent + p.repair_sent <= p.packets_sent,
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
