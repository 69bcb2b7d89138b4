//! Two servers with the same keys: a client moves from the one that drains, or dies, to the other.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use mendpath_cli::{
    client::{Client, EarlyAnswers, Uplink},
    invitation::Invitation,
    target::Target,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use crate::{
    process::Process,
    support::{
        http::{Program, ok, origin},
        *,
    },
};

/// For one request: far more than any takes, and less than what would mean that it waited for a
/// connection to be given up.
const PATIENCE: Duration = Duration::from_secs(15);

/// What two servers must have in common.
const SHARED: [&str; 3] = ["server-key.pem", "token-secret", "reset-key"];

struct Fleet {
    servers: Vec<(Target, Process)>,
    invitation: Invitation,
    _state: tempfile::TempDir,
}

impl Fleet {
    /// Two servers, the second with a copy of the first one's keys and nothing else.
    fn start(extra: &[&str]) -> Self {
        let state = tempfile::tempdir().unwrap();
        let (first, second) = (state.path().join("first"), state.path().join("second"));
        let (a, invitation) = server(&first, extra);
        std::fs::create_dir(&second).unwrap();
        for file in SHARED {
            std::fs::copy(first.join(file), second.join(file)).unwrap();
        }
        let (b, same) = server(&second, extra);
        assert_eq!((same.token, same.pin), (invitation.token, invitation.pin), "the same identity");
        let hosts = (invitation.server.clone(), same.server.clone());
        let invitation = invitation.with([same.server]).unwrap();
        Self { servers: vec![(hosts.0, a), (hosts.1, b)], invitation, _state: state }
    }

    /// Takes out the server that the client uses.
    fn take(&mut self, uplink: &Uplink) -> (Target, Process) {
        let host = uplink.now().expect("there is a connection").host;
        let at = self.servers.iter().position(|(target, _)| *target == host).unwrap();
        self.servers.remove(at)
    }
}

fn server(state: &Path, extra: &[&str]) -> (Process, Invitation) {
    let args = ["server", "--listen", "127.0.0.1:0", "--allow-private", "--state", state.to_str().unwrap()];
    let server = Process::start(&[&args[..], extra].concat());
    let invitation = server.line_with("mendpath://").parse().unwrap();
    (server, invitation)
}

async fn start(fleet: &Fleet, early: EarlyAnswers) -> (SocketAddr, SocketAddr, Uplink) {
    let mut options = client_options(fleet.invitation.clone());
    options.early_answers = early;
    options.admin = Some(ANY);
    let client = Client::start(options).await.unwrap();
    let (addresses, uplink) = (client.addresses.clone(), client.uplink.clone());
    tokio::spawn(client.run());
    (addresses.socks5.unwrap(), addresses.admin.unwrap(), uplink)
}

/// One short request, which must be granted and answered.
async fn request(proxy: SocketAddr, echo: SocketAddr) {
    let whole = async {
        let (mut tcp, code, _) = socks5(proxy, 1, echo).await;
        assert_eq!(code, 0, "refused");
        assert_eq!(converse(&mut tcp, b"hello ").await, b"hello goodbye");
    };
    tokio::time::timeout(PATIENCE, whole).await.expect("a request waited for too long");
}

/// Says half of `pattern(2 * HALF)`, and the rest once it is let.
const HALF: usize = 20_000;

async fn halting_host() -> (SocketAddr, watch::Sender<bool>) {
    let listener = TcpListener::bind(ANY).await.unwrap();
    let address = listener.local_addr().unwrap();
    let go = watch::Sender::new(false);
    let (waiting, bytes) = (go.subscribe(), Arc::new(pattern(2 * HALF)));
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            let (mut waiting, bytes) = (waiting.clone(), bytes.clone());
            tokio::spawn(async move {
                tcp.write_all(&bytes[..HALF]).await.unwrap();
                if waiting.wait_for(|go| *go).await.is_ok() {
                    tcp.write_all(&bytes[HALF..]).await.unwrap();
                }
            });
        }
    });
    (address, go)
}

async fn begin_download(proxy: SocketAddr, host: SocketAddr) -> TcpStream {
    let (mut tcp, code, _) = socks5(proxy, 1, host).await;
    assert_eq!(code, 0);
    let mut half = vec![0; HALF];
    tcp.read_exact(&mut half).await.unwrap();
    tcp
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_downloads_outlive_the_server_that_drains() {
    within(async {
        mendpath_cli::descriptors::raise();
        let mut fleet = Fleet::start(&["--drain-time", "3600"]);
        let (proxy, admin, uplink) = start(&fleet, EarlyAnswers::Never).await;
        let (host, go) = halting_host().await;
        let echo = echo_server().await;
        let mut downloads = Vec::new();
        for _ in 0..200 {
            downloads.push(begin_download(proxy, host).await);
        }
        let (stop, mut stopped) = watch::channel(false);
        let asking = tokio::spawn(async move {
            let mut asked = 0;
            while !*stopped.borrow_and_update() {
                request(proxy, echo).await;
                asked += 1;
            }
            asked
        });

        let (drained, server) = fleet.take(&uplink);
        kill(Pid::from_raw(server.id() as i32), Signal::SIGTERM).unwrap();
        let told = server.line_with("draining");
        assert!(told.contains("1 client told to go elsewhere"), "{told}");
        let mut session = uplink.now();
        while session.as_ref().is_none_or(|session| session.host == drained) {
            request(proxy, echo).await;
            session = uplink.now();
        }
        let mut tcp = TcpStream::connect(admin).await.unwrap();
        let get = format!("GET /stats HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
        tcp.write_all(get.as_bytes()).await.unwrap();
        let mut stats = String::new();
        tcp.read_to_string(&mut stats).await.unwrap();
        assert!(stats.contains(&fleet.servers[0].0.to_string()), "the server in use: {stats}");

        go.send_replace(true);
        let whole = pattern(2 * HALF);
        let mut reading = JoinSet::new();
        for mut download in downloads {
            let rest = whole[HALF..].to_vec();
            reading.spawn(async move {
                let mut heard = Vec::new();
                download.read_to_end(&mut heard).await.unwrap();
                assert!(heard == rest, "{} bytes came", heard.len());
            });
        }
        reading.join_all().await;
        assert!(!server.line_with("stopping").contains("cuts"), "the client leaves with its last download");
        assert_eq!(server.wait(), Some(0));
        request(proxy, echo).await;
        stop.send_replace(true);
        let asked = asking.await.unwrap();
        println!("{asked} requests meanwhile, none failed");
        assert!(asked > 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_killed_and_the_next_request_has_the_other() {
    within(async {
        let mut fleet = Fleet::start(&[]);
        let (proxy, _, uplink) = start(&fleet, EarlyAnswers::Never).await;
        let echo = echo_server().await;
        request(proxy, echo).await;
        let (dead, server) = fleet.take(&uplink);
        server.kill();
        // The first of these finds out; it is made once more, unseen.
        let mut asked = JoinSet::new();
        for _ in 0..20 {
            asked.spawn(request(proxy, echo));
        }
        asked.join_all().await;
        let session = uplink.now().unwrap();
        assert!(session.host != dead && session.reconnects == 1);
    })
    .await;
}

/// A browser keeps connections to origin servers for its next requests: they hold up no server that drains.
#[tokio::test(flavor = "multi_thread")]
async fn kept_connections_of_the_http_proxy_move_on() {
    within(async {
        // Less than idle connections are kept for: one that stays is cut.
        let mut fleet = Fleet::start(&["--drain-time", "20"]);
        let client = Client::start(client_options(fleet.invitation.clone())).await.unwrap();
        let (proxy, uplink) = (client.addresses.http.unwrap(), client.uplink.clone());
        tokio::spawn(client.run());
        let origin = origin(|_| ok("hello")).await;
        let ask = format!("GET http://{}/ HTTP/1.1\r\n\r\n", origin.address);
        let (mut one, mut other) = (Program::new(proxy).await, Program::new(proxy).await);
        assert_eq!(one.ask(&ask).await.1, "hello");
        assert_eq!(other.ask(&ask).await.1, "hello");
        assert_eq!(one.ask(&ask).await.1, "hello");
        assert_eq!(origin.connections(), [2, 1], "they are kept");
        let (drained, server) = fleet.take(&uplink);
        kill(Pid::from_raw(server.id() as i32), Signal::SIGTERM).unwrap();
        server.line_with("draining");
        while uplink.session().await.unwrap().host == drained {
            tokio::task::yield_now().await;
        }
        // The other one says nothing more.
        assert_eq!(one.ask(&ask).await.1, "hello");
        assert_eq!(origin.connections(), [2, 1, 1], "by the other server");
        assert!(!server.line_with("stopping").contains("cuts"));
        assert_eq!(server.wait(), Some(0));
    })
    .await;
}
