//! Whether the device is still up: the kernel removes the routes of one that is set down, and programs
//! would go around the tunnel from then on, also once it is up again.

use futures_util::{StreamExt as _, TryStreamExt as _};
use rtnetlink::{
    Handle, MulticastGroup, new_multicast_connection,
    packet_core::NetlinkPayload,
    packet_route::{
        RouteNetlinkMessage,
        link::{LinkAttribute, LinkFlags, LinkMessage},
    },
};
use tracing::debug;

use super::NAME;
use crate::tun::links::netlink;

/// Ends when somebody sets the device down.
pub(super) async fn set_down() {
    let (connection, _, mut messages) = match new_multicast_connection(&[MulticastGroup::Link]) {
        Ok(listening) => listening,
        Err(error) => {
            debug!(%error, "the kernel does not tell of links");
            return std::future::pending().await;
        }
    };
    let heard = async {
        // It may be so already: nobody listened until now.
        if netlink(is_down).await.unwrap_or(false) {
            return;
        }
        while let Some((message, _)) = messages.next().await {
            if let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) = message.payload
                && is_ours(&link)
                && !is_up(&link)
            {
                return;
            }
        }
        std::future::pending().await
    };
    tokio::select! {
        () = connection => {
            debug!("the kernel tells of links no more");
            std::future::pending().await
        }
        () = heard => {}
    }
}

async fn is_down(handle: &Handle) -> Result<bool, rtnetlink::Error> {
    let mut found = handle.link().get().match_name(NAME.to_owned()).execute();
    Ok(found.try_next().await?.is_some_and(|link| !is_up(&link)))
}

fn is_up(link: &LinkMessage) -> bool {
    link.header.flags.contains(LinkFlags::Up)
}

fn is_ours(link: &LinkMessage) -> bool {
    link.attributes.iter().any(|attribute| matches!(attribute, LinkAttribute::IfName(name) if name == NAME))
}
