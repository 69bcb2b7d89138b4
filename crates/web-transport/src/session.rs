//! A session.

#[cfg(feature = "http3")]
pub mod http3;
mod stream;

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use mendpath::{Connection, ConnectionError, DatagramOptions};
use tokio::sync::{Notify, futures::OwnedNotified};

#[cfg(feature = "http3")]
use self::http3::{Accepting, Http3};
pub use self::stream::{RecvStream, SendStream};
use crate::{SessionError, SessionStats, codes::Codes};

/// A WebTransport session over a connection of [`mendpath`]. Clones are handles of the same one;
/// with the last, streams included, it closes with code 0.
pub struct Session {
    link: Arc<Link>,
    /// What polls wait for is kept in here.
    connection: Connection,
    /// Streams that are open, while the words before their data are still to be taken.
    opening: [Option<Opening>; 2],
    waits: Waits,
    /// What comes to a session over HTTP/3 is looked at first.
    #[cfg(feature = "http3")]
    accepting: Option<Accepting>,
}

/// What the handles of a session have in common with its streams.
pub(crate) struct Link {
    /// The end of the session, once it is known: the first reason counts.
    end: OnceLock<SessionError>,
    /// Wakes those who wait for something that will not come any more.
    ended: Arc<Notify>,
    /// The application protocol that was agreed on; learnt when somebody asks.
    protocol: OnceLock<String>,
    #[cfg(feature = "http3")]
    http3: Option<Http3>,
}

/// The place of one call among those that the end of the session wakes.
#[derive(Default)]
pub(crate) struct Wait(Option<Pin<Box<OwnedNotified>>>);

/// The places of a session's calls, which are polled by as many tasks as they like.
#[derive(Default)]
struct Waits {
    /// For each kind of stream.
    #[cfg(feature = "http3")]
    accept: [Wait; 2],
    open: [Wait; 2],
    send_datagram: Wait,
    recv_datagram: Wait,
}

/// The kinds of streams.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dir {
    Bi,
    Uni,
}

impl Dir {
    /// Its place among two.
    pub(crate) fn index(self) -> usize {
        usize::from(self == Self::Uni)
    }
}

struct Opening {
    send: SendStream,
    recv: Option<RecvStream>,
    /// Of what goes before, what is still to be taken.
    rest: Bytes,
}

impl Link {
    pub(crate) fn raw() -> Self {
        Self {
            end: OnceLock::new(),
            ended: Arc::default(),
            protocol: OnceLock::new(),
            #[cfg(feature = "http3")]
            http3: None,
        }
    }

    #[cfg(feature = "http3")]
    pub(crate) fn http3(http3: Http3) -> Self {
        Self { http3: Some(http3), ..Self::raw() }
    }

    pub(crate) fn codes(&self) -> Codes {
        #[cfg(feature = "http3")]
        if self.http3.is_some() {
            return Codes::Http3;
        }
        Codes::Raw
    }

    /// Refuses what is begun after the session has ended. The connection below may take a moment
    /// longer: the peer is told first.
    pub(crate) fn open(&self) -> Result<(), SessionError> {
        self.end.get().map_or(Ok(()), |end| Err(end.clone()))
    }

    /// What was polled, or else the end of the session: the connection may last longer than that.
    pub(crate) fn or_end<T, E: From<SessionError>>(
        &self,
        wait: &mut Wait,
        cx: &mut Context<'_>,
        polled: Poll<Result<T, E>>,
    ) -> Poll<Result<T, E>> {
        if polled.is_ready() || self.codes() == Codes::Raw {
            return polled;
        }
        let ended = wait.0.get_or_insert_with(|| Box::pin(self.ended.clone().notified_owned()));
        let _ = ended.as_mut().poll(cx);
        // Only now: whoever ends it after this look wakes the task.
        self.open()?;
        Poll::Pending
    }

    /// What the end of the connection means here.
    pub(crate) fn lost(&self, error: ConnectionError) -> SessionError {
        self.end.get().cloned().unwrap_or_else(|| SessionError::of_connection(error, self.codes()))
    }

    #[cfg(feature = "http3")]
    pub(crate) fn of_http3(&self) -> Option<&Http3> {
        self.http3.as_ref()
    }

    /// Says why it has ended, unless that is known.
    #[cfg(feature = "http3")]
    pub(crate) fn end(&self, error: SessionError) -> bool {
        let first = self.end.set(error).is_ok();
        self.ended.notify_waiters();
        first
    }
}

impl Session {
    /// A session over a QUIC connection as it is: every stream of the connection is one of the
    /// session. The protocol that both speak is that of the connection (ALPN).
    pub fn raw(connection: Connection) -> Self {
        Self::new(connection, Link::raw())
    }

    pub(crate) fn new(connection: Connection, link: Link) -> Self {
        Self {
            link: Arc::new(link),
            connection,
            opening: [None, None],
            waits: Waits::default(),
            #[cfg(feature = "http3")]
            accepting: None,
        }
    }

    #[cfg(feature = "http3")]
    pub(crate) fn accepting(mut self, accepting: Accepting) -> Self {
        self.accepting = Some(accepting);
        self
    }

    #[cfg(feature = "http3")]
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// The connection below: its paths, its statistics. Over raw QUIC its streams and datagrams
    /// are those of the session.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The protocol that was agreed on: that of the connection, or, over HTTP/3, the one that the
    /// server chose of those that the client offered. `None` if there is none, or not yet.
    pub fn protocol(&self) -> Option<&str> {
        #[cfg(feature = "http3")]
        if let Some(http3) = &self.link.http3 {
            return http3.protocol();
        }
        if self.link.protocol.get().is_none() {
            let protocol = String::from_utf8(self.connection.alpn()?).ok()?;
            let _ = self.link.protocol.set(protocol);
        }
        self.link.protocol.get().map(String::as_str)
    }

    /// The longest datagram that can be sent now, in bytes; 0 if the peer takes none.
    pub fn max_datagram_size(&self) -> usize {
        self.connection.max_datagram_size().unwrap_or(0).saturating_sub(self.before_datagrams().len())
    }

    /// Statistics of the session at this moment.
    pub fn stats(&self) -> SessionStats {
        SessionStats::of(&self.connection)
    }

    /// Closes the session with a code, and words of which 1,024 bytes are sent. The first close
    /// counts. What waits ends, and whatever is begun afterwards fails. Only [`Session::closed`],
    /// and that of streams, waits for the end of the connection: over HTTP/3 that is once the peer
    /// has heard, within 3 s.
    pub fn close(&self, code: u32, reason: &str) {
        let reason = prefix(reason);
        #[cfg(feature = "http3")]
        if let Some(http3) = &self.link.http3 {
            return http3.close(&self.connection, &self.link, code, reason);
        }
        self.connection.close(self.link.codes().encode(code), reason.as_bytes());
    }

    /// Waits until the session has ended, and says why. Cancel safe.
    pub async fn closed(&self) -> SessionError {
        self.link.lost(self.connection.closed().await)
    }

    pub(crate) fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<SessionError> {
        self.connection.poll_closed(cx).map(|error| self.link.lost(error))
    }

    pub(crate) fn poll_open_uni(&mut self, cx: &mut Context<'_>) -> Poll<Result<SendStream, SessionError>> {
        let (send, _) = ready!(self.poll_open(cx, Dir::Uni))?;
        Poll::Ready(Ok(send))
    }

    pub(crate) fn poll_open_bi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(SendStream, RecvStream), SessionError>> {
        let (send, recv) = ready!(self.poll_open(cx, Dir::Bi))?;
        Poll::Ready(Ok((send, recv.expect("both sides were opened"))))
    }

    /// Opens a stream and writes what goes before its data. A session that is dropped meanwhile
    /// resets the stream.
    fn poll_open(
        &mut self,
        cx: &mut Context<'_>,
        dir: Dir,
    ) -> Poll<Result<(SendStream, Option<RecvStream>), SessionError>> {
        self.link.open()?;
        let index = dir.index();
        if self.opening[index].is_none() {
            let opened = match dir {
                Dir::Bi => {
                    self.connection.poll_open_bi(cx).map_ok(|(send, recv)| (send, Some(self.receiving(recv))))
                }
                Dir::Uni => self.connection.poll_open_uni(cx).map_ok(|send| (send, None)),
            };
            let opened = opened.map_err(|error| self.link.lost(error));
            let (send, recv) = ready!(self.link.or_end(&mut self.waits.open[index], cx, opened))?;
            let send = SendStream::new(send, self.link.clone());
            self.opening[index] = Some(Opening { send, recv, rest: self.before_streams(dir) });
        }
        let opening = &mut self.opening[index];
        while let Some(stream) = opening
            && !stream.rest.is_empty()
        {
            match ready!(stream.send.poll_write(cx, &stream.rest)) {
                Ok(taken) => drop(stream.rest.split_to(taken)),
                // The peer wants nothing of it: whoever writes to it is told.
                Err(crate::StreamError::Session(error)) => {
                    *opening = None;
                    return Poll::Ready(Err(error));
                }
                Err(_) => stream.rest.clear(),
            }
        }
        let Opening { mut send, recv, .. } = opening.take().expect("it is open");
        // Refused if the peer has stopped it: then nobody waits for it.
        let _ = send.set_reliable_boundary();
        Poll::Ready(Ok((send, recv)))
    }

    pub(crate) fn poll_accept_uni(&mut self, cx: &mut Context<'_>) -> Poll<Result<RecvStream, SessionError>> {
        self.link.open()?;
        #[cfg(feature = "http3")]
        if let Some(accepting) = &mut self.accepting {
            let polled = accepting.poll_uni(cx).map(Ok::<_, SessionError>);
            let recv = ready!(self.link.or_end(&mut self.waits.accept[Dir::Uni.index()], cx, polled))?;
            return Poll::Ready(Ok(self.receiving(recv)));
        }
        let recv = ready!(self.connection.poll_accept_uni(cx)).map_err(|error| self.link.lost(error))?;
        Poll::Ready(Ok(self.receiving(recv)))
    }

    pub(crate) fn poll_accept_bi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(SendStream, RecvStream), SessionError>> {
        self.link.open()?;
        #[cfg(feature = "http3")]
        if let Some(accepting) = &mut self.accepting {
            let polled = accepting.poll_bi(cx).map(Ok::<_, SessionError>);
            let (send, recv) = ready!(self.link.or_end(&mut self.waits.accept[Dir::Bi.index()], cx, polled))?;
            return Poll::Ready(Ok((SendStream::new(send, self.link.clone()), self.receiving(recv))));
        }
        let (send, recv) =
            ready!(self.connection.poll_accept_bi(cx)).map_err(|error| self.link.lost(error))?;
        Poll::Ready(Ok((SendStream::new(send, self.link.clone()), self.receiving(recv))))
    }

    /// Waits for room, if there is none.
    pub(crate) fn poll_send_datagram(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<Result<(), SessionError>> {
        self.link.open()?;
        let before = self.before_datagrams();
        let sent = if before.is_empty() {
            self.connection.poll_send_datagram_with(cx, data, DatagramOptions::new())
        } else {
            let data = [&*before, data].concat();
            self.connection.poll_send_datagram_with(cx, &data, DatagramOptions::new())
        };
        let sent = sent.map_err(|error| self.refused(error));
        self.link.or_end(&mut self.waits.send_datagram, cx, sent)
    }

    /// Never waits: what finds no room is refused.
    pub(crate) fn try_send_datagram(&self, data: Bytes) -> Result<(), SessionError> {
        self.link.open()?;
        let before = self.before_datagrams();
        let data = if before.is_empty() { data } else { [before, data].concat().into() };
        self.connection.send_datagram(data).map_err(|error| self.refused(error))
    }

    /// The next datagram of this session.
    pub(crate) fn poll_recv_datagram(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, SessionError>> {
        self.link.open()?;
        loop {
            let read = self.connection.poll_read_datagram(cx).map_err(|error| self.link.lost(error));
            let data = ready!(self.link.or_end(&mut self.waits.recv_datagram, cx, read))?;
            let length = data.len();
            if let Some(data) = self.in_datagram(data)? {
                return Poll::Ready(Ok(data));
            }
            tracing::debug!(length, "a datagram of no session");
        }
    }

    fn refused(&self, error: mendpath::SendDatagramError) -> SessionError {
        use mendpath::SendDatagramError::{ConnectionLost, TooLarge};
        match error {
            ConnectionLost(error) => self.link.lost(error),
            // What goes before it is not the caller's.
            TooLarge { max } => {
                let max = max.saturating_sub(self.before_datagrams().len());
                SessionError::Datagram(TooLarge { max })
            }
            other => SessionError::Datagram(other),
        }
    }

    fn receiving(&self, recv: mendpath::RecvStream) -> RecvStream {
        RecvStream::new(recv, self.link.clone())
    }

    fn before_streams(&self, dir: Dir) -> Bytes {
        let _ = dir;
        #[cfg(feature = "http3")]
        if let Some(http3) = &self.link.http3 {
            return http3.before_streams(dir);
        }
        Bytes::new()
    }

    /// What a datagram has for this session, if it is one of it.
    fn in_datagram(&self, data: Bytes) -> Result<Option<Bytes>, SessionError> {
        #[cfg(feature = "http3")]
        if let Some(http3) = &self.link.http3 {
            return http3.in_datagram(data).or_else(|broken| {
                http3::end(&self.connection, &self.link, broken.into());
                self.link.open().map(|()| None)
            });
        }
        Ok(Some(data))
    }

    fn before_datagrams(&self) -> Bytes {
        #[cfg(feature = "http3")]
        if let Some(http3) = &self.link.http3 {
            return http3.before_datagrams();
        }
        Bytes::new()
    }

    /// Waits with a handle of its own, so that several may.
    pub(crate) async fn waiting<T>(&self, mut poll: impl FnMut(&mut Self, &mut Context<'_>) -> Poll<T>) -> T {
        let mut handle = self.clone();
        poll_fn(|cx| poll(&mut handle, cx)).await
    }
}

impl Clone for Session {
    fn clone(&self) -> Self {
        Self {
            link: self.link.clone(),
            connection: self.connection.clone(),
            opening: [None, None],
            waits: Waits::default(),
            #[cfg(feature = "http3")]
            accepting: self.accepting.clone(),
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("connection", &self.connection)
            .field("codes", &self.link.codes())
            .finish_non_exhaustive()
    }
}

/// Of the words of a close, as many as a capsule takes (draft-ietf-webtrans-http3 section 6).
fn prefix(reason: &str) -> &str {
    const LONGEST: usize = 1024;
    let mut end = reason.len().min(LONGEST);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    &reason[..end]
}

#[cfg(test)]
mod tests {
    #[test]
    fn long_words_are_cut_between_characters() {
        assert_eq!(super::prefix("bye"), "bye");
        let long = "é".repeat(600);
        assert_eq!(super::prefix(&long).len(), 1024);
        assert_eq!(super::prefix(&long[2..].replace('é', "aé")).len() % 3, 1);
    }
}
