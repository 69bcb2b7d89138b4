//! Single simulations of a plan as tables: every flow, and the slowest ones packet by packet.

use netsim::Seed;
use tcpsim::timeline::{Event, Sending, What, text::PortNames};

use crate::{
    columns::{Columns, Data},
    outcome::Measured,
    plan::Plan,
    tail::{Tail, TailError},
};

/// A point of a plan with one seed, by every scheme that was asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct Single {
    /// A row for each measured flow.
    pub flows: Columns,
    /// A row for each thing that happened to the flows that were watched.
    pub packets: Columns,
    /// The schemes' names, each with the hash over every event.
    pub traces: Vec<(String, u64)>,
}

impl Single {
    /// Runs the point that `which` names and watches the slowest flows of each scheme, as many as
    /// it asks for.
    ///
    /// # Errors
    /// If the plan has not what is asked for, or a run fails.
    pub fn run(plan: &Plan, which: &Tail) -> Result<Self, TailError> {
        let point = which.point(plan)?;
        let (mut flows, mut events, mut traces) = (Vec::new(), Vec::new(), Vec::new());
        for scheme in which.schemes(plan)? {
            let scenario = plan.scenario(&point, scheme, &mut Vec::new())?;
            let (outcome, slow) = scenario.slowest(Seed(which.seed), which.flows)?;
            let (name, ports) = (&plan.schemes[scheme].name, scenario.port_names());
            flows.extend(outcome.flows.iter().map(|flow| (name, *flow)));
            for (flow, timeline) in &slow {
                let row = |event: &Event| (name, flow.flow.0, Happened::new(event, &ports));
                events.extend(timeline.events.iter().map(row));
            }
            traces.push((name.clone(), outcome.trace));
        }
        Ok(Self { flows: flow_table(&flows), packets: packet_table(&events), traces })
    }
}

fn flow_table(flows: &[(&String, Measured)]) -> Columns {
    let whole =
        |of: fn(&Measured) -> u32| Data::Whole(flows.iter().map(|(_, flow)| of(flow).into()).collect());
    let seconds =
        |of: fn(&Measured) -> Option<f64>| Data::Numbers(flows.iter().map(|(_, flow)| of(flow)).collect());
    let mut columns = Columns::default();
    columns.add("scheme", Data::Texts(flows.iter().map(|(scheme, _)| (*scheme).clone()).collect()));
    columns.add("flow", whole(|flow| flow.flow.0));
    columns.add("bytes", Data::Whole(flows.iter().map(|(_, flow)| flow.bytes as i64).collect()));
    columns.add("background", whole(|flow| flow.background.into()));
    columns.add("started_s", seconds(|flow| Some(flow.started.as_nanos() as f64 / 1e9)));
    columns.add("completion_ms", seconds(|flow| flow.time.map(|time| time.as_nanos() as f64 / 1e6)));
    columns.add("timeouts", whole(|flow| flow.timeouts));
    columns.add("retransmissions", whole(|flow| flow.retransmissions));
    columns.add("redundant", whole(|flow| flow.extra));
    columns.add("repaired", whole(|flow| flow.repaired));
    columns.add("packets", whole(|flow| flow.packets));
    columns
}

fn packet_table(events: &[(&String, u32, Happened)]) -> Columns {
    let counts = |of: fn(&Happened) -> Option<u64>| {
        Data::Counts(events.iter().map(|(.., event)| of(event).map(|number| number as i64)).collect())
    };
    let texts =
        |of: fn(&Happened) -> &str| Data::Texts(events.iter().map(|(.., event)| of(event).into()).collect());
    let mut columns = Columns::default();
    columns.add("scheme", Data::Texts(events.iter().map(|(scheme, ..)| (*scheme).clone()).collect()));
    columns.add("flow", Data::Whole(events.iter().map(|(_, flow, _)| i64::from(*flow)).collect()));
    columns.add("seconds", Data::Numbers(events.iter().map(|(.., event)| Some(event.seconds)).collect()));
    columns.add("connection", counts(|event| Some(event.connection)));
    columns.add("sub_flow", counts(|event| Some(event.sub_flow)));
    columns.add("event", texts(|event| event.what));
    columns.add("how", texts(|event| event.how));
    columns.add("number", counts(|event| event.number));
    columns.add("data_number", counts(|event| event.data_number));
    columns.add("amount", counts(|event| event.amount));
    columns.add("sack", texts(|event| &event.sack));
    columns.add("port", texts(|event| &event.port));
    columns
}

/// An event, as the table has it.
#[derive(Default)]
struct Happened {
    seconds: f64,
    connection: u64,
    sub_flow: u64,
    what: &'static str,
    /// Of what is sent: why.
    how: &'static str,
    /// The segment on its sub-flow; of an acknowledgement the first that has not arrived.
    number: Option<u64>,
    /// The segment in the connection's data.
    data_number: Option<u64>,
    /// Bytes that were written, or segments that were repaired.
    amount: Option<u64>,
    /// Blocks, first and last: `5-7 9-9`.
    sack: String,
    /// Where something was lost.
    port: String,
}

impl Happened {
    fn new(event: &Event, ports: &PortNames) -> Self {
        let named = |what| Self { what, ..Self::default() };
        let lost = |what, seq: u32, port| Self {
            what,
            number: Some(seq.into()),
            port: ports.of(port).to_owned(),
            ..Self::default()
        };
        let of = match event.what {
            What::Written { bytes } => Self { amount: Some(bytes), ..named("written") },
            What::Opening => named("opening"),
            What::Open => named("open"),
            What::Sent { seq, dsn, how } => sent(seq, dsn, how),
            What::Lost { seq, port, dropped } => lost(if dropped { "dropped" } else { "lost" }, seq, port),
            What::ReplyLost { seq, port, dropped } => {
                lost(if dropped { "reply dropped" } else { "reply lost" }, seq, port)
            }
            What::Acked { seq, blocks } => {
                Self { number: Some(seq.into()), sack: sack(&blocks), ..named("acknowledged") }
            }
            What::Repaired { segments } => Self { amount: Some(segments), ..named("repaired") },
            What::Recovery => named("recovery"),
            What::Timeout => named("timeout"),
            What::Probe => named("probe"),
            What::Finished => named("finished"),
        };
        Self {
            seconds: event.at.as_nanos() as f64 / 1e9,
            connection: event.conn.into(),
            sub_flow: event.sub.into(),
            ..of
        }
    }
}

fn sent(seq: u32, dsn: u32, how: Sending) -> Happened {
    let (how, is_data) = match how {
        Sending::New => ("new", true),
        Sending::Again => ("again", true),
        Sending::Copy => ("copy", true),
        Sending::Parity { .. } => ("parity", false),
    };
    Happened {
        what: "sent",
        how,
        number: Some(seq.into()),
        data_number: is_data.then_some(dsn.into()),
        ..Happened::default()
    }
}

fn sack(blocks: &[(u32, u32)]) -> String {
    let used = blocks.iter().filter(|(from, to)| from < to);
    used.map(|(from, to)| format!("{from}-{}", to - 1)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scale;

    #[test]
    fn flows_and_packets_are_tables() {
        let text = r#"
            title = "A response that loses its third packet"
            metrics = ["fct_p99_ms"]
            topology = { kind = "parallel-paths" }
            tcp = { preset = "fuso" }
            fault = [{ links = "paths", index = 0, nth = [2], data_only = true }]
            balancing = "sub-flow"
            workload = { kind = "spaced", from = "first", to = "second", flows = 3, apart_ms = 50, bytes = 10_000 }
            scheme = [{ kind = "tcp" }, { kind = "fuso", subflows = 2 }]
            limit_s = 10
        "#;
        let plan = Plan::parse("single", text, Scale::Quick).unwrap();
        let single = Single::run(&plan, &Tail::new(1)).unwrap();
        assert_eq!(single.flows.rows(), 2 * 3);
        let names: Vec<&str> = single.traces.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["tcp", "fuso"]);
        assert_ne!(single.traces[0].1, single.traces[1].1);
        let csv = single.packets.csv();
        assert!(csv.contains("tcp,0,0,0,0,written,,,,10000,,"), "{csv}");
        assert!(csv.contains(",sent,new,0,0,,,"), "{csv}");
        assert!(csv.contains(",lost,,2,,,,switch 0 to switch 1"), "{csv}");
        assert!(csv.contains(",acknowledged,,2,,,3-6,"), "{csv}");
        assert!(csv.contains(",sent,again,2,2,,,"), "{csv}");
        assert!(csv.contains(",finished,,,,,,"), "{csv}");
    }
}
