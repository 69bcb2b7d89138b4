//! Many answers to one host at once (FUSO section VI-B.3): `senders` answers of `bytes` from the
//! hosts of `from` to the first host of `to`, on connections of their own or, with `long_lived`, on
//! ones that were warmed up by `warm_bytes`; `rounds` times, `apart_ms` apart.

use netsim::fabric::{HostId, workload::Incast as Answers};
use plans::{Keys, PlanError};
use units::{Duration, Instant};

use super::{Network, Party, Traffic, TrafficError, Workload};

#[derive(Clone, Debug)]
struct Incast {
    answers: Answers,
    rounds: u32,
    apart: Duration,
    warm: Option<u64>,
}

pub(super) fn read(keys: &mut Keys<'_>, network: &Network) -> Result<Box<dyn Workload>, PlanError> {
    let from = network.group(keys, "from")?;
    let from = keys.need("from", from, "the hosts that answer")?;
    let to = network.group(keys, "to")?;
    let to = keys.need("to", to, "a group whose first host asks")?;
    let from = if from.start == to.start { from.start + 1..from.end } else { from };
    let senders = keys.count("senders", 1..=1_000_000)?;
    let bytes = keys.int("bytes", 1..=1 << 40)?;
    let answers = Answers {
        receiver: HostId(to.start),
        from,
        senders: keys.need("senders", senders, "how many answer")?,
        bytes: keys.need("bytes", bytes, "size of an answer")?,
        at: Instant::ORIGIN,
    };
    Ok(Box::new(Incast {
        answers,
        rounds: keys.count("rounds", 1..=1_000_000)?.unwrap_or(1),
        apart: keys.millis("apart_ms")?.unwrap_or(Duration::from_secs(10)),
        warm: keys.int("warm_bytes", 1..=1 << 40)?,
    }))
}

impl Workload for Incast {
    fn generate(&self, traffic: &mut Traffic<'_>) -> Result<(), TrafficError> {
        let Some(warm) = self.warm else {
            for round in 0..u64::from(self.rounds) {
                let at = Instant::ORIGIN + self.apart * round;
                let answers = Answers { at, ..self.answers.clone() }.flows();
                answers.iter().try_for_each(|flow| traffic.flow(flow, Party::Tested).map(|_| ()))?;
            }
            return Ok(());
        };
        let apart = Duration::from_millis(20);
        let mut connections = Vec::new();
        for (n, flow) in (0..).zip(self.answers.flows()) {
            let connection = traffic.sim.connect(traffic.scheme, flow.from.0, flow.to.0)?;
            traffic.warm(connection, warm, Instant::ORIGIN + apart * n)?;
            connections.push(connection);
        }
        let first = Instant::ORIGIN + apart * connections.len() as u64 + self.apart;
        for round in 0..u64::from(self.rounds) {
            for connection in &connections {
                traffic.message(*connection, self.answers.bytes, first + self.apart * round)?;
            }
        }
        Ok(())
    }
}
