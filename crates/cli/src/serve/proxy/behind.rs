//! Connections to the server behind, which is heard out.

use std::{
    io::{Error, ErrorKind, IoSlice, Result},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tower::{ServiceExt as _, util::MapResponse};

/// Without a word, until the server is asked whether it is still there: nobody else would notice that its
/// machine is gone in the middle of an answer, or of a WebSocket.
const ASKED_AFTER: Duration = Duration::from_secs(30);

/// Makes them.
pub(super) type Connector = MapResponse<HttpConnector, fn(TokioIo<TcpStream>) -> TokioIo<HeardOut>>;

/// Each has `patience` to come about, and the server `taking` to take something of what it is sent: one that
/// has answered before it has read all may keep the rest waiting, and with it the client's connection.
pub(super) fn connector(patience: Duration, taking: Duration) -> Connector {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(patience));
    connector.set_nodelay(true);
    connector.set_keepalive(Some(ASKED_AFTER));
    // With it one question to which nobody answers is enough.
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(taking));
    #[cfg(not(target_os = "linux"))]
    let _ = taking;
    connector.map_response(|io| TokioIo::new(HeardOut { tcp: io.into_inner(), deaf: None }))
}

/// A connection whose other end may take no more, and have said why: who refuses an upload answers and
/// closes without reading it. Hyper gives up at once where writing fails. So that does not fail here,
/// but comes to a halt, and reading tells once all that was said has been read.
pub(super) struct HeardOut {
    tcp: TcpStream,
    /// Why nothing more is taken.
    deaf: Option<ErrorKind>,
}

impl HeardOut {
    fn tells(&mut self, written: Poll<Result<usize>>) -> Poll<Result<usize>> {
        let Poll::Ready(Err(error)) = written else { return written };
        self.deaf = Some(error.kind());
        Poll::Pending
    }
}

impl Connection for HeardOut {
    fn connected(&self) -> Connected {
        self.tcp.connected()
    }
}

impl AsyncRead for HeardOut {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let before = out.filled().len();
        ready!(Pin::new(&mut self.tcp).poll_read(cx, out))?;
        let is_end = out.filled().len() == before && out.remaining() > 0;
        Poll::Ready(match self.deaf {
            Some(deaf) if is_end => Err(Error::from(deaf)),
            _ => Ok(()),
        })
    }
}

impl AsyncWrite for HeardOut {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write(cx, data);
        self.tells(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write_vectored(cx, data);
        self.tells(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use hyper::Uri;
    use socket2::SockRef;
    #[cfg(target_os = "linux")]
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_server_that_is_gone_without_a_word_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let patience = Duration::from_secs(60);
        let connection = connector(patience, patience).oneshot(url).await.unwrap().into_inner();
        assert!(SockRef::from(&connection.tcp).keepalive().unwrap());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_server_that_takes_nothing_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let connector = connector(Duration::from_secs(60), Duration::from_millis(300));
        let connection = connector.oneshot(url).await.unwrap().into_inner();
        let (_takes_nothing, _) = listener.accept().await.unwrap();
        let (mut from, mut to) = tokio::io::split(connection);
        let sending = async { while to.write_all(&[0; 1 << 16]).await.is_ok() {} };
        let heard = tokio::select! {
            heard = from.read_u8() => heard,
            () = sending => panic!("it comes to a halt"),
        };
        assert_eq!(heard.unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
