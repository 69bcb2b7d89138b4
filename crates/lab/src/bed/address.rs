//! Addresses and routes of the two namespaces.

use std::{
    net::Ipv4Addr,
    os::fd::{AsRawFd as _, BorrowedFd},
};

use futures_util::TryStreamExt as _;
use rtnetlink::{
    Handle, LinkUnspec, LinkVeth, RouteMessageBuilder,
    packet_route::{
        route::{RouteAttribute, RouteMetric, RouteProtocol, RouteScope, RouteType},
        rule::RuleAction,
    },
};

use super::{BEHIND, SERVER, client_address};
use crate::LabError;

/// Packets that may wait for the emulator to read them: more than a window, so that only emulated
/// queues overflow.
const DEVICE_QUEUE: u32 = 20_000;

/// The main routing table.
const MAIN: u32 = 254;

/// Gives the client an address on each path; `devices` says over which path's device it goes. What is sent from a
/// path's address leaves by that path; what is sent from none leaves by the path `first`.
pub(super) fn client(devices: &[usize], first: usize) -> Result<(), LabError> {
    with_netlink(async |handle| {
        bring_up(handle, "lo", None).await?;
        for (path, device) in devices.iter().enumerate() {
            let (address, table) = (client_address(path), own_table(path));
            let device = bring_up(handle, &device_name(*device), Some((address, 24))).await?;
            for route in client_routes(path, first, device) {
                handle.route().add(route.build()).execute().await?;
            }
            let rule = handle.rule().add().v4().source_prefix(address, 32).table_id(table);
            rule.priority(table).action(RuleAction::ToTable).execute().await?;
        }
        Ok(())
    })
}

/// Gives the server its one address, and the client's addresses each behind its path.
pub(super) fn server(devices: &[usize]) -> Result<(), LabError> {
    with_netlink(async |handle| {
        bring_up(handle, "lo", Some((SERVER, 32))).await?;
        bring_up(handle, "lo", Some((BEHIND, 32))).await?;
        for (path, device) in devices.iter().enumerate() {
            bring_up(handle, &device_name(*device), Some((server_end(path), 24))).await?;
        }
        Ok(())
    })
}

/// Lets TCP of the client's side use this congestion controller over every path; `first` is that of
/// [`client`].
pub(super) fn client_congestion(devices: &[usize], first: usize, congestion: &str) -> Result<(), LabError> {
    with_netlink(async |handle| {
        for (path, device) in devices.iter().enumerate() {
            let device = index_of(handle, &device_name(*device)).await?;
            for route in client_routes(path, first, device) {
                replace(handle, route, congestion).await?;
            }
        }
        Ok(())
    })
}

/// Lets TCP of the server's side use this congestion controller over every path.
pub(super) fn server_congestion(devices: &[usize], congestion: &str) -> Result<(), LabError> {
    with_netlink(async |handle| {
        for (path, device) in devices.iter().enumerate() {
            let [a, b, c, _] = client_address(path).octets();
            let device = index_of(handle, &device_name(*device)).await?;
            // The kernel made it together with the address.
            let route = RouteMessageBuilder::<Ipv4Addr>::new().protocol(RouteProtocol::Kernel);
            let route = route.destination_prefix(Ipv4Addr::new(a, b, c, 0), 24).scope(RouteScope::Link);
            let route = route.output_interface(device).pref_source(server_end(path));
            replace(handle, route, congestion).await?;
        }
        Ok(())
    })
}

fn device_name(path: usize) -> String {
    format!("path{path}")
}

/// The server's address on a path's device, which nothing is sent to.
fn server_end(path: usize) -> Ipv4Addr {
    let [a, b, c, _] = client_address(path).octets();
    Ipv4Addr::new(a, b, c, 1)
}

/// The table for what the client sends from its address on a path.
fn own_table(path: usize) -> u32 {
    100 + path as u32
}

/// The client's routes to everywhere over a path: in the path's own table, and in the main one.
fn client_routes(path: usize, first: usize, device: u32) -> [RouteMessageBuilder<Ipv4Addr>; 2] {
    let priority = if path == first { 1 } else { path as u32 + 2 };
    [own_table(path), MAIN].map(|table| {
        let route = RouteMessageBuilder::<Ipv4Addr>::new().output_interface(device).table_id(table);
        route.priority(priority)
    })
}

/// Puts `route` in the place of the same one without a congestion controller.
async fn replace(
    handle: &Handle,
    mut route: RouteMessageBuilder<Ipv4Addr>,
    congestion: &str,
) -> Result<(), rtnetlink::Error> {
    let metrics = vec![RouteMetric::CcAlgo(congestion.to_owned())];
    route.get_mut().attributes.push(RouteAttribute::Metrics(metrics));
    handle.route().add(route.build()).replace().execute().await
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
        let index = index_of(handle, &far).await?;
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
    let index = index_of(handle, name).await?;
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

/// The index of a device, 0 if there is none of this name.
async fn index_of(handle: &Handle, name: &str) -> Result<u32, rtnetlink::Error> {
    let mut found = handle.link().get().match_name(name.to_owned()).execute();
    let link = found.try_next().await?;
    Ok(link.map_or(0, |link| link.header.index))
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
