//! Runs a scenario from the first packet to the last, and says what broke.

mod end;
mod failure;
mod operations;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    panic,
};

use netsim::{
    Seed,
    network::{Direction, PathId as LinkId},
};
use proto::{
    ConnectionError, ConnectionStats, Event, NetworkPath, PathEvent, PathStats, Side, TransportErrorCode,
};
use units::{Duration, Instant};

use self::operations::{arm_from_the_start, is_armed_from_the_start, operation_side};
use crate::{
    application::{Agreement, Application},
    checks::bytes::Wrong,
    forgetful::forgetful,
    scenario::{Fault, Operation, Scenario},
    world::{ConnectionId, Step, World},
};

pub use failure::Failure;

/// Nothing reaches an application for so long: the run hangs.
const STALL: Duration = Duration::from_secs(150);
/// If chance has lost all packets of a direction meanwhile, it may take so long once they arrive.
const RELIEF: Duration = Duration::from_secs(30);
/// Most steps of a run.
const MAX_STEPS: u64 = 5_000_000;
/// Most news of a connection at one moment: each may make the application ask for more.
const MAX_NEWS: u64 = 100_000;

/// How a run went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Stands for everything that happened: times, sizes, fates, and what applications saw.
    pub trace_hash: u64,
    /// When the last byte was there.
    pub finished: Instant,
    /// Statistics of client and server at that time.
    pub stats: [ConnectionStats; 2],
    /// Their paths at that time.
    pub paths: [Vec<PathStats>; 2],
    /// Steps that it took.
    pub steps: u64,
    /// What happened to paths and to packets, each once.
    pub seen: BTreeSet<&'static str>,
}

/// Runs a scenario twice, which must make no difference.
///
/// # Errors
/// The first [`Failure`] of either run, or [`Failure::Differs`].
pub fn run_twice(scenario: &Scenario) -> Result<Outcome, Failure> {
    let outcome = run(scenario)?;
    let hashes = [outcome.trace_hash, run(scenario)?.trace_hash];
    if hashes[0] == hashes[1] { Ok(outcome) } else { Err(Failure::Differs { hashes }) }
}

/// Runs a scenario; panics of the transport count as failures.
///
/// # Errors
/// The first [`Failure`].
pub fn run(scenario: &Scenario) -> Result<Outcome, Failure> {
    // Whatever a panic leaves behind is dropped with the run.
    let run = panic::AssertUnwindSafe(|| Run::new(scenario).run());
    panic::catch_unwind(run).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Err(Failure::Panic(text.unwrap_or_default()))
    })
}

const SIDES: [Side; 2] = [Side::Client, Side::Server];

struct Run<'a> {
    scenario: &'a Scenario,
    world: World,
    links: Vec<LinkId>,
    networks: Vec<NetworkPath>,
    client: ConnectionId,
    server: Option<ConnectionId>,
    applications: [Application; 2],
    agreement: Agreement,
    /// What is still to be done, in order of time and then of the plan.
    agenda: BTreeMap<(Instant, usize), (Operation, u32)>,
    agenda_count: usize,
    connected: Option<Instant>,
    /// When each side reads next.
    next_read: [Option<Instant>; 2],
    /// No side reads before.
    reading_from: [Instant; 2],
    /// The connection was closed on purpose.
    closed: bool,
    /// Who has abandoned a path.
    abandoned: [bool; 2],
    /// Each side has abandoned the other's last path, which ended the connection.
    stranded: bool,
    progress: (u64, Instant),
    /// What had reached each host at that time.
    arrived: Vec<u64>,
    /// Losses have ended, because nothing got through.
    relieved: bool,
    steps: u64,
    seen: BTreeSet<&'static str>,
}

fn path_event_name(event: PathEvent) -> &'static str {
    match event {
        PathEvent::Validated(_) => "~ path validated",
        PathEvent::Suspect(_) => "~ path suspected (probe timeout)",
        PathEvent::Resumed(_) => "~ path resumed",
        PathEvent::Moved(_) => "~ path moved to another address",
        PathEvent::Closed { by_peer: false, .. } => "~ path closed",
        PathEvent::Closed { by_peer: true, .. } => "~ path closed by the peer",
        _ => "~ something else about a path",
    }
}

fn is_for_want_of_a_path(error: &ConnectionError) -> bool {
    match error {
        ConnectionError::TransportError(error) => error.code == TransportErrorCode::NO_VIABLE_PATH,
        ConnectionError::ConnectionClosed { code, .. } => *code == TransportErrorCode::NO_VIABLE_PATH,
        _ => false,
    }
}

/// The client's address on path `i`.
fn client_address(i: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, i as u8, 2], 50_000))
}

/// The server's address on path `i`: two addresses in all, so that paths differ in one end or in
/// both.
fn server_address(i: usize) -> SocketAddr {
    SocketAddr::from(([10, 1, (i % 2) as u8, 1], 443))
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let mut world = World::new(Seed(scenario.seed), true);
        let count = scenario.paths.len();
        let clients: Vec<_> = (0..count).map(client_address).collect();
        let servers: Vec<_> = (0..count.min(2)).map(server_address).collect();
        world.add_host(&servers, Some(&forgetful(&scenario.server)));
        let client_host = world.add_host(&clients, None);
        let plans = scenario.paths.iter().enumerate();
        let links = plans.map(|(i, p)| world.join(clients[i], server_address(i), &p.up, &p.down)).collect();
        let networks: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(i, c)| NetworkPath { local: *c, remote: server_address(i) })
            .collect();
        for (network, plan) in networks.iter().zip(&scenario.paths) {
            world.set_mtu(network.local, network.remote, plan.mtu);
            world.set_local_mtu(network.local, network.remote, plan.local_mtu);
        }
        arm_from_the_start(&mut world, &networks, scenario);
        let client = world.connect(client_host, &forgetful(&scenario.client), networks[0]);
        Self {
            scenario,
            world,
            links,
            networks,
            client,
            server: None,
            applications: SIDES.map(Application::new),
            agreement: Agreement::new(&scenario.client, &scenario.server),
            agenda: BTreeMap::new(),
            agenda_count: 0,
            connected: None,
            next_read: [None; 2],
            reading_from: [Instant::ORIGIN; 2],
            closed: false,
            abandoned: [false; 2],
            stranded: false,
            progress: (0, Instant::ORIGIN),
            arrived: Vec::new(),
            relieved: false,
            steps: 0,
            seen: BTreeSet::new(),
        }
    }

    fn run(mut self) -> Result<Outcome, Failure> {
        while !self.is_finished() {
            self.advance()?;
        }
        let finished = self.world.now();
        let stats = SIDES.map(|s| self.id(s).map(|id| self.world.connection(id).stats()).unwrap_or_default());
        let paths = SIDES.map(|s| self.id(s).map(|id| self.world.connection(id).paths()).unwrap_or_default());
        if !self.closed {
            self.settle()?;
        }
        if !self.closed {
            self.cross_check()?;
            self.perform(Operation::Close(SIDES[(self.scenario.seed % 2) as usize]), 0)?;
        }
        self.drain()?;
        let hashes = self.applications.each_ref().map(|a| a.trace);
        hashes.into_iter().for_each(|hash| self.world.trace(hash));
        Ok(Outcome {
            trace_hash: self.world.trace_hash(),
            finished,
            stats,
            paths,
            steps: self.steps,
            seen: self.seen,
        })
    }

    fn id(&self, side: Side) -> Option<ConnectionId> {
        if side == Side::Client { Some(self.client) } else { self.server }
    }

    fn is_finished(&self) -> bool {
        let begun = self.connected.is_some() && self.agenda.is_empty();
        let done =
            self.applications.iter().all(Application::has_begun_everything) && self.agreement.is_fulfilled();
        self.closed || begun && done
    }

    // ---- time

    /// One step of the world and what the applications do about it.
    fn advance(&mut self) -> Result<(), Failure> {
        let stall = self.progress.1 + STALL;
        let agenda = self.agenda.keys().next().map(|(at, _)| *at);
        let reads = self.next_read.iter().copied().flatten();
        let limit = reads.chain(agenda).fold(stall, Instant::min);
        let step = self.world.step(limit.max(self.world.now()));
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(Failure::Endless(self.steps));
        }
        if let Some(violation) = self.world.violation() {
            return Err(violation.clone().into());
        }
        if self.server.is_none() {
            self.server = self.world.accept();
        }
        self.act()?;
        let progress = self.applications.iter().map(|a| a.progress).sum::<u64>() + self.agenda_count as u64;
        // Each fault may cost a handshake one of the few packets that it sends in ever longer
        // intervals.
        let progress = progress + if self.connected.is_some() { 1 } else { self.world.faults_left() };
        if progress != self.progress.0 || !self.agenda.is_empty() {
            self.progress = (progress, self.world.now());
            self.arrived = self.world.arrived();
        } else if step == Step::Limit && self.world.now() >= stall {
            let deaf = self.world.arrived().iter().zip(&self.arrived).any(|(now, then)| now == then);
            if deaf && !core::mem::replace(&mut self.relieved, true) {
                // Chance has lost every packet to a host for so long. Now they get through, and
                // either side must find out.
                self.end_losses();
                self.progress.1 = self.world.now() + RELIEF - STALL;
                return Ok(());
            }
            if !self.is_unreachable() {
                return Err(self.stalled());
            }
            self.perform(Operation::Close(Side::Client), 0)?;
        }
        Ok(())
    }

    /// The handshake's path lost so many of its few packets that no handshake could complete: each
    /// lost packet doubles the time to the next (RFC 9002 section 6.2.1).
    fn is_unreachable(&self) -> bool {
        let gone = |direction| self.world.link_stats(self.links[0], direction).gone();
        let handshaking = self.server.is_none_or(|id| self.world.connection(id).is_handshaking());
        handshaking && gone(Direction::Forward).max(gone(Direction::Backward)) >= 5
    }

    /// Packets may arrive with other bits than they left with.
    fn has_damage(&self) -> bool {
        self.scenario.operations.iter().any(|(_, operation)| {
            matches!(operation, Operation::Fault { what: Fault::Flip(_), .. } | Operation::Corrupt(..))
        })
    }

    fn stalled(&self) -> Failure {
        let sides = SIDES.iter().filter_map(|s| self.id(*s)).map(|id| {
            let c = self.world.connection(id);
            let timer = c.poll_timeout();
            format!(
                "\n{:?}: timer {timer:?}, {:?}\n  {:?}\n  {:?}",
                c.side(),
                c.paths(),
                c.stream_stats(),
                c.stats()
            )
        });
        let report = format!("{:#?}{}", self.agreement.unfulfilled(), sides.collect::<String>());
        Failure::Stalled { at: self.world.now(), report }
    }

    /// Events, then the agenda, then reading.
    fn act(&mut self) -> Result<(), Failure> {
        for side in SIDES {
            self.events_of(side)?;
        }
        let now = self.world.now();
        while let Some(entry) = self.agenda.first_entry().filter(|e| e.key().0 <= now) {
            let (operation, attempt) = entry.remove();
            // Whoever stands still acts later.
            let wakes = operation_side(&operation).map_or(now, |side| self.wakes(side));
            if wakes > now {
                self.agenda.insert((wakes, self.agenda_count), (operation, attempt));
                self.agenda_count += 1;
            } else {
                self.perform(operation, attempt)?;
            }
        }
        for side in SIDES {
            self.read(side)?;
        }
        let only_unread = self.connected.is_some()
            && self.agenda.is_empty()
            && self.applications.iter().all(Application::has_begun_everything)
            && self.agreement.is_fulfilled_but_for_unread();
        if only_unread {
            for side in SIDES {
                self.applications[side as usize].read_last();
                self.read(side)?;
            }
        }
        Ok(())
    }

    fn events_of(&mut self, side: Side) -> Result<(), Failure> {
        let Some(id) = self.id(side) else { return Ok(()) };
        let mut news = 0;
        while let Some(event) = self.world.poll_event(id) {
            news += 1;
            if news > MAX_NEWS {
                return Err(Failure::Endless(news));
            }
            match event {
                Event::Connected if side == Side::Client => self.on_connected(),
                Event::Stream(event) => self.with(side, |app, c, agreed| app.on_event(c, event, agreed))?,
                Event::DatagramReceived => {
                    self.with(side, |app, c, agreed| app.receive_datagrams(c, agreed))?
                }
                Event::DatagramsUnblocked => self.with(side, |app, c, agreed| {
                    app.send_datagrams(c, agreed);
                    Ok(())
                })?,
                Event::Path(event) => {
                    self.seen.insert(path_event_name(event));
                    self.abandoned[side as usize] |=
                        matches!(event, PathEvent::Closed { by_peer: false, .. });
                }
                // Faults took so many of the handshake's few packets, and chance the others, that no
                // answer came in 200 s.
                Event::ConnectionLost(ConnectionError::TimedOut) if self.is_unreachable() => {
                    self.closed = true;
                }
                // Nothing protects a Version Negotiation (RFC 8999 section 7): damage took our version
                // from its list, and a client gives up then (RFC 9000 section 6.2).
                Event::ConnectionLost(ConnectionError::VersionMismatch) if self.has_damage() => {
                    self.closed = true;
                }
                Event::ConnectionLost(error) if !self.closed => {
                    if self.abandoned != [true; 2] || !is_for_want_of_a_path(&error) {
                        return Err(Failure::Lost { side, at: self.world.now(), error });
                    }
                    // The other side must hear of it, so the network had better be well.
                    self.seen.insert("~ no path left that neither side has abandoned");
                    (self.closed, self.stranded) = (true, true);
                    self.heal();
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn on_connected(&mut self) {
        let now = self.world.now();
        self.connected = Some(now);
        let armed = |(after, o): &&(Duration, Operation)| is_armed_from_the_start(*after, o);
        for (after, operation) in self.scenario.operations.iter().filter(|planned| !armed(planned)) {
            self.agenda.insert((now + *after, self.agenda_count), (operation.clone(), 0));
            self.agenda_count += 1;
        }
    }

    fn read(&mut self, side: Side) -> Result<(), Failure> {
        let (i, now) = (side as usize, self.world.now());
        let pause = self.scenario.reader_pause[i];
        if self.applications[i].readable.is_empty() {
            return Ok(());
        }
        let wakes = self.wakes(side).max(self.reading_from[i]);
        if wakes > now {
            self.next_read[i] = Some(wakes);
            return Ok(());
        }
        if !pause.is_zero() && self.next_read[i].is_none_or(|at| at > now) {
            self.next_read[i].get_or_insert(now + pause);
            return Ok(());
        }
        self.next_read[i] = None;
        self.with(side, |app, c, agreed| app.read_all(c, agreed))?;
        self.events_of(side)
    }

    fn with(
        &mut self,
        side: Side,
        act: impl FnOnce(&mut Application, &mut proto::Connection, &mut Agreement) -> Result<(), Wrong>,
    ) -> Result<(), Failure> {
        let Some(id) = self.id(side) else { return Ok(()) };
        let (app, agreed) = (&mut self.applications[side as usize], &mut self.agreement);
        let result = self.world.with(id, |c, _| act(app, c, agreed));
        let at = self.world.now();
        result.map_err(|wrong| Failure::Application { side, at, wrong })
    }
}
