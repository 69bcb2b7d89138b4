//! The programs of a contender, and what they and the system say about them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use units::Duration;

use super::mendpath;
use crate::{LabError, bed::TestBed, process::Process};

/// Where a server shows statistics that is the only one of its namespace.
pub(super) const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9_000);

/// Programs that end when this is dropped; the kernel's own contenders have none.
#[derive(Default)]
pub(crate) struct Programs {
    /// The server's first.
    pub(super) processes: Vec<Process>,
    /// Where its ends show statistics, each within its own namespace.
    pub(super) admin: Admin,
}

/// Where mendpath's ends show statistics; others have no such places.
#[derive(Clone, Copy, Default)]
pub(super) struct Admin {
    pub(super) client: Option<SocketAddr>,
    pub(super) server: Option<SocketAddr>,
}

impl Programs {
    /// # Errors
    /// [`LabError::Contender`] if one of them has ended.
    pub(crate) fn check(&mut self) -> Result<(), LabError> {
        self.processes.iter_mut().try_for_each(Process::check)
    }

    /// Their processor time; `None` for the kernel.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        if self.processes.is_empty() {
            return None;
        }
        Some(self.processes.iter().fold(Duration::ZERO, |sum, process| sum + process.cpu()))
    }

    /// The most memory in bytes that each has had so far, the server's first.
    pub(crate) fn peak_memory(&self) -> Vec<u64> {
        self.processes.iter().map(Process::peak_memory).collect()
    }

    /// What `mendpath client` counts, as it tells it; `None` for others.
    pub(crate) fn statistics(&self, bed: &TestBed) -> Option<serde_json::Value> {
        mendpath::admin(&bed.client, self.admin.client?, "/stats")
    }

    /// What `mendpath server` counts, as it tells it; `None` for others.
    pub(crate) fn server_statistics(&self, bed: &TestBed) -> Option<serde_json::Value> {
        mendpath::admin(&bed.server, self.admin.server?, "/stats")
    }
}
