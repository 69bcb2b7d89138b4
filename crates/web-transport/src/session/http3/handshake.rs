//! SETTINGS and CONNECT.

use std::time::Duration;

use mendpath::{Connection, ConnectionError, RecvStream, SendStream};
use thiserror::Error;
use web_transport_proto::{ConnectError, ConnectRequest, ConnectResponse, Settings, SettingsError};

use crate::Session;

/// How long a peer may take for its SETTINGS, and a client for its request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why no session came to be.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The connection has ended.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The peer's SETTINGS are none.
    #[error("the peer's SETTINGS: {0}")]
    Settings(#[from] SettingsError),
    /// The peer takes no sessions.
    #[error("the peer's SETTINGS offer no WebTransport")]
    Unsupported,
    /// The request or its answer is none.
    #[error("the CONNECT: {0}")]
    Connect(ConnectError),
    /// The server wants no session.
    #[error("the server answered {0}")]
    Refused(http::StatusCode),
    /// One side chose a protocol that the client did not offer.
    #[error("`{0}` is not among the protocols that were offered")]
    Protocol(String),
    /// The peer said nothing for too long.
    #[error("the peer said nothing for {PATIENCE:?}")]
    Silent,
}

impl From<ConnectError> for HandshakeError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::WrongStatus(Some(status)) | ConnectError::ErrorStatus(status) => {
                Self::Refused(status)
            }
            other => Self::Connect(other),
        }
    }
}

/// A client's wish for a session, to be answered.
#[derive(Debug)]
pub struct Request {
    connection: Connection,
    control: (SendStream, RecvStream),
    connect: (SendStream, RecvStream),
    request: ConnectRequest,
}

impl Request {
    /// Waits for the request of a client whose connection was accepted, for 10 s.
    ///
    /// # Errors
    /// If the client speaks no WebTransport, or asks for something else first.
    pub async fn accept(connection: Connection) -> Result<Self, HandshakeError> {
        let handshake = async {
            let control = settings(&connection).await?;
            let (send, mut recv) = connection.accept_bi().await?;
            let request = ConnectRequest::read(&mut recv).await?;
            Ok((control, (send, recv), request))
        };
        let (control, connect, request) = patiently(handshake).await?;
        Ok(Self { connection, control, connect, request })
    }

    /// What is asked for: the address with its path, the fields, and the protocols that the client
    /// offers. Browsers send the `Origin` of their page: whoever trusts some pages only looks at it
    /// here.
    pub fn request(&self) -> &ConnectRequest {
        &self.request
    }

    /// The connection below.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Lets the client in; `protocol` is one of those that it offers, if both agree on any.
    ///
    /// # Errors
    /// If the protocol is none of those, or the connection has ended.
    pub async fn ok(mut self, protocol: Option<&str>) -> Result<Session, HandshakeError> {
        let mut response = ConnectResponse::OK;
        if let Some(protocol) = protocol {
            offered(&self.request, protocol)?;
            response = response.with_protocol(protocol);
        }
        response.write(&mut self.connect.0).await?;
        Ok(super::session(self.connection, self.control, self.connect, response.protocol))
    }

    /// Refuses, with a status that is not 2xx, and waits until the client knows.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn refuse(mut self, status: http::StatusCode) -> Result<(), HandshakeError> {
        ConnectResponse::new(status).write(&mut self.connect.0).await?;
        if self.connect.0.finish().is_ok() {
            let _ = tokio::time::timeout(PATIENCE, self.connect.0.finished()).await;
        }
        Ok(())
    }
}

/// Asks the server of a fresh connection for a session.
///
/// # Errors
/// If it speaks no WebTransport, refuses, or says nothing for 10 s.
pub async fn connect(connection: Connection, request: ConnectRequest) -> Result<Session, HandshakeError> {
    let handshake = async {
        let control = settings(&connection).await?;
        let (mut send, mut recv) = connection.open_bi().await?;
        request.write(&mut send).await?;
        let response = ConnectResponse::read(&mut recv).await?;
        Ok((control, (send, recv), response))
    };
    let (control, connect, response) = patiently(handshake).await?;
    if let Some(protocol) = &response.protocol {
        offered(&request, protocol)?;
    }
    Ok(super::session(connection, control, connect, response.protocol))
}

/// Exchanges SETTINGS: both sides send them before anything else, on the stream that they open
/// first.
async fn settings(connection: &Connection) -> Result<(SendStream, RecvStream), HandshakeError> {
    let mut ours = Settings::default();
    ours.enable_webtransport(1);
    let mut send = connection.open_uni().await?;
    ours.write(&mut send).await?;
    let mut recv = connection.accept_uni().await?;
    let theirs = Settings::read(&mut recv).await?;
    tracing::debug!(?theirs, "SETTINGS");
    if theirs.supports_webtransport() == 0 {
        return Err(HandshakeError::Unsupported);
    }
    Ok((send, recv))
}

fn offered(request: &ConnectRequest, protocol: &str) -> Result<(), HandshakeError> {
    match request.protocols.iter().any(|offered| offered == protocol) {
        true => Ok(()),
        false => Err(HandshakeError::Protocol(protocol.to_owned())),
    }
}

async fn patiently<T>(
    handshake: impl Future<Output = Result<T, HandshakeError>>,
) -> Result<T, HandshakeError> {
    tokio::time::timeout(PATIENCE, handshake).await.unwrap_or(Err(HandshakeError::Silent))
}
