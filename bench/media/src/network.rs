//! Two emulated paths to the receiver.

use std::net::SocketAddr;

use emulator::{Emulator, OutageKind, PathId, Seed, UdpPath};
use netsim::LinkConfig;
use tokio::time::Instant;

pub(crate) struct Network {
    emulator: Emulator,
}

impl Network {
    /// Both ways of each path are alike; `run` chooses the losses.
    pub(crate) fn start(first: &str, second: &str, receiver: SocketAddr, run: u64) -> anyhow::Result<Self> {
        let path = |link: &str| -> anyhow::Result<UdpPath> {
            let link: LinkConfig = link.parse().map_err(|error| anyhow::anyhow!("{link}: {error}"))?;
            Ok(UdpPath::new(receiver, link.clone(), link))
        };
        Ok(Self { emulator: Emulator::start([path(first)?, path(second)?], Seed(run))? })
    }

    /// What to talk to on the first (0) or second (1) path.
    pub(crate) fn address(&self, path: usize) -> anyhow::Result<SocketAddr> {
        Ok(self.emulator.client_addr(PathId(path))?)
    }

    /// Drops everything on the first path from `from` until `until`.
    pub(crate) async fn fail(&self, from: Instant, until: Instant) -> anyhow::Result<()> {
        tokio::time::sleep_until(from).await;
        self.emulator.cut(PathId(0), None, OutageKind::Drop)?;
        tokio::time::sleep_until(until).await;
        self.emulator.restore(PathId(0), None)?;
        Ok(())
    }
}
