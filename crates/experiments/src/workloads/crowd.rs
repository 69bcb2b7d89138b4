//! Many short flows of two kinds at one bottleneck, to see what one does to the other: `flows` of
//! the given sizes arrive at random at `load`, a share of `capacity_mbps`, from any host of `from`
//! to any of `to`, each on a connection of its own. The share `tested_share` of them, drawn one by
//! one, is of the scheme under test; the others are plain TCP, in the background. Which flows they
//! are, their times and sizes depend on the seed alone, and a larger share contains a smaller one:
//! with plain TCP as the scheme, the same flows show what they would be without it.
//!
//! `neighbours` long-lived flows with the controller `neighbour` (`bbr-like`) and the rest of plain
//! TCP as in Linux lie beside all of them, from the start to the end, from the first hosts to the
//! first hosts.
//!
//! `surge_load` is offered from `surge_from_s` on for `surge_s`, instead of `load`: an overload, if
//! it is above 1. `flows` are those of the ordinary load, before, during and behind it.

use netsim::fabric::workload::{FlowSpec, HostRange, Pairs, Poisson as Arrivals};
use plans::{Keys, PlanError};
use tcpsim::{CongestionKind, Profile, Tcp, controllers::CONTROLLERS};
use units::{BitRate, Duration, Instant};

use super::{Network, Party, Surge, Traffic, TrafficError, Workload};
use crate::outcome::Role;

/// More than any run carries.
const ENDLESS: u64 = 1 << 40;

#[derive(Clone, Debug)]
struct Crowd {
    arrivals: Arrivals,
    tested_share: f64,
    neighbours: u32,
    neighbour: Tcp,
    /// What comes on top of the ordinary load, and how many of them at most.
    surge: Option<(Surge, Arrivals)>,
    from: HostRange,
    to: HostRange,
}

pub(super) fn read(keys: &mut Keys<'_>, network: &Network) -> Result<Box<dyn Workload>, PlanError> {
    let (from, to) = (network.group(keys, "from")?, network.group(keys, "to")?);
    let (from, to) =
        (keys.need("from", from, "the hosts that send")?, keys.need("to", to, "the hosts that receive")?);
    let capacity = keys.float("capacity_mbps", 1e-3..=1e9)?;
    let capacity = keys.need("capacity_mbps", capacity, "the bottleneck's rate")?;
    let load = keys.float("load", 1e-9..=100.0)?;
    let flows = keys.count("flows", 1..=100_000_000)?;
    let arrivals = Arrivals {
        load: keys.need("load", load, "a share of `capacity_mbps`")?,
        capacity: BitRate((capacity * 1e6).round() as u64),
        flows: keys.need("flows", flows, "how many")? as usize,
        sizes: crate::sizes::read(keys)?,
        pairs: Pairs::Between(from.clone(), to.clone()),
        start: Instant::ORIGIN,
    };
    let most = (from.end - from.start).min(to.end - to.start);
    keys.only_with(&["neighbour"], "neighbours")?;
    Ok(Box::new(Crowd {
        tested_share: keys.float("tested_share", 0.0..=1.0)?.unwrap_or(1.0),
        neighbours: keys.count("neighbours", 0..=most)?.unwrap_or(0),
        neighbour: neighbour(keys)?,
        surge: surge(keys, &arrivals)?,
        arrivals,
        from,
        to,
    }))
}

fn neighbour(keys: &mut Keys<'_>) -> Result<Tcp, PlanError> {
    let kinds: Vec<_> = CONTROLLERS.iter().map(|(name, make)| (*name, *make)).collect();
    let congestion = keys.named("neighbour", &kinds)?;
    let congestion = congestion.or(CONTROLLERS.first().map(|(_, make)| *make));
    let congestion = congestion.map(|make| CongestionKind::Custom(make())).unwrap_or_default();
    Ok(Tcp { congestion, ..Tcp::linux() })
}

fn surge(keys: &mut Keys<'_>, usual: &Arrivals) -> Result<Option<(Surge, Arrivals)>, PlanError> {
    let Some(load) = keys.float("surge_load", 1e-9..=100.0)? else { return Ok(None) };
    let seconds = |time: Option<f64>| time.map(Duration::from_secs_f64);
    let (from, lasts) =
        (seconds(keys.float("surge_from_s", 0.0..=1e6)?), seconds(keys.float("surge_s", 1e-3..=1e6)?));
    let from = Instant::ORIGIN + keys.need("surge_from_s", from, "when it begins")?;
    let lasts = keys.need("surge_s", lasts, "how long it lasts")?;
    let more = load - usual.load;
    if more <= 0.0 {
        return Err(PlanError::value(keys.path("surge_load"), load, "above `load`"));
    }
    let bytes = more * usual.capacity.bits_per_second() as f64 / 8.0 * lasts.as_secs_f64();
    // Twice as many as come on average, and some: those that come too late are left out.
    let flows = (2.0 * bytes / usual.sizes.mean()) as usize + 100;
    let arrivals = Arrivals { load: more, flows, start: from, ..usual.clone() };
    Ok(Some((Surge { from, until: from + lasts }, arrivals)))
}

impl Crowd {
    /// All flows in the order of time.
    fn flows(&self, traffic: &Traffic<'_>) -> Vec<FlowSpec> {
        let mut flows = self.arrivals.flows(traffic.seed);
        if let Some((surge, more)) = &self.surge {
            let more = more.flows(traffic.seed.child("surge", 0));
            flows.extend(more.into_iter().take_while(|flow| flow.at < surge.until));
            flows.sort_by_key(|flow| flow.at);
        }
        flows
    }
}

impl Workload for Crowd {
    fn generate(&self, traffic: &mut Traffic<'_>) -> Result<(), TrafficError> {
        let mut draw = traffic.seed.stream("tested");
        for flow in self.flows(traffic) {
            let tested = draw.next_f64() < self.tested_share;
            traffic.flow(&flow, if tested { Party::Tested } else { Party::Background })?;
        }
        let neighbour = traffic.sim.add_profile(Profile::tcp(self.neighbour.clone()));
        let mut starts = traffic.seed.stream("neighbours");
        for n in 0..self.neighbours {
            // Flows that start at the same instant would lose the same packets.
            let at = Instant::ORIGIN + Duration::from_nanos(starts.below(1_000_000));
            let connection = traffic.sim.connect(neighbour, self.from.start + n, self.to.start + n)?;
            traffic.watch(connection);
            let flow = traffic.sim.write(connection, ENDLESS, at)?;
            traffic.note(flow, Role::Unmeasured);
        }
        Ok(())
    }

    fn surge(&self) -> Option<Surge> {
        self.surge.as_ref().map(|(surge, _)| *surge)
    }
}
