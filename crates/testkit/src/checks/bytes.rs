//! Every byte of a stream arrives once, in order and unchanged, up to the end that its sender
//! chose; every datagram at most once.

use std::collections::BTreeSet;

use proto::{Side, StreamId};

use crate::{
    content::{Content, mix},
    scenario::{Flow, FlowEnd},
};

/// An application saw something that must not be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Wrong {
    /// A byte was changed, missing or in the wrong place.
    #[error("stream {0:?}: the byte at offset {1} differs")]
    Content(StreamId, u64),
    /// The end came elsewhere than the sender put it, or otherwise.
    #[error("stream {0:?}: {1} at offset {2}, planned was {3:?}")]
    End(StreamId, String, u64, Flow),
    /// A call failed that must not.
    #[error("stream {0:?}: {1}")]
    Call(StreamId, String),
    /// A datagram that nobody sent, or that came before.
    #[error("datagram {0}: {1}")]
    Datagram(u64, &'static str),
    /// More was sent, or opened, than the receiver allows.
    #[error("{0}: {1} where {2} are allowed")]
    Limit(&'static str, u64, u64),
}

/// How a receiver sees a stream end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeenEnd {
    /// The sender finished.
    Finished,
    /// The sender reset.
    Reset,
}

/// One direction of a stream, as its receiver should see it.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The stream.
    pub id: StreamId,
    /// Who sends.
    pub sender: Side,
    /// What the sender means to send.
    pub flow: Flow,
}

impl Expected {
    /// Checks bytes that were read at `offset`; returns the offset behind them.
    ///
    /// # Errors
    /// The first difference, also that of a byte which is not planned at all.
    pub fn data(self, offset: u64, data: &[u8]) -> Result<u64, Wrong> {
        if let Some(at) = Content::of(self.id, self.sender).first_difference(offset, data) {
            return Err(Wrong::Content(self.id, at));
        }
        let end = offset + data.len() as u64;
        if end > self.flow.bytes || data.is_empty() {
            return Err(Wrong::End(self.id, format!("read of {}", data.len()), end, self.flow));
        }
        Ok(end)
    }

    /// Checks the end that came after `offset` bytes.
    ///
    /// # Errors
    /// If the sender planned another one. A reset may come before any byte that was written.
    pub fn end(self, offset: u64, end: SeenEnd) -> Result<(), Wrong> {
        let reset = matches!(self.flow.end, FlowEnd::Reset { .. });
        let possible = match end {
            SeenEnd::Finished => offset == self.flow.bytes && !reset,
            SeenEnd::Reset => reset,
        };
        if possible { Ok(()) } else { Err(Wrong::End(self.id, format!("{end:?}"), offset, self.flow)) }
    }
}

/// The datagrams of both sides.
#[derive(Debug, Default)]
pub struct Datagrams {
    /// Sizes of those sent, by sender.
    sent: [Vec<usize>; 2],
    /// Numbers of those received, by sender.
    seen: [BTreeSet<u64>; 2],
}

impl Datagrams {
    /// The next datagram of a side.
    pub fn next(&self, sender: Side, size: usize) -> Vec<u8> {
        let mut data = vec![0; size];
        fill(sender, self.sent[sender as usize].len() as u64, &mut data);
        data
    }

    /// [`next`](Self::next) was sent.
    pub fn on_sent(&mut self, sender: Side, size: usize) {
        self.sent[sender as usize].push(size);
    }

    /// Checks a datagram that arrived; returns its number.
    ///
    /// # Errors
    /// If `sender` never sent it like that, or it came before.
    pub fn on_received(&mut self, sender: Side, data: &[u8]) -> Result<u64, Wrong> {
        let Some(head) = data.first_chunk::<8>() else { return Err(Wrong::Datagram(0, "too short")) };
        let number = u64::from_le_bytes(*head);
        let sizes = &self.sent[sender as usize];
        if usize::try_from(number).ok().and_then(|n| sizes.get(n)) != Some(&data.len()) {
            return Err(Wrong::Datagram(number, "nobody sent it, or in another size"));
        }
        let mut expected = vec![0; data.len()];
        fill(sender, number, &mut expected);
        if expected[..] != data[..] {
            return Err(Wrong::Datagram(number, "changed on the way"));
        }
        if !self.seen[sender as usize].insert(number) {
            return Err(Wrong::Datagram(number, "delivered twice"));
        }
        Ok(number)
    }
}

/// A datagram's number and then bytes that follow from it.
fn fill(sender: Side, number: u64, data: &mut [u8]) {
    let salt = mix(number * 2 + u64::from(sender == Side::Server));
    for (i, chunk) in data.chunks_mut(8).enumerate() {
        let word = if i == 0 { number } else { mix(salt ^ i as u64) };
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use proto::Dir;

    use super::*;

    fn expected(bytes: u64, end: FlowEnd) -> (Expected, Vec<u8>) {
        let id = StreamId::new(Side::Client, Dir::Bi, 1);
        let mut data = vec![0; bytes as usize];
        Content::of(id, Side::Client).fill(0, &mut data);
        (Expected { id, sender: Side::Client, flow: Flow { bytes, end } }, data)
    }

    #[test]
    fn changed_missing_repeated_and_surplus_bytes_are_seen() {
        let (stream, mut data) = expected(100, FlowEnd::Finish);
        assert_eq!(stream.data(0, &data[..60]), Ok(60));
        assert_eq!(stream.data(60, &data[60..]), Ok(100));
        assert!(
            matches!(stream.data(61, &data[60..]), Err(Wrong::Content(_, at)) if at < 70),
            "one is missing"
        );
        assert!(stream.data(60, &data[50..90]).is_err(), "ten came twice");
        data[77] ^= 1;
        assert_eq!(stream.data(60, &data[60..]), Err(Wrong::Content(stream.id, 77)));
        let (longer, data) = expected(101, FlowEnd::Finish);
        assert!(longer.data(0, &data).is_ok() && stream.data(0, &data).is_err(), "one more than planned");
    }

    #[test]
    fn ends_that_nobody_planned_are_seen() {
        let (finished, _) = expected(100, FlowEnd::Finish);
        assert!(finished.end(100, SeenEnd::Finished).is_ok());
        assert!(finished.end(99, SeenEnd::Finished).is_err() && finished.end(50, SeenEnd::Reset).is_err());
        let (reset, _) = expected(100, FlowEnd::Reset { after: 40 });
        assert!(reset.end(0, SeenEnd::Reset).is_ok() && reset.end(100, SeenEnd::Finished).is_err());
    }

    #[test]
    fn datagrams_that_are_doubled_changed_or_invented_are_seen() {
        let mut datagrams = Datagrams::default();
        let first = datagrams.next(Side::Server, 30);
        assert!(datagrams.on_received(Side::Server, &first).is_err(), "not sent yet");
        datagrams.on_sent(Side::Server, 30);
        assert!(datagrams.on_received(Side::Client, &first).is_err(), "the other side");
        assert!(datagrams.on_received(Side::Server, &first[..29]).is_err());
        let mut changed = first.clone();
        changed[20] ^= 1;
        assert_eq!(
            datagrams.on_received(Side::Server, &changed),
            Err(Wrong::Datagram(0, "changed on the way"))
        );
        assert_eq!(datagrams.on_received(Side::Server, &first), Ok(0));
        assert_eq!(datagrams.on_received(Side::Server, &first), Err(Wrong::Datagram(0, "delivered twice")));
    }
}
