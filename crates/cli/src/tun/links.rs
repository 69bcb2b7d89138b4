//! Makes the device, and asks the kernel for its addresses and routes.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
};

use futures_util::TryStreamExt as _;
use rtnetlink::{
    Handle, LinkUnspec, RouteMessageBuilder,
    packet_route::address::{AddressAttribute, AddressFlags},
};
use socket2::{Domain, Socket, Type};
use tracing::debug;

use super::{
    Ends,
    device::NewDevice,
    forbidden,
    handover::Given,
    plan::{DEVICE, DEVICE_V6, MTU, NAME, PREFIX, PREFIX_V6, QUEUE, RAW_QUEUE},
};

/// Connections that may wait for us to accept them.
const BACKLOG: i32 = 4_096;

/// What a device is made for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Everything of a namespace that has nothing else: its loopback and its default routes, too.
    Namespace,
    /// The machine's connections, each ended here; routes come later.
    Connections,
    /// The machine's packets as they are, in segments that the kernel need not have cut; routes
    /// come later.
    Packets,
}

/// Makes the device in the calling thread's namespace, with addresses, and the listeners behind
/// it. Must not be called within a runtime.
///
/// # Errors
/// What the kernel says, and what it was asked for.
pub(super) fn make(purpose: Purpose) -> Result<Ends, (&'static str, io::Error)> {
    let device =
        NewDevice::make(NAME, purpose == Purpose::Packets).map_err(|error| (forbidden::TUN, error))?;
    // A machine may give new devices none.
    let v6 = std::fs::write(format!("/proc/sys/net/ipv6/conf/{NAME}/disable_ipv6"), "0");
    debug!(?v6, "IPv6 of the device");
    let loose = loosen_reverse_paths();
    debug!(?loose, "reverse path filter of the device");
    let set = with_netlink(async |handle| {
        let index = up(handle, NAME, |link| link.mtu(MTU).txqueuelen(QUEUE)).await?;
        let has_v6 = add_addresses(handle, None).await?;
        if purpose == Purpose::Namespace {
            up(handle, "lo", |link| link).await?;
            let route = RouteMessageBuilder::<Ipv4Addr>::new().output_interface(index).build();
            handle.route().add(route).execute().await?;
            if has_v6 {
                let route = RouteMessageBuilder::<Ipv6Addr>::new().output_interface(index).build();
                handle.route().add(route).execute().await?;
            }
        }
        Ok(has_v6)
    });
    let has_v6 = set.map_err(|error| ("set the TUN device's addresses and routes", error))?;
    let listen = |ip: IpAddr| listen(ip).map_err(|error| ("listen behind the TUN device", error));
    let mut listeners = vec![listen(DEVICE.into())?];
    if has_v6 {
        listeners.push(listen(DEVICE_V6.into())?);
    }
    Ok(Ends { device, listeners })
}

/// What a name server of a network that this machine is in answers comes by the device, while that network
/// is elsewhere. Where packets may come in only the way that answers would go, kernels that do not look at
/// their ports for that would drop it.
///
/// # Errors
/// When the system does not allow it.
pub(super) fn loosen_reverse_paths() -> io::Result<()> {
    let file = |of: &str| format!("/proc/sys/net/ipv4/conf/{of}/rp_filter");
    let value = |of| std::fs::read_to_string(file(of)).ok()?.trim().parse::<u8>().ok();
    // The larger of both counts (ip-sysctl): 1 is strict, 2 is loose.
    let is_strict = ["all", NAME].into_iter().filter_map(value).max() == Some(1);
    if is_strict { std::fs::write(file(NAME), "2") } else { Ok(()) }
}

/// Gives the device the addresses that the server has assigned, beside those of the plan, and lets
/// packets come from there: by the default routes of a namespace of its own if it is `whole`.
/// Must not be called within a runtime.
///
/// # Errors
/// What the kernel says, and what it was asked for.
pub(super) fn take_addresses(given: Given, whole: bool) -> Result<(), (&'static str, io::Error)> {
    let Given { v4, v6, mtu } = given;
    let set = with_netlink(async |handle| {
        let index = up(handle, NAME, |link| link.mtu(mtu.into()).txqueuelen(RAW_QUEUE)).await?;
        let has_v6 = add_addresses(handle, Some(given)).await?;
        if whole {
            let route = RouteMessageBuilder::<Ipv4Addr>::new().output_interface(index).pref_source(v4);
            handle.route().add(route.build()).replace().execute().await?;
            if has_v6 {
                let route = RouteMessageBuilder::<Ipv6Addr>::new().output_interface(index).pref_source(v6);
                handle.route().add(route.build()).replace().execute().await?;
            }
        }
        Ok(())
    });
    set.map_err(|error| ("set the addresses that the server has assigned", error))
}

/// Gives the device the addresses that it has not: those of the plan, and those that were assigned.
/// Whether it has IPv6.
///
/// What goes out without an address of its own, by a route of the user's or behind a masquerading rule,
/// gets the device's first one, which has to be the assigned one.
pub(super) async fn add_addresses(handle: &Handle, given: Option<Given>) -> Result<bool, rtnetlink::Error> {
    let index = index(handle, NAME).await?;
    let (plan_v4, plan_v6) = ((IpAddr::from(DEVICE), PREFIX), (IpAddr::from(DEVICE_V6), PREFIX_V6));
    // The kernel has the oldest of IPv4 first, and the newest of IPv6.
    let (v4, v6) = match given {
        Some(Given { v4, v6, .. }) => (vec![(v4.into(), 32), plan_v4], vec![plan_v6, (v6.into(), 128)]),
        None => (vec![plan_v4], vec![plan_v6]),
    };
    add_in_order(handle, index, &v4).await?;
    let added = add_in_order(handle, index, &v6).await;
    Ok(added.inspect_err(|error| debug!(%error, "no IPv6")).is_ok())
}

/// Gives the device these addresses, the first one first: what is there already is taken away if one
/// that goes before it was not.
async fn add_in_order(
    handle: &Handle,
    index: u32,
    addresses: &[(IpAddr, u8)],
) -> Result<(), rtnetlink::Error> {
    let mut anew = false;
    for &(ip, prefix) in addresses {
        let added = add_address(handle, index, ip, prefix).await;
        if is_there(&added) && anew {
            remove_address(handle, index, ip).await?;
            add_address(handle, index, ip, prefix).await?;
        } else {
            anew |= added.is_ok();
            unless_there(added)?;
        }
    }
    Ok(())
}

async fn remove_address(handle: &Handle, index: u32, ip: IpAddr) -> Result<(), rtnetlink::Error> {
    let found = handle.address().get().set_link_index_filter(index).set_address_filter(ip).execute();
    for address in found.try_collect::<Vec<_>>().await? {
        handle.address().del(address).execute().await?;
    }
    Ok(())
}

/// What was added, if it was not there already.
pub(super) fn unless_there(added: Result<(), rtnetlink::Error>) -> Result<(), rtnetlink::Error> {
    if is_there(&added) { Ok(()) } else { added }
}

fn is_there(added: &Result<(), rtnetlink::Error>) -> bool {
    let Err(rtnetlink::Error::NetlinkError(error)) = added else { return false };
    error.to_io().kind() == io::ErrorKind::AlreadyExists
}

/// A listener that hears nothing but the device.
fn listen(ip: IpAddr) -> io::Result<TcpListener> {
    let address = SocketAddr::new(ip, 0);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.bind_device(Some(NAME.as_bytes()))?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Sets a link up, and returns its index.
pub(crate) async fn up(
    handle: &Handle,
    name: &str,
    change: impl FnOnce(LinkBuilder) -> LinkBuilder,
) -> Result<u32, rtnetlink::Error> {
    let index = index(handle, name).await?;
    let link = change(LinkUnspec::new_with_index(index).up());
    handle.link().change(link.build()).execute().await?;
    Ok(index)
}

/// The number of a link.
pub(crate) async fn index(handle: &Handle, name: &str) -> Result<u32, rtnetlink::Error> {
    let mut found = handle.link().get().match_name(name.to_owned()).execute();
    Ok(found.try_next().await?.map_or(0, |link| link.header.index))
}

pub(crate) type LinkBuilder = rtnetlink::LinkMessageBuilder<LinkUnspec>;

pub(crate) async fn add_address(
    handle: &Handle,
    index: u32,
    ip: IpAddr,
    prefix: u8,
) -> Result<(), rtnetlink::Error> {
    let mut request = handle.address().add(index, ip, prefix);
    if ip.is_ipv6() {
        // Nobody else is there who could have it.
        request.message_mut().attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
    }
    request.execute().await
}

/// Runs requests in the calling thread's namespace. Must not be called within a runtime.
pub(crate) fn with_netlink<T>(
    requests: impl AsyncFnOnce(&Handle) -> Result<T, rtnetlink::Error>,
) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(netlink(requests))
}

/// The same within a runtime. The kernel hears of nothing more once this is dropped.
pub(super) async fn netlink<T>(
    requests: impl AsyncFnOnce(&Handle) -> Result<T, rtnetlink::Error>,
) -> io::Result<T> {
    // The kernel lists what was asked for alone; before Linux 4.20 it lists the rest, too.
    let (connection, handle, _) =
        rtnetlink::new_connection_with_strict_check().or_else(|_| rtnetlink::new_connection())?;
    let result = tokio::select! {
        () = connection => return Err(io::ErrorKind::UnexpectedEof.into()),
        result = requests(&handle) => result,
    };
    result.map_err(|error| match error {
        rtnetlink::Error::NetlinkError(message) => message.to_io(),
        other => io::Error::other(other),
    })
}
