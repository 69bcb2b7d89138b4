//! One run: a network, what is broken, traffic and a scheme, with a seed.

use std::{cmp::Reverse, sync::OnceLock};

use netsim::{
    Seed, TraceHash,
    fabric::{
        Balancer, Balancing, Failure, Fault, Options, TopologyError, balance::Choice, topology::ParallelPaths,
    },
};
use plans::{Keys, PlanError};
use tcpsim::{
    ConnectionId, FlowId, Profile, SchemeKind, Sim, Tcp,
    timeline::{Timeline, text::PortNames},
};
use thiserror::Error;
use toml::Table;
use units::{Duration, Instant, LossRate};

use crate::{
    faults::FaultPlan,
    follow::{Follow, Followed},
    outcome::{Measured, Outcome, Role, arrivals, measured},
    parts::{Parts, Stop},
    topologies::{Network, TOPOLOGIES},
    workloads::{Traffic, TrafficError, WORKLOADS, Workload},
};

/// Why a run failed. Plans are checked before, so this is a plan that asks for more than the
/// simulator holds.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum ScenarioError {
    /// The network cannot be.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The traffic cannot be.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// It was ended in its midst ([`Stop`]).
    #[error("ended in its midst")]
    Stopped,
}

/// Everything about a run but its seed.
#[derive(Debug)]
pub struct Scenario {
    network: Network,
    faults: Vec<FaultPlan>,
    balancing: Balancing,
    workload: Box<dyn Workload>,
    profile: Profile,
    background: Profile,
    limit: Duration,
    /// How often windows are looked at, if they are.
    sample: Option<Duration>,
    /// Which flows are followed, if some are.
    follow: Option<Follow>,
    stop: Stop,
}

/// Changes with what rows keep: those of before lack what summaries need now.
const ROW_FORMAT: u64 = 3;

/// The beginning of a run, in packet-hops and in looks: what stands for a network and its traffic.
const BEGINNING: u64 = 20_000;
/// The least time between two such looks.
const MOMENT: Duration = Duration::from_micros(20);

/// Most samples of a run.
const MOST_SAMPLES: usize = 100_000;

/// A simulation with all its traffic, before it begins.
struct Prepared {
    sim: Sim,
    roles: Vec<Role>,
    head_start: Duration,
    /// Connections whose windows and deliveries are looked at.
    watched: Vec<ConnectionId>,
}

/// What a scheme asks of the switches, if it does.
fn balancing_of(profile: &Profile) -> Option<Balancing> {
    match profile.scheme {
        SchemeKind::Shim(shim) => Some(shim.balancing()),
        _ => None,
    }
}

/// How switches choose: by a hash of the flow, at random per packet, or sub-flow n on the n-th way
/// (CoFUSO's testbed, where sub-flows have addresses of their own).
const BALANCING: &[(&str, Balancing)] = &[
    ("ecmp", Balancing::FlowHash),
    ("spray", Balancing::Spray),
    ("sub-flow", Balancing::Custom(|_, _| Box::new(BySubflow))),
];

/// The last four bits of a packet's label are its sub-flow.
struct BySubflow;

impl Balancer for BySubflow {
    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        (choice.label & 15) as usize
    }
}

impl Scenario {
    /// The keys of a plan that a scenario is made of.
    pub(crate) const KEYS: [&'static str; 8] =
        ["topology", "balancing", "fault", "workload", "tcp", "limit_s", "sample_ms", "follow"];

    /// Reads a scenario whose scheme stands at `at`.
    pub(crate) fn read(body: &Table, scheme: &Table, at: &str, parts: &Parts) -> Result<Self, PlanError> {
        let mut keys = Keys::new(body, "");
        let tcp = crate::tcp::read(keys.table("tcp")?, Tcp::default(), parts)?;
        let mut scheme = Keys::new(scheme, at);
        let profile = crate::schemes::read(&mut scheme, tcp.clone(), parts)?;
        let own_balancing = scheme.named("balancing", BALANCING)?.or(balancing_of(&profile));
        scheme.finish()?;

        let mut topology = keys.table("topology")?;
        let build = topology.need_named("kind", TOPOLOGIES)?;
        let network = build(&mut topology)?;
        topology.finish()?;

        let mut workload = keys.table("workload")?;
        let read = workload.need_named("kind", WORKLOADS)?;
        let traffic = read(&mut workload, &network)?;
        workload.finish()?;

        let limit = Duration::from_secs_f64(keys.float("limit_s", 1e-6..=1e9)?.unwrap_or(1e6));
        if let Some(last) = traffic.last_start().filter(|last| *last >= limit) {
            let allowed = format!("more than {}, when the last flow begins", last.as_secs_f64());
            return Err(PlanError::value("limit_s", limit.as_secs_f64(), allowed));
        }

        let follow = keys.value("follow").is_some().then(|| {
            let mut follow = keys.table("follow")?;
            let wanted = Follow::read(&mut follow)?;
            follow.finish().map(|()| wanted)
        });
        let follow = follow.transpose()?;

        let faults = keys.tables("fault")?.into_iter();
        let faults: Vec<_> =
            faults.map(|fault| FaultPlan::read(fault, &network, parts)).collect::<Result<_, PlanError>>()?;
        Ok(Self {
            faults,
            balancing: own_balancing.or(keys.named("balancing", BALANCING)?).unwrap_or_default(),
            limit,
            sample: keys.float("sample_ms", 0.001..=1e6)?.map(|ms| Duration::from_secs_f64(ms / 1e3)),
            follow,
            workload: traffic,
            network,
            profile,
            background: Profile::tcp(tcp),
            stop: parts.stop.clone(),
        })
    }

    /// Runs it.
    ///
    /// # Errors
    /// If the simulator refuses something.
    pub fn run(&self, seed: Seed) -> Result<Outcome, ScenarioError> {
        let Prepared { mut sim, roles, head_start, watched } = self.prepare(seed)?;
        let followed = self.follow.map(|follow| follow.choose(tested(&sim, &roles))).unwrap_or_default();
        let timelines = (!followed.is_empty()).then(|| sim.watch(&followed));
        let timeline = self.run_to_the_end(&mut sim, &roles, &watched)?;
        let arrivals = arrivals(sim.flows(), &roles);
        Ok(Outcome {
            flows: measured(sim.flows(), &roles, head_start),
            totals: sim.totals(),
            hops: sim.fabric().stats().hops,
            sent: sim.fabric().stats().sent,
            dropped: sim.fabric().stats().dropped,
            seconds: sim.now().saturating_duration_since(Instant::ORIGIN).as_secs_f64(),
            trace: sim.fabric().trace_hash(),
            delivered: delivered(&sim, &watched),
            timeline,
            followed: timelines.map_or(Vec::new(), |timelines| {
                followed.iter().map(|flow| Followed::new(*flow, &timelines.of(*flow))).collect()
            }),
            playback: self.workload.player().map(|player| player.play(Instant::ORIGIN, &arrivals)),
            surge: self.workload.surge(),
        })
    }

    /// The `most` slowest flows under test, slowest first, with their timelines; those that do not
    /// finish are the slowest. Runs twice, as it is known afterwards which they are.
    ///
    /// # Errors
    /// If the simulator refuses something.
    pub(crate) fn slowest(
        &self,
        seed: Seed,
        most: usize,
    ) -> Result<(Outcome, Vec<(Measured, Timeline)>), ScenarioError> {
        let outcome = self.run(seed)?;
        let mut slow: Vec<Measured> = outcome.flows.iter().filter(|flow| !flow.background).copied().collect();
        slow.sort_by_key(|flow| (Reverse(flow.time.unwrap_or(Duration::MAX)), flow.flow));
        slow.truncate(most);
        let watched: Vec<_> =
            slow.iter().flat_map(|flow| flow.request.into_iter().chain([flow.flow])).collect();
        let mut again = self.prepare(seed)?;
        let timelines = again.sim.watch(&watched);
        let Prepared { sim, roles, watched: windows, .. } = &mut again;
        self.run_to_the_end(sim, roles, windows)?;
        let of = |flow: Measured| {
            let request = flow.request.map_or(Timeline::default(), |request| timelines.of(request));
            (flow, request.with(timelines.of(flow.flow)))
        };
        Ok((outcome, slow.into_iter().map(of).collect()))
    }

    /// Names of the network's ports.
    pub(crate) fn port_names(&self) -> PortNames {
        PortNames::new(&self.network.topology)
    }

    /// Everything ready to be run.
    fn prepare(&self, seed: Seed) -> Result<Prepared, ScenarioError> {
        let mut faults = Vec::new();
        for (n, fault) in (0..).zip(&self.faults) {
            fault.faults(&self.network, seed.child("plan fault", n), &mut faults);
        }
        let options = Options { seed, faults, balancing: self.balancing, ..Options::default() };
        let mut sim = Sim::new(&self.network.topology, &options)?;
        let (scheme, background) =
            (sim.add_profile(self.profile.clone()), sim.add_profile(self.background.clone()));
        let head_start = Duration::ZERO;
        let (roles, watched) = (Vec::new(), Vec::new());
        let mut traffic = Traffic { sim: &mut sim, scheme, background, seed, head_start, roles, watched };
        self.workload.generate(&mut traffic)?;
        let Traffic { roles, head_start, watched, .. } = traffic;
        Ok(Prepared { sim, roles, head_start, watched })
    }

    /// Runs until the last measured flow has arrived, and notes the windows of `watched`.
    fn run_to_the_end(
        &self,
        sim: &mut Sim,
        roles: &[Role],
        watched: &[ConnectionId],
    ) -> Result<Vec<(f64, u32, u32)>, ScenarioError> {
        let measured: Vec<usize> = (0..roles.len()).filter(|flow| roles[*flow].is_measured()).collect();
        let mut arrived = 0;
        let mut enough = |sim: &Sim| {
            let is_there = |flow: &usize| sim.flows()[*flow].finished != Instant::MAX;
            arrived += measured[arrived..].iter().take_while(|flow| is_there(flow)).count();
            self.stop.is_set() || (arrived == measured.len() && arrived > 0)
        };
        let (end, mut timeline) = (Instant::ORIGIN + self.limit, Vec::new());
        while let Some(every) = self.sample
            && timeline.len() < MOST_SAMPLES
            && !sim.is_done()
            && !enough(sim)
            && sim.now() < end
        {
            sim.run((sim.now() + every).min(end)).map_err(TrafficError::from)?;
            let seconds = sim.now().saturating_duration_since(Instant::ORIGIN).as_secs_f64();
            let windows =
                (0..).zip(watched).filter_map(|(n, connection)| Some((n, sim.window(*connection)?)));
            timeline.extend(windows.map(|(n, window)| (seconds, n, window)));
        }
        sim.run_until(end, enough).map_err(TrafficError::from)?;
        if self.stop.is_set() { Err(ScenarioError::Stopped) } else { Ok(timeline) }
    }

    /// A hash over what the network, what is broken in it and the traffic do at the beginning of a run:
    /// queues, balancing, faults and workloads are as this scenario has them.
    pub(crate) fn surroundings(&self) -> u64 {
        let Ok(Prepared { mut sim, roles, head_start, .. }) = self.prepare(Seed(1)) else { return 0 };
        let end = Instant::ORIGIN + self.limit;
        for _ in 0..BEGINNING {
            let hops = sim.fabric().stats().hops;
            let Some(next) = sim.fabric().next_event().filter(|next| *next <= end) else { break };
            if hops >= BEGINNING || sim.run((sim.now() + MOMENT).max(next).min(end)).is_err() {
                break;
            }
        }
        let mut hash = TraceHash::new();
        let (trace, dropped) = (sim.fabric().trace_hash(), sim.fabric().stats().dropped);
        [trace, dropped].into_iter().for_each(|word| hash.record(word));
        for flow in measured(sim.flows(), &roles, head_start) {
            let time = flow.time.map_or(u64::MAX, Duration::as_nanos);
            let words = [flow.bytes, flow.started.as_nanos(), time, flow.background.into()];
            words.into_iter().for_each(|word| hash.record(word));
        }
        let arrivals = arrivals(sim.flows(), &roles);
        let playback = self.workload.player().map(|player| player.play(Instant::ORIGIN, &arrivals));
        let rest = format!("{:?} {playback:?} {:?}", sim.totals(), self.workload.surge());
        rest.bytes().for_each(|byte| hash.record(byte.into()));
        hash.get()
    }

    /// The version of what this scheme is: the crate's, and a hash over what it does in a small run
    /// with losses. Rows of another version are not reused, as the simulator may have changed in
    /// between.
    pub fn version(&self) -> String {
        static PLAIN: OnceLock<u64> = OnceLock::new();
        let plain = PLAIN.get_or_init(|| behaviour(&Profile::tcp(Tcp::fuso())));
        let mut hash = TraceHash::new();
        [ROW_FORMAT, *plain, behaviour(&self.profile)].into_iter().for_each(|word| hash.record(word));
        format!("{}+{:016x}", env!("CARGO_PKG_VERSION"), hash.get())
    }
}

/// Bytes that each connection has delivered. A rival's segments need not be as large as those of the
/// scheme.
fn delivered(sim: &Sim, watched: &[ConnectionId]) -> Vec<u64> {
    let bytes = |connection: &ConnectionId| {
        let (segments, mss) = (sim.delivered(*connection)?, sim.mss(*connection)?);
        Some(u64::from(segments) * u64::from(mss))
    };
    watched.iter().map(|connection| bytes(connection).unwrap_or(0)).collect()
}

/// The flows under test, with their sizes in bytes.
fn tested(sim: &Sim, roles: &[Role]) -> impl Iterator<Item = (FlowId, u64)> {
    let is_tested = |role: &Role| matches!(role, Role::Tested(_) | Role::Fetched(_));
    let flows = (0..).map(FlowId).zip(sim.flows().iter().zip(roles));
    flows.filter(move |(_, (_, role))| is_tested(role)).map(|(flow, (record, _))| (flow, record.bytes))
}

/// The trace hash of a small run: flows of several sizes over three paths, one of them lossy.
fn behaviour(profile: &Profile) -> u64 {
    let faults =
        vec![Fault::both(ParallelPaths::path(0), Failure::random(LossRate::new(0.1).unwrap_or_default()))];
    let options = Options { seed: Seed(1), faults, ..Options::default() };
    let Ok(mut sim) = Sim::new(&ParallelPaths::fuso().build(), &options) else { return 0 };
    let id = sim.add_profile(profile.clone());
    for n in 0..30_u32 {
        let at = Instant::ORIGIN + Duration::from_micros(300) * u64::from(n);
        // Hosts exist and sizes are small: nothing is refused.
        let _ = sim.add_flow(id, 3 + n % 3, n % 3, 1 + u64::from(n * n) * 70, at);
    }
    let _ = sim.run(Instant::ORIGIN + Duration::from_secs(5));
    sim.fabric().trace_hash()
}
