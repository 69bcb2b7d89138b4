//! Connects to a server: finds its address, takes the first path that answers, shows the token. Of
//! several servers it takes the one that answers first, which is the nearest that has time.

use std::{
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use mendpath::{ClientConfig, Connection, ConnectionError, Endpoint, RecvStream, SendStream, TokenStore};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tracing::debug;

use super::{Hosts, lookup::Known, narrow};
use crate::{
    backoff::{Backoff, pause},
    failure::{Failure, io_reason},
    identity::CERTIFICATE_NAME,
    interfaces::{LocalAddress, PathSpec, WantedPath, hindrance, local_addresses, suits, usable_paths},
    invitation::Invitation,
    protocol::{ALPN, Hello, MAX_MESSAGE, Reply, Status, read_frame, write_frame},
    target::Target,
    task::came_to,
    token::Service,
    transport::{Choice, Retry, explain},
};

/// For resolving, the handshake and the hello together, unless told otherwise.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Until the next path is tried beside one that has not answered.
const STAGGER: Duration = Duration::from_millis(500);
/// Servers that are tried at once.
const TOGETHER: usize = 3;
/// Until the next address of a server is tried beside those that have not answered (RFC 8305
/// section 5).
const ADDRESS_STAGGER: Duration = Duration::from_millis(250);
/// For the others, once somebody has answered who is not the server, or not provably.
const OTHERS: Duration = Duration::from_secs(2);
/// Until the next server is tried beside those that have not answered; and one that is avoided.
const HOST_STAGGER: Duration = Duration::from_millis(250);
const LAST_RESORT: Duration = Duration::from_secs(3);
/// For a server that has answered to let us in.
const ENTRY: Duration = Duration::from_secs(2);
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
    /// How to send; of connections that are yet to be made it may change.
    pub transport: Arc<RwLock<Choice>>,
    /// Without an answer on any path, until the connection is given up.
    pub idle_timeout: Duration,
    /// For an attempt to connect.
    pub timeout: Duration,
    /// What the server gave us so that the next connection need not prove this machine's address
    /// again.
    pub tokens: Arc<TokenStore>,
    /// Which of the invitation's servers to leave in peace.
    pub hosts: Arc<Hosts>,
    /// Where those are whose names are looked up no more; [`look_up`](Self::look_up) fills it in.
    pub known: Arc<Known>,
}

impl DialOptions {
    /// Options with the defaults that suit most.
    pub fn new(invitation: Invitation, service: Service) -> Self {
        Self {
            invitation,
            service,
            paths: Vec::new(),
            transport: Arc::default(),
            idle_timeout: Duration::from_secs(30),
            timeout: DIAL_TIMEOUT,
            tokens: Arc::default(),
            hosts: Arc::default(),
            known: Arc::default(),
        }
    }

    fn config(&self) -> ClientConfig {
        let transport = self.transport.read().unwrap_or_else(PoisonError::into_inner).clone();
        // Often enough that no NAT forgets the path, and that a dead one is noticed.
        let keep_alive = (self.idle_timeout / 4).min(Duration::from_secs(10));
        ClientConfig::with_pinned_key(self.invitation.pin)
            .alpn([ALPN])
            .transport(transport.config(self.idle_timeout, PEER_STREAMS))
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
    /// The server as the invitation names it.
    pub host: Target,
    /// Its address.
    pub server: SocketAddr,
    /// The control stream; its end says goodbye.
    pub control: (SendStream, RecvStream),
}

/// Connects over the first path that answers, and shows the token.
///
/// # Errors
/// Why not, and whether trying again may help.
pub async fn dial(options: &DialOptions) -> Result<Dialled, (Failure, Retry)> {
    let mut dialling = pin!(tokio::time::timeout(options.timeout, dial_without_limit(options)));
    let refused = AtomicBool::new(false);
    let explained = async {
        pause(options.timeout / 5).await;
        narrow::explanation(options, &refused).await
    };
    let dialled = tokio::select! {
        biased;
        dialled = &mut dialling => dialled,
        explained = explained => match explained {
            Some(failure) => return Err((failure, Retry::Useful)),
            None => dialling.await,
        }
    };
    dialled.unwrap_or_else(|_| Err(none_answers(&options.invitation, refused.load(Relaxed))))
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

/// What to say once the time is over; `refused` if the only server's host has said that nothing listens.
fn none_answers(invitation: &Invitation, refused: bool) -> (Failure, Retry) {
    if invitation.also.is_empty() {
        let (failure, retry) = explain(&ConnectionError::TimedOut, &invitation.server);
        if !refused {
            return (failure, retry);
        }
        let (tried, wrong, _) = failure.parts();
        let wrong = format!("{wrong}, and its host says that nothing listens on that port");
        return (Failure::new(tried, wrong, "Check the port, and that it runs there"), retry);
    }
    let hosts: Vec<_> = invitation.hosts().map(ToString::to_string).collect();
    let failure = Failure::new(
        format!("cannot use any of the servers {}", hosts.join(", ")),
        "none of them answers",
        "Check this machine's connection, and that `mendpath server` runs on one of them",
    );
    (failure, Retry::Useful)
}

/// Shakes hands over `path` alone, for whoever looks for what is wrong.
///
/// # Errors
/// Why not.
pub(crate) async fn try_path(
    options: &DialOptions,
    host: &Target,
    server: SocketAddr,
    path: WantedPath,
) -> Result<Connection, Failure> {
    let connected = first_answer(options, host, server, vec![path]).await;
    connected.map(|(connection, _)| connection).map_err(|(failure, _)| failure)
}

async fn dial_once(options: &DialOptions) -> Result<Dialled, (Failure, Retry)> {
    if options.invitation.also.is_empty() {
        let host = options.invitation.server.clone();
        let reached = reach(options, &host).await?;
        return enter(options, host, reached).await;
    }
    race(options).await
}

/// Begins with some of the servers at once and the others one after the other; the first that
/// answers and lets us in is it. What answered later hears a goodbye.
async fn race(options: &DialOptions) -> Result<Dialled, (Failure, Retry)> {
    let (order, good) = options.hosts.order(&options.invitation);
    let mut waiting = order.into_iter().enumerate().peekable();
    let mut attempts = JoinSet::new();
    let mut failed: Option<(Failure, Retry)> = None;
    let shared = Arc::new(options.clone());
    loop {
        while waiting.peek().is_some_and(|(nth, _)| *nth < TOGETHER.min(good)) || attempts.is_empty() {
            let Some((_, host)) = waiting.next() else { break };
            attempts.spawn(attempt_host(shared.clone(), host));
        }
        if attempts.is_empty() {
            return Err(failed.expect("an invitation names a server"));
        }
        let next_is_good = waiting.peek().is_some_and(|(nth, _)| *nth < good);
        let hesitation = pause(if next_is_good { HOST_STAGGER } else { LAST_RESORT });
        tokio::select! {
            Some(finished) = attempts.join_next() => {
                let (host, reached) = came_to(finished);
                let entered = match reached {
                    Ok(reached) => enter_soon(options, host.clone(), reached).await,
                    Err(failed) => Err(failed),
                };
                match entered {
                    Ok(dialled) => return Ok(dialled),
                    Err((failure, retry)) => {
                        debug!(%host, %failure, "another server may do");
                        if failed.as_ref().is_none_or(|(_, before)| retry > *before) {
                            failed = Some((failure, retry));
                        }
                    }
                }
            }
            () = hesitation => if let Some((_, host)) = waiting.next() {
                attempts.spawn(attempt_host(shared.clone(), host));
            }
        }
    }
}

async fn attempt_host(
    options: Arc<DialOptions>,
    host: Target,
) -> (Target, Result<Reached, (Failure, Retry)>) {
    let reached = reach(&options, &host).await;
    (host, reached)
}

/// Has finished the handshake.
struct Reached {
    connection: Connection,
    first_path: WantedPath,
    server: SocketAddr,
}

/// Connects to the first address of `host` that answers.
async fn reach(options: &DialOptions, host: &Target) -> Result<Reached, (Failure, Retry)> {
    first_address(options, host, options.addresses(host).await?).await
}

/// The first of the addresses to finish a handshake. A name may have addresses where nobody answers, such
/// as those of a family that leads nowhere from here.
async fn first_address(
    options: &DialOptions,
    host: &Target,
    addresses: Vec<SocketAddr>,
) -> Result<Reached, (Failure, Retry)> {
    let shared = Arc::new((options.clone(), host.clone()));
    let attempt = |server| {
        let shared = shared.clone();
        async move { dial_address(&shared.0, &shared.1, server).await }
    };
    first_to_answer(addresses, ADDRESS_STAGGER, attempt).await
}

/// Begins with the first of the candidates, of which there is one at least, and adds the next one when an
/// attempt fails or hesitates; the first to succeed wins. What would not be better with another ends it;
/// so does what proves nothing, once the others have had some time.
async fn first_to_answer<C, T, A>(
    candidates: Vec<C>,
    stagger: Duration,
    attempt: impl Fn(C) -> A,
) -> Result<T, (Failure, Retry)>
where
    T: Send + 'static,
    A: Future<Output = Result<T, (Failure, Retry)>> + Send + 'static,
{
    let mut waiting = candidates.into_iter();
    let mut attempts = JoinSet::new();
    let (mut last, mut unproven) = (None, None);
    loop {
        if let Some(candidate) = waiting.next() {
            attempts.spawn(attempt(candidate));
        } else if attempts.is_empty() {
            return Err(unproven.map(|(failed, _)| failed).or(last).expect("there was a candidate"));
        }
        let until = unproven.as_ref().map(|(_, until)| *until);
        let too_late = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(finished) = attempts.join_next() => match came_to(finished) {
                Ok(answered) => return Ok(answered),
                Err(failed) if failed.1 == Retry::Unproven => {
                    _ = unproven.get_or_insert_with(|| (failed, Instant::now() + OTHERS));
                }
                Err((failure, retry)) if !retry.is_worth_it(false) => return Err((failure, retry)),
                Err(failed) => last = Some(failed),
            },
            () = pause(stagger), if waiting.len() > 0 => {}
            () = too_late => {
                let (failed, _) = unproven.expect("it has a time");
                return Err(failed);
            }
        }
    }
}

/// Shows the token.
async fn enter(options: &DialOptions, host: Target, reached: Reached) -> Result<Dialled, (Failure, Retry)> {
    let Reached { connection, first_path, server } = reached;
    let control = show_token(options, &connection).await.map_err(|error| explain(&error, &host))?;
    Ok(Dialled { connection, first_path, host, server, control })
}

/// The same where others wait for their turn.
async fn enter_soon(
    options: &DialOptions,
    host: Target,
    reached: Reached,
) -> Result<Dialled, (Failure, Retry)> {
    let late = explain(&ConnectionError::TimedOut, &host);
    let entered = tokio::time::timeout(ENTRY, enter(options, host, reached)).await;
    entered.unwrap_or(Err(late))
}

async fn dial_address(
    options: &DialOptions,
    host: &Target,
    server: SocketAddr,
) -> Result<Reached, (Failure, Retry)> {
    let paths = usable_paths(&options.paths, server).unwrap_or_default();
    if paths.is_empty() {
        return Err((no_path(&options.paths, server), Retry::Useful));
    }
    let (connection, first_path) = first_answer(options, host, server, paths).await?;
    Ok(Reached { connection, first_path, server })
}

/// The first of the paths over which a handshake finishes.
async fn first_answer(
    options: &DialOptions,
    host: &Target,
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
    let attempt = |path| {
        let (endpoint, config, host) = (endpoint.clone(), config.clone(), host.clone());
        async move { attempt(&endpoint, &config, &host, path, server).await }
    };
    first_to_answer(paths, STAGGER, attempt).await
}

async fn attempt(
    endpoint: &Endpoint,
    config: &ClientConfig,
    host: &Target,
    path: WantedPath,
    server: SocketAddr,
) -> Result<(Connection, WantedPath), (Failure, Retry)> {
    debug!(%path, %server, "connecting");
    let connecting =
        endpoint.connect_via(config, &path.options(), server, CERTIFICATE_NAME).map_err(|error| {
            let tried = format!("cannot connect to {server} over {path}");
            let next = "Choose another path with --path, or leave it out";
            (Failure::new(tried, error, next), Retry::Useful)
        })?;
    let connection = connecting.await.map_err(|error| explain(&error, host))?;
    Ok((connection, path))
}

/// Shows the token on a connection of its own; the reply's stream is the control stream.
///
/// # Errors
/// How the server closed the connection instead of letting us in.
pub(crate) async fn show_token(
    options: &DialOptions,
    connection: &Connection,
) -> Result<(SendStream, RecvStream), ConnectionError> {
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

/// What to say when nothing that was asked for leads to the server.
fn no_path(specs: &[PathSpec], server: SocketAddr) -> Failure {
    let have = local_addresses().unwrap_or_default();
    let tried = format!("cannot reach {server}");
    let why: Vec<_> = specs.iter().map(|spec| hindrance(spec, &have, server)).collect();
    let usable: Vec<_> = have.iter().filter(|local| suits(local, server)).map(named).collect();
    if !specs.is_empty() && !usable.is_empty() {
        let wrong = format_args!("{}; there are: {}", why.join(", "), usable.join(", "));
        return Failure::new(tried, wrong, "Name one of these with --path, or leave it out to use all");
    }
    let none = "no interface is up for it".to_owned();
    let why = why.into_iter().chain([none]).collect::<Vec<_>>().join(", ");
    let of_family = have.iter().filter(|local| local.ip.is_ipv4() == server.is_ipv4());
    let list: Vec<_> = of_family.map(named).collect();
    let list = if list.is_empty() { "none of that family".to_owned() } else { list.join(", ") };
    Failure::new(tried, format_args!("{why}; there are: {list}"), "Connect this machine to a network")
}

fn named(local: &LocalAddress) -> String {
    format!("{} ({}{})", local.interface, local.ip, if local.up { "" } else { ", down" })
}

#[cfg(test)]
mod tests {
    use mendpath::KeyPin;

    use super::*;
    use crate::{probe, target::Host, token::TokenSecret};

    fn server(state: &std::path::Path) -> crate::server::ProxyServer {
        crate::server::ProxyServer::bind(&crate::server::ServerOptions {
            workers: None,
            listen: ([127, 0, 0, 1], 0).into(),
            advertise: Vec::new(),
            state: state.to_owned(),
            policy: crate::destination::DestinationPolicy::PublicOnly,
            dns: Vec::new(),
            limits: crate::server::Limits::default(),
            show_names: true,
            transport: Choice::default(),
            quic_lb: None,
        })
        .unwrap()
    }

    /// A handshake may take longer than it takes to suspect the MTU.
    #[tokio::test]
    async fn a_slow_handshake_is_not_cut_off_by_a_look_at_the_mtu() {
        let state = tempfile::tempdir().unwrap();
        let server = server(state.path());
        let mut invitation = server.invitation().clone();
        let relay = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let far = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        far.connect(("127.0.0.1", invitation.server.port)).await.unwrap();
        invitation.server.port = relay.local_addr().unwrap().port();
        let serving = tokio::spawn(server.run());
        // Nothing of the handshake passes before a probe has been answered.
        let relaying = tokio::spawn(async move {
            let (mut there, mut back) = ([0; 2_000], [0; 2_000]);
            let (mut asked, mut answered) = (None, false);
            let mut client = None;
            loop {
                tokio::select! {
                    got = relay.recv_from(&mut there) => {
                        let (length, from) = got.unwrap();
                        let packet = &there[..length];
                        if probe::is_question(packet) {
                            asked = Some(from);
                        } else if answered {
                            client = Some(from);
                        } else {
                            continue;
                        }
                        far.send(packet).await.unwrap();
                    }
                    length = far.recv(&mut back) => {
                        answered = true;
                        let to = client.or(asked).expect("somebody has asked");
                        relay.send_to(&back[..length.unwrap()], to).await.unwrap();
                    }
                }
            }
        });
        let dialled = dial(&DialOptions::new(invitation, Service::Proxy)).await;
        assert_eq!(dialled.map(drop).map_err(|(failure, _)| failure), Ok(()));
        relaying.abort();
        serving.abort();
    }

    #[test]
    fn a_host_that_is_there_is_told_from_one_that_says_nothing() {
        let token = TokenSecret::from_bytes([5; 32]).invitation_token(Service::Proxy);
        let (server, pin) = ("192.0.2.1:4434".parse().unwrap(), KeyPin::of_spki(b"key"));
        let mut invitation = Invitation { token, server, also: Vec::new(), pin };
        let told = |invitation: &Invitation, refused| none_answers(invitation, refused).0.to_string();
        let words =
            "192.0.2.1:4434: it does not answer, and its host says that nothing listens on that port.";
        assert!(told(&invitation, true).contains(words), "{}", told(&invitation, true));
        assert!(told(&invitation, false).contains("it does not answer. Check that it runs there"));
        invitation.also.push("192.0.2.2:4433".parse().unwrap());
        assert!(told(&invitation, true).contains("none of them answers"), "it may be about one of them");
    }

    /// As where a name's first address belongs to a machine that is gone.
    #[tokio::test]
    async fn an_address_that_does_not_answer_does_not_keep_the_others_back() {
        let state = tempfile::tempdir().unwrap();
        let server = server(state.path());
        let invitation = server.invitation().clone();
        let options = DialOptions::new(invitation.clone(), Service::Proxy);
        let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let Host::Ip(ip) = invitation.server.host else { panic!("{invitation:?}") };
        let answers = SocketAddr::new(ip, invitation.server.port);
        let serving = tokio::spawn(server.run());
        let addresses = vec![silent.local_addr().unwrap(), answers];
        let reached = first_address(&options, &invitation.server, addresses);
        let reached = tokio::time::timeout(options.timeout, reached).await.expect("it is tried");
        assert_eq!(reached.map(|reached| reached.server).map_err(|(failure, _)| failure), Ok(answers));
        serving.abort();
    }

    /// As in a tunnel, where names can be looked up no more.
    #[tokio::test]
    async fn all_known_addresses_of_a_name_are_tried_and_nobody_is_asked_for_it() {
        let state = tempfile::tempdir().unwrap();
        let server = server(state.path());
        let mut invitation = server.invitation().clone();
        let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let Host::Ip(ip) = invitation.server.host else { panic!("{invitation:?}") };
        let answers = SocketAddr::new(ip, invitation.server.port);
        // No name server knows it (RFC 6761 section 6.4).
        invitation.server.host = Host::Name("server.invalid".to_owned());
        let host = invitation.server.clone();
        let known = Known::from([(host.clone(), vec![silent.local_addr().unwrap(), answers])]);
        let options = DialOptions { known: Arc::new(known), ..DialOptions::new(invitation, Service::Proxy) };
        let serving = tokio::spawn(server.run());
        let dialled = dial(&options).await;
        let reached = dialled.map(|dialled| (dialled.host, dialled.server));
        assert_eq!(reached.map_err(|(failure, _)| failure), Ok((host, answers)));
        serving.abort();
    }

    /// As the gateway of a network that answers for everybody, beside a path that leads there.
    #[tokio::test(start_paused = true)]
    async fn who_is_not_the_server_does_not_keep_the_others_back() {
        let attempt = |after: Option<u64>| async move {
            match after {
                Some(0) => Err((Failure::new("cannot", "it is another", "Look"), Retry::Unproven)),
                Some(after) => {
                    pause(Duration::from_secs(after)).await;
                    Ok(after)
                }
                None => std::future::pending().await,
            }
        };
        let first = |candidates: Vec<Option<u64>>| first_to_answer(candidates, STAGGER, attempt);
        assert_eq!(first(vec![Some(0), None, Some(1)]).await, Ok(1));
        for silent in [vec![Some(0), None], vec![None, Some(0)], vec![Some(0)], vec![Some(0), Some(5)]] {
            let (failure, retry) = first(silent).await.unwrap_err();
            assert_eq!(retry, Retry::Unproven, "{failure}");
        }
    }

    #[test]
    fn a_missing_interface_is_named_beside_what_exists() {
        let to = |server: &str| {
            no_path(&[PathSpec::Interface("wwan9".into())], server.parse().unwrap()).to_string()
        };
        let text = to("127.0.0.1:4433");
        let why = "there is no interface wwan9 with an address; there are: ";
        assert!(text.contains(why) && text.contains("127.0.0.1"), "{text}");
        assert!(!text.contains('\n'));
    }
}
