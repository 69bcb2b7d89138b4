//! Runs a plan: one contender after the other, over the same losses.

mod bulk;
mod calls;
mod crowd;
mod fetches;
mod field;
mod machine;
mod pages;
mod share;
mod versions;

use std::{collections::BTreeMap, os::unix::process::ExitStatusExt as _, process::ExitStatus};

use netsim::Seed;
use nix::{
    sys::resource::{Resource, getrlimit, rlim_t, setrlimit},
    unistd::Uid,
};

use crate::{
    Adapter, Contender, LabError, MAX_PATHS, Network, Options, PathSpec, Plan, Progress, Report,
    bed::{Namespace, TestBed},
    leftovers::RunDirectory,
    origin,
    report::{Row, SCHEMA},
    running::Starter,
};
use field::Field;
use machine::Watch;

/// Whether the lab can work here.
///
/// # Errors
/// [`LabError::NotRoot`], or what is missing.
pub fn available() -> Result<(), LabError> {
    if !Uid::effective().is_root() {
        return Err(LabError::NotRoot);
    }
    TestBed::new(&["".parse().unwrap_or_else(|_| unreachable!("no property is a wire"))], 0, Seed(0), false)
        .map(|_| ())
}

/// Runs a plan and reports what it found; `progress` is told of every fetch and transfer. A
/// contender that cannot be started, or ends, has its reason in its row, and the others go on.
///
/// # Errors
/// [`LabError::NotRoot`], [`LabError::Plan`], [`LabError::Interrupted`], or what the system
/// refused. Everything that was made is removed in any case.
pub fn run(plan: &Plan, options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Report, LabError> {
    let wrong = |reason| LabError::Plan { name: plan.title.clone(), reason };
    plan.check().map_err(wrong)?;
    let networks = plan.networks(options.scale).map_err(wrong)?;
    available()?;
    make_room(plan)?;
    let directory = RunDirectory::new()?;
    let mut adapters = Adapter::built_in();
    adapters.extend(plan.adapters.clone());
    adapters.extend(options.adapters.clone());
    let starter = Starter {
        mendpath: &options.mendpath,
        adapters: &adapters,
        directory: &directory,
        pattern: origin::pattern(),
        browser: options.browser.as_deref(),
        cancel: &options.cancel,
    };
    let versions = versions::versions(plan, options, &networks, &adapters);
    let watch = Watch::start();
    let mut lab = Lab { plan, options, starter, progress, done: 0, total: total(plan, options, &networks) };
    let mut rows = Vec::new();
    for network in &networks {
        rows.extend(lab.network(network)?);
    }
    Ok(Report {
        schema: SCHEMA.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        title: plan.title.clone(),
        about: plan.about.clone(),
        scale: options.scale.name().into(),
        seed: plan.seed,
        count: options.count,
        versions,
        machine: watch.finish(),
        rows,
    })
}

/// Lets this program have as many sockets open as fetches that begin together need, and transfers beside them: one at
/// either end of each. A plan that needs no more than usual changes nothing, for contenders' programs have the same limit.
fn make_room(plan: &Plan) -> Result<(), LabError> {
    /// For all else.
    const OTHERS: rlim_t = 512;
    let most = plan.fetches.iter().map(|fetch| fetch.at_once + fetch.beside).max().unwrap_or(0);
    let wanted = OTHERS + 2 * rlim_t::from(most);
    let made = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft >= wanted { Ok(()) } else { setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted)) }
    });
    made.map_err(|error| LabError::system(format!("have {wanted} files open"))(error.into()))
}

/// Runs the user's own command in the client's namespace over emulated paths, with another in the
/// server's, and returns its exit code, or as shells do 128 and the number of the signal that ended
/// it. Both see the lab's terminal. What they leave behind is ended.
///
/// # Errors
/// Like [`run`].
pub fn execute(
    paths: &[PathSpec],
    seed: u64,
    server: Option<&[String]>,
    client: &[String],
    options: &Options,
) -> Result<i32, LabError> {
    let count = paths.len();
    if !(1..=MAX_PATHS).contains(&count) {
        let reason = format!("it has {count} paths: give it 1 to {MAX_PATHS}");
        return Err(LabError::Plan { name: "of the command".to_owned(), reason });
    }
    available()?;
    let directory = RunDirectory::new()?;
    let bed = TestBed::new(paths, 0, Seed(seed), false)?;
    let mut server = server.map(|words| foreground(&bed.server, words, &directory)).transpose()?;
    let mut client = foreground(&bed.client, client, &directory)?;
    let status = crate::clock::poll_until(units::Duration::MAX, &options.cancel, || {
        client.0.try_wait().map_err(LabError::system("wait for the command"))
    })?;
    if let Some(server) = &mut server {
        let _ = server.0.kill();
    }
    let by_signal = |status: ExitStatus| status.signal().map(|signal| 128 + signal);
    Ok(status.and_then(|status| status.code().or_else(|| by_signal(status))).unwrap_or(1))
}

/// A command that has the lab's terminal; killed when this is dropped.
struct Foreground(std::process::Child);

fn foreground(
    namespace: &Namespace,
    words: &[String],
    directory: &RunDirectory,
) -> Result<Foreground, LabError> {
    let (program, arguments) = words.split_first().map_or(("", &[][..]), |(p, a)| (p.as_str(), a));
    let mut command = std::process::Command::new(program);
    command.args(arguments);
    let child = directory.spawn(&mut command, namespace)?;
    let child = child.map_err(LabError::system(format!("start `{program}`")))?;
    Ok(Foreground(child))
}

impl Drop for Foreground {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Lab<'a> {
    plan: &'a Plan,
    options: &'a Options,
    starter: Starter<'a>,
    progress: &'a mut dyn FnMut(Progress),
    done: u64,
    total: u64,
}

impl Lab<'_> {
    fn seed(&self) -> Seed {
        Seed(self.plan.seed)
    }

    /// Everything on one network.
    fn network(&mut self, network: &Network) -> Result<Vec<Row>, LabError> {
        let mut rows = Vec::new();
        if !(self.plan.fetches.is_empty() && self.plan.bulks.is_empty()) {
            let mut fields = Vec::new();
            for contender in &network.contenders {
                self.tell(format!("{}: starting {contender}", network.name));
                fields.push(self.field(network, contender)?);
            }
            for fetch in &self.plan.fetches {
                for sizes in fetch.measurements() {
                    add(&mut rows, self.fetches(network, &mut fields, fetch, sizes)?);
                }
            }
            for bulk in &self.plan.bulks {
                add(&mut rows, self.bulks(network, &mut fields, bulk)?);
            }
        }
        for call in &self.plan.calls {
            add(&mut rows, self.calls(network, call)?);
        }
        for page in &self.plan.pages {
            add(&mut rows, self.pages(network, page)?);
        }
        for share in &self.plan.shares {
            let mut pairs = Vec::new();
            for pair in &share.pairs {
                pairs.extend(self.share(network, share, pair)?);
            }
            add(&mut rows, pairs);
        }
        Ok(rows)
    }

    /// A contender in a test bed of its own; an error of its own is kept for its rows.
    fn field(&self, network: &Network, contender: &Contender) -> Result<Result<Field, String>, LabError> {
        let first = contender.paths(network.paths.len()).first().copied().unwrap_or(0);
        let bed = TestBed::new(&network.paths, first, self.seed(), self.plan.tcp_metrics)?;
        own_error(self.starter.start(contender, &bed, 0).map(|running| Field { running, bed }))
    }

    fn tell(&mut self, now: String) {
        (self.progress)(Progress { done: self.done, total: self.total, now });
    }

    /// One more fetch or transfer is made.
    fn count(&mut self, now: &str) {
        self.done += 1;
        self.tell(now.to_owned());
    }

    /// A row with its headings.
    fn row(&self, network: &Network, measure: &str, contender: &Contender) -> Row {
        Row {
            network: network.name.clone(),
            vary: network.vary.clone(),
            path_texts: network.paths.iter().map(ToString::to_string).collect(),
            measure: measure.to_owned(),
            contender: contender.to_string(),
            ..Row::default()
        }
    }
}

/// Adds the rows of a measurement, with a number behind its name if another of its kind has that already: they would
/// be taken for one.
fn add(rows: &mut Vec<Row>, mut measured: Vec<Row>) {
    let Some(first) = measured.first() else { return };
    let (kind, own) = (first.kind, first.measure.clone());
    let is_free = |name: &String| rows.iter().all(|row| (row.kind, &row.measure) != (kind, name));
    let numbered = (2..=u32::MAX).map(|n| format!("{own}, number {n}"));
    if let Some(name) = std::iter::once(own.clone()).chain(numbered).find(is_free) {
        measured.iter_mut().for_each(|row| row.measure.clone_from(&name));
    }
    rows.append(&mut measured);
}

/// Splits what concerns one contender from what ends the run.
fn own_error<T>(result: Result<T, LabError>) -> Result<Result<T, String>, LabError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(LabError::Interrupted) => Err(LabError::Interrupted),
        Err(error) => Ok(Err(error.to_string())),
    }
}

fn total(plan: &Plan, options: &Options, networks: &[Network]) -> u64 {
    let fetches: u64 = plan
        .fetches
        .iter()
        .map(|fetch| fetch.measurements().len() as u64 * u64::from(fetch_count(fetch, options)))
        .sum();
    let bulks: u64 = plan.bulks.iter().map(|bulk| u64::from(bulk.count(options.scale))).sum();
    let of = |count: u32| u64::from(options.count.unwrap_or(count));
    let calls: u64 = plan.calls.iter().map(|call| of(call.count(options.scale))).sum();
    let pages: u64 = plan.pages.iter().map(|page| of(page.count(options.scale))).sum();
    let own = fetches + bulks + calls + pages;
    let shares: u64 = plan.shares.iter().map(|share| share.pairs.len() as u64).sum();
    networks.iter().map(|network| network.contenders.len() as u64 * own + shares).sum()
}

fn fetch_count(fetch: &crate::Fetch, options: &Options) -> u32 {
    options.count.unwrap_or_else(|| fetch.count(options.scale))
}

/// A measurement's name: what the plan calls it, or what it is.
fn named(name: &str, otherwise: impl Into<String>) -> String {
    if name.is_empty() { otherwise.into() } else { name.to_owned() }
}

/// Numbers of a JSON object, by name.
fn numbers(value: serde_json::Value) -> BTreeMap<String, f64> {
    let serde_json::Value::Object(fields) = value else { return BTreeMap::new() };
    fields.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))).collect()
}

#[cfg(test)]
mod tests {
    use units::Bytes;

    use super::*;
    use crate::{Fetch, Kind, NetworkTemplate};

    #[test]
    fn fetches_that_begin_together_have_room_for_their_sockets() {
        let limits = || getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let network = NetworkTemplate { name: String::new(), paths: Vec::new(), contenders: Vec::new() };
        let mut plan = Plan::of(network);
        plan.fetches.push(Fetch::of(Bytes(1), 1));
        let (before, hard) = limits();
        make_room(&plan).unwrap();
        assert_eq!(limits(), (before.max(514), hard.max(514)));
        if hard < 4_512 {
            eprintln!("skipped: only root may have more than {hard} files open");
            return;
        }
        plan.fetches.push(Fetch { at_once: 1_000, beside: 1_000, ..Fetch::of(Bytes(1), 1) });
        make_room(&plan).unwrap();
        assert_eq!(limits(), (before.max(4_512), hard));
    }

    #[test]
    fn measurements_that_differ_in_what_their_names_do_not_say_are_told_apart() {
        let measured = |kind: Kind, measure: &str| {
            ["a", "b"].map(|contender| {
                let (contender, measure) = (contender.to_owned(), measure.to_owned());
                Row { kind, contender, measure, ..Row::default() }
            })
        };
        let mut rows = Vec::new();
        for (kind, measure) in [(Kind::Fetch, "x"), (Kind::Fetch, "x"), (Kind::Bulk, "x"), (Kind::Fetch, "x")]
        {
            add(&mut rows, measured(kind, measure).to_vec());
        }
        add(&mut rows, Vec::new());
        let names: Vec<&str> = rows.iter().map(|row| row.measure.as_str()).collect();
        assert_eq!(names, ["x", "x", "x, number 2", "x, number 2", "x", "x", "x, number 3", "x, number 3"]);
    }
}
