//! What share `auto` takes where its paths meet in one bottleneck, and what asking costs where they
//! do not: the figures of docs/decisions/0021, over the shipping transport in virtual time.

use clap::Args;
use netsim::{Loss, Seed, loss::GilbertElliott};
use proto::{ControllerKind, TransportConfig};
use testkit::meeting::{Bottleneck, Flow, Meeting, Route};
use units::{Duration, LossRate};

const EXAMPLES: &str = "\
Examples:
  mendpath-tools shared-bottleneck
  mendpath-tools shared-bottleneck --only separate --seeds 8";

/// Connections with several paths, through one bottleneck and through several.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// One of the tables.
    #[arg(long, value_parser = ["shared", "separate", "changes"])]
    only: Option<String>,
    /// Runs of each row, with different losses and starts.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Virtual time of a run, more than 20 s.
    #[arg(long, default_value = "40s", value_parser = span)]
    span: Duration,
}

/// What is found out within 20 s is told apart from what follows.
fn span(text: &str) -> Result<Duration, String> {
    let span: Duration = text.parse().map_err(|error| format!("{error}"))?;
    if span > Duration::from_secs(20) { Ok(span) } else { Err("more than 20s is needed".to_owned()) }
}

/// Mbit/s, round-trip time in ms, and buffer in bandwidth-delay products of both.
const LINKS: [(u64, u64, f64); 4] = [(25, 25, 1.0), (25, 25, 0.25), (25, 25, 4.0), (50, 40, 1.0)];

fn auto(routes: &[Route]) -> Flow {
    Flow::new(ControllerKind::Auto, routes)
}

fn meeting(seed: u64, links: &[Bottleneck], flows: &[Flow]) -> Meeting {
    Meeting::new(Seed(seed), links, flows, &TransportConfig::default())
}

/// Mbit/s.
fn rate(bytes: u64, over: Duration) -> f64 {
    bytes as f64 * 8e-6 / over.as_secs_f64()
}

impl Arguments {
    fn wants(&self, table: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == table)
    }

    /// Paths through one link, beside another flow or alone.
    fn shared(&self) {
        println!(
            "| Mbit/s, RTT | buffer | jitter | paths | beside | found after, s | share 10-20 s | from 20 s | of the link |"
        );
        println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
        for (link, jitter) in LINKS.into_iter().map(|link| (link, 0)).chain([(LINKS[0], 5)]) {
            for paths in [1, 2, 3] {
                for other in [Some(ControllerKind::Cubic), Some(ControllerKind::Auto), None] {
                    if (paths, other) != (1, None) {
                        self.shared_row(link, jitter, paths, other);
                    }
                }
            }
        }
    }

    fn shared_row(
        &self,
        (mbps, rtt, buffer): (u64, u64, f64),
        jitter: u64,
        paths: usize,
        other: Option<ControllerKind>,
    ) {
        let mut found = Vec::new();
        let (mut shares, mut of_link) = ([0.0; 2], 0.0);
        for seed in 1..=self.seeds {
            let route = Route::new(0, rtt).jitter(jitter);
            let mut flows = vec![auto(&vec![route.clone(); paths]).from(13 * seed)];
            flows.extend(other.map(|kind| Flow::new(kind, &[route])));
            let mut run = meeting(seed, &[Bottleneck::new(mbps, rtt, buffer)], &flows);
            let received =
                |run: &Meeting| [run.received(0), if other.is_some() { run.received(1) } else { 0 }];
            let mut at = None;
            let mut before = [0; 2];
            for (n, end) in
                [Duration::from_secs(10), Duration::from_secs(20), self.span].into_iter().enumerate()
            {
                let mut now = run.world.now() - units::Instant::ORIGIN;
                while now < end {
                    now = (now + Duration::from_millis(500)).min(end);
                    run.run_until(now);
                    if at.is_none() && run.is_one_group(0) {
                        at = Some(now.as_secs_f64());
                    }
                }
                let after = received(&run);
                let [own, others] = [after[0] - before[0], after[1] - before[1]].map(|bytes| bytes as f64);
                before = after;
                if let Some(share) = n.checked_sub(1).and_then(|n| shares.get_mut(n)) {
                    *share += own / (own + others) * if other.is_some() { 2.0 } else { 1.0 };
                }
                if n == 2 {
                    let span = self.span - Duration::from_secs(20);
                    of_link += rate((own + others) as u64, span) / mbps as f64;
                }
            }
            found.extend(at);
        }
        let runs = self.seeds as f64;
        found.sort_by(f64::total_cmp);
        let after = match (found.first(), found.last()) {
            (Some(first), Some(last)) => format!("{first} to {last} ({} of {})", found.len(), self.seeds),
            _ => "-".into(),
        };
        println!(
            "| {mbps}, {rtt} ms | {buffer} | {jitter} ms | {paths} | {} | {after} | {:.2} | {:.2} | {:.3} |",
            other.map_or("nobody", ControllerKind::name),
            shares[0] / runs,
            shares[1] / runs,
            of_link / runs
        );
    }

    /// Two paths through a link each, and the same as two connections, which never ask.
    fn separate(&self) {
        println!("| two links | ever found to share | probes per minute | goodput to two connections' |");
        println!("| --- | --- | --- | --- |");
        for (name, links, routes, others) in separate_cases() {
            let (mut ever, mut probes, mut goodput) = (0, 0, [0.0; 2]);
            for seed in 1..=self.seeds {
                let others: Vec<Flow> = (0..others)
                    .map(|n| {
                        let quiet = Route { loss: Loss::None, ..routes[n].clone() };
                        Flow::new(ControllerKind::Cubic, &[quiet]).from(13 * seed)
                    })
                    .collect();
                let together = vec![auto(&routes)];
                let apart = routes.iter().map(|route| auto(core::slice::from_ref(route))).collect();
                for (n, own) in [apart, together].into_iter().enumerate() {
                    let flows: Vec<Flow> = own.iter().chain(&others).cloned().collect();
                    let mut run = meeting(seed, &links, &flows);
                    let mut found = false;
                    for second in 1..=(self.span.as_millis() / 1_000) {
                        run.run_until(Duration::from_secs(second));
                        found |= run.is_one_group(0);
                    }
                    goodput[n] += (0..own.len()).map(|flow| run.received(flow)).sum::<u64>() as f64;
                    if n == 1 {
                        ever += u64::from(found);
                        probes += run.probes(0);
                    }
                }
            }
            let minutes = self.seeds as f64 * self.span.as_secs_f64() / 60.0;
            println!(
                "| {name} | {ever} of {} | {:.1} | {:.3} |",
                self.seeds,
                probes as f64 / minutes,
                goodput[1] / goodput[0]
            );
        }
    }

    /// Routes that change, an application that has little to send, and a path that is cut.
    fn changes(&self) {
        println!("| what happens | seconds until it is known, by seed |");
        println!("| --- | --- |");
        let link = Bottleneck::new(25, 25, 1.0);
        let both = [Route::new(0, 25), Route::new(0, 25)];
        let wait = |run: &mut Meeting, from: u64, wanted: bool| {
            let known = (1..=90).find(|second| {
                run.run_until(Duration::from_secs(from + second));
                run.is_one_group(0) == wanted
            });
            known.map_or("never".to_owned(), |second| second.to_string())
        };
        let mut times = [const { Vec::new() }; 3];
        for seed in 1..=self.seeds {
            let mut run = meeting(seed, &[link], &[auto(&both).from(13 * seed)]);
            times[0].push(wait(&mut run, 0, true));
            run.run_until(Duration::from_secs(20));
            run.reroute(0, 1, &link);
            times[1].push(wait(&mut run, 20, false));
            let limited = Flow { limit: Some(500_000), ..auto(&both).from(13 * seed) };
            let mut run = meeting(seed, &[link], &[limited]);
            run.run_until(Duration::from_secs(60));
            times[2].push(format!("{} probes", run.probes(0)));
        }
        let names = [
            "both paths over one link",
            "second path moves to a link of its own at 20 s",
            "both over one link, 4 Mbit/s to send, 60 s",
        ];
        for (name, times) in names.into_iter().zip(&times) {
            println!("| {name} | {} |", times.join(", "));
        }
    }
}

type Case = (&'static str, [Bottleneck; 2], [Route; 2], usize);

fn separate_cases() -> Vec<Case> {
    let share = |text: f64| LossRate::new(text).expect("a share");
    let chain = |to_bad, to_good, bad| {
        Loss::GilbertElliott(GilbertElliott {
            good_to_bad: share(to_bad),
            bad_to_good: share(to_good),
            loss_in_bad: share(bad),
            loss_in_good: LossRate::ZERO,
        })
    };
    let (heavy, mild) = (chain(0.01, 0.2, 1.0), chain(0.005, 0.3, 0.5));
    let equal = [Bottleneck::new(25, 25, 1.0); 2];
    let unlike = [Bottleneck::new(25, 25, 0.5), Bottleneck::new(10, 60, 2.0)];
    let fast = [Bottleneck::new(100, 50, 1.0); 2];
    let (a, b) = (Route::new(0, 25), Route::new(1, 25));
    let far = Route::new(1, 60);
    vec![
        ("equal", equal, [a.clone(), b.clone()], 0),
        ("unlike in rate, delay, buffer", unlike, [a.clone(), far.clone()], 0),
        ("equal, 100 Mbit/s, 50 ms", fast, [Route::new(0, 50), Route::new(1, 50)], 0),
        ("5 ms of jitter", equal, [a.clone().jitter(5), b.clone().jitter(5)], 0),
        ("unlike, 5 ms of jitter", unlike, [a.clone().jitter(5), far.clone().jitter(5)], 0),
        ("1 % of loss on one", equal, [a.clone().loss(Loss::Bernoulli(share(0.01))), b.clone()], 0),
        ("bursts on one", equal, [a.clone().loss(heavy.clone()), b.clone()], 0),
        ("bursts on both", equal, [a.clone().loss(heavy), b.clone().loss(mild)], 0),
        ("CUBIC on one", equal, [a.clone(), b.clone()], 1),
        ("CUBIC on both", equal, [a, b], 2),
    ]
}

/// Runs it.
pub fn run(arguments: &Arguments) {
    if arguments.wants("shared") {
        arguments.shared();
    }
    if arguments.wants("separate") {
        arguments.separate();
    }
    if arguments.wants("changes") {
        arguments.changes();
    }
}
