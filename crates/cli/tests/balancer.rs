//! Two servers behind one address: a balancer that hashes addresses breaks second paths and moves,
//! one that reads connection ids (QUIC-LB) does not.

mod support;

use std::net::SocketAddr;

use mendpath::{Endpoint, PathState, QuicLb};
use mendpath_cli::{
    client::{Client, EarlyAnswers, Uplink},
    destination::DestinationPolicy::AllowPrivate,
    invitation::Invitation,
    server::{Drainer, ProxyServer},
    target::Target,
};
use support::{
    balancer::{Balancer, Rule, Table, by_address, by_id, by_id_and_table},
    *,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
};

const IDS: [&[u8]; 2] = [&[0x0a, 1], &[0x0a, 2]];

/// The id, encrypted, in 17 bytes; or in the clear, or in a length that takes four passes.
const FORMS: [(usize, Option<[u8; 16]>); 3] = [(14, Some([7; 16])), (6, None), (9, Some([8; 16]))];

fn config(server: usize, (nonce, key): (usize, Option<[u8; 16]>)) -> QuicLb {
    let plain = QuicLb::new(1, IDS[server], nonce).unwrap();
    key.map_or(plain.clone(), |key| plain.with_key(&key))
}

/// Two servers with the same keys.
struct Pair {
    endpoints: Vec<Endpoint>,
    drainers: Vec<Drainer>,
    invitation: Invitation,
    _running: JoinSet<()>,
    _states: [tempfile::TempDir; 2],
}

impl Pair {
    fn start(form: Option<(usize, Option<[u8; 16]>)>) -> Self {
        let states = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let (mut endpoints, mut drainers) = (Vec::new(), Vec::new());
        let (mut running, mut invitation) = (JoinSet::new(), None);
        for (n, state) in states.iter().enumerate() {
            if n > 0 {
                for file in ["server-key.pem", "token-secret", "reset-key"] {
                    std::fs::copy(states[0].path().join(file), state.path().join(file)).unwrap();
                }
            }
            let mut options = server_options(state.path(), AllowPrivate);
            options.quic_lb = form.map(|form| config(n, form));
            let server = ProxyServer::bind(&options).unwrap();
            endpoints.push(server.endpoint().clone());
            drainers.push(server.drainer());
            invitation = Some(server.invitation().clone());
            running.spawn(server.run());
        }
        let invitation = invitation.expect("there are two");
        Self { endpoints, drainers, invitation, _running: running, _states: states }
    }

    async fn behind(&self, rule: Rule) -> Balancer {
        let servers = self.endpoints.iter().map(|endpoint| endpoint.local_addrs()[0]).collect();
        Balancer::start(servers, rule).await
    }

    /// A client of whatever is at this address, over these paths.
    async fn client(&self, at: SocketAddr, paths: &[&str]) -> (SocketAddr, Uplink) {
        let mut options = client_options(self.invitation.clone());
        // Programs that were told early would hear of a server's death by a reset.
        options.early_answers = EarlyAnswers::Never;
        options.dial.invitation.server = Target::from_addr(at);
        options.dial.paths = paths.iter().map(|path| path.parse().unwrap()).collect();
        let client = Client::start(options).await.unwrap();
        let (proxy, uplink) = (client.addresses.socks5.unwrap(), client.uplink.clone());
        tokio::spawn(client.run());
        (proxy, uplink)
    }

    fn accepted(&self) -> [u64; 2] {
        [0, 1].map(|n| self.endpoints[n].stats().accepted)
    }
}

async fn request(proxy: SocketAddr, echo: SocketAddr) {
    let (mut tcp, code, _) = socks5(proxy, 1, echo).await;
    assert_eq!(code, 0);
    let bytes = pattern(300_000);
    assert!(converse(&mut tcp, &bytes).await.strip_suffix(b"goodbye").is_some_and(|echo| echo == bytes));
}

/// Looks again and again until it is so.
async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::task::yield_now().await;
    }
}

fn active_paths(uplink: &Uplink) -> usize {
    let Some(session) = uplink.now() else { return 0 };
    session.connection.path_stats().iter().filter(|path| path.state == PathState::Active).count()
}

/// From 127.0.0.1 a balancer that hashes comes to the second server, and from 127.0.0.2 to the
/// first.
const PATHS: [&str; 2] = ["127.0.0.1", "127.0.0.2"];

#[tokio::test(flavor = "multi_thread")]
async fn ids_bring_the_second_path_to_the_server_of_the_first() {
    within(async {
        for form in FORMS {
            let pair = Pair::start(Some(form));
            // Any server's configuration will do: they differ in their ids alone.
            let balancer = pair.behind(by_id(config(0, form), IDS.map(<[u8]>::to_vec).into())).await;
            let (proxy, uplink) = pair.client(balancer.address, &PATHS).await;
            until(|| active_paths(&uplink) == 2).await;
            request(proxy, echo_server().await).await;
            assert_eq!(pair.accepted(), [0, 1], "one server has the whole connection");
            assert_eq!(pair.endpoints[0].stats().dropped, 0, "the other has seen nothing of it");
            assert_eq!(uplink.now().unwrap().reconnects, 0);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hash_of_addresses_brings_the_second_path_elsewhere() {
    within(async {
        let pair = Pair::start(Some(FORMS[0]));
        let balancer = pair.behind(by_address(2)).await;
        let (proxy, uplink) = pair.client(balancer.address, &PATHS).await;
        until(|| pair.endpoints[0].stats().dropped > 0).await;
        assert_eq!(active_paths(&uplink), 1, "the other path does not open");
        // The server that was asked knows that it is not meant: no reset ends the connection.
        assert_eq!(pair.endpoints[0].stats().resets_sent, 0);
        request(proxy, echo_server().await).await;
        assert_eq!(uplink.now().unwrap().reconnects, 0);
    })
    .await;
}

/// A server drains behind a balancer that sends nothing new there; the invitation names the balancer
/// alone.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_downloads_outlive_a_server_that_drains_behind_a_balancer() {
    within(async {
        mendpath_cli::descriptors::raise();
        let (pair, table) = (Pair::start(Some(FORMS[0])), Table::default());
        let ids = IDS.map(<[u8]>::to_vec).into();
        let balancer = pair.behind(by_id_and_table(config(0, FORMS[0]), ids, table.clone())).await;
        let (proxy, uplink) = pair.client(balancer.address, &PATHS).await;
        until(|| active_paths(&uplink) == 2).await;
        let echo = echo_server().await;
        let mut downloads = Vec::new();
        for _ in 0..200 {
            let (mut tcp, code, _) = socks5(proxy, 1, echo).await;
            assert_eq!(code, 0);
            tcp.write_all(b"half ").await.unwrap();
            tcp.read_exact(&mut [0; 5]).await.unwrap();
            downloads.push(tcp);
        }
        assert_eq!(pair.accepted(), [0, 1]);
        table.drains(1);
        let drained = tokio::spawn({
            let drainer = pair.drainers[1].clone();
            drainer.begin(std::time::Duration::from_secs(3_600));
            async move { drainer.done().await }
        });
        while pair.accepted()[0] == 0 || uplink.now().is_none_or(|session| session.reconnects == 0) {
            request(proxy, echo).await;
        }
        request(proxy, echo).await;
        for mut tcp in downloads {
            assert_eq!(converse(&mut tcp, b"and the rest ").await, b"and the rest goodbye");
        }
        let left = drained.await.unwrap();
        assert_eq!((left.clients, left.streams), (0, 0), "the client has left with its last download");
        request(proxy, echo).await;
    })
    .await;
}

/// A server dies behind a balancer, which has noticed. Nobody tells the client.
#[tokio::test(flavor = "multi_thread")]
async fn requests_have_another_server_when_one_dies_behind_a_balancer() {
    within(async {
        let (pair, table) = (Pair::start(Some(FORMS[0])), Table::default());
        let ids = IDS.map(<[u8]>::to_vec).into();
        let balancer = pair.behind(by_id_and_table(config(0, FORMS[0]), ids, table.clone())).await;
        let (proxy, uplink) = pair.client(balancer.address, &PATHS).await;
        let echo = echo_server().await;
        request(proxy, echo).await;
        table.is_dead(1);
        request(proxy, echo).await;
        let session = uplink.now().unwrap();
        assert_eq!((pair.accepted(), session.reconnects), ([1, 1], 1));
    })
    .await;
}

/// A network stands still for a while. It is not the server's fault, and the probe shows it.
#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_stood_still_is_no_reason_to_move() {
    within(async {
        let pair = Pair::start(Some(FORMS[0]));
        let ids: Vec<_> = IDS.map(<[u8]>::to_vec).into();
        let balancer = pair.behind(by_id(config(0, FORMS[0]), ids)).await;
        let nat = Balancer::start(vec![balancer.address], Box::new(|_, _| 0)).await;
        let (proxy, uplink) = pair.client(nat.address, &PATHS[..1]).await;
        let echo = echo_server().await;
        let (mut kept, code, _) = socks5(proxy, 1, echo).await;
        assert_eq!(code, 0);
        nat.stop(true);
        kept.write_all(b"on ").await.unwrap();
        // It is looked for another server, and in vain.
        until(|| uplink.now().is_none()).await;
        nat.stop(false);
        assert_eq!(converse(&mut kept, b"and on ").await, b"on and on goodbye");
        until(|| uplink.now().is_some()).await;
        assert_eq!(uplink.now().unwrap().reconnects, 0, "it has stayed");
    })
    .await;
}

/// The same with servers that share the key of their resets and do not write their ids: each path
/// that comes to the wrong one ends the whole connection.
#[tokio::test(flavor = "multi_thread")]
async fn without_ids_a_hash_ends_connections() {
    within(async {
        let pair = Pair::start(None);
        let balancer = pair.behind(by_address(2)).await;
        let (_, uplink) = pair.client(balancer.address, &PATHS).await;
        until(|| uplink.now().is_some_and(|session| session.reconnects > 0)).await;
        assert!(pair.endpoints[0].stats().resets_sent > 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_bring_a_client_that_has_moved_to_its_server() {
    within(async {
        let echo = echo_server().await;
        for reads in [true, false] {
            let pair = Pair::start(Some(FORMS[0]));
            let rule = match reads {
                true => by_id(config(1, FORMS[0]), IDS.map(<[u8]>::to_vec).into()),
                false => by_address(2),
            };
            let balancer = pair.behind(rule).await;
            // What the client sends comes from 127.0.0.3 at first.
            let nat = Balancer::start(vec![balancer.address], Box::new(|_, _| 0)).await;
            nat.move_to("127.0.0.3".parse().unwrap());
            let (proxy, uplink) = pair.client(nat.address, &PATHS[..1]).await;
            request(proxy, echo).await;
            nat.move_to("127.0.0.4".parse().unwrap());
            if reads {
                request(proxy, echo).await;
                assert_eq!(pair.accepted(), [0, 1]);
                assert_eq!(uplink.now().unwrap().reconnects, 0, "the connection has moved along");
            } else {
                let lost = tokio::spawn(async move { request(proxy, echo).await });
                until(|| pair.endpoints[0].stats().dropped > 0).await;
                lost.abort();
            }
        }
    })
    .await;
}
