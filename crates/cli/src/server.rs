//! `mendpath server`: lets invited clients reach other hosts from here.

mod account_books;
mod advertise;
mod associate;
mod connect;
mod drain;
mod gate;
mod means;
mod metrics;
mod ping;
pub(crate) mod seats;
mod session;
mod shares;
mod statistics;
mod tally;
#[cfg(all(feature = "tunnel", target_os = "linux"))]
mod tunnel;

pub use crate::target::DNS_PORT;
pub use advertise::advertised;
pub(crate) use advertise::place;
pub(crate) use drain::Drain;
pub use drain::Drainer;
pub use gate::{Admitted, Gate, HELLO_TIMEOUT};
pub use seats::Seat;
pub(crate) use statistics::Statistics;
pub(crate) use tally::Tally;
#[cfg(all(feature = "tunnel", target_os = "linux"))]
pub use tunnel::Pool;
#[cfg(all(feature = "tunnel", target_os = "linux"))]
pub(crate) use tunnel::{Machine, Tunnels};

#[cfg(all(feature = "tunnel", target_os = "linux"))]
use std::sync::OnceLock;
use std::{
    net::{SocketAddr, UdpSocket},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use mendpath::{AddressValidation, Admission, Endpoint, EndpointBuilder, QuicLb, ServerConfig};

use self::means::Means;
use crate::{
    accounts::{AccountId, Accounts, Store},
    descriptors,
    destination::{DestinationPolicy, Destinations},
    failure::{Failure, io_reason, listen_advice},
    identity::Identity,
    invitation::{Invitation, MAX_HOSTS},
    names::Names,
    protocol::ALPN,
    status::Live,
    target::Target,
    token::Service,
    transport::{Choice, LONGEST_GIVE_UP},
};

/// How a server behaves.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The UDP address to listen on.
    pub listen: SocketAddr,
    /// Threads with a socket of their own each, on that address; without, it runs where it is made.
    pub workers: Option<usize>,
    /// Host, or host and port, for the invitation; guessed when there is none. Those after the
    /// first are other servers with the same keys.
    pub advertise: Vec<Advertise>,
    /// Where the identity lives.
    pub state: PathBuf,
    /// Where clients may connect to.
    pub policy: DestinationPolicy,
    /// Name servers to ask; the system's when empty.
    pub dns: Vec<SocketAddr>,
    /// What clients may use up.
    pub limits: Limits,
    /// Whether statistics name the hosts that clients connect to.
    pub show_names: bool,
    /// How the server sends.
    pub transport: Choice,
    /// What balancers read in connection ids.
    pub quic_lb: Option<QuicLb>,
}

/// What the invitation says about where the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advertise {
    /// This host, with the port listened on.
    Host(crate::target::Host),
    /// This host and port.
    Target(Target),
}

/// What clients may use up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Clients at a time.
    pub clients: usize,
    /// Proxied connections and associations per client at a time.
    pub streams: usize,
    /// For a connection to another host to be made.
    pub connect_timeout: Duration,
    /// Without traffic, until a proxied connection is closed.
    pub tcp_idle: Duration,
    /// Without traffic, for a host to take what a program left that has ended its direction.
    pub tcp_left: Duration,
    /// Without traffic, until an association is closed.
    pub udp_idle: Duration,
    /// Without a sign of life, until a client is forgotten, unless it gives up earlier itself.
    pub client_idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 256,
            streams: 1_024,
            connect_timeout: Duration::from_secs(10),
            tcp_idle: Duration::from_secs(3_600),
            tcp_left: Duration::from_secs(60),
            udp_idle: Duration::from_secs(120),
            client_idle: Duration::from_secs(LONGEST_GIVE_UP),
        }
    }
}

/// What every session needs.
struct Shared {
    gate: Gate,
    destinations: Destinations,
    means: Arc<Means>,
    limits: Limits,
    /// Of the next client; the limits have those of the first.
    streams: AtomicUsize,
    tally: Arc<Tally>,
    drain: Arc<Drain>,
    /// Balancers read our connection ids.
    balanced: bool,
    /// Tunnels of packets, where they are offered.
    #[cfg(all(feature = "tunnel", target_os = "linux"))]
    tunnels: OnceLock<Arc<Tunnels>>,
}

/// A server that listens.
pub struct ProxyServer {
    endpoint: Endpoint,
    config: ServerConfig,
    invitation: Invitation,
    shared: Arc<Shared>,
    accounts: Arc<Accounts>,
}

/// What may change while a server runs.
pub struct ServerSettings {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    config: ServerConfig,
}

impl ServerSettings {
    /// Where clients may connect to, from now on.
    pub fn set_policy(&self, policy: DestinationPolicy) {
        self.shared.destinations.set_policy(policy);
    }

    /// Name servers to ask from now on; the system's when empty.
    pub fn set_dns(&self, dns: &[SocketAddr]) {
        self.shared.means.set_names(Names::new(dns));
    }

    /// Whether statistics name the hosts that clients connect to, from now on.
    pub fn show_names(&self, names: bool) {
        self.shared.tally.live().traffic.set_names(names);
    }

    /// How many clients may be here at a time, how many proxied connections each that comes from
    /// now on may have, and how the server sends to those.
    pub fn set_limits(&self, clients: usize, streams: usize, transport: &Choice) {
        self.shared.gate.set_seats(clients);
        self.shared.streams.store(streams, Relaxed);
        let transport = transport.config(self.shared.limits.client_idle, streams as u64 + 1);
        let config = sized(self.config.clone().transport(transport), clients);
        self.endpoint.set_server_config(Some(config));
    }
}

impl ProxyServer {
    /// Loads or makes the identity and listens.
    ///
    /// # Errors
    /// When the state cannot be used or the address not listened on.
    pub fn bind(options: &ServerOptions) -> Result<Self, Failure> {
        Self::bind_on(options, Vec::new())
    }

    /// The same on these sockets, which others have bound, if there are any.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_on(options: &ServerOptions, sockets: Vec<UdpSocket>) -> Result<Self, Failure> {
        let identity = Identity::load_or_create(&options.state)?;
        let transport =
            options.transport.config(options.limits.client_idle, options.limits.streams as u64 + 1);
        let builder = match options.quic_lb.clone() {
            Some(config) => Endpoint::builder().quic_lb(config),
            None => Endpoint::builder(),
        };
        let builder = match sockets.is_empty() {
            true => options.workers.into_iter().fold(builder.bind(options.listen), EndpointBuilder::workers),
            false => sockets.into_iter().fold(builder, EndpointBuilder::socket),
        };
        let (endpoint, config) =
            listen_with(builder, options.listen, &identity, transport, options.limits.clients)?;
        let listening = endpoint.local_addrs().first().copied().unwrap_or(options.listen);
        let invitation = invite(&identity, &options.advertise, listening)?;
        let store = Store::open(&options.state)?;
        store.set_place(invitation.hosts())?;
        let owner = AccountId(identity.tokens.invitation_id());
        let accounts = Arc::new(Accounts::open(store, owner)?);
        let drain = Drain::new();
        let gate = Gate::new(identity.tokens, Service::Proxy)
            .with_seats(options.limits.clients)
            .with_accounts(accounts.clone())
            .with_drain(drain.clone());
        let destinations = Destinations::new(options.policy);
        let names = Names::new(&options.dns);
        let means = Means::new(descriptors::limit(), options.limits.clients, names);
        let limits = options.limits;
        let balanced = options.quic_lb.is_some();
        let tally = Tally::new(Arc::new(Live::new(options.show_names)));
        let streams = limits.streams.into();
        let shared = Arc::new(Shared {
            gate,
            destinations,
            means,
            limits,
            streams,
            tally,
            drain,
            balanced,
            #[cfg(all(feature = "tunnel", target_os = "linux"))]
            tunnels: OnceLock::new(),
        });
        Ok(Self { endpoint, config, invitation, shared, accounts })
    }

    /// The line that lets a client in.
    pub fn invitation(&self) -> &Invitation {
        &self.invitation
    }

    /// A handle to close the server with.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// What its clients' connections have sent and received, and how strangers were dealt with.
    pub(crate) fn statistics(&self) -> Arc<Statistics> {
        let (tally, endpoint) = (self.shared.tally.clone(), self.endpoint.clone());
        let (accounts, drain) = (Some(self.accounts.clone()), self.shared.drain.clone());
        let statistics = Statistics::new(tally, endpoint, accounts, drain);
        #[cfg(all(feature = "tunnel", target_os = "linux"))]
        if let Some(tunnels) = self.shared.tunnels.get().cloned() {
            let _ = statistics.tunnels.set(Box::new(move || tunnels.row()));
        }
        statistics
    }

    /// Ends it in good order.
    pub fn drainer(&self) -> Drainer {
        Drainer::new(self.shared.drain.clone(), self.shared.tally.clone())
    }

    /// What may change while it runs.
    pub fn settings(&self) -> ServerSettings {
        ServerSettings {
            shared: self.shared.clone(),
            endpoint: self.endpoint.clone(),
            config: self.config.clone(),
        }
    }

    /// Its accounts, to be closed after it.
    pub fn accounts(&self) -> Arc<Accounts> {
        self.accounts.clone()
    }

    /// Offers tunnels of packets, whose addresses are of that pool, before it is asked for
    /// [statistics](Self::statistics).
    #[cfg(all(feature = "tunnel", target_os = "linux"))]
    pub(crate) fn offer(&self, tunnels: Arc<Tunnels>, pool: &Pool) {
        self.shared.destinations.keep_out_of(vec![pool.v4.into(), pool.v6.into()]);
        let _ = self.shared.tunnels.set(tunnels);
    }

    /// Serves until the endpoint is closed.
    pub async fn run(self) {
        while let Some(incoming) = self.endpoint.accept().await {
            // As many of these as the transport keeps connections: the seats, and those who wait to
            // be let in.
            let (shared, runtime) = (self.shared.clone(), incoming.runtime());
            runtime.spawn(async move { session::serve(incoming, &shared).await });
        }
    }
}

/// The invitation to what listens there, and to the others with the same keys.
fn invite(
    identity: &Identity,
    advertise: &[Advertise],
    listening: SocketAddr,
) -> Result<Invitation, Failure> {
    let invitation = Invitation {
        token: identity.tokens.invitation_token(Service::Proxy),
        server: advertised(advertise.first(), listening),
        also: Vec::new(),
        pin: identity.server.pin(),
    };
    let others = advertise.iter().skip(1).map(|other| advertised(Some(other), listening));
    invitation.with(others).map_err(|error| {
        let next = format!("Name at most {MAX_HOSTS} with --advertise");
        Failure::usage("cannot make the invitation", error, next)
    })
}

/// How many may wait at a time to show their token: enough for a crowd that comes at once from one
/// address, which has a quarter.
fn waiting_room(clients: usize) -> usize {
    clients.saturating_mul(2).clamp(64, 512)
}

/// Listens for QUIC with the proxy protocol.
///
/// # Errors
/// When the address cannot be listened on.
pub fn listen(
    addr: SocketAddr,
    identity: &Identity,
    transport: mendpath::TransportConfig,
    clients: usize,
) -> Result<Endpoint, Failure> {
    let builder = Endpoint::builder().bind(addr);
    listen_with(builder, addr, identity, transport, clients).map(|(endpoint, _)| endpoint)
}

/// Room for so many clients, and for those who wait to be let in.
fn sized(config: ServerConfig, clients: usize) -> ServerConfig {
    let waiting = waiting_room(clients);
    config
        .max_half_open(waiting)
        .address_validation(AddressValidation::WhenBusy { half_open: waiting / 4 })
        // Those that leave need room for a moment, too.
        .max_connections(clients.saturating_mul(2).saturating_add(waiting))
}

/// The same with an endpoint that was begun, which binds `addr` or has its sockets.
fn listen_with(
    builder: EndpointBuilder,
    addr: SocketAddr,
    identity: &Identity,
    transport: mendpath::TransportConfig,
    clients: usize,
) -> Result<(Endpoint, ServerConfig), Failure> {
    let tried = format!("cannot listen on UDP {addr}");
    let config = ServerConfig::with_identity(&identity.server)
        .map_err(|error| Failure::new(&tried, error, "Delete the key in the state directory for a new one"))?
        .alpn([ALPN])
        .transport(transport)
        .admission(Admission::default())
        .handshake_timeout(HELLO_TIMEOUT);
    let config = sized(config, clients);
    let endpoint = builder.server(config.clone()).reset_key(identity.reset_key.clone());
    let built = endpoint.build().map(|endpoint| (endpoint, config));
    built.map_err(|error| Failure::new(&tried, io_reason(&error), listen_advice(&error, "--listen")))
}

/// What sessions need, for tests of their parts.
#[cfg(test)]
fn test_shared(policy: DestinationPolicy) -> Shared {
    let gate = Gate::new(crate::token::TokenSecret::from_bytes([0; 32]), Service::Proxy);
    let means = Means::new(1_024, 256, Names::new(&[]));
    let (limits, tally) = (Limits::default(), Tally::new(Arc::new(Live::new(true))));
    Shared {
        gate,
        destinations: Destinations::new(policy),
        means,
        limits,
        streams: limits.streams.into(),
        tally,
        drain: Drain::new(),
        balanced: false,
        #[cfg(all(feature = "tunnel", target_os = "linux"))]
        tunnels: OnceLock::new(),
    }
}
