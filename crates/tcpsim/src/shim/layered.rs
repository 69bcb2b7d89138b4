//! A transport with a layer below it is a transport.

use netsim::fabric::Packet;

use super::Shim;
use crate::{
    record::FlowId,
    segment::Segment,
    transport::{Endpoints, Io, Outgoing, Timer, Transport},
};

/// A connection, and the layer that its packets pass.
#[derive(Debug)]
pub(crate) struct Layered {
    transport: Box<dyn Transport>,
    shim: Box<dyn Shim>,
    /// What the layer hands up, and what it is handed down. Both are empty between events.
    up: Vec<Packet<Segment>>,
    down: Vec<Outgoing>,
}

impl Layered {
    pub(crate) fn new(transport: Box<dyn Transport>, shim: Box<dyn Shim>) -> Self {
        Self { transport, shim, up: Vec::new(), down: Vec::new() }
    }

    /// The transport acts, and the layer takes what it sends.
    fn act(&mut self, io: &mut Io<'_>, act: impl FnOnce(&mut dyn Transport, &mut Io<'_>)) {
        io.above(&mut self.down, |io| act(self.transport.as_mut(), io));
        for Outgoing { packet, window } in self.down.drain(..) {
            self.shim.on_send(io, packet, window);
        }
    }

    /// The transport sees what the layer hands up.
    fn deliver(&mut self, io: &mut Io<'_>) {
        let mut up = std::mem::take(&mut self.up);
        for packet in up.drain(..) {
            if !io.is_closed() {
                self.shim.on_deliver(&packet);
                self.act(io, |transport, io| transport.on_packet(io, &packet));
            }
        }
        self.up = up;
    }
}

impl Transport for Layered {
    fn endpoints(&self) -> &Endpoints {
        self.transport.endpoints()
    }

    fn write(&mut self, io: &mut Io<'_>, bytes: u64, flow: FlowId) {
        self.shim.on_write(bytes, flow);
        self.act(io, |transport, io| transport.write(io, bytes, flow));
    }

    fn on_packet(&mut self, io: &mut Io<'_>, packet: &Packet<Segment>) {
        self.shim.on_arrival(io, *packet, &mut self.up);
        self.deliver(io);
    }

    fn on_timer(&mut self, io: &mut Io<'_>, timer: Timer) {
        if timer == Timer::Layer {
            self.shim.on_timer(io, &mut self.up);
            self.deliver(io);
        } else {
            self.act(io, |transport, io| transport.on_timer(io, timer));
        }
    }

    fn delivered(&self) -> u32 {
        self.transport.delivered()
    }

    fn window(&self) -> u32 {
        self.transport.window()
    }

    fn memory(&self) -> usize {
        self.transport.memory()
    }

    fn next_numbers(&self) -> Vec<u32> {
        self.transport.next_numbers()
    }

    fn above(&self) -> Option<&dyn Transport> {
        Some(self.transport.as_ref())
    }
}
