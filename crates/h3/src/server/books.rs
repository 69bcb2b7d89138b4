//! What the requests of a connection share, and what becomes of each.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use h3::error::Code;
use http::StatusCode;
use mendpath::VarInt;
use tokio::time::Instant;

use super::{leaving::Leaving, limits::Limits};
use crate::patience::within;

/// What the requests of a connection share.
pub(super) struct Books {
    pub(super) limits: Limits,
    pub(super) connection: mendpath::Connection,
    /// Whether the service may say something before its responses.
    pub(super) has_interims: bool,
    /// Responses that the client does not have yet.
    pub(super) leaving: Leaving,
    /// Requests that were given up above those that were answered.
    given_up: AtomicU32,
    /// When the last one was over, or was last seen to go on.
    over: Mutex<Instant>,
    /// Hears of those that the service does not see.
    pub(super) refused: Box<dyn Fn(StatusCode) + Send + Sync>,
}

impl Books {
    pub(super) fn new(
        limits: Limits,
        connection: mendpath::Connection,
        refused: Box<dyn Fn(StatusCode) + Send + Sync>,
    ) -> Self {
        let (leaving, given_up, over) = (Leaving::new(), AtomicU32::new(0), Mutex::new(Instant::now()));
        Self { limits, connection, has_interims: true, leaving, given_up, over, refused }
    }

    /// Waits for what is said of the connection itself, for which the client must have room (RFC 9114
    /// section 6.2). Where it has none for so long, the connection is closed, which ends the wait.
    pub(super) async fn with_room<F: Future>(
        &self,
        patience: Duration,
        mut saying: Pin<&mut F>,
    ) -> F::Output {
        if let Ok(said) = within(patience, saying.as_mut()).await {
            return said;
        }
        let code = VarInt::saturating(Code::H3_GENERAL_PROTOCOL_ERROR.value());
        self.connection.close(code, b"there is no room for the control stream");
        saying.await
    }

    /// A request is over, or a response that was on its way.
    pub(super) fn on_over(&self, outcome: Outcome) {
        self.goes_on();
        self.make_up_for(self.leaving.found_over());
        let count = |before| Some(outcome.given_up_after(before));
        let before = self.given_up.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
        if before.is_ok_and(|before| outcome.given_up_after(before) > self.limits.cancelled)
            && self.make_up_for(self.leaving.find_over()) > self.limits.cancelled
        {
            let code = VarInt::saturating(Code::H3_EXCESSIVE_LOAD.value());
            self.connection.close(code, b"too many requests were given up");
        }
    }

    /// So many responses have arrived. Returns how many requests were given up above those.
    fn make_up_for(&self, answered: u32) -> u32 {
        let less = |before: u32| Some(before.saturating_sub(answered));
        let (Ok(before) | Err(before)) =
            self.given_up.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        before.saturating_sub(answered)
    }

    /// A request is still under way, or a response on its way.
    pub(super) fn goes_on(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Gives up the responses of which the client has taken nothing since the last time.
    pub(super) fn give_up_those_that_stand(&self) {
        let given_up = self.leaving.give_up_those_that_stand();
        (0..given_up).for_each(|_| self.on_over(Outcome::Cancelled));
    }

    /// How long it is since a request was over, or was last seen to go on, if none is under way.
    pub(super) fn quiet(&self) -> Duration {
        self.over.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Answered,
    /// Its response is on its way, and may yet be given up.
    Leaving,
    /// Given up, after some of its answer.
    Begun,
    Cancelled,
}

impl Outcome {
    /// Requests that were given up above those that were answered, with this one.
    fn given_up_after(self, before: u32) -> u32 {
        match self {
            Self::Answered => before.saturating_sub(1),
            Self::Leaving | Self::Begun => before,
            Self::Cancelled => before.saturating_add(1),
        }
    }
}

/// A request under way, which counts once it is over. One whose task ends without an outcome, because
/// something panics, was given up.
pub(super) struct UnderWay {
    pub(super) books: Arc<Books>,
    pub(super) outcome: Outcome,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.books.on_over(self.outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_makes_up_for_one_that_was_given_up() {
        for (outcome, after) in [
            (Outcome::Answered, [0, 0, u32::MAX - 1]),
            (Outcome::Leaving, [0, 1, u32::MAX]),
            (Outcome::Begun, [0, 1, u32::MAX]),
            (Outcome::Cancelled, [1, 2, u32::MAX]),
        ] {
            assert_eq!([0, 1, u32::MAX].map(|before| outcome.given_up_after(before)), after, "{outcome:?}");
        }
    }
}
