//! The client that asks the origin and takes the time.

use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    os::fd::AsFd as _,
    sync::Arc,
};

use nix::poll::{PollFd, PollFlags, poll};
use units::Duration;

use crate::{
    Cancel, LabError,
    bed::Namespace,
    clock::Moment,
    origin::{LOOK, Transport, expected, is_timeout, thread_cpu},
};

/// Where and how to connect.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) addr: SocketAddr,
    pub(crate) transport: Transport,
    /// The local address, which decides over the path; of several, one is drawn for each
    /// connection.
    pub(crate) from: Vec<Ipv4Addr>,
    /// `addr` is a SOCKS5 proxy that leads here.
    pub(crate) behind: Option<SocketAddr>,
}

/// What a transfer came to.
#[derive(Clone, Default, Debug)]
pub(crate) struct Transfer {
    /// The time to connect; zero on a connection that was there.
    pub(crate) setup: Duration,
    /// From the request to the last byte that came.
    pub(crate) time: Duration,
    /// Bytes that came.
    pub(crate) bytes: u64,
    /// Whether that is all.
    pub(crate) complete: bool,
    /// The longest time without a byte, from the request to the last byte or the end.
    pub(crate) longest_gap: Duration,
    /// Processor time of this thread.
    pub(crate) cpu: Duration,
}

/// An open connection.
pub(crate) struct Connection {
    stream: TcpStream,
    pub(crate) setup: Duration,
}

/// Limits and helpers of transfers.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) pattern: Arc<[u8]>,
    pub(crate) cancel: Cancel,
}

impl Connection {
    /// Connects from within `namespace`; `draw` chooses among the local addresses.
    pub(crate) fn open(
        namespace: &Namespace,
        target: &Target,
        draw: u64,
        limit: Duration,
        cancel: &Cancel,
    ) -> Result<io::Result<Self>, LabError> {
        let opened = namespace.run(|| connect(target, draw, limit, cancel))?;
        cancel.check()?;
        Ok(opened)
    }
}

fn connect(target: &Target, draw: u64, limit: Duration, cancel: &Cancel) -> io::Result<Connection> {
    let socket = target.transport.socket()?;
    if !target.from.is_empty() {
        let from = target.from[(draw % target.from.len() as u64) as usize];
        socket.bind(&SocketAddr::from((from, 0)).into())?;
    }
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    let start = Moment::now();
    match socket.connect(&target.addr.into()) {
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::EINPROGRESS as i32) => {
            wait_for_connection(&socket, start, limit, cancel)?;
        }
        result => result?,
    }
    target.transport.set_congestion(&socket)?;
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(LOOK))?;
    let mut stream: TcpStream = socket.into();
    if let Some(place) = target.behind {
        ask_socks(&mut stream, place, || start.elapsed() >= limit || cancel.is_cancelled())?;
    }
    Ok(Connection { stream, setup: start.elapsed() })
}

/// Has a SOCKS5 proxy (RFC 1928) connect to `place`; `is_over` says when it is too late.
fn ask_socks(stream: &mut TcpStream, place: SocketAddr, is_over: impl Fn() -> bool) -> io::Result<()> {
    let SocketAddr::V4(place) = place else { return Err(io::ErrorKind::Unsupported.into()) };
    let hear = |stream: &mut TcpStream, answer: &mut [u8]| -> io::Result<()> {
        let mut got = 0;
        while got < answer.len() {
            match stream.read(&mut answer[got..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => got += n,
                Err(error) if is_timeout(&error) && !is_over() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    };
    let (mut method, mut reply) = ([0; 2], [0; 10]);
    stream.write_all(&[5, 1, 0])?;
    hear(stream, &mut method)?;
    let (ip, port) = (place.ip().octets(), place.port().to_be_bytes());
    stream.write_all(&[&[5, 1, 0, 1], &ip[..], &port].concat())?;
    hear(stream, &mut reply)?;
    if method == [5, 0] && reply[1] == 0 { Ok(()) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
}

/// Waits until a connection is there or has failed, and looks now and then whether it is worth
/// going on.
fn wait_for_connection(
    socket: &socket2::Socket,
    start: Moment,
    limit: Duration,
    cancel: &Cancel,
) -> io::Result<()> {
    loop {
        let mut waited = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
        if poll(&mut waited, LOOK.as_millis() as u16)? > 0 {
            return socket.take_error()?.map_or(Ok(()), Err);
        }
        if start.elapsed() >= limit || cancel.is_cancelled() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

impl Client {
    /// Asks for `size` bytes and reads them; calls `progress` with the count of bytes after each
    /// read.
    ///
    /// # Errors
    /// [`LabError::Interrupted`]. A connection that breaks, or brings wrong bytes, gives a transfer
    /// that is not complete.
    pub(crate) fn fetch(
        &self,
        connection: &mut Connection,
        size: u64,
        limit: Duration,
        mut progress: impl FnMut(u64),
    ) -> Result<Transfer, LabError> {
        let cpu = thread_cpu();
        let mut buffer = vec![0; 256 << 10];
        let (start, mut last) = (Moment::now(), Moment::now());
        let mut transfer = Transfer { setup: connection.setup, ..Transfer::default() };
        let mut broken = connection.stream.write_all(&size.to_be_bytes()).is_err();
        while transfer.bytes < size && !broken && start.elapsed() < limit {
            self.cancel.check()?;
            match connection.stream.read(&mut buffer) {
                Ok(0) => broken = true,
                Ok(n) => {
                    let now = Moment::now();
                    transfer.longest_gap = transfer.longest_gap.max(now.since(last));
                    last = now;
                    broken = !self.is_right(&buffer[..n], transfer.bytes);
                    transfer.bytes += n as u64;
                    progress(transfer.bytes);
                }
                Err(error) if is_timeout(&error) => {}
                Err(_) => broken = true,
            }
        }
        transfer.complete = transfer.bytes == size && !broken;
        transfer.time = if transfer.complete { last.since(start) } else { start.elapsed() };
        if !transfer.complete {
            transfer.longest_gap = transfer.longest_gap.max(last.elapsed());
        }
        transfer.cpu = thread_cpu() - cpu;
        Ok(transfer)
    }

    /// Whether these are the bytes of a response from `offset` on.
    fn is_right(&self, mut bytes: &[u8], mut offset: u64) -> bool {
        while !bytes.is_empty() {
            let right = expected(&self.pattern, offset, bytes.len());
            let (now, later) = bytes.split_at(right.len());
            if now != right {
                return false;
            }
            offset += now.len() as u64;
            bytes = later;
        }
        true
    }
}
