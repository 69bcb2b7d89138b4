//! The transport that ships, instead of TCP: `recovery` and `congestion` (its names, by default what
//! ships), `scheduler` of paths, `paths` (1), `datagram_bytes` (UDP payload from the start; without
//! it the search of what ships), `ecn` (its own, not TCP's), `m_max` (most repair symbols of one of
//! CoFUSO's blocks), `known_paths` (connections begin with what earlier ones of the run between the
//! same hosts have learnt). Of TCP's keys it has none. Nobody counts its timeouts, what came twice, or
//! which redundant packets were of use: metrics of them have no value.

use proto::{SchedulerKind, TransportConfig};
use tcpsim::{Profile, SchemeKind, Tcp};
use testkit::fabric_host::{MAX_PATHS, Mendpath};

use plans::{Keys, PlanError, names};

/// Metrics of what nobody counts of it: probe timeouts, what came twice, which of its redundant packets
/// repaired something, and when they were sent.
pub(super) const UNCOUNTED: [&str; 9] = [
    "timeout_share",
    "timeouts_per_flow",
    "needless_share",
    "useful_share",
    "hit_by_4_share",
    "hit_by_16_share",
    "few_in_20ms_share",
    "few_in_50ms_share",
    "few_in_100ms_share",
];

/// What `name` is called by the transport.
fn kind<T: Copy>(
    keys: &mut Keys<'_>,
    key: &'static str,
    all: &[T],
    name_of: impl Fn(T) -> &'static str,
) -> Result<Option<T>, PlanError> {
    let Some(name) = keys.text(key)? else { return Ok(None) };
    let found = all.iter().copied().find(|kind| name_of(*kind) == name).map(Some);
    found.ok_or_else(|| {
        let known = names(all.iter().map(|kind| name_of(*kind)));
        PlanError::value(keys.path(key), format!("`{name}`"), format!("one of {known}"))
    })
}

pub(super) fn read(keys: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    let mut config = TransportConfig::default();
    if let Some(recovery) = kind(keys, "recovery", proto::RecoveryKind::ALL, |kind| kind.name())? {
        config.recovery = recovery;
    }
    if let Some(control) = kind(keys, "congestion", proto::ControllerKind::ALL, |kind| kind.name())? {
        config.controller = control;
    }
    if let Some(scheduler) = kind(keys, "scheduler", SchedulerKind::ALL, |kind| kind.name())? {
        config.scheduler = scheduler;
    }
    if let Some(bytes) = keys.count("datagram_bytes", 1_200..=65_527)? {
        (config.initial_datagram_size, config.max_datagram_size) = (bytes as u16, bytes as u16);
    }
    if let Some(m_max) = keys.count("m_max", 1..=32)? {
        config.repair.m_max = m_max as u8;
    }
    config.ecn = keys.flag("ecn")?.unwrap_or(config.ecn);
    let paths = keys.count("paths", 1..=MAX_PATHS as u32)?.unwrap_or(1) as usize;
    let known_paths = keys.flag("known_paths")?.unwrap_or(false);
    Ok(Profile { tcp, scheme: SchemeKind::transport(Mendpath { config, paths, known_paths }) })
}
