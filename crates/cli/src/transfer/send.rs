//! `mendpath send`: hands one file over to `mendpath receive`.

use std::{
    future::Future,
    io,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use mendpath::{Connection, PathStats, RecvStream};
use ring::digest;
use tokio::{
    fs,
    io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};

use super::{BAR, CHUNK, STALL};
use crate::{
    backoff::pause,
    client::{Demand, DialOptions, Dialled, dial, keep_paths, say_goodbye},
    console::{progress, say, shown},
    failure::{Failure, io_reason},
    protocol::{MAX_MESSAGE, Reply, Request, Status, read_frame, write_frame},
    status::Live,
    target::Target,
    transport::explain,
};

/// A receiver that is free answers sooner. One that is not lets a sender wait for its turn.
const SOON: Duration = Duration::from_secs(2);

/// What to send and where.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// The file.
    pub file: PathBuf,
    /// How to reach the receiver.
    pub dial: DialOptions,
}

/// A file that was delivered and confirmed.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Its size in bytes.
    pub size: u64,
    /// From the first byte to the confirmation.
    pub took: Duration,
    /// What each path did.
    pub paths: Vec<PathStats>,
}

impl Sent {
    /// File bytes per time, in Mbit/s.
    pub fn goodput_mbps(&self) -> f64 {
        self.size as f64 * 8.0 / self.took.as_secs_f64().max(1e-9) / 1e6
    }
}

/// A file that is to be sent.
struct Parcel {
    file: fs::File,
    size: u64,
    name: String,
    /// What to say that could not be done.
    tried: String,
}

/// Sends the file and waits for the receiver's confirmation.
///
/// # Errors
/// When the file cannot be read, or the receiver not be reached, or it refuses or misses something.
pub async fn send(options: SendOptions) -> Result<Sent, Failure> {
    let sent = send_until(options, std::future::pending()).await?;
    Ok(sent.expect("nothing stops it"))
}

/// The same, unless `stopped` is ready before it is done: then the receiver is told that nothing more
/// will come, and the answer is `None`.
///
/// # Errors
/// As [`send`].
pub async fn send_until(
    options: SendOptions,
    stopped: impl Future<Output = ()>,
) -> Result<Option<Sent>, Failure> {
    let parcel = Parcel::open(&options).await?;
    let mut stopped = std::pin::pin!(stopped);
    let dialled = tokio::select! {
        dialled = dial(&options.dial) => dialled.map_err(|(failure, _)| failure)?,
        () = &mut stopped => return Ok(None),
    };
    let Dialled { connection, first_path, host, server: address, control: _control } = dialled;
    let keeper = tokio::spawn({
        let (connection, demand, live) = (connection.clone(), Demand::new(), Live::new(true));
        async move { keep_paths(connection, first_path, address, options.dial.paths, &demand, &live).await }
    });
    let size = parcel.size;
    let delivered = tokio::select! {
        delivered = parcel.deliver(&connection, &host) => Some(delivered),
        () = stopped => None,
    };
    keeper.abort();
    let paths = connection.path_stats();
    // Else the receiver would wait for what is not there any more.
    say_goodbye(&connection).await;
    delivered.transpose().map(|took| took.map(|took| Sent { size, took, paths }))
}

impl Parcel {
    async fn open(options: &SendOptions) -> Result<Self, Failure> {
        let tried = format!("cannot send {}", shown(&options.file));
        let unreadable =
            |error: io::Error| Failure::new(&tried, io_reason(&error), "Name a file that you may read");
        // Before it is opened, which for a pipe would wait for somebody who writes to it.
        if !fs::metadata(&options.file).await.map_err(unreadable)?.is_file() {
            return Err(Failure::new(
                &tried,
                "it is not a regular file",
                "Name a file; pack directories with tar first",
            ));
        }
        let file = fs::File::open(&options.file).await.map_err(unreadable)?;
        let about = file.metadata().await.map_err(unreadable)?;
        let name = options.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { file, size: about.len(), name, tried })
    }

    /// Asks for the receiver's permission, sends, and returns how long that took.
    async fn deliver(mut self, connection: &Connection, server: &Target) -> Result<Duration, Failure> {
        let (mut send, mut receive) =
            connection.open_bi().await.map_err(|error| explain(&error, server).0)?;
        let request = Request::File { size: self.size, name: self.name.clone() };
        let lost = |_: io::Error| {
            Failure::new(&self.tried, "the connection was lost", "Try again; with -v the log says more")
        };
        write_frame(&mut send, &request.encode()).await.map_err(lost)?;
        its_turn(&mut receive, &self.tried).await?;
        let start = tokio::time::Instant::now();
        match self.copy(&mut send).await {
            Err(Stopped::Here(failure)) => return Err(failure),
            // Whatever stopped us, the receiver's answer says it better.
            Err(Stopped::OnTheWay(failure)) => {
                granted(&mut receive, &self.tried).await?;
                return Err(failure);
            }
            Ok(()) => granted(&mut receive, &self.tried).await?,
        }
        Ok(start.elapsed())
    }
}

/// Waits for the permission to send, and tells the user if that takes long.
async fn its_turn(receive: &mut RecvStream, tried: &str) -> Result<(), Failure> {
    let mut granted = std::pin::pin!(granted(receive, tried));
    tokio::select! {
        granted = &mut granted => return granted,
        () = pause(SOON) => {}
    }
    say("another file is arriving there; waiting");
    granted.await
}

/// Reads an answer.
async fn granted(receive: &mut RecvStream, tried: &str) -> Result<(), Failure> {
    let body = timeout(STALL * 2, read_frame(receive, MAX_MESSAGE)).await.ok().and_then(Result::ok).flatten();
    match body.and_then(|body| Reply::decode(&body).ok()) {
        Some(Reply { status: Status::Ok, .. }) => Ok(()),
        Some(reply) => {
            let next = match reply.status {
                Status::Exists => "Rename it, or ask for --force on the receiving side",
                // Its disk is full, for instance.
                Status::Failed => "Try again once that is put right there",
                _ => "Try again",
            };
            Err(Failure::new(tried, format_args!("the receiver says: {}", reply.text), next))
        }
        None => Err(Failure::new(
            tried,
            "the receiver is gone",
            "Check that `mendpath receive` still runs and try again",
        )),
    }
}

/// Why the bytes ended too soon.
enum Stopped {
    /// The file is to blame.
    Here(Failure),
    /// The connection, or the receiver.
    OnTheWay(Failure),
}

impl Parcel {
    /// Sends as many bytes as were announced and their checksum; of a file that has more or less by
    /// now, or other ones, no checksum, so that nobody takes it for whole.
    async fn copy(&mut self, send: &mut (impl AsyncWrite + Unpin)) -> Result<(), Stopped> {
        let here = |wrong: &str, next: &str| Stopped::Here(Failure::new(&self.tried, wrong, next));
        let unreadable = |error: io::Error| here(&io_reason(&error), "Check the file and try again");
        let lost = |error: io::Error| {
            let next = "Try again; with -v the log says more";
            Stopped::OnTheWay(Failure::new(&self.tried, io_reason(&error), next))
        };
        let written = modified(&self.file).await.map_err(unreadable)?;
        let bar = progress(self.size, BAR).with_message(shown(self.name.as_ref()));
        let mut hash = digest::Context::new(&digest::SHA256);
        let mut chunk = vec![0; CHUNK];
        let mut left = self.size;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            let n = self.file.read(&mut chunk[..most]).await.map_err(unreadable)?;
            if n == 0 {
                let next = "Try again once nobody writes to it";
                return Err(here("it became shorter while it was read", next));
            }
            hash.update(&chunk[..n]);
            send.write_all(&chunk[..n]).await.map_err(lost)?;
            left -= n as u64;
            bar.inc(n as u64);
        }
        // Some files of the system have no size, and yet something in them.
        if self.file.read(&mut chunk[..1]).await.map_err(unreadable)? > 0 {
            let next = "Try again once nobody writes to it, or send a copy";
            return Err(here("it became longer while it was read", next));
        }
        // Half of one version and half of another have the size of either.
        if modified(&self.file).await.map_err(unreadable)? != written {
            let next = "Try again once nobody writes to it, or send a copy";
            return Err(here("it was changed while it was read", next));
        }
        send.write_all(hash.finish().as_ref()).await.map_err(lost)?;
        send.shutdown().await.map_err(lost)?;
        bar.finish_and_clear();
        Ok(())
    }
}

/// When somebody last wrote to it.
async fn modified(file: &fs::File) -> io::Result<SystemTime> {
    file.metadata().await?.modified()
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use super::*;

    /// What is sent of a file of 1 MB to which `change` is done after its first byte has left, and how
    /// that ends.
    async fn sent(change: impl FnOnce(&mut std::fs::File)) -> (Result<(), String>, Vec<u8>) {
        const SIZE: usize = 1 << 20;
        let mut named = tempfile::NamedTempFile::new().unwrap();
        named.write_all(&vec![1; SIZE]).unwrap();
        let written = named.as_file().metadata().unwrap().modified().unwrap();
        named.as_file().set_modified(written - Duration::from_secs(3_600)).unwrap();
        let file = fs::File::open(named.path()).await.unwrap();
        let mut parcel =
            Parcel { file, size: SIZE as u64, name: "file".into(), tried: "cannot send file".into() };
        let (mut there, mut here) = tokio::io::duplex(4096);
        let taking = async {
            let mut taken = vec![there.read_u8().await.unwrap()];
            change(named.as_file_mut());
            there.read_to_end(&mut taken).await.unwrap();
            taken
        };
        let copying = async {
            let copied = parcel.copy(&mut here).await;
            drop(here);
            copied.map_err(|stopped| match stopped {
                Stopped::Here(failure) | Stopped::OnTheWay(failure) => failure.to_string(),
            })
        };
        tokio::join!(copying, taking)
    }

    #[tokio::test]
    async fn of_a_file_that_changes_meanwhile_no_checksum_is_sent() {
        let (whole, bytes) = sent(|_| {}).await;
        assert_eq!((whole, bytes.len()), (Ok(()), (1 << 20) + 32));
        let (changed, bytes) = sent(|file| {
            file.seek(io::SeekFrom::End(-1)).unwrap();
            file.write_all(&[2]).unwrap();
        })
        .await;
        assert!(changed.unwrap_err().contains("it was changed while it was read"));
        assert_eq!((bytes.len(), bytes.last()), (1 << 20, Some(&2)), "as many as before, but other ones");
        let (shorter, _) = sent(|file| file.set_len(1 << 19).unwrap()).await;
        assert!(shorter.unwrap_err().contains("it became shorter while it was read"));
        let (longer, _) = sent(|file| file.set_len(1 << 21).unwrap()).await;
        assert!(longer.unwrap_err().contains("it became longer while it was read"));
    }
}
