//! A server and a client in this process, an echo server for them to reach, and the bytes that
//! programs say to proxies.
#![allow(dead_code, reason = "every test file uses a part of it")]

pub mod balancer;
pub mod hand;
pub mod http;
pub mod tls;

use std::{
    future::Future,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    time::Duration,
};

use mendpath_cli::{
    client::{Client, ClientOptions, DialOptions, EarlyAnswers},
    destination::DestinationPolicy,
    failure::Failure,
    invitation::Invitation,
    server::{Limits, ProxyServer, ServerOptions},
    token::Service,
    transport::Choice,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    task::JoinHandle,
};

pub const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Fails a test that hangs, long after every healthy one is over.
pub async fn within<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), test).await.expect("the test hangs")
}

pub fn server_options(state: &Path, policy: DestinationPolicy) -> ServerOptions {
    ServerOptions {
        workers: None,
        listen: ANY,
        advertise: Vec::new(),
        state: state.to_owned(),
        policy,
        dns: Vec::new(),
        limits: Limits::default(),
        show_names: true,
        transport: Choice::default(),
        quic_lb: None,
    }
}

/// A server in the background.
pub struct Server {
    pub invitation: Invitation,
    pub endpoint: mendpath::Endpoint,
    task: JoinHandle<()>,
    pub state: tempfile::TempDir,
}

impl Server {
    pub fn start(policy: DestinationPolicy) -> Self {
        Self::start_with(policy, |_| {})
    }

    pub fn start_with(policy: DestinationPolicy, change: impl FnOnce(&mut ServerOptions)) -> Self {
        let state = tempfile::tempdir().unwrap();
        let mut options = server_options(state.path(), policy);
        change(&mut options);
        let server = ProxyServer::bind(&options).unwrap();
        Self {
            invitation: server.invitation().clone(),
            endpoint: server.endpoint().clone(),
            task: tokio::spawn(server.run()),
            state,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn client_options(invitation: Invitation) -> ClientOptions {
    ClientOptions {
        dial: DialOptions::new(invitation, Service::Proxy),
        socks5: Some(ANY),
        http: Some(ANY),
        forwards: Vec::new(),
        admin: None,
        credentials: None,
        show_names: true,
        early_answers: EarlyAnswers::default(),
        wait_for_server: false,
        path_orders: Vec::new(),
    }
}

/// A client in the background, and where it listens.
pub async fn client(options: ClientOptions) -> mendpath_cli::client::Addresses {
    let client = Client::start(options).await.unwrap();
    let addresses = client.addresses.clone();
    tokio::spawn(client.run());
    addresses
}

pub async fn failure(options: ClientOptions) -> Failure {
    match Client::start(options).await {
        Ok(_) => panic!("the client started"),
        Err(failure) => failure,
    }
}

/// Echoes bytes until each client's end of stream, then says goodbye.
pub async fn echo_server() -> SocketAddr {
    echo_server_at(ANY).await
}

pub async fn echo_server_at(address: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = tcp.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.write_all(b"goodbye").await;
            });
        }
    });
    address
}

pub async fn udp_echo_server() -> SocketAddr {
    let socket = UdpSocket::bind(ANY).await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_535];
        while let Ok((n, from)) = socket.recv_from(&mut buffer).await {
            let _ = socket.send_to(&buffer[..n], from).await;
        }
    });
    address
}

/// The address of a TCP port where nobody listens.
pub async fn closed_port() -> SocketAddr {
    TcpListener::bind(ANY).await.unwrap().local_addr().unwrap()
}

/// A SOCKS5 request for an address.
pub fn socks5_request(command: u8, address: SocketAddr) -> Vec<u8> {
    let mut request = vec![5, command, 0];
    match address.ip() {
        IpAddr::V4(ip) => {
            request.push(1);
            request.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            request.push(4);
            request.extend(ip.octets());
        }
    }
    request.extend(address.port().to_be_bytes());
    request
}

/// Says hello to a SOCKS5 proxy and makes a request; returns the connection, the reply code and the
/// bound address.
pub async fn socks5(proxy: SocketAddr, command: u8, address: SocketAddr) -> (TcpStream, u8, SocketAddr) {
    let mut tcp = TcpStream::connect(proxy).await.unwrap();
    tcp.write_all(&[5, 1, 0]).await.unwrap();
    let mut method = [0; 2];
    tcp.read_exact(&mut method).await.unwrap();
    assert_eq!(method, [5, 0]);
    tcp.write_all(&socks5_request(command, address)).await.unwrap();
    let mut reply = [0; 10];
    tcp.read_exact(&mut reply).await.unwrap();
    assert_eq!((reply[0], reply[3]), (5, 1));
    let ip = Ipv4Addr::new(reply[4], reply[5], reply[6], reply[7]);
    (tcp, reply[1], (ip, u16::from_be_bytes([reply[8], reply[9]])).into())
}

/// Writes `request`, ends the sending side, and reads to the end.
pub async fn converse(tcp: &mut TcpStream, request: &[u8]) -> Vec<u8> {
    let (mut read, mut write) = tcp.split();
    let say = async {
        write.write_all(request).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let mut heard = Vec::new();
    let hear = read.read_to_end(&mut heard);
    let ((), heard_all) = tokio::join!(say, hear);
    heard_all.unwrap();
    heard
}

/// Bytes that differ from place to place, so that shifted, lost or doubled ones show.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}
