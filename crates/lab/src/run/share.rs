//! Two contenders at once over the same links.

use units::Duration;

use super::{
    Lab,
    field::{Counts, Field, add_transfer},
    named, own_error,
};
use crate::{
    Contender, LabError, Network, Share,
    bed::TestBed,
    clock::{self, Moment},
    fetch::{Client, Connection, Transfer},
    report::{Kind, Row, Sharing},
    running::Running,
};

/// More than fits into the time.
const ENDLESS: u64 = 1 << 50;
/// How finely arrivals are counted.
const BIN: Duration = Duration::from_millis(100);
const BINS_PER_SECOND: usize = 10;

/// Bytes that came in each bin, from the first one's start.
type Bins = Vec<u64>;

impl Lab<'_> {
    pub(super) fn share(
        &mut self,
        network: &Network,
        share: &Share,
        pair: &[Contender; 2],
    ) -> Result<[Row; 2], LabError> {
        let time = share.time(self.options.scale);
        let stagger = if share.stagger.is_zero() {
            String::new()
        } else {
            format!(", the second {} later", share.stagger)
        };
        let name = named(&share.name, format!("two at once for {time}{stagger}"));
        self.tell(format!("{}: {name}: {} and {}", network.name, pair[0], pair[1]));
        let mut rows = [0, 1].map(|at| {
            let sharing = Sharing { with: pair[1 - at].to_string(), first: at == 0, ..Sharing::default() };
            Row { kind: Kind::Share, sharing: Some(sharing), ..self.row(network, &name, &pair[at]) }
        });
        let outcome = own_error(self.both(network, share, pair, time, &mut rows))?;
        if let Err(error) = outcome {
            rows.iter_mut().for_each(|row| row.error = Some(error.clone()));
        }
        rows.iter_mut().for_each(Row::summarise);
        // The links' counters are of both.
        let [first, second] = &mut rows;
        let alone = first.payload_bytes as f64;
        let both = alone + second.payload_bytes as f64;
        first.sent_ratio = first.sent_ratio.map(|ratio| ratio * alone / both);
        second.sent_ratio = None;
        self.count(&name);
        Ok(rows)
    }

    fn both(
        &self,
        network: &Network,
        share: &Share,
        pair: &[Contender; 2],
        time: Duration,
        rows: &mut [Row; 2],
    ) -> Result<(), LabError> {
        let first = pair[0].paths(network.paths.len()).first().copied().unwrap_or(0);
        let bed = TestBed::new(&network.paths, first, self.seed(), self.plan.tcp_metrics)?;
        let second = self.starter.start(&pair[1], &bed, 1)?;
        let running = self.starter.start(&pair[0], &bed, 0)?;
        let field = Field { running, bed };
        let before = field.before()?;
        let second_before = (Counts::of(&field.bed, &second.programs)?, second.origin.cpu());
        field.bed.reseed(0)?;
        let start = Moment::now();
        let whole = share.stagger + time;
        let client = Client { pattern: self.starter.pattern.clone(), cancel: self.options.cancel.clone() };
        let (one, two) = std::thread::scope(|scope| {
            let late = scope.spawn(|| {
                clock::wait(share.stagger, &client.cancel)?;
                stream(&client, &field.bed, &second, whole, start)
            });
            let one = stream(&client, &field.bed, &field.running, whole, start);
            (one, late.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let ((one, first_bins), (two, second_bins)) = (one?, two?);
        // What the links carried belongs to both; it stands in the first one's row.
        field.add_since(&before, &pair[0], &mut rows[0])?;
        second_before.0.add_since(&field.bed, &second.programs, &mut rows[1])?;
        rows[1].paths.clear();
        rows[1].endpoint_cpu_ms += (second.origin.cpu() - second_before.1).as_millis_f64();
        add_transfer(&mut rows[0], &one, whole);
        add_transfer(&mut rows[1], &two, time);
        for row in rows.iter_mut() {
            // Nobody was to finish.
            row.failed = 0;
            row.times_ms.clear();
        }
        summarise(rows, &[first_bins, second_bins], share.stagger, whole);
        Ok(())
    }
}

/// Fetches until `end` after `start`, however long connecting takes; returns what came, and when.
fn stream(
    client: &Client,
    bed: &TestBed,
    running: &Running,
    end: Duration,
    start: Moment,
) -> Result<(Transfer, Bins), LabError> {
    let left = || end - start.elapsed();
    let opened = Connection::open(&bed.client, &running.target, 0, left(), &client.cancel)?;
    let mut connection = opened.map_err(LabError::system("connect"))?;
    let (mut bins, mut seen) = (Bins::new(), 0);
    let transfer = client.fetch(&mut connection, ENDLESS, left(), |bytes| {
        let bin = (start.elapsed().as_nanos() / BIN.as_nanos()) as usize;
        bins.resize(bins.len().max(bin + 1), 0);
        bins[bin] += bytes - seen;
        seen = bytes;
    })?;
    Ok((transfer, bins))
}

/// What came of both from when the second began to `end`, from the start of the first.
fn summarise(rows: &mut [Row; 2], bins: &[Bins; 2], stagger: Duration, end: Duration) {
    let whole = |time: Duration| (time.as_nanos() / BIN.as_nanos()) as usize;
    // What was read in the last moment came after the end, when the other may have been gone already. Of who broke off
    // nothing came in the rest of the time.
    let (from, until) = (whole(stagger), whole(end));
    let sum = |bins: &Bins| bins.iter().take(until).skip(from).sum::<u64>() as f64;
    let sums = [sum(&bins[0]), sum(&bins[1])];
    let seconds = until.saturating_sub(from) as f64 / BINS_PER_SECOND as f64;
    let series = [0, 1].map(|at| per_second(&bins[at], until));
    let even = converged(&series, stagger.as_secs_f64().ceil() as usize);
    for ((row, sum), series) in rows.iter_mut().zip(sums).zip(series) {
        if let Some(sharing) = &mut row.sharing {
            sharing.goodput_mbps = sum * 8.0 / 1e6 / seconds.max(1e-9);
            sharing.share = sum / (sums[0] + sums[1]).max(1.0);
            sharing.series_mbps = series;
            sharing.converged_s = even;
        }
    }
}

fn per_second(bins: &Bins, until: usize) -> Vec<f64> {
    let mut bins = bins.clone();
    bins.resize(until, 0);
    bins.chunks_exact(BINS_PER_SECOND).map(|second| second.iter().sum::<u64>() as f64 * 8.0 / 1e6).collect()
}

/// Seconds from `from` until both are within a tenth of their mean, averaged over two seconds.
fn converged(series: &[Vec<f64>; 2], from: usize) -> Option<u32> {
    let [one, two] = series;
    (from..one.len().min(two.len()).saturating_sub(1))
        .position(|at| {
            let (a, b) = (one[at] + one[at + 1], two[at] + two[at + 1]);
            a + b > 0.0 && (a - b).abs() <= 0.1 * (a + b)
        })
        .map(|seconds| seconds as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_time_when_both_send() {
        let mut rows = [0, 1].map(|_| Row { sharing: Some(Sharing::default()), ..Row::default() });
        // One second alone, then two seconds together; after the end, one of them alone again.
        let one: Bins = (0..41).map(|bin| if (10..30).contains(&bin) { 75_000 } else { 200_000 }).collect();
        let two: Bins = (0..31).map(|bin| if bin < 10 { 0 } else { 25_000 }).collect();
        summarise(&mut rows, &[one, two], Duration::from_secs(1), Duration::from_secs(3));
        let [one, two] = rows.map(|row| row.sharing.unwrap());
        assert_eq!((one.goodput_mbps, two.goodput_mbps), (6.0, 2.0));
        assert_eq!((one.share, two.share), (0.75, 0.25));
        assert_eq!(one.series_mbps, [16.0, 6.0, 6.0]);
        assert_eq!(one.converged_s, None);
    }

    #[test]
    fn who_breaks_off_has_brought_nothing_in_the_rest_of_the_time() {
        let mut rows = [0, 1].map(|_| Row { sharing: Some(Sharing::default()), ..Row::default() });
        let broken = || vec![100_000; 10];
        summarise(&mut rows, &[broken(), broken()], Duration::ZERO, Duration::from_secs(4));
        let [one, two] = rows.map(|row| row.sharing.unwrap());
        assert_eq!((one.goodput_mbps, one.share), (2.0, 0.5));
        assert_eq!(two.series_mbps, [8.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn convergence_is_two_even_seconds() {
        let one = vec![20.0, 20.0, 15.0, 11.0, 10.0, 10.0];
        let two = vec![0.0, 1.0, 5.0, 9.0, 10.0, 10.0];
        assert_eq!(converged(&[one.clone(), two], 1), Some(2));
        assert_eq!(converged(&[one, vec![0.0; 6]], 1), None);
        assert_eq!(converged(&[vec![0.0; 6], vec![0.0; 6]], 1), None);
    }
}
