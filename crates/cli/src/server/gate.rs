//! Lets nobody in without a token: the control stream's hello, and its answer.

use std::time::Duration;

use mendpath::{Connection, RecvStream, SendStream};

use crate::{
    protocol::{CloseCode, DecodeError, Hello, MAX_MESSAGE, Reply, read_frame, write_frame},
    token::{Service, TokenSecret},
};

/// How long a client may take from the handshake to its hello.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks tokens for one service.
#[derive(Debug)]
pub struct Gate {
    tokens: TokenSecret,
    service: Service,
}

impl Gate {
    /// A gate for the tokens of this secret.
    pub fn new(tokens: TokenSecret, service: Service) -> Self {
        Self { tokens, service }
    }

    /// Waits for the client's hello and answers it. The control stream is returned: its end is the client's goodbye.
    ///
    /// # Errors
    /// The code with which the connection was closed.
    pub async fn admit(&self, connection: &Connection) -> Result<(SendStream, RecvStream), CloseCode> {
        let admitted = match tokio::time::timeout(HELLO_TIMEOUT, self.hear(connection)).await {
            Ok(result) => result,
            Err(_) => Err(CloseCode::HelloTimeout),
        };
        if let Err(code) = admitted {
            connection.close(code as u64, reason(code).as_bytes());
        }
        admitted
    }

    async fn hear(&self, connection: &Connection) -> Result<(SendStream, RecvStream), CloseCode> {
        let (mut send, mut receive) = connection.accept_bi().await.map_err(|_| CloseCode::Done)?;
        let body = read_frame(&mut receive, MAX_MESSAGE).await.ok().flatten().ok_or(CloseCode::Protocol)?;
        let hello = Hello::decode(&body).map_err(|error| match error {
            DecodeError::Unknown("version") => CloseCode::Version,
            _ => CloseCode::Protocol,
        })?;
        if hello.service != self.service {
            return Err(CloseCode::WrongService);
        }
        if !self.tokens.accepts(self.service, hello.token.as_bytes()) {
            return Err(CloseCode::TokenRefused);
        }
        write_frame(&mut send, &Reply::ok().encode()).await.map_err(|_| CloseCode::Done)?;
        Ok((send, receive))
    }
}

/// For people who look at packets or logs.
fn reason(code: CloseCode) -> &'static str {
    match code {
        CloseCode::Done => "",
        CloseCode::Protocol => "malformed hello",
        CloseCode::TokenRefused => "token refused",
        CloseCode::Version => "unknown protocol version",
        CloseCode::HelloTimeout => "no hello in time",
        CloseCode::WrongService => "another service",
        CloseCode::Unavailable => "unavailable",
    }
}
