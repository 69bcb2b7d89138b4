//! What of ours the kernel has. Others take rules, routes and addresses away, in part or all of them:
//! whoever tidies up, and systemd-networkd, which removes rules that it does not know when it starts.

use std::{collections::BTreeSet, net::IpAddr};

use futures_util::{Stream, TryStreamExt as _};
use rtnetlink::{
    Error, Handle, IpVersion,
    packet_route::{
        AddressFamily,
        address::{AddressHeader, AddressScope},
        route::{RouteAttribute, RouteMessage},
        rule::{RuleAttribute, RuleMessage},
    },
};
use rustix::io::Errno;

use super::{DNS_TABLE, NAME, TABLE, rules::is_ours};
use crate::tun::links::index;

/// Our rules, routes and addresses in the kernel.
pub(super) struct Laid {
    /// The addresses whose packets a rule leads around the tunnel, since they are this machine's own.
    pub(super) own: BTreeSet<IpAddr>,
    pub(super) steady: Steady,
}

/// How many there are of the other rules, of routes, and of addresses of the device, of IPv4 and of IPv6:
/// what does not come and go with the machine's own addresses.
#[derive(Clone, Copy, Default)]
pub(super) struct Steady([usize; 6]);

impl Steady {
    /// Whether some that were there before are gone.
    pub(super) fn lacks(self, before: Self) -> bool {
        self.0.iter().zip(before.0).any(|(now, before)| *now < before)
    }
}

/// Asks the kernel.
///
/// # Errors
/// When it does not say.
pub(super) async fn laid(handle: &Handle) -> Result<Laid, Error> {
    let (mut own, mut steady) = (BTreeSet::new(), [0; 6]);
    let device = index(handle, NAME).await?;
    let addresses = all(handle.address().get().set_link_index_filter(device).execute()).await?;
    for (version, [rules, routes, of_device]) in
        [IpVersion::V4, IpVersion::V6].into_iter().zip(steady.as_chunks_mut().0)
    {
        let family = family(&version);
        let is_global = |header: &AddressHeader| {
            header.index == device && header.family == family && header.scope == AddressScope::Universe
        };
        *of_device = addresses.iter().filter(|address| is_global(&address.header)).count();
        for rule in rules_that(handle, version.clone(), is_ours).await? {
            match rule.attributes.iter().find_map(source) {
                Some(ip) => _ = own.insert(ip),
                None => *rules += 1,
            }
        }
        for table in [TABLE, DNS_TABLE] {
            *routes += routes_of(handle, version.clone(), table).await?.len();
        }
    }
    Ok(Laid { own, steady: Steady(steady) })
}

fn family(version: &IpVersion) -> AddressFamily {
    match version {
        IpVersion::V4 => AddressFamily::Inet,
        IpVersion::V6 => AddressFamily::Inet6,
    }
}

fn source(attribute: &RuleAttribute) -> Option<IpAddr> {
    match attribute {
        RuleAttribute::Source(ip) => Some(*ip),
        _ => None,
    }
}

/// The rules that are like this.
///
/// # Errors
/// When the kernel does not say.
pub(super) async fn rules_that(
    handle: &Handle,
    version: IpVersion,
    fit: impl Fn(&RuleMessage) -> bool,
) -> Result<Vec<RuleMessage>, Error> {
    let mut rules = all(handle.rule().get(version).execute()).await?;
    rules.retain(fit);
    Ok(rules)
}

/// The routes of a table. Where the kernel can choose (Linux 4.20), it sends no others.
///
/// # Errors
/// When the kernel does not say.
pub(super) async fn routes_of(
    handle: &Handle,
    version: IpVersion,
    table: u32,
) -> Result<Vec<RouteMessage>, Error> {
    let of_table = RouteAttribute::Table(table);
    let mut message = RouteMessage::default();
    message.header.address_family = family(&version);
    message.attributes.push(of_table.clone());
    let mut routes = all(handle.route().get(message).execute()).await?;
    routes.retain(|route| route.attributes.contains(&of_table));
    Ok(routes)
}

/// Everything that is listed: nothing of a table that had no route yet, or of IPv6 where there is none.
async fn all<T>(listed: impl Stream<Item = Result<T, Error>>) -> Result<Vec<T>, Error> {
    let collected: Result<Vec<T>, Error> = listed.try_collect().await;
    match collected {
        Err(Error::NetlinkError(error))
            if matches!(
                error.to_io().raw_os_error().map(Errno::from_raw_os_error),
                Some(Errno::NOENT | Errno::AFNOSUPPORT | Errno::OPNOTSUPP)
            ) =>
        {
            Ok(Vec::new())
        }
        collected => collected,
    }
}
