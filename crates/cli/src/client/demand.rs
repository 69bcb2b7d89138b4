//! Streams that wait until the server allows another: connections to origin servers that are kept for a next request
//! give way to them. Hundreds of programs have more of those than a client may have streams.

use std::{
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
};

use mendpath::{Connection, ConnectionError, RecvStream, SendStream};
use tokio::sync::Semaphore;

/// The streams of one connection to a server that are waited for.
#[derive(Debug)]
pub(crate) struct Demand {
    /// How many.
    waiting: Mutex<usize>,
    /// A permit for each to which nobody has given way.
    unmet: Semaphore,
}

/// A stream that is waited for.
struct Waiting<'a>(&'a Demand);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Demand { unmet, .. } = self.0;
        let mut waiting = self.0.waiting();
        *waiting -= 1;
        // Who has given way has done so for any of them.
        unmet.forget_permits(unmet.available_permits().saturating_sub(*waiting));
    }
}

impl Demand {
    pub(crate) fn new() -> Self {
        Self { waiting: Mutex::new(0), unmet: Semaphore::new(0) }
    }

    /// Opens a stream, as soon as the server allows another. One that waits has one kept connection give way.
    /// Cancel safe.
    ///
    /// # Errors
    /// If the connection has ended.
    pub(crate) async fn open(
        &self,
        connection: &Connection,
    ) -> Result<(SendStream, RecvStream), ConnectionError> {
        let mut opening = pin!(connection.open_bi());
        tokio::select! {
            biased;
            opened = &mut opening => return opened,
            () = std::future::ready(()) => {}
        }
        let _waiting = self.wait();
        opening.await
    }

    /// Returns once who asks is to give way: who asked first is the first. Cancel safe.
    pub(crate) async fn gives_way(&self) {
        // It is never closed.
        if let Ok(permit) = self.unmet.acquire().await {
            permit.forget();
        }
    }

    fn wait(&self) -> Waiting<'_> {
        let mut waiting = self.waiting();
        *waiting += 1;
        self.unmet.add_permits(1);
        Waiting(self)
    }

    fn waiting(&self) -> MutexGuard<'_, usize> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        task::{Context, Waker},
    };

    use super::*;

    fn is_told(idle: &mut Pin<Box<impl Future<Output = ()>>>) -> bool {
        idle.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn one_gives_way_for_each_that_waits_and_the_oldest_first() {
        let demand = Demand::new();
        let mut idle = [(); 4].map(|()| Box::pin(demand.gives_way()));
        assert_eq!(idle.each_mut().map(is_told), [false; 4]);
        let first = demand.wait();
        assert!(!is_told(&mut idle[3]) && is_told(&mut idle[0]));
        let second = demand.wait();
        assert!(!is_told(&mut idle[3]) && is_told(&mut idle[1]));
        drop((first, second));
        assert!(!is_told(&mut idle[2]) && !is_told(&mut idle[3]), "nobody waits any more");
    }

    #[test]
    fn who_waits_no_more_has_nobody_give_way() {
        let demand = Demand::new();
        let (first, second) = (demand.wait(), demand.wait());
        drop(first);
        let mut idle = [(); 2].map(|()| Box::pin(demand.gives_way()));
        assert_eq!(idle.each_mut().map(is_told), [true, false]);
        let third = demand.wait();
        assert!(is_told(&mut idle[1]), "although one had given way before");
        drop((second, third));
        assert!(!is_told(&mut Box::pin(demand.gives_way())));
    }
}
