//! TCP's parameters: a preset and what differs from it.

use congestion::ControllerKind;
use tcpsim::{CongestionKind, Tcp, Tlp, controllers::CONTROLLERS, schedulers::SCHEDULERS};

use plans::{Keys, PlanError, names};
use units::Duration;

use crate::parts::{Parts, allowed, made};

type Preset = fn() -> Tcp;
const PRESETS: &[(&str, Preset)] =
    &[("default", Tcp::default), ("fuso", Tcp::fuso), ("cofuso", Tcp::cofuso), ("linux", Tcp::linux)];

const LEAST_RTO: Duration = Duration::from_micros(1);

/// Reads a table of TCP's parameters on top of `base`, or of the `preset` that it names.
pub(crate) fn read(mut keys: Keys<'_>, base: Tcp, parts: &Parts) -> Result<Tcp, PlanError> {
    let mut tcp = keys.named("preset", PRESETS)?.map_or(base, |preset| preset());
    if let Some(kind) = congestion(&mut keys, parts)? {
        tcp.congestion = kind;
    }
    scheduler(&mut keys, parts, &mut tcp)?;
    numbers(&mut keys, &mut tcp)?;
    times(&mut keys, &mut tcp)?;
    flags(&mut keys, &mut tcp)?;
    keys.finish()?;
    Ok(tcp)
}

fn congestion(keys: &mut Keys<'_>, parts: &Parts) -> Result<Option<CongestionKind>, PlanError> {
    let Some(name) = keys.text("congestion")? else { return Ok(None) };
    if let Some(part) = parts.controllers.get(name) {
        return Ok(Some(CongestionKind::Custom(made(keys, "congestion_parameters", part)?)));
    }
    if let Some((_, make)) = CONTROLLERS.iter().find(|(known, _)| *known == name) {
        return Ok(Some(CongestionKind::Custom(make())));
    }
    let shared = || ControllerKind::ALL.iter().copied().find(|kind| kind.name() == name);
    match name {
        "reno" => Ok(Some(CongestionKind::Reno)),
        "dctcp" => Ok(Some(CongestionKind::Dctcp)),
        _ => shared().map(|kind| Some(CongestionKind::Shared(kind))).ok_or_else(|| {
            let others = names(ControllerKind::ALL.iter().map(|kind| kind.name()));
            let models = names(CONTROLLERS.iter().map(|(name, _)| *name));
            let house = format!("one of reno, dctcp, {models}, or of the crate `congestion`: {others}");
            let allowed = allowed(house, &parts.controllers);
            PlanError::value(keys.path("congestion"), format!("`{name}`"), allowed)
        }),
    }
}

/// One of the program's own with `scheduler_parameters`, one of the house, or `lowest-rtt`.
fn scheduler(keys: &mut Keys<'_>, parts: &Parts, tcp: &mut Tcp) -> Result<(), PlanError> {
    let Some(name) = keys.text("scheduler")? else { return Ok(()) };
    tcp.scheduler = if let Some(part) = parts.schedulers.get(name) {
        Some(made(keys, "scheduler_parameters", part)?)
    } else if let Some((_, make)) = SCHEDULERS.iter().find(|(known, _)| *known == name) {
        Some(make())
    } else if name == "lowest-rtt" {
        None
    } else {
        let house = names(SCHEDULERS.iter().map(|(name, _)| *name));
        let allowed = allowed(format!("one of lowest-rtt, {house}"), &parts.schedulers);
        return Err(PlanError::value(keys.path("scheduler"), format!("`{name}`"), allowed));
    };
    Ok(())
}

fn numbers(keys: &mut Keys<'_>, tcp: &mut Tcp) -> Result<(), PlanError> {
    if let Some(mss) = keys.count("mss", 1..=65_000)? {
        tcp.mss = mss as u16;
    }
    if let Some(header) = keys.count("header", 0..=1_000)? {
        tcp.header = header as u16;
    }
    if let Some(window) = keys.count("initial_window", 1..=1 << 20)? {
        tcp.initial_window = window;
    }
    if let Some(window) = keys.count("receive_window", 1..=1 << 30)? {
        tcp.receive_window = window;
    }
    if let Some(thresh) = keys.count("dup_thresh", 1..=1_000)? {
        tcp.dup_thresh = thresh;
    }
    if let Some(every) = keys.count("ack_every", 1..=255)? {
        tcp.ack_every = every as u8;
    }
    Ok(())
}

fn times(keys: &mut Keys<'_>, tcp: &mut Tcp) -> Result<(), PlanError> {
    for (key, time) in [
        ("min_rto_ms", &mut tcp.min_rto),
        ("initial_rto_ms", &mut tcp.initial_rto),
        ("max_rto_ms", &mut tcp.max_rto),
        ("ack_delay_ms", &mut tcp.ack_delay),
        ("clock_ms", &mut tcp.clock),
    ] {
        if let Some(found) = keys.millis(key)? {
            *time = found;
        }
    }
    // A timer of no time would expire for ever at the same moment.
    for (key, time) in [("initial_rto_ms", tcp.initial_rto), ("max_rto_ms", tcp.max_rto)] {
        if time < LEAST_RTO {
            return Err(PlanError::value(keys.path(key), time.as_secs_f64() * 1e3, "0.001 or more"));
        }
    }
    Ok(())
}

fn flags(keys: &mut Keys<'_>, tcp: &mut Tcp) -> Result<(), PlanError> {
    for (key, flag) in [
        ("split_initial_window", &mut tcp.split_initial_window),
        ("ecn", &mut tcp.ecn),
        ("fack", &mut tcp.fack),
        ("sack", &mut tcp.sack),
        ("limited_transmit", &mut tcp.limited_transmit),
        ("early_retransmit", &mut tcp.early_retransmit),
        ("rack", &mut tcp.rack),
        ("rto_above_srtt", &mut tcp.rto_above_srtt),
        ("restart_after_idle", &mut tcp.restart_after_idle),
        ("handshake", &mut tcp.handshake),
    ] {
        if let Some(found) = keys.flag(key)? {
            *flag = found;
        }
    }
    if let Some(probe) = keys.flag("tlp")? {
        tcp.tlp = probe.then(Tlp::default);
    }
    Ok(())
}
