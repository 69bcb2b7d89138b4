//! Streams that wait until the server allows another: connections to origin servers that are kept for a next request
//! give way to them. Hundreds of programs have more of those than a client may have streams.

use std::{
    pin::{Pin, pin},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use mendpath::{Connection, ConnectionError, RecvStream, SendStream};
use tokio::{sync::Semaphore, time::timeout};

/// Until another gives way as well, where the first has brought no stream: the server has its stream for as long as
/// the origin server keeps its own end open.
const PATIENCE: Duration = Duration::from_secs(1);

/// The streams of one connection to a server that are waited for.
#[derive(Debug)]
pub(crate) struct Demand {
    /// How many.
    waiting: Mutex<usize>,
    /// A permit for each to which nobody has given way, or only in vain.
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

impl Waiting<'_> {
    /// Who has given way has brought it nothing so far: another is to.
    fn asks_again(&self) {
        let Demand { unmet, .. } = self.0;
        let waiting = self.0.waiting();
        if unmet.available_permits() < *waiting {
            unmet.add_permits(1);
        }
    }
}

impl Demand {
    pub(crate) fn new() -> Self {
        Self { waiting: Mutex::new(0), unmet: Semaphore::new(0) }
    }

    /// Opens a stream, as soon as the server allows another. One that waits has one kept connection give way, and
    /// the next each second until it is there. Cancel safe.
    ///
    /// # Errors
    /// If the connection has ended.
    pub(crate) async fn open(
        &self,
        connection: &Connection,
    ) -> Result<(SendStream, RecvStream), ConnectionError> {
        self.meet(pin!(connection.open_bi())).await
    }

    /// Waits for a stream, and has others give way until it is there.
    async fn meet<F: Future>(&self, mut opening: Pin<&mut F>) -> F::Output {
        tokio::select! {
            biased;
            opened = &mut opening => return opened,
            () = std::future::ready(()) => {}
        }
        let waiting = self.wait();
        loop {
            if let Ok(opened) = timeout(PATIENCE, opening.as_mut()).await {
                return opened;
            }
            waiting.asks_again();
        }
    }

    /// Returns once who asks is to give way: who asked first is the first. Cancel safe.
    pub(crate) async fn gives_way(&self) {
        loop {
            self.unmet.acquire().await.expect("the semaphore is never closed").forget();
            // Who was waited for when this was called may have a stream by now.
            if *self.waiting() > 0 {
                return;
            }
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
    use std::task::{Context, Waker};

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

    /// It is called, and has no turn until the stream is there from elsewhere.
    #[test]
    fn who_is_called_for_one_that_waits_no_more_stays() {
        let demand = Demand::new();
        let mut idle = Box::pin(demand.gives_way());
        assert!(!is_told(&mut idle));
        drop(demand.wait());
        assert!(!is_told(&mut idle), "nobody waits any more");
        let _waiting = demand.wait();
        assert!(is_told(&mut idle), "it is there for the next");
    }

    #[test]
    fn no_more_are_called_than_wait_while_nobody_can_give_way() {
        let demand = Demand::new();
        let waiting = demand.wait();
        for _ in 0..3 {
            waiting.asks_again();
        }
        let mut idle = [(); 2].map(|()| Box::pin(demand.gives_way()));
        assert_eq!(idle.each_mut().map(is_told), [true, false]);
        waiting.asks_again();
        assert!(is_told(&mut idle[1]), "the first has brought nothing");
    }

    /// The host of the first keeps its end open, and with it the stream.
    #[tokio::test(start_paused = true)]
    async fn another_gives_way_where_the_first_is_of_no_use() {
        let demand = Demand::new();
        let opening = async {
            demand.gives_way().await;
            demand.gives_way().await;
        };
        let met = timeout(2 * PATIENCE, demand.meet(pin!(opening))).await;
        met.expect("a second one gives way");
        assert_eq!((*demand.waiting(), demand.unmet.available_permits()), (0, 0));
    }
}
