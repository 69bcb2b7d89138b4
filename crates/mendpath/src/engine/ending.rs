//! How a sending side ended, for those who wait for it.

use std::sync::{Arc, Mutex};

use proto::VarInt;
use tokio::sync::Notify;

use crate::{ConnectionError, lock::lock};

/// How a sending side ended; the first end counts.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// The peer has acknowledged everything.
    Finished,
    /// The peer wants no more, for this reason.
    Stopped(VarInt),
    /// We reset it.
    Reset,
    /// The server took no early data.
    Rejected,
    /// The connection has ended.
    Lost(ConnectionError),
}

/// The end of a sending side. It outlives the stream's handle, for futures that wait.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    end: Mutex<Option<End>>,
    reached: Notify,
}

impl Ending {
    /// Notes how it ended and wakes all that wait, unless it had ended before.
    pub(crate) fn set(&self, end: End) {
        lock(&self.end).get_or_insert(end);
        self.reached.notify_waiters();
    }

    /// Whether it has ended.
    pub(crate) fn is_known(&self) -> bool {
        lock(&self.end).is_some()
    }

    /// The code with which the peer stopped it, if that was its end.
    pub(crate) fn stopped(&self) -> Option<VarInt> {
        match *lock(&self.end) {
            Some(End::Stopped(code)) => Some(code),
            _ => None,
        }
    }

    /// Waits for the end.
    pub(crate) async fn reached(self: Arc<Self>) -> End {
        loop {
            let reached = self.reached.notified();
            if let Some(end) = &*lock(&self.end) {
                return end.clone();
            }
            reached.await;
        }
    }
}
