//! Either end of the proxy pair is killed in mid-transfer. No program, and no host behind the
//! server, may take that for an end.

use std::{io, net::SocketAddr, time::Duration};

use mendpath_cli::{client::Forward, destination::DestinationPolicy::*, server::ProxyServer, target::Target};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{process::Process, support::*};

/// Without a sign of life, until the end that was not killed gives up.
const GIVE_UP: Duration = Duration::from_secs(3);

/// A program's connection through a proxy, and the same at the host that it leads to; bytes are on
/// their way in both directions and no end is near.
struct Transfer {
    program: TcpStream,
    host: TcpStream,
}

impl Transfer {
    async fn begin(mut program: TcpStream, host: &TcpListener) -> Self {
        let (mut host, _) = host.accept().await.unwrap();
        carry(&mut program, &mut host).await;
        carry(&mut host, &mut program).await;
        Self { program, host }
    }

    /// Neither sees an end of stream.
    async fn assert_broken(self) {
        let Self { mut program, mut host } = self;
        let (at_program, at_host) = tokio::join!(read_to_error(&mut program), read_to_error(&mut host));
        assert_eq!(at_program.unwrap_err().kind(), io::ErrorKind::ConnectionReset, "at the program");
        assert_eq!(at_host.unwrap_err().kind(), io::ErrorKind::ConnectionReset, "at the host");
    }
}

async fn carry(from: &mut TcpStream, to: &mut TcpStream) {
    let bytes = pattern(100_000);
    let mut heard = vec![0; bytes.len()];
    let (said, _) = tokio::join!(from.write_all(&bytes), to.read_exact(&mut heard));
    said.unwrap();
    assert_eq!(heard, bytes);
}

async fn read_to_error(tcp: &mut (impl AsyncRead + Unpin)) -> io::Result<u64> {
    tokio::io::copy(tcp, &mut tokio::io::sink()).await
}

/// One transfer through each kind of proxy: SOCKS5, HTTP, a forwarded port.
async fn transfers(
    socks5_at: SocketAddr,
    http: SocketAddr,
    forward: SocketAddr,
    host: &TcpListener,
) -> Vec<Transfer> {
    let address = host.local_addr().unwrap();
    let mut transfers = Vec::new();
    let (program, code, _) = socks5(socks5_at, 1, address).await;
    assert_eq!(code, 0);
    transfers.push(Transfer::begin(program, host).await);

    let mut program = TcpStream::connect(http).await.unwrap();
    program
        .write_all(format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(program.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 200 "));
    transfers.push(Transfer::begin(program, host).await);

    transfers.push(Transfer::begin(TcpStream::connect(forward).await.unwrap(), host).await);
    transfers
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_client_ends_no_transfer_in_good_order() {
    within(async {
        let state = tempfile::tempdir().unwrap();
        let mut options = server_options(state.path(), AllowPrivate);
        options.limits.client_idle = GIVE_UP;
        let server = ProxyServer::bind(&options).unwrap();
        let invitation = server.invitation().to_string();
        tokio::spawn(server.run());
        let host = TcpListener::bind(ANY).await.unwrap();
        let forward = format!("127.0.0.1:0={}", host.local_addr().unwrap());
        let client = Process::start(&[
            "client",
            &invitation,
            "--socks5",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
            "--forward",
            &forward,
        ]);
        let forward = client.address_after("forwarding ");
        let (socks5, http) =
            (client.address_after("SOCKS5 proxy on "), client.address_after("HTTP proxy on "));
        let transfers = transfers(socks5, http, forward, &host).await;
        client.kill();
        for transfer in transfers {
            transfer.assert_broken().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_ends_no_transfer_in_good_order() {
    within(async {
        let state = tempfile::tempdir().unwrap();
        let server = Process::start(&[
            "server",
            "--listen",
            "127.0.0.1:0",
            "--allow-private",
            "--state",
            state.path().to_str().unwrap(),
        ]);
        let invitation = server.line_with("mendpath://").parse().unwrap();
        let host = TcpListener::bind(ANY).await.unwrap();
        let mut options = client_options(invitation);
        options.dial.idle_timeout = GIVE_UP;
        options.forwards =
            vec![Forward { listen: ANY, target: Target::from_addr(host.local_addr().unwrap()) }];
        let client = client(options).await;
        let transfers =
            transfers(client.socks5.unwrap(), client.http.unwrap(), client.forwards[0], &host).await;
        server.kill();
        for transfer in transfers {
            transfer.assert_broken().await;
        }
    })
    .await;
}

/// A half that has ended well stays so: only what was still open is reset.
#[tokio::test(flavor = "multi_thread")]
async fn what_had_ended_before_stays_whole() {
    within(async {
        let state = tempfile::tempdir().unwrap();
        let mut options = server_options(state.path(), AllowPrivate);
        options.limits.client_idle = GIVE_UP;
        let server = ProxyServer::bind(&options).unwrap();
        let invitation = server.invitation().to_string();
        tokio::spawn(server.run());
        let host = TcpListener::bind(ANY).await.unwrap();
        let client = Process::start(&["client", &invitation, "--socks5", "127.0.0.1:0"]);
        let (program, _, _) =
            socks5(client.address_after("SOCKS5 proxy on "), 1, host.local_addr().unwrap()).await;
        let Transfer { mut program, mut host } = Transfer::begin(program, &host).await;
        program.shutdown().await.unwrap();
        assert_eq!(read_to_error(&mut host).await.unwrap(), 0, "the upload's end has passed on");
        client.kill();
        assert_eq!(read_to_error(&mut program).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    })
    .await;
}
