//! Calls, of all contenders at the same time.

use std::fmt::Write as _;

use units::Duration;

use super::{Lab, field::Counts, named, own_error};
use crate::{
    Call, Cancel, Contender, Cuts, LabError, Network,
    bed::TestBed,
    clock::{self, Moment},
    report::{Kind, Row},
    running::{Caller, Starter},
};

/// Fields are dropped in this order: the programs end before their networks.
struct Ends {
    caller: Caller,
    bed: TestBed,
}

impl Lab<'_> {
    pub(super) fn calls(&mut self, network: &Network, call: &Call) -> Result<Vec<Row>, LabError> {
        let time = call.time(self.options.scale);
        let cut = call.cuts.as_ref().map_or_else(String::new, |cuts| {
            format!(", path {} cut for {} of {}", cuts.path, cuts.time, cuts.every)
        });
        let name = named(&call.name, format!("calls of {time}, frames within {}{cut}", call.deadline));
        self.tell(format!("{}: {name}: starting", network.name));
        let mut rows = Vec::new();
        let mut ends = Vec::new();
        for contender in &network.contenders {
            let mut row = Row { kind: Kind::Call, ..self.row(network, &name, contender) };
            let started = self.ends(network, contender)?;
            row.error = started.as_ref().err().cloned();
            ends.push(started.ok());
            rows.push(row);
        }
        let count = self.options.count.unwrap_or_else(|| call.count(self.options.scale));
        for n in 0..u64::from(count) {
            self.one_each(call, time, n, &mut ends, &mut rows)?;
            rows.iter().filter(|row| row.error.is_none()).for_each(|_| self.done += 1);
            self.tell(format!("{}: {name}", network.name));
        }
        rows.iter_mut().for_each(Row::summarise);
        Ok(rows)
    }

    fn ends(&self, network: &Network, contender: &Contender) -> Result<Result<Ends, String>, LabError> {
        let first = contender.paths(network.paths.len()).first().copied().unwrap_or(0);
        let bed = TestBed::new(&network.paths, first, self.seed(), self.plan.tcp_metrics)?;
        own_error(self.starter.caller(contender, &bed).map(|caller| Ends { caller, bed }))
    }

    /// The `n`-th call of every contender, all at once.
    fn one_each(
        &self,
        call: &Call,
        time: Duration,
        n: u64,
        ends: &mut [Option<Ends>],
        rows: &mut [Row],
    ) -> Result<(), LabError> {
        let one = One { call, time, n, seed: self.plan.seed, starter: &self.starter };
        let outcomes: Vec<Result<(), LabError>> = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (ends, row) in ends.iter_mut().zip(rows.iter_mut()) {
                let (None, Some(ends)) = (&row.error, ends) else { continue };
                let one = &one;
                threads.push(scope.spawn(move || {
                    let outcome = own_error(one.make(ends, row))?;
                    row.error = outcome.err();
                    Ok(())
                }));
            }
            let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            joined.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        outcomes.into_iter().collect()
    }
}

/// A call to be made.
struct One<'a> {
    call: &'a Call,
    time: Duration,
    n: u64,
    seed: u64,
    starter: &'a Starter<'a>,
}

impl One<'_> {
    fn make(&self, ends: &mut Ends, row: &mut Row) -> Result<(), LabError> {
        let Ends { caller, bed } = ends;
        bed.settle(self.starter.cancel)?;
        // The same frames for everybody.
        let seed = self.seed.wrapping_add(self.n);
        let under_way = caller.begin(self.starter, bed, self.time, self.call.deadline, seed)?;
        bed.reseed(self.n)?;
        let counts = Counts::of(bed, &caller.programs)?;
        let start = Moment::now();
        if let Some(cuts) = &self.call.cuts {
            Cutting { cuts, bed, end: self.time, start }.carry_out(under_way.cuts(), self.starter.cancel)?;
        }
        let outcome = under_way.end(self.time, self.starter)?;
        row.count += 1;
        row.payload_bytes += outcome.media_bytes;
        *row.call.get_or_insert_default() += outcome;
        counts.add_since(bed, &caller.programs, row)?;
        caller.programs.check()
    }
}

/// The cuts of a call.
struct Cutting<'a> {
    cuts: &'a Cuts,
    bed: &'a TestBed,
    /// When the call ends, from its start.
    end: Duration,
    start: Moment,
}

impl Cutting<'_> {
    /// Cuts and restores until the call is over, and writes down when that was.
    fn carry_out(&self, file: &std::path::Path, cancel: &Cancel) -> Result<(), LabError> {
        let mut times = String::new();
        let mut next = self.cuts.every;
        while next < self.end {
            clock::wait(next.saturating_sub(self.start.elapsed()), cancel)?;
            // In this order, so that no frame that met the cut counts as one that did not.
            let from = clock::monotonic();
            self.bed.cut(self.cuts.path, false)?;
            let over = (next + self.cuts.time).saturating_sub(self.start.elapsed());
            let waited = clock::wait(over, cancel);
            self.bed.restore(self.cuts.path)?;
            waited?;
            let _ = writeln!(times, "{} {}", from.as_nanos(), clock::monotonic().as_nanos());
            std::fs::write(file, &times).map_err(LabError::system(format!("write {}", file.display())))?;
            next += self.cuts.every;
        }
        Ok(())
    }
}
