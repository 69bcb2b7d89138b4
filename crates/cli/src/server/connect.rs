//! Connects a client's stream to another host.

use std::{io, net::SocketAddr, time::Duration};

use mendpath::{RecvStream, SendStream};
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{Instant, timeout},
};
use tracing::debug;

use super::{DNS_PORT, Shared, means::Allowance, session::refuse, shares::Part};
use crate::{
    accounts::{Direction, Metered},
    backoff::pause,
    destination::{Destinations, NotPublic},
    failure::io_reason,
    protocol::{Reply, Status, write_frame},
    socket_options,
    splice::{Patience, splice_tcp},
    status::{Outcome, Protocol, Timed},
    target::{Host, Target},
    task::came_to,
};

/// Addresses of a name that are tried; more are ignored.
const MAX_ADDRESSES: usize = 8;
/// Until the next address is tried beside those that have not answered.
const STAGGER: Duration = Duration::from_millis(250);

/// Serves one proxied TCP connection from request to end.
pub(super) async fn serve(
    target: &Target,
    (mut send, receive): (SendStream, RecvStream),
    shared: &Shared,
    allowance: &Allowance,
) {
    let limit = shared.limits.connect_timeout;
    let live = shared.tally.live();
    let (began, mut timed) = (Instant::now(), Timed::new(live, Protocol::Tcp));
    timed.ends(Outcome::Refused);
    let connected = tokio::select! {
        connected = timeout(limit, connect(target, shared, allowance)) => connected,
        // Whoever has given up makes room for another at once.
        _ = send.stopped() => {
            timed.ends(Outcome::Broken);
            return debug!(%target, "given up before it was there");
        }
    };
    let (tcp, _room) = match connected {
        Ok(Ok(connected)) => connected,
        Ok(Err(reply)) => {
            live.times.connected(began, reply.status);
            return refuse(send, receive, reply).await;
        }
        Err(_) => {
            live.times.connected(began, Status::TimedOut);
            let reply =
                Reply::new(Status::TimedOut, format_args!("{target} did not answer within {limit:?}"));
            return refuse(send, receive, reply).await;
        }
    };
    live.times.connected(began, Status::Ok);
    timed.ends(Outcome::Broken);
    if write_frame(&mut send, &Reply::ok().encode()).await.is_err() {
        return;
    }
    let flow = live.traffic.begin(target);
    let patience = Patience { idle: shared.limits.tcp_idle, left: shared.limits.tcp_left };
    let up = Metered::new(receive, allowance.account().clone(), Direction::Up);
    let down = Metered::new(send, allowance.account().clone(), Direction::Down);
    let summary = splice_tcp(tcp, (up, down), patience, &flow).await;
    timed.ends((&summary.ended).into());
    debug!(%target, ?summary, "proxied connection ended");
}

/// Resolves once, and connects to one of exactly those addresses that are permitted.
async fn connect(
    target: &Target,
    shared: &Shared,
    allowance: &Allowance,
) -> Result<(TcpStream, Part), Reply> {
    let addresses = resolve(target, &shared.destinations, allowance).await?;
    let room = allowance.sockets(1)?;
    // One that never answers must not outlast those that refuse.
    let patience = (shared.limits.connect_timeout / 2).min(Duration::from_secs(4));
    match first_of(addresses, patience, room, || allowance.spare_sockets(1)).await {
        Ok((tcp, _)) if !target.is_resolver() && is_own(&tcp, &shared.destinations) => {
            Err(forbidden(target, NotPublic::ThisMachine))
        }
        Ok((tcp, room)) => {
            socket_options::prepare_host(&tcp);
            Ok((tcp, room))
        }
        Err(error) => {
            let text = format_args!("cannot connect to {target}: {}", io_reason(&error));
            Err(Reply::new(status_of(&error), text))
        }
    }
}

/// Connects to the first of `addresses`, and adds the next one when that fails or hesitates, as long
/// as there is `more` room; whoever is there first is it (RFC 8305 section 5). Each has `patience`.
/// Otherwise why the last that failed did so.
async fn first_of<R: Send + 'static>(
    addresses: Vec<SocketAddr>,
    patience: Duration,
    room: R,
    more: impl Fn() -> Option<R>,
) -> io::Result<(TcpStream, R)> {
    let mut waiting = addresses.into_iter().peekable();
    let mut attempts = JoinSet::new();
    let (mut free, mut last) = (Some(room), io::ErrorKind::NotFound.into());
    loop {
        if waiting.peek().is_some()
            && let Some(room) = free.take().or_else(&more)
            && let Some(address) = waiting.next()
        {
            attempts.spawn(async move {
                let connected = timeout(patience, TcpStream::connect(address)).await;
                (connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())), room)
            });
        }
        if attempts.is_empty() {
            return Err(last);
        }
        let more_wait = waiting.peek().is_some();
        tokio::select! {
            Some(finished) = attempts.join_next() => match came_to(finished) {
                (Ok(tcp), room) => return Ok((tcp, room)),
                (Err(error), room) => (free, last) = (Some(room), error),
            },
            () = pause(STAGGER), if more_wait => {}
        }
    }
}

/// Whether a connection leads back here, to an address that was assigned after the check.
fn is_own(tcp: &TcpStream, destinations: &Destinations) -> bool {
    let ends = tcp.local_addr().and_then(|local| Ok((local.ip(), tcp.peer_addr()?.ip())));
    !destinations.allow_private() && ends.is_ok_and(|(local, peer)| local == peer)
}

/// The permitted addresses of `target`.
///
/// # Errors
/// The answer to the client when there are none.
pub(super) async fn resolve(
    target: &Target,
    destinations: &Destinations,
    allowance: &Allowance,
) -> Result<Vec<SocketAddr>, Reply> {
    if target.is_resolver() {
        return resolver(target, allowance);
    }
    let found = match &target.host {
        Host::Ip(ip) => vec![*ip],
        Host::Name(name) => allowance.lookup(name).await?,
    };
    let addresses =
        found.into_iter().take(MAX_ADDRESSES).map(|ip| SocketAddr::new(ip, target.port)).collect();
    let mut addresses = destinations.permitted(addresses).map_err(|why| forbidden(target, why))?;
    addresses.retain(|address| allowance.account().allows(address.ip()));
    if addresses.is_empty() {
        let text = format_args!("this invitation does not allow connections to {target}");
        return Err(Reply::new(Status::Forbidden, text));
    }
    Ok(addresses)
}

/// The server's own name servers: wherever they are, clients reach them through the names that they
/// ask for anyway.
fn resolver(target: &Target, allowance: &Allowance) -> Result<Vec<SocketAddr>, Reply> {
    if target.port != DNS_PORT {
        return Err(Reply::new(Status::Refused, format_args!("there is nothing but DNS at {}", target.host)));
    }
    let servers = allowance.name_servers();
    if servers.is_empty() {
        return Err(Reply::new(Status::NameUnknown, "the server knows no name server"));
    }
    Ok(servers)
}

fn forbidden(target: &Target, why: NotPublic) -> Reply {
    match why {
        NotPublic::Unchecked => Reply::new(Status::Failed, format_args!("{target} is {why}; try again")),
        NotPublic::Client => Reply::new(Status::Forbidden, format_args!("{target} is {why}")),
        _ => Reply::new(
            Status::Forbidden,
            format_args!("{target} is {why}; the server needs --allow-private for that"),
        ),
    }
}

fn status_of(error: &io::Error) -> Status {
    match error.kind() {
        // A host that breaks off what it has just accepted is there, and wants no connection.
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => Status::Refused,
        io::ErrorKind::NetworkUnreachable => Status::NetworkUnreachable,
        io::ErrorKind::HostUnreachable => Status::HostUnreachable,
        io::ErrorKind::TimedOut => Status::TimedOut,
        io::ErrorKind::NotFound => Status::NameUnknown,
        _ => Status::Failed,
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::{
        accounts::Account,
        destination::DestinationPolicy::{self, *},
        names::Names,
        server::{means::Means, test_shared},
    };

    /// Nothing that a test waits for takes a tenth of it.
    const LONG: Duration = Duration::from_secs(60);

    async fn resolved(target: &str, policy: DestinationPolicy) -> Result<Vec<SocketAddr>, Reply> {
        let shared = test_shared(policy);
        resolve(&target.parse().unwrap(), &shared.destinations, &shared.means.allowance(Account::unlimited()))
            .await
    }

    #[tokio::test]
    async fn names_are_judged_by_their_address() {
        let reply = resolved("localhost:80", PublicOnly).await.unwrap_err();
        assert_eq!(reply.status, Status::Forbidden);
        assert!(
            reply.text.contains("a loopback address; the server needs --allow-private"),
            "{}",
            reply.text
        );
        assert!(!resolved("localhost:80", AllowPrivate).await.unwrap().is_empty());
    }

    /// What is asked for as long as nobody answers takes room from others.
    #[tokio::test]
    async fn who_has_given_up_is_not_connected_for() {
        let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut shared = test_shared(AllowPrivate);
        shared.means = Means::new(1_024, 256, Names::new(&[silent.local_addr().unwrap()]));
        let (_client, (mut send, receive), server) = crate::association::tests::connected().await;
        send.write_all(b"x").await.unwrap();
        let streams = server.accept_bi().await.unwrap();
        let allowance = shared.means.allowance(Account::unlimited());
        let target: Target = "slow.example:80".parse().unwrap();
        let gives_up = async {
            silent.recv(&mut [0; 512]).await.unwrap();
            drop((send, receive));
        };
        tokio::join!(serve(&target, streams, &shared, &allowance), gives_up);
        let times = &shared.tally.live().times;
        assert_eq!(times.count(Protocol::Tcp, Outcome::Broken), 1, "it is not the name that ended it");
    }

    /// As where one of a name's addresses belongs to a machine that is gone: it answers nothing.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn an_address_that_does_not_answer_does_not_keep_the_others_back() {
        let full = tokio::net::TcpSocket::new_v4().unwrap();
        full.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let full = full.listen(0).unwrap();
        let silent = full.local_addr().unwrap();
        // With these its queue is full, and the kernel drops what comes later.
        let _first = TcpStream::connect(silent).await.unwrap();
        let _more = [(); 3].map(|()| {
            let tcp = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            tcp.set_nonblocking(true).unwrap();
            let _ = tcp.connect(&silent.into());
            tcp
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let answers = listener.local_addr().unwrap();
        let connected = first_of(vec![silent, silent, answers], LONG, (), || Some(()));
        let connected = timeout(LONG, connected).await;
        let (tcp, ()) = connected.expect("the third is tried").unwrap();
        assert_eq!(tcp.peer_addr().unwrap(), answers);
    }

    #[tokio::test]
    async fn who_has_no_room_for_another_has_that_of_the_one_before() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let answers = listener.local_addr().unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let (tcp, ()) = first_of(vec![closed, answers], LONG, (), || None).await.unwrap();
        assert_eq!(tcp.peer_addr().unwrap(), answers);
        let refused = first_of(vec![closed, closed], LONG, (), || None).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[tokio::test]
    async fn refusal_has_its_status() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Target::from_addr(listener.local_addr().unwrap());
        drop(listener);
        let shared = test_shared(AllowPrivate);
        let error =
            connect(&target, &shared, &shared.means.allowance(Account::unlimited())).await.unwrap_err();
        assert_eq!(error.status, Status::Refused);
        assert_eq!(status_of(&io::ErrorKind::ConnectionReset.into()), Status::Refused);
    }
}
