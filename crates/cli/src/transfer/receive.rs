//! `mendpath receive`: waits for one file and stores it under a harmless name, complete or not at
//! all.
//!
//! Whoever knows the address can connect, so peers are heard at the same time: silent ones hold up
//! nobody, and when there are too many the oldest go. Those with a token may send one after the
//! other; the first file that arrives whole is the one.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex as SyncMutex, MutexGuard, PoisonError},
    time::Duration,
};

use mendpath::{Connection, ConnectionError, Endpoint, Incoming, RecvStream, SendStream};
use ring::digest;
use tokio::{
    fs,
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::{Mutex, mpsc},
    task::{AbortHandle, JoinSet},
    time::timeout,
};
use tracing::debug;

use super::{
    BAR, CHUNK, STALL,
    part::{Part, Unpublished, settle},
    safe_name,
};
use crate::{
    console::{progress, say},
    failure::{Failure, io_reason},
    identity::Identity,
    invitation::Invitation,
    protocol::{CHECKSUM_BYTES, CloseCode, MAX_MESSAGE, Reply, Request, Status, read_frame, write_frame},
    server::{Advertise, Gate, HELLO_TIMEOUT, advertised, listen},
    token::Service,
    transport::Choice,
};

/// Peers without a token at a time; a further one takes the place of the oldest.
const STRANGERS: usize = 64;
/// Peers with a token at a time; further ones are turned away.
const SENDERS: usize = 8;
/// For which number of connections the transport makes room: also for those that are being closed.
const CONNECTIONS: usize = 1_024;
/// How long a sender waits for another's transfer; its own patience is somewhat longer.
const TURN: Duration = Duration::from_secs(100);
/// For the last packets to get through.
const GOODBYE: Duration = Duration::from_secs(3);

/// Where to wait and where to store.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    /// The UDP address to listen on.
    pub listen: SocketAddr,
    /// Host, or host and port, for the invitation.
    pub advertise: Option<Advertise>,
    /// Where the identity lives.
    pub state: PathBuf,
    /// The directory for the file.
    pub out: PathBuf,
    /// Whether an existing file may be replaced.
    pub force: bool,
    /// How to send what little is sent back.
    pub transport: Choice,
}

/// A file that arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// Where it is.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// How long its bytes took.
    pub took: Duration,
    /// Its SHA-256, which the sender confirmed.
    pub sha256: [u8; CHECKSUM_BYTES],
}

/// A receiver that listens.
pub struct Receiver {
    endpoint: Endpoint,
    invitation: Invitation,
    shelf: Arc<Shelf>,
    /// One task for each, which goes on after a file has arrived: its sender is still to hear of that.
    peers: Mutex<JoinSet<()>>,
    received: Mutex<mpsc::Receiver<Received>>,
}

/// What every peer's task needs.
struct Shelf {
    gate: Gate,
    out: PathBuf,
    force: bool,
    /// Held by the one that sends; whether a file has arrived.
    arrived: Mutex<bool>,
    /// Told of each file that has arrived.
    received: mpsc::Sender<Received>,
    guests: SyncMutex<Guests>,
}

/// Who is connected.
#[derive(Default)]
struct Guests {
    /// In the order of their arrival.
    strangers: VecDeque<(u64, AbortHandle)>,
    senders: usize,
    next: u64,
}

impl Receiver {
    /// Loads or makes the identity and listens.
    ///
    /// # Errors
    /// When the state or the directory cannot be used, or the address not listened on.
    pub fn bind(options: &ReceiveOptions) -> Result<Self, Failure> {
        if !options.out.is_dir() {
            return Err(Failure::new(
                format!("cannot store files in {}", options.out.display()),
                "it is no directory",
                "Create it, or name another with --out DIR",
            ));
        }
        // Else the sender would be the first to hear of it.
        Part::create(&options.out, "trial").map_err(|error| {
            Failure::new(
                format!("cannot store files in {}", options.out.display()),
                io_reason(&error),
                "Make it writable, or name another with --out DIR",
            )
        })?;
        let identity = Identity::load_or_create(&options.state)?;
        let transport = options.transport.config(STALL, 4);
        let endpoint = listen(options.listen, &identity, transport, CONNECTIONS)?;
        let listening = endpoint.local_addrs().first().copied().unwrap_or(options.listen);
        let invitation = Invitation {
            token: identity.tokens.invitation_token(Service::Files),
            server: advertised(options.advertise.as_ref(), listening),
            also: Vec::new(),
            pin: identity.server.pin(),
        };
        let gate = Gate::new(identity.tokens, Service::Files);
        let (out, force) = (options.out.clone(), options.force);
        // One at a time: the next may arrive once this one was told.
        let (tell, received) = mpsc::channel(1);
        let (arrived, guests) = (Mutex::default(), SyncMutex::default());
        let shelf = Arc::new(Shelf { gate, out, force, arrived, received: tell, guests });
        Ok(Self { endpoint, invitation, shelf, peers: Mutex::default(), received: Mutex::new(received) })
    }

    /// The line that lets a sender in.
    pub fn invitation(&self) -> &Invitation {
        &self.invitation
    }

    /// Waits until one file has arrived; [`Receiver::close`] lets its sender hear of that. Senders
    /// without a token, and transfers that break, do not end it.
    ///
    /// # Errors
    /// When the endpoint fails.
    pub async fn receive_one(&self) -> Result<Received, Failure> {
        *self.shelf.arrived.lock().await = false;
        let (mut peers, mut received) = (self.peers.lock().await, self.received.lock().await);
        let file = loop {
            tokio::select! {
                incoming = self.endpoint.accept() => match incoming {
                    Some(incoming) => self.shelf.let_in(incoming, &mut peers),
                    None => {
                        return Err(Failure::new(
                            "cannot wait for a file",
                            "the endpoint was closed",
                            "Start it again",
                        ));
                    }
                },
                Some(file) = received.recv() => break file,
                Some(ended) = peers.join_next() => match ended {
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    _ => {}
                },
            }
        };
        // Strangers go at once; those who waited for their turn hear that it is over.
        self.shelf.dismiss_strangers();
        Ok(file)
    }

    /// Closes the endpoint in an orderly way: whoever was answered has some time to read that.
    pub async fn close(self) {
        // Held while a file arrives, which is of no use any more.
        if self.shelf.arrived.try_lock().is_ok_and(|arrived| *arrived) {
            let mut peers = self.peers.into_inner();
            let _ = timeout(GOODBYE, async { while peers.join_next().await.is_some() {} }).await;
        }
        self.endpoint.close(CloseCode::Done.into(), b"");
        let _ = timeout(GOODBYE, self.endpoint.wait_idle()).await;
    }
}

impl Shelf {
    /// Serves a peer in a task of its own.
    fn let_in(self: &Arc<Self>, incoming: Incoming, peers: &mut JoinSet<()>) {
        let mut guests = self.guests();
        let number = guests.next;
        guests.next += 1;
        if guests.strangers.len() >= STRANGERS
            && let Some((_, oldest)) = guests.strangers.pop_front()
        {
            oldest.abort();
        }
        let shelf = self.clone();
        let task = peers.spawn(async move { shelf.serve(incoming, number).await });
        guests.strangers.push_back((number, task));
    }

    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dismiss_strangers(&self) {
        self.guests().strangers.drain(..).for_each(|(_, task)| task.abort());
    }

    /// Serves one peer until it is gone.
    async fn serve(&self, incoming: Incoming, number: u64) {
        let from = incoming.remote_address();
        let admitted = self.admit(incoming).await;
        self.guests().strangers.retain(|(stranger, _)| *stranger != number);
        let Some((connection, _control)) = admitted else {
            debug!(%from, "not let in");
            return;
        };
        let Some(_place) = Place::take(self) else {
            connection.close(CloseCode::Unavailable.into(), b"too many senders");
            return;
        };
        match self.receive_from(&connection).await {
            Ok(received) => _ = self.received.send(received).await,
            Err(why) => say(format_args!("a transfer from {from} failed: {why}")),
        }
        // The sender closes once it has read the answer.
        let _ = timeout(HELLO_TIMEOUT, connection.closed()).await;
        connection.close(CloseCode::Done.into(), b"");
    }

    async fn admit(&self, incoming: Incoming) -> Option<(Connection, (SendStream, RecvStream))> {
        let connection = timeout(HELLO_TIMEOUT, incoming.into_future()).await.ok()?.ok()?;
        let control = self.gate.admit(&connection).await.ok()?.control;
        Some((connection, control))
    }

    async fn receive_from(&self, connection: &Connection) -> Result<Received, String> {
        let lost = |error: &dyn std::fmt::Display| error.to_string();
        let (mut send, mut receive) = timeout(STALL, connection.accept_bi())
            .await
            .map_err(|_| "the sender asked for nothing".to_owned())?
            .map_err(|error| lost(&error))?;
        let outcome = self.take(&mut send, &mut receive).await;
        let reply = match &outcome {
            Ok(_) => Reply::ok(),
            Err(refused) => refused.clone(),
        };
        let _ = write_frame(&mut send, &reply.encode()).await;
        let _ = send.finish();
        outcome.map_err(|refused| refused.text)
    }

    async fn take(&self, send: &mut SendStream, receive: &mut RecvStream) -> Result<Received, Reply> {
        let broken = |error: io::Error| Reply::new(Status::Failed, io_reason(&error));
        let body = timeout(STALL, read_frame(receive, MAX_MESSAGE)).await.ok().and_then(Result::ok).flatten();
        let request = body.as_deref().map(Request::decode);
        let Some(Ok(Request::File { size, name })) = request else {
            return Err(Reply::new(Status::Unsupported, "only files are taken here"));
        };
        let name =
            safe_name(&name).ok_or_else(|| Reply::new(Status::Failed, "the file has no usable name"))?;
        let path = self.out.join(&name);
        let busy = |_| Reply::new(Status::TooMany, "another file is arriving there");
        let mut arrived = timeout(TURN, self.arrived.lock()).await.map_err(busy)?;
        if *arrived {
            let text = "another file arrived there first, and it takes one; have it started again";
            return Err(Reply::new(Status::TooMany, text));
        }
        let there = fs::symlink_metadata(&path).await.ok();
        if self.force && there.as_ref().is_some_and(std::fs::Metadata::is_dir) {
            return Err(Reply::new(Status::Failed, format_args!("{name} is a directory there")));
        }
        if !self.force && there.is_some() {
            return Err(Reply::new(
                Status::Exists,
                format_args!("{name} exists there; the receiver needs --force to replace it"),
            ));
        }
        let mut part = Part::create(&self.out, &name).map_err(broken)?;
        write_frame(send, &Reply::ok().encode()).await.map_err(broken)?;
        let start = tokio::time::Instant::now();
        let sha256 = copy(receive, &mut part.file, size, &name).await?;
        let took = start.elapsed();
        part.publish(&path, self.force).await.map_err(|unpublished| not_named(&name, &unpublished))?;
        *arrived = true;
        Ok(Received { path, size, took, sha256 })
    }
}

/// The place of a peer that may send.
struct Place<'a>(&'a Shelf);

impl<'a> Place<'a> {
    fn take(shelf: &'a Shelf) -> Option<Self> {
        let mut guests = shelf.guests();
        (guests.senders < SENDERS).then(|| {
            guests.senders += 1;
            Self(shelf)
        })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.guests().senders -= 1;
    }
}

/// What the sender hears of a file that arrived whole and could not be named; where it is, is for
/// this side alone.
fn not_named(name: &str, Unpublished { error, kept }: &Unpublished) -> Reply {
    say(format_args!("cannot name {name}: {}; the whole file is {}", io_reason(error), kept.display()));
    match error.kind() {
        io::ErrorKind::AlreadyExists => Reply::new(
            Status::Exists,
            format_args!("{name} exists there by now; the file was kept under another name"),
        ),
        _ => Reply::new(
            Status::Failed,
            format_args!("{}; the file was kept under another name", io_reason(error)),
        ),
    }
}

/// Copies `size` bytes and compares what they hash to with the checksum that follows.
async fn copy(
    receive: &mut RecvStream,
    file: &mut fs::File,
    size: u64,
    name: &str,
) -> Result<[u8; CHECKSUM_BYTES], Reply> {
    let stalled = |_| Reply::new(Status::TimedOut, "nothing arrived for a minute");
    let broken = |error: io::Error| Reply::new(Status::Failed, io_reason(&error));
    let lost = |error: io::Error| match error.get_ref().and_then(|cause| cause.downcast_ref()) {
        // It is told to end, or cannot read the file.
        Some(ConnectionError::ApplicationClosed { .. }) => {
            Reply::new(Status::Failed, "the sender has stopped")
        }
        _ => broken(error),
    };
    let bar = progress(size, BAR).with_message(name.to_owned());
    let mut hash = digest::Context::new(&digest::SHA256);
    let mut chunk = vec![0; CHUNK];
    let mut left = size;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let read = timeout(STALL, receive.read(&mut chunk[..most])).await.map_err(stalled)?;
        let Some(n) = read.map_err(|error| lost(error.into()))? else {
            return Err(Reply::new(Status::Damaged, format_args!("{left} bytes are missing")));
        };
        hash.update(&chunk[..n]);
        file.write_all(&chunk[..n]).await.map_err(broken)?;
        left -= n as u64;
        bar.inc(n as u64);
    }
    bar.finish_and_clear();
    let mut expected = [0; CHECKSUM_BYTES];
    timeout(STALL, receive.read_exact(&mut expected)).await.map_err(stalled)?.map_err(lost)?;
    if hash.finish().as_ref() != expected {
        return Err(Reply::new(Status::Damaged, "the bytes do not match their SHA-256"));
    }
    settle(file).await.map_err(broken)?;
    Ok(expected)
}
