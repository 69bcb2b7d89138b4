//! What the service manager and the command say to each other while it runs: that it is ready, and
//! that it should read its options again (SIGHUP, `systemctl reload`).

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{
    args::Cli,
    config::{Change, Reload},
    console::{self, say},
};

/// Tells the service manager, if one wants to know (`Type=notify-reload`), that the work has begun.
pub(super) fn ready() {
    tell(Said::Ready);
}

/// The same of a client that waits for its server: programs can connect to it, and wait, too.
pub(super) fn waiting() {
    tell(Said::Waiting);
}

/// The same of its end.
pub(super) fn stopping() {
    tell(Said::Stopping);
}

/// The same, of an end that takes up to `time`, which the service manager is to wait.
pub(super) fn stopping_within(time: std::time::Duration) {
    stopping();
    tell(Said::TakesUpTo(time));
}

/// What a service manager wants to know.
#[derive(Clone, Copy, Debug)]
enum Said {
    Ready,
    Waiting,
    Reloading,
    Stopping,
    TakesUpTo(std::time::Duration),
}

#[cfg(target_os = "linux")]
fn tell(said: Said) {
    use sd_notify::NotifyState;
    let told = match said {
        Said::Ready => sd_notify::notify(&[NotifyState::Ready, NotifyState::Status("")]),
        Said::Waiting => {
            sd_notify::notify(&[NotifyState::Ready, NotifyState::Status("waiting for the server")])
        }
        Said::Reloading => NotifyState::monotonic_usec_now()
            .and_then(|now| sd_notify::notify(&[NotifyState::Reloading, now])),
        Said::Stopping => sd_notify::notify(&[NotifyState::Stopping]),
        Said::TakesUpTo(time) => sd_notify::notify(&[NotifyState::Custom(&extend(time))]),
    };
    if let Err(error) = told {
        tracing::debug!(%error, ?said, "the service manager cannot be told");
    }
}

/// More than the library's own word for it, which ends after 71 minutes.
#[cfg(target_os = "linux")]
fn extend(time: std::time::Duration) -> String {
    format!("EXTEND_TIMEOUT_USEC={}", time.as_micros())
}

/// Elsewhere none asks.
#[cfg(not(target_os = "linux"))]
fn tell(said: Said) {
    tracing::trace!(?said, "no service manager");
}

/// Options that are read again whenever SIGHUP comes.
pub(super) struct Reloading {
    signal: Option<Signal>,
    reload: Reload,
}

impl Reloading {
    /// From now on the signal does not end the process.
    pub(super) fn new(reload: Reload) -> Self {
        Self { signal: signal(SignalKind::hangup()).ok(), reload }
    }

    /// Waits for the signal again and again. `apply` makes an option of that key count, with the
    /// value in [`Cli`], and says whether it can.
    pub(super) async fn run(self, apply: impl FnMut(&str, &Cli) -> bool) {
        self.run_and(apply, |_| None).await;
    }

    /// The same. `also` looks each time at what options only name, and says what came of that.
    pub(super) async fn run_and(
        mut self,
        mut apply: impl FnMut(&str, &Cli) -> bool,
        mut also: impl FnMut(&Cli) -> Option<String>,
    ) {
        while let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            tell(Said::Reloading);
            match self.reload.again() {
                Ok(Some(change)) => {
                    outcome(&change, &mut apply).into_iter().chain(also(&change.cli)).for_each(say);
                }
                Ok(None) => say("there is nothing to read again"),
                Err(failure) => say(format_args!("{failure} The options stay as they were")),
            }
            ready();
        }
        std::future::pending().await
    }
}

/// Applies what can be, and tells of the rest, a line for each key.
fn outcome(change: &Change, mut apply: impl FnMut(&str, &Cli) -> bool) -> Vec<String> {
    let applies = |key: &&String| match key.as_str() {
        "verbose" => {
            console::set_verbosity(change.cli.verbose);
            true
        }
        key => apply(key, &change.cli),
    };
    let (new, stay): (Vec<_>, Vec<_>) = change.keys.iter().partition(applies);
    let list = |keys: &[&String]| keys.iter().map(|key| key.as_str()).collect::<Vec<_>>().join(", ");
    let text = match new.as_slice() {
        [] => "read the options again: nothing to change".to_owned(),
        new => format!("read the options again: {} changed", list(new)),
    };
    let stays = |key: &&String| format!("`{key}` cannot change while it runs: start it again for that");
    std::iter::once(text).chain(stay.iter().map(stays)).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_service_manager_waits_for_a_day_if_need_be() {
        let day = std::time::Duration::from_secs(86_400);
        assert_eq!(extend(day), "EXTEND_TIMEOUT_USEC=86400000000");
    }

    #[test]
    fn what_cannot_change_is_named() {
        let told = |keys: &[&str]| {
            let cli = Cli::parse_from(["mendpath", "server"]);
            let change = Change { cli, keys: keys.iter().map(|key| (*key).to_owned()).collect() };
            outcome(&change, |key, _| key == "dns")
        };
        assert_eq!(told(&[]), ["read the options again: nothing to change"]);
        assert_eq!(told(&["dns"]), ["read the options again: dns changed"]);
        assert_eq!(
            told(&["listen", "dns", "state"]),
            [
                "read the options again: dns changed",
                "`listen` cannot change while it runs: start it again for that",
                "`state` cannot change while it runs: start it again for that",
            ]
        );
    }
}
