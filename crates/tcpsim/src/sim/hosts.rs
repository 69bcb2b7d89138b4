//! Packets and timers go to the connection that they are for.

use std::hint::black_box;

use netsim::fabric::{Fabric, HostId, Hosts, Packet};

use super::world::World;
use crate::{
    segment::{Kind, Segment},
    transport::{Timer, Token},
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

    fn expect(&self, body: &Segment) {
        self.world.expect(body);
    }

    fn timer(&mut self, fabric: &mut Fabric<Segment>, token: u32) {
        if Token::unpack(token) == Token::Foreign {
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
            return self.receive_watched(fabric, &packet);
        }
        self.with(fabric, packet.body.conn, |transport, io| transport.on_packet(io, &packet));
    }

    #[inline]
    fn expect(&self, body: &Segment) {
        black_box(self.transport(body.conn).is_some());
    }

    fn timer(&mut self, fabric: &mut Fabric<Segment>, token: u32) {
        match Token::unpack(token) {
            Token::Connection(conn, timer) if self.timelines.is_some() => {
                self.time_out_watched(fabric, conn, timer);
            }
            Token::Connection(conn, timer) => {
                self.with(fabric, conn, |transport, io| transport.on_timer(io, timer));
            }
            Token::NextWrite => self.write_due(fabric),
            Token::Pulls => self.books.pulls.send_due(fabric),
            Token::Foreign => {}
        }
    }
}

impl World {
    /// A packet arrives, and is written down.
    #[cold]
    fn receive_watched(&mut self, fabric: &mut Fabric<Segment>, packet: &Packet<Segment>) {
        if let Some(timelines) = &self.timelines {
            timelines.log().on_arrival(fabric.now(), &packet.body);
        }
        self.watched(fabric, packet.body.conn, packet.body.sub, |world, fabric| {
            world.with(fabric, packet.body.conn, |transport, io| transport.on_packet(io, packet));
        });
    }

    /// A timer runs out, and is written down; one that is no sub-flow's as the first one's.
    #[cold]
    fn time_out_watched(&mut self, fabric: &mut Fabric<Segment>, conn: u32, timer: Timer) {
        let sub = if let Timer::Subflow(sub) = timer { sub } else { 0 };
        self.watched(fabric, conn, sub, |world, fabric| {
            world.with(fabric, conn, |transport, io| transport.on_timer(io, timer));
        });
    }

    /// Writes down what changes while `act` acts on sub-flow `sub` of connection `conn`.
    fn watched(
        &mut self,
        fabric: &mut Fabric<Segment>,
        conn: u32,
        sub: u8,
        act: impl FnOnce(&mut Self, &mut Fabric<Segment>),
    ) {
        let Some(timelines) = self.timelines.clone() else { return };
        let now = fabric.now();
        timelines.log().begin(conn, &self.books.totals);
        act(self, fabric);
        timelines.log().end(now, conn, sub, &self.books.totals);
    }
}
