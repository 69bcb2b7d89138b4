//! Connects to a server: finds its address, takes the first path that answers, shows the token.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use mendpath::{ClientConfig, Connection, Endpoint, RecvStream, SendStream, TokenStore};
use tokio::{net::lookup_host, task::JoinSet};
use tracing::debug;

use super::interfaces::{PathSpec, WantedPath, local_addresses, usable_paths};
use crate::{
    backoff::{Backoff, pause},
    failure::{Failure, io_reason},
    identity::CERTIFICATE_NAME,
    invitation::Invitation,
    protocol::{ALPN, Hello, MAX_MESSAGE, Reply, Status, read_frame, write_frame},
    target::{Host, Target},
    token::Service,
    transport::{Choice, Retry, explain},
};

/// For resolving, the handshake and the hello together, unless told otherwise.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Until the next path is tried beside one that has not answered.
const STAGGER: Duration = Duration::from_millis(500);
/// How often a server that has no room at its door is asked, and the first wait between.
const CROWDED_ATTEMPTS: u32 = 4;
const CROWDED_WAIT: Duration = Duration::from_millis(250);
/// Streams that the server may open: none are used.
const PEER_STREAMS: u64 = 1;

/// How to reach a server.
#[derive(Clone, Debug)]
pub struct DialOptions {
    /// Where, with what right, and how to recognise it.
    pub invitation: Invitation,
    /// What is wanted there.
    pub service: Service,
    /// Over which paths; every usable one when empty.
    pub paths: Vec<PathSpec>,
    /// How to send.
    pub transport: Choice,
    /// Without an answer on any path, until the connection is given up.
    pub idle_timeout: Duration,
    /// For an attempt to connect.
    pub timeout: Duration,
    /// What the server gave us so that the next connection need not prove this machine's address
    /// again.
    pub tokens: Arc<TokenStore>,
}

impl DialOptions {
    /// Options with the defaults that suit most.
    pub fn new(invitation: Invitation, service: Service) -> Self {
        Self {
            invitation,
            service,
            paths: Vec::new(),
            transport: Choice::default(),
            idle_timeout: Duration::from_secs(30),
            timeout: DIAL_TIMEOUT,
            tokens: Arc::default(),
        }
    }

    fn config(&self) -> ClientConfig {
        // Often enough that no NAT forgets the path, and that a dead one is noticed.
        let keep_alive = (self.idle_timeout / 4).min(Duration::from_secs(10));
        ClientConfig::with_pinned_key(self.invitation.pin)
            .alpn([ALPN])
            .transport(self.transport.config(self.idle_timeout, PEER_STREAMS))
            .keep_alive(keep_alive)
            .token_store(self.tokens.clone())
    }
}

/// A server that let us in.
pub struct Dialled {
    /// The connection.
    pub connection: Connection,
    /// The path it began with.
    pub first_path: WantedPath,
    /// The server's address.
    pub server: SocketAddr,
    /// The control stream; its end says goodbye.
    pub control: (SendStream, RecvStream),
}

/// Connects over the first path that answers, and shows the token.
///
/// # Errors
/// Why not, and whether trying again may help.
pub async fn dial(options: &DialOptions) -> Result<Dialled, (Failure, Retry)> {
    let dialled = tokio::time::timeout(options.timeout, dial_without_limit(options)).await;
    dialled.unwrap_or_else(|_| Err(explain(&mendpath::ConnectionError::TimedOut, &options.invitation.server)))
}

/// A server whose door is crowded is asked again some times: that passes within round trips, unless
/// somebody wants it not to.
async fn dial_without_limit(options: &DialOptions) -> Result<Dialled, (Failure, Retry)> {
    let mut backoff = Backoff::new(CROWDED_WAIT, CROWDED_WAIT * (1 << CROWDED_ATTEMPTS));
    for _ in 1..CROWDED_ATTEMPTS {
        match dial_once(options).await {
            Err((failure, Retry::Soon)) => debug!(%failure, "asking again"),
            ended => return ended,
        }
        pause(backoff.next_wait()).await;
    }
    dial_once(options).await
}

/// Shakes hands over `path` alone, for whoever looks for what is wrong.
///
/// # Errors
/// Why not.
pub(crate) async fn try_path(
    options: &DialOptions,
    path: WantedPath,
    server: SocketAddr,
) -> Result<Connection, Failure> {
    let connected = first_answer(options, server, vec![path]).await;
    connected.map(|(connection, _)| connection).map_err(|(failure, _)| failure)
}

async fn dial_once(options: &DialOptions) -> Result<Dialled, (Failure, Retry)> {
    let mut last = None;
    for server in resolve(&options.invitation.server).await? {
        match dial_address(options, server).await {
            Ok(dialled) => return Ok(dialled),
            Err((failure, retry)) if !retry.is_worth_it(false) => return Err((failure, retry)),
            Err(failed) => last = Some(failed),
        }
    }
    Err(last.expect("resolve gives at least one address"))
}

/// The addresses of a server, four at most.
///
/// # Errors
/// When its name has none.
pub(crate) async fn resolve(server: &Target) -> Result<Vec<SocketAddr>, (Failure, Retry)> {
    let failed = |wrong: String| {
        let failure = Failure::new(
            format!("cannot find the server {server}"),
            wrong,
            "Check this machine's connection and DNS, and the name in the invitation",
        );
        (failure, Retry::Useful)
    };
    let addresses: Vec<_> = match &server.host {
        Host::Ip(ip) => vec![SocketAddr::new(*ip, server.port)],
        Host::Name(name) => {
            let found = lookup_host((name.as_str(), server.port)).await;
            found.map_err(|error| failed(io_reason(&error)))?.take(4).collect()
        }
    };
    if addresses.is_empty() { Err(failed("its name has no address".into())) } else { Ok(addresses) }
}

async fn dial_address(options: &DialOptions, server: SocketAddr) -> Result<Dialled, (Failure, Retry)> {
    let paths = usable_paths(&options.paths, server).unwrap_or_default();
    if paths.is_empty() {
        return Err((no_path(&options.paths, server), Retry::Useful));
    }
    let (connection, first_path) = first_answer(options, server, paths).await?;
    let control = show_token(options, &connection)
        .await
        .map_err(|error| explain(&error, &options.invitation.server))?;
    Ok(Dialled { connection, first_path, server, control })
}

/// Starts with the first path and adds the next one when it fails or hesitates; the first handshake
/// to finish wins.
async fn first_answer(
    options: &DialOptions,
    server: SocketAddr,
    paths: Vec<WantedPath>,
) -> Result<(Connection, WantedPath), (Failure, Retry)> {
    let config = Arc::new(options.config());
    let any: SocketAddr = if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let endpoint = Endpoint::client(any).map_err(|error| {
        let tried = "cannot open a UDP socket";
        (
            Failure::new(tried, io_reason(&error), "Check the limits of open files and the firewall"),
            Retry::Useful,
        )
    })?;
    let mut waiting = paths.into_iter();
    let mut attempts = JoinSet::new();
    let mut last = None;
    loop {
        if let Some(path) = waiting.next() {
            let (endpoint, config) = (endpoint.clone(), config.clone());
            attempts.spawn(async move { attempt(&endpoint, &config, path, server).await });
        } else if attempts.is_empty() {
            return Err(last.expect("there was a path"));
        }
        let hesitation = pause(if waiting.len() > 0 { STAGGER } else { options.timeout });
        tokio::select! {
            Some(finished) = attempts.join_next() => match finished {
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(AttemptError::Local(failure))) => last = Some((failure, Retry::Useful)),
                Ok(Err(AttemptError::Connection(error))) => {
                    let failed = explain(&error, &options.invitation.server);
                    if !failed.1.is_worth_it(false) {
                        return Err(failed);
                    }
                    last = Some(failed);
                }
                Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
            },
            () = hesitation => {}
        }
    }
}

enum AttemptError {
    Local(Failure),
    Connection(mendpath::ConnectionError),
}

async fn attempt(
    endpoint: &Endpoint,
    config: &ClientConfig,
    path: WantedPath,
    server: SocketAddr,
) -> Result<(Connection, WantedPath), AttemptError> {
    debug!(%path, %server, "connecting");
    let connecting =
        endpoint.connect_via(config, &path.options(), server, CERTIFICATE_NAME).map_err(|error| {
            let tried = format!("cannot connect to {server} over {path}");
            AttemptError::Local(Failure::new(
                tried,
                error,
                "Choose another path with --path, or leave it out",
            ))
        })?;
    match connecting.await {
        Ok(connection) => Ok((connection, path)),
        Err(error) => Err(AttemptError::Connection(error)),
    }
}

/// Shows the token on a connection of its own; the reply's stream is the control stream.
///
/// # Errors
/// How the server closed the connection instead of letting us in.
pub(crate) async fn show_token(
    options: &DialOptions,
    connection: &Connection,
) -> Result<(SendStream, RecvStream), mendpath::ConnectionError> {
    let (mut send, mut receive) = connection.open_bi().await?;
    let hello = Hello { service: options.service, token: options.invitation.token };
    let asked = write_frame(&mut send, &hello.encode()).await;
    let answer = match asked {
        Ok(()) => read_frame(&mut receive, MAX_MESSAGE).await.ok().flatten(),
        Err(_) => None,
    };
    match answer.and_then(|body| Reply::decode(&body).ok()) {
        Some(Reply { status: Status::Ok, .. }) => Ok((send, receive)),
        // The reason is in how the connection was closed.
        _ => Err(connection.closed().await),
    }
}

/// What to say when nothing that was asked for exists.
fn no_path(specs: &[PathSpec], server: SocketAddr) -> Failure {
    let have = local_addresses().unwrap_or_default();
    let list: Vec<_> = have
        .iter()
        .filter(|local| local.ip.is_ipv4() == server.is_ipv4())
        .map(|local| format!("{} ({}{})", local.interface, local.ip, if local.up { "" } else { ", down" }))
        .collect();
    let list = if list.is_empty() { "none of that family".to_owned() } else { list.join(", ") };
    let wanted: Vec<_> = specs.iter().map(ToString::to_string).collect();
    let tried = format!("cannot reach {server}");
    match wanted.as_slice() {
        [] => Failure::new(
            tried,
            format_args!("no interface is up for it; there are: {list}"),
            "Connect this machine to a network",
        ),
        _ => Failure::new(
            tried,
            format_args!("no interface or local address {} is usable; there are: {list}", wanted.join(", ")),
            "Name one of these with --path, or leave it out to use all",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_interface_is_named_beside_what_exists() {
        let failure = no_path(&[PathSpec::Interface("wwan9".into())], "198.51.100.1:4433".parse().unwrap());
        let text = failure.to_string();
        assert!(
            text.contains("local address wwan9 is usable; there are: ") && text.contains("127.0.0.1"),
            "{text}"
        );
        assert!(!text.contains('\n'));
    }
}
