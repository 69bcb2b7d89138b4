//! The Unix socket through which `mendpath status` asks a running client or server.
//!
//! It lies in a directory of its user's, and answers that user and root alone. Who connects says
//! one line, `status` or `watch`, and gets one snapshot or one a second, each a line of JSON; or
//! `path` and an order in JSON, which a client follows; or `drain`, which a server does, with the
//! seconds that this may take if they are not to be the server's own.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustix::process::getuid;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    time::timeout,
};
use tracing::debug;

use super::{EventKind, Feed, Order, Running};

/// Who may ask at a time; one more waits.
const ASKERS: usize = 16;
/// For saying what is wanted, and for reading each answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest word that is listened to.
const MAX_WORD: u64 = 4_096;

/// A socket that answers; it is gone once this is dropped.
pub(crate) struct Control {
    listener: UnixListener,
    path: PathBuf,
}

/// Where sockets may be, the best place first: systemd's directory of the service, the user's, the
/// system's.
pub(crate) fn places() -> Vec<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    // On macOS it is of the user alone, and there is no other such place.
    let temporary = if cfg!(target_vendor = "apple") { absolute("TMPDIR") } else { None };
    let of_user = absolute("XDG_RUNTIME_DIR").or(temporary).map(|dir| dir.join("mendpath"));
    let mut places: Vec<PathBuf> = absolute("RUNTIME_DIRECTORY").into_iter().chain(of_user).collect();
    let system = of_system(["/run", "/var/run"]);
    if !places.contains(&system) {
        places.push(system);
    }
    places
}

/// The same, and those of the services, which root can ask.
pub(crate) fn all_places() -> Vec<PathBuf> {
    let services = ["client", "server", "tunnel"].map(|role| PathBuf::from(format!("/run/mendpath-{role}")));
    let mut places = places();
    places.extend(services);
    places
}

/// The system's place, in the first that is there: OpenWrt had no /run for long, macOS has none.
fn of_system(runs: [&str; 2]) -> PathBuf {
    let run = runs.into_iter().find(|run| Path::new(run).is_dir());
    Path::new(run.unwrap_or(runs[0])).join("mendpath")
}

impl Control {
    /// Makes the socket of this process in the first of `places` that can be used. `role` is
    /// `client` or `server`.
    ///
    /// # Errors
    /// Why the last of them cannot.
    pub(crate) fn bind(places: &[PathBuf], role: &str) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for place in places {
            match Self::bind_in(place, role) {
                Ok(control) => return Ok(control),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn bind_in(place: &Path, role: &str) -> io::Result<Self> {
        match fs::DirBuilder::new().mode(0o700).create(place) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let found = fs::symlink_metadata(place)?;
        // In a directory of others, or that others may write to, the socket could be theirs.
        if !found.is_dir() || found.uid() != getuid().as_raw() || found.mode() & 0o022 != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let path = place.join(format!("{role}-{}.sock", std::process::id()));
        // A process of the same number may have been killed.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(Self { listener, path })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Answers for as long as the process runs.
    pub(crate) async fn serve(self, feed: Arc<Feed>) {
        let seats = Arc::new(Semaphore::new(ASKERS));
        loop {
            let Ok(seat) = seats.clone().acquire_owned().await else { return };
            let Ok((stream, _)) = self.listener.accept().await else {
                // Too many open files: others may still come.
                crate::backoff::pause(Duration::from_millis(100)).await;
                continue;
            };
            // The socket's mode says the same, but only since it was set.
            if !stream.peer_cred().is_ok_and(|peer| [0, getuid().as_raw()].contains(&peer.uid())) {
                continue;
            }
            let feed = feed.clone();
            tokio::spawn(async move {
                if let Err(error) = answer(stream, &feed).await {
                    debug!(%error, "asker gone");
                }
                drop(seat);
            });
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

async fn answer(mut stream: UnixStream, feed: &Arc<Feed>) -> io::Result<()> {
    let (read, mut write) = stream.split();
    let mut word = String::new();
    timeout(PATIENCE, BufReader::new(read.take(MAX_WORD)).read_line(&mut word)).await??;
    match word.trim_end() {
        "status" => say(&mut write, &feed.line()).await,
        "watch" => match feed.watch() {
            Some(mut viewer) => loop {
                let line = viewer.line().await;
                say(&mut write, &line).await?;
            },
            None => say(&mut write, r#"{"error":"too many are watching already"}"#).await,
        },
        word => {
            if let Some(order) = word.strip_prefix("path ") {
                return say(&mut write, &follow(order, feed).to_string()).await;
            }
            let Some(time) = drain_time(word) else {
                return say(&mut write, r#"{"error":"say status, watch, path or drain"}"#).await;
            };
            let Some(draining) = feed.drain(time) else {
                return say(&mut write, r#"{"error":"it is no server that could drain"}"#).await;
            };
            let Running { clients, streams } = draining.running;
            let within = draining.seconds();
            let told = serde_json::json!({ "clients": clients, "streams": streams, "within_s": within });
            say(&mut write, &told.to_string()).await?;
            // Who asked may wait here for the end of the process.
            stream.read(&mut [0]).await.map(drop)
        }
    }
}

/// The time that an order to drain asks for; `None` if `word` is none.
fn drain_time(word: &str) -> Option<Option<Duration>> {
    match word.split_once(' ') {
        None if word == "drain" => Some(None),
        Some(("drain", seconds)) => seconds.parse().ok().map(|seconds| Some(Duration::from_secs(seconds))),
        _ => None,
    }
}

/// Passes an order on; answers with the paths that it concerns.
fn follow(order: &str, feed: &Feed) -> serde_json::Value {
    let ordered = || {
        let live = feed.client().ok_or("it is no client: its paths are its clients'")?;
        let order: Order = serde_json::from_str(order).map_err(|error| error.to_string())?;
        let paths: Vec<String> = live.path_names().values().cloned().collect();
        let concerned = live.wishes.order(&order, &paths)?;
        let text = format!("{}: {}, by order of the user", order.names.join(", "), order.change);
        live.journal.note(EventKind::Changed, text);
        feed.outdate();
        Ok::<_, String>(concerned)
    };
    match ordered() {
        Ok(concerned) => serde_json::json!({ "paths": concerned }),
        Err(error) => serde_json::json!({ "error": error }),
    }
}

async fn say(write: &mut (impl tokio::io::AsyncWrite + Unpin), line: &str) -> io::Result<()> {
    timeout(PATIENCE, write.write_all(format!("{line}\n").as_bytes())).await?
}

/// The sockets in `places` behind which a process runs; those that a killed process left are
/// removed.
pub(crate) async fn running(places: &[PathBuf]) -> Vec<(PathBuf, UnixStream)> {
    let mut found = Vec::new();
    for place in places {
        let entries = fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut sockets: Vec<PathBuf> =
            entries.filter(|path| path.extension().is_some_and(|end| end == "sock")).collect();
        sockets.sort();
        for path in sockets {
            match UnixStream::connect(&path).await {
                Ok(stream) => found.push((path, stream)),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    let _ = fs::remove_file(&path);
                }
                Err(error) => debug!(%error, path = %path.display(), "cannot ask"),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Live, Role, ServerRow, Snapshot};

    fn feed() -> Arc<Feed> {
        let live = Live::new(true);
        Feed::new(move || live.snapshot(Role::Server(ServerRow::default()), None, Duration::ZERO, Vec::new()))
    }

    #[test]
    fn where_there_is_no_run_the_older_place_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().to_str().unwrap();
        assert_eq!(of_system(["/nowhere/run", there]), dir.path().join("mendpath"));
        assert_eq!(of_system([there, "/nowhere/run"]), dir.path().join("mendpath"));
        assert_eq!(of_system(["/nowhere/run", "/nowhere/var"]), Path::new("/nowhere/run/mendpath"));
    }

    async fn asked(stream: &mut UnixStream, word: &str) -> String {
        stream.write_all(word.as_bytes()).await.unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).await.unwrap();
        line
    }

    #[tokio::test]
    async fn its_user_is_answered_and_nothing_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let places = [PathBuf::from("/proc/mendpath"), dir.path().join("mendpath")];
        let control = Control::bind(&places, "server").unwrap();
        let (path, mode) = (control.path().to_owned(), |path: &Path| fs::metadata(path).unwrap().mode());
        assert_eq!((mode(&path) & 0o777, mode(&places[1]) & 0o777), (0o600, 0o700));
        // What a killed process leaves behind.
        drop(std::os::unix::net::UnixListener::bind(places[1].join("client-1.sock")).unwrap());
        let serving = tokio::spawn(control.serve(feed()));

        let mut found = running(&places).await;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, path);
        let line = asked(&mut found[0].1, "status\n").await;
        let snapshot: Snapshot = serde_json::from_str(&line).unwrap();
        assert!(matches!(snapshot.role, Role::Server(_)), "{line}");
        let mut other = UnixStream::connect(&path).await.unwrap();
        assert!(asked(&mut other, "dance\n").await.contains("error"));
        let mut watching = UnixStream::connect(&path).await.unwrap();
        assert!(asked(&mut watching, "watch\n").await.starts_with("{\"schema\""));

        serving.abort();
        assert!(serving.await.unwrap_err().is_cancelled());
        assert_eq!(fs::read_dir(&places[1]).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_directory_that_others_may_write_to_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Control::bind(&[dir.path().to_owned()], "client").is_err());
    }
}
