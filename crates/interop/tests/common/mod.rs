//! What the tests with every stack share: a pair of endpoints that trust each other, bytes that
//! show when they are out of place, a relay that cuts, moves and loses, and the scenarios that need
//! nothing but `crate::stack`.
//!
//! The stacks' APIs descend from one another, so that a scenario is written once and compiled
//! against each.

mod lab;
mod pattern;
mod relay;
mod streams;

mod closing;
mod datagrams;
mod early_data;
mod handshake;
mod key_update;
mod lossy;
mod retry;
mod transfer;

use std::{
    future::Future,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

pub(crate) use lab::{Lab, Pair, Role};
pub(crate) use pattern::{check, check_and_tell, write};
pub(crate) use relay::Relay;
pub(crate) use streams::{Streams, echo};

/// Any port of loopback.
pub(crate) const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Fails a test that hangs; far above what any takes.
pub(crate) async fn watchdog<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), work).await.expect("the test hangs")
}

/// Makes two tests of an `async fn(Pair)`: one where we are the client, one where we are the
/// server.
macro_rules! both_roles {
    ($($scenario:ident),+ $(,)?) => { $(
        mod $scenario {
            use crate::common::{Lab, Role, watchdog};

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn we_are_the_client() {
                watchdog(async { super::$scenario(Lab::new().connect(Role::Client).await).await }).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn we_are_the_server() {
                watchdog(async { super::$scenario(Lab::new().connect(Role::Server).await).await }).await;
            }
        }
    )+ };
}
pub(crate) use both_roles;
