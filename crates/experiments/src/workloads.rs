//! Traffic that a plan can name, one file each. A new one is a file with `read` and its line here.

mod crowd;
mod fetches;
mod htsim;
mod incast;
mod mix;
mod poisson;
mod requests;
mod rivals;
mod spaced;
mod video;

use std::fmt;

use netsim::{
    Seed,
    fabric::{RunError, workload::FlowSpec},
};
use plans::{Keys, PlanError};
use tcpsim::{ConnectionId, FlowId, ProfileId, Sim, SimError};
use thiserror::Error;
use units::{Duration, Instant};

use crate::{
    outcome::{Role, Surge},
    player::Player,
    topologies::Network,
};

/// Reads a workload's parameters.
pub type Read = fn(&mut Keys<'_>, &Network) -> Result<Box<dyn Workload>, PlanError>;

/// The workloads.
pub const WORKLOADS: &[(&str, Read)] = &[
    ("crowd", crowd::read),
    ("fetches", fetches::read),
    ("htsim", htsim::read),
    ("incast", incast::read),
    ("mix", mix::read),
    ("poisson", poisson::read),
    ("requests", requests::read),
    ("rivals", rivals::read),
    ("spaced", spaced::read),
    ("video", video::read),
];

/// Puts flows on a simulation.
pub trait Workload: fmt::Debug + Send + Sync {
    /// Adds all flows; randomness comes from [`Traffic::seed`].
    ///
    /// # Errors
    /// If the simulation refuses one, or ends while it is prepared.
    fn generate(&self, traffic: &mut Traffic<'_>) -> Result<(), TrafficError>;

    /// When its last flow begins, if no seed changes that.
    fn last_start(&self) -> Option<Duration> {
        None
    }

    /// Who watches what arrives, if it is a video whose pieces are the measured flows.
    fn player(&self) -> Option<&Player> {
        None
    }

    /// When it offers more than usual, if it does.
    fn surge(&self) -> Option<Surge> {
        None
    }
}

/// Why a run cannot go on.
#[derive(Clone, Copy, PartialEq, Debug, Error)]
pub enum TrafficError {
    /// A flow cannot be added.
    #[error(transparent)]
    Flow(#[from] SimError),
    /// The simulation ended.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Whose traffic it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Party {
    /// That of the scheme under test.
    Tested,
    /// Plain TCP's, in the background.
    Background,
}

/// The traffic of a run, as a workload adds it.
#[derive(Debug)]
pub struct Traffic<'a> {
    /// The simulation.
    pub sim: &'a mut Sim,
    /// The scheme under test.
    pub scheme: ProfileId,
    /// Plain TCP, for what stands in the background.
    pub background: ProfileId,
    /// The run's seed.
    pub seed: Seed,
    /// Added to every completion time: a request's way, where nothing happens to it.
    pub head_start: Duration,
    /// What every flow is, in the order in which flows were added.
    pub(crate) roles: Vec<Role>,
    /// Connections whose windows and deliveries are looked at.
    pub(crate) watched: Vec<ConnectionId>,
}

impl Party {
    /// What a flow that answers `request` is looked at as.
    fn role(self, request: Option<FlowId>) -> Role {
        match self {
            Self::Tested => Role::Tested(request),
            Self::Background => Role::Background(request),
        }
    }
}

impl Traffic<'_> {
    /// The profile of a party's connections.
    pub fn profile(&self, party: Party) -> ProfileId {
        match party {
            Party::Tested => self.scheme,
            Party::Background => self.background,
        }
    }

    fn note(&mut self, flow: FlowId, role: Role) {
        let place = flow.0 as usize;
        if self.roles.len() <= place {
            self.roles.resize(place + 1, Role::Unmeasured);
        }
        self.roles[place] = role;
    }

    /// A flow with a connection of its own, to be measured.
    ///
    /// # Errors
    /// If the simulation refuses it.
    pub fn flow(&mut self, flow: &FlowSpec, party: Party) -> Result<FlowId, TrafficError> {
        let profile = self.profile(party);
        let id = self.sim.add_flow(profile, flow.from.0, flow.to.0, flow.bytes, flow.at)?;
        self.note(id, party.role(None));
        Ok(id)
    }

    /// A request on one connection and, once it has arrived, its response on another: measured from
    /// the request's start.
    ///
    /// # Errors
    /// If the simulation refuses one.
    pub fn exchange(
        &mut self,
        (there, back): (ConnectionId, ConnectionId),
        (request, response): (u64, u64),
        at: Instant,
        party: Party,
    ) -> Result<(), TrafficError> {
        let asked = self.sim.write(there, request, at)?;
        let answered = self.sim.write_after(asked, back, response)?;
        self.note(asked, Role::Unmeasured);
        self.note(answered, party.role(Some(asked)));
        Ok(())
    }

    /// A request on a connection that is opened for it, and its response on one that is open:
    /// measured from the opening's start.
    ///
    /// # Errors
    /// If the simulation refuses one.
    pub fn fetch(
        &mut self,
        (client, server): (u32, u32),
        (request, response): (u64, u64),
        at: Instant,
    ) -> Result<(), TrafficError> {
        let opened = self.sim.without_handshake(self.scheme)?;
        let there = self.sim.connect(self.scheme, client, server)?;
        let back = self.sim.connect(opened, server, client)?;
        let asked = self.sim.write(there, request, at)?;
        let answered = self.sim.write_after(asked, back, response)?;
        self.note(asked, Role::Unmeasured);
        self.note(answered, Role::Fetched(asked));
        Ok(())
    }

    /// Looks at a connection's window over time, and at what it has delivered when the run ends.
    pub fn watch(&mut self, connection: ConnectionId) {
        self.watched.push(connection);
    }

    /// A flow of either party on a connection that is watched; what it is looked at as is its
    /// `role`, whoever's it is.
    ///
    /// # Errors
    /// If the simulation refuses it.
    pub fn long_flow(
        &mut self,
        (from, to): (u32, u32),
        bytes: u64,
        at: Instant,
        party: Party,
        role: Role,
    ) -> Result<(), TrafficError> {
        let connection = self.sim.connect(self.profile(party), from, to)?;
        self.watch(connection);
        let id = self.sim.write(connection, bytes, at)?;
        self.note(id, role);
        Ok(())
    }

    /// Bytes on a long-lived connection that are not measured: to warm it up.
    ///
    /// # Errors
    /// If the simulation refuses them.
    pub fn warm(&mut self, connection: ConnectionId, bytes: u64, at: Instant) -> Result<(), TrafficError> {
        let flow = self.sim.write(connection, bytes, at)?;
        self.note(flow, Role::Unmeasured);
        Ok(())
    }

    /// Bytes on a long-lived connection, to be measured.
    ///
    /// # Errors
    /// If the simulation refuses them.
    pub fn message(&mut self, connection: ConnectionId, bytes: u64, at: Instant) -> Result<(), TrafficError> {
        let flow = self.sim.write(connection, bytes, at)?;
        self.note(flow, Role::Tested(None));
        Ok(())
    }
}
