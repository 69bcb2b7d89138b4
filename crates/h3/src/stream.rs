//! Streams as `h3` sees them.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes, buf::Chain};
use h3::{
    error::Code,
    quic::{self, StreamErrorIncoming, StreamId, WriteBuf},
};
use mendpath::{ConnectionError, ReadError, VarInt};

use crate::{
    bell::Bell,
    error,
    guard::{Broken, FrameGuard, Number},
    response::Beside,
    settings::{FirstFrame, Shared},
};

/// The type of the control stream (RFC 9114 section 6.2.1).
const CONTROL: u64 = 0x00;
/// The types of QPACK's streams (RFC 9204 section 4.2).
const QPACK: [u64; 2] = [0x02, 0x03];

/// The frame of the only response that `h3` sends by itself, 431 and no other field, as it encodes it. It leaves
/// it to the transport to end the stream behind it.
const TOO_LARGE: &[u8] = b"\x01\x08\0\0\x5f\x09\x83\x69\x90\xff";

/// Why a sending side has its stream.
const THERE: &str = "it goes when the sending side does";

/// What a receiving side must know besides its stream.
#[derive(Clone, Debug)]
pub(crate) struct StreamKind {
    pub(crate) origin: Origin,
    /// The longest frame that is held, in bytes.
    pub(crate) max_frame: u64,
    pub(crate) shared: Arc<Shared>,
}

/// Who opened a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Us,
    Peer,
}

/// The same number at both; those of the transport fit.
fn id(id: mendpath::StreamId) -> StreamId {
    StreamId::try_from(id.0).expect("both are below 2^62")
}

/// The sending side of a stream.
pub struct SendStream<B: Buf> {
    /// There until this is dropped.
    stream: Option<mendpath::SendStream>,
    /// What `h3` has handed over and the transport has not taken yet, behind what goes before it.
    pending: Option<Chain<Bytes, WriteBuf<B>>>,
    /// Finished, reset or stopped: nothing is left to do when it is dropped.
    ended: bool,
    /// Something was sent.
    begun: bool,
    /// All that was sent is the answer that `h3` gives by itself.
    answered: bool,
    /// What a server says of its response beside `h3`.
    beside: Option<Arc<Beside>>,
}

impl<B: Buf> SendStream<B> {
    pub(crate) fn new(stream: mendpath::SendStream) -> Self {
        Self {
            stream: Some(stream),
            pending: None,
            ended: false,
            begun: false,
            answered: false,
            beside: None,
        }
    }

    /// The stream below.
    pub fn get_ref(&self) -> &mendpath::SendStream {
        self.stream.as_ref().expect(THERE)
    }

    fn stream(&mut self) -> &mut mendpath::SendStream {
        self.stream.as_mut().expect(THERE)
    }

    /// Whether all was sent, if nothing more is.
    fn is_whole(&self) -> bool {
        match &self.beside {
            Some(beside) => self.begun && beside.is_whole(),
            // Who panics has not left it at nothing.
            None => self.answered || !self.begun && !std::thread::panicking(),
        }
    }

    /// Writes some of `data`, once there is room.
    fn poll_some(
        stream: &mut mendpath::SendStream,
        cx: &mut Context<'_>,
        data: &mut impl Buf,
    ) -> Poll<Result<usize, StreamErrorIncoming>> {
        stream.poll_write_buf(cx, data).map_err(error::write)
    }
}

impl<B: Buf> quic::SendStream<B> for SendStream<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        if let Some(pending) = &mut self.pending {
            let stream = self.stream.as_mut().expect(THERE);
            while pending.has_remaining() {
                let taken = ready!(Self::poll_some(stream, cx, pending))?;
                self.beside.iter().for_each(|beside| beside.on_taken(taken));
            }
        }
        self.pending = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.pending.is_some() {
            // A mistake of the caller, which h3 wants to hear of like this.
            return Err(StreamErrorIncoming::ConnectionErrorIncoming {
                connection_error: quic::ConnectionErrorIncoming::InternalError(
                    "send_data was called while data waits: poll_ready comes first".to_owned(),
                ),
            });
        }
        let mut data: WriteBuf<B> = data.into();
        let fields = self.beside.as_ref().and_then(|beside| beside.take_fields());
        if fields.as_ref().is_some_and(|fields| !fields.has_body) {
            data.advance(data.remaining());
        }
        // Where there is a server beside `h3`, that says of itself when a response is whole.
        let is_alike = self.beside.is_none() && !self.begun && data.remaining() == TOO_LARGE.len();
        let first = match fields {
            Some(fields) => fields.frame,
            None if is_alike => data.copy_to_bytes(TOO_LARGE.len()),
            None => Bytes::new(),
        };
        self.answered = is_alike && first == TOO_LARGE;
        self.pending = Some(first.chain(data));
        self.begun = true;
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_ready(cx))?;
        if !self.ended && self.stream().finish().is_err() {
            // Why not, if the peer or the connection is the reason.
            ready!(self.stream().poll_write(cx, &[])).map_err(error::write)?;
        }
        self.ended = true;
        Poll::Ready(Ok(()))
    }

    fn reset(&mut self, reset_code: u64) {
        // Refused once everything is acknowledged, which is as well.
        let _ = self.stream().reset(VarInt::saturating(reset_code));
        self.pending = None;
        self.ended = true;
    }

    fn send_id(&self) -> StreamId {
        id(self.get_ref().id())
    }
}

impl<B: Buf> quic::SendStreamUnframed<B> for SendStream<B> {
    fn poll_send<D: Buf>(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut D,
    ) -> Poll<Result<usize, StreamErrorIncoming>> {
        ready!(quic::SendStream::poll_ready(self, cx))?;
        (self.begun, self.answered) = (true, false);
        Self::poll_some(self.stream(), cx, buf)
    }
}

impl<B: Buf> Drop for SendStream<B> {
    fn drop(&mut self) {
        let Some(mut stream) = self.stream.take() else { return };
        let is_whole = || self.is_whole() && self.pending.is_none();
        if !(self.ended || is_whole() && stream.finish().is_ok()) {
            let _ = stream.reset(VarInt::saturating(Code::H3_REQUEST_CANCELLED.value()));
        }
        if let Some(beside) = &self.beside {
            beside.keep(stream);
        }
    }
}

impl<B: Buf> fmt::Debug for SendStream<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendStream").field("stream", self.get_ref()).finish_non_exhaustive()
    }
}

/// The receiving side of a stream.
#[derive(Debug)]
pub struct RecvStream {
    /// `None` once the connection has it.
    stream: Option<mendpath::RecvStream>,
    kind: StreamKind,
    /// Where it goes if it must stay open and `h3` does not look at it.
    critical: Option<Critical>,
    guard: Guard,
    /// What has come and is not passed on yet.
    come: Bytes,
    id: mendpath::StreamId,
    /// Its end was read, or it was stopped.
    ended: bool,
}

/// The streams of the peer that must stay open and of which `h3` reads no more than the type.
#[derive(Clone, Debug)]
pub(crate) struct Critical(Arc<CriticalStreams>);

#[derive(Debug)]
struct CriticalStreams {
    all: Mutex<Vec<mendpath::RecvStream>>,
    /// Of all of them.
    bell: Bell,
}

impl Critical {
    /// There are none yet.
    pub(crate) fn new() -> Self {
        Self(Arc::new(CriticalStreams { all: Mutex::default(), bell: Bell::new() }))
    }

    fn streams(&self) -> MutexGuard<'_, Vec<mendpath::RecvStream>> {
        self.0.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, at which nobody has looked yet.
    fn push(&self, stream: mendpath::RecvStream) {
        self.streams().push(stream);
        self.0.bell.ring();
    }

    /// Ready once the peer has closed one. What comes before is about tables that nobody has allowed
    /// it, and skipped.
    pub(crate) fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.bell.poll(cx, |cx| self.poll_each(cx))
    }

    fn poll_each(&self, cx: &mut Context<'_>) -> Poll<()> {
        for stream in self.streams().iter_mut() {
            loop {
                match stream.poll_read_chunk(cx, usize::MAX) {
                    Poll::Ready(Ok(Some(_))) => {}
                    Poll::Ready(Ok(None) | Err(ReadError::Reset(_))) => return Poll::Ready(()),
                    // The connection's own end is told elsewhere.
                    Poll::Ready(Err(_)) | Poll::Pending => break,
                }
            }
        }
        Poll::Pending
    }
}

/// What is known about a stream's frames.
#[derive(Debug)]
enum Guard {
    /// Its first number says what it is (RFC 9114 section 6.2), in as many bytes as the peer likes.
    Unknown(Number),
    Frames(FrameGuard),
    /// The peer's control stream.
    Control(FrameGuard, FirstFrame, Bell),
    /// No frames but the instructions of QPACK.
    Qpack,
    /// Nobody knows what.
    None,
    /// A frame is broken, and `h3` is shown one that ends too early: nothing more.
    Broken,
}

impl RecvStream {
    pub(crate) fn new(stream: mendpath::RecvStream, kind: StreamKind, critical: Critical) -> Self {
        let guard = Guard::Unknown(Number::default());
        let (id, stream, critical) = (stream.id(), Some(stream), Some(critical));
        Self { stream, kind, critical, guard, come: Bytes::new(), id, ended: false }
    }

    fn of_request(stream: mendpath::RecvStream, kind: StreamKind) -> Self {
        let guard = Guard::Frames(FrameGuard::new(kind.max_frame));
        let (id, stream) = (stream.id(), Some(stream));
        Self { stream, kind, critical: None, guard, come: Bytes::new(), id, ended: false }
    }

    /// The stream below.
    ///
    /// # Panics
    /// If it is one of QPACK's, which `h3` shows to nobody.
    pub fn get_ref(&self) -> &mendpath::RecvStream {
        self.stream.as_ref().expect("h3 keeps the streams of QPACK")
    }

    /// Takes the next piece of what has come; empty if `h3` is to be shown none of what was taken.
    fn next_piece(&mut self) -> Result<Bytes, Broken> {
        match &mut self.guard {
            Guard::Unknown(number) => {
                let whole =
                    self.come.iter().enumerate().find_map(|(at, &byte)| Some((at, number.push(byte)?)));
                let Some((last, kind)) = whole else { return Ok(std::mem::take(&mut self.come)) };
                self.guard = match kind {
                    CONTROL => {
                        let guard = FrameGuard::new(self.kind.max_frame);
                        Guard::Control(guard, FirstFrame::default(), Bell::new())
                    }
                    kind if QPACK.contains(&kind) => Guard::Qpack,
                    _ => Guard::None,
                };
                Ok(self.come.split_to(last + 1))
            }
            Guard::Frames(guard) => guard.next(&mut self.come),
            Guard::Control(guard, first, _) => {
                let piece = guard.next(&mut self.come)?;
                first.push(&piece, &self.kind.shared.limit);
                Ok(piece)
            }
            Guard::Qpack | Guard::None | Guard::Broken => Ok(std::mem::take(&mut self.come)),
        }
    }

    /// Hands a stream of QPACK to the connection, once `h3` knows that it is one.
    fn hand_over_qpack(&mut self, cx: &Context<'_>) {
        if matches!(self.guard, Guard::Qpack)
            && let Some(critical) = self.critical.take()
        {
            self.stream.take().into_iter().for_each(|stream| critical.push(stream));
            self.come = Bytes::new();
            // The connection has not looked at it yet.
            cx.waker().wake_by_ref();
        }
    }

    /// Whether the stream may end here.
    fn check_end(&self) -> Result<(), Broken> {
        match &self.guard {
            Guard::Frames(guard) | Guard::Control(guard, ..) => guard.end(),
            // Also within its type (RFC 9114 section 6.2).
            Guard::Unknown(_) | Guard::Qpack | Guard::None | Guard::Broken => Ok(()),
        }
    }

    /// What `h3` is shown instead of what is broken. The stream of a frame that is too long is stopped.
    /// Otherwise the connection must be closed with H3_FRAME_ERROR (RFC 9114 section 7.1), which `h3` does if
    /// it sees the stream end within a frame. Within one of DATA it does not: then it is done here, since `h3`
    /// would take the error of a stream for a reset by the peer and close nothing.
    fn fail(&mut self, broken: Broken) -> Result<Option<Bytes>, StreamErrorIncoming> {
        self.come = Bytes::new();
        if matches!(broken, Broken::TooLong { .. }) {
            self.stop(Code::H3_EXCESSIVE_LOAD.value());
            return Err(StreamErrorIncoming::Unknown(Box::new(broken)));
        }
        self.ended = true;
        let unfinished = match &self.guard {
            Guard::Frames(guard) | Guard::Control(guard, ..) => guard.unfinished(),
            Guard::Unknown(_) | Guard::Qpack | Guard::None | Guard::Broken => None,
        };
        self.guard = Guard::Broken;
        let Some(piece) = unfinished else {
            let code = VarInt::saturating(Code::H3_FRAME_ERROR.value());
            self.kind.shared.connection.close(code, broken.to_string().as_bytes());
            return Err(error::lost(ConnectionError::LocallyClosed));
        };
        Ok(Some(piece).filter(|piece| !piece.is_empty()))
    }

    fn stop(&mut self, code: u64) {
        // Refused once it has come to its end.
        let _ = self.stream.as_mut().map(|stream| stream.stop(VarInt::saturating(code)));
        self.ended = true;
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        loop {
            while !self.come.is_empty() {
                let piece = match self.next_piece() {
                    Ok(piece) => piece,
                    Err(broken) => return Poll::Ready(self.fail(broken)),
                };
                self.hand_over_qpack(cx);
                if !piece.is_empty() {
                    return Poll::Ready(Ok(Some(piece)));
                }
            }
            if matches!(self.guard, Guard::Broken) {
                return Poll::Ready(Ok(None));
            }
            let Some(stream) = &mut self.stream else { return Poll::Pending };
            let chunk = ready!(match &self.guard {
                Guard::Control(.., bell) => bell.poll(cx, |cx| stream.poll_read_chunk(cx, usize::MAX)),
                _ => stream.poll_read_chunk(cx, usize::MAX),
            });
            let chunk = chunk.inspect_err(|_| self.ended = true).map_err(error::read)?;
            let Some(chunk) = chunk else {
                self.ended = true;
                return Poll::Ready(self.check_end().map_or_else(|broken| self.fail(broken), |()| Ok(None)));
            };
            self.come = chunk.bytes;
        }
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.stop(error_code);
    }

    fn recv_id(&self) -> StreamId {
        id(self.id)
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        if !self.ended {
            self.stop(match self.kind.origin {
                Origin::Us => Code::H3_REQUEST_CANCELLED.value(),
                Origin::Peer => Code::H3_NO_ERROR.value(),
            });
        }
    }
}

/// Both sides of a stream.
#[derive(Debug)]
pub struct BidiStream<B: Buf>(Box<Sides<B>>);

/// In a box, since `h3` moves the stream of a request some thirty times until it is split.
#[derive(Debug)]
struct Sides<B: Buf> {
    send: SendStream<B>,
    recv: RecvStream,
}

impl<B: Buf> BidiStream<B> {
    pub(crate) fn new(send: mendpath::SendStream, recv: mendpath::RecvStream, kind: StreamKind) -> Self {
        let (send, recv) = (SendStream::new(send), RecvStream::of_request(recv, kind));
        Self(Box::new(Sides { send, recv }))
    }

    /// What can be said of the response beside `h3`.
    pub(crate) fn beside(&mut self) -> Arc<Beside> {
        let beside = Beside::new(self.0.recv.kind.shared.clone(), self.0.recv.id);
        self.0.send.beside.insert(Arc::new(beside)).clone()
    }
}

impl<B: Buf> quic::BidiStream<B> for BidiStream<B> {
    type SendStream = SendStream<B>;
    type RecvStream = RecvStream;

    fn split(self) -> (SendStream<B>, RecvStream) {
        let Sides { send, recv } = *self.0;
        (send, recv)
    }
}

impl<B: Buf> quic::RecvStream for BidiStream<B> {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.0.recv.poll_data(cx)
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.0.recv.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.0.recv.recv_id()
    }
}

impl<B: Buf> quic::SendStream<B> for BidiStream<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.0.send.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.0.send.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.0.send.poll_finish(cx)
    }

    fn reset(&mut self, reset_code: u64) {
        self.0.send.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.0.send.send_id()
    }
}

impl<B: Buf> quic::SendStreamUnframed<B> for BidiStream<B> {
    fn poll_send<D: Buf>(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut D,
    ) -> Poll<Result<usize, StreamErrorIncoming>> {
        self.0.send.poll_send(cx, buf)
    }
}
