//! Whether the device is still up: the kernel removes the routes of one that is set down, and programs
//! would go around the tunnel from then on, also once it is up again.

use futures_util::StreamExt as _;
use rtnetlink::{
    MulticastGroup, new_multicast_connection,
    packet_core::NetlinkPayload,
    packet_route::{
        RouteNetlinkMessage,
        link::{LinkAttribute, LinkFlags, LinkMessage},
    },
};
use tracing::debug;

use super::NAME;

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
        while let Some((message, _)) = messages.next().await {
            if let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) = message.payload
                && is_ours(&link)
                && !link.header.flags.contains(LinkFlags::Up)
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

fn is_ours(link: &LinkMessage) -> bool {
    link.attributes.iter().any(|attribute| matches!(attribute, LinkAttribute::IfName(name) if name == NAME))
}
