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

use netsim::fabric::{Codel, Line, LinkId, Mark, QueueLimit, Topology};
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
    /// If there is no such group.
    pub fn group(&self, keys: &mut Keys<'_>, key: &'static str) -> Result<Option<Range<u32>>, PlanError> {
        let Some(name) = keys.text(key)? else { return Ok(None) };
        let found = self.hosts.iter().find(|(known, _)| *known == name);
        let known = || format!("one of {}", names(self.hosts.iter().map(|(known, _)| *known)));
        found.map_or_else(
            || Err(PlanError::value(keys.path(key), format!("`{name}`"), known())),
            |(_, range)| Ok(Some(range.clone())),
        )
    }
}

/// Changes a line by the keys that every network has for its lines: `rate_mbps`, `delay_us`,
/// `queue_bytes` or `queue_packets`, `mark_bytes` (0 for no marks), and `codel` (manages the queue),
/// with `codel_target_ms` (5), `codel_interval_ms` (100) and `codel_marks`.
pub(crate) fn line(keys: &mut Keys<'_>, key: &'static str, mut line: Line) -> Result<Line, PlanError> {
    let mut keys = keys.table(key)?;
    if let Some(rate) = keys.float("rate_mbps", 0.001..=1e6)? {
        line.rate = BitRate((rate * 1e6).round() as u64);
    }
    if let Some(delay) = keys.float("delay_us", 0.0..=1e7)? {
        line.delay = Duration::from_secs_f64(delay / 1e6);
    }
    if let Some(bytes) = keys.int("queue_bytes", 0..=1 << 40)? {
        line.queue = QueueLimit::Bytes(bytes);
    }
    if let Some(packets) = keys.count("queue_packets", 0..=u32::MAX)? {
        line.queue = QueueLimit::Packets(packets);
    }
    if let Some(bytes) = keys.int("mark_bytes", 0..=1 << 40)? {
        line.mark = (bytes > 0).then_some(Mark::Bytes(bytes));
    }
    line.codel = codel(&mut keys)?.or(line.codel);
    keys.finish()?;
    Ok(line)
}

fn codel(keys: &mut Keys<'_>) -> Result<Option<Codel>, PlanError> {
    let base = Codel::default();
    let codel = Codel {
        target: keys.millis("codel_target_ms")?.unwrap_or(base.target),
        interval: keys.millis("codel_interval_ms")?.unwrap_or(base.interval),
        marks: keys.flag("codel_marks")?.unwrap_or(base.marks),
    };
    Ok(keys.flag("codel")?.unwrap_or(false).then_some(codel))
}
