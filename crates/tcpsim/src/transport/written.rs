//! What was written on a connection and has not arrived yet, for transports that send it as one
//! sequence of packets.

use std::collections::VecDeque;

use super::Io;
use crate::record::FlowId;

/// Messages, the oldest first.
#[derive(Debug)]
pub(crate) struct Written {
    /// The number behind each one's last packet, and where its history is kept.
    messages: VecDeque<(u32, FlowId)>,
    last: FlowId,
}

impl Default for Written {
    fn default() -> Self {
        Self { messages: VecDeque::new(), last: FlowId::NONE }
    }
}

impl Written {
    /// A message is written that ends before packet `end`.
    pub(crate) fn push(&mut self, end: u32, flow: FlowId) {
        self.messages.push_back((end, flow));
        self.last = flow;
    }

    /// The receiver has all packets below `delivered`: finishes the flows that end there.
    pub(crate) fn on_delivered(&mut self, io: &mut Io<'_>, delivered: u32) {
        while let Some((_, flow)) = self.messages.front().filter(|(end, _)| *end <= delivered) {
            io.finish(*flow);
            self.messages.pop_front();
        }
    }

    /// The flow that whatever happens now is counted for: the oldest that has not arrived, or else
    /// the last.
    pub(crate) fn oldest(&self) -> FlowId {
        self.messages.front().map_or(self.last, |(_, flow)| *flow)
    }
}
