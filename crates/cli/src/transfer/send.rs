//! `mendpath send`: hands one file over to `mendpath receive`.

use std::{io, path::PathBuf, time::Duration};

use mendpath::{PathStats, RecvStream, SendStream};
use ring::digest;
use tokio::{
    fs,
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::{BAR, CHUNK, STALL};
use crate::{
    client::{DialOptions, Dialled, dial, keep_paths},
    console::progress,
    failure::{Failure, io_reason},
    protocol::{CloseCode, MAX_MESSAGE, Reply, Request, Status, read_frame, write_frame},
    status::Live,
    transport::explain,
};

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

/// Sends the file and waits for the receiver's confirmation.
///
/// # Errors
/// When the file cannot be read, or the receiver not be reached, or it refuses or misses something.
pub async fn send(options: SendOptions) -> Result<Sent, Failure> {
    let tried = format!("cannot send {}", options.file.display());
    let unreadable =
        |error: io::Error| Failure::new(&tried, io_reason(&error), "Name a file that you may read");
    let file = fs::File::open(&options.file).await.map_err(unreadable)?;
    let about = file.metadata().await.map_err(unreadable)?;
    if !about.is_file() {
        return Err(Failure::new(
            &tried,
            "it is not a regular file",
            "Name a file; pack directories with tar first",
        ));
    }
    let name = options.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let specs = options.dial.paths.clone();
    let Dialled { connection, first_path, host: server, server: address, control } =
        dial(&options.dial).await.map_err(|(failure, _)| failure)?;
    let keeper = tokio::spawn({
        let (connection, live) = (connection.clone(), Live::new(true));
        async move { keep_paths(connection, first_path, address, specs, &live).await }
    });

    let delivered = async {
        let (mut send, mut receive) =
            connection.open_bi().await.map_err(|error| explain(&error, &server).0)?;
        let request = Request::File { size: about.len(), name: name.clone() };
        let lost = |_: io::Error| {
            Failure::new(&tried, "the connection was lost", "Try again; with -v the log says more")
        };
        write_frame(&mut send, &request.encode()).await.map_err(lost)?;
        granted(&mut receive, &tried).await?;
        let start = tokio::time::Instant::now();
        let copied = copy(file, &mut send, about.len(), &name, &tried).await;
        // Whatever stopped us, the receiver's answer says it better.
        granted(&mut receive, &tried).await?;
        copied?;
        Ok::<_, Failure>(start.elapsed())
    }
    .await;
    keeper.abort();
    let paths = connection.path_stats();
    drop(control);
    connection.close(CloseCode::Done.into(), b"");
    Ok(Sent { size: about.len(), took: delivered?, paths })
}

/// Reads an answer.
async fn granted(receive: &mut RecvStream, tried: &str) -> Result<(), Failure> {
    let body = timeout(STALL * 2, read_frame(receive, MAX_MESSAGE)).await.ok().and_then(Result::ok).flatten();
    match body.and_then(|body| Reply::decode(&body).ok()) {
        Some(Reply { status: Status::Ok, .. }) => Ok(()),
        Some(reply) => {
            let next = match reply.status {
                Status::Exists => "Rename it, or ask for --force on the receiving side",
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

async fn copy(
    mut file: fs::File,
    send: &mut SendStream,
    size: u64,
    name: &str,
    tried: &str,
) -> Result<(), Failure> {
    let unreadable =
        |error: io::Error| Failure::new(tried, io_reason(&error), "Check the file and try again");
    let lost =
        |error: io::Error| Failure::new(tried, io_reason(&error), "Try again; with -v the log says more");
    let bar = progress(size, BAR).with_message(name.to_owned());
    let mut hash = digest::Context::new(&digest::SHA256);
    let mut chunk = vec![0; CHUNK];
    let mut left = size;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let n = file.read(&mut chunk[..most]).await.map_err(unreadable)?;
        if n == 0 {
            send.shutdown().await.map_err(lost)?;
            return Err(Failure::new(
                tried,
                "it became shorter while it was read",
                "Try again once nobody writes to it",
            ));
        }
        hash.update(&chunk[..n]);
        send.write_all(&chunk[..n]).await.map_err(|error| lost(error.into()))?;
        left -= n as u64;
        bar.inc(n as u64);
    }
    send.write_all(hash.finish().as_ref()).await.map_err(|error| lost(error.into()))?;
    send.shutdown().await.map_err(lost)?;
    bar.finish_and_clear();
    Ok(())
}
