//! The table of TCP flows: which program's connection goes by which port of the peer.

use std::{collections::BTreeMap, net::SocketAddr};

use units::{Duration, Instant};

use crate::FlowId;

/// Ports below may mean something to a firewall.
const FIRST_PORT: u16 = 1_024;
/// How long the kernel's handshake with its own listener may take.
const OPENING: Duration = Duration::from_secs(30);
/// For the last packets of a connection, on either side: as long as the kernel remembers it.
const CLOSING: Duration = Duration::from_secs(60);

/// The two ends as the program has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ends {
    pub(crate) program: SocketAddr,
    pub(crate) remote: SocketAddr,
}

/// How far a flow has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Its SYN is held until somebody knows whether the destination answers.
    Asking { syn: Vec<u8> },
    /// The listener has the SYN, and has not accepted yet.
    Opening,
    /// The listener has accepted.
    Open,
    /// It has ended; last packets may come.
    Closing,
}

#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) number: u64,
    pub(crate) ends: Ends,
    pub(crate) state: State,
    /// When it came to be so.
    pub(crate) since: Instant,
}

/// All flows, by either name.
#[derive(Debug)]
pub(crate) struct Flows {
    by_ends: BTreeMap<Ends, u16>,
    by_port: BTreeMap<u16, Flow>,
    next_port: u16,
    next_number: u64,
    most: usize,
}

impl Flows {
    pub(crate) fn new(most: usize) -> Self {
        // Every flow has a port, and a port rests for a while before it is used again.
        let most = most.clamp(1, usize::from(u16::MAX - FIRST_PORT) / 2);
        let (by_ends, by_port) = Default::default();
        Self { by_ends, by_port, next_port: FIRST_PORT, next_number: 0, most }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_port.len()
    }

    pub(crate) fn port_of(&self, ends: &Ends) -> Option<u16> {
        self.by_ends.get(ends).copied()
    }

    pub(crate) fn by_port(&mut self, port: u16) -> Option<&mut Flow> {
        self.by_port.get_mut(&port)
    }

    pub(crate) fn get(&mut self, id: FlowId) -> Option<&mut Flow> {
        self.by_port.get_mut(&id.port).filter(|flow| flow.number == id.number)
    }

    /// A new flow whose SYN is held; `None` if the table is full of others in use. The second says
    /// whether one that was closing had to make room.
    pub(crate) fn begin(&mut self, ends: Ends, syn: Vec<u8>, now: Instant) -> Option<(FlowId, bool)> {
        let full = self.by_port.len() >= self.most;
        if full {
            let closing = self.by_port.iter().filter(|(_, flow)| flow.state == State::Closing);
            let oldest = *closing.min_by_key(|(_, flow)| flow.since)?.0;
            self.remove_port(oldest);
        }
        let id = FlowId { port: self.free_port(), number: self.next_number };
        self.next_number += 1;
        self.by_ends.insert(ends, id.port);
        let state = State::Asking { syn };
        self.by_port.insert(id.port, Flow { number: id.number, ends, state, since: now });
        Some((id, full))
    }

    /// The next port that is not in use; there is one, since there are fewer flows than ports.
    fn free_port(&mut self) -> u16 {
        loop {
            let port = self.next_port;
            self.next_port = port.checked_add(1).unwrap_or(FIRST_PORT);
            if !self.by_port.contains_key(&port) {
                return port;
            }
        }
    }

    pub(crate) fn remove(&mut self, id: FlowId) -> Option<Flow> {
        self.get(id)?;
        self.remove_port(id.port)
    }

    pub(crate) fn remove_port(&mut self, port: u16) -> Option<Flow> {
        let flow = self.by_port.remove(&port)?;
        self.by_ends.remove(&flow.ends);
        Some(flow)
    }

    /// Forgets flows that have ended long enough ago. Returns those that never came to be: whoever
    /// waits for them waits in vain.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<FlowId> {
        let (mut gone, mut in_vain) = (Vec::new(), Vec::new());
        for (port, flow) in &self.by_port {
            let age = now.saturating_duration_since(flow.since);
            match flow.state {
                State::Opening if age >= OPENING => {
                    in_vain.push(FlowId { port: *port, number: flow.number });
                    gone.push(*port);
                }
                State::Closing if age >= CLOSING => gone.push(*port),
                _ => {}
            }
        }
        gone.into_iter().for_each(|port| _ = self.remove_port(port));
        in_vain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(n: u16) -> Ends {
        Ends { program: ([198, 18, 0, 1], n).into(), remote: ([192, 0, 2, 1], 80).into() }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn the_table_is_bounded_and_those_in_use_stay() {
        let mut flows = Flows::new(3);
        let ids: Vec<_> = (0..3).map(|n| flows.begin(ends(n), Vec::new(), at(n.into())).unwrap().0).collect();
        assert_eq!(flows.begin(ends(3), Vec::new(), at(3)), None);
        for n in [1, 0] {
            let flow = flows.get(ids[n]).unwrap();
            (flow.state, flow.since) = (State::Closing, at(10 - n as u64));
        }
        let (id, made_room) = flows.begin(ends(3), Vec::new(), at(11)).unwrap();
        assert!(made_room && flows.get(ids[1]).is_none(), "the one that ended first goes");
        assert_eq!((flows.len(), flows.port_of(&ends(1)), flows.port_of(&ends(3))), (3, None, Some(id.port)));
    }

    #[test]
    fn ports_are_used_in_turn_and_ids_never_twice() {
        let mut flows = Flows::new(2);
        let mut seen = std::collections::BTreeSet::new();
        for n in 0..u16::MAX {
            let (id, _) = flows.begin(ends(n), Vec::new(), at(0)).unwrap();
            assert!(id.port >= FIRST_PORT && seen.insert(id));
            let again = FlowId { number: id.number + 1, ..id };
            assert!(flows.remove(again).is_none(), "another flow of that port");
            assert!(flows.remove(id).is_some());
        }
        assert_eq!((flows.len(), flows.by_ends.len()), (0, 0));
    }

    #[test]
    fn what_has_ended_is_forgotten_later() {
        let mut flows = Flows::new(9);
        let ids: Vec<_> = (0..3).map(|n| flows.begin(ends(n), Vec::new(), at(0)).unwrap().0).collect();
        flows.get(ids[1]).unwrap().state = State::Opening;
        flows.get(ids[2]).unwrap().state = State::Closing;
        assert_eq!((flows.expire(at(29)), flows.len()), (vec![], 3));
        assert_eq!((flows.expire(at(30)), flows.len()), (vec![ids[1]], 2));
        assert_eq!((flows.expire(at(60)), flows.len()), (vec![], 1));
        assert_eq!((flows.expire(at(9_999)), flows.len()), (vec![], 1), "who asks gets an answer");
    }
}
