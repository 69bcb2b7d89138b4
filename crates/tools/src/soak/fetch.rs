//! A download whose every byte is checked.

use std::time::Duration as StdDuration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout},
};

use crate::soak::{Outcome, STALL, host::fill};

/// A download from [`source`](crate::soak::host::source).
pub struct Fetch {
    tcp: TcpStream,
    seed: u64,
    size: u64,
    /// Bytes so far.
    pub received: u64,
    last: Instant,
    /// How long, and before which byte.
    pub longest_pause: (StdDuration, u64),
    buffer: Vec<u8>,
    expected: Vec<u8>,
}

impl Fetch {
    /// Asks a [`source`](crate::soak::host::source) on the other end of `tcp`.
    pub async fn start(tcp: TcpStream, seed: u64, size: u64) -> Outcome<Self> {
        let mut tcp = tcp;
        tcp.write_all(&[seed.to_be_bytes(), size.to_be_bytes()].concat()).await?;
        Ok(Self {
            tcp,
            seed,
            size,
            received: 0,
            last: Instant::now(),
            longest_pause: (StdDuration::ZERO, 0),
            buffer: vec![0; 64 * 1_024],
            expected: vec![0; 64 * 1_024],
        })
    }

    /// Reads and checks some bytes; false at the end, which must come at the right place.
    pub async fn step(&mut self) -> Outcome<bool> {
        let at = self.received;
        let read = timeout(STALL, self.tcp.read(&mut self.buffer)).await;
        let n = read.map_err(|_| format!("nothing came for {STALL:?} after byte {at}"))??;
        let pause = (self.last.elapsed(), at);
        self.longest_pause = self.longest_pause.max(pause);
        self.last = Instant::now();
        if n == 0 {
            let short = format!("ended after {at} of {} bytes", self.size);
            return if at == self.size { Ok(false) } else { Err(short.into()) };
        }
        let expected = &mut self.expected[..n];
        fill(self.seed, at, expected);
        if let Some(wrong) = self.buffer[..n].iter().zip(&*expected).position(|(a, b)| a != b) {
            return Err(format!("byte {} is wrong", at + wrong as u64).into());
        }
        self.received += n as u64;
        if self.received > self.size { Err("too many bytes came".into()) } else { Ok(true) }
    }
}
