//! The server that responses come from: `SIZE` in eight bytes brings so many bytes.

use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd as _,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
};

use netsim::{Rng, Seed};
use nix::{
    poll::{PollFd, PollFlags, poll},
    sys::resource::{UsageWho, getrusage},
};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use units::Duration;

use crate::{LabError, bed::Namespace};

/// How often a thread that waits for the network looks whether it should end.
pub(crate) const LOOK: core::time::Duration = core::time::Duration::from_millis(100);
/// Connections at a time; more are refused.
const MOST_CONNECTIONS: usize = 2_048;
/// As many may wait to be accepted: whoever finds no room is heard a second later.
const BACKLOG: i32 = 2_048;
/// Largest piece given to the kernel at once.
const PIECE: usize = 64 << 10;
/// So often within a response it is noted what it has cost: some are broken off.
const NOTED: u64 = 1 << 20;

/// What carries the bytes of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Transport {
    pub(crate) multipath: bool,
    /// The kernel's name of a congestion controller; without, cubic, which Linux comes with, whatever
    /// this machine has.
    pub(crate) congestion: Option<String>,
}

impl Transport {
    pub(crate) const PLAIN: Self = Self { multipath: false, congestion: None };

    fn congestion(&self) -> &str {
        self.congestion.as_deref().unwrap_or("cubic")
    }

    fn name(&self) -> String {
        let protocol = if self.multipath { "MPTCP" } else { "TCP" };
        let congestion = self.congestion();
        format!("listen with the kernel's {protocol} and {congestion} as congestion controller")
    }

    /// An error of the kernel, with what is missing.
    fn refused(&self, error: io::Error) -> LabError {
        use nix::errno::Errno;
        let kind = error.raw_os_error().map(Errno::from_raw);
        let missing = match kind {
            Some(Errno::EPROTONOSUPPORT | Errno::ENOPROTOOPT) if self.multipath => {
                "this kernel has no MPTCP".to_owned()
            }
            Some(Errno::ENOENT) => {
                let name = self.congestion();
                format!(
                    "this kernel has no controller `{name}`, or its module is not loaded (modprobe tcp_{name})"
                )
            }
            _ => return LabError::system(self.name())(error),
        };
        LabError::system(self.name())(io::Error::other(missing))
    }

    pub(crate) fn socket(&self) -> io::Result<Socket> {
        let protocol = if self.multipath { Protocol::MPTCP } else { Protocol::TCP };
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
        self.set_congestion(&socket)?;
        Ok(socket)
    }

    /// Lets a socket use the congestion controller: before it is connected, and once more when it is. A
    /// route may have one for other programs over the same paths, which a new connection begins with.
    pub(crate) fn set_congestion(&self, socket: &Socket) -> io::Result<()> {
        socket.set_tcp_congestion(self.congestion().as_bytes())
    }

    /// Fails if the kernel does not have the congestion controller. A socket of MPTCP has no flow before it
    /// is connected, and takes any name until then: TCP's tells.
    fn find_congestion(&self) -> io::Result<()> {
        self.set_congestion(&Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?)
    }
}

/// What responses consist of: bytes that no program can compress, the same at the same offset.
pub(crate) fn pattern() -> Arc<[u8]> {
    let mut rng = Rng::new(Seed(0x6d65_6e64));
    (0..(1 << 20) / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}

/// A running server; its threads end when this is dropped.
pub(crate) struct Origin {
    pub(crate) addr: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    stop: AtomicBool,
    connections: AtomicUsize,
    cpu_micros: AtomicU64,
    transport: Transport,
    pattern: Arc<[u8]>,
}

impl Origin {
    /// Listens in `namespace` at any port.
    pub(crate) fn start(
        namespace: &Namespace,
        ip: Ipv4Addr,
        transport: &Transport,
        pattern: Arc<[u8]>,
    ) -> Result<Self, LabError> {
        let wrong = || LabError::system(transport.name());
        let listener: TcpListener =
            namespace.run(|| listen(ip, transport))?.map_err(|error| transport.refused(error))?;
        let addr = listener.local_addr().map_err(wrong())?;
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            cpu_micros: AtomicU64::new(0),
            transport: transport.clone(),
            pattern,
        });
        let thread = {
            let shared = Arc::clone(&shared);
            spawn("origin", move || accept(&listener, &shared)).map_err(wrong())?
        };
        Ok(Self { addr, shared, thread: Some(thread) })
    }

    /// Processor time that its threads have spent on responses, broken off or not.
    pub(crate) fn cpu(&self) -> Duration {
        Duration::from_micros(self.shared.cpu_micros.load(Ordering::Relaxed))
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

fn listen(ip: Ipv4Addr, transport: &Transport) -> io::Result<TcpListener> {
    transport.find_congestion()?;
    let socket = transport.socket()?;
    socket.bind(&SocketAddr::from((ip, 0)).into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.stop.load(Ordering::Relaxed) {
        // A receive timeout would not do: MPTCP's accept does not heed it.
        let mut waited = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut waited, LOOK.as_millis() as u16);
        let Ok((stream, _)) = listener.accept() else { continue };
        if shared.connections.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let own = Arc::clone(shared);
        let spawned = spawn("origin", move || {
            // A client that goes away is no event.
            let _ = serve(stream, &own);
            own.connections.fetch_sub(1, Ordering::Relaxed);
        });
        if spawned.is_err() {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    shared.transport.set_congestion(&SockRef::from(&stream))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(LOOK))?;
    let mut spent = Spent { shared, until: thread_cpu() };
    while let Some(size) = read_request(&mut stream, shared)? {
        respond(&mut stream, size, &mut spent)?;
        spent.note();
    }
    Ok(())
}

/// Processor time of the calling thread, of which some is noted already.
struct Spent<'a> {
    shared: &'a Shared,
    until: Duration,
}

impl Spent<'_> {
    fn note(&mut self) {
        let now = thread_cpu();
        self.shared.cpu_micros.fetch_add((now - self.until).as_micros(), Ordering::Relaxed);
        self.until = now;
    }
}

impl Drop for Spent<'_> {
    fn drop(&mut self) {
        self.note();
    }
}

/// The size that is asked for; `None` at the end of the connection or of the origin.
fn read_request(stream: &mut TcpStream, shared: &Shared) -> io::Result<Option<u64>> {
    let (mut request, mut filled) = ([0; 8], 0);
    while filled < request.len() {
        match stream.read(&mut request[filled..]) {
            Ok(0) => return Ok(None),
            Ok(n) => filled += n,
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
        if shared.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
    }
    Ok(Some(u64::from_be_bytes(request)))
}

fn respond(stream: &mut TcpStream, size: u64, spent: &mut Spent<'_>) -> io::Result<()> {
    let shared = spent.shared;
    let (mut sent, mut noted) = (0, 0);
    while sent < size && !shared.stop.load(Ordering::Relaxed) {
        let piece = expected(&shared.pattern, sent, (size - sent).min(PIECE as u64) as usize);
        match stream.write(piece) {
            Ok(n) => sent += n as u64,
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
        if sent >= noted + NOTED {
            spent.note();
            noted = sent;
        }
    }
    Ok(())
}

/// The bytes of a response from `offset` on: at least one, at most `most`.
pub(crate) fn expected(pattern: &[u8], offset: u64, most: usize) -> &[u8] {
    let start = (offset % pattern.len() as u64) as usize;
    &pattern[start..(start + most).min(pattern.len())]
}

pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// Processor time of the calling thread, in user and kernel.
pub(crate) fn thread_cpu() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) else { return Duration::ZERO };
    let micros = |time: nix::sys::time::TimeVal| time.tv_sec() * 1_000_000 + time.tv_usec();
    Duration::from_micros((micros(usage.user_time()) + micros(usage.system_time())).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fetches may begin together, of contenders that nothing stands before.
    #[test]
    fn many_connections_find_room_at_once() {
        let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        if most.trim().parse::<u32>().unwrap() < 400 {
            eprintln!("skipped: this system lets {} connections wait", most.trim());
            return;
        }
        let transport = Transport { multipath: false, congestion: Some("reno".to_owned()) };
        let listener = listen(Ipv4Addr::LOCALHOST, &transport).unwrap();
        let addr = listener.local_addr().unwrap();
        let limit = core::time::Duration::from_secs(5);
        let connected: Vec<TcpStream> =
            (0..300).map_while(|_| TcpStream::connect_timeout(&addr, limit).ok()).collect();
        assert_eq!(connected.len(), 300);
    }

    #[test]
    fn a_controller_that_the_kernel_does_not_have_is_missed_at_once() {
        for multipath in [false, true] {
            let transport = Transport { multipath, congestion: Some("nosuch".to_owned()) };
            let error = listen(Ipv4Addr::LOCALHOST, &transport).expect_err("there is such a controller");
            let told = transport.refused(error).to_string();
            assert!(told.contains("this kernel has no controller `nosuch`"), "{told}");
        }
    }

    #[test]
    fn a_response_that_is_broken_off_has_cost_something() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            cpu_micros: AtomicU64::new(0),
            // Every kernel has it.
            transport: Transport { multipath: false, congestion: Some("reno".to_owned()) },
            pattern: pattern(),
        });
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let own = Arc::clone(&shared);
        let server = std::thread::spawn(move || serve(stream, &own));
        client.write_all(&(1_u64 << 50).to_be_bytes()).unwrap();
        client.read_exact(&mut vec![0; 16 << 20]).unwrap();
        assert!(shared.cpu_micros.load(Ordering::Relaxed) > 0, "it goes on");
        drop(client);
        assert!(server.join().unwrap().is_err());
    }
}
