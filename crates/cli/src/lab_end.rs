//! What the server's ends of the lab have in common: an endpoint that anybody may connect to, without
//! tokens and proxy protocol, so only for the lab's namespaces.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use mendpath::{Endpoint, ServerConfig};

use crate::{
    admin,
    args::RelayArgs,
    failure::Failure,
    identity::Identity,
    server::{Drain, Statistics, Tally},
    status::Live,
    transport::Choice,
};

/// An endpoint that listens, and the books of its connections, which `admin` shows.
///
/// # Errors
/// When it cannot listen.
pub(crate) async fn listen(
    at: SocketAddr,
    admin: Option<SocketAddr>,
    args: &RelayArgs,
    idle: Duration,
) -> Result<(Endpoint, Arc<Tally>), Failure> {
    let identity = Identity::load_or_create(&args.dir)?;
    let config = server_config(&identity, args, idle)?;
    let endpoint = Endpoint::server(config, at).map_err(|error| failed(&error))?;
    let tally = Tally::new(Arc::new(Live::new(false)));
    if let Some(listener) = admin::bind(admin).await? {
        let statistics = Statistics::new(Arc::clone(&tally), endpoint.clone(), None, Drain::new());
        tokio::spawn(listener.serve(statistics, Statistics::serve));
    }
    Ok((endpoint, tally))
}

/// What a server's end lets connections in with. Those of one configuration share what they learn of their
/// paths, and sessions.
///
/// # Errors
/// When TLS cannot use the key.
pub(crate) fn server_config(
    identity: &Identity,
    args: &RelayArgs,
    idle: Duration,
) -> Result<ServerConfig, Failure> {
    let config = ServerConfig::with_identity(&identity.server).map_err(|error| failed(&error))?;
    Ok(config.transport(choice(args).config(idle, 1)))
}

/// The endpoint takes no more connections, which nobody has asked it for.
pub(crate) fn closed() -> Failure {
    failed(&"the endpoint was closed")
}

pub(crate) fn choice(args: &RelayArgs) -> Choice {
    let &RelayArgs { recovery, congestion, scheduler, repair_symbols, .. } = args;
    Choice { recovery, congestion, scheduler, repair_symbols, qlog: None }
}

fn failed(wrong: &dyn std::fmt::Display) -> Failure {
    Failure::new("cannot serve the lab", wrong, "Report this")
}
