//! A server, a client that pins its key, and bytes that show when they are out of place.

use std::{future::Future, net::SocketAddr, time::Duration};

use mendpath::{
    ClientConfig, Connection, ConnectionError, Endpoint, Identity, RecvStream, SendStream, ServerConfig,
};

/// Any port of loopback.
pub(crate) const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Fails a test that hangs; far above what any takes.
pub(crate) async fn watchdog<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), work).await.expect("the test hangs")
}

pub(crate) fn configs() -> (ServerConfig, ClientConfig) {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let client = ClientConfig::with_pinned_key(identity.pin());
    (ServerConfig::with_identity(&identity).unwrap(), client)
}

/// A server and a client on loopback, which trust each other.
pub(crate) struct Pair {
    pub(crate) server: Endpoint,
    pub(crate) client: Endpoint,
}

impl Pair {
    pub(crate) fn new() -> Self {
        let (server, client) = configs();
        Self::with(server, client)
    }

    pub(crate) fn with(server: ServerConfig, client: ClientConfig) -> Self {
        Self {
            server: Endpoint::server(server, LOOPBACK).unwrap(),
            client: Endpoint::builder().bind(LOOPBACK).client(client).build().unwrap(),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.local_addrs()[0]
    }

    /// One connection: the client's side, then the server's.
    pub(crate) async fn connect(&self) -> (Connection, Connection) {
        let connecting = self.client.connect(self.address(), "localhost").unwrap();
        let accept = async { self.server.accept().await.expect("the server is open").await };
        let (client, server) = tokio::join!(connecting, accept);
        (client.unwrap(), server.unwrap())
    }
}

/// The byte at an offset of a test stream.
fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Writes `length` test bytes from `offset` on.
pub(crate) async fn write_pattern(stream: &mut SendStream, mut offset: u64, length: u64) {
    let end = offset + length;
    let mut chunk = Vec::with_capacity(32 << 10);
    while offset < end {
        let size = (end - offset).min(32 << 10);
        chunk.clear();
        chunk.extend((offset..offset + size).map(byte_at));
        stream.write_all(&chunk).await.unwrap();
        offset += size;
    }
}

/// Reads test bytes from `offset` on until the end of the stream, and returns the offset of the
/// end.
pub(crate) async fn check_pattern(stream: &mut RecvStream, mut offset: u64) -> u64 {
    let mut buffer = vec![0; 64 << 10];
    while let Some(read) = stream.read(&mut buffer).await.unwrap() {
        for &byte in &buffer[..read] {
            assert_eq!(byte, byte_at(offset), "byte {offset} is out of place");
            offset += 1;
        }
    }
    offset
}

/// Sends back what arrives on every bidirectional stream until the connection ends.
pub(crate) async fn echo(connection: Connection) -> ConnectionError {
    loop {
        let (mut send, mut recv) = match connection.accept_bi().await {
            Ok(streams) => streams,
            Err(error) => return error,
        };
        tokio::spawn(async move {
            if tokio::io::copy(&mut recv, &mut send).await.is_ok() {
                let _ = send.finish();
            }
        });
    }
}
