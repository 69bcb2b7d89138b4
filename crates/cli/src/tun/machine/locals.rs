//! The addresses that this machine has otherwise: packets from there go past our rules. They
//! change as it moves from network to network.

use std::{collections::BTreeSet, io, net::IpAddr};

use rtnetlink::{Handle, packet_route::rule::RuleAttribute};

use super::rules::{Leads, Rule, add_rule, is_ours, remove_rules_that};
use crate::interfaces::addresses::all_addresses;

/// The addresses whose connections know nothing of the tunnel. One that is tentative may be used before
/// anybody looks here again, and has its rule by then.
///
/// # Errors
/// When the system does not say.
pub(super) fn own_addresses() -> io::Result<BTreeSet<IpAddr>> {
    Ok(all_addresses()?.into_iter().map(|local| local.ip).filter(is_own).collect())
}

fn is_own(ip: &IpAddr) -> bool {
    let link_local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    !ip.is_loopback() && !link_local
}

/// The rule of one address.
pub(super) fn rule(ip: IpAddr) -> Rule {
    Rule { from: Some(ip), ..Rule::new(0, Leads::Past, ip.is_ipv4()) }
}

/// Gives each address that came a rule, and takes it from those that went, as far as the kernel lets us.
pub(super) async fn adapt(
    handle: &Handle,
    ruled: &BTreeSet<IpAddr>,
    have: &BTreeSet<IpAddr>,
) -> Result<(), rtnetlink::Error> {
    for ip in ruled - have {
        let source = RuleAttribute::Source(ip);
        remove_rules_that(handle, |rule| is_ours(rule) && rule.attributes.contains(&source)).await?;
    }
    for ip in have - ruled {
        add_rule(handle, rule(ip)).await?;
    }
    Ok(())
}
