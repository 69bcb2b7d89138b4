//! What a plan breaks: `[[fault]]` tables.
//!
//! `links` names a group of the network; of it, `index` takes one, `random` that many drawn by the
//! run's seed, else all. What happens to them: `loss` (with `burst`, the mean length of a burst in
//! packets; FUSO-A10), `nth` (exactly these packets), `interference` (see [`interference`]; not with
//! `codel` or `trim`, where nobody knows when a packet that comes will be on the air),
//! `model` (one that the program brings along, with `parameters`), or
//! `black_hole`; or `mahimahi`, a file beside the plan with the capacity that was recorded
//! ([`netsim::fabric::capacity`]), which counts instead of the line's rate. `lossy_links` with
//! `rates` and `shares` draws links and rates as FUSO section VI-C; `most` is the highest rate, a
//! larger one that is drawn becomes this, and `direction` says which way they lose.

use netsim::{
    Loss, Seed,
    fabric::{
        CapacityTrace, Direction, Discipline, Failure, Fault, LinkId, Topology, failure::lossy_links,
        workload::SizeTable,
    },
    loss::{Gap, GilbertElliott, Interference, OwnLoss},
};
use plans::{Keys, PlanError, names};
use units::{BitRate, Duration, LossRate};

use crate::{
    inputs,
    parts::{Parts, made},
    topologies::Network,
};

const DIRECTIONS: &[(&str, Direction)] =
    &[("both", Direction::Both), ("forward", Direction::Forward), ("backward", Direction::Backward)];

/// Which links of a group.
#[derive(Clone, Debug)]
pub(crate) enum Pick {
    All,
    Random(usize),
}

/// A `[[fault]]`, read.
#[derive(Clone, Debug)]
pub(crate) enum FaultPlan {
    Links { links: Vec<LinkId>, pick: Pick, direction: Direction, failure: Option<Failure> },
    Drawn { count: usize, shares: Vec<f64>, rates: SizeTable, most: LossRate, direction: Direction },
}

impl FaultPlan {
    /// Reads one.
    pub(crate) fn read(mut keys: Keys<'_>, network: &Network, parts: &Parts) -> Result<Self, PlanError> {
        if let Some(count) = keys.count("lossy_links", 0..=100_000)? {
            let rates = crate::sizes::table(&mut keys, "rates")?;
            let rates = keys.need("rates", rates, "a table of loss rates of the folder `data`")?;
            let shares = keys.floats("shares")?;
            let shares = keys.need("shares", shares, "each level's share of the lossy links")?;
            let most = LossRate::new(keys.float("most", 0.0..=1.0)?.unwrap_or(1.0)).unwrap_or_default();
            let direction = keys.named("direction", DIRECTIONS)?.unwrap_or_default();
            keys.finish()?;
            return Ok(Self::Drawn { count: count as usize, shares, rates, most, direction });
        }
        let name = keys.need_text("links", "a group of links")?;
        let group = network.links.iter().find(|(known, _)| *known == name);
        let Some((_, group)) = group else {
            let known = names(network.links.iter().map(|(known, _)| *known));
            return Err(PlanError::value(keys.path("links"), format!("`{name}`"), format!("one of {known}")));
        };
        let mut links = group.clone();
        if let Some(index) = keys.count("index", 0..=(group.len() as u32).saturating_sub(1))? {
            links = vec![group[index as usize]];
        }
        let pick = keys.count("random", 0..=links.len() as u32)?;
        let pick = pick.map_or(Pick::All, |count| Pick::Random(count as usize));
        let direction = keys.named("direction", DIRECTIONS)?.unwrap_or_default();
        let failure = failure(&mut keys, parts)?;
        if failure.as_ref().is_some_and(goes_by_time_on_air)
            && links.iter().any(|link| is_managed(&network.topology, *link, direction))
        {
            let allowed = "on links without, where a packet that comes is known to be sent, and when \
                (or with `before_rate = true`)";
            return Err(PlanError::value(
                keys.path("interference"),
                "on a link with `codel` or `trim`",
                allowed,
            ));
        }
        keys.finish()?;
        Ok(Self::Links { links, pick, direction, failure })
    }

    /// The faults of the run with this seed.
    pub(crate) fn faults(&self, network: &Network, seed: Seed, into: &mut Vec<Fault>) {
        match self {
            Self::Drawn { count, shares, rates, most, direction } => {
                let drawn = lossy_links(&network.topology, *count, shares, rates, seed).into_iter();
                let changed = |fault: Fault| match &fault.failure {
                    Failure::Loss { loss: Loss::Bernoulli(rate), .. } if *rate > *most => {
                        Fault { failure: Failure::random(*most), direction: *direction, ..fault }
                    }
                    _ => Fault { direction: *direction, ..fault },
                };
                into.extend(drawn.map(changed));
            }
            Self::Links { links, pick, direction, failure } => {
                let Some(failure) = failure else { return };
                let mut left = links.clone();
                let count = match pick {
                    Pick::All => left.len(),
                    Pick::Random(count) => {
                        let mut rng = seed.stream("faulty links");
                        for place in 0..*count {
                            let other = place + rng.below((left.len() - place) as u64) as usize;
                            left.swap(place, other);
                        }
                        *count
                    }
                };
                let fault = |link| Fault { link, direction: *direction, failure: failure.clone() };
                into.extend(left.into_iter().take(count).map(fault));
            }
        }
    }
}

/// Whether it matters when a packet is on the air.
fn goes_by_time_on_air(failure: &Failure) -> bool {
    matches!(failure, Failure::Loss { loss: Loss::Interference(_), before_rate: false, .. })
}

/// Whether a link's ports that send in this direction decide what waits and in which order only later.
fn is_managed(topology: &Topology, link: LinkId, direction: Direction) -> bool {
    let Some((forward, backward)) = topology.lines(link) else { return false };
    let is_plain = |discipline| matches!(discipline, Discipline::DropTail);
    (direction != Direction::Backward && !is_plain(forward.discipline))
        || (direction != Direction::Forward && !is_plain(backward.discipline))
}

/// What happens; `None` for a loss rate of 0, so that a sweep may begin there.
fn failure(keys: &mut Keys<'_>, parts: &Parts) -> Result<Option<Failure>, PlanError> {
    if keys.flag("black_hole")?.unwrap_or(false) {
        return Ok(Some(Failure::BlackHole));
    }
    let trace = inputs::read(keys, inputs::MAHIMAHI, |text| {
        text.parse::<CapacityTrace>().map_err(|error| (error.line, error.what))
    })?;
    if let Some(trace) = trace {
        return Ok(Some(Failure::Capacity(trace)));
    }
    let data_only = keys.flag("data_only")?.unwrap_or(false);
    let before_rate = keys.flag("before_rate")?.unwrap_or(false);
    if let Some(own) = model(keys, parts)? {
        return Ok(Some(Failure::Loss { loss: Loss::Custom(own), data_only, before_rate }));
    }
    if let Some(indices) = keys.floats("nth")? {
        if let Some(wrong) = indices.iter().find(|index| **index < 0.0 || index.fract() != 0.0) {
            return Err(PlanError::value(keys.path("nth"), wrong, "numbers of packets, counted from 0"));
        }
        let loss = Loss::nth(indices.into_iter().map(|index| index as u64));
        return Ok(Some(Failure::Loss { loss, data_only, before_rate }));
    }
    if keys.value("interference").is_some() {
        let loss = interference(keys.table("interference")?)?.map(Loss::Interference);
        return Ok(loss.map(|loss| Failure::Loss { loss, data_only, before_rate }));
    }
    let rate = keys.float("loss", 0.0..=1.0)?;
    let rate = keys.need(
        "loss",
        rate,
        "a share from 0 to 1 (or `nth`, `interference`, `black_hole`, `mahimahi`, `lossy_links`)",
    )?;
    // Not with `nth` or `interference`, where it would say nothing.
    let burst = keys.float("burst", 1.0..=1e6)?;
    if rate == 0.0 {
        return Ok(None);
    }
    let known = LossRate::new(rate).unwrap_or_default();
    let loss = match burst {
        None => Loss::Bernoulli(known),
        Some(burst) => {
            let bursty = GilbertElliott::from_stationary(known, burst);
            let allowed = "short enough for this loss rate";
            Loss::GilbertElliott(bursty.map_err(|_| PlanError::value(keys.path("burst"), burst, allowed))?)
        }
    };
    Ok(Some(Failure::Loss { loss, data_only, before_rate }))
}

/// A loss model that the program brings along, with `parameters`.
fn model(keys: &mut Keys<'_>, parts: &Parts) -> Result<Option<OwnLoss>, PlanError> {
    let Some(name) = keys.text("model")? else { return Ok(None) };
    let Some(part) = parts.losses.get(name) else {
        let known = names(parts.losses.keys().map(String::as_str));
        let allowed = format!("one that the program brings along: {known}");
        return Err(PlanError::value(keys.path("model"), format!("`{name}`"), allowed));
    };
    made(keys, "parameters", part).map(Some)
}

/// Another sender on the radio channel: `burst_ms`, and `period_ms` from one burst to the next on
/// average, give or take `spread_ms` (1); or `load_mbps`, at which bursts come as packets of
/// `packet_bytes` of a Poisson stream (0: none). Our frames are on the air at `air_mbps`, after a
/// preamble of `preamble_us`, for `attempts` tries (1), the second after `backoff_us` and each
/// further one after twice the wait before it.
///
/// A Poisson stream's bursts last as long as its packets are on the air, at the same rate as ours.
fn interference(mut keys: Keys<'_>) -> Result<Option<Interference>, PlanError> {
    let micros = |us: f64| Duration::from_secs_f64(us / 1e6);
    let air = keys.float("air_mbps", 0.1..=1e5)?;
    let air = keys.need("air_mbps", air, "the rate at which frames are on the air")?;
    let base = Interference {
        preamble: micros(keys.float("preamble_us", 0.0..=1e6)?.unwrap_or(0.0)),
        attempts: keys.count("attempts", 1..=255)?.unwrap_or(1),
        backoff: micros(keys.float("backoff_us", 0.0..=1e6)?.unwrap_or(0.0)),
        ..Interference::microwave(BitRate((air * 1e6).round() as u64))
    };
    let found = match keys.float("load_mbps", 0.0..=1e5)? {
        Some(load) => {
            let bytes = keys.int("packet_bytes", 1..=65_535)?.unwrap_or(1_445);
            let burst = base.air_time(bytes);
            let gap = Duration::from_secs_f64(bytes as f64 * 8.0 / load.max(1e-9) / 1e6);
            let gap = Gap::Exponential(gap.saturating_sub(burst));
            (load > 0.0).then_some(Interference { burst, gap, ..base })
        }
        None => {
            let burst = keys.millis("burst_ms")?.unwrap_or(base.burst);
            let period = keys.millis("period_ms")?.unwrap_or(Duration::from_millis(20));
            let spread = keys.millis("spread_ms")?.unwrap_or(Duration::from_millis(1));
            if burst + spread >= period {
                let allowed = "longer than a burst and the spread";
                return Err(PlanError::value(keys.path("period_ms"), period.as_secs_f64() * 1e3, allowed));
            }
            let gap = Gap::Uniform { from: period - burst - spread, to: period - burst + spread };
            Some(Interference { burst, gap, ..base })
        }
    };
    keys.finish()?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topologies::TOPOLOGIES;

    fn drawn(more: &str) -> Vec<Fault> {
        let (_, build) = TOPOLOGIES.iter().find(|(name, _)| *name == "fat-tree").unwrap();
        let network = build(&mut Keys::new(&toml::Table::new(), "")).unwrap();
        let text = format!("lossy_links = 20\nshares = [0.3, 0.3, 0.4]\n{more}");
        let table = (text + "\nrates = \"fuso_lossy_link_rate_textfit\"").parse().unwrap();
        let plan = FaultPlan::read(Keys::new(&table, ""), &network, &Parts::default()).unwrap();
        let mut faults = Vec::new();
        plan.faults(&network, Seed(2), &mut faults);
        faults
    }

    /// What is wrong with a fault of all links of a fat-tree.
    fn refused(text: &str) -> String {
        let (_, build) = TOPOLOGIES.iter().find(|(name, _)| *name == "fat-tree").unwrap();
        let network = build(&mut Keys::new(&toml::Table::new(), "")).unwrap();
        let table = format!("links = 'access'\n{text}").parse().unwrap();
        FaultPlan::read(Keys::new(&table, "fault[1]"), &network, &Parts::default()).unwrap_err().to_string()
    }

    #[test]
    fn what_would_say_nothing_is_refused() {
        for model in ["nth = [3]", "interference = { air_mbps = 11 }"] {
            let error = refused(&format!("{model}\nburst = 3"));
            assert!(error.starts_with("there is no key `fault[1].burst`"), "{error}");
        }
        for wrong in ["-1", "1.5"] {
            let error = refused(&format!("nth = [0, {wrong}]"));
            assert!(error.starts_with(&format!("`fault[1].nth` is {wrong}: it must be numbers")), "{error}");
        }
    }

    fn rate(fault: &Fault) -> f64 {
        match &fault.failure {
            Failure::Loss { loss: Loss::Bernoulli(rate), .. } => rate.get(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn drawn_rates_are_cut_and_the_links_stay_the_same() {
        let (all, cut) = (drawn(""), drawn("most = 0.1\ndirection = \"forward\""));
        assert_eq!((all.len(), cut.len()), (20, 20));
        assert!(all.iter().any(|fault| rate(fault) > 0.1));
        for (all, cut) in all.iter().zip(&cut) {
            assert_eq!((all.link, rate(all).min(0.1)), (cut.link, rate(cut)));
            assert_eq!((all.direction, cut.direction), (Direction::Both, Direction::Forward));
        }
    }
}
