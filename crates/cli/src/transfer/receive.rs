//! `mendpath receive`: waits for one file and stores it under a harmless name, complete or not at all.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use mendpath::{Connection, Endpoint, RecvStream, SendStream};
use ring::digest;
use tokio::{
    fs,
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};
use tracing::debug;

use super::{BAR, CHUNK, STALL, safe_name};
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
    gate: Gate,
    invitation: Invitation,
    out: PathBuf,
    force: bool,
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
        let identity = Identity::load_or_create(&options.state)?;
        let transport = options.transport.config(STALL, 4);
        let endpoint = listen(options.listen, &identity, transport, 8)?;
        let listening = endpoint.local_addrs().first().copied().unwrap_or(options.listen);
        let invitation = Invitation {
            token: identity.tokens.invitation_token(Service::Files),
            server: advertised(options.advertise.as_ref(), listening),
            pin: identity.server.pin(),
        };
        let gate = Gate::new(identity.tokens, Service::Files);
        Ok(Self { endpoint, gate, invitation, out: options.out.clone(), force: options.force })
    }

    /// The line that lets a sender in.
    pub fn invitation(&self) -> &Invitation {
        &self.invitation
    }

    /// Waits until one file has arrived. Senders without a token, and transfers that break, do not end it.
    ///
    /// # Errors
    /// When the endpoint fails.
    pub async fn receive_one(&self) -> Result<Received, Failure> {
        loop {
            let Some(connecting) = self.endpoint.accept().await else {
                return Err(Failure::new(
                    "cannot wait for a file",
                    "the endpoint was closed",
                    "Start it again",
                ));
            };
            let from = connecting.remote_address();
            let Ok(Ok(connection)) = timeout(HELLO_TIMEOUT, connecting).await else { continue };
            let Ok(_control) = self.gate.admit(&connection).await else {
                debug!(%from, "not let in");
                continue;
            };
            match self.receive_from(&connection).await {
                Ok(received) => {
                    // The sender closes once it has read the answer.
                    let _ = timeout(HELLO_TIMEOUT, connection.closed()).await;
                    connection.close(CloseCode::Done as u64, b"");
                    return Ok(received);
                }
                Err(why) => {
                    say(format_args!("a transfer from {from} failed: {why}; still waiting"));
                    let _ = timeout(HELLO_TIMEOUT, connection.closed()).await;
                    connection.close(CloseCode::Done as u64, b"");
                }
            }
        }
    }

    /// Closes the endpoint in an orderly way.
    pub async fn close(self) {
        self.endpoint.close(CloseCode::Done as u64, b"");
        let _ = timeout(Duration::from_secs(3), self.endpoint.wait_idle()).await;
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
        if !self.force && fs::symlink_metadata(&path).await.is_ok() {
            return Err(Reply::new(
                Status::Exists,
                format_args!("{name} exists there; the receiver needs --force to replace it"),
            ));
        }
        let mut part = Part::create(&self.out, &name).await.map_err(broken)?;
        write_frame(send, &Reply::ok().encode()).await.map_err(broken)?;
        let start = tokio::time::Instant::now();
        let sha256 = copy(receive, &mut part.file, size, &name).await?;
        let took = start.elapsed();
        part.publish(&path, self.force).await.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                Reply::new(Status::Exists, format_args!("{name} exists there by now"))
            }
            _ => broken(error),
        })?;
        Ok(Received { path, size, took, sha256 })
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
    let bar = progress(size, BAR).with_message(name.to_owned());
    let mut hash = digest::Context::new(&digest::SHA256);
    let mut chunk = vec![0; CHUNK];
    let mut left = size;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let read = timeout(STALL, receive.read(&mut chunk[..most])).await.map_err(stalled)?;
        let Some(n) = read.map_err(|error| broken(error.into()))? else {
            return Err(Reply::new(Status::Damaged, format_args!("{left} bytes are missing")));
        };
        hash.update(&chunk[..n]);
        file.write_all(&chunk[..n]).await.map_err(broken)?;
        left -= n as u64;
        bar.inc(n as u64);
    }
    bar.finish_and_clear();
    let mut expected = [0; CHECKSUM_BYTES];
    timeout(STALL, receive.read_exact(&mut expected)).await.map_err(stalled)?.map_err(broken)?;
    if hash.finish().as_ref() != expected {
        return Err(Reply::new(Status::Damaged, "the bytes do not match their SHA-256"));
    }
    file.sync_all().await.map_err(broken)?;
    Ok(expected)
}

/// A file under a temporary name; removed unless it is published.
struct Part {
    file: fs::File,
    path: Option<PathBuf>,
}

impl Part {
    async fn create(dir: &Path, name: &str) -> io::Result<Self> {
        let path = dir.join(format!(".{name}.{}.part", std::process::id()));
        let file = fs::OpenOptions::new().write(true).create(true).truncate(true).open(&path).await?;
        Ok(Self { file, path: Some(path) })
    }

    /// Gives it its name; an existing file stays unless `force`.
    async fn publish(mut self, name: &Path, force: bool) -> io::Result<()> {
        let Some(path) = self.path.take() else { return Ok(()) };
        if force {
            return fs::rename(&path, name).await;
        }
        let linked = fs::hard_link(&path, name).await;
        let removed = fs::remove_file(&path).await;
        linked.and(removed)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            let _ = std::fs::remove_file(path);
        }
    }
}
