//! Responses that were handed over whole, and that the client does not have yet.

use std::{
    future::pending,
    mem::take,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
    time::Duration,
};

use tokio::time::{Sleep, sleep_until};

use super::{books::Outcome, limits::Limits};
use crate::{
    connection::End,
    patience::{after, while_taken},
    response::Beside,
};

/// So many may wait before those that are over are looked for.
const FEW: usize = 8;
/// Between two looks there is at least so much time.
const LEAST: Duration = Duration::from_millis(1);

/// When is looked whether any of them stand still.
pub(super) struct Looks {
    next: Pin<Box<Sleep>>,
    every: Duration,
    /// There may be some.
    needed: bool,
}

impl Looks {
    /// Looks this often, or every [`LEAST`] where no client is waited for.
    pub(super) fn new(every: Duration) -> Self {
        let every = every.max(LEAST);
        Self { next: Box::pin(sleep_until(after(every))), every, needed: false }
    }

    /// There may be some from now on.
    pub(super) fn begin(&mut self) {
        if !self.needed {
            self.again(true);
        }
    }

    /// Waits until it is time.
    pub(super) async fn next(&mut self) {
        if self.needed { self.next.as_mut().await } else { pending().await }
    }

    /// One is over, and another needed or not.
    pub(super) fn again(&mut self, needed: bool) {
        self.next.as_mut().reset(after(self.every));
        self.needed = needed;
    }
}

/// A response that was handed over whole.
pub(super) struct Left {
    /// Comes once the client's transport has acknowledged all of it, or wants no more.
    end: End,
    beside: Arc<Beside>,
    /// What the client had of it when all were looked at.
    progress: Option<[u64; 2]>,
}

impl Left {
    pub(super) fn new(end: End, beside: Arc<Beside>) -> Self {
        Self { end, beside, progress: None }
    }

    fn is_over(&mut self) -> bool {
        self.end.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// Waits until the client has all of it, or takes none of it for too long.
    pub(super) async fn taken(mut self, limits: &Limits) -> Outcome {
        let end = Pin::new(&mut self.end);
        if while_taken(end, || self.beside.progress(), limits.send).await.is_some() {
            return Outcome::Answered;
        }
        self.beside.give_up();
        Outcome::Cancelled
    }

    /// Gives it up if the client has taken none of it since the last time, and says whether it has.
    fn gives_up(&mut self) -> bool {
        let progress = self.beside.progress();
        let stands = self.progress.replace(progress) == Some(progress);
        if stands {
            self.beside.give_up();
        }
        stands
    }
}

/// Those of a connection. A task that waited for each would have a timer and another turn for nearly nothing, since
/// nobody needs to know at once. There are at most twice as many as the client may have streams.
pub(super) struct Leaving(Mutex<Option<Responses>>);

struct Responses {
    all: Vec<Left>,
    /// Once there are so many, those that are over are looked for.
    look_at: usize,
    /// So many were over, of which nobody has heard yet.
    over: u32,
}

impl Responses {
    fn new() -> Self {
        Self { all: Vec::new(), look_at: FEW, over: 0 }
    }

    /// Lets go of those that are over. As many again may come before the next look.
    fn look(&mut self) {
        self.all.retain_mut(|left| {
            let is_over = left.is_over();
            self.over = self.over.saturating_add(is_over.into());
            !is_over
        });
        self.look_at = (2 * self.all.len()).max(FEW);
        self.all.shrink_to(self.look_at);
    }
}

impl Leaving {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Some(Responses::new())))
    }

    fn responses(&self) -> MutexGuard<'_, Option<Responses>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more; given back once nobody looks at them any more: who has it waits for its end.
    pub(super) fn push(&self, left: Left) -> Result<(), Left> {
        let mut responses = self.responses();
        let Some(responses) = &mut *responses else { return Err(left) };
        if responses.all.len() >= responses.look_at {
            responses.look();
        }
        responses.all.push(left);
        Ok(())
    }

    /// Whether the client has all of them.
    pub(super) fn are_over(&self) -> bool {
        self.responses().as_mut().is_none_or(|responses| {
            responses.look();
            responses.all.is_empty()
        })
    }

    /// How many were found to be over since somebody asked.
    pub(super) fn found_over(&self) -> u32 {
        self.responses().as_mut().map_or(0, |responses| take(&mut responses.over))
    }

    /// The same, once those that are over have been looked for.
    pub(super) fn find_over(&self) -> u32 {
        self.responses().as_mut().map_or(0, |responses| {
            responses.look();
            take(&mut responses.over)
        })
    }

    /// Gives up those of which the client has taken nothing since the last time, and says how many.
    pub(super) fn give_up_those_that_stand(&self) -> usize {
        let mut responses = self.responses();
        let Some(responses) = &mut *responses else { return 0 };
        responses.look();
        let before = responses.all.len();
        responses.all.retain_mut(|left| !left.gives_up());
        before - responses.all.len()
    }

    /// All of them, for whom waits for their ends. From here on none is taken.
    pub(super) fn close(&self) -> Vec<Left> {
        self.responses().take().map(|responses| responses.all).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use mendpath::{ClientConfig, Connection, Endpoint, Identity, ServerConfig, StreamId};
    use tokio::sync::oneshot;
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::{
        server::{Server, books::Books},
        settings::{FieldSectionLimit, Shared},
    };

    /// Two ends of a connection, and what keeps them open.
    async fn pair() -> ([Endpoint; 2], Connection, Connection) {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let local = "127.0.0.1:0".parse().unwrap();
        let server = Endpoint::server(ServerConfig::with_identity(&identity).unwrap(), local).unwrap();
        let config = ClientConfig::with_pinned_key(identity.pin());
        let client = Endpoint::client(local).unwrap();
        let connecting = client.connect_with(&config, server.local_addrs()[0], "localhost").unwrap();
        let (connection, peer) = tokio::join!(connecting, async { server.accept().await.unwrap().await });
        ([client, server], connection.unwrap(), peer.unwrap())
    }

    #[tokio::test]
    async fn those_that_the_client_has_are_not_kept() {
        let (_endpoints, connection, _peer) = pair().await;
        let shared = Arc::new(Shared { connection, limit: FieldSectionLimit::default() });
        let left = |is_over: bool| {
            let end = async move { if is_over { Ok(None) } else { pending().await } };
            Left::new(Box::pin(end), Arc::new(Beside::new(shared.clone(), StreamId(0))))
        };
        let leaving = Leaving::new();
        let count = || leaving.responses().as_ref().unwrap().all.len();
        for (standing, at_most) in [(0, FEW), (20, 40)] {
            (0..standing).for_each(|_| assert!(leaving.push(left(false)).is_ok()));
            for _ in 0..100 {
                assert!(leaving.push(left(true)).is_ok());
                assert!(count() <= at_most, "{} of which {standing} stand", count());
            }
            assert_eq!(leaving.are_over(), standing == 0);
            assert_eq!(count(), standing);
            assert_eq!((leaving.found_over(), leaving.found_over()), (100, 0), "each makes up for one, once");
        }
        // Looked at once, they may be on their way.
        assert_eq!(leaving.give_up_those_that_stand(), 0);
        assert!(leaving.push(left(false)).is_ok());
        assert_eq!(leaving.give_up_those_that_stand(), 20);
        assert_eq!(leaving.find_over(), 0, "they were given up");
        assert_eq!(leaving.close().len(), 1);
        assert!(leaving.push(left(false)).is_err(), "nobody would look at it");
    }

    /// With a patience of nothing the task of a connection had turn after turn for as long as a request was under way.
    #[tokio::test(start_paused = true)]
    async fn there_is_time_between_two_looks() {
        let (begin, mut looks) = (tokio::time::Instant::now(), Looks::new(Duration::ZERO));
        looks.begin();
        for _ in 0..10 {
            looks.next().await;
            looks.again(true);
        }
        assert!(begin.elapsed() >= LEAST * 9, "{:?}", begin.elapsed());
    }

    /// Nobody is told when that is. It was from when the response had been handed over, so that one that was on its
    /// way for as long as a connection may be idle ended it.
    #[tokio::test]
    async fn a_connection_is_idle_once_the_client_has_the_last_response() {
        let (_endpoints, connection, _peer) = pair().await;
        tokio::time::pause();
        let seconds = |n| tokio::time::advance(Duration::from_secs(n));
        let limits = Limits { idle: Duration::from_secs(10), ..Limits::default() };
        let (server, requests) = (Server::new(limits.clone()), TaskTracker::new());
        let books = Books::new(limits, connection.clone(), Box::new(|_| {}));
        let (has_all, waits) = oneshot::channel::<()>();
        let end = async move {
            let _ = waits.await;
            Ok(None)
        };
        let shared = Arc::new(Shared { connection, limit: FieldSectionLimit::default() });
        let left = Left::new(Box::pin(end), Arc::new(Beside::new(shared, StreamId(0))));
        assert!(books.leaving.push(left).is_ok());
        let idle_for = || server.idle_for(&requests, &books);
        seconds(9).await;
        assert!(idle_for().is_some());
        has_all.send(()).unwrap();
        seconds(2).await;
        let left = idle_for().expect("two seconds ago the client did not have it");
        assert!(left < Duration::from_secs(5), "looked at again before it could be over: {left:?}");
        seconds(8).await;
        assert_eq!(idle_for(), None);
    }
}
