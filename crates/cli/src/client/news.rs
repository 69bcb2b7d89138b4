//! Networks that come back while nobody can be reached.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use tokio::time::Instant;

use super::keeper::LOOK;
use crate::{
    backoff::pause,
    interfaces::{LocalAddress, PathSpec, local_addresses},
};

/// Addresses that paths may have, by interface.
pub(super) type Addresses = BTreeSet<(String, IpAddr)>;

/// Those of this machine now. Where the system does not say, there are none.
pub(super) fn addresses(specs: &[PathSpec]) -> Addresses {
    let have = local_addresses().unwrap_or_default();
    let wanted = have.into_iter().filter(|local| may_be_path(specs, local));
    wanted.map(|local| (local.interface, local.ip)).collect()
}

fn may_be_path(specs: &[PathSpec], local: &LocalAddress) -> bool {
    let is_link_local = matches!(local.ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let leads_out = !local.ip.is_loopback() && !is_link_local;
    let names_it = |spec: &PathSpec| match spec {
        PathSpec::Address(ip) => *ip == local.ip,
        PathSpec::Interface(name) => *name == local.interface,
    };
    local.up && leads_out && (specs.is_empty() || specs.iter().any(names_it))
}

/// Waits, but from `least` on only until there is an address that is not among `had`, or was gone
/// meanwhile; whether there is one.
pub(super) async fn pause_without_news(
    wait: Duration,
    least: Duration,
    mut had: Addresses,
    look: impl Fn() -> Addresses,
) -> bool {
    let began = Instant::now();
    loop {
        let waited = began.elapsed();
        if waited >= wait {
            return false;
        }
        let have = look();
        if waited >= least && !have.is_subset(&had) {
            return true;
        }
        // What is back later is news.
        had.retain(|address| have.contains(address));
        let until = if waited < least { least.min(wait) } else { wait };
        pause(LOOK.min(until - waited)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(interface: &str, ip: &str, up: bool) -> LocalAddress {
        LocalAddress { interface: interface.to_owned(), index: None, ip: ip.parse().unwrap(), up }
    }

    #[test]
    fn what_can_be_no_path_is_no_news() {
        let specs: [PathSpec; 2] = ["wlan0", "192.0.2.9"].map(|spec| spec.parse().unwrap());
        for (address, for_any, for_specs) in [
            (local("wlan0", "192.0.2.7", true), true, true),
            (local("wlan0", "192.0.2.7", false), false, false),
            (local("wlan0", "fe80::7", true), false, false),
            (local("wlan0", "2001:db8::7", true), true, true),
            (local("eth0", "192.0.2.8", true), true, false),
            (local("eth0", "192.0.2.9", true), true, true),
            (local("lo", "127.0.0.1", true), false, false),
        ] {
            let may = [may_be_path(&[], &address), may_be_path(&specs, &address)];
            assert_eq!(may, [for_any, for_specs], "{address:?}");
        }
    }

    #[tokio::test]
    async fn a_wait_ends_when_a_network_comes_back() {
        tokio::time::pause();
        let one = |n: u8| ("eth0".to_owned(), IpAddr::from([192, 0, 2, n]));
        let had = Addresses::from([one(1), one(2)]);
        let seconds = Duration::from_secs;
        for (meanwhile, now, least, ends) in [
            (&had, Addresses::from([one(1), one(3)]), seconds(1), seconds(8)),
            (&had, Addresses::from([one(3)]), seconds(12), seconds(13)),
            (&had, Addresses::from([one(1)]), seconds(1), seconds(31)),
            (&Addresses::from([one(2)]), had.clone(), seconds(1), seconds(8)),
            (&Addresses::from([one(2)]), had.clone(), seconds(12), seconds(13)),
        ] {
            let began = Instant::now();
            let look = || match began.elapsed() {
                time if time < seconds(3) => had.clone(),
                time if time < seconds(7) => meanwhile.clone(),
                _ => now.clone(),
            };
            let news = pause_without_news(seconds(30), least, had.clone(), look).await;
            assert_eq!(news, ends < seconds(30));
            let took = began.elapsed();
            assert!(took <= ends && took + LOOK >= ends, "{took:?}");
        }
    }
}
