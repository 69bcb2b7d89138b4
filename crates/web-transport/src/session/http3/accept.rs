//! Streams of the peer, whose first bytes say what they are.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use mendpath::{Connection, ConnectionError, ReadError, RecvStream, SendStream, Side};
use tokio::{
    sync::{Notify, futures::OwnedNotified},
    task::JoinSet,
};
use web_transport_proto::{Frame, StreamUni, VarInt};

use super::{
    REQUEST_REJECTED, STREAM_REJECTED,
    rules::{Broken, CLOSED_CRITICAL_STREAM, ID_ERROR, STREAM_CREATION_ERROR},
    source::Source,
};
use crate::session::Dir;

/// Takes the streams that belong to the session, in the order in which it is known that they do.
/// As many as the peer may have open can wait here.
pub(crate) struct Accepting {
    arrived: Arc<Arrived>,
    /// The places in which this handle waits, for each kind of stream.
    waits: [Option<Pin<Box<OwnedNotified>>>; 2],
}

#[derive(Default)]
struct Arrived {
    streams: Mutex<Streams>,
    /// For each kind.
    changed: [Arc<Notify>; 2],
}

#[derive(Default)]
struct Streams {
    uni: VecDeque<RecvStream>,
    bi: VecDeque<(SendStream, RecvStream)>,
}

/// A stream of one direction, and its type if it has said one.
type Typed = (Option<StreamUni>, RecvStream);

/// Streams of the peer that came before its control stream: nothing says that it is the first
/// (RFC 9114 section 6.2).
#[derive(Debug, Default)]
pub(crate) struct Early {
    typed: Vec<Typed>,
    /// Those that have not said yet what they are.
    typing: JoinSet<Typed>,
}

impl Early {
    /// Waits for the control stream, of which the type is taken.
    pub(crate) async fn control(&mut self, connection: &Connection) -> Result<RecvStream, ConnectionError> {
        loop {
            tokio::select! {
                recv = connection.accept_uni() => drop(self.typing.spawn(typed(recv?))),
                Some(Ok((kind, recv))) = self.typing.join_next() => match kind {
                    Some(StreamUni::CONTROL) => return Ok(recv),
                    kind => self.typed.push((kind, recv)),
                },
            }
        }
    }
}

/// A stream whose first bytes were read.
enum Sorted {
    Uni(RecvStream),
    Bi(SendStream, RecvStream),
    /// Of QPACK, or another control stream.
    Critical(StreamUni, RecvStream),
    Broken(Broken),
    Neither,
}

impl Accepting {
    /// What sorts the streams has to run as long as there is a handle. It ends with the connection,
    /// or once the peer breaks a rule.
    pub(crate) fn new(
        connection: Connection,
        session: u64,
        control: RecvStream,
        early: Early,
    ) -> (Self, impl Future<Output = Result<(), Broken>> + Send) {
        let arrived = Arc::<Arrived>::default();
        let sorting = sort(connection, session, control, early, arrived.clone());
        (Self { arrived, waits: [None, None] }, sorting)
    }

    pub(crate) fn poll_uni(&mut self, cx: &mut Context<'_>) -> Poll<RecvStream> {
        self.poll(cx, Dir::Uni, |streams| streams.uni.pop_front())
    }

    pub(crate) fn poll_bi(&mut self, cx: &mut Context<'_>) -> Poll<(SendStream, RecvStream)> {
        self.poll(cx, Dir::Bi, |streams| streams.bi.pop_front())
    }

    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        dir: Dir,
        take: impl Fn(&mut Streams) -> Option<T>,
    ) -> Poll<T> {
        let Self { arrived, waits } = self;
        let place = &mut waits[dir.index()];
        loop {
            // It counts from now on, so nothing is missed between the look and the poll.
            let changed = &arrived.changed[dir.index()];
            let notified = place.get_or_insert_with(|| Box::pin(changed.clone().notified_owned()));
            let taken = take(&mut arrived.lock());
            if let Some(taken) = taken {
                *place = None;
                return Poll::Ready(taken);
            }
            ready!(notified.as_mut().poll(cx));
            *place = None;
        }
    }
}

impl Clone for Accepting {
    fn clone(&self) -> Self {
        Self { arrived: self.arrived.clone(), waits: [None, None] }
    }
}

impl Arrived {
    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Streams that say nothing wait beside the others, not before them.
async fn sort(
    connection: Connection,
    session: u64,
    control: RecvStream,
    early: Early,
    arrived: Arc<Arrived>,
) -> Result<(), Broken> {
    let Early { typed: early, mut typing } = early;
    let side = connection.side();
    let mut sorting = JoinSet::new();
    for stream in early {
        sorting.spawn(uni(stream, session, side));
    }
    let (mut kinds, mut critical) = (vec![StreamUni::CONTROL], JoinSet::new());
    critical.spawn(closed(control));
    loop {
        tokio::select! {
            recv = connection.accept_uni() => match recv {
                Ok(recv) => drop(sorting.spawn(async move { uni(typed(recv).await, session, side).await })),
                Err(_) => return Ok(()),
            },
            Some(Ok(stream)) = typing.join_next() => drop(sorting.spawn(uni(stream, session, side))),
            both = connection.accept_bi() => match both {
                Ok((send, recv)) => drop(sorting.spawn(bi(send, recv, session))),
                Err(_) => return Ok(()),
            },
            Some(Ok(true)) = critical.join_next() => {
                return Err(Broken(CLOSED_CRITICAL_STREAM, "a stream of HTTP/3 itself was closed"));
            }
            Some(sorted) = sorting.join_next() => match sorted {
                Ok(Sorted::Uni(recv)) => {
                    arrived.lock().uni.push_back(recv);
                    arrived.changed[Dir::Uni.index()].notify_waiters();
                }
                Ok(Sorted::Bi(send, recv)) => {
                    arrived.lock().bi.push_back((send, recv));
                    arrived.changed[Dir::Bi.index()].notify_waiters();
                }
                // RFC 9114 section 6.2.1, RFC 9204 section 4.2.
                Ok(Sorted::Critical(kind, _)) if kinds.contains(&kind) => {
                    return Err(Broken(STREAM_CREATION_ERROR, "a second stream of HTTP/3 itself of a kind"));
                }
                Ok(Sorted::Critical(kind, recv)) => {
                    kinds.push(kind);
                    critical.spawn(closed(recv));
                }
                Ok(Sorted::Broken(broken)) => return Err(broken),
                Ok(Sorted::Neither) | Err(_) => {}
            },
        }
    }
}

/// Whether the peer has closed a stream that must stay open as long as the connection. Nothing that
/// comes on it matters to one session without a dynamic table: read, and forgotten.
async fn closed(mut recv: RecvStream) -> bool {
    loop {
        match recv.read_chunk(usize::MAX).await {
            Ok(Some(_)) => {}
            Err(ReadError::ConnectionLost(_)) => return false,
            Ok(None) | Err(_) => return true,
        }
    }
}

async fn typed(mut recv: RecvStream) -> Typed {
    (recv.varint().await.ok().map(StreamUni), recv)
}

async fn uni((kind, mut recv): Typed, session: u64, side: Side) -> Sorted {
    match kind {
        Some(StreamUni::WEBTRANSPORT) => match recv.varint().await.map(VarInt::into_inner) {
            Ok(id) if id == session => Sorted::Uni(recv),
            Ok(id) => strange(id, recv, None),
            // Reset before it had said whose it is: nobody's.
            Err(_) => Sorted::Neither,
        },
        Some(kind @ (StreamUni::CONTROL | StreamUni::QPACK_ENCODER | StreamUni::QPACK_DECODER)) => {
            Sorted::Critical(kind, recv)
        }
        // Only servers push (RFC 9114 section 6.2.2), and no client allows them to.
        Some(StreamUni::PUSH) => Sorted::Broken(match side {
            Side::Server => Broken(STREAM_CREATION_ERROR, "a client that pushes"),
            Side::Client => Broken(ID_ERROR, "a push that was not asked for"),
        }),
        // RFC 9114 section 6.2.
        _ => refuse(STREAM_CREATION_ERROR, recv, None),
    }
}

async fn bi(send: SendStream, mut recv: RecvStream, session: u64) -> Sorted {
    if recv.varint().await.ok().map(Frame) == Some(Frame::WEBTRANSPORT)
        && let Ok(id) = recv.varint().await.map(VarInt::into_inner)
    {
        return match id == session {
            true => Sorted::Bi(send, recv),
            false => strange(id, recv, Some(send)),
        };
    }
    // A request beside the session.
    refuse(REQUEST_REJECTED, recv, Some(send))
}

/// A stream of another session, for which nothing waits as there will be none (section 4.6).
fn strange(id: u64, recv: RecvStream, send: Option<SendStream>) -> Sorted {
    match id % 4 {
        0 => refuse(STREAM_REJECTED, recv, send),
        _ => Sorted::Broken(Broken(ID_ERROR, "a stream of what cannot be a session")),
    }
}

fn refuse(code: mendpath::VarInt, mut recv: RecvStream, send: Option<SendStream>) -> Sorted {
    let _ = recv.stop(code);
    if let Some(mut send) = send {
        let _ = send.reset(code);
    }
    Sorted::Neither
}
