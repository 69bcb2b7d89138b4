//! A table of nftables. Others change the packet filter, too: a firewall that is reloaded begins with
//! `flush ruleset`, which takes every table away, and with ours what may leave this machine or be
//! forwarded. The kernel tells of changes, and ours is put back.

use std::{
    convert::Infallible,
    env::{split_paths, var_os},
    ffi::OsStr,
    future::pending,
    io::{self, Write as _},
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::FutureExt as _;
use netlink_sys::{AsyncSocket, AsyncSocketExt as _, TokioSocket, protocols::NETLINK_NETFILTER};
use tracing::debug;

use crate::{backoff::pause, console::say, failure::io_reason};

/// The multicast group of changes (`NFNLGRP_NFTABLES`).
const CHANGES: u32 = 7;
/// The program, and where it is although PATH does not lead there: root who came by `su` has another user's.
const NFT: &str = "nft";
const NFT_OF_ROOT: &str = "/usr/sbin/nft";
/// How long changes gather after one was seen to.
const GATHER: Duration = Duration::from_secs(1);

/// A table of ours: it is there until this is dropped.
pub(crate) struct Table {
    name: &'static str,
    set: Arc<Mutex<Option<Set>>>,
}

/// What the table is to be.
struct Set {
    rules: String,
    /// As `nft` lists it, once that is known.
    listed: Option<String>,
}

impl Table {
    /// Makes the table, of the family `inet`, in place of one of this name: at once, so that there is no
    /// moment without. `chains` is what stands between its braces.
    ///
    /// # Errors
    /// What `nft` says, or that there is none.
    pub(crate) fn set(name: &'static str, chains: &str) -> Result<Self, String> {
        let rules = format!("{}table inet {name} {{\n{chains}}}\n", removal(name));
        let set = begin(rules, || list(name), nft)?;
        Ok(Self { name, set: Arc::new(Mutex::new(Some(set))) })
    }

    /// One that a killed process left behind.
    pub(crate) fn left_behind(name: &'static str) -> Self {
        let set = Set { rules: String::new(), listed: None };
        Self { name, set: Arc::new(Mutex::new(Some(set))) }
    }

    /// Has it outlast this.
    pub(crate) fn leave(self) {
        *lock(&self.set) = None;
    }

    /// Puts it back whenever something has changed it.
    pub(crate) fn keep(&self) -> impl Future<Output = Infallible> + Send + 'static {
        keep(self.name, self.set.clone())
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // Whoever keeps it must not put it back afterwards.
        if lock(&self.set).take().is_some() {
            let removed = remove(self.name);
            debug!(?removed, self.name, "table removed");
        }
    }
}

/// Removes the table of this name, if there is one.
///
/// # Errors
/// What `nft` says, or that there is none.
pub(crate) fn remove(name: &str) -> Result<(), String> {
    nft(&removal(name))
}

/// The table of this name as `nft` lists it, if there is one, without what packets change of it.
pub(crate) fn list(name: &str) -> Option<String> {
    let list = ["--stateless", "--terse", "list", "table", "inet", name];
    let listed = program().args(list).stdin(Stdio::null()).output();
    let Output { status, stdout, .. } = listed.ok()?;
    status.success().then(|| String::from_utf8_lossy(&stdout).into_owned())
}

/// Removing what is not there would be an error.
fn removal(name: &str) -> String {
    format!("table inet {name}\ndelete table inet {name}\n")
}

fn lock(set: &Mutex<Option<Set>>) -> MutexGuard<'_, Option<Set>> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn keep(name: &'static str, set: Arc<Mutex<Option<Set>>>) -> Infallible {
    let changes = match changes() {
        Ok(changes) => changes,
        Err(error) => {
            debug!(%error, "the kernel does not tell of changes of the packet filter");
            return pending().await;
        }
    };
    let mut failed = false;
    loop {
        let set = set.clone();
        // Done by a program.
        let done =
            tokio::task::spawn_blocking(move || see_to(name, &mut lock(&set), || list(name), nft)).await;
        match done.unwrap_or(Ok(false)) {
            Ok(true) => {
                say(format_args!(
                    "something changed the packet filter's table {name}; it is as it was again"
                ));
                failed = false;
            }
            Ok(false) => failed = false,
            Err(said) => {
                if !failed {
                    say(said);
                }
                failed = true;
            }
        }
        pause(GATHER).await;
        if !failed {
            heard(&changes).await;
        }
    }
}

/// As [`put_back`], and what to say where that fails.
fn see_to(
    name: &str,
    set: &mut Option<Set>,
    list: impl Fn() -> Option<String>,
    apply: impl Fn(&str) -> Result<(), String>,
) -> Result<bool, String> {
    let was_known = set.as_ref().is_some_and(|set| set.listed.is_some());
    put_back(set, list, apply).map_err(|said| match was_known {
        true => {
            format!("something changed the packet filter's table {name}, and it cannot be put back: {said}")
        }
        false => format!("whether something changes the packet filter's table {name} cannot be seen: {said}"),
    })
}

/// Sets it. How it is listed is seen by setting it once more, lest something changes it meanwhile. Where that
/// fails it is there all the same, until it is removed, and who keeps it finds out.
fn begin(
    rules: String,
    list: impl Fn() -> Option<String>,
    apply: impl Fn(&str) -> Result<(), String>,
) -> Result<Set, String> {
    apply(&rules)?;
    let mut set = Some(Set { rules, listed: None });
    let once_more = put_back(&mut set, list, apply);
    debug!(?once_more, "the table is set");
    Ok(set.expect("nobody has taken it"))
}

/// Whether something had changed it. Of what was not known yet nobody can tell.
fn put_back(
    set: &mut Option<Set>,
    list: impl Fn() -> Option<String>,
    apply: impl Fn(&str) -> Result<(), String>,
) -> Result<bool, String> {
    let Some(set) = set else { return Ok(false) };
    let was_known = set.listed.is_some();
    if was_known && list() == set.listed {
        return Ok(false);
    }
    apply(&set.rules)?;
    let listed = list();
    // Another version of `nft` lists it otherwise, each time. What something has changed meanwhile is not ours.
    if listed != set.listed {
        apply(&set.rules)?;
        if list() == listed {
            set.listed = listed;
        }
    }
    Ok(was_known)
}

fn changes() -> io::Result<TokioSocket> {
    let mut socket = TokioSocket::new(NETLINK_NETFILTER)?;
    socket.socket_mut().bind_auto()?;
    socket.socket_mut().add_membership(CHANGES)?;
    Ok(socket)
}

/// Ends once something has changed, and takes all that is known of it.
async fn heard(changes: &TokioSocket) {
    let mut message = Vec::with_capacity(4_096);
    // What was lost because there was too much of it is news, too.
    let first = changes.recv(&mut message).await;
    debug!(?first, "the packet filter has changed");
    loop {
        message.clear();
        if changes.recv(&mut message).now_or_never().is_none_or(|more| more.is_err()) {
            return;
        }
    }
}

fn program() -> Command {
    Command::new(found(var_os("PATH").as_deref()))
}

/// What to start where PATH is this.
fn found(path: Option<&OsStr>) -> &'static str {
    let is_there = path.is_some_and(|path| split_paths(path).any(|folder| folder.join(NFT).is_file()));
    if is_there { NFT } else { NFT_OF_ROOT }
}

/// Hands a ruleset to `nft`.
fn nft(rules: &str) -> Result<(), String> {
    let spawned = program()
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = spawned.map_err(|error| format!("there is no program `nft`: {}", io_reason(&error)))?;
    // Dropping the pipe ends its input.
    let written = child.stdin.take().map(|mut input| input.write_all(rules.as_bytes()));
    debug!(?written, "rules handed to nft");
    let output = child.wait_with_output().map_err(|error| io_reason(&error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said.lines().next().unwrap_or("nft failed").to_owned())
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn nft_is_found_by_root_who_came_by_su() {
        let folder = tempfile::tempdir().unwrap();
        let path = Some(folder.path().as_os_str());
        assert_eq!(found(path), "/usr/sbin/nft");
        std::fs::write(folder.path().join("nft"), "").unwrap();
        assert_eq!(found(path), "nft");
        assert_eq!(found(None), "/usr/sbin/nft");
    }

    /// As where the system starts no more programs. Nobody would remove a kill switch of which is told that it
    /// could not be set.
    #[test]
    fn a_table_that_is_there_is_ours_whatever_becomes_of_setting_it_once_more() {
        let begun = |fails_at| {
            let turns = Cell::new(0);
            let apply = |_: &str| {
                turns.set(turns.get() + 1);
                if turns.get() == fails_at { Err("no more programs".to_owned()) } else { Ok(()) }
            };
            begin("ours".to_owned(), || Some("as set".to_owned()), apply).map(|set| set.listed)
        };
        assert_eq!(begun(1).err().as_deref(), Some("no more programs"), "there is none");
        assert_eq!(begun(2), Ok(None), "how it is listed is still to be seen");
        assert_eq!(begun(3), Ok(None));
        assert_eq!(begun(0), Ok(Some("as set".to_owned())));
    }

    /// Else it would be told right after the start that something had changed it.
    #[test]
    fn who_keeps_it_finds_out_how_it_is_listed_and_tells_of_no_change() {
        let mut set = Some(Set { rules: "ours".to_owned(), listed: None });
        assert_eq!(put_back(&mut set, || Some("as set".to_owned()), |_| Ok(())), Ok(false));
        assert_eq!(set.and_then(|set| set.listed).as_deref(), Some("as set"));
    }

    /// What could not be looked at may be as it was set.
    #[test]
    fn only_what_was_known_is_told_as_changed() {
        for (listed, changed) in [(None, false), (Some("as set".to_owned()), true)] {
            let mut set = Some(Set { rules: "ours".to_owned(), listed });
            let fails = |_: &str| Err("no more programs".to_owned());
            let said = see_to("ours", &mut set, || None, fails).unwrap_err();
            assert_eq!(said.starts_with("something changed"), changed, "{said}");
            assert!(said.ends_with("no more programs"), "{said}");
        }
    }

    /// Puts back what is listed like this, one after the other, and says what is taken for right then.
    fn taken_for_right<const N: usize>(listed: [&str; N]) -> Option<String> {
        let mut set = Some(Set { rules: "ours".to_owned(), listed: Some("as set".to_owned()) });
        let listed = RefCell::new(listed.into_iter());
        let list = || listed.borrow_mut().next().map(str::to_owned);
        let applied = |rules: &str| {
            assert_eq!(rules, "ours");
            Ok(())
        };
        assert_eq!(put_back(&mut set, list, applied), Ok(true));
        assert_eq!(listed.borrow_mut().next(), None, "looked at as often as that");
        set.unwrap().listed
    }

    /// Else a kill switch would stay open for good.
    #[test]
    fn what_is_changed_again_while_it_is_put_back_is_not_taken_for_right() {
        assert_eq!(taken_for_right(["changed", "as set"]).as_deref(), Some("as set"));
        assert_eq!(taken_for_right(["changed", "changed again", "as set"]).as_deref(), Some("as set"));
        assert_eq!(taken_for_right(["changed", "again", "and again"]).as_deref(), Some("as set"));
        assert_eq!(
            taken_for_right(["in other words", "in other words", "in other words"]).as_deref(),
            Some("in other words")
        );
    }
}
