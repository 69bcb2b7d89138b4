//! What a handle's poll forms wait for, from poll to poll.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::sync::futures::OwnedNotified;

use crate::engine::Signal;

/// Kinds of things that a handle may wait for at a time.
const SLOTS: usize = 7;

/// One waiting place for each kind of thing. A place that was dropped after every poll would miss
/// what happens until the next.
#[derive(Default)]
pub(crate) struct Waits([Option<Pin<Box<OwnedNotified>>>; SLOTS]);

impl Waits {
    /// Gives what `attempt` gives, trying again whenever `changed` is notified.
    pub(crate) fn poll<T, E>(
        &mut self,
        cx: &mut Context<'_>,
        slot: usize,
        changed: &Signal,
        mut attempt: impl FnMut() -> Result<Option<T>, E>,
    ) -> Poll<Result<T, E>> {
        let place = &mut self.0[slot];
        // Mostly it is there already.
        if place.is_none()
            && let Some(result) = attempt().transpose()
        {
            return Poll::Ready(result);
        }
        loop {
            // It counts from now on, so nothing is missed between the attempt and the poll.
            let notified = place.get_or_insert_with(|| Box::pin(changed.notify().clone().notified_owned()));
            if let Some(result) = attempt().transpose() {
                *place = None;
                return Poll::Ready(result);
            }
            ready!(notified.as_mut().poll(cx));
            *place = None;
        }
    }
}
