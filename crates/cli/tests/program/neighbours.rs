//! What one invited client can take from another: names, descriptors, memory.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use mendpath::{ClientConfig, Connection, Endpoint, RecvStream, SendStream};
use mendpath_cli::{
    client::{ClientOptions, EarlyAnswers},
    identity::CERTIFICATE_NAME,
    invitation::Invitation,
    protocol::{ALPN, Hello, MAX_MESSAGE, Packet, Reply, Request, Status, read_frame, write_frame},
    target::Target,
    token::Service,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
};

use crate::{process::Process, support::*};

/// A server for clients of this test, with further arguments, after the shell's `preparation`.
fn server(preparation: &str, state: &tempfile::TempDir, further: &[&str]) -> (Process, Invitation) {
    let state = state.path().to_str().unwrap();
    let args = ["server", "--listen", "127.0.0.1:0", "--allow-private", "--state", state];
    let server = Process::start_after(preparation, &[&args, further].concat());
    let invitation = server.line_with("mendpath://").parse().unwrap();
    (server, invitation)
}

/// A name server that never answers for names that contain `slow`, and has 127.0.0.1 for all
/// others.
struct NameServer {
    address: SocketAddr,
    /// The slow names that it was asked for.
    asked: Arc<Mutex<BTreeSet<Vec<u8>>>>,
}

impl NameServer {
    async fn start() -> Self {
        let socket = UdpSocket::bind(ANY).await.unwrap();
        let address = socket.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(BTreeSet::new()));
        let slow = asked.clone();
        tokio::spawn(async move {
            let mut buffer = [0; 512];
            while let Ok((n, from)) = socket.recv_from(&mut buffer).await {
                let (name, answer) = answer(&buffer[..n]);
                if name.windows(4).any(|part| part == b"slow") {
                    slow.lock().unwrap().insert(name);
                } else {
                    let _ = socket.send_to(&answer, from).await;
                }
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

/// The name of a question as it is on the wire, and the answer: 127.0.0.1 (RFC 1035 section 4.1).
fn answer(query: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let end = 12 + query[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
    let (name, question) = (query[12..end].to_vec(), &query[12..end + 4]);
    let is_a = question[question.len() - 4..][..2] == [0, 1];
    let mut answer = query[..2].to_vec();
    // A response with recursion; one question, one answer or none.
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
    answer.extend(question);
    if is_a {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
    }
    (name, answer)
}

/// Asks a SOCKS5 proxy for a connection to a name; the answer is still to come.
async fn ask(proxy: SocketAddr, name: &str, port: u16) -> TcpStream {
    let mut tcp = TcpStream::connect(proxy).await.unwrap();
    let length = u8::try_from(name.len()).unwrap();
    let request = [&[5, 1, 0, 5, 1, 0, 3, length][..], name.as_bytes(), &port.to_be_bytes()].concat();
    tcp.write_all(&request).await.unwrap();
    tcp.read_exact(&mut [0; 2]).await.unwrap();
    tcp
}

async fn code(tcp: &mut TcpStream) -> u8 {
    let mut reply = [0; 10];
    tcp.read_exact(&mut reply).await.unwrap();
    reply[1]
}

fn threads(of: &Process) -> usize {
    std::fs::read_dir(format!("/proc/{}/task", of.id())).unwrap().count()
}

/// A client asks for 900 names whose name server is silent. Another's names are looked up
/// meanwhile, and no thread waits for any.
#[tokio::test(flavor = "multi_thread")]
async fn silent_name_servers_hold_up_only_who_asked() {
    within(async {
        let names = NameServer::start().await;
        let state = tempfile::tempdir().unwrap();
        let (server, invitation) = server("true", &state, &["--dns", &names.address.to_string()]);
        let greedy = client(client_options(invitation.clone())).await.socks5.unwrap();
        let other = client(client_options(invitation)).await.socks5.unwrap();
        let echo = echo_server().await;
        // Whatever threads the first request starts.
        assert_eq!(code(&mut ask(other, "first.test", echo.port()).await).await, 0);
        let before = threads(&server);

        let mut waiting = Vec::new();
        for i in 0..900 {
            waiting.push(ask(greedy, &format!("name{i}.slow.test"), 80).await);
        }
        while names.asked() < 16 {
            tokio::task::yield_now().await;
        }
        let mut tcp = ask(other, "quick.test", echo.port()).await;
        assert_eq!(code(&mut tcp).await, 0);
        assert_eq!(converse(&mut tcp, b"prompt ").await, b"prompt goodbye");
        assert!(threads(&server) <= before, "{} threads instead of {before}", threads(&server));

        // Each is answered in time, or at once where too many wait already; the client goes on.
        for mut tcp in waiting {
            let code = code(&mut tcp).await;
            assert!(matches!(code, 1 | 4), "{code}");
        }
        assert_eq!(code(&mut ask(greedy, "again.test", echo.port()).await).await, 0);
    })
    .await;
}

/// What a server looks up for names of its own machine.
#[tokio::test(flavor = "multi_thread")]
async fn the_hosts_file_comes_before_dns() {
    within(async {
        let names = NameServer::start().await;
        let state = tempfile::tempdir().unwrap();
        let (_server, invitation) = server("true", &state, &["--dns", &names.address.to_string()]);
        let proxy = client(client_options(invitation)).await.socks5.unwrap();
        let echo = echo_server().await;
        for name in ["localhost", "LOCALHOST", "localhost."] {
            assert_eq!(code(&mut ask(proxy, name, echo.port()).await).await, 0, "{name}");
        }
    })
    .await;
}

/// A client opens as many connections as it can get. Another still gets some, and the operator
/// hears of it.
#[tokio::test(flavor = "multi_thread")]
async fn descriptors_are_shared() {
    within(async {
        let state = tempfile::tempdir().unwrap();
        let (server, invitation) = server("ulimit -n 160", &state, &[]);
        // Else programs hear that they are connected before the server had its say.
        let patient =
            || ClientOptions { early_answers: EarlyAnswers::Never, ..client_options(invitation.clone()) };
        let greedy = client(patient()).await.socks5.unwrap();
        let other = client(patient()).await.socks5.unwrap();
        let echo = echo_server().await;
        let (mut open, mut refused) = (Vec::new(), 0);
        for _ in 0..200 {
            match socks5(greedy, 1, echo).await {
                (tcp, 0, _) => open.push(tcp),
                (_, code, _) => {
                    assert_eq!(code, 1);
                    refused += 1;
                }
            }
        }
        assert!((20..100).contains(&open.len()), "{} of {}", open.len(), open.len() + refused);
        for _ in 0..10 {
            let (mut tcp, code, _) = socks5(other, 1, echo).await;
            assert_eq!((code, converse(&mut tcp, b"").await), (0, b"goodbye".to_vec()));
        }
        server.line_with("raise the limit of open files");
        assert_eq!(converse(&mut open.pop().unwrap(), b"still ").await, b"still goodbye");
        drop(open);
        // What was closed is there for the next, as soon as the server has heard of it.
        while socks5(greedy, 1, echo).await.1 != 0 {}
    })
    .await;
}

#[test]
fn the_soft_limit_of_descriptors_is_raised() {
    let state = tempfile::tempdir().unwrap();
    let (server, _) = server("ulimit -S -n 64", &state, &[]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!(words[3], words[4], "{line}");
}

#[test]
fn a_limit_of_descriptors_that_is_low_for_good_is_told() {
    let state = tempfile::tempdir().unwrap();
    let args = ["server", "--listen", "127.0.0.1:0", "--state", state.path().to_str().unwrap()];
    let server = Process::start_after("ulimit -n 64", &args);
    server.line_with("only 64 files may be open at a time");
}

/// Programs take all descriptors of a client's process. It goes on, and serves again once they have
/// let go.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_descriptors_recovers() {
    within(async {
        let state = tempfile::tempdir().unwrap();
        let (_server, invitation) = server("true", &state, &[]);
        let args = ["client", &invitation.to_string(), "--socks5", "127.0.0.1:0"];
        let client = Process::start_after("ulimit -n 40", &args);
        // That it is connected is told before or after that.
        let proxy = client.address_after("SOCKS5 proxy on ");
        let echo = echo_server().await;
        let (mut first, code, _) = socks5(proxy, 1, echo).await;
        assert_eq!(code, 0);
        let mut greedy = Vec::new();
        for _ in 0..100 {
            greedy.push(TcpStream::connect(proxy).await.unwrap());
        }
        assert_eq!(converse(&mut first, b"still ").await, b"still goodbye");
        drop(greedy);
        let (mut again, code, _) = socks5(proxy, 1, echo).await;
        assert_eq!((code, converse(&mut again, b"again ").await), (0, b"again goodbye".to_vec()));
    })
    .await;
}

/// A client that does what it likes.
struct Raw {
    connection: Connection,
    _control: (SendStream, RecvStream),
}

impl Raw {
    async fn connect(invitation: &Invitation) -> Self {
        let server = invitation.server.to_string().parse().unwrap();
        let config = ClientConfig::with_pinned_key(invitation.pin).alpn([ALPN]);
        let endpoint = Endpoint::client(ANY).unwrap();
        let connection = endpoint.connect_with(&config, server, CERTIFICATE_NAME).unwrap().await.unwrap();
        let hello = Hello { service: Service::Proxy, token: invitation.token };
        let control = ask_on(&connection, &hello.encode()).await;
        Self { connection, _control: control }
    }
}

/// Opens a stream, sends a message on it, and waits until it is granted.
async fn ask_on(connection: &Connection, message: &[u8]) -> (SendStream, RecvStream) {
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    write_frame(&mut send, message).await.unwrap();
    let reply = read_frame(&mut receive, MAX_MESSAGE).await.unwrap().unwrap();
    assert_eq!(Reply::decode(&reply).unwrap().status, Status::Ok);
    (send, receive)
}

fn resident_bytes(process: &Process) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1_024
}

/// A client has large packets sent to its associations, and never reads the streams that carry
/// them.
#[tokio::test(flavor = "multi_thread")]
async fn associations_that_are_never_read_hold_little() {
    const ASSOCIATIONS: u32 = 20;
    const PACKETS: usize = 300;
    within(async {
        let state = tempfile::tempdir().unwrap();
        let (server, invitation) = server("true", &state, &[]);
        let raw = Raw::connect(&invitation).await;
        // Answers each packet with one of 60,000 bytes.
        let host = UdpSocket::bind(ANY).await.unwrap();
        let peer = Target::from_addr(host.local_addr().unwrap());
        let mut streams = Vec::new();
        for id in 0..ASSOCIATIONS {
            streams.push(ask_on(&raw.connection, &Request::Associate { id }.encode()).await);
        }
        let before = resident_bytes(&server);
        let large = pattern(60_000);
        let mut heard = [0; 64];
        for _ in 0..PACKETS {
            for id in 0..ASSOCIATIONS {
                let packet = Packet { peer: peer.clone(), payload: vec![1] };
                loop {
                    raw.connection.send_datagram(Bytes::from(packet.encode_datagram(id))).unwrap();
                    // It may have been dropped on its way.
                    let came = tokio::time::timeout(Duration::from_secs(1), host.recv_from(&mut heard)).await;
                    if let Ok(came) = came {
                        host.send_to(&large, came.unwrap().1).await.unwrap();
                        break;
                    }
                }
            }
        }
        let grown = resident_bytes(&server).saturating_sub(before);
        assert!(grown < 64 << 20, "{grown} bytes for {ASSOCIATIONS} associations");
        drop(streams);
    })
    .await;
}
