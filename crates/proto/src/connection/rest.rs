//! What a connection gives back once nothing has happened for a while: most connections are idle
//! most of the time.
//!
//! That goes after [`REST_AFTER`] without a packet, and some of it is made again for the next: who
//! says something every second pays for nothing twice. What it comes to is held down by
//! `tests/memory.rs`; docs/decisions/0037-connections-at-rest.md has the reasons.

use units::{Duration, Instant};

use super::{Connection, Scratch};
use crate::path::Path;

/// Silence after which a connection rests, unless three probe timeouts are longer: until then what
/// has been sent may be on its way, and so may be the repair for it.
const REST_AFTER: Duration = Duration::from_secs(3);
/// The same in probe timeouts of the slowest path.
const REST_AFTER_PTOS: u64 = 3;

/// When the connection rests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    /// `None` while it does.
    due: Option<Instant>,
    /// Nothing has been given back yet.
    begins: bool,
}

impl Rest {
    /// Something has happened just now.
    pub(super) fn new(now: Instant) -> Self {
        Self { due: Some(now + REST_AFTER), begins: false }
    }

    /// A packet has come or left; `slowest` is the longest probe timeout.
    pub(super) fn put_off(&mut self, now: Instant, slowest: Duration) {
        self.due = Some(now + REST_AFTER.max(slowest * REST_AFTER_PTOS));
    }

    /// When it begins.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }
}

impl Connection {
    /// Begins to rest if it is time and nothing is under way.
    pub(super) fn rest_if_due(&mut self, now: Instant) {
        if self.rest.due.is_none_or(|due| due > now) {
            return;
        }
        let in_flight = self.paths.values().any(|path| path.in_flight() > 0);
        self.rest = if in_flight || !self.handshake.is_confirmed() || self.has_pending() {
            Rest::new(now)
        } else {
            Rest { due: None, begins: true }
        };
    }

    /// There is nothing to send. A connection at rest gives back what it took to find that out, and
    /// everything else when it has just begun to rest.
    pub(super) fn give_back(&mut self) {
        if self.rest.due.is_some() {
            return;
        }
        self.scratch = Scratch::default();
        if !core::mem::take(&mut self.rest.begins) {
            return;
        }
        self.control.shrink_to_fit();
        self.events.shrink_to_fit();
        self.endpoint_events.shrink_to_fit();
        self.handshake.rest();
        self.rng.rest();
        self.streams.rest();
        self.repair.rest();
        self.paths.values_mut().for_each(Path::rest);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::client, *};
    use crate::{
        crypto::Level,
        path::sent::{ControlFrame, SentFrames},
    };

    /// Not in flight may be what was sent before the peer moved, and is still on record.
    #[test]
    fn a_token_is_kept_until_it_has_arrived() {
        let mut connection = client();
        connection.new_token = vec![7];
        let lose = |connection: &mut Connection| {
            let mut frames = SentFrames::default();
            frames.control.push(ControlFrame::NewToken);
            connection.requeue(Level::OneRtt, &mut frames);
            connection.control.pop_front()
        };
        connection.rest = Rest { due: None, begins: true };
        connection.give_back();
        assert_eq!(connection.new_token, [7]);
        assert_eq!(lose(&mut connection), Some(ControlFrame::NewToken), "it is sent again");
        connection.on_control_delivered(&[ControlFrame::NewToken]);
        assert!(connection.new_token.is_empty());
        assert_eq!(lose(&mut connection), None, "another copy had arrived");
    }
}
