//! A browser that loads a page again and again: Chromium, driven by a script of Node.js.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
};

use serde::Deserialize;
use units::Duration;

use crate::{
    Cancel, LabError, Web,
    bed::{Namespace, SERVER},
    clock::Moment,
    leftovers::RunDirectory,
    processes,
};

const SCRIPTS: [(&str, &str); 2] = [
    ("chromium.mjs", include_str!("../browser/chromium.mjs")),
    ("page.mjs", include_str!("../browser/page.mjs")),
];
/// What Chromium is called where.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// How long a browser may take to start and to reach its server.
const START: Duration = Duration::from_secs(60);
/// How much longer than its limit a load may take to be given up.
const GRACE: Duration = Duration::from_secs(10);

/// The page, and what it is served with.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Site {
    pub(crate) root: PathBuf,
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    /// What Chromium knows the key by.
    hash: String,
    /// Bytes of all parts.
    pub(crate) payload_bytes: u64,
    /// The page itself and everything that it names.
    pub(crate) parts: u32,
    #[serde(skip)]
    script: PathBuf,
    #[serde(skip)]
    chromium: PathBuf,
}

/// What one load came to.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Load {
    pub(crate) load_ms: f64,
    pub(crate) first_byte_ms: f64,
    pub(crate) received_bytes: u64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Failed { error: String },
    Loaded(Load),
    Ready {},
}

impl Site {
    /// Makes a page; `browser` will load it, or one that is on the `PATH`.
    ///
    /// # Errors
    /// [`LabError::Contender`] where there is no Chromium, Node.js or OpenSSL.
    pub(crate) fn new(browser: Option<&Path>, directory: &RunDirectory) -> Result<Self, LabError> {
        let skipped = |reason: String| LabError::Contender { contender: "skipped".to_owned(), reason };
        let chromium = chromium(browser).ok_or_else(|| {
            skipped(
                "there is no Chromium to load pages with: install it, or name it with --browser".to_owned(),
            )
        })?;
        let folder = directory.sub_directory()?;
        for (name, text) in SCRIPTS {
            let file = folder.join(name);
            fs::write(&file, text).map_err(LabError::system(format!("write {}", file.display())))?;
        }
        let script = folder.join("page.mjs");
        let made = Command::new("node").arg(&script).arg("make").arg(&folder).stdin(Stdio::null()).output();
        let made =
            made.map_err(|_| skipped("Node.js drives the browser, and there is no `node`".to_owned()))?;
        let site: Option<Self> = serde_json::from_slice(&made.stdout).ok();
        let site = site.ok_or_else(|| {
            let said = String::from_utf8_lossy(&made.stderr);
            let last = said.lines().rfind(|line| line.contains("Error")).unwrap_or_default().to_owned();
            skipped(format!("no page can be made (is there `openssl`?): {last}"))
        })?;
        Ok(Self { script, chromium, ..site })
    }
}

/// The browser that the user named, or one that is on the `PATH`.
pub(crate) fn chromium(named: Option<&Path>) -> Option<PathBuf> {
    let found = named.map(Path::to_owned).or_else(|| NAMES.iter().find_map(on_path));
    found.filter(|file| file.is_file())
}

/// The program of this name on the `PATH`.
fn on_path(name: &&str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(OsStr::new(name))).find(|file| file.is_file())
}

/// A browser that has loaded the page once; it ends when this is dropped.
pub(crate) struct Browser {
    child: Child,
    orders: ChildStdin,
    answers: Receiver<String>,
    limit: Duration,
}

impl Browser {
    /// Starts one in `namespace`, which gives up on a load after `limit`.
    ///
    /// # Errors
    /// [`LabError::Contender`] if it does not start, or cannot load the page by `protocol`.
    pub(crate) fn start(
        namespace: &Namespace,
        site: &Site,
        protocol: Web,
        limit: Duration,
        directory: &RunDirectory,
        cancel: &Cancel,
    ) -> Result<Self, LabError> {
        let words = serde_json::json!({
            "chromium": site.chromium,
            "protocol": protocol.name(),
            "hash": site.hash,
            "server": SERVER,
            "limit": limit.as_millis(),
        });
        let mut command = Command::new("node");
        command.arg(&site.script).arg("load").arg(words.to_string()).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // It is killed in the end, and so is who would remove the browser's profile: that goes with the run.
        command.env("TMPDIR", directory.sub_directory()?);
        directory.shelter(&mut command, std::env::vars_os().map(|(variable, _)| variable));
        let started = directory.spawn(&mut command, namespace)?;
        let mut child = started.map_err(LabError::system("start the browser's driver"))?;
        let (Some(orders), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failure("it has no pipes".to_owned()));
        };
        let (lines, answers) = channel();
        let read = move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        };
        let follow = std::thread::Builder::new().name("browser".to_owned()).spawn(read);
        follow.map_err(LabError::system("start a thread"))?;
        let browser = Self { child, orders, answers, limit };
        browser.answer(START, cancel)?.map_err(failure)?;
        Ok(browser)
    }

    /// Loads the page; what went wrong is in words.
    ///
    /// # Errors
    /// [`LabError::Interrupted`], or [`LabError::Contender`] if it has ended.
    pub(crate) fn load(&mut self, cancel: &Cancel) -> Result<Result<Load, String>, LabError> {
        self.orders.write_all(b"load\n").map_err(|_| failure("it has ended".to_owned()))?;
        let answer = self.answer(self.limit + GRACE, cancel)?;
        Ok(answer.and_then(|answer| answer.ok_or_else(|| "it answered out of turn".to_owned())))
    }

    /// What it says next; nothing is in it when it is ready.
    fn answer(&self, limit: Duration, cancel: &Cancel) -> Result<Result<Option<Load>, String>, LabError> {
        let start = Moment::now();
        while start.elapsed() < limit {
            cancel.check()?;
            match self.answers.recv_timeout(core::time::Duration::from_millis(50)) {
                Ok(line) => {
                    return Ok(match serde_json::from_str(&line) {
                        Ok(Answer::Loaded(load)) => Ok(Some(load)),
                        Ok(Answer::Ready {}) => Ok(None),
                        Ok(Answer::Failed { error }) => Err(error),
                        Err(_) => Err(format!("it said {line}")),
                    });
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(failure("it has ended".to_owned())),
            }
        }
        Ok(Err(format!("no answer after {limit}")))
    }
}

fn failure(reason: String) -> LabError {
    LabError::Contender { contender: "the browser".to_owned(), reason }
}

impl Drop for Browser {
    fn drop(&mut self) {
        processes::end_group(&mut self.child);
    }
}
