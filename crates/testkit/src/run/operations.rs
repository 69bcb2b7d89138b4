//! Carries out a scenario's operations.

use netsim::network::Direction;
use proto::{NetworkPath, PathError, PathId, PathState, PathStatus, Side, VarInt};
use units::{Duration, Instant};

use super::{Failure, Run, SIDES};
use crate::{
    faults::Armed,
    scenario::{Operation, Scenario, Way},
    world::{Packet, World},
};

/// Pause before what could not be done yet is tried again, and how often.
const AGAIN: Duration = Duration::from_millis(100);
const ATTEMPTS: u32 = 100;
/// The code with which runs close.
const CLOSE_CODE: VarInt = VarInt::from_u32(0xc105e);

/// Faults at time zero wait for packets of the handshake, too.
pub(super) fn is_armed_from_the_start(after: Duration, operation: &Operation) -> bool {
    after.is_zero() && matches!(operation, Operation::Fault { .. })
}

pub(super) fn arm_from_the_start(world: &mut World, networks: &[NetworkPath], scenario: &Scenario) {
    for (_, operation) in scenario.operations.iter().filter(|(after, o)| is_armed_from_the_start(*after, o)) {
        arm(world, networks, operation);
    }
}

fn arm(world: &mut World, networks: &[NetworkPath], operation: &Operation) {
    let Operation::Fault { path, way, skip, count, what } = *operation else { return };
    let Some(&NetworkPath { local, remote }) = networks.get(path) else { return };
    if way != Way::Down {
        world.arm(local, remote, Armed { skip, count, what });
    }
    if way != Way::Up {
        world.arm(remote, local, Armed { skip, count, what });
    }
}

/// Whose application carries out an operation; `None` is the network.
pub(super) fn operation_side(operation: &Operation) -> Option<Side> {
    match operation {
        Operation::Stream(plan) => Some(plan.opener),
        Operation::Datagrams { side, .. }
        | Operation::ClosePath { side, .. }
        | Operation::Backup { side, .. }
        | Operation::PauseReading { side, .. }
        | Operation::UpdateKeys(side)
        | Operation::Close(side) => Some(*side),
        Operation::OpenPath(_) => Some(Side::Client),
        _ => None,
    }
}

impl Run<'_> {
    pub(super) fn perform(&mut self, operation: Operation, attempt: u32) -> Result<(), Failure> {
        match operation {
            Operation::Stream(plan) => {
                return self.with(plan.opener, |app, c, agreed| app.begin(c, plan, agreed));
            }
            Operation::Datagrams { side, count, size } => {
                return self.with(side, |app, c, agreed| {
                    app.begin_datagrams(c, count, size, agreed);
                    Ok(())
                });
            }
            Operation::OpenPath(path) => self.open_path(path, attempt),
            Operation::ClosePath { side, path } => return self.close_path(side, path),
            Operation::Backup { side, path, backup } => {
                let status = if backup { PathStatus::Backup } else { PathStatus::Available };
                self.set_path_status(side, path, status);
            }
            Operation::Cut { path, way, kind } => self.change(path, way, |link, now| link.cut(now, kind)),
            Operation::Restore { path, way } => self.change(path, way, |link, now| link.restore(now)),
            Operation::Rate(path, rate) => {
                self.change(path, Way::Both, |link, now| link.set_rate(now, Some(rate)));
            }
            Operation::Delay(path, delay) => {
                self.change(path, Way::Both, |link, now| link.set_delay(now, delay));
            }
            Operation::Loss(path, loss) => {
                self.change(path, Way::Both, |link, now| link.set_loss(now, loss.clone()));
            }
            Operation::Mtu(path, mtu) => {
                self.change_way(path, |world, way| world.set_mtu(way.local, way.remote, mtu));
            }
            Operation::Ecn(path, treatment) => {
                self.change_way(path, |world, way| world.set_ecn_treatment(way.local, way.remote, treatment));
            }
            Operation::Fault { .. } => arm(&mut self.world, &self.networks, &operation),
            Operation::Sleep { side, time } => self.stand_still(side, time),
            Operation::Corrupt(path, share) => {
                self.change_way(path, |world, way| world.corrupt(way.local, way.remote, share.get()));
            }
            Operation::PauseReading { side, time } => {
                let until = &mut self.reading_from[side as usize];
                *until = (self.world.now() + time).max(*until);
            }
            Operation::Rebind(path) => self.rebind(path, attempt),
            Operation::UpdateKeys(side) => {
                if let Some(id) = self.id(side) {
                    self.world.with(id, |c, _| c.force_key_update());
                }
            }
            Operation::Close(side) => {
                self.closed = true;
                if let Some(id) = self.id(side) {
                    self.world.with(id, |c, now| c.close(now, CLOSE_CODE, b"the scenario ends"));
                }
            }
        }
        Ok(())
    }

    pub(super) fn change(
        &mut self,
        path: usize,
        way: Way,
        mut change: impl FnMut(&mut netsim::Link<Packet>, Instant),
    ) {
        let Some(link) = self.links.get(path) else { return };
        if way != Way::Down {
            self.world.network_mut().change(*link, Direction::Forward, &mut change);
        }
        if way != Way::Up {
            self.world.network_mut().change(*link, Direction::Backward, &mut change);
        }
    }

    /// Changes what the world does between the addresses of path `index`.
    fn change_way(&mut self, index: usize, change: impl FnOnce(&mut World, NetworkPath)) {
        if let Some(&network) = self.networks.get(index) {
            change(&mut self.world, network);
        }
    }

    fn rebind(&mut self, path: usize, attempt: u32) {
        // Addresses do not change before the handshake is confirmed (RFC 9000 section 9).
        if self.server.is_none_or(|id| self.world.connection(id).is_handshaking()) {
            return self.postpone(Operation::Rebind(path), attempt);
        }
        self.change_way(path, |world, way| _ = world.rebind(way.local));
    }

    /// A side's host, or both, stand still for a while.
    fn stand_still(&mut self, side: Option<Side>, time: Duration) {
        let until = self.world.now() + time;
        for side in SIDES.into_iter().filter(|s| side.is_none_or(|side| side == *s)) {
            if let Some(id) = self.id(side) {
                self.world.sleep(id.host, until);
            }
        }
    }

    fn close_path(&mut self, side: Side, index: usize) -> Result<(), Failure> {
        let (Some(id), Some(path)) = (self.id(side), self.path_id(side, index)) else { return Ok(()) };
        // The last path stays: that is an answer, too.
        let _ = self.world.with(id, |c, now| c.close_path(now, path, 5u8.into()));
        // Known before the other side hears of it, which may be the next thing that happens.
        self.events_of(side)
    }

    fn set_path_status(&mut self, side: Side, index: usize, status: PathStatus) {
        if let (Some(id), Some(path)) = (self.id(side), self.path_id(side, index)) {
            let _ = self.world.with(id, |c, _| c.set_path_status(path, status));
        }
    }

    fn open_path(&mut self, path: usize, attempt: u32) {
        let Some(&network) = self.networks.get(path) else { return };
        let result = self.world.with(self.client, |c, now| c.open_path(now, network));
        let later = matches!(result, Err(PathError::NoConnectionId | PathError::TooManyPaths { .. }));
        if later {
            self.postpone(Operation::OpenPath(path), attempt);
        }
    }

    /// Tries an operation again later, unless it has been tried often enough.
    fn postpone(&mut self, operation: Operation, attempt: u32) {
        if attempt < ATTEMPTS {
            let key = (self.world.now() + AGAIN, self.agenda_count);
            self.agenda_count += 1;
            self.agenda.insert(key, (operation, attempt + 1));
        }
    }

    /// When the side's host stops standing still.
    pub(super) fn wakes(&self, side: Side) -> Instant {
        self.id(side).map_or(Instant::ORIGIN, |id| self.world.asleep_until(id.host))
    }

    /// The open path between the addresses of path `index`.
    fn path_id(&self, side: Side, index: usize) -> Option<PathId> {
        let ours = *self.networks.get(index)?;
        let network = match side {
            Side::Client => ours,
            Side::Server => NetworkPath { local: ours.remote, remote: self.world.seen_as(ours.local) },
        };
        let paths = self.world.connection(self.id(side)?).paths();
        paths.iter().find(|p| p.network == network && p.state != PathState::Closing).map(|p| p.id)
    }
}
