//! Which requests of a connection are accepted, and from where on they are rejected.

use std::{
    pin::pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h3::{error::ConnectionError, frame::FrameStream, server::RequestResolver, stream::BufRecvStream};
use mendpath::StreamId;

use super::books::Books;
use crate::{
    Connection,
    connection::{Accepted, Accepting},
};

/// What a frame of fields may be longer than the fields in it: QPACK never doubles them.
const FRAME_FACTOR: u64 = 2;

/// What reads the fields of a request.
pub(super) type Resolver = RequestResolver<Connection, Bytes>;

/// What accepts the requests of a connection.
pub(super) struct Reception {
    h3: h3::server::Connection<Connection, Bytes>,
    accepting: Accepting,
    /// The stream of the request accepted last.
    last: Option<StreamId>,
}

impl Reception {
    /// Is there once the client has room for our SETTINGS.
    ///
    /// # Errors
    /// If the connection has ended.
    pub(super) async fn open(books: &Books) -> Result<Self, ConnectionError> {
        let Books { limits, connection, .. } = books;
        let (watched, accepting) = Connection::watched(connection.clone());
        let watched = watched.max_frame_size(limits.field_section.saturating_mul(FRAME_FACTOR));
        let mut builder = h3::server::builder();
        builder.max_field_section_size(limits.field_section);
        let h3 = books.with_room(limits.head, pin!(builder.build::<_, Bytes>(watched))).await?;
        Ok(Self { h3, accepting, last: None })
    }

    /// Accepts the next request; `None` once the client wants no more and all are over. `accept` of `h3` would
    /// then say that the last of them was not served.
    pub(super) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<(Resolver, Accepted)>, ConnectionError>> {
        let Some(stream) = ready!(self.h3.poll_accept_request_stream(cx))? else {
            return Poll::Ready(Ok(None));
        };
        let resolver = self.h3.create_resolver(FrameStream::new(BufRecvStream::new(stream)));
        // Only the first response has a frame that nobody knows.
        self.h3.inner.send_grease_frame = false;
        let accepted = self.accepting.take().expect("a stream was accepted");
        self.last = Some(accepted.beside.id());
        Poll::Ready(Ok(Some((resolver, accepted))))
    }

    /// Rejects what comes behind the request accepted last, and says so to the client, if it is still there.
    ///
    /// # Errors
    /// If the connection has ended otherwise than by the client's `H3_NO_ERROR`.
    pub(super) async fn close(&mut self, books: &Books) -> Result<(), ConnectionError> {
        self.accepting.end_at(first_rejected(self.last));
        // `h3` counts from the request accepted last. Without one it names the first there can be.
        let telling = pin!(self.h3.shutdown(usize::from(self.last.is_some())));
        match books.with_room(books.limits.send, telling).await {
            Err(error) if error.is_h3_no_error() => Ok(()),
            told => told,
        }
    }
}

/// The request stream behind the one accepted `last` (RFC 9114 section 5.2, RFC 9000 section 2.1). Streams are
/// accepted in the order of their ids.
fn first_rejected(last: Option<StreamId>) -> StreamId {
    StreamId(last.map_or(0, |last| last.0 + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_rejected_from_the_one_behind_the_last_on() {
        assert_eq!(first_rejected(None).0, 0);
        assert_eq!(first_rejected(Some(StreamId(0))).0, 4);
        assert_eq!(first_rejected(Some(StreamId(8))).0, 12);
    }
}
