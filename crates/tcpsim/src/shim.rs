//! The hook for what lies between TCP and IP: a layer at both hosts of a connection that sees its packets, and of which TCP knows nothing.
//!
//! One file per layer in [`shims`](crate::shims). A connection has a layer if its profile says so
//! ([`SchemeKind::Shim`](crate::SchemeKind::Shim)); without one, packets go straight to the network.

use std::{collections::BTreeMap, fmt};

use netsim::fabric::{Fabric, HostId, Packet};
use recovery::htpc_state::{NetworkState, Sampling};
use units::Instant;

use crate::{
    record::{FlowRecord, Totals},
    segment::Segment,
};

/// Timer slot of the layer.
pub(crate) const SHIM_SLOT: u32 = 14;

/// What hosts' layers know together, by host.
pub(crate) type HostStates = BTreeMap<HostId, NetworkState>;

/// The network below a layer.
pub struct Wire<'a> {
    pub(crate) fabric: &'a mut Fabric<Segment>,
    pub(crate) totals: &'a mut Totals,
    pub(crate) records: &'a mut Vec<FlowRecord>,
    pub(crate) states: &'a mut HostStates,
    pub(crate) conn: u32,
}

impl Wire<'_> {
    /// The time.
    pub fn now(&self) -> Instant {
        self.fabric.now()
    }

    /// The connection that the packets belong to.
    pub fn connection(&self) -> u32 {
        self.conn
    }

    /// Sends a packet as it is.
    pub fn send(&mut self, packet: Packet<Segment>) {
        self.fabric.send(packet);
    }

    /// Sends a packet of the layer's own, counted as redundancy of flow `record`.
    pub fn send_coded(&mut self, packet: Packet<Segment>, record: u32) {
        self.totals.packets += 1;
        self.totals.parities += 1;
        self.totals.bytes += u64::from(packet.size);
        self.totals.extra_bytes += u64::from(packet.size);
        if let Some(record) = self.records.get_mut(record as usize) {
            record.packets += 1;
            record.extra += 1;
        }
        self.fabric.send(packet);
    }

    /// What the layers of all connections from `host` know of the network together; there is at most one per host.
    pub fn state_of(&mut self, host: HostId, sampling: Sampling) -> &mut NetworkState {
        self.states.entry(host).or_insert_with(|| NetworkState::new(sampling))
    }

    /// The receiving end rebuilt a packet of flow `record`.
    pub fn count_repair(&mut self, record: u32) {
        self.totals.repaired += 1;
        self.totals.useful += 1;
        if let Some(record) = self.records.get_mut(record as usize) {
            record.repaired += 1;
        }
    }

    /// Has [`Shim::on_timer`] called at `at`. There may be several; none can be taken back.
    pub fn set_timer(&mut self, at: Instant) {
        self.fabric.set_timer(at, self.conn << 4 | SHIM_SLOT);
    }
}

/// Both ends of a layer below one connection.
pub trait Shim: Send + fmt::Debug {
    /// The application wrote `bytes` in one go, remembered as flow `record`: for layers that know flows by their size.
    fn on_write(&mut self, bytes: u64, record: u32);

    /// TCP hands down a packet; `window` is its congestion window in segments, 0 from the receiving end.
    fn on_send(&mut self, wire: &mut Wire<'_>, packet: Packet<Segment>, window: u32);

    /// A packet came from the network. What TCP is to see goes into `up`, in order.
    fn on_arrival(&mut self, wire: &mut Wire<'_>, packet: Packet<Segment>, up: &mut Vec<Packet<Segment>>);

    /// TCP is about to see `packet`, one of those handed up: what it sends next answers this one.
    fn on_deliver(&mut self, packet: &Packet<Segment>);

    /// A timer of [`Wire::set_timer`].
    fn on_timer(&mut self, wire: &mut Wire<'_>, up: &mut Vec<Packet<Segment>>);
}
