//! Many senders answer one receiver at once (FUSO section VI-B.3).

use units::Instant;

use super::{FlowSpec, HostId, HostRange};

/// `senders` answers of `bytes` each, all at `at`, spread over the hosts of a range in turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Incast {
    /// Who asked.
    pub receiver: HostId,
    /// Which hosts answer; must not be empty.
    pub from: HostRange,
    /// How many answers; several may come from one host.
    pub senders: u32,
    /// Size of an answer.
    pub bytes: u64,
    /// When.
    pub at: Instant,
}

impl Incast {
    /// The flows.
    pub fn flows(&self) -> Vec<FlowSpec> {
        let hosts = self.from.end.saturating_sub(self.from.start).max(1);
        let flow = |n| FlowSpec {
            at: self.at,
            from: HostId(self.from.start + n % hosts),
            to: self.receiver,
            bytes: self.bytes,
        };
        (0..self.senders).map(flow).collect()
    }
}
