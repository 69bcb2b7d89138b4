//! The load test of web servers: one client asks each of them in turn, over loopback, round by round.
//! A server is a process of its own and new for every measurement, so that its CPU time and memory are
//! of that load alone.

mod client;
mod server;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use self::{
    client::Client,
    server::{Process, Server, Site},
};
use crate::h3_quinn::Over;

/// What to measure.
#[derive(Args)]
pub(crate) struct Load {
    /// The program `mendpath`; without it, only the servers of this program are measured.
    #[arg(long)]
    program: Option<PathBuf>,
    /// What carries the client's HTTP/3.
    #[arg(long, value_enum, default_value_t = Over::Quinn)]
    client: Over,
    /// Connections at once; a column of measurements for each.
    #[arg(long, value_delimiter = ',', default_value = "1,16,64")]
    connections: Vec<usize>,
    /// Requests under way at once on each connection.
    #[arg(long, default_value_t = 8)]
    requests: usize,
    /// Sizes of the files, in bytes.
    #[arg(long, value_delimiter = ',', default_value = "1000,10000,1000000")]
    sizes: Vec<usize>,
    /// How long each measurement takes, in milliseconds, after a tenth of it that is not counted.
    #[arg(long, default_value_t = 1_000)]
    milliseconds: u64,
    /// Rounds; every server has its turn in each.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// What one server did in one measurement.
#[derive(Clone, Copy)]
struct Figures {
    requests_per_second: f64,
    /// CPU time of the server for each request, in microseconds.
    cpu: f64,
    /// The most resident memory of the server, in megabytes.
    memory: f64,
    /// What of it is no file's at the end, and therefore this process's alone, in megabytes.
    own: f64,
}

/// Connections, bytes of each file.
type Case = (usize, usize);

/// Runs the rounds and prints a table of medians; ratios are medians of the ratios within a round.
pub(crate) async fn run(load: &Load) -> Result<()> {
    let servers: Vec<Server> =
        Server::ALL.into_iter().filter(|server| load.program.is_some() || *server != Server::Serve).collect();
    let site = Site::new(&load.sizes)?;
    let cases: Vec<Case> =
        load.connections.iter().flat_map(|n| load.sizes.iter().map(|bytes| (*n, *bytes))).collect();
    println!(
        "connections  bytes     server       requests/s  ratio  CPU us/request  ratio   \
         MB     ratio  own MB  ratio"
    );
    let mut own = Vec::new();
    for case in cases {
        let mut rounds = Vec::new();
        for round in 0..load.rounds {
            rounds.push(turns(load, &servers, &site, case, round).await?);
        }
        for (at, server) in servers.iter().enumerate() {
            row(case, server.name(), at, &rounds);
        }
        let of = |at: usize| median(rounds.iter().map(|round| round[at].own).collect());
        own.push((case, (0..servers.len()).map(of).collect()));
    }
    more_connections(&load.sizes, &servers, &own);
    Ok(())
}

/// One turn for each server. The first has the last turn in the next round, so that nobody always
/// follows the same one.
async fn turns(
    load: &Load,
    servers: &[Server],
    site: &Site,
    case: Case,
    round: usize,
) -> Result<Vec<Figures>> {
    let mut figures = vec![None; servers.len()];
    for turn in 0..servers.len() {
        let at = (turn + round) % servers.len();
        let server = servers[at];
        figures[at] = Some(measure(load, server, site, case).await.context(server.name())?);
    }
    Ok(figures.into_iter().flatten().collect())
}

async fn measure(load: &Load, server: Server, site: &Site, case: Case) -> Result<Figures> {
    let (connections, bytes) = case;
    let process = Process::start(server, load.program.as_deref(), site)?;
    let mut client = Client::new(load.client, site.roots()?, process.address())?;
    client.connect(connections).await?;
    client.ask(load.requests, &Site::path(bytes), bytes);
    let time = Duration::from_millis(load.milliseconds);
    client.run(time / 10).await?;
    let cpu_before = process.cpu_seconds()?;
    let (received, seconds) = client.run(time).await?;
    let cpu = process.cpu_seconds()? - cpu_before;
    let (memory, own) = (process.peak_bytes()?, process.own_bytes()?);
    client.close().await;
    ensure!(received > 0, "nothing came within {time:?}; more --milliseconds may help");
    // Parts of a file count as parts of a request: with large ones, many are under way at the end.
    let requests = received as f64 / bytes as f64;
    Ok(Figures {
        requests_per_second: requests / seconds,
        cpu: cpu / requests * 1e6,
        memory: memory as f64 / 1e6,
        own: own as f64 / 1e6,
    })
}

/// Prints the medians of the server at a place, beside h3-quinn's.
fn row((connections, bytes): Case, name: &str, at: usize, rounds: &[Vec<Figures>]) {
    let value = |f: fn(&Figures) -> f64| median(rounds.iter().map(|r| f(&r[at])).collect());
    let ratio = |f: fn(&Figures) -> f64| median(rounds.iter().map(|r| f(&r[at]) / f(&r[0])).collect());
    println!(
        "{connections:>11}  {bytes:<8}  {name:<11}  {:>10.0}  {:>5.2}  {:>14.0}  {:>5.2}  \
         {:>5.1}  {:>6.2}  {:>6.1}  {:>5.2}",
        value(|f| f.requests_per_second),
        ratio(|f| f.requests_per_second),
        value(|f| f.cpu),
        ratio(|f| f.cpu),
        value(|f| f.memory),
        ratio(|f| f.memory),
        value(|f| f.own),
        ratio(|f| f.own),
    );
}

/// Prints what each connection more takes of a server's own memory: its program, threads and caches are
/// there with the first one.
fn more_connections(sizes: &[usize], servers: &[Server], own: &[(Case, Vec<f64>)]) {
    let of_size = |bytes: usize| own.iter().filter(move |((_, of), _)| *of == bytes);
    for &bytes in sizes {
        let few = of_size(bytes).min_by_key(|((connections, _), _)| *connections);
        let many = of_size(bytes).max_by_key(|((connections, _), _)| *connections);
        let (Some(((few, _), before)), Some(((many, _), after))) = (few, many) else { continue };
        let each = |at: usize| each_more((*few, before[at]), (*many, after[at]));
        let Some(first) = each(0) else { continue };
        for (at, server) in servers.iter().enumerate() {
            let Some(each) = each(at) else { continue };
            println!(
                "{few} to {many} connections, {bytes} bytes: {:<11}  {:>6.0} own kB for each more  {:>5.2}",
                server.name(),
                each * 1e3,
                each / first,
            );
        }
    }
}

/// What each connection more takes, from connections and what they take together; `None` if there are none.
fn each_more(few: (usize, f64), many: (usize, f64)) -> Option<f64> {
    let more = many.0.checked_sub(few.0).filter(|more| *more > 0)?;
    Some((many.1 - few.1) / more as f64)
}

/// The middle value, or the mean of both in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_with_the_first_connection_is_not_each_ones() {
        assert_eq!(each_more((1, 4.0), (17, 12.0)), Some(0.5));
        assert_eq!(each_more((16, 8.0), (16, 8.0)), None);
    }
}
