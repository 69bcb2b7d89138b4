//! The command's own process, until it becomes the command: makes the namespaces, and in them the
//! device.
//!
//! A process may enter a user namespace while it has one thread only, so this runs before anything
//! else in a process of its own, whose first argument says what it is for.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{self, Write as _},
    os::{
        fd::AsFd as _,
        unix::{fs::PermissionsExt as _, process::CommandExt as _},
    },
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use nix::sched::{CloneFlags, unshare};
use rustix::{
    mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change},
    process::{Pid, Signal, getegid, geteuid, getppid, set_parent_process_death_signal},
};

use super::{
    Parent, forbidden,
    handover::Child,
    links::{self, Purpose},
    plan::{PEER, PEER_V6},
};
use crate::{
    console::say,
    failure::{Failure, io_reason},
    invitation::INVITATION_VARIABLE,
};

/// What such a process is called; nothing that a user types.
const CALLED: &str = "mendpath: about to run";

/// As `env` and shells have it: the command was not found, or cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;

/// Where programs ask for names other than by DNS; in the namespace there is nobody. What they
/// would get to know there were the names of the network outside, past the tunnel.
const SERVICES: [&str; 2] = ["/run/systemd/resolve", "/run/nscd"];
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Starts such a process for `command`.
///
/// # Errors
/// When the system starts none.
pub(crate) fn start(command: &[OsString]) -> io::Result<(Parent, std::process::Child)> {
    let (parent, socket) = Parent::new()?;
    let mut process = Command::new("/proc/self/exe");
    process.arg0(CALLED).args(command).stdin(Stdio::from(socket));
    // A secret, and of no use to the command: what it says of its surroundings goes into reports and logs.
    process.env_remove(INVITATION_VARIABLE);
    let child = process.spawn()?;
    parent.give_input(io::stdin().as_fd())?;
    Ok((parent, child))
}

/// Does all this if the process was started for it, and returns only if the command was not
/// started.
pub fn main() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    if arguments.next().as_deref() != Some(OsStr::new(CALLED)) {
        return None;
    }
    let command: Vec<OsString> = arguments.collect();
    Some(ExitCode::from(become_command(&command)))
}

/// Returns the exit code if that fails.
fn become_command(command: &[OsString]) -> u8 {
    let parent = getppid();
    let Ok(socket) = io::stdin().as_fd().try_clone_to_owned() else { return NOT_RUN };
    let child = Child::new(socket);
    let Ok(input) = child.take_input() else { return NOT_RUN };
    let made = enter().and_then(|()| {
        links::make(Purpose::Namespace).map_err(|(step, error)| forbidden::explain(step, &error))
    });
    let given = match made {
        Ok(ends) => child.give_ends(&ends),
        Err(failure) => {
            child.fail(&failure);
            return NOT_RUN;
        }
    };
    let Ok(addresses) = given.and_then(|()| child.may_go()) else { return NOT_RUN };
    if let Some(addresses) = addresses
        && let Err((step, error)) = links::take_addresses(addresses, true)
    {
        say(forbidden::explain(step, &error));
        return NOT_RUN;
    }
    if rustix::stdio::dup2_stdin(&input).is_err() {
        return NOT_RUN;
    }
    drop(input);
    end_with(parent);
    let Some((program, arguments)) = command.split_first() else { return NOT_RUN };
    let error = Command::new(program).args(arguments).exec();
    say(Failure::new(
        format!("cannot run `{}`", program.display()),
        io_reason(&error),
        "Name a program of this machine after --",
    ));
    if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN }
}

/// Without whoever carries its packets the command would wait for ever.
fn end_with(parent: Option<Pid>) {
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    if getppid() != parent {
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::TERM);
    }
}

/// Enters namespaces of its own, as the same user.
fn enter() -> Result<(), Failure> {
    let (user, group) = (geteuid(), getegid());
    let inner = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS;
    // Root needs no other users.
    let as_root = user.is_root() && unshare(inner).is_ok();
    if !as_root {
        let wrong = |error: io::Error| forbidden::explain("make namespaces for the command", &error);
        unshare(inner | CloneFlags::CLONE_NEWUSER).map_err(|error| wrong(error.into()))?;
        map(user.as_raw(), group.as_raw()).map_err(wrong)?;
    }
    let _ = fs::write("/proc/sys/net/ipv4/ping_group_range", format!("{0} {0}", group.as_raw()));
    names().map_err(|error| forbidden::explain("give the command a name server", &error))
}

/// The same user and group as outside (user_namespaces(7)).
fn map(user: u32, group: u32) -> io::Result<()> {
    let put = |file: &str, text: &str| {
        fs::OpenOptions::new().write(true).open(format!("/proc/self/{file}"))?.write_all(text.as_bytes())
    };
    put("setgroups", "deny")?;
    put("uid_map", &format!("{user} {user} 1"))?;
    put("gid_map", &format!("{group} {group} 1"))
}

/// Makes the device's peer the only name server.
fn names() -> io::Result<()> {
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)?;
    let text = format!(
        "# By mendpath run: the server's name server.\nnameserver {PEER}\n# {PEER_V6} is the same.\noptions edns0\n"
    );
    let used = fs::canonicalize(RESOLV_CONF).ok();
    for service in SERVICES.map(Path::new).into_iter().filter(|path| path.is_dir()) {
        mount("tmpfs", service, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, None)?;
    }
    let Some(used) = used else {
        say(format_args!("there is no {RESOLV_CONF}, so that names are not looked up; make one"));
        return Ok(());
    };
    if hidden(&used) {
        fs::create_dir_all(used.parent().unwrap_or(Path::new("/")))?;
        return fs::write(&used, text);
    }
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
    // The file lives on there when its own name goes.
    Ok(mount_bind(file.path(), &used)?)
}

/// Whether a file was among what the services had.
fn hidden(file: &Path) -> bool {
    SERVICES.iter().any(|service| file.starts_with(service))
}
