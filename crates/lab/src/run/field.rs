//! A contender in its test bed, and the bookkeeping of what it does there.

use std::collections::BTreeMap;

use emulator::{DirectionStats, PathStats};
use units::Duration;

use super::numbers;
use crate::{
    Contender, LabError,
    bed::{MptcpCounters, TestBed, counters},
    fetch::Transfer,
    report::{Mptcp, PathUse, Row},
    running::{Programs, Running},
};

/// Fields are dropped in this order: the programs end before their networks.
pub(super) struct Field {
    pub(super) running: Running,
    pub(super) bed: TestBed,
}

/// Counters of a field before something.
pub(super) struct Before {
    counts: Counts,
    origin_cpu: Duration,
    mptcp: MptcpCounters,
}

/// Counters of links and programs.
pub(super) struct Counts {
    paths: Vec<PathStats>,
    cpu: Option<Duration>,
    /// `None` if the program did not tell, as those of others.
    statistics: Option<BTreeMap<String, f64>>,
    server_statistics: Option<BTreeMap<String, f64>>,
}

impl Counts {
    pub(super) fn of(bed: &TestBed, programs: &Programs) -> Result<Self, LabError> {
        Ok(Self {
            paths: bed.stats()?,
            cpu: programs.cpu(),
            statistics: programs.statistics(bed).map(numbers),
            server_statistics: programs.server_statistics(bed).map(numbers),
        })
    }

    /// Adds to `row` what has happened since.
    pub(super) fn add_since(
        &self,
        bed: &TestBed,
        programs: &Programs,
        row: &mut Row,
    ) -> Result<(), LabError> {
        row.paths.resize(bed.paths.len(), PathUse::default());
        for ((total, then), now) in row.paths.iter_mut().zip(&self.paths).zip(bed.stats()?) {
            add_path(total, then, &now);
        }
        if let (Some(then), Some(now)) = (self.cpu, programs.cpu()) {
            row.cpu_ms = Some(row.cpu_ms.unwrap_or(0.0) + (now - then).as_millis_f64());
        }
        // Of a program that has ended nothing is known any more.
        let peaks = programs.peak_memory();
        row.peak_memory_bytes.resize(peaks.len(), 0);
        for (peak, now) in row.peak_memory_bytes.iter_mut().zip(peaks) {
            *peak = now.max(*peak);
        }
        let now = programs.statistics(bed).map(numbers);
        add_growth(&mut row.statistics, self.statistics.as_ref(), now);
        let now = programs.server_statistics(bed).map(numbers);
        add_growth(&mut row.server_statistics, self.server_statistics.as_ref(), now);
        Ok(())
    }
}

impl Field {
    pub(super) fn before(&self) -> Result<Before, LabError> {
        Ok(Before {
            counts: Counts::of(&self.bed, &self.running.programs)?,
            origin_cpu: self.running.origin.cpu(),
            mptcp: self.bed.server.run(counters)?,
        })
    }

    /// Adds to `row` what has happened since.
    pub(super) fn add_since(
        &self,
        before: &Before,
        contender: &Contender,
        row: &mut Row,
    ) -> Result<(), LabError> {
        before.counts.add_since(&self.bed, &self.running.programs, row)?;
        row.endpoint_cpu_ms += (self.running.origin.cpu() - before.origin_cpu).as_millis_f64();
        if matches!(contender, Contender::Mptcp { .. }) {
            let now = self.bed.server.run(counters)?;
            let total = row.mptcp.get_or_insert_with(Mptcp::default);
            total.connections += now.connections - before.mptcp.connections;
            total.joins += now.joins - before.mptcp.joins;
            total.fallbacks += now.fallbacks - before.mptcp.fallbacks;
        }
        Ok(())
    }
}

/// Adds by how much numbers have grown, where both are known.
fn add_growth(
    total: &mut BTreeMap<String, f64>,
    then: Option<&BTreeMap<String, f64>>,
    now: Option<BTreeMap<String, f64>>,
) {
    let (Some(then), Some(now)) = (then, now) else { return };
    for (name, now) in now {
        let then = then.get(&name).copied().unwrap_or(0.0);
        // A new connection counts from zero.
        *total.entry(name).or_default() += if now >= then { now - then } else { now };
    }
}

fn add_path(total: &mut PathUse, then: &PathStats, now: &PathStats) {
    let late = |then: &DirectionStats, now: &DirectionStats| (now.total_late - then.total_late).as_nanos();
    let late = (late(&then.down, &now.down) + late(&then.up, &now.up)) as f64 / 1e3;
    let before = total.late_mean_us * delivered(total) as f64;
    let (down, up) = (now.down.link, now.up.link);
    total.down_packets += down.offered - then.down.link.offered;
    total.down_bytes += down.offered_bytes - then.down.link.offered_bytes;
    total.down_lost += lost(&now.down) - lost(&then.down);
    total.down_overflow += down.dropped_queue - then.down.link.dropped_queue;
    total.up_packets += up.offered - then.up.link.offered;
    total.up_bytes += up.offered_bytes - then.up.link.offered_bytes;
    total.up_lost += lost(&now.up) - lost(&then.up);
    total.up_overflow += up.dropped_queue - then.up.link.dropped_queue;
    total.late_mean_us = (before + late) / delivered(total).max(1) as f64;
}

/// Packets that came to the end of a link in either direction: of the others nothing is late.
fn delivered(path: &PathUse) -> u64 {
    let gone = path.down_lost + path.down_overflow + path.up_lost + path.up_overflow;
    (path.down_packets + path.up_packets).saturating_sub(gone)
}

fn lost(direction: &DirectionStats) -> u64 {
    direction.link.lost + direction.link.dropped_outage
}

/// Adds a fetch or transfer to a row.
pub(super) fn add_transfer(row: &mut Row, transfer: &Transfer, limit: Duration) {
    let setup = if row.setup_counted { transfer.setup } else { Duration::ZERO };
    let time = if transfer.complete { transfer.time + setup } else { limit };
    row.count += 1;
    row.failed += u32::from(!transfer.complete);
    row.times_ms.push(time.as_millis_f64());
    row.setup_ms.push(transfer.setup.as_millis_f64());
    row.gaps_ms.push(transfer.longest_gap.as_millis_f64());
    row.payload_bytes += transfer.bytes;
    row.endpoint_cpu_ms += transfer.cpu.as_millis_f64();
}

#[cfg(test)]
mod tests {
    use netsim::LinkStats;

    use super::*;

    #[test]
    fn what_was_not_told_has_not_grown() {
        let told = |n: f64| BTreeMap::from([("n".to_owned(), n)]);
        let mut total = BTreeMap::new();
        // A busy machine's program may not answer in time: what it counted before is nobody's.
        add_growth(&mut total, None, Some(told(900.0)));
        add_growth(&mut total, Some(&told(900.0)), None);
        assert_eq!(total, BTreeMap::new());
        add_growth(&mut total, Some(&told(900.0)), Some(told(907.0)));
        add_growth(&mut total, Some(&told(907.0)), Some(told(5.0)));
        assert_eq!(total, told(12.0), "the last is a new connection's");
    }

    #[test]
    fn lateness_is_that_of_packets_that_arrive() {
        let mut now = PathStats::default();
        now.down.link =
            LinkStats { offered: 100, lost: 30, dropped_queue: 20, delivered: 50, ..LinkStats::default() };
        now.down.total_late = Duration::from_micros(500);
        let mut total = PathUse::default();
        // Two turns of the same.
        for packets in [100, 200] {
            add_path(&mut total, &PathStats::default(), &now);
            assert_eq!((total.down_packets, total.late_mean_us), (packets, 10.0));
        }
    }
}
