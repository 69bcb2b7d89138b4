//! Requests of a connection for a service.

mod books;
mod leaving;
mod limits;
mod pseudo;
mod reception;
mod reply;
mod request;

use std::{future::poll_fn, pin::pin, sync::Arc, time::Duration};

use h3::error::ConnectionError;
use http::{Request, Response, StatusCode};
use tokio::time::sleep_until;
use tokio_util::task::TaskTracker;
use tower_service::Service;

pub use self::limits::Limits;
use self::{
    books::Books,
    leaving::{Left, Looks},
    reception::Reception,
    reply::BoxError,
    request::serve_request,
};
use crate::{Body, patience::after};

/// How often is looked at least whether requests are over, in a connection that may not be idle.
const LEAST_IDLE: Duration = Duration::from_millis(1);

/// Hands the requests of connections to a service of `tower`, and its responses back.
#[derive(Clone, Debug, Default)]
pub struct Server {
    limits: Limits,
    without_interims: bool,
}

impl Server {
    /// With these limits.
    pub fn new(limits: Limits) -> Self {
        Self { limits, without_interims: false }
    }

    /// Requests have no [`Interim`](crate::Interim): for a service that says nothing before its responses, as most
    /// do, and need not pay for it.
    #[must_use]
    pub fn without_interims(mut self) -> Self {
        self.without_interims = true;
        self
    }

    /// Serves a connection until it ends, or until `stop` resolves and every request that came
    /// before is answered and acknowledged. Each request has a task and a clone of the service. A
    /// service that fails is answered for with 500.
    ///
    /// # Errors
    /// If the connection ends otherwise than by the client's `H3_NO_ERROR`.
    pub async fn serve<S, B>(
        &self,
        connection: mendpath::Connection,
        service: S,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ConnectionError>
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>> + Clone + Send + 'static,
        S::Future: Send,
        B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        self.serve_noting(connection, service, |_| {}, stop).await
    }

    /// The same; `refused` hears of every request that the service does not see: 431 if its fields
    /// are too large, which the client is answered, or its stream is reset
    /// ([`Limits::field_section`]), and 400 if it is malformed, whose stream is reset.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub async fn serve_noting<S, B>(
        &self,
        connection: mendpath::Connection,
        service: S,
        refused: impl Fn(StatusCode) + Send + Sync + 'static,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ConnectionError>
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>> + Clone + Send + 'static,
        S::Future: Send,
        B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        let mut books = Books::new(self.limits.clone(), connection, Box::new(refused));
        books.has_interims = !self.without_interims;
        let books = Arc::new(books);
        let mut reception = Reception::open(&books).await?;
        let requests = TaskTracker::new();
        let (idle, mut looks) = (sleep_until(after(self.idle_looks())), Looks::new(self.limits.send));
        let (mut stop, mut idle, mut over) = (pin!(stop), pin!(idle), false);
        loop {
            let stopping = requests.is_closed();
            let ends = tokio::select! {
                next = poll_fn(|cx| reception.poll_next(cx)), if !over => match next {
                    Ok(Some((resolver, accepted))) => {
                        let serving = serve_request(resolver, accepted, service.clone(), books.clone());
                        // A large future, which a task would be moved into several times.
                        requests.spawn(Box::pin(serving));
                        looks.begin();
                        false
                    }
                    Ok(None) => {
                        over = true;
                        true
                    }
                    Err(error) if error.is_h3_no_error() => return Ok(()),
                    Err(error) => return Err(error),
                },
                () = requests.wait(), if stopping => return Ok(()),
                () = &mut stop, if !stopping => true,
                () = &mut idle, if !stopping => match self.idle_for(&requests, &books) {
                    Some(left) => {
                        idle.as_mut().reset(after(left));
                        false
                    }
                    None => true,
                },
                () = looks.next(), if !stopping => {
                    books.give_up_those_that_stand();
                    looks.again(!is_quiet(&requests, &books));
                    false
                }
            };
            if ends {
                for left in books.leaving.close() {
                    requests.spawn(taken(left, books.clone()));
                }
                requests.close();
                reception.close(&books).await?;
            }
        }
    }

    /// When to look again whether the connection is idle; `None` if it has been without a request for too long.
    fn idle_for(&self, requests: &TaskTracker, books: &Books) -> Option<Duration> {
        if !is_quiet(requests, books) {
            books.goes_on();
            return Some(self.idle_looks());
        }
        let left = self.limits.idle.checked_sub(books.quiet()).filter(|left| !left.is_zero());
        left.map(|left| left.min(self.idle_looks()))
    }

    /// Nobody says when the client has a response, so that it counts as on its way until the last look at which it
    /// was: several in the time that a connection may be idle.
    fn idle_looks(&self) -> Duration {
        (self.limits.idle / 4).max(LEAST_IDLE)
    }
}

/// Whether no request is under way, and the client has all responses.
fn is_quiet(requests: &TaskTracker, books: &Books) -> bool {
    requests.is_empty() && books.leaving.are_over()
}

/// Waits until the client has the rest of a response, as the connection ends.
async fn taken(left: Left, books: Arc<Books>) {
    books.on_over(left.taken(&books.limits).await);
}
