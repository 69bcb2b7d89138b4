//! One operation as words.

use std::fmt;

use netsim::{LinkConfig, link::OutageKind};
use proto::{Dir, Side};
use units::{BitRate, Duration, LossRate};

use super::{Words, exact};
use crate::scenario::{EcnTreatment, Fault, Flow, FlowEnd, Operation, StreamPlan, Way};

pub(super) fn side_name(side: Side) -> &'static str {
    if side == Side::Client { "client" } else { "server" }
}

pub(super) fn side(word: &str) -> Option<Side> {
    [Side::Client, Side::Server].into_iter().find(|s| side_name(*s) == word)
}

fn way_name(way: Way) -> &'static str {
    match way {
        Way::Up => "up",
        Way::Down => "down",
        Way::Both => "both",
    }
}

/// What paths do to congestion marks.
const ECN: &[(&str, Option<EcnTreatment>)] = &[
    ("keep", None),
    ("bleach", Some(EcnTreatment::Bleach)),
    ("drop", Some(EcnTreatment::Drop)),
    ("mark", Some(EcnTreatment::MarkAll)),
];

/// An operation on its way to text.
pub(super) struct Text<'a>(pub(super) &'a Operation);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.name())?;
        match self.0 {
            Operation::Stream(plan) => write_stream(plan, f),
            Operation::Datagrams { side, count, size } => {
                write!(f, " {} count {count} size {size}", side_name(*side))
            }
            Operation::OpenPath(path) | Operation::Rebind(path) => write!(f, " {path}"),
            Operation::ClosePath { side, path } => write!(f, " {path} {}", side_name(*side)),
            Operation::Backup { side, path, backup } => {
                write!(f, " {path} {} {}", side_name(*side), if *backup { "on" } else { "off" })
            }
            Operation::Cut { path, way, kind } => {
                let kind = if *kind == OutageKind::Hold { "hold" } else { "drop" };
                write!(f, " {path} {} {kind}", way_name(*way))
            }
            Operation::Restore { path, way } => write!(f, " {path} {}", way_name(*way)),
            Operation::Rate(path, rate) => write!(f, " {path} {}", LinkConfig::new().rate(*rate)),
            Operation::Delay(path, delay) => write!(f, " {path} {}", exact(*delay)),
            Operation::Loss(path, loss) => {
                let link = LinkConfig::new().loss(loss.clone()).to_string();
                write!(f, " {path} {}", if link.is_empty() { "none" } else { &link })
            }
            Operation::Mtu(path, mtu) => write!(f, " {path} {mtu}"),
            Operation::Ecn(path, treatment) => {
                let name = ECN.iter().find(|(_, t)| t == treatment).map_or("keep", |(name, _)| name);
                write!(f, " {path} {name}")
            }
            Operation::Corrupt(path, share) => write!(f, " {path} {}", share.get()),
            Operation::Fault { path, way, skip, count, what } => {
                write!(f, " {path} {} skip {skip} count {count}", way_name(*way))?;
                match what {
                    Fault::Drop => Ok(()),
                    Fault::Duplicate(time) | Fault::Detour(time) | Fault::Replay(time) => {
                        write!(f, " {}", exact(*time))
                    }
                    Fault::Flip(n) | Fault::Truncate(n) | Fault::Append(n) => write!(f, " {n}"),
                }
            }
            Operation::Sleep { side, time } => {
                write!(f, " {} {}", side.map_or("both", side_name), exact(*time))
            }
            Operation::PauseReading { side, time } => write!(f, " {} {}", side_name(*side), exact(*time)),
            Operation::UpdateKeys(side) | Operation::Close(side) => write!(f, " {}", side_name(*side)),
        }
    }
}

fn write_stream(plan: &StreamPlan, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let flow = |flow: &Flow| match flow.end {
        FlowEnd::Finish => flow.bytes.to_string(),
        FlowEnd::Reset { after } => format!("{}/reset@{after}", flow.bytes),
        FlowEnd::Stop { after } => format!("{}/stop@{after}", flow.bytes),
        FlowEnd::Unread => format!("{}/unread", flow.bytes),
    };
    let dir = if plan.dir == Dir::Bi { "bi" } else { "uni" };
    write!(f, " {} {dir} {}", side_name(plan.opener), flow(&plan.forward))?;
    if plan.dir == Dir::Bi {
        write!(f, " back {}", flow(&plan.back))?;
    }
    if plan.priority != 0 {
        write!(f, " priority {}", plan.priority)?;
    }
    Ok(())
}

pub(super) fn read(words: &mut Words<'_>) -> Result<Operation, String> {
    let name = words.next()?;
    Ok(match name {
        "stream" => Operation::Stream(read_stream(words)?),
        "datagrams" => {
            let side = words.side()?;
            words.keyword("count")?;
            let count = words.value("a number")?;
            words.keyword("size")?;
            Operation::Datagrams { side, count, size: words.value("a number")? }
        }
        "sleep" => {
            let word = words.next()?;
            let side = if word == "both" { None } else { Some(side(word).ok_or("whose sleep?")?) };
            Operation::Sleep { side, time: words.value("a time")? }
        }
        "pause-reading" => Operation::PauseReading { side: words.side()?, time: words.value("a time")? },
        "update-keys" => Operation::UpdateKeys(words.side()?),
        "close" => Operation::Close(words.side()?),
        _ => read_about_path(name, words)?,
    })
}

/// Operations that name a path first.
const ABOUT_PATHS: &[&str] = &[
    "open-path",
    "close-path",
    "backup",
    "cut",
    "restore",
    "rate",
    "delay",
    "loss",
    "mtu",
    "ecn",
    "corrupt",
    "rebind",
    "drop",
    "duplicate",
    "detour",
    "flip",
    "truncate",
    "append",
    "replay",
];

fn read_about_path(name: &str, words: &mut Words<'_>) -> Result<Operation, String> {
    if !ABOUT_PATHS.contains(&name) {
        return Err(format!(
            "`{name}` is no operation; there are: stream, datagrams, sleep, pause-reading, update-keys, close, {}",
            ABOUT_PATHS.join(", ")
        ));
    }
    let path = words.value("a path, counted from 0")?;
    Ok(match name {
        "open-path" => Operation::OpenPath(path),
        "rebind" => Operation::Rebind(path),
        "close-path" => Operation::ClosePath { path, side: words.side()? },
        "backup" => Operation::Backup {
            path,
            side: words.side()?,
            backup: one_of(words, &[("on", true), ("off", false)])?,
        },
        "cut" => {
            let way = read_way(words)?;
            let kind = one_of(words, &[("hold", OutageKind::Hold), ("drop", OutageKind::Drop)])?;
            Operation::Cut { path, way, kind }
        }
        "restore" => Operation::Restore { path, way: read_way(words)? },
        "rate" => Operation::Rate(path, link(words)?.rate.unwrap_or(BitRate(1_000_000))),
        "delay" => Operation::Delay(path, words.value("a time")?),
        "loss" => Operation::Loss(path, link(words)?.loss),
        "ecn" => Operation::Ecn(path, one_of(words, ECN)?),
        "mtu" => Operation::Mtu(path, words.value("a size in bytes")?),
        "corrupt" => {
            let share = LossRate::new(words.value("a share of packets")?);
            Operation::Corrupt(path, share.ok_or("a share of packets is from 0 to 1")?)
        }
        _ => {
            let way = read_way(words)?;
            words.keyword("skip")?;
            let skip = words.value("a number")?;
            words.keyword("count")?;
            let count = words.value("a number")?;
            Operation::Fault { path, way, skip, count, what: read_fault(name, words)? }
        }
    })
}

fn read_fault(name: &str, words: &mut Words<'_>) -> Result<Fault, String> {
    Ok(match name {
        "drop" => Fault::Drop,
        "flip" => Fault::Flip(words.value("a number of bits")?),
        "truncate" => Fault::Truncate(words.value("a number of bytes")?),
        "append" => Fault::Append(words.value("a number of bytes")?),
        _ => {
            let time: Duration = words.value("a time")?;
            match name {
                "duplicate" => Fault::Duplicate(time),
                "detour" => Fault::Detour(time),
                _ => Fault::Replay(time),
            }
        }
    })
}

fn read_way(words: &mut Words<'_>) -> Result<Way, String> {
    one_of(words, &[("up", Way::Up), ("down", Way::Down), ("both", Way::Both)])
}

/// A link's text, of which one property counts; `none` is the perfect link.
fn link(words: &mut Words<'_>) -> Result<LinkConfig, String> {
    let word = words.next()?;
    let text = if word == "none" { "" } else { word };
    text.parse().map_err(|error: netsim::link::ParseLinkError| error.to_string())
}

fn one_of<T: Copy>(words: &mut Words<'_>, choices: &[(&str, T)]) -> Result<T, String> {
    let word = words.next()?;
    let names = || choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let choice = choices.iter().find(|(name, _)| *name == word);
    choice.map(|(_, value)| *value).ok_or_else(|| format!("`{word}` is none of {}", names()))
}

fn read_stream(words: &mut Words<'_>) -> Result<StreamPlan, String> {
    let opener = words.side()?;
    let dir = one_of(words, &[("bi", Dir::Bi), ("uni", Dir::Uni)])?;
    let forward = read_flow(words.next()?)?;
    let mut plan = StreamPlan { dir, forward, ..StreamPlan::exchange(opener, 0, 0) };
    while let Some(word) = words.0.next() {
        match word {
            "back" if dir == Dir::Bi => plan.back = read_flow(words.next()?)?,
            "priority" => plan.priority = words.value("a number")?,
            other => return Err(format!("`{other}` is too much")),
        }
    }
    Ok(plan)
}

fn read_flow(word: &str) -> Result<Flow, String> {
    let wrong = || format!("`{word}` is not like `300`, `300/reset@20`, `300/stop@20` or `300/unread`");
    if let Some(bytes) = word.strip_suffix("/unread") {
        return Ok(Flow { bytes: bytes.parse().map_err(|_| wrong())?, end: FlowEnd::Unread });
    }
    let (bytes, end) = word.split_once('/').map_or((word, None), |(bytes, end)| (bytes, Some(end)));
    let end = match end.map(|end| end.split_once('@').ok_or_else(wrong)).transpose()? {
        None => FlowEnd::Finish,
        Some(("reset", after)) => FlowEnd::Reset { after: after.parse().map_err(|_| wrong())? },
        Some(("stop", after)) => FlowEnd::Stop { after: after.parse().map_err(|_| wrong())? },
        Some(_) => return Err(wrong()),
    };
    Ok(Flow { bytes: bytes.parse().map_err(|_| wrong())?, end })
}
