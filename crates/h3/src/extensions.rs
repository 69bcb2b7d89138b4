//! What a request tells besides its fields, and what may be answered besides the response; in the
//! extensions of the request that a service gets.

use http::{HeaderMap, Response, StatusCode};
use tokio::sync::mpsc;

/// The request, or some of it, came in 0-RTT packets: it may be a replay (RFC 8470). Only there if
/// the connection is served before its handshake is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyData;

/// Interim responses that may wait for a client that is slow.
const WAITING: usize = 8;

/// Sends interim responses (RFC 9110 section 15.2) before the response: 103 Early Hints (RFC 8297).
#[derive(Clone, Debug)]
pub struct Interim(mpsc::Sender<Response<()>>);

impl Interim {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Response<()>>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), receiver)
    }

    /// Sends one, and says whether it will be: not so if the status is not 1xx, the response has
    /// begun, or several wait already. A client may do without any.
    pub fn send(&self, status: StatusCode, fields: HeaderMap) -> bool {
        if !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS {
            return false;
        }
        let mut response = Response::new(());
        *response.status_mut() = status;
        *response.headers_mut() = fields;
        self.0.try_send(response).is_ok()
    }
}
