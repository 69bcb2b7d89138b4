//! Something that tasks wait for, of which most connections are never asked.

use std::sync::{Arc, OnceLock};

use tokio::sync::{Notify, futures::Notified};

/// A [`Notify`] that is there from the first who waits on. What it tells of changes under the
/// connection's lock, and who waits looks once more after saying so: nothing is missed.
#[derive(Default)]
pub(crate) struct Signal(OnceLock<Arc<Notify>>);

impl Signal {
    /// Resolves with the next [`notify_waiters`](Self::notify_waiters), also if that comes before
    /// the first poll.
    pub(crate) fn notified(&self) -> Notified<'_> {
        self.notify().notified()
    }

    /// The same for who keeps it.
    pub(crate) fn notify(&self) -> &Arc<Notify> {
        self.0.get_or_init(Arc::default)
    }

    /// Whether anybody has ever waited for it.
    pub(super) fn is_awaited(&self) -> bool {
        self.0.get().is_some()
    }

    /// Wakes all who wait.
    pub(crate) fn notify_waiters(&self) {
        if let Some(notify) = self.0.get() {
            notify.notify_waiters();
        }
    }
}
