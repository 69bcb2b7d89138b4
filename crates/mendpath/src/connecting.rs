//! A connection whose handshake is under way.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use crate::{Connection, ConnectionError};

/// A connection whose handshake is under way: await it to get the [`Connection`].
///
/// Dropping it closes the connection.
#[must_use = "a dropped handshake closes the connection"]
#[derive(Debug)]
pub struct Connecting {}

impl Connecting {
    /// The peer's address.
    pub fn remote_address(&self) -> SocketAddr {
        todo!()
    }

    /// Closes the connection at once, with an application code and reason.
    pub fn refuse(self, _code: u64, _reason: &[u8]) {
        todo!()
    }
}

impl Future for Connecting {
    type Output = Result<Connection, ConnectionError>;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Self::Output> {
        todo!()
    }
}
