//! The endpoint while a run of datagrams is sorted.

use std::{
    collections::VecDeque,
    sync::{Arc, MutexGuard},
};

use proto::{ConnectionHandle, Datagram, EndpointOutput};
use units::Instant;

use super::{
    Books, CROWDED, Client, Engine, Shared,
    inbox::{Batch, Inbox, Spares},
};

/// Clients that may wait to be accepted; more are refused.
const MAX_BACKLOG: usize = 1_024;

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
                Some(connection) => self.evicted.push(connection),
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
            self.incoming.push(Client { proto, inbox });
        }
    }

    pub(super) fn deliver(&self, handle: ConnectionHandle, batch: Batch) {
        let Some(state) = &self.state else { return };
        if let Some(connection) = state.connections.get(&handle) {
            connection.inbox.deliver(batch);
        } else if let Some(inbox) = state.undecided.get(&handle) {
            inbox.deliver(batch);
        }
    }
}

impl Drop for Arrivals<'_> {
    fn drop(&mut self) {
        self.state = None;
        if self.incoming.is_empty() {
            return;
        }
        let mut state = self.engine.lock();
        if !state.closed && !state.abandoned {
            let room = MAX_BACKLOG.saturating_sub(state.backlog.len());
            let taken = self.incoming.len().min(room);
            state.backlog.extend(self.incoming.drain(..taken));
        }
        let gone = take_crowded_out(&mut state.backlog, &self.crowded_out);
        drop(state);
        self.evicted.iter().for_each(|connection| connection.evict());
        gone.into_iter().for_each(|client| self.engine.refuse(client, CROWDED));
        self.incoming.drain(..).for_each(|client| self.engine.refuse(client, ""));
        self.engine.incoming.notify_waiters();
    }
}

/// Takes out what a slow application would keep although it has no place any more.
fn take_crowded_out(backlog: &mut VecDeque<Client>, crowded_out: &[ConnectionHandle]) -> VecDeque<Client> {
    if crowded_out.is_empty() {
        return VecDeque::new();
    }
    let (gone, rest) = std::mem::take(backlog)
        .into_iter()
        .partition(|waiting| crowded_out.contains(&waiting.proto.handle()));
    *backlog = rest;
    gone
}
