//! A contender that is up: whatever had to be started for it, and where to connect.

mod call;
mod mendpath;
mod peer;
mod programs;
mod web;

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
};

use units::Duration;

use crate::{
    Adapter, Cancel, Contender, LabError, PathChoice,
    bed::{BEHIND, SERVER, TestBed, client_address},
    clock,
    fetch::{Connection, Target},
    leftovers::RunDirectory,
    origin::{Origin, Transport},
    process::Process,
};
pub(crate) use call::Caller;
pub(crate) use programs::Programs;
use programs::{ADMIN, Admin};

/// How long programs may take to start.
const START: Duration = Duration::from_secs(15);

/// What contenders are started with.
pub(crate) struct Starter<'a> {
    pub(crate) mendpath: &'a Path,
    pub(crate) adapters: &'a BTreeMap<String, Adapter>,
    pub(crate) directory: &'a RunDirectory,
    pub(crate) pattern: Arc<[u8]>,
    pub(crate) browser: Option<&'a Path>,
    pub(crate) cancel: &'a Cancel,
}

/// A contender ready to carry connections; everything ends when this is dropped.
pub(crate) struct Running {
    pub(crate) target: Target,
    pub(crate) origin: Origin,
    pub(crate) programs: Programs,
}

impl Starter<'_> {
    /// Starts a contender in a test bed; `slot` keeps the ports of several apart.
    pub(crate) fn start(&self, contender: &Contender, bed: &TestBed, slot: u16) -> Result<Running, LabError> {
        match contender {
            Contender::Tcp { congestion, path } => {
                let transport = Transport { multipath: false, congestion: congestion.clone() };
                let from = match path {
                    PathChoice::Fixed(path) => vec![client_address(*path)],
                    PathChoice::Random => (0..bed.paths.len()).map(client_address).collect(),
                };
                self.kernel(bed, transport, from)
            }
            Contender::Mptcp { congestion, first } => {
                let transport = Transport { multipath: true, congestion: congestion.clone() };
                self.kernel(bed, transport, vec![client_address(*first)])
            }
            Contender::Mendpath { .. } => mendpath::start(self, contender, bed, slot),
            Contender::Peer { name, path } => peer::start(self, name, *path, bed, slot),
        }
    }

    /// The adapter of this name.
    fn adapter(&self, name: &str) -> Result<&Adapter, LabError> {
        self.adapters.get(name).ok_or_else(|| LabError::Contender {
            contender: name.to_owned(),
            reason: format!(
                "there is no adapter of this name; there are {}, and --adapter takes a file",
                self.adapters.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
            ),
        })
    }

    /// The kernel needs nothing but an origin.
    fn kernel(&self, bed: &TestBed, transport: Transport, from: Vec<Ipv4Addr>) -> Result<Running, LabError> {
        let origin = Origin::start(&bed.server, SERVER, &transport, Arc::clone(&self.pattern))?;
        let target = Target { addr: origin.addr, transport, from, behind: None };
        Ok(Running { target, origin, programs: Programs::default() })
    }

    /// An origin that a program on the server's side connects to.
    fn origin_behind(&self, bed: &TestBed) -> Result<Origin, LabError> {
        Origin::start(&bed.server, Ipv4Addr::LOCALHOST, &Transport::PLAIN, Arc::clone(&self.pattern))
    }

    /// An origin that is reached through a tunnel by an address of its own.
    fn origin_behind_tunnel(&self, bed: &TestBed) -> Result<Origin, LabError> {
        Origin::start(&bed.server, BEHIND, &Transport::PLAIN, Arc::clone(&self.pattern))
    }

    /// Waits until something listens at `addr` in the client's namespace.
    fn wait_for_listener(
        &self,
        bed: &TestBed,
        processes: &mut [Process],
        addr: SocketAddr,
    ) -> Result<(), LabError> {
        let target = Target { addr, transport: Transport::PLAIN, from: Vec::new(), behind: None };
        let found = clock::poll_until(START, self.cancel, || {
            processes.iter_mut().try_for_each(Process::check)?;
            Ok(Connection::open(&bed.client, &target, 0, Duration::from_secs(1), self.cancel)?
                .ok()
                .map(|_| ()))
        })?;
        match (found, processes.last()) {
            (None, Some(client)) => Err(client.failure(&format!("nothing listens at {addr} after {START}"))),
            _ => Ok(()),
        }
    }
}
