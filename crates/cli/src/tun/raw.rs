//! `--tcp raw` at the client: a tunnel of packets on every connection, one after the other.

use std::{
    net::IpAddr,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use mendpath::Connection;
use tokio::{sync::mpsc, time::Instant};
use tracing::{debug, info};
use tunnel::raw::{Coding, addresses};

use super::{
    device::Device,
    handover::Given,
    link::{Counts, Guard, Link, MTU, SharedCounts, Verdict},
};
use crate::{
    association::PacketTunnel,
    backoff::{Backoff, pause},
    client::{RawRow, Session, Uplink, tunnel as streams},
    console::say,
    failure::Failure,
    protocol::{Assignment, MAX_MESSAGE, Reply, Request, Status, read_frame},
    word,
};

/// The least that a device is given.
const LEAST_MTU: u16 = 1_280;
/// Names tunnels, apart from associations.
static NEXT_ID: AtomicU32 = AtomicU32::new(0x8000_0000);
/// Packets that were read from the device and wait for the connection: with them, TCP fills
/// windows even where a loss has halved its own.
const WAITING: usize = 1_024;
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// So many tunnels one after the other that end sooner than that have gone to somebody else.
const TAKEN: u32 = 3;

/// So many refusals one after the other do not pass by themselves, as that of a place not left yet.
const REFUSED: u32 = 3;

/// Two that call themselves alike take the tunnel from each other.
const RIVAL: &str = "the tunnel goes to and fro between this machine and another with the same invitation, the same \
                     /etc/machine-id and the same host name; change one of those";

/// How TCP is carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carriage {
    /// A stream for each connection.
    #[default]
    Streams,
    /// Packets as they are.
    Raw,
}

impl Carriage {
    const ALL: [(Self, &str); 2] = [(Self::Streams, "streams"), (Self::Raw, "raw")];
}

word::words!(Carriage);

/// How packets are carried as they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawOptions {
    /// Tells this client from others of its account.
    pub(crate) name: [u8; 16],
    /// What both ends send beside packets.
    pub(crate) coding: Coding,
}

/// A tunnel that was granted.
pub(crate) struct Opened {
    session: Session,
    tunnel: PacketTunnel,
    options: RawOptions,
    assignment: Assignment,
}

impl Opened {
    /// What the device is to have.
    pub(crate) fn given(&self) -> Given {
        let Assignment { v4, v6, mtu, .. } = self.assignment;
        // Every host takes packets of IPv6 of that size (RFC 8200 section 5).
        Given { v4, v6, mtu: mtu.clamp(LEAST_MTU, MTU) }
    }
}

/// Where packets of the device go in.
pub(super) struct Raw {
    packets: mpsc::Sender<Vec<u8>>,
    counts: Arc<RawCounts>,
}

#[derive(Default)]
struct RawCounts {
    past: std::sync::Mutex<Counts>,
    present: SharedCounts,
    /// Packets from or to addresses that are not ours.
    strange: AtomicU64,
    /// Packets of the device for which there was no room.
    full: AtomicU64,
}

impl RawCounts {
    fn sum(&self) -> Counts {
        let past = lock(&self.past);
        let mut sum = *past;
        sum += *lock(&self.present);
        sum
    }

    /// The present tunnel has ended. Whoever asks for the sum meanwhile waits, or it would seem to fall.
    fn end(&self) {
        let mut past = lock(&self.past);
        *past += std::mem::take(&mut *lock(&self.present));
    }
}

/// A name for this machine, so that it gets the same addresses after a new start; by chance where
/// the system has none.
pub(crate) fn machine_name() -> [u8; 16] {
    let Ok(machine) = std::fs::read("/etc/machine-id") else { return chance_name() };
    // A service may see nothing of /proc/sys. The line's end has always been part of it.
    let system = rustix::system::uname();
    let text = [b"mendpath tunnel", &machine[..], b"\0", system.nodename().to_bytes(), b"\n"].concat();
    let digest = ring::digest::digest(&ring::digest::SHA256, &text);
    *digest.as_ref().first_chunk().expect("32 bytes")
}

/// A name by chance.
pub(crate) fn chance_name() -> [u8; 16] {
    let random = ring::rand::generate::<[u8; 16]>(&ring::rand::SystemRandom::new());
    random.map_or([0; 16], ring::rand::Random::expose)
}

/// Asks the server for a tunnel.
///
/// # Errors
/// What the server answers, for people.
pub(crate) async fn open(uplink: &Uplink, options: RawOptions) -> Result<Opened, Failure> {
    ask(uplink, options, 0).await.map_err(|reply| {
        let next = match reply.status {
            Status::Unsupported => "Start the server with --tunnel, or leave --tcp raw out",
            _ => "Try again later, or leave --tcp raw out",
        };
        Failure::new("cannot open a tunnel of packets", reply.text, next)
    })
}

async fn ask(uplink: &Uplink, options: RawOptions, wanted: u32) -> Result<Opened, Reply> {
    let id = NEXT_ID.fetch_add(1, Relaxed) | 0x8000_0000;
    let RawOptions { name, coding } = options;
    let request = Request::Tunnel { id, name, wanted, coding: coding.into() };
    let (session, send, mut receive) = streams::grant(uplink, &request).await?;
    let lost = || Reply::new(Status::HostUnreachable, "the connection to the server was lost");
    let body = read_frame(&mut receive, MAX_MESSAGE).await.ok().flatten().ok_or_else(lost)?;
    let assignment = Assignment::decode(&body).map_err(|error| Reply::new(Status::Failed, error))?;
    let reserved = PacketTunnel::reserve(&session.hub, id).ok_or_else(lost)?;
    Ok(Opened { tunnel: reserved.begin((send, receive)), session, options, assignment })
}

impl Raw {
    /// Takes a tunnel; the second value must run, and ends when there can be no other like it.
    pub(super) fn start(
        opened: Opened,
        uplink: Uplink,
        device: Arc<Device>,
    ) -> (Self, impl Future<Output = Failure> + Send + 'static) {
        let (packets, from_device) = mpsc::channel(WAITING);
        let counts = Arc::new(RawCounts::default());
        (Self { packets, counts: counts.clone() }, keep(opened, uplink, device, from_device, counts))
    }

    /// Takes a packet of the device; drops it where too many wait, as routers do.
    pub(super) fn carry(&self, packet: &[u8]) {
        if self.packets.try_send(packet.to_vec()).is_err() {
            self.counts.full.fetch_add(1, Relaxed);
        }
    }

    /// What became of packets.
    pub(super) fn row(&self) -> RawRow {
        let RawCounts { strange, full, .. } = &*self.counts;
        RawRow { packets: self.counts.sum().row(), strange: strange.load(Relaxed), full: full.load(Relaxed) }
    }
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn keep(
    mut opened: Opened,
    uplink: Uplink,
    device: Arc<Device>,
    mut packets: mpsc::Receiver<Vec<u8>>,
    counts: Arc<RawCounts>,
) -> Failure {
    let (assignment, options) = (opened.assignment, opened.options);
    let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
    let mut rival = Rival::default();
    loop {
        let (session, began) = (opened.session.clone(), Instant::now());
        let ours = Ours { v4: assignment.v4.into(), v6: assignment.v6.into(), counts: counts.clone() };
        let link = Link::new(opened.tunnel, options.coding, &device, ours, counts.present.clone());
        let goes_on = tokio::select! {
            goes_on = outlived(link, &mut packets, &session.connection) => goes_on,
            () = session.left() => false,
        };
        counts.end();
        info!("the tunnel of packets ended; asking for another");
        if rival.took(goes_on, began.elapsed()) {
            if rival.0 == TAKEN {
                say(format_args!("{RIVAL}"));
            }
            pause(backoff.next_wait()).await;
        } else {
            backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
        }
        opened = ask_again(&uplink, options, assignment.index, &mut backoff).await;
        if (opened.assignment.v4, opened.assignment.v6) != (assignment.v4, assignment.v6) {
            let wrong = format!("the server gives {} in place of {}", opened.assignment.v4, assignment.v4);
            return Failure::new("cannot go on with the tunnel", wrong, "Start the command again");
        }
    }
}

/// Carries packets until the tunnel ends; whether its connection goes on.
async fn outlived(
    link: Link<'_, Ours>,
    packets: &mut mpsc::Receiver<Vec<u8>>,
    connection: &Connection,
) -> bool {
    link.run(packets).await;
    connection.close_reason().is_none()
}

/// Asks until there is one. Says what the server answers if it goes on refusing; that there is no connection
/// is said elsewhere.
async fn ask_again(uplink: &Uplink, options: RawOptions, wanted: u32, backoff: &mut Backoff) -> Opened {
    let mut refused = 0;
    loop {
        let reply = match ask(uplink, options, wanted).await {
            Ok(opened) => {
                if refused >= REFUSED {
                    say("the server gives a tunnel of packets again");
                }
                return opened;
            }
            Err(reply) => reply,
        };
        debug!(reply.text, "no tunnel");
        if reply.status != Status::HostUnreachable {
            refused += 1;
            if refused == REFUSED {
                say(format_args!(
                    "the server gives no tunnel of packets any more: {}; asking on",
                    reply.text
                ));
            }
        }
        pause(backoff.next_wait()).await;
    }
}

/// Tunnels that somebody else took soon after they began, one after the other.
#[derive(Default)]
struct Rival(u32);

impl Rival {
    /// Whether somebody took one that lasted so long. Its connection `goes_on`, or it ended with that.
    fn took(&mut self, goes_on: bool, lasted: Duration) -> bool {
        self.0 = if goes_on && lasted < LONGEST_WAIT { self.0 + 1 } else { 0 };
        self.0 > 0
    }
}

/// Lets pass what is ours.
struct Ours {
    v4: IpAddr,
    v6: IpAddr,
    counts: Arc<RawCounts>,
}

impl Ours {
    fn is_ours(&self, ip: Option<IpAddr>) -> bool {
        let is_ours = ip == Some(self.v4) || ip == Some(self.v6);
        if !is_ours {
            self.counts.strange.fetch_add(1, Relaxed);
        }
        is_ours
    }
}

impl Guard for Ours {
    fn may_leave(&mut self, packet: &[u8]) -> bool {
        self.is_ours(addresses(packet).ok().map(|ends| ends.source))
    }

    fn judge(&mut self, packet: &[u8]) -> Verdict {
        let whole = addresses(packet).ok().filter(|ends| ends.end == packet.len());
        if self.is_ours(whole.map(|ends| ends.destination)) { Verdict::Pass } else { Verdict::Drop }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else a server that does not stay up would pass for another machine that takes the tunnel.
    #[tokio::test]
    async fn a_tunnel_that_ends_with_its_connection_was_taken_by_nobody() {
        let (tunnel, server) = PacketTunnel::for_test().await;
        let client = tunnel.connection().clone();
        let (device, _other) = Device::for_test();
        let ours = Ours { v4: [198, 19, 0, 2].into(), v6: [0; 16].into(), counts: Arc::default() };
        let link = Link::new(tunnel, Coding::None, &device, ours, SharedCounts::default());
        let (_packets, mut from_device) = mpsc::channel(1);
        server.close(0_u32.into(), b"");
        assert!(!outlived(link, &mut from_device, &client).await);
    }

    #[test]
    fn a_machine_that_calls_itself_alike_is_told_of() {
        let (soon, later) = (Duration::from_secs(1), Duration::from_secs(60));
        let mut rival = Rival::default();
        assert!(!rival.took(true, later), "the server may have ended it");
        assert!(!rival.took(false, soon), "the connection was lost");
        assert!((1..=TAKEN).all(|n| rival.took(true, soon) && rival.0 == n));
        assert!(!rival.took(true, later), "the other has gone");
        assert_eq!(rival.0, 0);
    }
}
