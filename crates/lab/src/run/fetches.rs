//! Single responses: every contender makes its share of each turn in a row.

use units::Duration;

use super::{
    Lab,
    crowd::Beside,
    fetch_count,
    field::{Field, add_transfer},
    named, own_error,
};
use crate::{
    Connection as Kind, Contender, DropOrder, Fetch, LabError, Network, SetUp, Sizes, clock,
    fetch::{Client, Connection, Transfer},
    report::Row,
};

/// What the fetches of one measurement have in common.
pub(super) struct Series<'a> {
    pub(super) fetch: &'a Fetch,
    pub(super) sizes: Sizes,
    pub(super) client: Client,
}

impl Lab<'_> {
    pub(super) fn fetches(
        &mut self,
        network: &Network,
        fields: &mut [Result<Field, String>],
        fetch: &Fetch,
        sizes: Sizes,
    ) -> Result<Vec<Row>, LabError> {
        let name = named(&fetch.name, describe(fetch, sizes));
        let count = fetch_count(fetch, self.options);
        // A kept connection would be idle while the others have their turns.
        let groups = count.div_ceil(fetch.at_once).max(1);
        let rounds = if fetch.connection == Kind::Kept { 1 } else { self.plan.rounds.clamp(1, groups) };
        let client = Client { pattern: self.starter.pattern.clone(), cancel: self.options.cancel.clone() };
        let series = Series { fetch, sizes, client };
        let mut rows: Vec<Row> = network
            .contenders
            .iter()
            .map(|contender| Row {
                size_bytes: if let Sizes::One(size) = sizes { Some(size.get()) } else { None },
                kept_connection: fetch.connection == Kind::Kept,
                setup_counted: fetch.setup == SetUp::Counted,
                ..self.row(network, &name, contender)
            })
            .collect();
        for round in 0..rounds {
            let whole = |n: u32| u64::from(groups) * u64::from(n) / u64::from(rounds);
            let share = |n: u32| (whole(n) * u64::from(fetch.at_once)).min(count.into());
            for ((field, row), contender) in fields.iter_mut().zip(&mut rows).zip(&network.contenders) {
                if row.error.is_none() {
                    let turn = share(round)..share(round + 1);
                    row.error = self.turn(field, &series, turn, contender, row)?.err();
                }
            }
        }
        rows.iter_mut().for_each(Row::summarise);
        Ok(rows)
    }

    /// Some fetches of one contender in a row.
    fn turn(
        &mut self,
        field: &mut Result<Field, String>,
        series: &Series<'_>,
        turn: std::ops::Range<u64>,
        contender: &Contender,
        row: &mut Row,
    ) -> Result<Result<(), String>, LabError> {
        let field = match field {
            Ok(field) => field,
            Err(error) => return Ok(Err(error.clone())),
        };
        let now = format!("{}: {}: {contender}", row.network, row.measure);
        field.bed.settle(&self.options.cancel)?;
        let mut kept = None;
        if series.fetch.connection == Kind::Kept {
            kept = series.open(field, turn.start)?.ok();
            series.warm_up(kept.as_mut())?;
            field.bed.settle(&self.options.cancel)?;
        }
        if series.fetch.at_once > 1 || series.fetch.beside > 0 {
            self.crowd(field, series, turn, contender, row)?;
            return own_error(field.running.programs.check());
        }
        let before = field.before()?;
        let mut ended = Ok(());
        for n in turn {
            clock::wait(series.fetch.idle, &self.options.cancel)?;
            field.bed.settle(&self.options.cancel)?;
            let (size, transfer) = series.one(field, kept.as_mut(), n, self.seed())?;
            add_transfer(row, &transfer, series.fetch.limit);
            if row.size_bytes.is_none() {
                row.sizes_bytes.push(size);
            }
            self.count(&now);
            ended = own_error(field.running.programs.check())?;
            if ended.is_err() {
                break;
            }
            if kept.is_some() && !transfer.complete {
                kept = series.open(field, n)?.ok();
            }
        }
        // Also if there will be no more: its responses are counted as well.
        field.add_since(&before, contender, row)?;
        Ok(ended)
    }
}

impl Lab<'_> {
    /// A turn of fetches that begin together, beside transfers that go on.
    fn crowd(
        &mut self,
        field: &Field,
        series: &Series<'_>,
        turn: std::ops::Range<u64>,
        contender: &Contender,
        row: &mut Row,
    ) -> Result<(), LabError> {
        let now = format!("{}: {}: {contender}", row.network, row.measure);
        let (end, at_once) = (turn.end, u64::from(series.fetch.at_once));
        std::thread::scope(|scope| {
            let beside = Beside::start(scope, field, series)?;
            let before = field.before()?;
            for first in turn.step_by(at_once as usize) {
                clock::wait(series.fetch.idle, &self.options.cancel)?;
                field.bed.reseed(first)?;
                for (size, transfer) in
                    series.together(field, first..end.min(first + at_once), self.seed())?
                {
                    add_transfer(row, &transfer, series.fetch.limit);
                    if row.size_bytes.is_none() {
                        row.sizes_bytes.push(size);
                    }
                    self.count(&now);
                }
            }
            beside.add_to(row);
            field.add_since(&before, contender, row)
        })
    }
}

impl Series<'_> {
    fn open(&self, field: &Field, n: u64) -> Result<std::io::Result<Connection>, LabError> {
        Connection::open(
            &field.bed.client,
            &field.running.target,
            draw(n),
            self.fetch.limit,
            &self.client.cancel,
        )
    }

    fn warm_up(&self, connection: Option<&mut Connection>) -> Result<(), LabError> {
        if let (Some(connection), Some(size)) = (connection, self.fetch.warm_up) {
            self.client.fetch(connection, size.get(), self.fetch.limit, |_| {})?;
            connection.setup = Duration::ZERO;
        }
        Ok(())
    }

    /// The `n`-th fetch: its size and what came of it.
    fn one(
        &self,
        field: &Field,
        kept: Option<&mut Connection>,
        n: u64,
        seed: netsim::Seed,
    ) -> Result<(u64, Transfer), LabError> {
        let size = self.sizes.nth(seed, n).get();
        // Losses begin with what is timed.
        if self.fetch.setup == SetUp::Counted {
            self.lose(field, n, seed)?;
        }
        let mut new;
        let connection = match kept {
            Some(connection) => {
                connection.setup = Duration::ZERO;
                connection
            }
            None => match self.open(field, n)? {
                Ok(connection) => {
                    new = connection;
                    &mut new
                }
                Err(_) => return Ok((size, self.unopened())),
            },
        };
        if self.fetch.setup == SetUp::Apart {
            self.lose(field, n, seed)?;
        }
        Ok((size, self.ask(connection, size)?))
    }

    /// The `n`-th fetch, over a new connection and whatever the links do.
    pub(super) fn unaided(
        &self,
        field: &Field,
        n: u64,
        seed: netsim::Seed,
    ) -> Result<(u64, Transfer), LabError> {
        let size = self.sizes.nth(seed, n).get();
        let transfer = match self.open(field, n)? {
            Ok(mut connection) => self.ask(&mut connection, size)?,
            Err(_) => self.unopened(),
        };
        Ok((size, transfer))
    }

    fn ask(&self, connection: &mut Connection, size: u64) -> Result<Transfer, LabError> {
        let limit = self.fetch.limit;
        let limit = if self.fetch.setup == SetUp::Counted { limit - connection.setup } else { limit };
        self.client.fetch(connection, size, limit, |_| {})
    }

    /// What came of a fetch whose connection did not.
    fn unopened(&self) -> Transfer {
        Transfer { setup: self.fetch.limit, ..Transfer::default() }
    }

    /// Starts the losses of the `n`-th fetch.
    fn lose(&self, field: &Field, n: u64, seed: netsim::Seed) -> Result<(), LabError> {
        field.bed.reseed(n)?;
        let Some(drop) = &self.fetch.drop else { return Ok(()) };
        let (path, index) = match drop.order {
            DropOrder::Each => (
                drop.paths[(n / u64::from(drop.first)) as usize % drop.paths.len()],
                n % u64::from(drop.first),
            ),
            DropOrder::Random => {
                let mut rng = netsim::Rng::new(seed.child("drop", n));
                let path = drop.paths[rng.below(drop.paths.len() as u64) as usize];
                (path, rng.below(drop.first.into()))
            }
        };
        field.bed.drop_packet(path, index)
    }
}

/// A number that looks random, the same for the `n`-th fetch of every contender.
fn draw(n: u64) -> u64 {
    netsim::Seed(n).stream("path").next_u64()
}

fn describe(fetch: &Fetch, sizes: Sizes) -> String {
    let connection = match fetch.connection {
        Kind::New => "a new connection each",
        Kind::Kept => "one connection",
    };
    let setup = match (fetch.connection, fetch.setup) {
        (Kind::Kept, _) => "",
        (_, SetUp::Apart) => ", set-up not counted",
        (_, SetUp::Counted) => ", set-up counted",
    };
    let crowd = match (fetch.at_once, fetch.beside) {
        (1, 0) => String::new(),
        (at_once, 0) => format!(", {at_once} at once"),
        (at_once, beside) => format!(", {at_once} at once beside {beside} transfers"),
    };
    format!("responses of {sizes}, {connection}{setup}{crowd}")
}
