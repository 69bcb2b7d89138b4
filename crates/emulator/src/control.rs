//! The handle of a running emulator.

use std::{
    io::{self, Write},
    net::SocketAddr,
    os::unix::net::UnixStream,
    sync::mpsc::{SyncSender, sync_channel},
    thread::JoinHandle,
};

use netsim::{Link, Loss, LossModel, Seed, link::OutageKind, network::Direction};
use units::{BitRate, Duration, Instant};

use crate::{
    EmulatorError, PathId, PathStats, TunPath, UdpPath,
    carrier::Carrier,
    event_loop::{Command, EventLoop},
    links::{Links, Packet},
    path::Path,
    tun::Tun,
};

/// A running emulator: paths between UDP sockets or TUN devices, served by one thread that ends
/// when this is dropped.
///
/// Every method waits for the thread to have carried it out.
pub struct Emulator {
    /// `None` only while being dropped.
    commands: Option<SyncSender<Command>>,
    waker: UnixStream,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Emulator {
    /// Starts a thread that serves `paths`, numbered from 0 in this order. The same seed gives the
    /// same loss pattern; each path and direction draws from a stream of its own.
    ///
    /// # Errors
    /// [`EmulatorError::Listen`] or [`EmulatorError::Start`].
    pub fn start(paths: impl IntoIterator<Item = UdpPath>, seed: Seed) -> Result<Self, EmulatorError> {
        let (commands, queue) = sync_channel(16);
        let (waker, woken) = UnixStream::pair().map_err(EmulatorError::Start)?;
        waker.set_nonblocking(true).map_err(EmulatorError::Start)?;
        let event_loop = EventLoop::new(seed, queue, woken).map_err(EmulatorError::Start)?;
        let thread = std::thread::Builder::new()
            .name("emulator".to_owned())
            .spawn(move || event_loop.run())
            .map_err(EmulatorError::Start)?;
        let mut emulator = Self { commands: Some(commands), waker, thread: Some(thread) };
        for path in paths {
            emulator.add_path(path)?;
        }
        Ok(emulator)
    }

    /// Adds a path. The schedules of its links count from now.
    ///
    /// # Errors
    /// [`EmulatorError::Listen`] or [`EmulatorError::Stopped`].
    pub fn add_path(&mut self, config: UdpPath) -> Result<PathId, EmulatorError> {
        let listen = config.listen;
        self.call(move |it| {
            let id = PathId(it.paths.len());
            let seed = it.seed.child("path", id.0 as u64);
            it.paths.push(Carrier::Udp(Box::new(Path::open(&config, seed, it.clock.now())?)));
            Ok(id)
        })?
        .map_err(|source| EmulatorError::Listen { addr: listen, source })
    }

    /// Adds a path between two TUN devices, numbered on from those that are there. The schedules of
    /// its links count from now.
    ///
    /// # Errors
    /// [`EmulatorError::Device`] or [`EmulatorError::Stopped`].
    pub fn add_tun_path(&mut self, config: TunPath) -> Result<PathId, EmulatorError> {
        self.call(move |it| {
            let id = PathId(it.paths.len());
            let seed = it.seed.child("path", id.0 as u64);
            it.paths.push(Carrier::Tun(Box::new(Tun::open(config, seed, it.clock.now())?)));
            Ok(id)
        })?
        .map_err(EmulatorError::Device)
    }

    /// The address that a client talks to instead of the server's.
    ///
    /// # Errors
    /// [`EmulatorError::NoAddress`], [`EmulatorError::UnknownPath`] or [`EmulatorError::Stopped`].
    pub fn client_addr(&self, path: PathId) -> Result<SocketAddr, EmulatorError> {
        self.on_path(path, |path, _| path.client_addr())?.ok_or(EmulatorError::NoAddress { path })
    }

    /// What the path has done so far.
    ///
    /// # Errors
    /// [`EmulatorError::UnknownPath`] or [`EmulatorError::Stopped`].
    pub fn stats(&self, path: PathId) -> Result<PathStats, EmulatorError> {
        self.on_path(path, |path, _| path.stats())
    }

    /// Cuts a path, in one direction or (`None`) in both, until [`restore`](Self::restore).
    ///
    /// # Errors
    /// [`EmulatorError::UnknownPath`] or [`EmulatorError::Stopped`].
    pub fn cut(
        &self,
        path: PathId,
        direction: Option<Direction>,
        kind: OutageKind,
    ) -> Result<(), EmulatorError> {
        self.change(path, direction, move |link, now| link.cut(now, kind))
    }

    /// Ends [`cut`](Self::cut), in one direction or (`None`) in both.
    ///
    /// # Errors
    /// [`EmulatorError::UnknownPath`] or [`EmulatorError::Stopped`].
    pub fn restore(&self, path: PathId, direction: Option<Direction>) -> Result<(), EmulatorError> {
        self.change(path, direction, move |link, now| link.restore(now))
    }

    /// Changes the rate from the next packet on, in one direction or (`None`) in both; no rate is
    /// unlimited.
    ///
    /// # Errors
    /// [`EmulatorError::UnknownPath`] or [`EmulatorError::Stopped`].
    pub fn set_rate(
        &self,
        path: PathId,
        direction: Option<Direction>,
        rate: Option<BitRate>,
    ) -> Result<(), EmulatorError> {
        self.change(path, direction, move |link, now| link.set_rate(now, rate))
    }

    /// Changes the one-way delay for packets not yet sent, in one direction or (`None`) in both.
    ///
    /// # Errors
    /// [`EmulatorError::UnknownPath`] or [`EmulatorError::Stopped`].
    pub fn set_delay(
        &self,
        path: PathId,
        direction: Option<Direction>,
        delay: Duration,
    ) -> Result<(), EmulatorError> {
        self.change(path, direction, move |link, now| link.set_delay(now, delay))
    }

    /// Replaces the loss model, in one direction or (`None`) in both; its pattern starts from
    /// packet 0.
    ///
    /// # Errors
    /// [`EmulatorError::UnknownPath`] or [`EmulatorError::Stopped`].
    pub fn set_loss(
        &self,
        path: PathId,
        direction: Option<Direction>,
        loss: Loss,
    ) -> Result<(), EmulatorError> {
        self.change(path, direction, move |link, now| link.set_loss(now, loss.clone()))
    }

    /// Replaces the loss model of one direction by one of the caller's, asked from packet 0 on. It
    /// lasts until [`set_loss`](Self::set_loss) or [`reseed`](Self::reseed).
    ///
    /// # Errors
    /// [`EmulatorError::UnknownPath`] or [`EmulatorError::Stopped`].
    pub fn set_loss_model(
        &self,
        path: PathId,
        direction: Direction,
        model: Box<dyn LossModel + Send>,
    ) -> Result<(), EmulatorError> {
        let mut model = Some(model);
        self.change(path, Some(direction), move |link, _| {
            if let Some(model) = model.take() {
                link.set_loss_model(model);
            }
        })
    }

    /// Starts the randomness of a path afresh: from the next packet on it loses what a new path
    /// with [`UdpPath::seed`] set to this would lose. Packets inside the links stay.
    ///
    /// # Errors
    /// [`EmulatorError::UnknownPath`] or [`EmulatorError::Stopped`].
    pub fn reseed(&self, path: PathId, seed: Seed) -> Result<(), EmulatorError> {
        self.on_path(path, move |path, now| path.links_mut().reseed(now, seed))
    }

    /// Starts the schedules of a path's links afresh, which count from now, with the rates and delays of the start.
    /// What was cut by hand stays so, and packets inside the links stay.
    ///
    /// # Errors
    /// [`EmulatorError::UnknownPath`] or [`EmulatorError::Stopped`].
    pub fn restart(&self, path: PathId) -> Result<(), EmulatorError> {
        self.on_path(path, |path, now| path.links_mut().restart(now))
    }

    /// Begins to look for [`DirectionStats::max_late`](crate::DirectionStats::max_late) of a path
    /// anew.
    ///
    /// # Errors
    /// [`EmulatorError::UnknownPath`] or [`EmulatorError::Stopped`].
    pub fn forget_lateness(&self, path: PathId) -> Result<(), EmulatorError> {
        self.on_path(path, |path, _| path.links_mut().forget_lateness())
    }

    /// Changes the links of one direction or (`None`) of both.
    fn change(
        &self,
        path: PathId,
        direction: Option<Direction>,
        mut change: impl FnMut(&mut Link<Packet>, Instant) + Send + 'static,
    ) -> Result<(), EmulatorError> {
        self.on_path(path, move |path, now| {
            let Links { up, down } = path.links_mut();
            let links = [(Direction::Forward, &mut up.link), (Direction::Backward, &mut down.link)];
            let wanted =
                links.into_iter().filter(|(which, _)| direction.is_none_or(|direction| direction == *which));
            wanted.for_each(|(_, link)| change(link, now));
        })
    }

    fn on_path<R: Send + 'static>(
        &self,
        path: PathId,
        action: impl FnOnce(&mut Carrier, Instant) -> R + Send + 'static,
    ) -> Result<R, EmulatorError> {
        self.call(move |it| {
            let (now, count) = (it.clock.now(), it.paths.len());
            let found = it.paths.get_mut(path.0).ok_or(EmulatorError::UnknownPath { path, count })?;
            Ok(action(found, now))
        })?
    }

    /// Runs `action` on the thread and waits for its result.
    fn call<R: Send + 'static>(
        &self,
        action: impl FnOnce(&mut EventLoop) -> R + Send + 'static,
    ) -> Result<R, EmulatorError> {
        let stopped = |reason: &str| EmulatorError::Stopped { reason: reason.to_owned() };
        let (answer, answered) = sync_channel(1);
        let commands = self.commands.as_ref().ok_or_else(|| stopped("it was shut down"))?;
        let command: Command = Box::new(move |it| _ = answer.send(action(it)));
        commands.send(command).map_err(|_| stopped("its thread has ended, `shutdown` tells why"))?;
        self.wake();
        answered.recv().map_err(|_| stopped("its thread has ended, `shutdown` tells why"))
    }

    /// A full pipe is fine: then the thread has been woken and not yet looked.
    fn wake(&self) {
        let _ = (&self.waker).write(&[1]);
    }

    /// Stops the thread and tells how it ended; dropping the emulator does the same in silence.
    ///
    /// # Errors
    /// [`EmulatorError::Stopped`] with the error that ended it early.
    pub fn shutdown(mut self) -> Result<(), EmulatorError> {
        self.stop()
    }

    fn stop(&mut self) -> Result<(), EmulatorError> {
        self.commands = None;
        self.wake();
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let reason = match thread.join() {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "its thread panicked".to_owned(),
        };
        Err(EmulatorError::Stopped { reason })
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

impl std::fmt::Debug for Emulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emulator").finish_non_exhaustive()
    }
}
