//! The part of both APIs that scenarios use alike.

use std::future::Future;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use crate::stack;

/// A connection that opens and accepts streams; `None` once it has ended.
pub(crate) trait Streams: Clone + Send + Sync + 'static {
    type Send: AsyncWrite + Unpin + Send + 'static;
    type Recv: AsyncRead + Unpin + Send + 'static;

    fn open_bi(&self) -> impl Future<Output = Option<(Self::Send, Self::Recv)>> + Send;
    fn accept_bi(&self) -> impl Future<Output = Option<(Self::Send, Self::Recv)>> + Send;
    fn open_uni(&self) -> impl Future<Output = Option<Self::Send>> + Send;
    fn accept_uni(&self) -> impl Future<Output = Option<Self::Recv>> + Send;
}

macro_rules! streams {
    ($stack:ident) => {
        impl Streams for $stack::Connection {
            type Send = $stack::SendStream;
            type Recv = $stack::RecvStream;

            async fn open_bi(&self) -> Option<(Self::Send, Self::Recv)> {
                $stack::Connection::open_bi(self).await.ok()
            }

            async fn accept_bi(&self) -> Option<(Self::Send, Self::Recv)> {
                $stack::Connection::accept_bi(self).await.ok()
            }

            async fn open_uni(&self) -> Option<Self::Send> {
                $stack::Connection::open_uni(self).await.ok()
            }

            async fn accept_uni(&self) -> Option<Self::Recv> {
                $stack::Connection::accept_uni(self).await.ok()
            }
        }
    };
}

streams!(mendpath);
streams!(stack);

/// Sends back what arrives on every bidirectional stream, until the connection ends.
pub(crate) async fn echo(connection: impl Streams) {
    while let Some((mut send, mut recv)) = connection.accept_bi().await {
        tokio::spawn(async move {
            if tokio::io::copy(&mut recv, &mut send).await.is_ok() {
                let _ = send.shutdown().await;
            }
        });
    }
}
