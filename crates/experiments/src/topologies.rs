//! Networks that a plan can name, one file each. A new one is a file with `build` and its line
//! here.
//!
//! A network names its groups of hosts and of links, so that faults and workloads need no numbers.

mod dumbbell;
mod fat_tree;
mod leaf_spine;
mod parallel_paths;
mod ten_routers;
mod wifi;

use std::ops::Range;

use netsim::fabric::{Codel, Discipline, Line, LinkId, Mark, QueueLimit, Topology, Trim};
use units::{BitRate, Duration};

use plans::{Keys, PlanError, names};

/// Reads a network's parameters and builds it.
pub type Build = fn(&mut Keys<'_>) -> Result<Network, PlanError>;

/// The networks.
pub const TOPOLOGIES: &[(&str, Build)] = &[
    ("dumbbell", dumbbell::build),
    ("fat-tree", fat_tree::build),
    ("leaf-spine", leaf_spine::build),
    ("parallel-paths", parallel_paths::build),
    ("ten-routers", ten_routers::build),
    ("wifi", wifi::build),
];

/// A network whose parts have names.
#[derive(Clone, Debug)]
pub struct Network {
    /// Hosts, switches, links.
    pub topology: Topology,
    /// Groups of hosts. Every network has `all`.
    pub hosts: Vec<(&'static str, Range<u32>)>,
    /// Groups of links.
    pub links: Vec<(&'static str, Vec<LinkId>)>,
    /// Rate of a host's link: what a load is a share of, times the hosts that it comes from.
    pub access: BitRate,
}

impl Network {
    /// The group of hosts that a key names.
    ///
    /// # Errors
    /// If there is no such group, or nobody is in it.
    pub fn group(&self, keys: &mut Keys<'_>, key: &'static str) -> Result<Option<Range<u32>>, PlanError> {
        let Some(name) = keys.text(key)? else { return Ok(None) };
        let there = || self.hosts.iter().filter(|(_, hosts)| !hosts.is_empty());
        let found = there().find(|(known, _)| *known == name);
        let known = || format!("one of {}", names(there().map(|(known, _)| *known)));
        found.map_or_else(
            || Err(PlanError::value(keys.path(key), format!("`{name}`"), known())),
            |(_, range)| Ok(Some(range.clone())),
        )
    }
}

/// Changes a line by the keys that every network has for its lines: `rate_mbps`, `delay_us`,
/// `queue_bytes` or `queue_packets`, `mark_bytes` (0 for no marks), and one of two disciplines: `codel`
/// (manages the queue), with `codel_target_ms` (5), `codel_interval_ms` (100) and `codel_marks`; or
/// `trim` (takes the payload of packets that may be trimmed, NDP), with `trim_packets` (8),
/// `trim_header_bytes` (64), `trim_queue_bytes` (12,000) and `trim_headers_per_packet` (10).
pub(crate) fn line(keys: &mut Keys<'_>, key: &'static str, mut line: Line) -> Result<Line, PlanError> {
    let mut keys = keys.table(key)?;
    if let Some(rate) = keys.float("rate_mbps", 0.001..=1e6)? {
        line.rate = BitRate((rate * 1e6).round() as u64);
    }
    if let Some(delay) = keys.float("delay_us", 0.0..=1e7)? {
        line.delay = Duration::from_secs_f64(delay / 1e6);
    }
    keys.one_of("queue_packets", "queue_bytes")?;
    if let Some(bytes) = keys.int("queue_bytes", 0..=1 << 40)? {
        line.queue = QueueLimit::Bytes(bytes);
    }
    if let Some(packets) = keys.count("queue_packets", 0..=u32::MAX)? {
        line.queue = QueueLimit::Packets(packets);
    }
    if let Some(bytes) = keys.int("mark_bytes", 0..=1 << 40)? {
        line.mark = (bytes > 0).then_some(Mark::Bytes(bytes));
    }
    let at = keys.path("trim");
    line.discipline = match (codel(&mut keys)?, trim(&mut keys)?) {
        (None, None) => line.discipline,
        (Some(codel), None) => Discipline::Codel(codel),
        (None, Some(trim)) => Discipline::Trim(trim),
        (Some(_), Some(_)) => return Err(PlanError::value(at, "true", "off where `codel` is on")),
    };
    keys.finish()?;
    Ok(line)
}

fn codel(keys: &mut Keys<'_>) -> Result<Option<Codel>, PlanError> {
    let base = Codel::default();
    keys.only_with(&["codel_target_ms", "codel_interval_ms", "codel_marks"], "codel")?;
    let codel = Codel {
        target: keys.millis("codel_target_ms")?.unwrap_or(base.target),
        interval: keys.millis("codel_interval_ms")?.unwrap_or(base.interval),
        marks: keys.flag("codel_marks")?.unwrap_or(base.marks),
    };
    Ok(keys.flag("codel")?.unwrap_or(false).then_some(codel))
}

fn trim(keys: &mut Keys<'_>) -> Result<Option<Trim>, PlanError> {
    let base = Trim::default();
    let own = ["trim_packets", "trim_header_bytes", "trim_queue_bytes", "trim_headers_per_packet"];
    keys.only_with(&own, "trim")?;
    let trim = Trim {
        packets: keys.count("trim_packets", 0..=u32::MAX)?.unwrap_or(base.packets),
        header_bytes: keys.count("trim_header_bytes", 1..=65_535)?.unwrap_or(base.header_bytes),
        header_queue_bytes: keys.int("trim_queue_bytes", 0..=1 << 40)?.unwrap_or(base.header_queue_bytes),
        headers_per_packet: keys
            .count("trim_headers_per_packet", 1..=1_000_000)?
            .unwrap_or(base.headers_per_packet),
    };
    Ok(keys.flag("trim")?.unwrap_or(false).then_some(trim))
}
