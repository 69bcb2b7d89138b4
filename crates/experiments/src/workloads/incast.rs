//! Many answers to one host at once (FUSO section VI-B.3): `senders` answers of `bytes` from the
//! hosts of `from` to the first host of `to`, on connections of their own or, with `warm_bytes`, on
//! long-lived ones, which so many bytes have warmed up; `rounds` times, `apart_ms` apart. Their
//! requests leave one host one after the other, over `spread_us` (0) from the first to the last, so
//! the answers begin one after the other too.

use netsim::fabric::{
    HostId,
    workload::{FlowSpec, Incast as Answers},
};
use plans::{Keys, PlanError};
use units::{Duration, Instant};

use super::{Network, Party, Traffic, TrafficError, Workload};

#[derive(Clone, Debug)]
struct Incast {
    answers: Answers,
    rounds: u32,
    apart: Duration,
    warm: Option<u64>,
    /// From the first answer's beginning to the last one's.
    spread: Duration,
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
        spread: Duration::from_secs_f64(keys.float("spread_us", 0.0..=1e9)?.unwrap_or(0.0) / 1e6),
    }))
}

impl Incast {
    /// How long after the first answer the `n`th begins.
    fn wait(&self, n: usize) -> Duration {
        self.spread * n as u64 / u64::from(self.answers.senders.max(2) - 1)
    }
}

impl Workload for Incast {
    fn generate(&self, traffic: &mut Traffic<'_>) -> Result<(), TrafficError> {
        let Some(warm) = self.warm else {
            for round in 0..u64::from(self.rounds) {
                let at = Instant::ORIGIN + self.apart * round;
                let answers = Answers { at, ..self.answers.clone() }.flows();
                for (n, flow) in answers.into_iter().enumerate() {
                    let flow = FlowSpec { at: flow.at + self.wait(n), ..flow };
                    traffic.flow(&flow, Party::Tested)?;
                }
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
            for (n, connection) in connections.iter().enumerate() {
                let at = first + self.apart * round + self.wait(n);
                traffic.message(*connection, self.answers.bytes, at)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_leave_one_after_the_other() {
        let answers = Answers { receiver: HostId(0), from: 1..6, senders: 5, bytes: 1, at: Instant::ORIGIN };
        let incast = |spread| Incast {
            answers: answers.clone(),
            rounds: 1,
            apart: Duration::ZERO,
            warm: None,
            spread,
        };
        let over = incast(Duration::from_micros(200));
        let waits: Vec<u64> = (0..5).map(|n| over.wait(n).as_micros()).collect();
        assert_eq!(waits, [0, 50, 100, 150, 200]);
        assert_eq!(incast(Duration::ZERO).wait(4), Duration::ZERO);
    }
}
