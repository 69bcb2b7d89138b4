//! The test bed: a client's and a server's network namespace, joined by emulated paths.

mod address;
mod data_only;
mod mptcp;
mod netns;
mod sysctl;

use std::{net::Ipv4Addr, sync::OnceLock};

use emulator::{Direction, Emulator, PathId, PathStats, TunPath};
use netsim::{Loss, LossModel, Seed, link::OutageKind};
use units::Duration;

use crate::{Cancel, LabError, PathSpec, clock};
pub(crate) use mptcp::{MptcpCounters, counters};
pub use netns::Namespace;

use data_only::DataOnly;

/// The server's address, reachable over every path.
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);

/// An address of the server that none of its programs listens on but the origin behind a tunnel.
pub(crate) const BEHIND: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);

/// The client's address on a path.
pub(crate) fn client_address(path: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, path as u8, 2)
}

/// Two namespaces and the paths between them; all of it vanishes when this is dropped, and every
/// process in it.
pub(crate) struct TestBed {
    pub(crate) client: Namespace,
    pub(crate) server: Namespace,
    emulator: Emulator,
    pub(crate) paths: Vec<PathSpec>,
    /// What the emulator calls each path; it does not know of those that are direct or have the links of another.
    emulated: Vec<Option<PathId>>,
    /// The path for what the client sends from no address in particular.
    first: usize,
    /// The congestion controller of programs' TCP, once one is set.
    congestion: OnceLock<String>,
    seed: Seed,
}

impl TestBed {
    /// Makes everything. What the client sends from no address in particular leaves by path
    /// `first`.
    pub(crate) fn new(
        paths: &[PathSpec],
        first: usize,
        seed: Seed,
        tcp_metrics: bool,
    ) -> Result<Self, LabError> {
        PathSpec::check(paths).map_err(|reason| LabError::Plan { name: "the paths".to_owned(), reason })?;
        let (client, server) = (Namespace::new()?, Namespace::new()?);
        for namespace in [&client, &server] {
            namespace.run(|| sysctl::prepare(tcp_metrics))??;
        }
        let mut emulator = Emulator::start([], seed)?;
        let mut emulated = Vec::new();
        for (index, path) in paths.iter().enumerate() {
            let name = format!("path{index}");
            if path.direct {
                client.join(&server, &name)?;
            }
            if path.direct || path.through.is_some() {
                emulated.push(None);
                continue;
            }
            let client_device = client.tun(&name)?;
            let server_device = server.tun(&name)?;
            let (up, down) = (path.up.clone(), path.down.clone());
            let seed = path_seed(seed, index);
            let tun = TunPath::new(client_device, server_device, up, down).seed(seed);
            emulated.push(Some(emulator.add_tun_path(tun)?));
        }
        let devices = devices(paths);
        client.run(|| address::client(&devices, first))??;
        server.run(|| address::server(&devices))??;
        client.run(|| mptcp::prepare((0..paths.len()).map(client_address)))??;
        server.run(|| mptcp::prepare([]))??;
        let (paths, congestion) = (paths.to_vec(), OnceLock::new());
        let bed = Self { client, server, emulator, paths, emulated, first, congestion, seed };
        bed.reseed(0)?;
        Ok(bed)
    }

    /// Lets every link lose from now on what it loses in every `n`-th fetch; what happens to it at given times
    /// happens from now on again.
    pub(crate) fn reseed(&self, n: u64) -> Result<(), LabError> {
        let seed = self.seed.child("fetch", n);
        for (index, path) in self.paths.iter().enumerate() {
            let Some(id) = self.emulated[index] else { continue };
            let seed = path_seed(seed, index);
            self.emulator.reseed(id, seed)?;
            self.emulator.restart(id)?;
            if path.data_only {
                let links = [(Direction::Forward, &path.up, "up"), (Direction::Backward, &path.down, "down")];
                for (direction, link, name) in links {
                    self.lose(index, direction, link.loss.model(seed.child(name, 0)))?;
                }
            }
        }
        Ok(())
    }

    /// Lets a path lose exactly the `index`-th packet that is not small, from server to client, and
    /// no other.
    pub(crate) fn drop_packet(&self, path: usize, index: u64) -> Result<(), LabError> {
        self.lose(path, Direction::Backward, Loss::nth([index]).model(self.seed))
    }

    /// Lets a path lose by this model, which is asked about packets that are not small only.
    fn lose(
        &self,
        path: usize,
        direction: Direction,
        model: Box<dyn LossModel + Send>,
    ) -> Result<(), LabError> {
        let path = self.emulated(path)?;
        Ok(self.emulator.set_loss_model(path, direction, Box::new(DataOnly::new(model)))?)
    }

    pub(crate) fn cut(&self, path: usize, hold: bool) -> Result<(), LabError> {
        let kind = if hold { OutageKind::Hold } else { OutageKind::Drop };
        Ok(self.emulator.cut(self.emulated(path)?, None, kind)?)
    }

    pub(crate) fn restore(&self, path: usize) -> Result<(), LabError> {
        Ok(self.emulator.restore(self.emulated(path)?, None)?)
    }

    /// A path that the plan cuts, or where it loses packets: one without links of its own is refused there.
    fn emulated(&self, path: usize) -> Result<PathId, LabError> {
        let found = self.emulated[path];
        found.ok_or_else(|| LabError::Plan {
            name: format!("path {path}"),
            reason: "nothing can be done to a path without links of its own".to_owned(),
        })
    }

    /// Lets the client reach what is behind a tunnel through that alone, so that nothing goes
    /// beside it while it is not there yet.
    pub(crate) fn hide_behind(&self) -> Result<(), LabError> {
        self.client.run(address::hide_behind)?
    }

    /// Lets TCP of programs on either side use this congestion controller of the kernel's over every path,
    /// whatever they ask for before they connect or listen. The kernel lets a namespace have few of them as
    /// its default, but any for a route.
    ///
    /// # Errors
    /// [`LabError::Netlink`] if the kernel does not have it, or if other programs here have another one.
    pub(crate) fn use_congestion(&self, name: &str) -> Result<(), LabError> {
        let wrong =
            |reason| LabError::Netlink { what: format!("use the congestion controller {name}"), reason };
        let set = self.congestion.get_or_init(|| name.to_owned());
        if set != name {
            let reason =
                format!("another program over the same paths has {set}; `congestion` of both adapters");
            return Err(wrong(format!("{reason} must be the same")));
        }
        let (devices, first) = (devices(&self.paths), self.first);
        let client = self.client.run(|| address::client_congestion(&devices, first, name))?;
        let changed = client.and(self.server.run(|| address::server_congestion(&devices, name))?);
        changed.map_err(|error| match error {
            LabError::Netlink { reason, .. } => wrong(format!("{reason} (modprobe tcp_{name}?)")),
            error => error,
        })
    }

    /// The path for what the client sends from no address in particular.
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// What every path has done so far; nothing is known of direct ones, and what goes through another path's links is
    /// counted there.
    pub(crate) fn stats(&self) -> Result<Vec<PathStats>, LabError> {
        let stats = |id: &Option<PathId>| match id {
            Some(id) => Ok(self.emulator.stats(*id)?),
            None => Ok(PathStats::default()),
        };
        self.emulated.iter().map(stats).collect()
    }

    /// Waits until the links have been empty for a moment, or for two round trips and a little:
    /// what one fetch left behind should not meet the next, and neither should what was still
    /// happening to its paths.
    pub(crate) fn settle(&self, cancel: &Cancel) -> Result<(), LabError> {
        for id in self.emulated.iter().flatten() {
            self.emulator.restart(*id)?;
        }
        let rtt = |path: &PathSpec| path.up.delay + path.down.delay;
        let longest = self.paths.iter().map(rtt).max().unwrap_or_default();
        let mut quiet = 0;
        clock::poll_until(longest * 2 + Duration::from_millis(100), cancel, || {
            let empty = self.stats()?.iter().all(|path| path.up.in_link + path.down.in_link == 0);
            quiet = if empty { quiet + 1 } else { 0 };
            Ok((quiet >= 3).then_some(()))
        })?;
        Ok(())
    }
}

impl Drop for TestBed {
    fn drop(&mut self) {
        self.client.end_processes();
        self.server.end_processes();
    }
}

/// Over whose device each path goes.
fn devices(paths: &[PathSpec]) -> Vec<usize> {
    paths.iter().enumerate().map(|(index, path)| path.through.unwrap_or(index)).collect()
}

fn path_seed(seed: Seed, path: usize) -> Seed {
    seed.child("path", path as u64)
}
