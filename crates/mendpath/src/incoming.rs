//! A client that asks for a connection.

use std::{
    error::Error,
    fmt,
    future::{Future, IntoFuture},
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use crate::{
    Connecting, ConnectionError, ServerConfig,
    engine::{Client, EndpointHandle},
};

/// A client that asks for a connection, about which the application decides.
///
/// Awaiting it accepts it and completes the handshake; dropping it refuses it. It has passed what
/// the endpoint decides by itself: its packet authenticates, there is room, and it has shown that
/// it receives at its address if [`ServerConfig::address_validation`] wants that. While it waits it
/// takes one of the places of [`ServerConfig::max_half_open`], which newcomers may take from it.
#[must_use = "dropping a client refuses it"]
pub struct Incoming {
    /// `None` once decided.
    client: Option<Client>,
    /// Keeps the endpoint open while the application holds this.
    endpoint: EndpointHandle,
}

impl Incoming {
    pub(crate) fn new(client: Client, endpoint: EndpointHandle) -> Self {
        Self { client: Some(client), endpoint }
    }

    fn client(&self) -> &Client {
        self.client.as_ref().expect("only deciding takes it, and with it this")
    }

    fn take(&mut self) -> Client {
        self.client.take().expect("only deciding takes it, and with it this")
    }

    /// The address that it asks from.
    pub fn remote_address(&self) -> SocketAddr {
        self.client().proto.path().remote
    }

    /// The address that it asks at; unspecified where the operating system does not tell.
    pub fn local_address(&self) -> SocketAddr {
        self.client().proto.path().local
    }

    /// Whether it has shown, by a token, that it receives at its address (RFC 9000 section 8.1). If
    /// not, the address may be forged.
    pub fn remote_address_validated(&self) -> bool {
        self.client().proto.remote_address_validated()
    }

    /// Whether [`retry`](Self::retry) is possible: not if it answers a Retry already.
    pub fn may_retry(&self) -> bool {
        self.client().proto.may_retry()
    }

    /// The runtime that will drive its connection: the current one when the endpoint was made, or
    /// the thread of its worker ([`EndpointBuilder::workers`](crate::EndpointBuilder::workers)). What
    /// is spawned there works on the connection without a hop between threads, and ends with the
    /// endpoint.
    pub fn runtime(&self) -> tokio::runtime::Handle {
        self.endpoint.crew().of(self.client()).runtime().clone()
    }

    /// Begins the handshake.
    ///
    /// # Errors
    /// If the client had to make room for others meanwhile, the endpoint was closed, or TLS refuses
    /// its configuration.
    pub fn accept(mut self) -> Result<Connecting, ConnectionError> {
        let client = self.take();
        self.endpoint.crew().of(&client).accept(client, None).map(Connecting::new)
    }

    /// As [`accept`](Self::accept), with another configuration than the endpoint's. Of this, the
    /// limits on how many clients there may be are not used.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn accept_with(mut self, config: &ServerConfig) -> Result<Connecting, ConnectionError> {
        let client = self.take();
        self.endpoint.crew().of(&client).accept(client, Some(config)).map(Connecting::new)
    }

    /// Turns it away with `CONNECTION_REFUSED` and the reason, which anybody on the path can read.
    /// No state is kept. So many clients a second are told; the others try again until they give
    /// up.
    pub fn refuse(mut self, reason: &str) {
        let client = self.take();
        self.endpoint.crew().of(&client).refuse(client, reason);
    }

    /// Makes it show that it receives at its address, at the price of a round trip, and forgets it:
    /// it comes back as another whose address is validated (RFC 9000 section 8.1.2).
    ///
    /// # Errors
    /// If it has answered a Retry already.
    pub fn retry(mut self) -> Result<(), RetryError> {
        let client = self.take();
        self.endpoint.crew().of(&client).retry(client).map_err(|client| {
            self.client = Some(client);
            RetryError(Box::new(self))
        })
    }

    /// Forgets it without a word; it tries again until it gives up.
    pub fn ignore(mut self) {
        let client = self.take();
        self.endpoint.crew().of(&client).ignore(client);
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            self.endpoint.crew().of(&client).refuse(client, "");
        }
    }
}

impl IntoFuture for Incoming {
    type Output = Result<crate::Connection, ConnectionError>;
    type IntoFuture = IncomingFuture;

    fn into_future(self) -> IncomingFuture {
        IncomingFuture(self.accept())
    }
}

/// Completes the handshake of an [`Incoming`] that was awaited.
#[derive(Debug)]
pub struct IncomingFuture(Result<Connecting, ConnectionError>);

impl Future for IncomingFuture {
    type Output = Result<crate::Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Ok(connecting) => Pin::new(connecting).poll(cx),
            Err(error) => Poll::Ready(Err(error.clone())),
        }
    }
}

/// The client has answered a Retry: it cannot be asked again.
pub struct RetryError(Box<Incoming>);

impl RetryError {
    /// The client, to decide otherwise.
    pub fn into_incoming(self) -> Incoming {
        *self.0
    }
}

impl fmt::Debug for RetryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RetryError").field(&self.0).finish()
    }
}

impl fmt::Display for RetryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the client has answered a Retry already")
    }
}

impl Error for RetryError {}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("remote", &self.remote_address())
            .field("validated", &self.remote_address_validated())
            .finish_non_exhaustive()
    }
}
