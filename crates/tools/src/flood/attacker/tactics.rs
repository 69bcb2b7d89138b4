//! What each kind of flood does with its connections.

use std::net::{Ipv4Addr, SocketAddr};

use mendpath_cli::{
    invitation::Invitation,
    protocol::{Hello, Request},
    target::Target,
    token::Service,
};
use proto::{
    ConnectionHandle, Dir, Event, NetworkPath, PathId, Read, StreamEvent, StreamId,
    wire::{CodeScheme, HeaderKind, PacketKind, ProtectedHeader, RepairHeader},
};
use units::{Duration, Instant};

use super::{
    Orders,
    army::{Army, Says},
};
use crate::flood::{Outcome, kind::Kind};

/// First flights that are made before the flood; the rest are made while it lasts.
const PREPARED: u64 = 50_000;
/// Bytes of frames in a packet of repair symbols.
const PAYLOAD: usize = 1_150;
/// Connections that fill their windows at once.
const WINDOWS_AT_ONCE: usize = 20;
/// Requests per second of an admitted client.
const REQUESTS_PER_SECOND: u64 = 300;
/// Half-made connections are left after this long.
const FORGET_AFTER: Duration = Duration::from_secs(3);

/// Where the one client with a token, or the one host without, comes from.
const HOME: Ipv4Addr = Ipv4Addr::new(127, 254, 0, 1);

/// One kind of flood.
pub struct Tactics {
    kind: Kind,
    hello: Vec<u8>,
    dead: SocketAddr,
    flights: std::vec::IntoIter<(NetworkPath, Vec<u8>)>,
    /// The client that strikes, where it is one.
    client: Option<ConnectionHandle>,
    /// Repair frames made so far.
    repairs: u64,
    /// Requests made.
    pub asked: u64,
    /// Retries answered.
    pub retried: u64,
}

impl Tactics {
    /// Does beforehand what would take the processor from the server later.
    pub fn prepare(orders: &Orders, invitation: &Invitation, army: &mut Army, now: Instant) -> Outcome<Self> {
        let hello = Hello { service: Service::Proxy, token: invitation.token }.encode();
        let mut flights = Vec::new();
        if orders.kind == Kind::Initials {
            let needed = orders.rate.bytes_in(Duration::from_secs(orders.seconds)) / 1_200 + 1;
            for _ in 0..needed.min(PREPARED) {
                flights.push(army.first_flight(now)?);
            }
        }
        Ok(Self {
            kind: orders.kind,
            hello: frame(&hello),
            dead: orders.dead,
            flights: flights.into_iter(),
            client: None,
            repairs: 0,
            asked: 0,
            retried: 0,
        })
    }

    /// Whether a connection is told of a datagram.
    pub fn lets_hear(&self, datagram: &[u8]) -> bool {
        match self.kind {
            Kind::Initials => false,
            Kind::Retry => is_retry(datagram),
            _ => true,
        }
    }

    /// A connection has heard something.
    pub fn on_word(&mut self, army: &mut Army, now: Instant, handle: ConnectionHandle) {
        if !army.soldiers.contains_key(&handle) {
            return;
        }
        match self.kind {
            // Its answer to a Retry is its last word; so is silence if something else came.
            Kind::Retry => {
                let before = army.wire.sent;
                army.attend(now, handle, u64::MAX / 2);
                self.retried += u64::from(army.wire.sent > before);
                army.desert(handle);
            }
            Kind::Windows | Kind::Repairs | Kind::RepairsUninvited | Kind::Connects | Kind::Dns => {
                self.listen(army, handle);
                if self.kind != Kind::Windows {
                    army.attend(now, handle, u64::MAX / 2);
                }
            }
            _ => {
                army.attend(now, handle, u64::MAX / 2);
                let soldier = army.soldiers.get(&handle);
                if soldier.is_some_and(|soldier| !soldier.connection.is_handshaking()) {
                    army.completed += u64::from(self.kind != Kind::Handshakes);
                    army.desert(handle);
                }
            }
        }
    }

    /// Reads what there is to know about a connection that is kept, and gives back streams that
    /// were answered.
    fn listen(&mut self, army: &mut Army, handle: ConnectionHandle) {
        let Some(soldier) = army.soldiers.get_mut(&handle) else { return };
        let connection = &mut soldier.connection;
        let mut answered = Vec::new();
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Connected => army.completed += 1,
                Event::Stream(StreamEvent::Readable(id)) if id != control() => answered.push(id),
                _ => {}
            }
        }
        for id in answered {
            while let Ok(Read::Data(_)) = connection.read(id, &mut [0; 1_024]) {}
            let _ = connection.reset(id, 0u8.into());
            let _ = connection.stop(id, 0u8.into());
        }
    }

    /// Leaves connections that lead nowhere.
    pub fn dismiss(&mut self, army: &mut Army, now: Instant) {
        let is_stale = |begun: Instant| now.saturating_duration_since(begun) > FORGET_AFTER;
        let stale = army.soldiers.iter().filter(|(_, soldier)| {
            let keeps = matches!(
                self.kind,
                Kind::Windows | Kind::Repairs | Kind::RepairsUninvited | Kind::Connects | Kind::Dns
            );
            is_stale(soldier.begun) && (!keeps || soldier.connection.is_handshaking())
        });
        for handle in stale.map(|(handle, _)| *handle).collect::<Vec<_>>() {
            army.desert(handle);
        }
    }

    /// One blow of at most about `left` bytes; false if there is nothing to be done now.
    pub fn strike(&mut self, army: &mut Army, now: Instant, began: Instant, left: u64) -> Outcome<bool> {
        match self.kind {
            Kind::Initials => {
                let (path, flight) = match self.flights.next() {
                    Some(ready) => ready,
                    None => army.first_flight(now)?,
                };
                army.begun += 1;
                army.wire.send(path, &flight);
                Ok(true)
            }
            Kind::Retry | Kind::SilentMany => self.knock(army, now, None, Says::All),
            Kind::Handshakes => self.knock(army, now, None, Says::Initials),
            Kind::SilentOne => self.knock(army, now, Some(HOME), Says::All),
            Kind::Windows => self.fill_windows(army, now, left),
            Kind::Repairs | Kind::RepairsUninvited => self.send_repairs(army, now),
            Kind::Connects | Kind::Dns => self.ask(army, now, began),
            Kind::All => Ok(false),
        }
    }

    /// Begins one more connection.
    fn knock(&self, army: &mut Army, now: Instant, from: Option<Ipv4Addr>, says: Says) -> Outcome<bool> {
        if !army.has_room() {
            return Ok(false);
        }
        let from = from.unwrap_or_else(|| army.anywhere());
        let handle = army.recruit(now, from, says)?;
        army.attend(now, handle, u64::MAX / 2);
        Ok(true)
    }

    /// Keeps some connections without a token and writes wherever there is credit.
    fn fill_windows(&self, army: &mut Army, now: Instant, left: u64) -> Outcome<bool> {
        if army.soldiers.len() < WINDOWS_AT_ONCE {
            return self.knock(army, now, None, Says::All);
        }
        let handles: Vec<_> = army.soldiers.keys().copied().collect();
        let before = army.wire.sent_bytes;
        for handle in handles {
            let Some(soldier) = army.soldiers.get_mut(&handle) else { continue };
            let connection = &mut soldier.connection;
            if !connection.is_handshaking() {
                // The first stream is the control stream: a hello that is announced and never ends.
                while let Some(id) = connection.open(Dir::Bi) {
                    let _ = connection.write(id, if id == control() { &[3, 255, 1] } else { &[0; 64] });
                }
                for at in 1..1_024 {
                    let id = StreamId(at * 4);
                    while connection.write(id, &[0; 16 << 10]).is_ok_and(|n| n > 0) {}
                }
            }
            let spent = army.wire.sent_bytes - before;
            if spent >= left {
                break;
            }
            army.attend(now, handle, (left - spent).min(12_000));
        }
        Ok(army.wire.sent_bytes > before)
    }

    /// Sends a packet full of repair symbols over blocks that differ in their last member alone, so
    /// that each has to be compared to the end with all that wait.
    fn send_repairs(&mut self, army: &mut Army, now: Instant) -> Outcome<bool> {
        let Some(handle) = self.admitted(army, now, self.kind == Kind::Repairs)? else { return Ok(false) };
        let Some(soldier) = army.soldiers.get_mut(&handle) else { return Ok(false) };
        let first = soldier.connection.next_packet_number_for_fuzzing(PathId::ZERO) / 4_096 * 4_096 + 8_192;
        let mut payload = Vec::with_capacity(PAYLOAD + 64);
        while payload.len() < PAYLOAD {
            self.repairs += 1;
            let last = first + 200 + self.repairs % 97;
            let header = RepairHeader {
                path: PathId::ZERO,
                scheme: CodeScheme::ReedSolomon,
                repair_count: 32,
                symbol_id: self.repairs % 32,
                symbol_len: 1,
            };
            header.encode([first..=first + 125, last..=last].into_iter(), &mut payload);
            payload.push(7);
        }
        let sealed = soldier.connection.seal_for_fuzzing(now, PacketKind::OneRtt, PathId::ZERO, &payload);
        let Some(packet) = sealed else { return Ok(false) };
        let path = soldier.path;
        army.wire.send(path, &packet);
        Ok(true)
    }

    /// Opens streams and asks on each for something that never comes.
    fn ask(&mut self, army: &mut Army, now: Instant, began: Instant) -> Outcome<bool> {
        let due = (now - began).as_millis() * REQUESTS_PER_SECOND / 1_000;
        if self.asked >= due {
            return Ok(false);
        }
        let Some(handle) = self.admitted(army, now, true)? else { return Ok(false) };
        let Some(soldier) = army.soldiers.get_mut(&handle) else { return Ok(false) };
        let Some(id) = soldier.connection.open(Dir::Bi) else { return Ok(false) };
        self.asked += 1;
        let target = match self.kind {
            Kind::Dns => format!("slow-{}.flood.test:443", self.asked).parse()?,
            _ => Target::from_addr(self.dead),
        };
        let _ = soldier.connection.write(id, &frame(&Request::Connect(target).encode()));
        army.attend(now, handle, u64::MAX / 2);
        Ok(true)
    }

    /// The one client, once it is connected; with a token it has shown that. A new one if the
    /// server has ended the last.
    fn admitted(&mut self, army: &mut Army, now: Instant, token: bool) -> Outcome<Option<ConnectionHandle>> {
        let Some((handle, soldier)) =
            self.client.and_then(|handle| Some((handle, army.soldiers.get_mut(&handle)?)))
        else {
            let handle = army.recruit(now, HOME, Says::All)?;
            army.attend(now, handle, u64::MAX / 2);
            self.client = Some(handle);
            return Ok(None);
        };
        let connection = &mut soldier.connection;
        if connection.is_handshaking() {
            return Ok(None);
        }
        if token && !std::mem::replace(&mut soldier.greeted, true) {
            if let Some(id) = connection.open(Dir::Bi) {
                let _ = connection.write(id, &self.hello);
            }
            army.attend(now, handle, u64::MAX / 2);
        }
        Ok(Some(handle))
    }
}

/// The stream of the hello: the first that a client opens.
fn control() -> StreamId {
    StreamId(0)
}

/// A message of the proxy's protocol.
fn frame(body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap_or(u16::MAX);
    [&length.to_be_bytes()[..], body].concat()
}

fn is_retry(datagram: &[u8]) -> bool {
    ProtectedHeader::decode(datagram, proto::CID_LEN)
        .is_ok_and(|header| matches!(header.kind, HeaderKind::Retry { .. }))
}
