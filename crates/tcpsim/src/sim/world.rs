//! All connections, and what applications are to write on them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    sync::Arc,
};

use netsim::fabric::{Fabric, HostId};
use units::Instant;

use crate::{
    Profile, Tcp,
    record::{FlowId, FlowRecord},
    segment::Segment,
    timeline::Timelines,
    transport::{Books, Endpoints, Io, Lifetime, MAX_CONNECTIONS, Role, Token, Transport},
};

/// Where a write goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Target {
    /// A connection of its own, made when its time comes.
    Fresh {
        profile: u32,
        role: Role,
    },
    Existing(u32),
}

/// Planned writes: time, flow, target, in this order.
type Writes = BinaryHeap<Reverse<(Instant, FlowId, Target)>>;

/// A profile, and what its connections share of it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) profile: Profile,
    tcp: Arc<Tcp>,
}

/// All connections; the protocol of the fabric's hosts.
#[derive(Debug)]
pub(super) struct World {
    pub(super) profiles: Vec<Known>,
    connections: Vec<Option<Box<dyn Transport>>>,
    pub(super) books: Books,
    writes: Writes,
    /// The first time that a timer for the next write is set to; `Instant::MAX` if none is.
    next_wake: Instant,
    /// Writes that wait for a flow to arrive: by that flow, the flow and connection of the write.
    pub(super) followers: BTreeMap<FlowId, (FlowId, u32)>,
    /// Of the flows that somebody watches.
    pub(super) timelines: Option<Timelines>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            profiles: Vec::new(),
            connections: Vec::new(),
            books: Books::default(),
            writes: BinaryHeap::new(),
            next_wake: Instant::MAX,
            followers: BTreeMap::new(),
            timelines: None,
        }
    }
}

impl World {
    /// The new profile's number.
    pub(super) fn add_profile(&mut self, profile: Profile) -> u32 {
        let tcp = Arc::new(profile.tcp.clone());
        self.profiles.push(Known { profile, tcp });
        self.profiles.len() as u32 - 1
    }

    /// The connections that carry each flow of a profile.
    pub(super) fn roles(&self, profile: u32) -> impl Iterator<Item = Role> + use<> {
        let of = self.profiles[profile as usize].profile.scheme.copies();
        (0..of).map(move |n| if n == 0 { Role::First { of } } else { Role::Copy })
    }

    /// A new connection; `None` if there are too many.
    pub(super) fn connect(
        &mut self,
        profile: u32,
        (from, to): (HostId, HostId),
        lifetime: Lifetime,
        role: Role,
    ) -> Option<u32> {
        let conn = u32::try_from(self.connections.len()).ok().filter(|conn| *conn < MAX_CONNECTIONS)?;
        let Known { profile, tcp } = &self.profiles[profile as usize];
        let ends = Endpoints { conn, from, to, tcp: tcp.clone(), lifetime, role };
        self.connections.push(Some(profile.scheme.connect(ends)));
        Some(conn)
    }

    /// A connection that has not ended.
    pub(super) fn transport(&self, conn: u32) -> Option<&dyn Transport> {
        self.connections.get(conn as usize)?.as_deref()
    }

    /// All that have not ended.
    pub(super) fn transports(&self) -> impl Iterator<Item = &dyn Transport> {
        self.connections.iter().filter_map(Option::as_deref)
    }

    /// Runs `act` on a connection, forgets it if it has ended, and plans what waited for the flows
    /// that arrived.
    #[inline]
    pub(super) fn with(
        &mut self,
        fabric: &mut Fabric<Segment>,
        conn: u32,
        act: impl FnOnce(&mut dyn Transport, &mut Io<'_>),
    ) {
        let Some(slot) = self.connections.get_mut(conn as usize) else { return };
        let Some(transport) = slot else { return };
        let mut io = Io::new(fabric, &mut self.books, conn);
        act(transport.as_mut(), &mut io);
        if io.is_closed() {
            *slot = None;
        }
        while let Some(arrived) = self.books.arrived.pop() {
            self.follow(fabric, arrived);
        }
    }

    /// Plans the write that waited for this flow, for this very moment.
    fn follow(&mut self, fabric: &mut Fabric<Segment>, arrived: FlowId) {
        if let Some(timelines) = &self.timelines {
            timelines.log().finish(fabric.now(), arrived.0);
        }
        let Some((flow, conn)) = self.followers.remove(&arrived) else { return };
        let now = fabric.now();
        let record = &mut self.books.records[flow.0 as usize];
        (record.asked, record.started) = (now, now);
        self.plan(fabric, now, flow, Target::Existing(conn));
    }

    pub(super) fn plan(&mut self, fabric: &mut Fabric<Segment>, at: Instant, flow: FlowId, target: Target) {
        let at = at.max(fabric.now());
        self.writes.push(Reverse((at, flow, target)));
        self.wake(fabric, at);
    }

    /// Has the writes looked at by `at`. A timer that is set cannot be taken back: one that an
    /// earlier one has overtaken finds nothing to do, and must not set another, or they would
    /// multiply.
    fn wake(&mut self, fabric: &mut Fabric<Segment>, at: Instant) {
        if at < self.next_wake {
            self.next_wake = at;
            fabric.set_timer(at, Token::NextWrite.pack());
        }
    }

    /// Carries out the writes whose time has come.
    pub(super) fn write_due(&mut self, fabric: &mut Fabric<Segment>) {
        let now = fabric.now();
        if now >= self.next_wake {
            self.next_wake = Instant::MAX;
        }
        while let Some(&Reverse((at, flow, target))) = self.writes.peek() {
            if at > now {
                return self.wake(fabric, at);
            }
            self.writes.pop();
            match target {
                Target::Existing(conn) => {
                    let role = self.transport(conn).map(|transport| transport.endpoints().role);
                    let copies = if let Some(Role::First { of }) = role { of } else { 1 };
                    (conn..conn + copies).for_each(|conn| self.write(fabric, conn, flow));
                }
                Target::Fresh { profile, role } => {
                    let FlowRecord { from, to, .. } = self.books.records[flow.0 as usize];
                    if let Some(conn) = self.connect(profile, (from, to), Lifetime::OneFlow, role) {
                        self.write(fabric, conn, flow);
                    }
                }
            }
        }
    }

    /// The application writes a flow's bytes.
    fn write(&mut self, fabric: &mut Fabric<Segment>, conn: u32, flow: FlowId) {
        let bytes = self.books.records[flow.0 as usize].bytes;
        if let Some(timelines) = &self.timelines {
            let next = self.transport(conn).map_or(Vec::new(), Transport::next_numbers);
            timelines.log().write(fabric.now(), conn, flow.0, bytes, &next);
        }
        self.with(fabric, conn, |transport, io| transport.write(io, bytes, flow));
    }
}
