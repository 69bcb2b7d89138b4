//! Many fetches at once, beside transfers without an end.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::Scope,
};

use netsim::Seed;
use units::Duration;

use super::{fetches::Series, field::Field};
use crate::{
    Cancel, LabError,
    clock::{self, Moment},
    fetch::{Client, Connection, Transfer},
    report::Row,
};

/// More than any run brings.
const ENDLESS: u64 = 1 << 50;
/// How long the transfers run before anything else begins: their slow start is over.
const LEAD: Duration = Duration::from_secs(2);

/// Transfers that go on until this is dropped.
pub(super) struct Beside {
    cancel: Cancel,
    bytes: Arc<AtomicU64>,
    since: Moment,
    bytes_before: u64,
}

impl Beside {
    /// Begins `count` transfers, and waits until they are under way.
    pub(super) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        field: &'scope Field,
        series: &Series<'_>,
    ) -> Result<Self, LabError> {
        let Client { pattern, cancel } = series.client.clone();
        let own = Client { pattern, cancel: Cancel::default() };
        let bytes = Arc::new(AtomicU64::new(0));
        let mut beside =
            Self { cancel: own.cancel.clone(), bytes: bytes.clone(), since: Moment::now(), bytes_before: 0 };
        for n in 0..u64::from(series.fetch.beside) {
            let (client, bytes) = (own.clone(), bytes.clone());
            scope.spawn(move || endless(field, &client, n, &bytes));
        }
        if series.fetch.beside > 0 {
            clock::wait(LEAD, &cancel)?;
        }
        beside.since = Moment::now();
        beside.bytes_before = bytes.load(Ordering::Relaxed);
        Ok(beside)
    }

    /// Adds to `row` what has come since all were under way.
    pub(super) fn add_to(&self, row: &mut Row) {
        let total = row.beside.get_or_insert_default();
        total.bytes += self.bytes.load(Ordering::Relaxed) - self.bytes_before;
        total.time_ms += self.since.elapsed().as_millis_f64();
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// One transfer; one that breaks is worth no more than what it brought.
fn endless(field: &Field, client: &Client, n: u64, bytes: &AtomicU64) {
    let (limit, target) = (Duration::from_secs(86_400), &field.running.target);
    let opened = Connection::open(&field.bed.client, target, n, limit, &client.cancel);
    let Ok(Ok(mut connection)) = opened else { return };
    let mut seen = 0;
    let _ = client.fetch(&mut connection, ENDLESS, limit, |arrived| {
        bytes.fetch_add(arrived - seen, Ordering::Relaxed);
        seen = arrived;
    });
}

impl Series<'_> {
    /// Fetches that begin together, each over a connection of its own.
    pub(super) fn together(
        &self,
        field: &Field,
        fetches: Range<u64>,
        seed: Seed,
    ) -> Result<Vec<(u64, Transfer)>, LabError> {
        std::thread::scope(|scope| {
            let begun: Vec<_> = fetches.map(|n| scope.spawn(move || self.unaided(field, n, seed))).collect();
            let joined = begun.into_iter().map(|fetch| fetch.join());
            joined.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        })
    }
}
