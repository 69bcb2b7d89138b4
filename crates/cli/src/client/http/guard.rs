//! Stands between a program's connection and hyper: lets through what is well-formed, in time and
//! not too long.
//!
//! It follows where each message begins and ends, and judges every head before hyper sees it. A
//! head that is refused is replaced by a harmless request, the service answers that with the
//! reason, and nothing more is let through. So every refusal comes in its turn behind the answers
//! to earlier requests, and in words. If guard and hyper should ever disagree about where a message
//! ends, the service finds no ruling for what hyper read, or another one than hyper's request, and
//! ends the connection.

use std::{
    future::Future as _,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

use super::{
    chunks::Chunks,
    head::{Framing, Head, HeadError, MAX_HEAD, Wanted},
    visit::Visit,
};
use crate::client::HANDSHAKE_TIMEOUT;

/// Between two requests on one connection.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// What hyper reads in place of a head that is refused.
pub(super) const STAND_IN: &[u8] = b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n";
/// Bytes read at a time.
const CHUNK: usize = 16 * 1024;

/// A connection whose messages are watched.
pub(super) struct Guard<T> {
    io: T,
    visit: Arc<Visit>,
    /// What was read and hyper has not got.
    buffer: BytesMut,
    /// Bytes at the front of the buffer that hyper may have.
    released: usize,
    at: At,
    /// Nothing has been let through yet.
    is_first: bool,
    /// When the head that is being read began.
    began: Instant,
    timer: Pin<Box<Sleep>>,
}

/// What comes next.
#[derive(Debug)]
enum At {
    /// A head. So many of its bytes have been looked at.
    Head(usize),
    /// So many bytes of a body.
    Body(u64),
    /// A chunked body.
    Chunks(Chunks),
    /// A head, or another protocol if the origin server agrees to that; its answer decides.
    Undecided,
    /// Nothing that is HTTP, or that anybody will look at.
    Over,
}

impl<T> Guard<T> {
    pub(super) fn new(io: T, visit: Arc<Visit>) -> Self {
        let now = Instant::now();
        Self {
            io,
            visit,
            buffer: BytesMut::new(),
            released: 0,
            at: At::Head(0),
            is_first: true,
            began: now,
            timer: Box::pin(sleep_until(now + HANDSHAKE_TIMEOUT)),
        }
    }

    /// The connection, and what was read from it and not let through.
    pub(super) fn into_parts(self) -> (T, Bytes) {
        (self.io, self.buffer.freeze())
    }

    /// Releases what can be judged; every call either releases something or needs more bytes.
    fn judge(&mut self) -> io::Result<()> {
        if matches!(self.at, At::Undecided) && self.visit.resting().is_some() {
            self.at = At::Head(0);
        }
        match &mut self.at {
            At::Head(looked) => {
                if is_worth_parsing(&self.buffer, *looked) {
                    match Head::parse(&self.buffer) {
                        Ok(Some((head, length))) => return self.let_through(head, length),
                        Ok(None) => {}
                        Err(error) => return self.refuse(error),
                    }
                }
                if let At::Head(looked) = &mut self.at {
                    *looked = self.buffer.len();
                }
            }
            At::Body(missing) => {
                let taken = (*missing).min(self.buffer.len() as u64);
                *missing -= taken;
                self.released = taken as usize;
                if *missing == 0 {
                    self.at = At::Head(0);
                }
            }
            At::Chunks(chunks) => match chunks.scan(&self.buffer) {
                Ok((taken, ends)) => {
                    self.released = taken;
                    if ends {
                        self.at = At::Head(0);
                    }
                }
                Err(_) => {
                    self.visit.blame();
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "not a chunked body"));
                }
            },
            At::Undecided | At::Over => {}
        }
        Ok(())
    }

    fn let_through(&mut self, head: Head, length: usize) -> io::Result<()> {
        (self.released, self.is_first) = (length, false);
        let mut early = Bytes::new();
        self.at = match head.body {
            _ if head.wanted == Wanted::Tunnel => {
                early = self.buffer.split_off(length).freeze();
                At::Over
            }
            _ if head.upgrades => At::Undecided,
            Framing::Length(0) => At::Head(0),
            Framing::Length(length) => At::Body(length),
            Framing::Chunked => At::Chunks(Chunks::new()),
        };
        self.visit.announce(Ok((head, early)));
        Ok(())
    }

    fn refuse(&mut self, error: HeadError) -> io::Result<()> {
        self.visit.announce(Err(error));
        self.buffer.clear();
        self.buffer.extend_from_slice(STAND_IN);
        (self.released, self.at) = (STAND_IN.len(), At::Over);
        Ok(())
    }

    /// Until when the next head must be there, if the program is the one who has to say something.
    fn deadline(&self) -> Option<Instant> {
        let rested = matches!(self.at, At::Head(_)).then(|| self.visit.resting()).flatten()?;
        let has_begun = self.is_first || !self.buffer.is_empty();
        Some(if has_begun { self.began.max(rested) + HANDSHAKE_TIMEOUT } else { rested + KEEP_ALIVE })
    }

    /// Whether the program has taken too long.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.deadline() else {
            // The time begins to run with the end of the answer, and hyper need not ask again then.
            let _ = self.visit.wait_for_rest(cx);
            return Poll::Pending;
        };
        if self.timer.deadline() != deadline {
            self.timer.as_mut().reset(deadline);
        }
        self.timer.as_mut().poll(cx)
    }
}

/// Whether a head may end in `buffer`, of which `looked` bytes have been tried. The first piece is
/// always tried: what is no HTTP is refused at once.
fn is_worth_parsing(buffer: &[u8], looked: usize) -> bool {
    if looked == 0 || buffer.len() >= MAX_HEAD {
        return !buffer.is_empty();
    }
    let new = &buffer[looked.saturating_sub(3)..];
    new.windows(2).any(|two| two == b"\n\n") || new.windows(3).any(|three| three == b"\n\r\n")
}

impl<T: AsyncRead + Unpin> AsyncRead for Guard<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if this.released == 0 {
                this.judge()?;
            }
            if this.released > 0 {
                let n = this.released.min(out.remaining());
                out.put_slice(&this.buffer[..n]);
                this.buffer.advance(n);
                this.released -= n;
                return Poll::Ready(Ok(()));
            }
            match this.at {
                At::Over => return Poll::Pending,
                At::Undecided if this.visit.wait_for_rest(cx) => return Poll::Pending,
                At::Undecided => continue,
                _ => {}
            }
            let before = this.buffer.len();
            match this.poll_more(cx) {
                Poll::Ready(Ok(0)) => {
                    this.visit.end();
                    if matches!(this.at, At::Body(_) | At::Chunks(_)) {
                        this.visit.cut();
                    }
                    // A program may end its direction and still wait for the answer.
                    if matches!(this.at, At::Head(_)) && this.visit.wait_for_rest(cx) {
                        return Poll::Pending;
                    }
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Ok(n)) => {
                    this.visit.add(n);
                    if before == 0 {
                        this.began = Instant::now();
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    ready!(this.poll_late(cx));
                    if this.buffer.is_empty() {
                        return Poll::Ready(Ok(()));
                    }
                    this.refuse(HeadError::Late)?;
                }
            }
        }
    }
}

impl<T: AsyncRead + Unpin> Guard<T> {
    /// Reads what there is to the end of the buffer; 0 bytes at the end of the stream.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.buffer.reserve(CHUNK);
        pin!(self.io.read_buf(&mut self.buffer)).poll(cx)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Guard<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let n = ready!(Pin::new(&mut self.io).poll_write(cx, data))?;
        self.visit.add(n);
        Poll::Ready(Ok(n))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let n = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, data))?;
        self.visit.add(n);
        Poll::Ready(Ok(n))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
