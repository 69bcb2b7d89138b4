//! The endpoint while a run of datagrams is sorted.

use std::sync::{Arc, MutexGuard, atomic::Ordering::SeqCst};

use proto::{ConnectionHandle, Datagram, EndpointOutput};
use units::Instant;

use super::{
    Books, Client, Engine, Shared,
    inbox::{Batch, Inbox, Spares},
};

/// The endpoint, locked while a run of datagrams is sorted.
pub(super) struct Arrivals<'a> {
    engine: &'a Engine,
    /// `None` only while being dropped.
    state: Option<MutexGuard<'a, Books>>,
    incoming: Vec<Client>,
    /// They had to make room, and are told so when the endpoint is unlocked.
    evicted: Vec<Arc<Shared>>,
    /// The same of clients about which nobody has decided.
    crowded_out: Vec<ConnectionHandle>,
    /// What comes next may gather, as far as those are concerned for whom something came.
    patient: bool,
}

impl<'a> Arrivals<'a> {
    /// Locks the endpoint.
    pub(super) fn new(engine: &'a Engine) -> Self {
        Self {
            engine,
            state: Some(engine.lock()),
            incoming: Vec::new(),
            evicted: Vec::new(),
            crowded_out: Vec::new(),
            patient: true,
        }
    }

    pub(super) fn handle_datagram(
        &mut self,
        now: Instant,
        datagram: Datagram<'_>,
        reply: &mut Vec<u8>,
    ) -> Option<EndpointOutput> {
        let state = self.state.as_mut()?;
        let output = state.proto.handle_datagram(now, datagram, reply);
        while let Some(handle) = state.proto.poll_evicted() {
            match state.connections.remove(&handle) {
                Some(connection) => {
                    self.engine.common.open.fetch_sub(1, SeqCst);
                    self.evicted.push(connection);
                }
                None => {
                    state.undecided.remove(&handle);
                    self.crowded_out.push(handle);
                }
            }
        }
        output
    }

    pub(super) fn spares(&self) -> &Spares {
        &self.engine.spares
    }

    /// A client asks for a connection; the application hears of it when the endpoint is unlocked.
    pub(super) fn announce(&mut self, proto: Box<proto::Incoming>) {
        if let Some(state) = &mut self.state {
            let inbox = Arc::<Inbox>::default();
            inbox.set_stranger(true);
            state.undecided.insert(proto.handle(), inbox.clone());
            self.incoming.push(Client { worker: self.engine.index, proto, inbox });
        }
    }

    pub(super) fn deliver(&mut self, handle: ConnectionHandle, batch: Batch) {
        let Some(state) = &self.state else { return };
        if let Some(connection) = state.connections.get(&handle) {
            self.patient &= connection.inbox.deliver(batch);
        } else if let Some(inbox) = state.undecided.get(&handle) {
            self.patient &= inbox.deliver(batch);
        }
    }

    /// Whether what comes next may gather in the socket: the endpoint has one connection, which has
    /// received what came and has nothing to do but to receive.
    pub(super) fn may_gather(&self) -> bool {
        let alone = self.engine.common.open.load(SeqCst) == 1;
        self.patient && alone && self.state.as_ref().is_some_and(|state| state.undecided.is_empty())
    }
}

impl Drop for Arrivals<'_> {
    fn drop(&mut self) {
        self.state = None;
        if self.incoming.is_empty() {
            return;
        }
        let (engine, common) = (self.engine, &self.engine.common);
        let without_room = common.announce(std::mem::take(&mut self.incoming));
        self.evicted.iter().for_each(|connection| connection.evict());
        common.refuse_crowded_out(engine, &self.crowded_out);
        without_room.into_iter().for_each(|client| engine.refuse(client, ""));
        common.wake_acceptors();
    }
}
