//! The machine's own name servers, which a command may come to ask although its `/etc/resolv.conf` names
//! ours: in a new network another file is put in the place of the machine's, and what lay over that for the
//! command goes with it (Linux 3.18).

use std::{
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::names::system_name_servers;

/// How often it is looked whether they are others.
const LOOK: Duration = Duration::from_secs(1);

/// Those that the machine had when it was looked last.
#[derive(Default)]
pub(super) struct Outside(Mutex<Option<(Instant, Vec<IpAddr>)>>);

impl Outside {
    /// Whether this is the address of one.
    pub(super) fn has(&self, ip: IpAddr) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|(looked, _)| looked.elapsed() >= LOOK) {
            *known = Some((Instant::now(), system_name_servers()));
        }
        known.as_ref().is_some_and(|(_, servers)| servers.contains(&ip))
    }
}
