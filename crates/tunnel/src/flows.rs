//! The table of TCP flows: which program's connection goes by which port of the peer.

use std::{collections::BTreeMap, net::SocketAddr};

use units::{Duration, Instant};

use crate::FlowId;

/// Ports below may mean something to a firewall.
const FIRST_PORT: u16 = 1_024;
/// How long the kernel's handshake with its own listener may take.
const OPENING: Duration = Duration::from_secs(30);
/// Without a packet, of a connection that has ended: what the kernel keeps of it for a program that
/// takes nothing is offered about as often (TCP_RTO_MAX), and it remembers others for half as long.
const CLOSING: Duration = Duration::from_secs(120);

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
    /// When it came to be so; of one that has ended, when its last packet came.
    pub(crate) since: Instant,
}

impl State {
    /// Whether nobody knows yet that there is a program behind it: anybody can send a SYN.
    fn is_half_open(&self) -> bool {
        matches!(self, Self::Asking { .. } | Self::Opening)
    }
}

/// Who had to go for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// One whose last packets might have come.
    Closing,
    /// One that was half open: whoever waits for it need not.
    HalfOpen(FlowId),
}

/// All flows, by either name.
#[derive(Debug)]
pub(crate) struct Flows {
    by_ends: BTreeMap<Ends, u16>,
    by_port: BTreeMap<u16, Flow>,
    /// The ports of those that are half open, by their numbers: the oldest first.
    half_open: BTreeMap<u64, u16>,
    next_port: u16,
    next_number: u64,
    most: usize,
    most_half_open: usize,
}

impl Flows {
    /// `most` at a time, of which so many may be half open.
    pub(crate) fn new(most: usize, most_half_open: usize) -> Self {
        // Every flow has a port, and a port rests for a while before it is used again.
        let most = most.clamp(1, usize::from(u16::MAX - FIRST_PORT) / 2);
        let most_half_open = most_half_open.clamp(1, most);
        let (by_ends, by_port, half_open) = Default::default();
        Self { by_ends, by_port, half_open, next_port: FIRST_PORT, next_number: 0, most, most_half_open }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_port.len()
    }

    pub(crate) fn port_of(&self, ends: &Ends) -> Option<u16> {
        self.by_ends.get(ends).copied()
    }

    /// The flow of a port of the peer. What it is like is changed by [`enter`](Self::enter).
    pub(crate) fn by_port(&self, port: u16) -> Option<&Flow> {
        self.by_port.get(&port)
    }

    pub(crate) fn get(&self, id: FlowId) -> Option<&Flow> {
        self.by_port(id.port).filter(|flow| flow.number == id.number)
    }

    /// The flow of a port comes to be in `state`, and was before in what is returned.
    pub(crate) fn enter(&mut self, port: u16, state: State, now: Instant) -> Option<State> {
        let flow = self.by_port.get_mut(&port)?;
        if !state.is_half_open() {
            self.half_open.remove(&flow.number);
        }
        flow.since = now;
        Some(std::mem::replace(&mut flow.state, state))
    }

    /// The SYN that is held is another one; the flow is no younger for that.
    pub(crate) fn hold(&mut self, port: u16, syn: Vec<u8>) {
        if let Some(flow) = self.by_port.get_mut(&port)
            && let State::Asking { syn: held } = &mut flow.state
        {
            *held = syn;
        }
    }

    /// A packet passes: of a flow that has ended more may follow.
    pub(crate) fn passes(&mut self, port: u16, now: Instant) {
        if let Some(flow) = self.by_port.get_mut(&port)
            && flow.state == State::Closing
        {
            flow.since = now;
        }
    }

    /// A new flow whose SYN is held, and who had to go for it; `None` if the table is full of others
    /// in use.
    pub(crate) fn begin(&mut self, ends: Ends, syn: Vec<u8>, now: Instant) -> Option<(FlowId, Option<Gone>)> {
        let gone = self.make_room()?;
        let id = FlowId { port: self.free_port(), number: self.next_number };
        self.next_number += 1;
        self.by_ends.insert(ends, id.port);
        self.half_open.insert(id.number, id.port);
        let state = State::Asking { syn };
        self.by_port.insert(id.port, Flow { number: id.number, ends, state, since: now });
        Some((id, gone))
    }

    /// Whoever floods the device with SYNs only takes the places of his own: programs send theirs
    /// again, and those that are answered meanwhile are half open no longer.
    fn make_room(&mut self) -> Option<Option<Gone>> {
        if self.half_open.len() >= self.most_half_open {
            return self.remove_half_open().map(Some);
        }
        if self.by_port.len() < self.most {
            return Some(None);
        }
        let closing = self.by_port.iter().filter(|(_, flow)| flow.state == State::Closing);
        match closing.min_by_key(|(_, flow)| flow.since) {
            Some((&oldest, _)) => {
                self.remove_port(oldest);
                Some(Some(Gone::Closing))
            }
            None => self.remove_half_open().map(Some),
        }
    }

    /// The oldest one goes; `None` if there is none.
    fn remove_half_open(&mut self) -> Option<Gone> {
        let (&number, &port) = self.half_open.first_key_value()?;
        self.remove_port(port);
        Some(Gone::HalfOpen(FlowId { port, number }))
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
        self.half_open.remove(&flow.number);
        Some(flow)
    }

    /// Forgets flows that have ended and been silent for long enough. Returns those that never came
    /// to be: whoever waits for them waits in vain.
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
        let mut flows = Flows::new(3, 3);
        let ids: Vec<_> = (0..3).map(|n| flows.begin(ends(n), Vec::new(), at(n.into())).unwrap().0).collect();
        ids.iter().for_each(|id| _ = flows.enter(id.port, State::Open, at(3)));
        assert_eq!(flows.begin(ends(3), Vec::new(), at(3)), None);
        for n in [1, 0] {
            flows.enter(ids[n].port, State::Closing, at(10 - n as u64));
        }
        let (id, gone) = flows.begin(ends(3), Vec::new(), at(11)).unwrap();
        assert_eq!(gone, Some(Gone::Closing));
        assert!(flows.get(ids[1]).is_none(), "the one that ended first goes");
        assert_eq!((flows.len(), flows.port_of(&ends(1)), flows.port_of(&ends(3))), (3, None, Some(id.port)));
    }

    #[test]
    fn the_oldest_that_is_half_open_makes_room() {
        let mut flows = Flows::new(9, 3);
        let ids: Vec<_> = (0..3).map(|n| flows.begin(ends(n), Vec::new(), at(n.into())).unwrap().0).collect();
        // Half open still, and no younger for it; the next one is not, but holds its place.
        flows.enter(ids[0].port, State::Opening, at(5));
        flows.enter(ids[1].port, State::Opening, at(5));
        flows.enter(ids[1].port, State::Open, at(5));
        assert_eq!(flows.begin(ends(3), Vec::new(), at(6)).unwrap().1, None);
        for gone in [ids[0], ids[2]] {
            let more = flows.begin(ends(4 + gone.port), Vec::new(), at(7)).unwrap();
            assert_eq!((more.1, flows.half_open.len()), (Some(Gone::HalfOpen(gone)), 3));
        }
        assert!(flows.get(ids[1]).is_some());
        let mut full = Flows::new(1, 9);
        let (id, _) = full.begin(ends(1), Vec::new(), at(0)).unwrap();
        assert_eq!(full.begin(ends(2), Vec::new(), at(0)).unwrap().1, Some(Gone::HalfOpen(id)));
    }

    #[test]
    fn ports_are_used_in_turn_and_ids_never_twice() {
        let mut flows = Flows::new(2, 2);
        let mut seen = std::collections::BTreeSet::new();
        for n in 0..u16::MAX {
            let (id, _) = flows.begin(ends(n), Vec::new(), at(0)).unwrap();
            assert!(id.port >= FIRST_PORT && seen.insert(id));
            let again = FlowId { number: id.number + 1, ..id };
            assert!(flows.remove(again).is_none(), "another flow of that port");
            assert!(flows.remove(id).is_some());
        }
        assert_eq!((flows.len(), flows.by_ends.len(), flows.half_open.len()), (0, 0, 0));
    }

    #[test]
    fn what_has_ended_is_forgotten_later() {
        let mut flows = Flows::new(9, 9);
        let ids: Vec<_> = (0..3).map(|n| flows.begin(ends(n), Vec::new(), at(0)).unwrap().0).collect();
        flows.enter(ids[1].port, State::Opening, at(0));
        flows.enter(ids[2].port, State::Closing, at(0));
        assert_eq!((flows.expire(at(29)), flows.len()), (vec![], 3));
        assert_eq!((flows.expire(at(30)), flows.len()), (vec![ids[1]], 2));
        flows.passes(ids[2].port, at(90));
        assert_eq!((flows.expire(at(209)), flows.len()), (vec![], 2), "its last packet was not so long ago");
        assert_eq!((flows.expire(at(210)), flows.len()), (vec![], 1));
        assert_eq!((flows.expire(at(9_999)), flows.len()), (vec![], 1), "who asks gets an answer");
    }
}
