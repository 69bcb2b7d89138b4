//! Network namespaces without a name, and TUN devices in them.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::MetadataExt as _,
    },
};

use nix::sched::{CloneFlags, setns, unshare};
use tun_rs::DeviceBuilder;

use crate::{LabError, processes};

/// A network namespace. It lives as long as this, or a process or socket in it.
#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    /// A new one, in which nothing is up.
    ///
    /// # Errors
    /// [`LabError::System`], mostly without root.
    pub fn new() -> Result<Self, LabError> {
        let make = || {
            unshare(CloneFlags::CLONE_NEWNET)?;
            // The thread's own entry: /proc/self would be the process's first thread.
            File::open("/proc/thread-self/ns/net")
        };
        on_thread(make).map(Self).map_err(LabError::system("make a network namespace"))
    }

    /// The one that a process is in.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        File::open(format!("/proc/{pid}/ns/net")).ok().map(Self)
    }

    /// What tells it from others that there are.
    pub(crate) fn number(&self) -> u64 {
        self.0.metadata().map_or(0, |found| found.ino())
    }

    /// Calls `action` on a thread of this namespace. Sockets and processes that it makes belong to
    /// the namespace, also when they are used elsewhere.
    ///
    /// # Errors
    /// [`LabError::System`] if it cannot be entered.
    pub fn run<R: Send>(&self, action: impl FnOnce() -> R + Send) -> Result<R, LabError> {
        let enter = || {
            setns(&self.0, CloneFlags::CLONE_NEWNET)?;
            Ok(action())
        };
        on_thread(enter).map_err(LabError::system("enter a network namespace"))
    }

    /// Ends every process in it but this one: also those that programs have started and left behind,
    /// whatever group or session they are in.
    pub(crate) fn end_processes(&self) {
        let Ok(own) = self.0.metadata() else { return };
        processes::end(|process| {
            // What has ended is in no namespace any more.
            let of = fs::metadata(format!("/proc/{process}/ns/net"));
            of.is_ok_and(|of| (of.dev(), of.ino()) == (own.dev(), own.ino()))
        });
    }

    /// Joins it with another by a pair of devices of the kernel's, both called `name` and down.
    pub(super) fn join(&self, other: &Self, name: &str) -> Result<(), LabError> {
        self.run(|| super::address::join(name, other.0.as_fd()))?
    }

    /// Makes a TUN device in it, which is down; its descriptor reads and writes whole IP packets.
    ///
    /// # Errors
    /// [`LabError::System`] where there are none.
    pub fn tun(&self, name: &str) -> Result<OwnedFd, LabError> {
        self.run(|| tun(name))?
    }
}

/// Namespaces belong to threads: what is changed here ends with the thread.
fn on_thread<R: Send>(action: impl FnOnce() -> io::Result<R> + Send) -> io::Result<R> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("namespace".to_owned()).spawn_scoped(scope, action)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Makes a TUN device in the calling thread's namespace; its descriptor reads and writes whole IP
/// packets.
fn tun(name: &str) -> Result<OwnedFd, LabError> {
    let wrong = || LabError::system("make a TUN device (is there /dev/net/tun?)");
    let device = DeviceBuilder::new().name(name).build_sync().map_err(wrong())?;
    device.as_fd().try_clone_to_owned().map_err(wrong())
}
