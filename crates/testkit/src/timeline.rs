//! What happened to every packet, a line each: to look at one run when a distribution is not what
//! one expects.

use std::{
    fmt::Write,
    ops::RangeInclusive,
    sync::{Arc, Mutex, PoisonError},
};

use proto::{
    Observe, Observed, Observer, PacketPurpose, PathId,
    wire::{ConnectionId, Frame, Frames, PacketKind, Side},
};
use units::{Duration, Instant};

/// Lines that are kept; what happens later is left out.
const MAX_LINES: usize = 100_000;

/// Collects the events of both sides; set a clone as
/// [`TransportConfig::observe`](proto::TransportConfig::observe).
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    lines: Arc<Mutex<Vec<(Instant, String)>>>,
}

impl Timeline {
    /// All events from `start` on, in order, with the time since then in ms.
    pub fn text(&self, start: Instant) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for (at, line) in lines.iter().filter(|(at, _)| *at >= start) {
            writeln!(text, "{:>9.3}  {line}", (*at - start).as_millis_f64()).expect("a string takes it");
        }
        text
    }
}

impl Observe for Timeline {
    fn connection(&self, _: Instant, side: Side, _: &ConnectionId) -> Option<Box<dyn Observer>> {
        Some(Box::new(Watcher { lines: Arc::clone(&self.lines), side }))
    }
}

/// Watches one connection.
struct Watcher {
    lines: Arc<Mutex<Vec<(Instant, String)>>>,
    side: Side,
}

impl Observer for Watcher {
    fn on_event(&mut self, now: Instant, event: &Observed<'_>) {
        let Some(line) = describe(event) else { return };
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < MAX_LINES {
            let side = if self.side == Side::Client { "client" } else { "server" };
            lines.push((now, format!("{side}  {line}")));
        }
    }
}

fn describe(event: &Observed<'_>) -> Option<String> {
    Some(match *event {
        Observed::PacketSent { path, kind, number, size, purpose, copy_of, payload } => {
            let what = match (purpose, copy_of) {
                (_, Some((path, number))) => format!("copy of {}#{number}", path.0),
                (PacketPurpose::Data, _) => String::new(),
                (purpose, _) => format!("{purpose:?}").to_lowercase(),
            };
            format!("sent     {} {size:>5} {what} {}", packet(path, kind, number), frames(payload))
        }
        Observed::PacketReceived { path, kind, number, rebuilt, payload } => {
            let what = if rebuilt { "rebuilt " } else { "received" };
            format!("{what} {}       {}", packet(path, kind, number), frames(payload))
        }
        Observed::PacketLost { path, kind, number } => format!("lost     {}", packet(path, kind, number)),
        Observed::ProbeTimeout { path, count } => format!("timeout  {} the {count}. in a row", path.0),
        Observed::Metrics { path, window, in_flight, rtt, expected_loss } => {
            let [latest, _, smoothed, _] = rtt.map(Duration::as_millis_f64);
            format!(
                "path     {}        in flight {in_flight} of {window}, rtt {latest:.1} ({smoothed:.1}), expects {:.1} % loss",
                path.0,
                expected_loss * 100.0
            )
        }
        Observed::Recovery { reason, count } => format!("reason   {reason} {count}"),
        _ => return None,
    })
}

fn packet(path: PathId, kind: PacketKind, number: u64) -> String {
    match kind {
        PacketKind::OneRtt => format!("{}#{number:<6}", path.0),
        kind => format!("{kind:?}#{number}"),
    }
}

/// Frames in a few words each.
fn frames(payload: &[u8]) -> String {
    let mut text = String::new();
    for frame in Frames::new(payload).map_while(Result::ok) {
        match frame {
            Frame::Padding { .. } => continue,
            Frame::Stream(stream) => {
                let end = stream.offset + stream.data.len() as u64;
                write!(text, "stream {} {}..{end}", stream.id.0, stream.offset)
                    .and_then(|()| if stream.fin { text.write_str(" fin") } else { Ok(()) })
            }
            Frame::Ack(ack) => {
                let path = ack.path.map_or(String::new(), |path| format!(" of {}", path.0));
                write!(text, "ack{path}{}", ranges(ack.ranges()))
            }
            Frame::Recovered(recovered) => write!(text, "recovered{}", ranges(recovered.packets.iter())),
            Frame::Repair(repair) => {
                write!(text, "repair {} of{}", repair.symbol_id, ranges(repair.members.iter()))
            }
            Frame::Combination(it) => write!(text, "combination {} of block {}", it.index, it.block),
            frame => {
                let name = format!("{frame:?}");
                let end = name.find(|c: char| !c.is_alphanumeric()).unwrap_or(name.len());
                text.write_str(&name[..end].to_lowercase())
            }
        }
        .expect("a string takes it");
        text.push_str(", ");
    }
    text.truncate(text.trim_end_matches(", ").len());
    text
}

fn ranges(ranges: impl Iterator<Item = RangeInclusive<u64>>) -> String {
    ranges.map(|range| format!(" {}-{}", range.start(), range.end())).collect()
}
