//! The hook for what lies between TCP and IP: a layer at both hosts of a connection that sees its
//! packets, and of which TCP knows nothing.
//!
//! One file per layer in [`shims`](crate::shims). A connection has a layer if its profile says so
//! ([`SchemeKind::Shim`](crate::SchemeKind::Shim)); without one, packets go straight to the
//! network.

mod layered;

use std::fmt;

use netsim::fabric::{HostId, Packet};
use recovery::htpc_state::{NetworkState, Sampling};

use crate::{record::FlowId, segment::Segment, transport::Io};

pub(crate) use layered::Layered;

/// Both ends of a layer below one connection.
pub trait Shim: Send + fmt::Debug {
    /// The application wrote `bytes` in one go as `flow`: for layers that know flows by their size.
    fn on_write(&mut self, bytes: u64, flow: FlowId);

    /// TCP hands down a packet; `window` is its congestion window in segments, 0 from the receiving
    /// end.
    fn on_send(&mut self, io: &mut Io<'_>, packet: Packet<Segment>, window: u32);

    /// A packet came from the network. What TCP is to see goes into `up`, in order.
    fn on_arrival(&mut self, io: &mut Io<'_>, packet: Packet<Segment>, up: &mut Vec<Packet<Segment>>);

    /// TCP is about to see `packet`, one of those handed up: what it sends next answers this one.
    fn on_deliver(&mut self, packet: &Packet<Segment>);

    /// A timer that was set as [`Timer::Layer`](crate::transport::Timer::Layer).
    fn on_timer(&mut self, io: &mut Io<'_>, up: &mut Vec<Packet<Segment>>);
}

/// What layers do besides sending and waiting.
impl Io<'_> {
    /// Sends a packet of the layer's own, counted as redundancy of `flow`.
    pub fn send_coded(&mut self, packet: Packet<Segment>, flow: FlowId) {
        let totals = self.totals();
        totals.packets += 1;
        totals.parities += 1;
        totals.bytes += u64::from(packet.size);
        totals.extra_bytes += u64::from(packet.size);
        if let Some(record) = self.record(flow) {
            record.packets += 1;
            record.extra += 1;
        }
        self.send(packet, 0);
    }

    /// What the layers of all connections from `host` know of the network together; there is at
    /// most one per host.
    pub fn state_of(&mut self, host: HostId, sampling: Sampling) -> &mut NetworkState {
        self.books.networks.entry(host).or_insert_with(|| NetworkState::new(sampling))
    }

    /// The receiving end rebuilt a packet of `flow`.
    pub fn count_repair(&mut self, flow: FlowId) {
        let totals = self.totals();
        totals.repaired += 1;
        totals.useful += 1;
        if let Some(record) = self.record(flow) {
            record.repaired += 1;
        }
    }
}
