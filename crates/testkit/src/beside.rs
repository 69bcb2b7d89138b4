//! Connections beside each other: uploads from one host to another through the same link, which
//! show how controllers of the shipping transport share it.

use std::net::SocketAddr;

use netsim::{LinkConfig, Seed};
use proto::{Dir, Event, NetworkPath, Read, StreamEvent, StreamId, TransportConfig};
use units::{Duration, Instant};

use crate::world::{ConnectionId, Step, World};

/// How long a connection may take to be set up.
const PATIENCE: Duration = Duration::from_secs(30);
/// Applications write and read in pieces of this size.
const PIECE: usize = 65_536;

/// What one of the connections has to show.
#[derive(Clone, Debug)]
pub struct Share {
    /// Stream bytes in order at the server, in the time that counts.
    pub delivered: u64,
    /// The sender's path, as it was in the end.
    pub path: proto::PathStats,
}

struct Upload {
    client: ConnectionId,
    server: ConnectionId,
    stream: StreamId,
    delivered: u64,
}

/// Runs one endless upload for each of `transports`, set up one after the other over the same
/// `link`. What arrives counts for `span` from `warm_up` after the last has been set up.
///
/// # Panics
/// If one cannot be set up within half a virtual minute.
pub fn run(
    seed: Seed,
    link: &LinkConfig,
    transports: &[TransportConfig],
    warm_up: Duration,
    span: Duration,
) -> Vec<Share> {
    let client: SocketAddr = ([10, 0, 0, 2], 50_000).into();
    let server: SocketAddr = ([10, 0, 0, 1], 443).into();
    let mut world = World::new(seed, false);
    world.add_host(&[server], Some(&TransportConfig::default()));
    let host = world.add_host(&[client], None);
    world.join(client, server, link, link);
    let mut uploads = Vec::new();
    for transport in transports {
        let network = NetworkPath { local: client, remote: server };
        let connection = world.connect(host, transport, network);
        let upload = set_up(&mut world, connection, &mut uploads);
        uploads.push(upload);
    }
    let from = world.now() + warm_up;
    run_until(&mut world, &mut uploads, from);
    let before: Vec<u64> = uploads.iter().map(|upload| upload.delivered).collect();
    run_until(&mut world, &mut uploads, from + span);
    let share = |(upload, before): (&Upload, u64)| Share {
        delivered: upload.delivered - before,
        path: world.connection(upload.client).paths().swap_remove(0),
    };
    uploads.iter().zip(before).map(share).collect()
}

/// Waits until both ends have a connection, while the others go on, and opens its stream.
fn set_up(world: &mut World, client: ConnectionId, others: &mut [Upload]) -> Upload {
    let limit = world.now() + PATIENCE;
    let mut accepted = None;
    while accepted.is_none() || world.connection(client).is_handshaking() {
        assert_eq!(world.step(limit), Step::Advanced, "the handshake completes");
        others.iter_mut().for_each(|upload| upload.go_on(world));
        accepted = accepted.or_else(|| world.accept());
    }
    let stream = world.with(client, |c, _| c.open(Dir::Bi).expect("a stream may be opened"));
    let server = accepted.expect("the loop waited for it");
    let mut upload = Upload { client, server, stream, delivered: 0 };
    upload.go_on(world);
    upload
}

fn run_until(world: &mut World, uploads: &mut [Upload], limit: Instant) {
    while world.step(limit) == Step::Advanced {
        uploads.iter_mut().for_each(|upload| upload.go_on(world));
    }
}

impl Upload {
    /// Writes and reads what is possible now.
    fn go_on(&mut self, world: &mut World) {
        while world.poll_event(self.client).is_some() {}
        while let Some(event) = world.poll_event(self.server) {
            if let Event::Stream(StreamEvent::Opened { dir }) = event {
                world.with(self.server, |c, _| _ = c.accept(dir));
            }
        }
        let (stream, mut piece) = (self.stream, [0; PIECE]);
        world.with(self.client, |c, _| while c.write(stream, &piece).is_ok_and(|n| n > 0) {});
        self.delivered += world.with(self.server, |c, _| {
            let mut delivered = 0;
            while let Ok(Read::Data(n)) = c.read(stream, &mut piece) {
                delivered += n as u64;
            }
            delivered
        });
    }
}
