//! Our rules and routes: how they are made, and taken away.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use rtnetlink::{
    Handle, IpVersion, RouteMessageBuilder,
    packet_route::{
        route::{RouteMessage, RouteType},
        rule::{RuleAction, RuleAttribute, RuleMessage, RulePortRange},
    },
};

use super::{
    TABLE,
    laid::{routes_of, rules_that},
};
use crate::{
    server::DNS_PORT,
    tun::{Given, links::unless_there},
};

/// The first of our rules' priorities, how many there are, and the last one.
const PRIORITY: u32 = 28_010;
const RULES: u32 = 6;
pub(super) const LAST: u32 = RULES - 1;

/// What a rule does.
#[derive(Clone, Copy)]
pub(super) enum Leads {
    /// It has this table looked at.
    To(u32),
    /// It leads to the last of our rules.
    Past,
    /// Nothing.
    On,
}

/// A rule in the making.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    pub(super) step: u32,
    pub(super) leads: Leads,
    pub(super) v4: bool,
    pub(super) to: Option<IpAddr>,
    pub(super) from: Option<IpAddr>,
    /// Questions to name servers over this protocol only.
    pub(super) dns: Option<u8>,
    /// Leaves the table's default route out.
    pub(super) not_default: bool,
}

impl Rule {
    pub(super) fn new(step: u32, leads: Leads, v4: bool) -> Self {
        Self { step, leads, v4, to: None, from: None, dns: None, not_default: false }
    }
}

/// Adds a rule, if there is none like it.
pub(super) async fn add_rule(handle: &Handle, rule: Rule) -> Result<(), rtnetlink::Error> {
    // One that has no table looked at names none, where the library would name the main one.
    let request = handle.rule().add().priority(PRIORITY + rule.step).table_id(0);
    let request = match rule.leads {
        Leads::To(table) => request.table_id(table).action(RuleAction::ToTable),
        Leads::Past => request.action(RuleAction::Goto),
        Leads::On => request.action(RuleAction::Nop),
    };
    let more = |attributes: &mut Vec<RuleAttribute>| {
        if matches!(rule.leads, Leads::Past) {
            attributes.push(RuleAttribute::Goto(PRIORITY + LAST));
        }
        if rule.not_default {
            attributes.push(RuleAttribute::SuppressPrefixLen(0));
        }
        if let Some(protocol) = rule.dns {
            attributes.push(RuleAttribute::IpProtocol(protocol.into()));
            attributes
                .push(RuleAttribute::DestinationPortRange(RulePortRange { start: DNS_PORT, end: DNS_PORT }));
        }
    };
    let added = if rule.v4 {
        let mut request = request.v4();
        if let Some(IpAddr::V4(ip)) = rule.to {
            request = request.destination_prefix(ip, 32);
        }
        if let Some(IpAddr::V4(ip)) = rule.from {
            request = request.source_prefix(ip, 32);
        }
        more(&mut request.message_mut().attributes);
        request.execute().await
    } else {
        let mut request = request.v6();
        if let Some(IpAddr::V6(ip)) = rule.to {
            request = request.destination_prefix(ip, 128);
        }
        if let Some(IpAddr::V6(ip)) = rule.from {
            request = request.source_prefix(ip, 128);
        }
        more(&mut request.message_mut().attributes);
        request.execute().await
    };
    unless_there(added)
}

/// A route to the device, from these addresses, or one that throws back to the next rule.
pub(super) async fn add_route(
    handle: &Handle,
    net: IpNet,
    table: u32,
    device: Option<u32>,
    given: Option<Given>,
) -> Result<(), rtnetlink::Error> {
    let message = match net {
        IpNet::V4(net) => {
            let builder = RouteMessageBuilder::<Ipv4Addr>::new();
            let builder = match given {
                Some(given) => builder.pref_source(given.v4),
                None => builder,
            };
            leading(builder.destination_prefix(net.network(), net.prefix_len()), table, device)
        }
        IpNet::V6(net) => {
            let builder = RouteMessageBuilder::<Ipv6Addr>::new();
            let builder = match given {
                Some(given) => builder.pref_source(given.v6),
                None => builder,
            };
            leading(builder.destination_prefix(net.network(), net.prefix_len()), table, device)
        }
    };
    handle.route().add(message).replace().execute().await
}

fn leading<T>(builder: RouteMessageBuilder<T>, table: u32, device: Option<u32>) -> RouteMessage {
    let builder = builder.table_id(table);
    match device {
        Some(device) => builder.output_interface(device).build(),
        None => builder.kind(RouteType::Throw).build(),
    }
}

/// Removes our rules, also those of a killed process, and routes of our table that have no device;
/// the others went with theirs.
///
/// What leads into the tunnel goes first: a packet of a connection that knows nothing of it would be answered
/// there with a reset.
pub(super) async fn remove_rules(handle: &Handle) -> Result<(), rtnetlink::Error> {
    let leads_in = |rule: &RuleMessage| is_ours(rule) && rule.header.action == RuleAction::ToTable;
    remove_rules_that(handle, leads_in).await?;
    remove_rules_that(handle, is_ours).await?;
    remove_throws(handle).await
}

pub(super) fn is_ours(rule: &RuleMessage) -> bool {
    let ours = PRIORITY..PRIORITY + RULES;
    let mut attributes = rule.attributes.iter();
    attributes.any(|attribute| matches!(attribute, RuleAttribute::Priority(p) if ours.contains(p)))
}

/// The last of them goes first.
pub(super) async fn remove_rules_that(
    handle: &Handle,
    fit: impl Fn(&RuleMessage) -> bool,
) -> Result<(), rtnetlink::Error> {
    for version in [IpVersion::V4, IpVersion::V6] {
        for rule in rules_that(handle, version, &fit).await?.into_iter().rev() {
            handle.rule().del(rule).execute().await?;
        }
    }
    Ok(())
}

async fn remove_throws(handle: &Handle) -> Result<(), rtnetlink::Error> {
    for version in [IpVersion::V4, IpVersion::V6] {
        for route in routes_of(handle, version, TABLE).await? {
            if route.header.kind == RouteType::Throw {
                handle.route().del(route).execute().await?;
            }
        }
    }
    Ok(())
}
