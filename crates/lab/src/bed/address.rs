//! Addresses and routes of the two namespaces.

use std::{
    net::Ipv4Addr,
    os::fd::{AsRawFd as _, BorrowedFd},
};

use futures_util::TryStreamExt as _;
use rtnetlink::{
    Handle, LinkUnspec, LinkVeth, RouteMessageBuilder,
    packet_route::{route::RouteType, rule::RuleAction},
};

use super::{BEHIND, SERVER, client_address};
use crate::LabError;

/// Packets that may wait for the emulator to read them: more than a window, so that only emulated
/// queues overflow.
const DEVICE_QUEUE: u32 = 20_000;

/// Gives the client an address on each path. What is sent from a path's address leaves by that
/// path; what is sent from none leaves by the path `first`.
pub(super) fn client(paths: usize, first: usize) -> Result<(), LabError> {
    with_netlink(async |handle| {
        bring_up(handle, "lo", None).await?;
        for path in 0..paths {
            let (name, table) = (format!("path{path}"), 100 + path as u32);
            let address = client_address(path);
            let device = bring_up(handle, &name, Some((address, 24))).await?;
            let priority = if path == first { 1 } else { path as u32 + 2 };
            let route = |table| {
                let route = RouteMessageBuilder::<Ipv4Addr>::new().output_interface(device).table_id(table);
                route.priority(priority).build()
            };
            handle.route().add(route(table)).execute().await?;
            handle.route().add(route(254)).execute().await?; // the main table
            let rule = handle.rule().add().v4().source_prefix(address, 32).table_id(table);
            rule.priority(table).action(RuleAction::ToTable).execute().await?;
        }
        Ok(())
    })
}

/// Gives the server its one address, and the client's addresses each behind its path.
pub(super) fn server(paths: usize) -> Result<(), LabError> {
    with_netlink(async |handle| {
        bring_up(handle, "lo", Some((SERVER, 32))).await?;
        bring_up(handle, "lo", Some((BEHIND, 32))).await?;
        for path in 0..paths {
            let [a, b, c, _] = client_address(path).octets();
            bring_up(handle, &format!("path{path}"), Some((Ipv4Addr::new(a, b, c, 1), 24))).await?;
        }
        Ok(())
    })
}

/// Makes the origin behind a tunnel unreachable for the client, but by a route of its own.
pub(super) fn hide_behind() -> Result<(), LabError> {
    with_netlink(async |handle| {
        let route = RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(BEHIND, 32);
        let route = route.kind(RouteType::Unreachable).priority(1_000).build();
        handle.route().add(route).execute().await
    })
}

/// Joins the calling thread's namespace and `other` by a pair of devices, which are both called
/// `name` and down.
pub(super) fn join(name: &str, other: BorrowedFd<'_>) -> Result<(), LabError> {
    with_netlink(async |handle| {
        let far = format!("{name}-far");
        handle.link().add(LinkVeth::new(name, &far).build()).execute().await?;
        let mut found = handle.link().get().match_name(far).execute();
        let index = found.try_next().await?.map_or(0, |link| link.header.index);
        let moved = LinkUnspec::new_with_index(index).name(name).setns_by_fd(other.as_raw_fd());
        handle.link().change(moved.build()).execute().await
    })
}

/// Sets a device up, with an address if there is one; returns its index.
async fn bring_up(
    handle: &Handle,
    name: &str,
    address: Option<(Ipv4Addr, u8)>,
) -> Result<u32, rtnetlink::Error> {
    let mut found = handle.link().get().match_name(name.to_owned()).execute();
    let index = found.try_next().await?.map_or(0, |link| link.header.index);
    if let Some((address, prefix)) = address {
        handle.address().add(index, address.into(), prefix).execute().await?;
    }
    let mut change = LinkUnspec::new_with_index(index).up();
    if name != "lo" {
        change = change.mtu(1_500).txqueuelen(DEVICE_QUEUE);
    }
    handle.link().change(change.build()).execute().await?;
    Ok(index)
}

/// Runs requests in the calling thread's namespace.
fn with_netlink(requests: impl AsyncFnOnce(&Handle) -> Result<(), rtnetlink::Error>) -> Result<(), LabError> {
    let wrong = || LabError::system("talk to the kernel about addresses");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(wrong())?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection().map_err(wrong())?;
        let connection = tokio::spawn(connection);
        let result = requests(&handle).await.map_err(|error| LabError::Netlink {
            what: "set addresses and routes of the emulated paths".to_owned(),
            reason: error.to_string(),
        });
        connection.abort();
        result
    })
}
