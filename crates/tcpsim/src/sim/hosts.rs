//! Packets and timers go to the connection that they are for.

use netsim::fabric::{Fabric, HostId, Hosts, Packet};

use super::{FOREIGN_TIMER, NEXT_WRITE, World};
use crate::{
    connection::scheme::SCHEME_SLOT,
    segment::{Kind, Segment},
    shim::SHIM_SLOT,
};

/// TCP and another protocol.
pub(super) struct Beside<'a, H> {
    pub(super) world: &'a mut World,
    pub(super) other: &'a mut H,
}

impl<H: Hosts<Segment>> Hosts<Segment> for Beside<'_, H> {
    fn receive(&mut self, fabric: &mut Fabric<Segment>, host: HostId, packet: Packet<Segment>) {
        if packet.body.kind == Kind::Foreign {
            self.other.receive(fabric, host, packet);
        } else {
            self.world.receive(fabric, host, packet);
        }
    }

    fn timer(&mut self, fabric: &mut Fabric<Segment>, token: u32) {
        if token == FOREIGN_TIMER {
            self.other.timer(fabric, token);
        } else {
            self.world.timer(fabric, token);
        }
    }
}

impl Hosts<Segment> for World {
    #[inline]
    fn receive(&mut self, fabric: &mut Fabric<Segment>, _host: HostId, packet: Packet<Segment>) {
        if self.timelines.is_some() {
            return self.watched(fabric, (packet.body.conn, packet.body.sub), Some(packet));
        }
        self.take(fabric, packet);
    }

    fn timer(&mut self, fabric: &mut Fabric<Segment>, token: u32) {
        if self.timelines.is_some() && token != NEXT_WRITE {
            return self.watched(fabric, (token >> 4, (token & 15) as u8), None);
        }
        self.run_out(fabric, token);
    }
}

impl World {
    /// A packet, or else the timer of `sub`, acts on connection `id`, and is written down.
    #[cold]
    fn watched(
        &mut self,
        fabric: &mut Fabric<Segment>,
        (id, sub): (u32, u8),
        packet: Option<Packet<Segment>>,
    ) {
        let Some(timelines) = self.timelines.clone() else { return };
        let now = fabric.now();
        if let Some(packet) = &packet {
            timelines.log().on_arrival(now, &packet.body);
        }
        timelines.log().begin(id, &self.totals);
        match packet {
            Some(packet) => self.take(fabric, packet),
            None => self.run_out(fabric, id << 4 | u32::from(sub)),
        }
        timelines.log().end(now, id, sub, &self.totals);
    }

    #[inline]
    fn take(&mut self, fabric: &mut Fabric<Segment>, packet: Packet<Segment>) {
        let id = packet.body.conn;
        if !self.coded.is_empty() {
            self.with_coded(fabric, id, |conn, io| conn.receive(io, &packet));
        }
        if self.shims.get(id as usize).is_some_and(Option::is_some) {
            self.with_shim(fabric, id, |shim, wire, up| shim.on_arrival(wire, packet, up));
        } else {
            self.with(fabric, id, |conn, io| conn.receive(io, &packet));
        }
    }

    fn run_out(&mut self, fabric: &mut Fabric<Segment>, token: u32) {
        if token == NEXT_WRITE {
            return self.write_due(fabric);
        }
        let id = token >> 4;
        if token & 15 == SHIM_SLOT {
            return self.with_shim(fabric, id, |shim, wire, up| shim.on_timer(wire, up));
        }
        if !self.coded.is_empty() {
            self.with_coded(fabric, id, |conn, io| conn.on_timer(io));
        }
        self.with(fabric, id, |conn, io| match token & 15 {
            SCHEME_SLOT => conn.on_scheme_timer(io),
            sub => conn.on_sub_timer(io, sub as usize),
        });
    }
}
