//! SETTINGS and CONNECT.

use std::time::Duration;

use mendpath::{Connection, ConnectionError, RecvStream, SendStream, VarInt};
use thiserror::Error;
use tokio::io::AsyncReadExt;
use web_transport_proto::{
    ConnectError, ConnectRequest, ConnectResponse, Settings, SettingsError, StreamUni,
};

use super::{
    accept::Early,
    rules::{CLOSED_CRITICAL_STREAM, EXCESSIVE_LOAD, FRAME_ERROR, MISSING_SETTINGS},
};
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
    /// This side would refuse with what lets the client in.
    #[error("{0} refuses nobody")]
    Success(http::StatusCode),
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
    control: Control,
    connect: (SendStream, RecvStream),
    request: ConnectRequest,
}

/// The control streams, and what of the peer's came before its own.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) send: SendStream,
    pub(crate) recv: RecvStream,
    pub(crate) early: Early,
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
        let (control, connect, request) = patiently(&connection, handshake).await?;
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
        response.write(&mut self.connect.0).await.map_err(|error| ended(&self.connection, error.into()))?;
        Ok(super::session(self.connection, self.control, self.connect, response.protocol))
    }

    /// Refuses, with a status that is not 2xx, and waits until the client knows.
    ///
    /// # Errors
    /// If the status is 2xx, or the connection has ended.
    pub async fn refuse(mut self, status: http::StatusCode) -> Result<(), HandshakeError> {
        if status.is_success() {
            return Err(HandshakeError::Success(status));
        }
        let response = ConnectResponse::new(status);
        response.write(&mut self.connect.0).await.map_err(|error| ended(&self.connection, error.into()))?;
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
    let (control, connect, response) = patiently(&connection, handshake).await?;
    if let Some(protocol) = &response.protocol {
        offered(&request, protocol)?;
    }
    Ok(super::session(connection, control, connect, response.protocol))
}

/// Exchanges SETTINGS: both sides send them before anything else on their control stream.
async fn settings(connection: &Connection) -> Result<Control, HandshakeError> {
    let mut ours = Settings::default();
    ours.enable_webtransport(1);
    let mut send = connection.open_uni().await?;
    ours.write(&mut send).await?;
    let mut early = Early::default();
    let mut recv = early.control(connection).await?;
    let mut kind = Vec::new();
    StreamUni::CONTROL.encode(&mut kind);
    let theirs = Settings::read(&mut kind.as_slice().chain(&mut recv)).await?;
    tracing::debug!(?theirs, "SETTINGS");
    if theirs.supports_webtransport() == 0 {
        return Err(HandshakeError::Unsupported);
    }
    Ok(Control { send, recv, early })
}

fn offered(request: &ConnectRequest, protocol: &str) -> Result<(), HandshakeError> {
    match request.protocols.iter().any(|offered| offered == protocol) {
        true => Ok(()),
        false => Err(HandshakeError::Protocol(protocol.to_owned())),
    }
}

async fn patiently<T>(
    connection: &Connection,
    handshake: impl Future<Output = Result<T, HandshakeError>>,
) -> Result<T, HandshakeError> {
    let done = tokio::time::timeout(PATIENCE, handshake).await.unwrap_or(Err(HandshakeError::Silent));
    done.map_err(|error| {
        let error = ended(connection, error);
        if let HandshakeError::Settings(error) = &error {
            connection.close(code(error), b"the control stream");
        }
        error
    })
}

/// RFC 9114 section 6.2.1 and 7.1.
fn code(error: &SettingsError) -> VarInt {
    match error {
        SettingsError::UnexpectedFrame(_) => MISSING_SETTINGS,
        SettingsError::InvalidSize => FRAME_ERROR,
        SettingsError::FrameTooLarge => EXCESSIVE_LOAD,
        // That it has ended is all that is known.
        _ => CLOSED_CRITICAL_STREAM,
    }
}

/// Streams that break off with their connection say no more of it than that they do.
fn ended(connection: &Connection, error: HandshakeError) -> HandshakeError {
    use HandshakeError::{Connect, Connection as Lost, Settings};
    match (error, connection.close_reason()) {
        (
            Connect(ConnectError::UnexpectedEnd | ConnectError::Io(_))
            | Settings(SettingsError::UnexpectedEnd | SettingsError::Io(_)),
            Some(reason),
        ) => Lost(reason),
        (error, _) => error,
    }
}
