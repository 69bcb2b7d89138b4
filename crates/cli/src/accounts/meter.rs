//! A half of a stream whose bytes are an account's: they are counted, and pass at its rate.

use std::{
    future::{Future, poll_fn},
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    io::AsyncWrite,
    time::{Instant, Sleep, sleep_until},
};

use super::{Account, Direction};
use crate::{
    protocol::StreamCode,
    splice::{Abort, FarEnd, PIECE, ReadPieces},
};

/// A reading or a writing half.
pub(crate) struct Metered<T> {
    half: T,
    account: Arc<Account>,
    direction: Direction,
    /// While it must wait for its turn.
    turn: Option<Pin<Box<Sleep>>>,
}

impl<T> Metered<T> {
    pub(crate) fn new(half: T, account: Arc<Account>, direction: Direction) -> Self {
        Self { half, account, direction, turn: None }
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(turn) = &mut self.turn {
            ready!(turn.as_mut().poll(cx));
            self.turn = None;
        }
        Poll::Ready(())
    }

    fn passed(&mut self, bytes: usize) {
        let wait = self.account.passed(self.direction, bytes);
        if wait > Duration::ZERO {
            self.turn = Some(Box::pin(sleep_until(Instant::now() + wait)));
        }
    }
}

impl<T: ReadPieces + Send> ReadPieces for Metered<T> {
    async fn read_pieces(&mut self, pieces: &mut [Bytes]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_turn(cx)).await;
        let most = (self.account.piece() / PIECE).clamp(1, pieces.len());
        let read = self.half.read_pieces(&mut pieces[..most]).await?;
        self.passed(pieces[..read].iter().map(Bytes::len).sum());
        Ok(read)
    }

    async fn far_end(&mut self) -> Option<FarEnd> {
        self.half.far_end().await
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Metered<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_turn(cx));
        let piece = data.len().min(self.account.piece());
        let written = ready!(Pin::new(&mut self.half).poll_write(cx, &data[..piece]))?;
        self.passed(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.half).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.half).poll_shutdown(cx)
    }
}

impl<T: Abort> Abort for Metered<T> {
    fn abort(&mut self, code: StreamCode) {
        self.half.abort(code);
    }

    fn abort_when_heard(&mut self, code: StreamCode) {
        self.half.abort_when_heard(code);
    }

    fn refused(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.half.refused()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use units::BitRate;

    use super::*;
    use crate::accounts::{Terms, account::tests::record};

    /// Pieces of 1,000 bytes without end.
    struct Endless;

    impl ReadPieces for Endless {
        async fn read_pieces(&mut self, pieces: &mut [Bytes]) -> io::Result<usize> {
            pieces[0] = Bytes::from_static(&[1; 1_000]);
            Ok(1)
        }

        async fn far_end(&mut self) -> Option<FarEnd> {
            None
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_streams_of_an_account_share_its_rate() {
        let rate = Some(BitRate::from_mbps(8));
        let account = Account::new(&record(Terms { rate, ..Terms::default() }));
        let start = Instant::now();
        let writers = (0..4).map(|_| {
            let mut half = Metered::new(tokio::io::sink(), account.clone(), Direction::Down);
            tokio::spawn(async move { half.write_all(&vec![0; 500_000]).await.unwrap() })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
        let mut source = Metered::new(Endless, account.clone(), Direction::Up);
        for _ in 0..100 {
            assert_eq!(source.read_pieces(&mut [Bytes::new()]).await.unwrap(), 1);
        }
        assert_eq!((account.usage().up, account.usage().down), (100_000, 2_000_000));
        // 2 MB at 1 MB/s, then 0.1 MB the other way, less a burst and the last pieces' turns.
        let took = start.elapsed().as_secs_f64();
        assert!((1.9..=2.1).contains(&took), "{took} s of virtual time");
    }
}
