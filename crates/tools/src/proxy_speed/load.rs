//! What goes through the proxies: a host that sends what it is asked for, and programs that fetch.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use units::Bytes;

use super::Outcome;

/// Bytes handed to the kernel, or taken from it, at a time.
const CHUNK: usize = 256 << 10;

/// What is fetched in a turn.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// So many bytes on a connection.
    Transfer(Bytes),
    /// Requests one after the other, on one connection.
    Kept { requests: u32, each: Bytes },
    /// The same, on a new connection each.
    New { requests: u32, each: Bytes },
}

impl Load {
    /// The same in small, so that caches are warm and windows open.
    pub fn warm_up(self) -> Self {
        match self {
            Self::Transfer(bytes) => Self::Transfer(Bytes(bytes.get() / 10)),
            Self::Kept { requests, each } => Self::Kept { requests: requests.div_ceil(10), each },
            Self::New { requests, each } => Self::New { requests: requests.div_ceil(10), each },
        }
    }

    /// All bytes that it fetches.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Transfer(bytes) => bytes.get(),
            Self::Kept { requests, each } | Self::New { requests, each } => u64::from(requests) * each.get(),
        }
    }

    /// How many requests it is, unless it is one.
    pub fn requests(self) -> Option<u32> {
        match self {
            Self::Transfer(_) => None,
            Self::Kept { requests, .. } | Self::New { requests, .. } => Some(requests),
        }
    }

    /// Fetches it on connections that `connect` makes; returns the seconds that it took.
    ///
    /// # Errors
    /// If not all of it comes.
    #[expect(clippy::disallowed_methods, reason = "speed is measured by the clock")]
    pub fn fetch(self, connect: impl Fn() -> Outcome<TcpStream>) -> Outcome<f64> {
        let mut chunk = vec![0; CHUNK];
        let began = Instant::now();
        match self {
            Self::Transfer(bytes) => request(&mut connect()?, bytes, &mut chunk)?,
            Self::Kept { requests, each } => {
                let mut tcp = connect()?;
                (0..requests).try_for_each(|_| request(&mut tcp, each, &mut chunk))?;
            }
            Self::New { requests, each } => {
                (0..requests).try_for_each(|_| request(&mut connect()?, each, &mut chunk))?;
            }
        }
        Ok(began.elapsed().as_secs_f64())
    }
}

/// Connects; what does not come within `patience` is an error.
///
/// # Errors
/// If nobody listens.
pub fn open(addr: SocketAddr, patience: Duration) -> Outcome<TcpStream> {
    let tcp = TcpStream::connect(addr)?;
    tcp.set_nodelay(true)?;
    tcp.set_read_timeout(Some(patience))?;
    Ok(tcp)
}

/// Systems have different words for it.
pub fn named(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => io::Error::other("nothing came in time"),
        _ => error,
    }
}

fn request(tcp: &mut TcpStream, bytes: Bytes, chunk: &mut [u8]) -> Outcome<()> {
    tcp.write_all(&bytes.get().to_be_bytes())?;
    let mut left = bytes.get();
    while left > 0 {
        let most = chunk.len().min(usize::try_from(left)?);
        match tcp.read(&mut chunk[..most]).map_err(named)? {
            0 => return Err(format!("{left} of {bytes} did not come").into()),
            read => left -= read as u64,
        }
    }
    Ok(())
}

/// The host behind the proxies. It ends with this process.
pub struct Host {
    /// Where it listens.
    pub addr: SocketAddr,
}

impl Host {
    /// Starts it.
    ///
    /// # Errors
    /// If the system has no room for it.
    pub fn start() -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let addr = listener.local_addr()?;
        thread::spawn(move || {
            for tcp in listener.incoming().flatten() {
                // How a proxy ends its connection is its own business.
                thread::spawn(move || serve(tcp));
            }
        });
        Ok(Self { addr })
    }
}

/// Answers every eight bytes with as many bytes as they say.
fn serve(mut tcp: TcpStream) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let (chunk, mut wanted) = (vec![7; CHUNK], [0; 8]);
    loop {
        tcp.read_exact(&mut wanted)?;
        let mut left = u64::from_be_bytes(wanted);
        while left > 0 {
            let most = left.min(CHUNK as u64);
            tcp.write_all(&chunk[..most as usize])?;
            left -= most;
        }
    }
}
