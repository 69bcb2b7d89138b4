//! The end of a run: everything comes to rest, the two sides' books agree, and the connection is
//! forgotten.

use netsim::Loss;
use proto::{PathState, PathStats, Side};
use units::Duration;

use super::{Failure, MAX_STEPS, Run, SIDES};
use crate::{scenario::Way, world::Step};

/// Books and buffers must be empty so long after the last byte.
const SETTLE: Duration = Duration::from_secs(120);
/// Both sides must have forgotten a closed connection after the idle timeout and this.
const DRAIN: Duration = Duration::from_secs(60);

impl Run<'_> {
    /// After the last byte everything comes to rest: no bytes in flight, no stream, no
    /// buffer. Or the connection ends meanwhile, because news of abandoned paths crossed.
    pub(super) fn settle(&mut self) -> Result<(), Failure> {
        let end = self.world.now() + SETTLE;
        self.heal();
        loop {
            if self.closed {
                return Ok(());
            }
            let unrest = SIDES.iter().find_map(|side| Some((*side, self.unrest(*side)?)));
            let Some((side, report)) = unrest else { return Ok(()) };
            if self.world.now() >= end {
                let other = SIDES[1 - side as usize];
                let report = format!("{report}\n{other:?}: {}", self.unrest(other).unwrap_or_default());
                return Err(Failure::Leak { side, report });
            }
            self.world.step(end);
            if let Some(violation) = self.world.violation() {
                return Err(violation.clone().into());
            }
            self.act()?;
        }
    }

    /// From here on the network is well: loss that takes the last ACKs time and again proves
    /// nothing.
    pub(super) fn heal(&mut self) {
        self.end_losses();
        for link in 0..self.links.len() {
            self.change(link, Way::Both, |link, now| link.restore(now));
            let network = self.networks[link];
            self.world.set_mtu(network.local, network.remote, self.scenario.paths[link].mtu);
        }
    }

    /// Neither chance nor faults take packets any more; what the scenario has cut stays cut.
    pub(super) fn end_losses(&mut self) {
        self.world.disarm();
        for link in 0..self.links.len() {
            self.change(link, Way::Both, |link, now| link.set_loss(now, Loss::None));
        }
    }

    fn unrest(&self, side: Side) -> Option<String> {
        let connection = self.world.connection(self.id(side)?);
        let streams = connection.stream_stats();
        if streams.open > 0 || streams.send_buffered > 0 || streams.receive_buffered > 0 {
            return Some(format!("{streams:?}"));
        }
        let paths = connection.paths();
        let carries = |p: &&PathStats| !matches!(p.state, PathState::Closing | PathState::Validating);
        let busy = paths.iter().filter(carries).find(|p| p.in_flight > 0);
        busy.map(|path| format!("{path:?}"))
    }

    /// What one side says against what the other says.
    pub(super) fn cross_check(&self) -> Result<(), Failure> {
        let (Some(client), Some(server)) = (self.id(Side::Client), self.id(Side::Server)) else {
            return Ok(());
        };
        for (side, from, to) in [(Side::Client, client, server), (Side::Server, server, client)] {
            let (sender, receiver) = (self.world.connection(from), self.world.connection(to));
            let (s, r) = (sender.stats(), receiver.stats());
            let possible = r.packets_received <= s.packets_sent
                && r.repair_symbols_received <= s.repair_symbols_sent
                && s.packets_rebuilt_by_peer <= r.packets_rebuilt
                && r.stream_bytes_received <= s.stream_bytes_sent;
            if !possible {
                return Err(Failure::Leak { side, report: format!("sender {s:?}\nreceiver {r:?}") });
            }
        }
        Ok(self.world.check_at_end()?)
    }

    pub(super) fn drain(&mut self) -> Result<(), Failure> {
        let timeout: Duration =
            self.scenario.client.max_idle_timeout.max(self.scenario.server.max_idle_timeout).into();
        self.closed = true;
        // Whoever is left without a path is told, and does not wait for the idle timeout.
        let time = if self.stranded { SETTLE } else { timeout * 2 + DRAIN };
        let end = self.world.now() + time;
        while self.world.step(end) == Step::Advanced {
            if let Some(violation) = self.world.violation() {
                return Err(violation.clone().into());
            }
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return Err(Failure::Endless(self.steps));
            }
        }
        for side in SIDES {
            let Some(id) = self.id(side) else { continue };
            let connection = self.world.connection(id);
            if !connection.is_drained() || self.world.open_connections(id.host) > 0 {
                let timer = connection.poll_timeout();
                let report = format!("not drained, timer {timer:?}, paths {:?}", connection.paths());
                return Err(Failure::Leak { side, report });
            }
        }
        Ok(())
    }
}
