//! A program's connection that is watched while hyper has it.
//!
//! As long as an origin server takes nothing, hyper reads nothing, and does not notice that the program
//! is gone.

use std::{
    io::{self, IoSlice},
    net::Shutdown,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::visit::Visit;
use crate::splice::{NOBODY_THERE, broken, silence};

/// Reads and writes a connection that others have as well.
pub(super) struct Watched(Arc<TcpStream>);

impl Watched {
    pub(super) fn new(tcp: &Arc<TcpStream>) -> Self {
        Self(Arc::clone(tcp))
    }

    /// The connection, once nobody else has it.
    pub(super) fn into_inner(self) -> Option<TcpStream> {
        Arc::into_inner(self.0)
    }
}

/// Returns once the program is gone and nothing that it said is taken any more.
pub(super) async fn gone(tcp: &TcpStream, visit: &Visit) {
    broken(tcp).await;
    silence(NOBODY_THERE, || visit.moved()).await;
}

impl AsyncRead for Watched {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read_buf(out) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(drop)),
            }
        }
    }
}

impl AsyncWrite for Watched {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(data)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write_vectored(data) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.0).shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    async fn pair() -> (TcpStream, Arc<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let program = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (program, Arc::new(listener.accept().await.unwrap().0))
    }

    #[tokio::test]
    async fn it_reads_and_writes_like_the_connection() {
        let (mut program, tcp) = pair().await;
        let mut watched = Watched::new(&tcp);
        assert!(Watched::new(&tcp).into_inner().is_none(), "another has it");
        drop(tcp);
        let said = vec![7; 1_000_000];
        let talks = async {
            program.write_all(b"question").await.unwrap();
            program.shutdown().await.unwrap();
            let mut heard = Vec::new();
            program.read_to_end(&mut heard).await.unwrap();
            heard
        };
        let answers = async {
            let mut heard = Vec::new();
            watched.read_to_end(&mut heard).await.unwrap();
            watched.write_all(&said).await.unwrap();
            watched.shutdown().await.unwrap();
            heard
        };
        let (answer, question) = tokio::join!(talks, answers);
        assert_eq!((&question[..], answer.len()), (&b"question"[..], said.len()));
        assert!(watched.into_inner().is_some());
    }

    /// In the middle of a body that nobody reads.
    #[cfg(target_os = "linux")]
    #[tokio::test(start_paused = true)]
    async fn a_program_that_is_gone_is_noticed_without_reading() {
        for resets in [true, false] {
            let (program, tcp) = pair().await;
            program.writable().await.unwrap();
            while program.try_write(&[0; 65_536]).is_ok() {}
            if resets {
                crate::splice::reset(program);
            } else {
                drop(program);
            }
            let limit = std::time::Duration::from_secs(120);
            let noticed = tokio::time::timeout(limit, gone(&tcp, &Visit::new(None))).await;
            assert!(noticed.is_ok(), "{resets}");
        }
    }
}
