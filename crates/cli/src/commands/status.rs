//! `mendpath status`.

use std::{
    collections::VecDeque,
    io::IsTerminal as _,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize as _;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::UnixStream,
    time::timeout,
};

use super::{Signals, print};
use crate::{
    args::StatusArgs,
    console::{say, show},
    failure::{Failure, io_reason},
    status::{Snapshot, all_places, running, screen},
};

/// For an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Snapshots that charts show.
const CHARTED: usize = 60;
/// Uses the terminal's other screen, from its top left; what was there comes back at the end.
const OPEN: &str = "\x1b[?1049h\x1b[?25l";
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K\r\n";
const REST_OF_SCREEN: &str = "\x1b[J";
const CLOSE: &str = "\x1b[?25h\x1b[?1049l";

pub(super) async fn run(args: StatusArgs) -> Result<(), Failure> {
    let found = find(args.socket, "cannot show the status").await?;
    if !args.watch {
        return show_each(found, args.json, print).await;
    }
    let names: Vec<_> = found.iter().map(|(path, _)| path.display().to_string()).collect();
    let Ok([(path, stream)]) = <[_; 1]>::try_from(found) else {
        return Err(Failure::usage(
            "cannot watch all of them",
            format_args!("there are {}", names.join(", ")),
            "Name one of these with --socket",
        ));
    };
    let mut lines = ask(&path, stream, "watch").await?;
    let form = match args.json {
        true => Form::Json,
        false if std::io::stdout().is_terminal() => Form::Screen,
        false => Form::Text,
    };
    let mut signals = Signals::new();
    if form == Form::Screen {
        print(OPEN)?;
    }
    let ended = tokio::select! {
        ended = watch(&mut lines, &path, form) => ended,
        _ = signals.next() => Ok(()),
    };
    if form == Form::Screen {
        print(CLOSE)?;
    }
    ended
}

/// How what is watched is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As it comes, an object a line.
    Json,
    /// For people, one below the other.
    Text,
    /// For people, each in the place of the one before.
    Screen,
}

/// Whom to tell something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Client,
    Server,
}

impl Kind {
    /// The words that such processes' sockets begin with.
    fn roles(self) -> &'static [&'static str] {
        match self {
            // All have paths of their own; what `mendpath serve` runs has none, and is no such server.
            Self::Client => &["client", "run", "tunnel"],
            Self::Server => &["server"],
        }
    }

    /// Whether `socket` is one of such a process.
    fn has(self, socket: &Path) -> bool {
        let name = socket.file_name().unwrap_or_default().to_string_lossy();
        name.split_once('-').is_some_and(|(role, _)| self.roles().contains(&role))
    }
}

/// Somebody who was told something.
pub(super) struct Told {
    /// What it said.
    pub(super) answer: serde_json::Value,
    lines: Lines<BufReader<UnixStream>>,
}

impl Told {
    /// Waits until it is gone.
    pub(super) async fn ended(mut self) {
        while let Ok(Some(_)) = self.lines.next_line().await {}
    }
}

/// Tells the client with this socket, or the only one there is, and returns its answer.
pub(super) async fn tell_client(socket: Option<PathBuf>, word: &str) -> Result<String, Failure> {
    let (path, stream) = the_only(socket, Kind::Client).await?;
    answer_of(&path, stream, word).await
}

/// Tells the server with this socket, or the only one there is.
pub(super) async fn tell_server(socket: Option<PathBuf>, word: &str) -> Result<Told, Failure> {
    let (path, stream) = the_only(socket, Kind::Server).await?;
    let mut lines = ask(&path, stream, word).await?;
    let answer: serde_json::Value =
        serde_json::from_str(&answer(&mut lines, &path).await?).unwrap_or_default();
    match answer["error"].as_str() {
        Some(error) => Err(Failure::new(
            format!("cannot tell the process at {}", path.display()),
            error,
            "Use the same version for both, or name a server's socket with --socket",
        )),
        None => Ok(Told { answer, lines }),
    }
}

/// The process with this socket, or the only one of its kind.
async fn the_only(socket: Option<PathBuf>, kind: Kind) -> Result<(PathBuf, UnixStream), Failure> {
    let what = if kind == Kind::Client { "client" } else { "server" };
    let mut clients = find(socket.clone(), &format!("cannot tell the {what}")).await?;
    if socket.is_none() {
        clients.retain(|(path, _)| kind.has(path));
    }
    let names: Vec<_> = clients.iter().map(|(path, _)| path.display().to_string()).collect();
    let Ok([only]) = <[_; 1]>::try_from(clients) else {
        let (wrong, next) = match names.as_slice() {
            [] => (format!("no {what} of this user runs"), "Start one, or name one with --socket"),
            names => (format!("there are {}", names.join(", ")), "Name one with --socket"),
        };
        return Err(Failure::usage(format!("cannot tell which {what}"), wrong, next));
    };
    Ok(only)
}

/// Until the process ends, or nobody looks any more.
async fn watch(lines: &mut Lines<BufReader<UnixStream>>, path: &Path, form: Form) -> Result<(), Failure> {
    let mut before: VecDeque<Snapshot> = VecDeque::new();
    loop {
        let line = next(lines, path).await?;
        if form == Form::Json {
            if !show(&format!("{line}\n"))? {
                return Ok(());
            }
            continue;
        }
        let now = read(&line)?;
        let text = screen(&now, before.make_contiguous());
        let somebody_looks = match form {
            Form::Screen => {
                let text = fitting(&text, size()).replace('\n', REST_OF_LINE);
                show(&format!("{HOME}{text}{REST_OF_SCREEN}"))
            }
            Form::Json | Form::Text => show(&format!("{text}\n")),
        };
        if !somebody_looks? {
            return Ok(());
        }
        if before.len() == CHARTED {
            before.pop_front();
        }
        before.push_back(now);
    }
}

/// Rows and columns of the terminal; without end where it does not say.
fn size() -> (usize, usize) {
    let known = |cells: u16| if cells == 0 { usize::MAX } else { cells.into() };
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.map_or((usize::MAX, usize::MAX), |size| (known(size.ws_row), known(size.ws_col)))
}

/// The lines that a terminal of so many rows and columns can show, from the first on, with a row for the
/// cursor: what is more would push the first ones out.
fn fitting(text: &str, (rows, columns): (usize, usize)) -> &str {
    let (mut left, mut end) = (rows.saturating_sub(1), 0);
    for line in text.split_inclusive('\n') {
        let takes = line.trim_end().chars().count().div_ceil(columns).max(1);
        if takes > left {
            break;
        }
        (left, end) = (left - takes, end + line.len());
    }
    &text[..end]
}

/// Shows what each process says. Who does not answer, or in another version's words, keeps nobody from
/// seeing the others; of several such the last is what the command fails with.
async fn show_each(
    found: Vec<(PathBuf, UnixStream)>,
    json: bool,
    mut put: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (mut between, mut failed) = ("", None);
    for (path, stream) in found {
        let told = answer_of(&path, stream, "status").await.and_then(|line| match json {
            true => Ok(format!("{line}\n")),
            false => Ok(format!("{between}{}", screen(&read(&line)?, &[]))),
        });
        match told {
            Ok(text) => {
                put(&text)?;
                between = if json { "" } else { "\n" };
            }
            Err(failure) => {
                if let Some(before) = failed.replace(failure) {
                    say(format_args!("error: {before}"));
                }
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

/// The snapshots of all processes of this user; those that do not answer are left out.
pub(super) async fn snapshots() -> Vec<(PathBuf, Snapshot)> {
    let mut snapshots = Vec::new();
    for (path, stream) in running(&all_places()).await {
        let line = answer_of(&path, stream, "status").await;
        if let Ok(snapshot) = line.and_then(|line| read(&line)) {
            snapshots.push((path, snapshot));
        }
    }
    snapshots
}

/// The processes to ask: the one at `socket`, or all of this user's.
async fn find(socket: Option<PathBuf>, tried: &str) -> Result<Vec<(PathBuf, UnixStream)>, Failure> {
    if let Some(path) = socket {
        let stream = UnixStream::connect(&path).await.map_err(|error| unreachable(&path, &error))?;
        return Ok(vec![(path, stream)]);
    }
    let (places, found) = (all_places(), running(&all_places()).await);
    if found.is_empty() {
        let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        return Err(Failure::new(
            tried,
            format_args!(
                "no client or server of this user runs: there is no socket in {}",
                places.join(" or ")
            ),
            "Start `mendpath client` or `mendpath server`, or ask as the user who did",
        ));
    }
    Ok(found)
}

async fn ask(
    path: &Path,
    mut stream: UnixStream,
    word: &str,
) -> Result<Lines<BufReader<UnixStream>>, Failure> {
    let asked = stream.write_all(format!("{word}\n").as_bytes()).await;
    asked.map_err(|error| unreachable(path, &error))?;
    Ok(BufReader::new(stream).lines())
}

/// What the process at `path` answers.
async fn answer_of(path: &Path, stream: UnixStream, word: &str) -> Result<String, Failure> {
    answer(&mut ask(path, stream, word).await?, path).await
}

/// The first line of an answer, which comes at once, but not from a process that is stopped (Ctrl-Z).
async fn answer(lines: &mut Lines<BufReader<UnixStream>>, path: &Path) -> Result<String, Failure> {
    let late = |_| Err(unreachable(path, &std::io::Error::other("it does not answer")));
    timeout(PATIENCE, next(lines, path)).await.unwrap_or_else(late)
}

async fn next(lines: &mut Lines<BufReader<UnixStream>>, path: &Path) -> Result<String, Failure> {
    match lines.next_line().await {
        Ok(Some(line)) => Ok(line),
        Ok(None) => Err(unreachable(path, &std::io::Error::other("it has ended"))),
        Err(error) => Err(unreachable(path, &error)),
    }
}

fn unreachable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(
        format!("cannot ask the process at {}", path.display()),
        io_reason(error),
        "Check that it runs, and as which user",
    )
}

/// Reads an answer, which may be a refusal.
fn read(line: &str) -> Result<Snapshot, Failure> {
    let failed =
        |wrong: String| Failure::new("cannot show the status", wrong, "Use the same version for both");
    let value: serde_json::Value = serde_json::from_str(line).map_err(|error| failed(error.to_string()))?;
    match value["error"].as_str() {
        Some(error) => Err(failed(error.to_owned())),
        None => Snapshot::deserialize(value).map_err(|error| failed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Live, Role, ServerRow};

    #[tokio::test(start_paused = true)]
    async fn who_is_stopped_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("client-1.sock");
        let _stopped = tokio::net::UnixListener::bind(&path).unwrap();
        let stream = UnixStream::connect(&path).await.unwrap();
        let answer = timeout(Duration::from_secs(60), answer_of(&path, stream, "status")).await;
        let failure = answer.expect("it is given up").unwrap_err().to_string();
        assert!(failure.contains("client-1.sock: it does not answer. "), "{failure}");
    }

    /// Of another version, as after an upgrade, or stopped.
    #[tokio::test(start_paused = true)]
    async fn who_cannot_be_shown_hides_no_other() {
        let role = Role::Server(ServerRow::default());
        let snapshot = Live::new(true).snapshot(role, None, Duration::ZERO, Vec::new());
        let answers = [Some("{}".to_owned()), None, Some(serde_json::to_string(&snapshot).unwrap())];
        let (mut found, mut held) = (Vec::new(), Vec::new());
        for answer in answers {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            if let Some(answer) = answer {
                theirs.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
            found.push((PathBuf::from("server-1.sock"), ours));
            held.push(theirs);
        }
        let mut shown = 0;
        let result = show_each(found, false, |_| {
            shown += 1;
            Ok(())
        });
        let failure = result.await.unwrap_err().to_string();
        assert!(failure.contains("it does not answer"), "{failure}");
        assert_eq!(shown, 1);
    }

    #[test]
    fn a_screen_begins_with_what_comes_first_however_small_the_terminal() {
        let text = "head\na line longer than twenty\n\npath\nevents\n";
        let seen = |rows, columns| fitting(text, (rows, columns)).lines().next_back();
        assert_eq!(fitting(text, (usize::MAX, usize::MAX)), text);
        assert_eq!((seen(6, 80), seen(5, 80)), (Some("events"), Some("path")));
        assert_eq!((seen(5, 20), seen(3, 20)), (Some(""), Some("head")), "a long line takes two rows");
        assert_eq!(seen(1, 80), None);
    }

    #[test]
    fn only_clients_are_told_of_paths() {
        for (socket, client, server) in [
            ("/run/mendpath/client-1.sock", true, false),
            ("/run/mendpath/run-1.sock", true, false),
            ("/run/mendpath/tunnel-1.sock", true, false),
            ("/run/mendpath/server-1.sock", false, true),
            ("/run/mendpath/web-1.sock", false, false),
        ] {
            let socket = Path::new(socket);
            assert_eq!((Kind::Client.has(socket), Kind::Server.has(socket)), (client, server), "{socket:?}");
        }
    }
}
