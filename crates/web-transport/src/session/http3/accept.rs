//! Streams of the peer, whose first bytes say what they are.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use mendpath::{Connection, ConnectionError, RecvStream, SendStream};
use tokio::{
    io::AsyncReadExt,
    sync::{Notify, futures::OwnedNotified},
    task::JoinSet,
};
use web_transport_proto::{Frame, StreamUni, VarInt};

use super::REQUEST_REJECTED;
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
    end: Option<ConnectionError>,
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
    /// Of QPACK: it must stay open, though nothing comes of it without a dynamic table.
    Kept(RecvStream),
    Neither,
}

impl Accepting {
    /// What sorts the streams has to run as long as there is a handle.
    pub(crate) fn new(
        connection: Connection,
        session: u64,
        early: Early,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let arrived = Arc::<Arrived>::default();
        let sorting = sort(connection, session, early, arrived.clone());
        (Self { arrived, waits: [None, None] }, sorting)
    }

    pub(crate) fn poll_uni(&mut self, cx: &mut Context<'_>) -> Poll<Result<RecvStream, ConnectionError>> {
        self.poll(cx, Dir::Uni, |streams| streams.uni.pop_front())
    }

    pub(crate) fn poll_bi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(SendStream, RecvStream), ConnectionError>> {
        self.poll(cx, Dir::Bi, |streams| streams.bi.pop_front())
    }

    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        dir: Dir,
        take: impl Fn(&mut Streams) -> Option<T>,
    ) -> Poll<Result<T, ConnectionError>> {
        let Self { arrived, waits } = self;
        let place = &mut waits[dir.index()];
        loop {
            // It counts from now on, so nothing is missed between the look and the poll.
            let changed = &arrived.changed[dir.index()];
            let notified = place.get_or_insert_with(|| Box::pin(changed.clone().notified_owned()));
            let mut streams = arrived.lock();
            let taken = take(&mut streams).map(Ok).or_else(|| streams.end.clone().map(Err));
            drop(streams);
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
async fn sort(connection: Connection, session: u64, early: Early, arrived: Arc<Arrived>) {
    let Early { typed: early, mut typing } = early;
    let mut sorting = JoinSet::new();
    for stream in early {
        sorting.spawn(uni(stream, session));
    }
    let mut kept = Vec::new();
    let end = loop {
        tokio::select! {
            recv = connection.accept_uni() => match recv {
                Ok(recv) => drop(sorting.spawn(async move { uni(typed(recv).await, session).await })),
                Err(error) => break error,
            },
            Some(Ok(stream)) = typing.join_next() => drop(sorting.spawn(uni(stream, session))),
            both = connection.accept_bi() => match both {
                Ok((send, recv)) => drop(sorting.spawn(bi(send, recv, session))),
                Err(error) => break error,
            },
            Some(sorted) = sorting.join_next() => match sorted {
                Ok(Sorted::Uni(recv)) => {
                    arrived.lock().uni.push_back(recv);
                    arrived.changed[Dir::Uni.index()].notify_waiters();
                }
                Ok(Sorted::Bi(send, recv)) => {
                    arrived.lock().bi.push_back((send, recv));
                    arrived.changed[Dir::Bi.index()].notify_waiters();
                }
                // One of the encoder, one of the decoder.
                Ok(Sorted::Kept(recv)) if kept.len() < 2 => kept.push(recv),
                Ok(Sorted::Kept(_) | Sorted::Neither) | Err(_) => {}
            },
        }
    };
    arrived.lock().end = Some(end);
    arrived.changed.iter().for_each(|changed| changed.notify_waiters());
}

async fn typed(mut recv: RecvStream) -> Typed {
    (varint(&mut recv).await.map(StreamUni), recv)
}

async fn uni((kind, mut recv): Typed, session: u64) -> Sorted {
    match kind {
        Some(StreamUni::WEBTRANSPORT) if is(&mut recv, session).await => Sorted::Uni(recv),
        Some(StreamUni::QPACK_ENCODER | StreamUni::QPACK_DECODER) => Sorted::Kept(recv),
        _ => Sorted::Neither,
    }
}

async fn bi(mut send: SendStream, mut recv: RecvStream, session: u64) -> Sorted {
    if varint(&mut recv).await.map(Frame) == Some(Frame::WEBTRANSPORT) && is(&mut recv, session).await {
        return Sorted::Bi(send, recv);
    }
    // A request beside the session, or another session.
    let _ = recv.stop(REQUEST_REJECTED);
    let _ = send.reset(REQUEST_REJECTED);
    Sorted::Neither
}

async fn is(recv: &mut RecvStream, session: u64) -> bool {
    varint(recv).await.is_some_and(|id| id.into_inner() == session)
}

/// Byte by byte: what follows is the application's.
async fn varint(recv: &mut RecvStream) -> Option<VarInt> {
    let mut bytes = [0; 8];
    recv.read_exact(&mut bytes[..1]).await.ok()?;
    let length = 1 << (bytes[0] >> 6);
    recv.read_exact(&mut bytes[1..length]).await.ok()?;
    VarInt::decode(&mut &bytes[..length]).ok()
}
