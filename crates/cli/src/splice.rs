//! Connects two byte streams: what one side says the other hears, including how it ends.
//!
//! An end of stream passes on as an end of stream while the other direction goes on (half-close). A
//! reset of one side, or silence on both for too long, resets everything, so that neither program
//! mistakes a broken transfer for a complete one. What a side said before it broke off is heard
//! first, as it would be without us: a host that refuses an upload answers and closes. A TCP
//! connection is reset whatever else ends it, too: when the kernel closes it because this process was
//! killed, there is nobody left to say so.

use std::{
    future::Future,
    io::{self, IoSlice},
    ops::RangeInclusive,
    pin::pin,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use mendpath::{RecvStream, SendStream};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    time::{Instant, sleep_until},
};

use crate::protocol::StreamCode;

/// Bytes read from a TCP connection at a time: the least, which is all that a conversation takes, and
/// the most, for a transfer that fills what it is given. With 1,024 transfers at once 128 MiB.
const CHUNKS: RangeInclusive<usize> = 32 * 1024..=128 * 1024;
/// The largest piece of a stream.
pub(crate) const PIECE: usize = 4 * 1024;
/// Pieces of a stream that are written to a TCP connection at a time.
const PIECES: usize = 64;
/// Without a byte, until a side that takes no more is not listened to any longer.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// The reading half of a stream, whose bytes are lent and not copied.
pub trait ReadPieces {
    /// Fills `pieces` from the front with what is there, waiting for the first; returns how many
    /// were filled, 0 at the end. Cancel safe.
    ///
    /// # Errors
    /// If the stream was reset, or its connection has ended.
    fn read_pieces(&mut self, pieces: &mut [Bytes]) -> impl Future<Output = io::Result<usize>> + Send;
}

impl ReadPieces for RecvStream {
    async fn read_pieces(&mut self, pieces: &mut [Bytes]) -> io::Result<usize> {
        Ok(self.read_chunks(pieces).await?.unwrap_or(0))
    }
}

/// A half that can be given up in a way that the other end notices.
pub trait Abort {
    /// Gives it up.
    fn abort(&mut self, code: StreamCode);

    /// Gives it up as soon as what was said has arrived.
    fn abort_when_heard(&mut self, code: StreamCode) {
        self.abort(code);
    }
}

impl Abort for SendStream {
    fn abort(&mut self, code: StreamCode) {
        // An error means that it has ended already.
        let _ = self.reset(code.into());
    }

    fn abort_when_heard(&mut self, code: StreamCode) {
        // What came to its end before is whole.
        let _ = self.reset_when_delivered(code.into());
    }
}

impl Abort for RecvStream {
    fn abort(&mut self, code: StreamCode) {
        let _ = self.stop(code.into());
    }
}

/// Closes a connection with a reset, which says "failed" where a plain close would say "that was
/// all".
pub fn reset(tcp: TcpStream) {
    resets_on_close(&tcp);
}

/// From now on `tcp` is reset when it is closed, also by the end of this process. Shutting it down
/// still passes a plain end on.
pub fn resets_on_close(tcp: &TcpStream) {
    let _ = socket2::SockRef::from(tcp).set_linger(Some(Duration::ZERO));
}

/// From now on closing `tcp` is a plain end, for what was written must still arrive.
pub fn ends_on_close(tcp: &TcpStream) {
    let _ = socket2::SockRef::from(tcp).set_linger(None);
}

// Borrowed halves: the owned ones say "that was all" when they are dropped.
impl Abort for ReadHalf<'_> {
    fn abort(&mut self, _code: StreamCode) {
        resets_on_close(self.as_ref());
    }
}

impl Abort for WriteHalf<'_> {
    fn abort(&mut self, _code: StreamCode) {
        resets_on_close(self.as_ref());
    }
}

/// Which way bytes pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first side to the second.
    Forth,
    /// From the second side to the first.
    Back,
}

/// Hears of what passes.
pub trait Witness {
    /// So many bytes have passed.
    fn passed(&self, direction: Direction, bytes: usize);
}

/// Nobody wants to know.
impl Witness for () {
    fn passed(&self, _: Direction, _: usize) {}
}

/// How a splice ended.
#[derive(Debug)]
pub enum Ended {
    /// Both directions reached their end.
    Complete,
    /// One side failed; both were reset.
    Broken(io::Error),
    /// Nothing passed for the idle time; both were reset.
    Idle,
}

/// What passed, and how it ended.
#[derive(Debug)]
pub struct Summary {
    /// Bytes from the first side to the second.
    pub forth: u64,
    /// Bytes from the second side to the first.
    pub back: u64,
    /// How it ended.
    pub ended: Ended,
}

/// Connects a TCP connection and a stream, and closes the former: plainly if both directions
/// reached their ends, else with a reset.
pub async fn splice_tcp<R, W>(
    mut tcp: TcpStream,
    stream: (R, W),
    idle: Duration,
    witness: &impl Witness,
) -> Summary
where
    R: ReadPieces + Abort,
    W: AsyncWrite + Abort + Unpin,
{
    // Before anything passes: whoever kills this process, or drops this future, leaves a broken
    // transfer.
    resets_on_close(&tcp);
    let summary = splice(tcp.split(), stream, idle, witness).await;
    if let Ended::Complete = summary.ended {
        ends_on_close(&tcp);
    }
    summary
}

/// Connects `one` and `other`, each a reading and a writing half, until both directions have ended
/// or one side breaks.
pub async fn splice<R1, W1, R2, W2>(
    one: (R1, W1),
    other: (R2, W2),
    idle: Duration,
    witness: &impl Witness,
) -> Summary
where
    R1: AsyncRead + Abort + Unpin,
    W1: AsyncWrite + Abort + Unpin,
    R2: ReadPieces + Abort,
    W2: AsyncWrite + Abort + Unpin,
{
    let ((mut read1, mut write1), (mut read2, mut write2)) = (one, other);
    let (forth, back) = (AtomicU64::new(0), AtomicU64::new(0));
    let (ended, one_broke) = {
        let count = |counter: &AtomicU64, direction, bytes: usize| {
            counter.fetch_add(bytes as u64, Relaxed);
            witness.passed(direction, bytes);
        };
        // Whoever takes no more has broken off, and what then looks like an end of it is none.
        let is_deaf = AtomicBool::new(false);
        let from_one = async {
            copy(&mut read1, &mut write2, |bytes| count(&forth, Direction::Forth, bytes)).await?;
            if is_deaf.load(Relaxed) {
                return Err(Fault::Reading(io::ErrorKind::BrokenPipe.into()));
            }
            end(&mut write2).await.map_err(Fault::Writing)
        };
        let from_other = async {
            let passed = async {
                pass(&mut read2, &mut write1, |bytes| count(&back, Direction::Back, bytes)).await?;
                end(&mut write1).await.map_err(Fault::Writing)
            };
            let passed = passed.await;
            is_deaf.store(matches!(passed, Err(Fault::Writing(_))), Relaxed);
            passed
        };
        let progress = || forth.load(Relaxed) + back.load(Relaxed);
        tokio::select! {
            result = both(from_one, from_other, silence(LAST_WORDS, progress)) => match result {
                Ok(()) => (Ended::Complete, false),
                Err((Direction::Forth, Fault::Reading(error)) | (Direction::Back, Fault::Writing(error))) => {
                    (Ended::Broken(error), true)
                }
                Err((_, Fault::Reading(error) | Fault::Writing(error))) => (Ended::Broken(error), false),
            },
            () = silence(idle, progress) => (Ended::Idle, false),
        }
    };
    let code = match ended {
        Ended::Complete => None,
        Ended::Broken(_) => Some(StreamCode::Reset),
        Ended::Idle => Some(StreamCode::Idle),
    };
    if let Some(code) = code {
        read1.abort(code);
        write1.abort(code);
        read2.abort(code);
        if one_broke { write2.abort_when_heard(code) } else { write2.abort(code) }
    }
    Summary { forth: forth.into_inner(), back: back.into_inner(), ended }
}

/// Why a direction ended.
enum Fault {
    /// Nothing more comes.
    Reading(io::Error),
    /// Nothing more is taken.
    Writing(io::Error),
}

/// Waits for both directions, and tells which of them failed first. One that ends because nothing
/// more is taken leaves the other to come to its end, or to fall silent.
async fn both(
    forth: impl Future<Output = Result<(), Fault>>,
    back: impl Future<Output = Result<(), Fault>>,
    silence: impl Future<Output = ()>,
) -> Result<(), (Direction, Fault)> {
    let (mut forth, mut back) = (pin!(forth), pin!(back));
    let tell = |direction| move |fault| (direction, fault);
    let (first, is_forth) = tokio::select! {
        biased;
        ended = &mut forth => (ended.map_err(tell(Direction::Forth)), true),
        ended = &mut back => (ended.map_err(tell(Direction::Back)), false),
    };
    if let Err((_, Fault::Reading(_))) = first {
        return first;
    }
    tokio::select! {
        second = forth, if !is_forth => first.and(second.map_err(tell(Direction::Forth))),
        second = back, if is_forth => first.and(second.map_err(tell(Direction::Back))),
        () = silence, if first.is_err() => first,
    }
}

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    moved: impl Fn(usize),
) -> Result<(), Fault> {
    let mut chunk = vec![0; *CHUNKS.start()];
    loop {
        let n = from.read(&mut chunk).await.map_err(Fault::Reading)?;
        if n == 0 {
            return Ok(());
        }
        to.write_all(&chunk[..n]).await.map_err(Fault::Writing)?;
        moved(n);
        let next = next_chunk(chunk.len(), n);
        if next != chunk.len() {
            chunk = vec![0; next];
        }
    }
}

/// How much to read at a time, where a read of `size` bytes got `read`: a transfer is served with
/// few calls, and what it took is given back when it ends.
fn next_chunk(size: usize, read: usize) -> usize {
    if read == size {
        *CHUNKS.end()
    } else if read < CHUNKS.start() / 8 {
        *CHUNKS.start()
    } else {
        size
    }
}

/// As [`copy`], from a stream that lends its bytes.
async fn pass(
    from: &mut impl ReadPieces,
    to: &mut (impl AsyncWrite + Unpin),
    moved: impl Fn(usize),
) -> Result<(), Fault> {
    let mut pieces: [Bytes; PIECES] = std::array::from_fn(|_| Bytes::new());
    loop {
        let n = from.read_pieces(&mut pieces).await.map_err(Fault::Reading)?;
        if n == 0 {
            return Ok(());
        }
        write_pieces(&mut pieces[..n], to, &moved).await.map_err(Fault::Writing)?;
    }
}

/// Writes all of `pieces`, and lets go of each once it is written.
async fn write_pieces(
    mut pieces: &mut [Bytes],
    to: &mut (impl AsyncWrite + Unpin),
    moved: &impl Fn(usize),
) -> io::Result<()> {
    while let Some(first) = pieces.iter().position(|piece| !piece.is_empty()) {
        pieces = &mut pieces[first..];
        let mut slices = [IoSlice::new(&[]); PIECES];
        slices.iter_mut().zip(&*pieces).for_each(|(slice, piece)| *slice = IoSlice::new(piece));
        let mut written = to.write_vectored(&slices[..pieces.len()]).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        moved(written);
        for piece in &mut *pieces {
            let part = written.min(piece.len());
            piece.advance(part);
            written -= part;
            if !piece.is_empty() {
                break;
            }
            *piece = Bytes::new();
        }
    }
    Ok(())
}

/// Passes an end of stream on. A side that has closed meanwhile has no use for it.
async fn end(to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    match to.shutdown().await {
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
        other => other,
    }
}

/// Returns once `progress` has stood still for `idle`.
async fn silence(idle: Duration, progress: impl Fn() -> u64) {
    let mut seen = progress();
    let mut timer = pin!(sleep_until(Instant::now() + idle));
    loop {
        timer.as_mut().await;
        if progress() == seen {
            return;
        }
        seen = progress();
        timer.as_mut().reset(Instant::now() + idle);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{self as tio, DuplexStream, duplex, split};

    use std::sync::{Arc, Mutex};

    use super::*;

    /// A half that remembers with which code it was given up.
    struct Half<T>(T, Code);

    type Code = Arc<Mutex<Option<StreamCode>>>;

    impl<T> Abort for Half<T> {
        fn abort(&mut self, code: StreamCode) {
            *self.1.lock().unwrap() = Some(code);
        }
    }

    impl<T: AsyncRead + Unpin> AsyncRead for Half<T> {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
            buf: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::pin::Pin::new(&mut self.0).poll_read(cx, buf)
        }
    }

    impl<T: AsyncRead + Unpin + Send> ReadPieces for Half<T> {
        async fn read_pieces(&mut self, pieces: &mut [Bytes]) -> io::Result<usize> {
            let mut filled = 0;
            while filled < pieces.len().min(3) {
                let mut piece = [0; 7];
                let n = self.0.read(&mut piece).await?;
                pieces[filled] = Bytes::copy_from_slice(&piece[..n]);
                filled += usize::from(n > 0);
                if n < piece.len() {
                    break;
                }
            }
            Ok(filled)
        }
    }

    impl<T: AsyncWrite + Unpin> AsyncWrite for Half<T> {
        fn poll_write(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
            data: &[u8],
        ) -> std::task::Poll<io::Result<usize>> {
            std::pin::Pin::new(&mut self.0).poll_write(cx, data)
        }
        fn poll_flush(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::pin::Pin::new(&mut self.0).poll_flush(cx)
        }
        fn poll_shutdown(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::pin::Pin::new(&mut self.0).poll_shutdown(cx)
        }
    }

    type Halves = (Half<tio::ReadHalf<DuplexStream>>, Half<tio::WriteHalf<DuplexStream>>);

    /// The far end, its halves for the splice, and the code with which they were given up.
    fn side() -> (DuplexStream, Halves, Code) {
        let (near, far) = duplex(64);
        let (read, write) = split(near);
        let code = Code::default();
        (far, (Half(read, code.clone()), Half(write, code.clone())), code)
    }

    #[tokio::test]
    async fn half_close_passes_while_the_answer_comes_back() {
        let ((mut client, one, one_code), (mut server, other, _)) = (side(), side());
        let talk = async {
            client.write_all(b"question").await.unwrap();
            client.shutdown().await.unwrap();
            let mut heard = Vec::new();
            server.read_to_end(&mut heard).await.unwrap();
            assert_eq!(heard, b"question");
            server.write_all(b"answer after the end").await.unwrap();
            drop(server);
            heard.clear();
            client.read_to_end(&mut heard).await.unwrap();
            assert_eq!(heard, b"answer after the end");
        };
        let (summary, ()) = tokio::join!(splice(one, other, Duration::from_secs(60), &()), talk);
        assert!(matches!(summary.ended, Ended::Complete), "{summary:?}");
        assert_eq!((summary.forth, summary.back), (8, 20));
        assert_eq!(*one_code.lock().unwrap(), None);
    }

    #[test]
    fn transfers_are_read_in_large_chunks_and_conversations_in_small_ones() {
        let (least, most) = (*CHUNKS.start(), *CHUNKS.end());
        assert_eq!(next_chunk(least, 10_000), least);
        assert_eq!(next_chunk(least, least), most);
        assert_eq!(next_chunk(most, least), most, "what has not come yet is no end");
        assert_eq!(next_chunk(most, most), most);
        assert_eq!(next_chunk(most, 100), least);
    }

    /// Pieces meet a pipe that takes a part of them at a time.
    #[tokio::test]
    async fn pieces_are_written_whole_and_in_order() {
        let (mut near, mut far) = duplex(5);
        let said: Vec<u8> = (0..60).collect();
        let mut pieces: Vec<Bytes> = said.chunks(9).map(Bytes::copy_from_slice).collect();
        let (moved, mut heard) = (AtomicU64::new(0), Vec::new());
        let write = async {
            let count = |bytes: usize| _ = moved.fetch_add(bytes as u64, Relaxed);
            write_pieces(&mut pieces, &mut near, &count).await.unwrap();
            near.shutdown().await.unwrap();
        };
        tokio::join!(write, async { far.read_to_end(&mut heard).await.unwrap() });
        assert_eq!((heard, moved.into_inner()), (said, 60));
        assert!(pieces.iter().all(Bytes::is_empty));
    }

    #[tokio::test]
    async fn a_broken_side_resets_the_other() {
        let ((mut client, one, one_code), (server, other, other_code)) = (side(), side());
        drop(server);
        let (summary, _) = tokio::join!(
            splice(one, other, Duration::from_secs(60), &()),
            client.write_all(b"into the void")
        );
        assert!(matches!(summary.ended, Ended::Broken(_)), "{summary:?}");
        for code in [one_code, other_code] {
            assert_eq!(*code.lock().unwrap(), Some(StreamCode::Reset));
        }
    }

    /// It refuses an upload, say, and closes.
    #[tokio::test]
    async fn a_side_that_takes_no_more_is_heard_to_its_end() {
        let ((mut client, one, one_code), (mut server, other, other_code)) = (side(), side());
        let talk = async {
            client.write_all(&[1; 128]).await.unwrap();
            drop(client);
            server.write_all(b"nobody takes it").await.unwrap();
            // Now it notices, with one pipe full and the rest in its hands.
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            let mut heard = Vec::new();
            server.read_to_end(&mut heard).await.unwrap();
            assert_eq!(heard.len(), 128);
        };
        let idle = Duration::from_secs(60);
        let (summary, ()) = tokio::join!(async { splice(one, other, idle, &()).await }, talk);
        assert!(matches!(summary.ended, Ended::Broken(_)), "{summary:?}");
        for code in [one_code, other_code] {
            assert_eq!(*code.lock().unwrap(), Some(StreamCode::Reset));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn last_words_are_not_waited_for_without_end() {
        let ((client, one, _), (mut server, other, _)) = (side(), side());
        let (mut silent, near) = duplex(64);
        let one = (Half(split(near).0, Code::default()), one.1);
        drop(client);
        let idle = Duration::from_secs(3_600);
        let (summary, _) = tokio::join!(splice(one, other, idle, &()), server.write_all(b"x"));
        assert!(matches!(summary.ended, Ended::Broken(_)), "{summary:?}");
        let _ = silent.shutdown().await;
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_it_and_traffic_does_not() {
        let ((mut client, one, code), (_server, other, _)) = (side(), side());
        let start = Instant::now();
        let talk = async {
            for _ in 0..3 {
                sleep_until(Instant::now() + Duration::from_secs(50)).await;
                client.write_all(b"x").await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        let summary = tokio::select! { summary = splice(one, other, Duration::from_secs(60), &()) => summary, () = talk => unreachable!() };
        assert!(matches!(summary.ended, Ended::Idle));
        assert_eq!(summary.forth, 3);
        // Virtual time: the last byte passed at 150 s, so that the silence ends between 60 s and
        // 120 s later.
        assert!(start.elapsed() >= Duration::from_secs(210));
        assert_eq!(*code.lock().unwrap(), Some(StreamCode::Idle));
    }
}
