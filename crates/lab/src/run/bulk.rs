//! Long transfers, of every contender in turn, with a path cut meanwhile if the plan says so.

use std::sync::atomic::{AtomicBool, Ordering};

use units::Duration;

use super::{
    Lab,
    field::{Field, add_transfer},
    named, own_error,
};
use crate::{
    Bulk, Cancel, Cut, LabError, Network, PathOrEach,
    bed::TestBed,
    clock::{self, Moment},
    fetch::{Client, Connection, Transfer},
    report::{CutOutcome, Kind, Row},
};

/// What a path must deliver to count as used again: more than probes.
const USED: u64 = 20_000;

impl Lab<'_> {
    pub(super) fn bulks(
        &mut self,
        network: &Network,
        fields: &mut [Result<Field, String>],
        bulk: &Bulk,
    ) -> Result<Vec<Row>, LabError> {
        let limit = bulk.limit(self.options.scale);
        let cut = bulk.cut.as_ref().map_or("", |_| ", a path cut meanwhile");
        let name = named(&bulk.name, format!("transfers of {}, at most {limit}{cut}", bulk.size));
        let mut rows: Vec<Row> = network
            .contenders
            .iter()
            .map(|contender| Row {
                kind: Kind::Bulk,
                size_bytes: Some(bulk.size.get()),
                ..self.row(network, &name, contender)
            })
            .collect();
        for n in 0..u64::from(bulk.count(self.options.scale)) {
            for ((field, row), contender) in fields.iter_mut().zip(&mut rows).zip(&network.contenders) {
                match field {
                    Err(error) => row.error = Some(error.clone()),
                    Ok(_) if row.error.is_some() => {}
                    Ok(field) => {
                        let before = field.before()?;
                        let outcome = self.transfer(field, bulk, limit, n, row);
                        row.error = own_error(outcome)?.err();
                        field.add_since(&before, contender, row)?;
                        self.count(&format!("{}: {name}: {contender}", network.name));
                    }
                }
            }
        }
        rows.iter_mut().for_each(Row::summarise);
        Ok(rows)
    }

    fn transfer(
        &self,
        field: &mut Field,
        bulk: &Bulk,
        limit: Duration,
        n: u64,
        row: &mut Row,
    ) -> Result<(), LabError> {
        let cancel = &self.options.cancel;
        field.bed.settle(cancel)?;
        let mut connection =
            match Connection::open(&field.bed.client, &field.running.target, n, limit, cancel)? {
                Ok(connection) => connection,
                Err(error) => {
                    // A program that has ended knows better what was wrong.
                    field.running.programs.check()?;
                    return Err(LabError::system("connect")(error));
                }
            };
        field.bed.reseed(n)?;
        let client = Client { pattern: self.starter.pattern.clone(), cancel: cancel.clone() };
        let done = AtomicBool::new(false);
        let (transfer, cut) = std::thread::scope(|scope| {
            let cutter = bulk.cut.as_ref().map(|cut| {
                let planned = Planned::new(cut, &field.bed, self.seed(), n);
                let (bed, done) = (&field.bed, &done);
                scope.spawn(move || planned.carry_out(bed, done, cancel))
            });
            let transfer = client.fetch(&mut connection, bulk.size.get(), limit, |_| {});
            done.store(true, Ordering::Relaxed);
            let cut =
                cutter.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            (transfer, cut)
        });
        let transfer: Transfer = transfer?;
        row.cuts.extend(cut.transpose()?.flatten());
        row.goodputs_mbps.push(goodput_mbps(&transfer, limit));
        add_transfer(row, &transfer, limit);
        drop(connection);
        field.running.programs.check()
    }
}

/// What came by the time that it took. A transfer that breaks brings nothing more until the limit: it is not
/// as fast as it was before.
fn goodput_mbps(transfer: &Transfer, limit: Duration) -> f64 {
    let time = if transfer.complete { transfer.time } else { transfer.time.max(limit) };
    transfer.bytes as f64 * 8.0 / time.as_secs_f64().max(1e-9) / 1e6
}

/// A cut with its numbers drawn.
struct Planned {
    path: usize,
    after: Duration,
    time: Duration,
    hold: bool,
}

impl Planned {
    /// The cut of the `n`-th transfer: the same for every contender.
    fn new(cut: &Cut, bed: &TestBed, seed: netsim::Seed, n: u64) -> Self {
        let path = match cut.path {
            PathOrEach::One(path) => path,
            PathOrEach::Each => n as usize % bed.paths.len(),
        };
        let span = (cut.after.until - cut.after.from).as_nanos();
        let drawn = netsim::Rng::new(seed.child("cut", n)).below(span.saturating_add(1));
        let after = cut.after.from + Duration::from_nanos(drawn);
        Self { path, after, time: cut.time, hold: cut.hold }
    }

    /// Cuts, restores, and watches for the path's use. Nothing if the transfer is done before.
    fn carry_out(
        &self,
        bed: &TestBed,
        done: &AtomicBool,
        cancel: &Cancel,
    ) -> Result<Option<CutOutcome>, LabError> {
        let is_done = || Ok(done.load(Ordering::Relaxed).then_some(()));
        if clock::poll_until(self.after, cancel, is_done)?.is_some() {
            return Ok(None);
        }
        bed.cut(self.path, self.hold)?;
        let over = clock::poll_until(self.time, cancel, is_done);
        bed.restore(self.path)?;
        let outlived = over?.is_none();
        let returned = Moment::now();
        let delivered = || -> Result<u64, LabError> { Ok(bed.stats()?[self.path].down.link.delivered_bytes) };
        let before = delivered()?;
        let used = clock::poll_until(Duration::MAX, cancel, || {
            if delivered()? >= before + USED {
                return Ok(Some(Some(returned.elapsed().as_millis_f64())));
            }
            Ok(done.load(Ordering::Relaxed).then_some(None))
        })?;
        Ok(Some(CutOutcome {
            path: self.path,
            after_ms: self.after.as_millis_f64(),
            time_ms: self.time.as_millis_f64(),
            used_again_ms: used.flatten(),
            outlived,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_breaks_off_is_not_fast() {
        let (limit, time) = (Duration::from_secs(20), Duration::from_secs(2));
        let whole = Transfer { bytes: 25_000_000, time, complete: true, ..Transfer::default() };
        assert_eq!(goodput_mbps(&whole, limit), 100.0);
        let broken = Transfer { complete: false, ..whole.clone() };
        assert_eq!(goodput_mbps(&broken, limit), 10.0);
        let stopped = Transfer { time: limit, ..broken };
        assert_eq!(goodput_mbps(&stopped, limit), 10.0);
    }
}
