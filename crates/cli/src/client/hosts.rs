//! The servers that an invitation names, and which of them to leave in peace for now.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ring::rand::SecureRandom as _;
use tokio::time::Instant;

use crate::{invitation::Invitation, target::Target};

/// What a client remembers of servers. At most as many as invitations name.
#[derive(Debug, Default)]
pub struct Hosts(Mutex<BTreeMap<Target, Instant>>);

impl Hosts {
    /// For so long the others come first.
    pub(crate) fn avoid(&self, host: &Target, time: Duration) {
        let until = Instant::now() + time;
        let mut avoided = self.avoided();
        let entry = avoided.entry(host.clone()).or_insert(until);
        *entry = until.max(*entry);
    }

    /// The servers of `invitation` in the order in which to try them, and how many of them are not
    /// avoided: those come first, in any order, so that the clients of a fleet spread out.
    pub(crate) fn order(&self, invitation: &Invitation) -> (Vec<Target>, usize) {
        let now = Instant::now();
        let mut avoided = self.avoided();
        avoided.retain(|_, until| *until > now);
        let mut hosts: Vec<(bool, u64, &Target)> =
            invitation.hosts().map(|host| (avoided.contains_key(host), random(), host)).collect();
        hosts.sort();
        let good = hosts.iter().filter(|(avoided, ..)| !avoided).count();
        (hosts.into_iter().map(|(.., host)| host.clone()).collect(), good)
    }

    fn avoided(&self) -> MutexGuard<'_, BTreeMap<Target, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without random numbers they are tried in the order of their names.
    let _ = ring::rand::SystemRandom::new().fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use mendpath::KeyPin;

    use super::*;
    use crate::token::{Service, TokenSecret};

    fn invitation() -> Invitation {
        let token = TokenSecret::from_bytes([5; 32]).invitation_token(Service::Proxy);
        let server = "a.example:1".parse().unwrap();
        let others = ["b.example:1", "c.example:1"].map(|other| other.parse().unwrap());
        Invitation { token, server, also: others.into(), pin: KeyPin::of_spki(b"key") }
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_drain_come_last_and_come_back() {
        let (hosts, invitation) = (Hosts::default(), invitation());
        hosts.avoid(&invitation.server, Duration::from_secs(10));
        hosts.avoid(&invitation.server, Duration::from_secs(5));
        for _ in 0..20 {
            let (order, good) = hosts.order(&invitation);
            assert_eq!((order.len(), good, &order[2]), (3, 2, &invitation.server));
        }
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(hosts.order(&invitation).1, 3);
    }

    #[test]
    fn clients_spread_out() {
        let (hosts, invitation) = (Hosts::default(), invitation());
        let first: BTreeSet<Target> = (0..200).map(|_| hosts.order(&invitation).0.swap_remove(0)).collect();
        assert_eq!(first.len(), 3);
    }
}
