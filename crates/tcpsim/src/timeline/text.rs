//! A timeline as text: a line for what a sub-flow does in one go.
//!
//! Numbers are segments; `data 7-9` are the connection's, where they differ from the sub-flow's
//! own. Events of one kind on one sub-flow are one line if they follow each other within a fiftieth
//! of the whole time and nothing else happens to the sub-flow in between.

use std::fmt::Write as _;

use netsim::fabric::{Node, PortId, Topology};
use units::{Duration, Instant};

use super::{Event, Sending, Timeline, What};

/// Most ranges of numbers that a line names.
const MAX_RANGES: usize = 10;

/// Names of ports, `host 3 to switch 1`, by a topology.
#[derive(Clone, Debug)]
pub struct PortNames(Vec<String>);

impl PortNames {
    /// Those of all links.
    pub fn new(topology: &Topology) -> Self {
        let name = |node: Node| match node {
            Node::Host(host) => format!("host {}", host.0),
            Node::Switch(switch) => format!("switch {}", switch.0),
        };
        let both = topology.ends().flat_map(|(_, (a, b))| {
            let (a, b) = (name(a), name(b));
            [format!("{a} to {b}"), format!("{b} to {a}")]
        });
        Self(both.collect())
    }

    /// The name of a port.
    pub fn of(&self, port: PortId) -> &str {
        self.0.get(port.0 as usize).map_or("an unknown port", String::as_str)
    }
}

/// Ranges of numbers, kept sorted and apart: `3-5, 9`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Numbers(Vec<(u32, u32)>);

impl Numbers {
    /// Adds `from..to`.
    fn add(&mut self, from: u32, to: u32) {
        if from >= to {
            return;
        }
        let start = self.0.partition_point(|(_, end)| *end < from);
        let end = self.0.partition_point(|(start, _)| *start <= to);
        let touched = self.0.drain(start..end);
        let (from, to) = touched.fold((from, to), |(from, to), (a, b)| (from.min(a), to.max(b)));
        self.0.insert(start, (from, to));
    }

    /// Forgets what is below `edge`.
    fn cut(&mut self, edge: u32) {
        self.0.retain_mut(|(from, to)| {
            *from = (*from).max(edge);
            from < to
        });
    }

    /// All of them, or the first and the last if there are many ranges.
    fn text(&self) -> String {
        let range = |(from, to): &(u32, u32)| match to - from {
            1 => from.to_string(),
            _ => format!("{from}-{}", to - 1),
        };
        let list = |ranges: &[(u32, u32)]| ranges.iter().map(range).collect::<Vec<_>>().join(", ");
        if self.0.len() <= MAX_RANGES {
            return list(&self.0);
        }
        let half = MAX_RANGES / 2;
        let count: u32 = self.0.iter().map(|(from, to)| to - from).sum();
        format!("{} ... {} ({count} in all)", list(&self.0[..half]), list(&self.0[self.0.len() - half..]))
    }
}

/// What a line says.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Saying {
    Sent { how: Sending, seqs: Numbers, data: Numbers },
    Lost { port: PortId, dropped: bool, seqs: Numbers },
    RepliesLost { port: PortId, dropped: bool, count: u32 },
    Acked { seq: u32, held: Numbers },
    Plain(What),
}

impl Saying {
    fn new(what: What) -> Self {
        let one = |seq: u32| Numbers(vec![(seq, seq.saturating_add(1))]);
        match what {
            What::Sent { seq, dsn, how } => {
                let data = if dsn == u32::MAX { Numbers::default() } else { one(dsn) };
                Self::Sent { how, seqs: one(seq), data }
            }
            What::Lost { seq, port, dropped } => Self::Lost { port, dropped, seqs: one(seq) },
            What::ReplyLost { port, dropped, .. } => Self::RepliesLost { port, dropped, count: 1 },
            What::Acked { seq, blocks } => {
                let mut held = Numbers::default();
                blocks.iter().for_each(|(from, to)| held.add(*from, *to));
                held.cut(seq);
                Self::Acked { seq, held }
            }
            other => Self::Plain(other),
        }
    }

    /// Takes in what another says, if it is of the same kind.
    fn join(&mut self, other: &Self) -> bool {
        let merge =
            |all: &mut Numbers, more: &Numbers| more.0.iter().for_each(|(from, to)| all.add(*from, *to));
        match (self, other) {
            (Self::Sent { how, seqs, data }, Self::Sent { how: kind, seqs: more, data: further })
                if how == kind =>
            {
                merge(seqs, more);
                merge(data, further);
                true
            }
            (Self::Lost { port, dropped, seqs }, Self::Lost { port: other, dropped: also, seqs: more })
                if (*port, *dropped) == (*other, *also) =>
            {
                merge(seqs, more);
                true
            }
            (
                Self::RepliesLost { port, dropped, count },
                Self::RepliesLost { port: other, dropped: also, count: more },
            ) if (*port, *dropped) == (*other, *also) => {
                *count += more;
                true
            }
            (Self::Acked { seq, held }, Self::Acked { seq: later, held: more }) => {
                *seq = (*seq).max(*later);
                merge(held, more);
                held.cut(*seq);
                true
            }
            _ => false,
        }
    }

    /// Whether what comes after it stands on lines of its own.
    fn divides(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    fn text(&self, ports: &PortNames) -> String {
        match self {
            Self::Sent { how, seqs, data } => sent_text(*how, seqs, data),
            Self::Lost { port, dropped, seqs } => {
                let how = if *dropped { "dropped, queue full:" } else { "lost:" };
                format!("! {how} {} ({})", seqs.text(), ports.of(*port))
            }
            Self::RepliesLost { port, dropped, count } => {
                let how = if *dropped { "dropped, queue full" } else { "lost" };
                let what = if *count == 1 { "a reply".to_owned() } else { format!("{count} replies") };
                format!("! {what} {how} ({})", ports.of(*port))
            }
            Self::Acked { seq, held } if held.0.is_empty() => format!("  acknowledged: all below {seq}"),
            Self::Acked { seq, held } => format!("  acknowledged: all below {seq}, and {}", held.text()),
            Self::Plain(What::Written { bytes }) => format!("= {bytes} bytes are written"),
            Self::Plain(What::Opening) => "  opens".to_owned(),
            Self::Plain(What::Open) => "  is open".to_owned(),
            Self::Plain(What::Repaired { segments }) => format!("+ the receiver repairs {segments}"),
            Self::Plain(What::Recovery) => "* fast recovery begins".to_owned(),
            Self::Plain(What::Timeout) => "* retransmission timeout".to_owned(),
            Self::Plain(What::Probe) => "* tail loss probe".to_owned(),
            Self::Plain(_) => "= all has arrived".to_owned(),
        }
    }
}

fn sent_text(how: Sending, seqs: &Numbers, data: &Numbers) -> String {
    let own = seqs.text();
    let data =
        if data.0.is_empty() || data == seqs { String::new() } else { format!(" (data {})", data.text()) };
    match how {
        Sending::New => format!("> sends {own}{data}"),
        Sending::Again => format!("> sends again {own}{data}"),
        Sending::Copy => format!("> sends {own}, copies{data}"),
        Sending::Parity { of, block: (first, k) } if k > 0 => {
            format!("> sends {own}, parity of {first}-{} of sub-flow {of}", first + k - 1)
        }
        Sending::Parity { .. } => format!("> sends {own}, coded"),
    }
}

struct Line {
    from: Instant,
    to: Instant,
    conn: u32,
    sub: u8,
    saying: Saying,
}

fn lines(events: &[Event], gap: Duration) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for event in events {
        let saying = Saying::new(event.what);
        // Lines that began long ago may still be open, but not behind a dividing one of the same
        // sub-flow.
        let same = |line: &&mut Line| (line.conn, line.sub) == (event.conn, event.sub);
        let open = lines.iter_mut().rev().filter(same).take_while(|line| !line.saying.divides()).take(8);
        let mut open = open.filter(|line| event.at.saturating_duration_since(line.to) <= gap);
        let joined = !saying.divides()
            && open.any(|line| {
                let joined = line.saying.join(&saying);
                if joined {
                    line.to = event.at;
                }
                joined
            });
        if !joined {
            lines.push(Line { from: event.at, to: event.at, conn: event.conn, sub: event.sub, saying });
        }
    }
    lines
}

/// The timeline as aligned text, times in ms since its first event; at most `most` lines, of which
/// those in the middle are left out first.
pub fn text(timeline: &Timeline, ports: &PortNames, most: usize) -> String {
    let (Some(first), Some(last)) = (timeline.events.first(), timeline.events.last()) else {
        return "  (nothing happened)\n".to_owned();
    };
    let lines = lines(&timeline.events, (last.at - first.at) / 50);
    let several = lines.iter().any(|line| line.conn != first.conn);
    let ms = |at: Instant| format!("{:.3}", (at - first.at).as_nanos() as f64 / 1e6);
    let mut out = String::new();
    let (head, tail) = (most.div_ceil(2), most / 2);
    for (place, line) in lines.iter().enumerate() {
        if lines.len() > most && place == head {
            let _ = writeln!(out, "  ... {} lines left out ...", lines.len() - most);
        }
        if lines.len() > most && (head..lines.len() - tail).contains(&place) {
            continue;
        }
        let until = if line.to > line.from { format!(" - {}", ms(line.to)) } else { String::new() };
        let path = match (
            several,
            line.saying.divides()
                && matches!(line.saying, Saying::Plain(What::Written { .. } | What::Finished)),
        ) {
            (false, true) => String::new(),
            (false, false) => line.sub.to_string(),
            (true, true) => line.conn.to_string(),
            (true, false) => format!("{}.{}", line.conn, line.sub),
        };
        let _ = writeln!(out, "{:>11}{until:<14} {path:>5}  {}", ms(line.from), line.saying.text(ports));
    }
    if timeline.left_out > 0 {
        let _ = writeln!(out, "  ... {} more events were not kept", timeline.left_out);
    }
    out
}

#[cfg(test)]
mod tests {
    use netsim::{
        Loss,
        fabric::{Failure, Fault, Options, topology::Dumbbell},
    };
    use units::BitRate;

    use super::*;
    use crate::{FlowId, Profile, Sim, Tcp, timeline::MAX_EVENTS};

    /// A flow over 12 Mbit/s (1 ms per full packet) and 20 ms that loses the packets of `lost`.
    fn watched(segments: u64, lost: &[u64]) -> (Sim, FlowId, Timeline, PortNames) {
        let topology = Dumbbell::new(1, BitRate::from_mbps(12), Duration::from_millis(20), 100).build();
        let loss = Loss::nth(lost.iter().copied());
        let failure = Failure::Loss { loss, data_only: true, before_rate: false };
        let faults = vec![Fault::both(Dumbbell::BOTTLENECK, failure)];
        let mut sim = Sim::new(&topology, &Options { faults, ..Options::default() }).unwrap();
        let tcp = sim.add_profile(Profile::tcp(Tcp { early_retransmit: false, ..Tcp::default() }));
        let flow = sim.add_flow(tcp, 0, 1, segments * 1_460, Instant::ORIGIN).unwrap();
        let other =
            sim.add_flow(tcp, 0, 1, segments * 1_460, Instant::ORIGIN + Duration::from_secs(9)).unwrap();
        let timelines = sim.watch(&[flow]);
        sim.run_until_done(Instant::MAX).unwrap();
        assert_eq!(timelines.of(other), Timeline::default());
        (sim, flow, timelines.of(flow), PortNames::new(&topology))
    }

    #[test]
    fn a_lost_packet_and_a_lost_tail_are_told() {
        let (_, _, timeline, ports) = watched(7, &[1, 6]);
        let told = [
            "      0.000                      = 10220 bytes are written",
            "      0.000                   0  > sends 0-6",
            "      1.200 - 1.700           0  ! lost: 1, 6 (switch 0 to switch 1)",
            "     21.232                   0    acknowledged: all below 1",
            "     23.232                   0    acknowledged: all below 1, and 2",
            "     24.232                   0    acknowledged: all below 1, and 2-3",
            "     25.232                   0    acknowledged: all below 1, and 2-4",
            "     25.232                   0  * fast recovery begins",
            "     25.232                   0  > sends again 1",
            "     26.232                   0    acknowledged: all below 1, and 2-5",
            "     26.232                   0  > sends again 6",
            "     37.432                      = all has arrived",
        ];
        assert_eq!(text(&timeline, &ports, 100).lines().collect::<Vec<_>>(), told);
    }

    #[test]
    fn watching_changes_nothing() {
        let hash = |watch: bool| {
            let topology = Dumbbell::new(2, BitRate::from_mbps(100), Duration::from_millis(2), 8).build();
            let mut sim = Sim::new(&topology, &Options::default()).unwrap();
            let fuso = crate::SchemeKind::Fuso(crate::schemes::Fuso::new(2));
            let profile = sim.add_profile(Profile { tcp: Tcp::default(), scheme: fuso });
            let flows: Vec<_> =
                (0..2).map(|n| sim.add_flow(profile, n, n + 2, 200_000, Instant::ORIGIN).unwrap()).collect();
            let timelines = watch.then(|| sim.watch(&flows));
            sim.run_until_done(Instant::MAX).unwrap();
            let events = timelines.map_or(0, |timelines| timelines.of(flows[0]).events.len());
            (sim.fabric().trace_hash(), sim.totals(), events > 0)
        };
        let ((plain, totals, _), (watched, same, seen)) = (hash(false), hash(true));
        assert_eq!((plain, totals), (watched, same));
        assert!(seen && totals.timeouts + totals.recoveries > 0);
    }

    #[test]
    fn long_timelines_are_cut_in_the_middle_and_bounded() {
        let (_, _, timeline, ports) = watched(300, &[20, 60, 100, 140, 180, 220]);
        let all = text(&timeline, &ports, usize::MAX);
        let some = text(&timeline, &ports, 5);
        assert!(all.lines().count() > 20, "{all}");
        assert_eq!(some.lines().count(), 6);
        assert_eq!(some.lines().next(), all.lines().next());
        assert_eq!(some.lines().last(), all.lines().last());

        let (_, _, timeline, ports) = watched(17_000, &[]);
        assert_eq!(timeline.events.len(), MAX_EVENTS);
        assert!(timeline.left_out > 0);
        assert!(text(&timeline, &ports, 5).lines().count() == 7);
    }

    #[test]
    fn numbers_join() {
        let mut numbers = Numbers::default();
        [(5, 6), (1, 2), (2, 3), (9, 12), (7, 9), (4, 4)]
            .into_iter()
            .for_each(|(from, to)| numbers.add(from, to));
        assert_eq!(numbers.text(), "1-2, 5, 7-11");
        numbers.cut(8);
        assert_eq!(numbers.text(), "8-11");
        (10..40).for_each(|n| numbers.add(2 * n, 2 * n + 1));
        assert_eq!(numbers.text(), "8-11, 20, 22, 24, 26 ... 70, 72, 74, 76, 78 (34 in all)");
    }
}
