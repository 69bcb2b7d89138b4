//! Neither side sends more, or opens more streams, than the other allows (RFC 9000 section 4).
//!
//! What a side may send follows from what the application at the other end has read, which is known
//! here, and from its windows. The transport takes bytes from an application only as far as the
//! peer allows, so what was written counts as sent.

use std::collections::BTreeMap;

use proto::{Side, StreamId, TransportConfig};

use super::bytes::Wrong;

/// What the receivers of both sides allow, and what the senders have used.
#[derive(Debug, Default)]
pub struct Credit {
    /// Limits that each side sets for the other.
    limits: [Limits; 2],
    /// Directions of streams that are under way, by stream and sender.
    flows: BTreeMap<(StreamId, bool), Flow>,
    /// Bytes written and not read, by sender.
    unread: [u64; 2],
    /// Streams that are open in the eyes of the side that did not open them, by opener and kind.
    open: [[u64; 2]; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    connection: u64,
    stream: u64,
    streams: [u64; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    written: u64,
    read: u64,
}

fn other(side: Side) -> Side {
    if side == Side::Client { Side::Server } else { Side::Client }
}

impl Credit {
    /// Limits of client and server.
    pub fn new(client: &TransportConfig, server: &TransportConfig) -> Self {
        let limits = [client, server].map(|t| Limits {
            connection: t.receive_window,
            stream: t.stream_receive_window,
            streams: [t.max_concurrent_bidi, t.max_concurrent_uni],
        });
        Self { limits, ..Self::default() }
    }

    /// A stream was opened.
    ///
    /// # Errors
    /// If the other side does not allow so many at once.
    pub fn on_opened(&mut self, id: StreamId, opener: Side) -> Result<(), Wrong> {
        let open = &mut self.open[opener as usize][id.dir() as usize];
        *open += 1;
        let limit = self.limits[other(opener) as usize].streams[id.dir() as usize];
        if *open <= limit { Ok(()) } else { Err(Wrong::Limit("streams open at once", *open, limit)) }
    }

    /// The side that did not open the stream is done with it.
    pub fn on_closed(&mut self, id: StreamId, opener: Side) {
        let open = &mut self.open[opener as usize][id.dir() as usize];
        *open = open.saturating_sub(1);
    }

    /// A sender has written so many bytes of a stream in all.
    ///
    /// # Errors
    /// If the receiver does not allow so many.
    pub fn on_written(&mut self, id: StreamId, sender: Side, written: u64) -> Result<(), Wrong> {
        let limits = self.limits[other(sender) as usize];
        let flow = self.flows.entry((id, sender == Side::Server)).or_default();
        self.unread[sender as usize] += written.saturating_sub(flow.written.max(flow.read));
        flow.written = written;
        let unread = written.saturating_sub(flow.read);
        if unread > limits.stream {
            return Err(Wrong::Limit("unread bytes of a stream", unread, limits.stream));
        }
        let unread = self.unread[sender as usize];
        if unread > limits.connection {
            return Err(Wrong::Limit("unread bytes of a connection", unread, limits.connection));
        }
        Ok(())
    }

    /// The receiver has read so many bytes of a stream in all.
    pub fn on_read(&mut self, id: StreamId, sender: Side, read: u64) {
        let Some(flow) = self.flows.get_mut(&(id, sender == Side::Server)) else { return };
        let news = read.min(flow.written).saturating_sub(flow.read);
        self.unread[sender as usize] -= news;
        flow.read = flow.read.max(read);
    }

    /// Nothing more of this direction will be read, or the sender took back what it had not sent.
    pub fn on_ended(&mut self, id: StreamId, sender: Side) {
        // What the sender writes before it learns of it counts no more.
        self.flows.entry((id, sender == Side::Server)).or_default();
        self.on_read(id, sender, u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use proto::Dir;

    use super::*;

    fn credit() -> Credit {
        let config = TransportConfig {
            receive_window: 100,
            stream_receive_window: 60,
            max_concurrent_uni: 1,
            ..TransportConfig::default()
        };
        Credit::new(&TransportConfig::default(), &config)
    }

    fn stream(n: u64) -> StreamId {
        StreamId::new(Side::Client, Dir::Uni, n)
    }

    #[test]
    fn bytes_beyond_the_windows_are_seen() {
        let mut credit = credit();
        assert!(credit.on_written(stream(0), Side::Client, 60).is_ok());
        assert_eq!(
            credit.on_written(stream(0), Side::Client, 61),
            Err(Wrong::Limit("unread bytes of a stream", 61, 60))
        );
        credit.on_read(stream(0), Side::Client, 10);
        assert!(credit.on_written(stream(0), Side::Client, 70).is_ok());
        assert!(credit.on_written(stream(1), Side::Client, 40).is_ok());
        assert_eq!(
            credit.on_written(stream(1), Side::Client, 41),
            Err(Wrong::Limit("unread bytes of a connection", 101, 100))
        );
        credit.on_ended(stream(0), Side::Client);
        assert!(credit.on_written(stream(1), Side::Client, 60).is_ok());
        assert!(credit.on_written(stream(0), Side::Client, 80).is_ok(), "after the end nothing counts");
        assert!(credit.on_written(stream(2), Side::Client, 41).is_err());
        assert!(credit.on_written(stream(0), Side::Server, 1_000).is_ok(), "the client allows more");
    }

    #[test]
    fn streams_beyond_the_limit_are_seen() {
        let mut credit = credit();
        assert!(credit.on_opened(stream(0), Side::Client).is_ok());
        assert!(credit.on_opened(stream(1), Side::Client).is_err());
        credit.on_closed(stream(0), Side::Client);
        credit.on_closed(stream(1), Side::Client);
        assert!(credit.on_opened(stream(2), Side::Client).is_ok());
    }
}
