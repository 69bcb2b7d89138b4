//! The addresses that this machine has otherwise: packets from there go by the main table. They
//! change as it moves from network to network.

use std::{collections::BTreeSet, convert::Infallible, io, net::IpAddr, time::Duration};

use rtnetlink::{Handle, packet_route::rule::RuleAttribute};
use tokio::time::{MissedTickBehavior, interval};
use tracing::debug;

use super::{MAIN, Machine, Rule, add_rule, are_led, is_ours, remove_rules, remove_rules_that};
use crate::{client::local_addresses, console::say, tun::links::netlink};

/// How often the addresses are looked at, as for paths.
const LOOK: Duration = Duration::from_secs(1);

/// The addresses whose connections know nothing of the tunnel.
///
/// # Errors
/// When the system does not say.
pub(crate) fn own_addresses() -> io::Result<BTreeSet<IpAddr>> {
    Ok(local_addresses()?.into_iter().map(|local| local.ip).filter(is_own).collect())
}

fn is_own(ip: &IpAddr) -> bool {
    let link_local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    !ip.is_loopback() && !link_local
}

/// The rule of one address.
pub(super) fn rule(ip: IpAddr) -> Rule {
    Rule { from: Some(ip), ..Rule::new(0, MAIN, ip.is_ipv4()) }
}

/// Gives each address that comes a rule, and takes it from those that go. Whoever takes the rules
/// away, as systemd-networkd does with those that it does not know, has them put back.
pub(super) async fn follow(machine: &Machine) -> Infallible {
    let mut ruled = machine.plan.locals.clone();
    let led = netlink(are_led).await.unwrap_or([true, false]);
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        let Ok(have) = own_addresses() else { continue };
        // A machine without IPv6 has no rules of it.
        let lost = netlink(are_led).await.is_ok_and(|now| led.iter().zip(now).any(|(led, now)| *led && !now));
        if lost {
            let put_back = netlink(async |handle| {
                remove_rules(handle).await?;
                machine.lead(handle, &have).await
            });
            match put_back.await {
                Ok(()) => {
                    say("something took the tunnel's rules away; they are there again");
                    ruled = have;
                }
                Err(error) => debug!(%error, "the rules are gone"),
            }
        } else if have != ruled {
            let adapted = netlink(async |handle| adapt(handle, &mut ruled, &have).await).await;
            debug!(?have, ?adapted, "this machine's addresses changed");
        }
    }
}

/// Makes of the addresses that have a rule those that should have one, as far as the kernel lets us.
async fn adapt(
    handle: &Handle,
    ruled: &mut BTreeSet<IpAddr>,
    have: &BTreeSet<IpAddr>,
) -> Result<(), rtnetlink::Error> {
    for ip in &*ruled - have {
        let source = RuleAttribute::Source(ip);
        remove_rules_that(handle, |rule| is_ours(rule) && rule.attributes.contains(&source)).await?;
        ruled.remove(&ip);
    }
    for ip in have - &*ruled {
        add_rule(handle, rule(ip)).await?;
        ruled.insert(ip);
    }
    Ok(())
}
