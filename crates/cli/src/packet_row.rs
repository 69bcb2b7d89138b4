//! What became of the packets that a tunnel carries as they are, as statistics show it at both
//! ends.

use std::{collections::BTreeMap, fmt};

use prometheus_client::encoding::DescriptorEncoder;
use serde::Serialize;

use crate::admin::Metric;

/// Counts since the start, but for the last three.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(not(all(feature = "tunnel", target_os = "linux")), allow(dead_code, reason = "of tunnels only"))]
pub(crate) struct PacketRow {
    /// From the device, and bytes of them.
    pub(crate) packets_sent: u64,
    pub(crate) bytes_sent: u64,
    /// To the device, and bytes of them.
    pub(crate) packets_received: u64,
    pub(crate) bytes_received: u64,
    /// Too large for a datagram: they went on the stream, if there was room.
    pub(crate) large: u64,
    /// Dropped since too many waited between the connection and the device: of the other end, and large
    /// ones for the stream.
    pub(crate) crowded: u64,
    /// Dropped since packets had waited too long for the connection, and for want of room.
    pub(crate) overdue: u64,
    pub(crate) overflowed: u64,
    /// Of the other end, and here before.
    pub(crate) doubles: u64,
    /// Of the other end, and waited for one before them.
    pub(crate) held: u64,
    /// Of the other end, and came after they had been given up.
    pub(crate) late: u64,
    /// Holes in the order of a flow that were waited for in vain, or for which there was no room.
    pub(crate) given_up: u64,
    /// Datagrams of the other end that made no sense.
    pub(crate) malformed: u64,
    /// Copies and combinations that were sent beside packets, bytes of both, and those that never
    /// left.
    pub(crate) copies: u64,
    pub(crate) combinations: u64,
    pub(crate) extra_bytes: u64,
    pub(crate) extras_dropped: u64,
    /// Combinations of the other end, packets that they brought back, and flows for whose packets
    /// there was no room until they came.
    pub(crate) combinations_received: u64,
    pub(crate) rebuilt: u64,
    pub(crate) unkept: u64,
    /// Flows forgotten because there were too many.
    pub(crate) forgotten: u64,
    /// Flows at the moment, of both directions.
    pub(crate) flows: usize,
    /// Bytes that wait for their order at the moment.
    pub(crate) held_bytes: usize,
    /// Bytes that are kept for combinations at the moment, of both directions.
    pub(crate) kept_bytes: usize,
}

/// A server's tunnels of packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(not(all(feature = "tunnel", target_os = "linux")), allow(dead_code, reason = "of tunnels only"))]
pub(crate) struct TunnelRow {
    /// Clients with a tunnel at the moment.
    pub(crate) clients: usize,
    /// Addresses that belong to somebody, whether he is here or not.
    pub(crate) addresses: usize,
    #[serde(flatten)]
    pub(crate) packets: PacketRow,
    /// Packets that went nowhere, by reason.
    pub(crate) dropped: BTreeMap<&'static str, u64>,
}

impl TunnelRow {
    /// As metrics.
    pub(crate) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Clients with a tunnel of packets at the moment";
        Metric { name: "tunnel_clients", help }.gauge(self.clients as u64, encoder)?;
        let help = "Addresses of tunnels that belong to somebody";
        Metric { name: "tunnel_addresses", help }.gauge(self.addresses as u64, encoder)?;
        self.packets.encode("tunnel_", encoder)?;
        let help = "Packets of tunnels that went nowhere, by reason";
        let values = self.dropped.iter().map(|(reason, count)| ([("reason", *reason)], *count));
        Metric { name: "tunnel_dropped", help }.counters(values, encoder)
    }
}

impl PacketRow {
    /// As metrics whose names begin with `prefix`.
    pub(crate) fn encode(&self, prefix: &str, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, value) in [
            ("packets_sent", "Packets from the device, carried as they are", self.packets_sent),
            ("bytes_sent", "Bytes of packets from the device, carried as they are", self.bytes_sent),
            ("packets_received", "Packets handed to the device as they were", self.packets_received),
            ("bytes_received", "Bytes of packets handed to the device as they were", self.bytes_received),
            ("large", "Packets too large for a datagram, carried on a stream", self.large),
            (
                "crowded",
                "Packets dropped because too many waited between connection and device",
                self.crowded,
            ),
            ("overdue", "Packets dropped since they had waited too long for a while", self.overdue),
            ("overflowed", "Packets dropped because too many waited", self.overflowed),
            ("doubles", "Packets that had come before", self.doubles),
            ("held", "Packets that waited for one before them", self.held),
            ("late", "Packets that came after they had been given up", self.late),
            ("given_up", "Holes in the order of a flow that were given up", self.given_up),
            ("malformed", "Datagrams that made no sense", self.malformed),
            ("copies", "Copies of packets that were sent beside them", self.copies),
            ("combinations", "Combinations of packets that were sent beside them", self.combinations),
            ("extra_bytes", "Bytes of copies and combinations", self.extra_bytes),
            ("extras_dropped", "Copies and combinations that never left", self.extras_dropped),
            ("combinations_received", "Combinations that came", self.combinations_received),
            ("rebuilt", "Packets that combinations brought back", self.rebuilt),
            ("unkept", "Flows without room for packets until combinations came", self.unkept),
            ("forgotten", "Flows forgotten because there were too many", self.forgotten),
        ] {
            Metric { name: &format!("{prefix}{name}"), help }.counter(value, encoder)?;
        }
        for (name, help, value) in [
            ("flows", "Flows at the moment, of both directions", self.flows),
            ("held_bytes", "Bytes that wait for their order at the moment", self.held_bytes),
            ("kept_bytes", "Bytes that are kept for combinations at the moment", self.kept_bytes),
        ] {
            Metric { name: &format!("{prefix}{name}"), help }.gauge(value as u64, encoder)?;
        }
        Ok(())
    }
}
