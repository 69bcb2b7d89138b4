//! What programs say to a SOCKS5 proxy (RFC 1928).

use std::net::{Ipv4Addr, SocketAddr};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::soak::Outcome;

/// Asks a SOCKS5 proxy for something (RFC 1928); returns the connection and the address that it
/// names.
pub async fn socks5(proxy: SocketAddr, command: u8, host: SocketAddr) -> Outcome<(TcpStream, SocketAddr)> {
    let mut tcp = TcpStream::connect(proxy).await?;
    tcp.write_all(&[5, 1, 0]).await?;
    let mut method = [0; 2];
    tcp.read_exact(&mut method).await?;
    tcp.write_all(&[&[5, command, 0, 1][..], &socks5_address(host)].concat()).await?;
    let mut reply = [0; 10];
    tcp.read_exact(&mut reply).await?;
    if method != [5, 0] || reply[1] != 0 || reply[3] != 1 {
        return Err(format!("the proxy refused: {method:?} {reply:?}").into());
    }
    let ip = Ipv4Addr::new(reply[4], reply[5], reply[6], reply[7]);
    Ok((tcp, (ip, u16::from_be_bytes([reply[8], reply[9]])).into()))
}

/// An IPv4 address and a port as requests and datagrams have them.
pub fn socks5_address(host: SocketAddr) -> [u8; 6] {
    let SocketAddr::V4(v4) = host else { unreachable!("every address here is IPv4") };
    let ([a, b, c, d], [high, low]) = (v4.ip().octets(), v4.port().to_be_bytes());
    [a, b, c, d, high, low]
}
