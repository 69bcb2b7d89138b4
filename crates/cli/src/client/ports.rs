//! The ports on this machine that a client offers: bound before it connects, and all but the statistics served
//! once it has.

use std::{net::SocketAddr, sync::Arc};

use tokio::task::JoinSet;

use super::{ClientOptions, Shared, admin::Statistics, forward, http, socks5};
use crate::{admin, console::say, failure::Failure, listener::Listener, target::Target};

/// Where a client listens.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// The SOCKS5 proxy.
    pub socks5: Option<SocketAddr>,
    /// The HTTP proxy.
    pub http: Option<SocketAddr>,
    /// The forwarded ports, in the order given.
    pub forwards: Vec<SocketAddr>,
    /// The statistics.
    pub admin: Option<SocketAddr>,
}

/// Ports that are bound, and where the forwarded ones lead to.
pub(super) struct Ports {
    socks5: Option<Listener>,
    http: Option<Listener>,
    forwards: Vec<(Listener, Arc<Target>)>,
    admin: Option<Listener>,
}

impl Ports {
    /// Binds all that are asked for: busy ones show before anybody waits for the server.
    pub(super) async fn bind(options: &ClientOptions) -> Result<Self, Failure> {
        let socks5 = bind_proxy(options.socks5, "SOCKS5", "--socks5", options).await?;
        let http = bind_proxy(options.http, "HTTP", "--http", options).await?;
        let admin = admin::bind(options.admin).await?;
        let mut forwards = Vec::new();
        for forward in &options.forwards {
            forwards.push((forward.bind().await?, Arc::new(forward.target.clone())));
        }
        Ok(Self { socks5, http, forwards, admin })
    }

    /// Answers who asks for the statistics, also before there is a connection, and returns where.
    pub(super) fn serve_statistics(
        &mut self,
        tasks: &mut JoinSet<Failure>,
        statistics: &Arc<Statistics>,
    ) -> Option<SocketAddr> {
        let listener = self.admin.take()?;
        let address = listener.address;
        tasks.spawn(listener.serve(statistics.clone(), Statistics::serve));
        Some(address)
    }

    /// Serves whoever comes, and says where, and where the statistics are.
    pub(super) fn serve(
        self,
        tasks: &mut JoinSet<Failure>,
        shared: &Arc<Shared>,
        statistics: Option<SocketAddr>,
    ) -> Addresses {
        let mut addresses = Addresses { admin: statistics, ..Addresses::default() };
        if let Some(listener) = self.socks5 {
            addresses.socks5 = Some(listener.address);
            tasks.spawn(listener.serve(shared.clone(), socks5::serve));
        }
        if let Some(listener) = self.http {
            addresses.http = Some(listener.address);
            tasks.spawn(listener.serve(shared.clone(), http::serve));
        }
        for (listener, target) in self.forwards {
            addresses.forwards.push(listener.address);
            say(format_args!("forwarding {} to {target}", listener.address));
            tasks.spawn(listener.serve(shared.clone(), move |tcp, place, shared| {
                forward::serve(tcp, place, shared, target.clone())
            }));
        }
        for (what, address) in [
            ("SOCKS5 proxy", addresses.socks5),
            ("HTTP proxy", addresses.http),
            ("statistics", addresses.admin),
        ] {
            if let Some(address) = address {
                say(format_args!("{what} on {address}"));
            }
        }
        addresses
    }
}

/// Binds a proxy's listener; without a password only on loopback, since otherwise everybody near
/// could use the server.
async fn bind_proxy(
    address: Option<SocketAddr>,
    what: &str,
    option: &str,
    options: &ClientOptions,
) -> Result<Option<Listener>, Failure> {
    let Some(address) = address else { return Ok(None) };
    if !address.ip().is_loopback() && options.credentials.is_none() {
        return Err(Failure::usage(
            format!("refusing to offer {what} on {address}"),
            "everybody who reaches that address could use it",
            format!("Add --proxy-auth-file FILE, or use {option} 127.0.0.1:{}", address.port()),
        ));
    }
    Listener::bind(address, what, option).await.map(Some)
}
