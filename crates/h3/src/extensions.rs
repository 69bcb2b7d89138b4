//! What a request tells besides its fields, and what may be answered besides the response; in the
//! extensions of the request that a service gets.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use http::{HeaderMap, Response, StatusCode};

/// The request, or some of it, came in 0-RTT packets: it may be a replay (RFC 8470). Only there if
/// the connection is served before its handshake is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyData;

/// Interim responses that may wait for a client that is slow.
const WAITING: usize = 8;

/// Sends interim responses (RFC 9110 section 15.2) before the response: 103 Early Hints (RFC 8297).
#[derive(Clone, Debug)]
pub struct Interim(Arc<Mutex<Said>>);

/// What is to be sent before the response.
#[derive(Debug, Default)]
struct Said {
    /// Oldest first.
    waiting: Vec<Response<()>>,
    /// The response has begun, or will not come.
    closed: bool,
    told: Option<Waker>,
}

/// Where the interim responses of a request come from; when it is dropped, there can be no more.
#[derive(Debug)]
pub struct Interims(Interim);

impl Interim {
    /// For a request. [`Server`](crate::Server) makes one for each, unless it is
    /// [without](crate::Server::without_interims); this is for whoever serves the same by another protocol.
    pub fn new() -> (Self, Interims) {
        let interim = Self(Arc::default());
        (interim.clone(), Interims(interim))
    }

    /// Sends one, and says whether it will be: not so if the status is not 1xx, the response has
    /// begun, or several wait already. A client may do without any, and does without those that are
    /// larger than it takes.
    pub fn send(&self, status: StatusCode, fields: HeaderMap) -> bool {
        if !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS {
            return false;
        }
        let mut response = Response::new(());
        *response.status_mut() = status;
        *response.headers_mut() = fields;
        let mut said = self.lock();
        if said.closed || said.waiting.len() == WAITING {
            return false;
        }
        said.waiting.push(response);
        let told = said.told.take();
        drop(said);
        told.into_iter().for_each(Waker::wake);
        true
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interims {
    /// Those that wait, once there are some. Cancel safe.
    pub async fn next(&mut self) -> Vec<Response<()>> {
        poll_fn(|cx: &mut Context<'_>| {
            let mut said = self.0.lock();
            if said.waiting.is_empty() {
                said.told = Some(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(std::mem::take(&mut said.waiting))
        })
        .await
    }

    /// The last ones: whoever sends another is told that it will not be.
    pub fn close(&mut self) -> Vec<Response<()>> {
        let mut said = self.0.lock();
        said.closed = true;
        std::mem::take(&mut said.waiting)
    }
}

impl Drop for Interims {
    fn drop(&mut self) {
        self.0.lock().closed = true;
    }
}
