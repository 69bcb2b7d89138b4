//! `mendpath run`.

use std::{
    io,
    os::{fd::OwnedFd, unix::process::ExitStatusExt as _},
    process::{Child, ExitStatus},
    sync::Arc,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::signal::unix::{SignalKind, signal};
use tracing::debug;

use super::{client_options, ignores, is_in_foreground};
use crate::{
    args::{CarryArgs, RunCommandArgs},
    client::{Client, ClientOptions},
    console, descriptors,
    failure::{Failure, io_reason},
    status::Feed,
    task::came_to,
    tun::{Carriage, Carrier, Opened, Options, Parent, RawOptions, chance_name, inside, open},
};

/// Added to the number of the signal that ended the command, as shells do it.
const BY_SIGNAL: u8 = 128;

pub(super) async fn run(args: RunCommandArgs) -> Result<u8, Failure> {
    console::leave_out_good_news();
    let options = client_options(&args.carry.dial, &args.carry.session)?;
    let mut signals = Signals::listen();
    // First what may be forbidden: nobody need wait for the server to learn of that.
    let (parent, child) = inside::start(&args.command).map_err(|error| {
        Failure::new("cannot start a process for the command", io_reason(&error), "Check this user's limits")
    })?;
    let command = Running::new(child)?;
    // Not for the command: programs that use select(2) must not get descriptors above 1,023, and some close
    // all that there may be.
    descriptors::raise_for_connections();
    let result = carry(&args, options, parent, &mut signals, &command).await;
    match result {
        Ok(Some(status)) => Ok(code(status)),
        Ok(None) => Ok(signals.last.map_or(1, |signal| by_signal(signal.as_raw()))),
        Err(failure) => Err(failure),
    }
}

/// How packets are to be carried as they are, under this name, if they are.
pub(super) fn raw(args: &CarryArgs, name: [u8; 16]) -> Option<RawOptions> {
    (args.tcp == Carriage::Raw).then_some(RawOptions { name, coding: args.coding })
}

/// `None` if a signal ended us before the command began.
async fn carry(
    args: &RunCommandArgs,
    options: ClientOptions,
    parent: Parent,
    signals: &mut Signals,
    command: &Running,
) -> Result<Option<ExitStatus>, Failure> {
    // Its process answers at once, or ends.
    let taken = tokio::task::spawn_blocking(move || parent.take_ends().map(|ends| (parent, ends)));
    let (parent, ends) = came_to(taken.await)?;
    let shown = |feed: &Arc<Feed>| super::show_status("run", feed.clone());
    let client = tokio::select! {
        client = Client::start_telling(options, shown) => client?,
        _ = signals.next() => return Ok(None),
    };
    let dns = args.carry.dns.map(|ip| (ip, crate::server::DNS_PORT).into());
    let opened = match raw(&args.carry, chance_name()) {
        Some(options) => tokio::select! {
            opened = open(&client.uplink, options) => Some(opened?),
            _ = signals.next() => return Ok(None),
        },
        None => None,
    };
    let given = opened.as_ref().map(Opened::given);
    let options = Options { dns, all_dns: false, own_dns: true };
    let carrying = Carrier::start(client.shared.clone(), ends, options, opened)?;
    let uplink = client.uplink.clone();
    if let Err(error) = parent.go(given) {
        debug!(%error, "the command's process is gone");
    }
    drop(parent);
    let carrying = tokio::spawn(carrying);
    let status = tokio::select! {
        status = command.attend(signals) => Ok(Some(status)),
        Ok(failure) = carrying => Err(failure),
        failure = client.run() => Err(failure),
    };
    uplink.say_goodbye().await;
    status
}

/// The command's process; dropping this ends it.
struct Running {
    handle: OwnedFd,
    child: std::sync::Mutex<Option<Child>>,
}

impl Running {
    fn new(child: Child) -> Result<Self, Failure> {
        let open = Pid::from_raw(child.id().cast_signed()).ok_or(rustix::io::Errno::SRCH);
        let handle = open.and_then(|pid| pidfd_open(pid, PidfdFlags::empty())).map_err(|errno| {
            let reason = io_reason(&io::Error::from(errno));
            Failure::new("cannot watch the command's process", reason, "Use Linux 5.3 or later")
        })?;
        Ok(Self { handle, child: std::sync::Mutex::new(Some(child)) })
    }

    /// Passes signals on until the command ends.
    async fn attend(&self, signals: &mut Signals) -> ExitStatus {
        let child = self.child.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let mut child = child.expect("a command is attended once");
        let mut ended = tokio::task::spawn_blocking(move || child.wait());
        loop {
            tokio::select! {
                status = &mut ended => return match status {
                    Ok(Ok(status)) => status,
                    // Somebody else took its status; it is over in any case.
                    _ => ExitStatus::default(),
                },
                signal = signals.next() => self.pass(signal),
            }
        }
    }

    fn pass(&self, signal: Signal) {
        // What is typed reaches the whole foreground already.
        let typed = matches!(signal, Signal::INT | Signal::QUIT) && is_in_foreground();
        if !typed {
            debug!(?signal, "passing on");
            let _ = pidfd_send_signal(&self.handle, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nothing happens if it has ended.
        let _ = pidfd_send_signal(&self.handle, Signal::TERM);
    }
}

/// Signals that are the command's.
struct Signals {
    streams: Vec<(Signal, tokio::signal::unix::Signal)>,
    last: Option<Signal>,
}

impl Signals {
    /// All but those that are to be ignored (nohup; what a script leaves running): so does the command, which
    /// would begin as usual if we listened.
    fn listen() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let kinds = [
            (Signal::INT, SignalKind::interrupt()),
            (Signal::QUIT, SignalKind::quit()),
            (Signal::TERM, SignalKind::terminate()),
            (Signal::HUP, SignalKind::hangup()),
            (Signal::USR1, SignalKind::user_defined1()),
            (Signal::USR2, SignalKind::user_defined2()),
        ];
        let heeded = kinds.into_iter().filter(|(name, _)| !ignores(&status, *name));
        let streams = heeded.filter_map(|(name, kind)| Some((name, signal(kind).ok()?)));
        Self { streams: streams.collect(), last: None }
    }

    async fn next(&mut self) -> Signal {
        let streams = &mut self.streams;
        let signal = std::future::poll_fn(|cx| {
            for (name, stream) in &mut *streams {
                if stream.poll_recv(cx).is_ready() {
                    return std::task::Poll::Ready(*name);
                }
            }
            std::task::Poll::Pending
        })
        .await;
        self.last = Some(signal);
        signal
    }
}

fn by_signal(number: i32) -> u8 {
    BY_SIGNAL.saturating_add(u8::try_from(number).unwrap_or(u8::MAX))
}

/// The exit code that stands for a command's end.
fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(1),
        (None, Some(signal)) => by_signal(signal),
        (None, None) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_shells() {
        assert_eq!(code(ExitStatus::from_raw(0)), 0);
        assert_eq!(code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(code(ExitStatus::from_raw(9)), 137);
        assert_eq!(by_signal(Signal::TERM.as_raw()), 143);
    }
}
