//! What the tests of `h3` say of quinn, over mendpath.

use std::fmt;

use mendpath::VarInt;

/// The peer's application closed the connection.
#[derive(Debug)]
pub struct ApplicationClose {
    pub error_code: VarInt,
}

/// Why there is no connection any more.
#[derive(Debug)]
pub enum ConnectionError {
    ApplicationClosed(ApplicationClose),
    Other(mendpath::ConnectionError),
}

/// Why a stream takes nothing more.
#[derive(Debug)]
pub enum WriteError {
    ConnectionLost(ConnectionError),
    Other(mendpath::WriteError),
}

/// Why a stream gives nothing more.
#[derive(Debug)]
pub enum ReadError {
    ConnectionLost(ConnectionError),
    Other(mendpath::ReadError),
}

impl From<mendpath::ConnectionError> for ConnectionError {
    fn from(error: mendpath::ConnectionError) -> Self {
        match error {
            mendpath::ConnectionError::ApplicationClosed { code, .. } => {
                Self::ApplicationClosed(ApplicationClose { error_code: code })
            }
            other => Self::Other(other),
        }
    }
}

impl From<mendpath::WriteError> for WriteError {
    fn from(error: mendpath::WriteError) -> Self {
        match error {
            mendpath::WriteError::ConnectionLost(error) => Self::ConnectionLost(error.into()),
            other => Self::Other(other),
        }
    }
}

impl From<mendpath::ReadError> for ReadError {
    fn from(error: mendpath::ReadError) -> Self {
        match error {
            mendpath::ReadError::ConnectionLost(error) => Self::ConnectionLost(error.into()),
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A connection below HTTP/3, by which tests say what `h3` would not.
#[derive(Clone)]
pub struct Connection(pub mendpath::Connection);

impl Connection {
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        Ok(SendStream(self.0.open_uni().await?))
    }

    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let (send, recv) = self.0.open_bi().await?;
        Ok((SendStream(send), RecvStream(recv)))
    }

    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        Ok(RecvStream(self.0.accept_uni().await?))
    }

    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let (send, recv) = self.0.accept_bi().await?;
        Ok((SendStream(send), RecvStream(recv)))
    }
}

/// The sending half of a stream. As quinn's it ends when it is dropped, where mendpath's is reset.
pub struct SendStream(mendpath::SendStream);

impl Drop for SendStream {
    fn drop(&mut self) {
        // Refused if it has ended.
        let _ = self.0.finish();
    }
}

impl SendStream {
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        Ok(self.0.write(data).await?)
    }

    pub async fn write_all(&mut self, data: &[u8]) -> Result<(), WriteError> {
        Ok(self.0.write_all(data).await?)
    }

    pub fn finish(&mut self) -> Result<(), mendpath::ClosedStream> {
        self.0.finish()
    }
}

/// The receiving half of a stream.
pub struct RecvStream(mendpath::RecvStream);

impl RecvStream {
    pub async fn read(&mut self, buf: &mut [u8]) -> Result<Option<usize>, ReadError> {
        Ok(self.0.read(buf).await?)
    }
}
