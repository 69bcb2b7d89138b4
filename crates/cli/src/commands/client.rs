//! `mendpath client`.

use std::{net::SocketAddr, time::Duration};

use super::{dial_options, interrupted};
use crate::{
    args::ClientArgs,
    client::{Client, ClientOptions},
    console::say,
    descriptors,
    failure::Failure,
    protocol::CloseCode,
    token::Service,
};

/// Where SOCKS5 is offered when nothing is asked for.
const DEFAULT_SOCKS5: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1080);

pub(super) async fn run(args: ClientArgs) -> Result<(), Failure> {
    descriptors::raise();
    let mut dial = dial_options(&args.dial, Service::Proxy)?;
    dial.idle_timeout = Duration::from_secs(args.give_up);
    let nothing = args.socks5.is_none() && args.http.is_none() && args.forwards.is_empty();
    let options = ClientOptions {
        dial,
        socks5: args.socks5.or(nothing.then_some(DEFAULT_SOCKS5)),
        http: args.http,
        forwards: args.forwards,
        admin: args.admin,
        credentials: args.proxy_auth,
        wait_for_server: args.wait,
    };
    let client = tokio::select! {
        client = Client::start(options) => client?,
        () = interrupted() => return Ok(()),
    };
    let uplink = client.uplink.clone();
    tokio::select! {
        failure = client.run() => Err(failure),
        () = interrupted() => {
            say("stopping");
            if let Some(session) = uplink.now() {
                session.connection.close(CloseCode::Done as u64, b"");
                // The last packet must get out before the process ends.
                crate::backoff::pause(Duration::from_millis(50)).await;
            }
            Ok(())
        }
    }
}
