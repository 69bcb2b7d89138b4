//! Hosts that programs reach through the pair, and the bytes that they send.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
};

use crate::soak::ANY;

/// A host that sends as many pseudo-random bytes as it is asked for.
pub async fn source() -> io::Result<SocketAddr> {
    serve(|mut tcp| async move {
        let (seed, size) = (tcp.read_u64().await?, tcp.read_u64().await?);
        let mut chunk = vec![0; 64 * 1_024];
        let mut sent = 0;
        while sent < size {
            let n = (size - sent).min(chunk.len() as u64) as usize;
            fill(seed, sent, &mut chunk[..n]);
            tcp.write_all(&chunk[..n]).await?;
            sent += n as u64;
        }
        tcp.shutdown().await
    })
    .await
}

/// What a [`sink`] answers if it got what it expected.
pub const AS_EXPECTED: u8 = b'y';

/// A host that is told a seed and a size, reads that many bytes to the end of the stream, and says
/// whether they were right.
pub async fn sink() -> io::Result<SocketAddr> {
    serve(|mut tcp| async move {
        let (seed, size) = (tcp.read_u64().await?, tcp.read_u64().await?);
        let (mut chunk, mut expected) = (vec![0; 64 * 1_024], vec![0; 64 * 1_024]);
        let (mut received, mut right) = (0, true);
        loop {
            let n = tcp.read(&mut chunk).await?;
            if n == 0 {
                break;
            }
            fill(seed, received, &mut expected[..n]);
            right &= chunk[..n] == expected[..n];
            received += n as u64;
        }
        let verdict = if right && received == size { AS_EXPECTED } else { b'n' };
        tcp.write_all(&[verdict]).await
    })
    .await
}

/// A host that does this with every connection.
async fn serve<F>(host: fn(TcpStream) -> F) -> io::Result<SocketAddr>
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind(ANY).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            tokio::spawn(host(tcp));
        }
    });
    Ok(address)
}

/// A host that sends every packet back.
pub async fn echo() -> io::Result<SocketAddr> {
    let socket = UdpSocket::bind(ANY).await?;
    let address = socket.local_addr()?;
    tokio::spawn(async move {
        let mut packet = vec![0; 10_000];
        while let Ok((n, from)) = socket.recv_from(&mut packet).await {
            let _ = socket.send_to(&packet[..n], from).await;
        }
    });
    Ok(address)
}

/// The bytes of stream `seed` from `offset` on: different everywhere, so that lost, doubled, moved
/// and crossed ones show.
pub fn fill(seed: u64, offset: u64, bytes: &mut [u8]) {
    let mut place = offset;
    let mut rest = bytes;
    while !rest.is_empty() {
        let word = mix(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ mix(place / 8)).to_le_bytes();
        let skip = (place % 8) as usize;
        let n = (8 - skip).min(rest.len());
        let (now, later) = rest.split_at_mut(n);
        now.copy_from_slice(&word[skip..skip + n]);
        rest = later;
        place += n as u64;
    }
}

/// Spreads every bit of `x` over all (the finaliser of MurmurHash3).
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}
