//! The emulator's thread: wait for sockets, commands and the links' next deliveries.

use std::{
    io::{self, Read},
    os::unix::net::UnixStream,
    sync::mpsc::{Receiver, TryRecvError},
};

use netsim::Seed;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use units::Instant;

use crate::{carrier::Carrier, clock::Clock, socket::Buffers};

/// Something to do on the emulator's thread.
pub(crate) type Command = Box<dyn FnOnce(&mut EventLoop) + Send>;

pub(crate) struct EventLoop {
    pub(crate) clock: Clock,
    pub(crate) seed: Seed,
    pub(crate) paths: Vec<Carrier>,
    commands: Receiver<Command>,
    /// Becomes readable when there is a command, or the handle has gone.
    waker: UnixStream,
    buffers: Buffers,
}

impl EventLoop {
    pub(crate) fn new(seed: Seed, commands: Receiver<Command>, waker: UnixStream) -> io::Result<Self> {
        waker.set_nonblocking(true)?;
        let clock = Clock::start();
        Ok(Self { clock, seed, paths: Vec::new(), commands, waker, buffers: Buffers::new() })
    }

    /// Runs until the handle is dropped.
    pub(crate) fn run(mut self) -> io::Result<()> {
        wake_precisely();
        run_before_others();
        let mut ready = Vec::new();
        loop {
            let now = self.clock.now();
            self.paths.iter_mut().for_each(|path| path.deliver(now));
            let woken = self.wait(&mut ready)?;
            for (path, descriptor) in ready.drain(..) {
                self.paths[path].receive(descriptor, &self.clock, &mut self.buffers);
            }
            if woken && !self.obey() {
                return Ok(());
            }
        }
    }

    /// Waits for the next thing to do. Fills `ready` with the descriptors that can be read, as
    /// (path, index), and returns whether the waker is readable.
    fn wait(&self, ready: &mut Vec<(usize, usize)>) -> io::Result<bool> {
        let next = self.paths.iter().filter_map(|path| path.links().next_delivery()).min();
        let timeout = next.map(|at| self.time_until(at));
        let mut fds = vec![PollFd::new(&self.waker, PollFlags::IN)];
        let mut names = Vec::new();
        for (path, carrier) in self.paths.iter().enumerate() {
            carrier.each_descriptor(|index, descriptor| {
                names.push((path, index));
                fds.push(PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
            });
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let readable = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let found = names.into_iter().zip(&fds[1..]).filter(|(_, fd)| readable(fd));
        // Later sockets first: receiving on a listener may evict a client and so renumber the
        // sockets after it.
        ready.extend(found.map(|(name, _)| name));
        ready.reverse();
        Ok(readable(&fds[0]))
    }

    fn time_until(&self, at: Instant) -> Timespec {
        let wait = at - self.clock.now();
        Timespec::try_from(core::time::Duration::from(wait)).unwrap_or_default()
    }

    /// Carries out the commands that wait; false if no more can come.
    fn obey(&mut self) -> bool {
        let mut drained = [0; 64];
        // An end of file is seen by the channel too; "would block" means that all is drained.
        let _ = self.waker.read(&mut drained);
        loop {
            match self.commands.try_recv() {
                Ok(command) => command(self),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }
}

/// Asks the kernel not to round this thread's timeouts up by its usual 50 us. Best effort.
fn wake_precisely() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// Asks for a place before ordinary threads: a link that wakes late is a link with jitter. Only
/// root is heard; best effort.
fn run_before_others() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, -15);
}
