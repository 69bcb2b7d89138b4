//! Connects two byte streams: what one side says the other hears, including how it ends.
//!
//! An end of stream passes on as an end of stream while the other direction goes on (half-close). A
//! reset of one side, or silence on both for too long, resets everything, so that neither program
//! mistakes a broken transfer for a complete one. What a side said before it broke off is heard
//! first, as it would be without us: a host that refuses an upload answers and closes. It is waited
//! for only as long as some of it is taken, for nobody is there who would say the rest. What a program
//! left that has said its last is there for a host to take, though not for as long as if somebody
//! still waited for it: the kernel does the same for a program that has closed. A TCP
//! connection is reset whatever else ends it, too: when the kernel closes it because this process was
//! killed, there is nobody left to say so.

use std::{
    future::{Future, pending, poll_fn},
    io::{self, IoSlice},
    ops::RangeInclusive,
    pin::{Pin, pin},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    task::Poll,
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use mendpath::{RecvStream, SendStream};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, Interest},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::Notify,
    time::{Instant, sleep_until, timeout},
};

use crate::{peer, protocol::StreamCode};

/// Bytes read from a TCP connection at a time: the least, which is all that a conversation takes, and
/// the most, for a transfer that fills what it is given. With 1,024 transfers at once 128 MiB.
const CHUNKS: RangeInclusive<usize> = 32 * 1024..=128 * 1024;
/// The largest piece of a stream.
pub(crate) const PIECE: usize = 4 * 1024;
/// Pieces of a stream that are written to a TCP connection at a time.
const PIECES: usize = 64;
/// Without a byte, until a side that takes no more is not listened to any longer.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Without a byte, until what a side said that has broken off is not waited for any longer, and
/// between looks whether it has: that takes a minute at most.
pub(crate) const NOBODY_THERE: Duration = Duration::from_secs(30);
/// For a program to read the last answer before its connection is closed, and what it may still
/// send meanwhile: many read only once all is sent.
pub(crate) const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: u64 = 16 << 20;

/// The reading half of a stream, whose bytes are lent and not copied.
pub trait ReadPieces {
    /// Fills `pieces` from the front with what is there, waiting for the first; returns how many
    /// were filled, 0 at the end. Cancel safe.
    ///
    /// # Errors
    /// If the stream was reset, or its connection has ended.
    fn read_pieces(&mut self, pieces: &mut [Bytes]) -> impl Future<Output = io::Result<usize>> + Send;

    /// How the far end has ended, read or not, if it has. Cancel safe.
    fn far_end(&mut self) -> impl Future<Output = Option<FarEnd>> + Send;
}

/// How the far end of a stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarEnd {
    /// It has said its last.
    Complete,
    /// It has broken off.
    Broken,
}

impl ReadPieces for RecvStream {
    async fn read_pieces(&mut self, pieces: &mut [Bytes]) -> io::Result<usize> {
        Ok(self.read_chunks(pieces).await?.unwrap_or(0))
    }

    async fn far_end(&mut self) -> Option<FarEnd> {
        match poll_fn(|cx| Poll::Ready(self.poll_received_reset(cx))).await {
            Poll::Pending => None,
            Poll::Ready(Ok(None)) => Some(FarEnd::Complete),
            Poll::Ready(Ok(Some(_)) | Err(_)) => Some(FarEnd::Broken),
        }
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

    /// The last was said; whoever takes none of what is left for so long has broken off, as far as
    /// the system can tell.
    fn leave(&mut self, _patience: Duration) {}

    /// Returns once the other end is known to have broken off, or to have no program any more, whether
    /// anything is read or not.
    fn broken(&self) -> impl Future<Output = ()> + Send {
        pending()
    }

    /// Comes to its end once the other end is known to take no more, whether anything is written or not. It
    /// borrows nothing, and is for as long as the half has not been ended from here.
    fn refused(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(pending())
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

    fn refused(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let stopped = self.stopped();
        Box::pin(async move {
            // Our own end of it is no refusal.
            if let Ok(None) = stopped.await {
                pending().await
            }
        })
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

/// Ends a connection so that its program gets the last answer: closing while something unread has
/// arrived would be a reset.
pub(crate) async fn linger(mut tcp: TcpStream) {
    ends_on_close(&tcp);
    let _ = tcp.shutdown().await;
    let mut rest = tcp.take(LINGER_BYTES);
    let _ = timeout(LINGER, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
}

/// Returns once the other end of `tcp` is known to have broken off, or to have no program any more,
/// whether anything is read or not.
pub(crate) async fn broken(tcp: &TcpStream) {
    let reset = async {
        // Where the system does not tell, the next read or write does.
        if !tcp.ready(Interest::ERROR).await.is_ok_and(|ready| ready.is_error()) {
            pending().await
        }
    };
    let abandoned = async {
        while !{
            sleep_until(Instant::now() + NOBODY_THERE).await;
            peer::is_abandoned(tcp)
        } {}
    };
    tokio::select! {
        () = reset => {}
        () = abandoned => {}
    }
}

// Borrowed halves: the owned ones say "that was all" when they are dropped.
impl Abort for ReadHalf<'_> {
    fn abort(&mut self, _code: StreamCode) {
        resets_on_close(self.as_ref());
    }

    async fn broken(&self) {
        broken(self.as_ref()).await;
    }
}

impl Abort for WriteHalf<'_> {
    fn abort(&mut self, _code: StreamCode) {
        resets_on_close(self.as_ref());
    }

    fn leave(&mut self, patience: Duration) {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let _ = socket2::SockRef::from(self.as_ref()).set_tcp_user_timeout(Some(patience));
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let _ = patience;
    }
}

/// For how long a splice waits while no byte passes in either direction.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For either side to say something.
    pub idle: Duration,
    /// For the first side to take what the second left when it had said its last. It is noticed after
    /// up to a minute more.
    pub left: Duration,
}

impl Patience {
    /// The same for both.
    pub fn with(time: Duration) -> Self {
        Self { idle: time, left: time }
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
    /// The second side has said its last, and takes nothing more. The first still gets what was said to it: a TCP
    /// connection is not reset.
    Unheard,
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
/// reached their ends, or nobody hears the TCP connection behind all that was said to it, else with a reset.
pub async fn splice_tcp<R, W>(
    mut tcp: TcpStream,
    stream: (R, W),
    patience: Patience,
    witness: &impl Witness,
) -> Summary
where
    R: ReadPieces + Abort,
    W: AsyncWrite + Abort + Unpin,
{
    // Before anything passes: whoever kills this process, or drops this future, leaves a broken
    // transfer.
    resets_on_close(&tcp);
    let summary = splice(tcp.split(), stream, patience, witness).await;
    // With a reset the kernel would drop what it still has for a program, or a host, that takes its time.
    if let Ended::Complete | Ended::Unheard = summary.ended {
        ends_on_close(&tcp);
    }
    summary
}

/// Connects `one` and `other`, each a reading and a writing half, until both directions have ended
/// or one side breaks.
pub async fn splice<R1, W1, R2, W2>(
    one: (R1, W1),
    other: (R2, W2),
    patience: Patience,
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
        let progress = || forth.load(Relaxed) + back.load(Relaxed);
        // What was said last is on its way meanwhile.
        let unheard = one_after_the_other(write2.refused(), silence(LAST_WORDS, progress));
        // Whoever takes no more has broken off, and what then looks like an end of it is none.
        let (is_deaf, back_is_over) = (AtomicBool::new(false), Notify::new());
        let from_one = async {
            let moved = |bytes| count(&forth, Direction::Forth, bytes);
            copy(&mut read1, &mut write2, moved, || silence(NOBODY_THERE, progress)).await?;
            if is_deaf.load(Relaxed) {
                return Err(Fault::Reading(io::ErrorKind::BrokenPipe.into()));
            }
            end(&mut write2).await.map_err(Fault::Writing)?;
            is_there_until(back_is_over.notified(), &read1).await
        };
        let from_other = async {
            let passed = async {
                let moved = |bytes| count(&back, Direction::Back, bytes);
                pass(&mut read2, &mut write1, moved, patience.left, |time| silence(time, progress)).await?;
                write1.leave(2 * patience.left);
                end(&mut write1).await.map_err(Fault::Writing)
            };
            let passed = passed.await;
            is_deaf.store(matches!(passed, Err(Fault::Writing(_))), Relaxed);
            back_is_over.notify_one();
            passed
        };
        tokio::select! {
            result = both(from_one, from_other, unheard, silence(LAST_WORDS, progress)) => outcome(result),
            () = silence(patience.idle, progress) => (Ended::Idle, false),
        }
    };
    if let Some(code) = abort_code(&ended) {
        read1.abort(code);
        write1.abort(code);
        read2.abort(code);
        if one_broke { write2.abort_when_heard(code) } else { write2.abort(code) }
    }
    Summary { forth: forth.into_inner(), back: back.into_inner(), ended }
}

/// With which code both sides are given up; `None` if they came to their ends.
fn abort_code(ended: &Ended) -> Option<StreamCode> {
    match ended {
        Ended::Complete => None,
        Ended::Broken(_) | Ended::Unheard => Some(StreamCode::Reset),
        Ended::Idle => Some(StreamCode::Idle),
    }
}

/// Why a direction ended.
enum Fault {
    /// Nothing more comes.
    Reading(io::Error),
    /// Nothing more is taken.
    Writing(io::Error),
    /// Nothing of what was left has been taken for long, nor said.
    Left,
    /// The second side takes nothing more, and the first has got all that it said.
    Unheard,
}

/// What becomes of both sides, and whether it was the first that broke.
fn outcome(result: Result<(), (Direction, Fault)>) -> (Ended, bool) {
    match result {
        Ok(()) => (Ended::Complete, false),
        Err((Direction::Forth, Fault::Reading(error)) | (Direction::Back, Fault::Writing(error))) => {
            (Ended::Broken(error), true)
        }
        Err((_, Fault::Reading(error) | Fault::Writing(error))) => (Ended::Broken(error), false),
        // As long as the other side takes nothing, what it has not taken yet says nothing.
        Err((Direction::Forth, Fault::Left)) => (Ended::Broken(io::ErrorKind::ConnectionReset.into()), false),
        Err((Direction::Back, Fault::Left)) => (Ended::Broken(io::ErrorKind::TimedOut.into()), true),
        Err((_, Fault::Unheard)) => (Ended::Unheard, false),
    }
}

/// Waits for both directions, and tells which of them failed first. One that ends because nothing
/// more is taken leaves the other to come to its end, or to fall silent. What the first side may say is not
/// waited for once it is `unheard` by the second, which says nothing more.
async fn both(
    forth: impl Future<Output = Result<(), Fault>>,
    back: impl Future<Output = Result<(), Fault>>,
    unheard: impl Future<Output = ()>,
    silence: impl Future<Output = ()>,
) -> Result<(), (Direction, Fault)> {
    let (mut forth, mut back) = (pin!(forth), pin!(back));
    let tell = |direction| move |fault| (direction, fault);
    let (first, is_forth) = tokio::select! {
        biased;
        ended = &mut forth => (ended.map_err(tell(Direction::Forth)), true),
        ended = &mut back => (ended.map_err(tell(Direction::Back)), false),
    };
    if let Err((_, Fault::Reading(_) | Fault::Left)) = first {
        return first;
    }
    tokio::select! {
        second = forth, if !is_forth => first.and(second.map_err(tell(Direction::Forth))),
        second = back, if is_forth => first.and(second.map_err(tell(Direction::Back))),
        () = unheard, if !is_forth => first.and(Err((Direction::Forth, Fault::Unheard))),
        () = silence, if first.is_err() => first,
    }
}

/// Whether a side that has said its last is there to hear what comes `until` that is over. Where nothing comes
/// for long, writing to it does not tell.
async fn is_there_until(until: impl Future<Output = ()>, side: &impl Abort) -> Result<(), Fault> {
    tokio::select! {
        biased;
        () = until => Ok(()),
        () = side.broken() => Err(Fault::Reading(io::ErrorKind::ConnectionReset.into())),
    }
}

async fn one_after_the_other(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    one.await;
    other.await;
}

/// Once `from` has broken off, whoever takes nothing for as long as a `silence` takes no more.
async fn copy<S: Future<Output = ()>>(
    from: &mut (impl AsyncRead + Abort + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    moved: impl Fn(usize),
    silence: impl Fn() -> S,
) -> Result<(), Fault> {
    let mut chunk = vec![0; *CHUNKS.start()];
    loop {
        let n = from.read(&mut chunk).await.map_err(Fault::Reading)?;
        if n == 0 {
            return Ok(());
        }
        let is_left = async {
            from.broken().await;
            silence().await;
        };
        tokio::select! {
            biased;
            written = write(&chunk[..n], to, &moved) => written.map_err(Fault::Writing)?,
            () = is_left => return Err(Fault::Left),
        }
        let next = next_chunk(chunk.len(), n);
        if next != chunk.len() {
            chunk = vec![0; next];
        }
    }
}

/// Writes all of `chunk`, and tells of each part of it.
async fn write(
    mut chunk: &[u8],
    to: &mut (impl AsyncWrite + Unpin),
    moved: &impl Fn(usize),
) -> io::Result<()> {
    while !chunk.is_empty() {
        let written = to.write(chunk).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        moved(written);
        chunk = &chunk[written..];
    }
    Ok(())
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

/// As [`copy`], from a stream that lends its bytes. Once that has ended, whoever takes nothing for as
/// long as `left` takes no more; once it has broken off, not even for so long.
async fn pass<S: Future<Output = ()>>(
    from: &mut impl ReadPieces,
    to: &mut (impl AsyncWrite + Unpin),
    moved: impl Fn(usize),
    left: Duration,
    silence: impl Fn(Duration) -> S,
) -> Result<(), Fault> {
    let mut pieces: [Bytes; PIECES] = std::array::from_fn(|_| Bytes::new());
    loop {
        let n = from.read_pieces(&mut pieces).await.map_err(Fault::Reading)?;
        if n == 0 {
            return Ok(());
        }
        let is_left = async {
            // Asked after a while, and not by the packet.
            let end = loop {
                silence(left.min(NOBODY_THERE)).await;
                if let Some(end) = from.far_end().await {
                    break end;
                }
            };
            if end == FarEnd::Complete {
                silence(left).await;
            }
        };
        tokio::select! {
            biased;
            written = write_pieces(&mut pieces[..n], to, &moved) => written.map_err(Fault::Writing)?,
            () = is_left => return Err(Fault::Left),
        }
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
pub(crate) async fn silence(idle: Duration, progress: impl Fn() -> u64) {
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
mod tests;
