//! A download through the pair, every byte of which is checked.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{Arc, Condvar, Mutex},
};

use super::{
    bed::Bed,
    program::{Client, Pair},
};

/// How far the host may be ahead of the test: what happens to a path then meets bytes on their way,
/// and most of what is left comes later, however large windows and buffers are.
const AHEAD: u64 = 2 << 20;

/// How many bytes the host may have sent.
#[derive(Default)]
struct Limit {
    bytes: Mutex<u64>,
    raised: Condvar,
}

impl Limit {
    fn raise(&self, to: u64) {
        *self.bytes.lock().unwrap() = to;
        self.raised.notify_all();
    }

    /// Waits until more than `sent` bytes are allowed.
    fn above(&self, sent: u64) -> u64 {
        *self.raised.wait_while(self.bytes.lock().unwrap(), |bytes| *bytes <= sent).unwrap()
    }
}

/// A download that its test reads step by step.
pub struct Download {
    limit: Arc<Limit>,
    tcp: TcpStream,
    size: u64,
    at: u64,
}

impl Download {
    /// Begins one through the pair's client.
    pub fn start(bed: &Bed, pair: &Pair, size: u64) -> Self {
        Self::through(bed, &pair.client, size)
    }

    /// Begins one through a client: from a host that sends `size` bytes to whoever connects.
    pub fn through(bed: &Bed, client: &Client, size: u64) -> Self {
        let listener = bed.host();
        let host = listener.local_addr().unwrap();
        let limit = Arc::new(Limit::default());
        let host_limit = limit.clone();
        std::thread::spawn(move || {
            let Ok((mut tcp, _)) = listener.accept() else { return };
            let mut sent = 0;
            while sent < size {
                let n = (host_limit.above(sent).min(size) - sent).min(1 << 16);
                let bytes: Vec<u8> = (sent..sent + n).map(byte).collect();
                if tcp.write_all(&bytes).is_err() {
                    return;
                }
                sent += n;
            }
        });
        let mut tcp = bed.connect(client.socks5);
        socks5(&mut tcp, host);
        Self { limit, tcp, size, at: 0 }
    }

    /// Reads until so many bytes have come.
    pub fn read_to(&mut self, bytes: u64) {
        self.limit.raise(bytes + AHEAD);
        let mut chunk = vec![0; 1 << 16];
        while self.at < bytes {
            let want = (bytes - self.at).min(chunk.len() as u64) as usize;
            let n = read(&mut self.tcp, &mut chunk[..want]).expect("the download goes on");
            assert!(n > 0, "the download ended after {} of {} bytes", self.at, self.size);
            let right = chunk[..n].iter().zip(self.at..).all(|(got, at)| *got == byte(at));
            assert!(right, "a byte between {} and {} is wrong", self.at, self.at + n as u64);
            self.at += n as u64;
        }
    }

    /// Reads all that is left, and the end.
    pub fn finish(mut self) {
        self.read_to(self.size);
        assert_eq!(read(&mut self.tcp, &mut [0]).expect("a clean end"), 0, "more came than was sent");
    }
}

/// Reads some bytes. Calls with a timeout are not begun again by themselves after a signal (signal(7)).
fn read(tcp: &mut TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match tcp.read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The byte at a place: shifted, lost or doubled ones show.
fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Asks a SOCKS5 proxy for a host (RFC 1928).
fn socks5(tcp: &mut TcpStream, host: SocketAddr) {
    tcp.write_all(&[5, 1, 0]).unwrap();
    let mut method = [0; 2];
    tcp.read_exact(&mut method).unwrap();
    assert_eq!(method, [5, 0]);
    let mut request = vec![5, 1, 0];
    match host {
        SocketAddr::V4(v4) => {
            request.push(1);
            request.extend(v4.ip().octets());
        }
        SocketAddr::V6(v6) => {
            request.push(4);
            request.extend(v6.ip().octets());
        }
    }
    request.extend(host.port().to_be_bytes());
    tcp.write_all(&request).unwrap();
    let mut reply = [0; 4];
    tcp.read_exact(&mut reply).unwrap();
    assert_eq!(reply[1], 0, "the proxy refused with reply {}", reply[1]);
    // The bound address, of either family, and its port.
    let rest = if reply[3] == 4 { 18 } else { 6 };
    tcp.read_exact(&mut vec![0; rest]).unwrap();
}
