//! Many streams of one connection: those that nobody reads take nothing from the others, and
//! answers do not wait behind data.

use std::{collections::BTreeMap, thread};

use mendpath_testkit::world::{ConnectionId, World};
use netsim::{LinkConfig, Loss, Seed, link::QueueSize};
use proto::{Dir, Event, NetworkPath, Read, ReadError, StreamEvent, StreamId, TransportConfig, WriteError};
use units::{BitRate, Duration, Instant, LossRate};

const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 1], 1_000);
const SERVER: ([u8; 4], u16) = ([10, 0, 0, 2], 443);
/// What servers answer before anything else.
const ANSWER: [u8; 20] = [0xa5; 20];
/// Applications copy in pieces of this size.
const CHUNK: usize = 16 << 10;

/// A download as the server sees it.
struct Upload {
    /// Bytes after the answer that are not written yet.
    left: u64,
    blocked: bool,
}

/// A download as the client sees it.
#[derive(Clone, Copy, Debug)]
struct Download {
    asked: Instant,
    answered: Option<Instant>,
    finished: Option<Instant>,
    received: u64,
    /// It is read only up to so many bytes.
    reads: u64,
}

/// Both ends of a connection over one path, with servers that answer requests by so many bytes as
/// they ask for.
struct Load {
    world: World,
    client: ConnectionId,
    server: ConnectionId,
    uploads: BTreeMap<StreamId, Upload>,
    downloads: BTreeMap<StreamId, Download>,
}

fn link(mbps: u64, delay: Duration, loss: f64) -> LinkConfig {
    let rate = BitRate::from_mbps(mbps);
    let queue = rate.bytes_in(delay * 2).max(64 << 10);
    let loss = if loss > 0.0 { Loss::Bernoulli(LossRate::new(loss).expect("a rate")) } else { Loss::None };
    LinkConfig::new().rate(rate).delay(delay).queue(QueueSize::Bytes(units::Bytes(queue))).loss(loss)
}

impl Load {
    fn new(seed: u64, link: &LinkConfig, streams: u64, adapt: impl Fn(&mut TransportConfig)) -> Self {
        let mut transport = TransportConfig { max_concurrent_bidi: streams, ..TransportConfig::default() };
        adapt(&mut transport);
        let mut world = World::new(Seed(seed), false);
        let (near, far) = (CLIENT.into(), SERVER.into());
        let host = world.add_host(&[near], None);
        world.add_host(&[far], Some(&transport));
        world.join(near, far, link, link);
        let client = world.connect(host, &transport, NetworkPath { local: near, remote: far });
        while world.connection(client).is_handshaking() {
            let limit = world.now() + Duration::from_secs(10);
            world.step(limit);
        }
        let server = world.accept().expect("it was accepted");
        let (uploads, downloads) = (BTreeMap::new(), BTreeMap::new());
        Self { world, client, server, uploads, downloads }
    }

    /// Asks for `bytes`, of which the client reads only `reads`.
    fn ask(&mut self, bytes: u64, reads: u64) -> StreamId {
        let id = self.world.with(self.client, |client, _| {
            let id = client.open(Dir::Bi).expect("the server allows it");
            assert_eq!(client.write(id, &bytes.to_be_bytes()), Ok(8));
            client.finish(id).expect("it is open");
            id
        });
        let asked = self.world.now();
        self.downloads.insert(id, Download { asked, answered: None, finished: None, received: 0, reads });
        id
    }

    /// Runs until `done`, or for so long; returns whether it was done.
    fn run(&mut self, limit: Duration, done: impl Fn(&Self) -> bool) -> bool {
        let end = self.world.now() + limit;
        while !done(self) {
            if self.world.now() >= end {
                return false;
            }
            self.world.step(end);
            while let Some(event) = self.world.poll_event(self.server) {
                self.serve(event);
            }
            while let Some(event) = self.world.poll_event(self.client) {
                if let Event::Stream(StreamEvent::Readable(id)) = event {
                    self.receive(id);
                }
            }
        }
        true
    }

    fn serve(&mut self, event: Event) {
        match event {
            Event::Stream(StreamEvent::Opened { dir }) => {
                while let Some(id) = self.world.with(self.server, |server, _| server.accept(dir)) {
                    self.hear(id);
                }
            }
            Event::Stream(StreamEvent::Readable(id)) => self.hear(id),
            Event::Stream(StreamEvent::Writable(id)) => {
                if let Some(upload) = self.uploads.get_mut(&id) {
                    upload.blocked = false;
                }
                self.write(id);
            }
            _ => {}
        }
    }

    /// Takes a request, answers it, and begins to send.
    fn hear(&mut self, id: StreamId) {
        let mut request = [0; 8];
        let read = self.world.with(self.server, |server, _| server.read(id, &mut request));
        if read == Ok(Read::Data(8)) {
            let wrote = self.world.with(self.server, |server, _| server.write(id, &ANSWER));
            assert_eq!(wrote, Ok(ANSWER.len()), "an answer always finds room");
            self.uploads.insert(id, Upload { left: u64::from_be_bytes(request), blocked: false });
            self.write(id);
        }
    }

    fn write(&mut self, id: StreamId) {
        let Some(upload) = self.uploads.get_mut(&id) else { return };
        while upload.left > 0 && !upload.blocked {
            let chunk = &[0x5a; CHUNK][..CHUNK.min(usize::try_from(upload.left).unwrap_or(CHUNK))];
            match self.world.with(self.server, |server, _| server.write(id, chunk)) {
                Ok(n) => upload.left -= n as u64,
                Err(WriteError::Blocked) => upload.blocked = true,
                Err(error) => panic!("{error:?}"),
            }
        }
        if upload.left == 0 {
            self.uploads.remove(&id);
            self.world.with(self.server, |server, _| server.finish(id)).expect("it is open");
        }
    }

    fn receive(&mut self, id: StreamId) {
        let now = self.world.now();
        let download = self.downloads.get_mut(&id).expect("it was asked for");
        let mut buffer = vec![0; 64 << 10];
        while download.received < download.reads {
            let most =
                buffer.len().min(usize::try_from(download.reads - download.received).unwrap_or(usize::MAX));
            let buffer = &mut buffer[..most];
            match self.world.with(self.client, |client, _| client.read(id, buffer)) {
                Ok(Read::Data(n)) => download.received += n as u64,
                Ok(Read::Finished) => {
                    download.finished = Some(now);
                    break;
                }
                Err(ReadError::Blocked) => break,
                Err(error) => panic!("{error:?}"),
            }
        }
        if download.received >= ANSWER.len() as u64 {
            download.answered.get_or_insert(now);
        }
    }

    fn all_finished(&self) -> bool {
        self.downloads.values().all(|download| download.finished.is_some())
    }

    /// How long a download took that is read to its end.
    fn time(&mut self, bytes: u64) -> Duration {
        let id = self.ask(bytes, u64::MAX);
        assert!(
            self.run(Duration::from_secs(600), |load| load.downloads[&id].finished.is_some()),
            "it hangs"
        );
        self.downloads[&id].finished.expect("it has") - self.downloads[&id].asked
    }

    fn buffered(&self, side: ConnectionId) -> proto::StreamsStats {
        self.world.connection(side).stream_stats()
    }
}

/// The speed of a stream beside 999 that are not read, as a part of its speed alone, where the
/// connection has been in use before.
fn speed_beside_unread(link: &LinkConfig, bytes: u64, read_before: u64) -> f64 {
    let alone = {
        let mut load = Load::new(1, link, 1_024, |_| {});
        load.time(bytes);
        load.time(bytes)
    };
    let mut load = Load::new(1, link, 1_024, |_| {});
    load.time(bytes);
    for _ in 0..999 {
        load.ask(10_000_000, read_before);
    }
    load.run(Duration::from_secs(20), |_| false);
    let beside = load.time(bytes);
    let memory = load.buffered(load.client);
    assert!(memory.receive_buffered_max <= TransportConfig::default().receive_window, "{memory:?}");
    assert!(memory.receive_buffered >= 999 * 10_000, "nobody reads them: {memory:?}");
    println!("{alone} alone, {beside} beside 999; {memory:?}");
    alone.as_secs_f64() / beside.as_secs_f64()
}

#[test]
fn a_download_beside_999_unread_ones_is_as_fast_as_alone() {
    let link = link(100, Duration::from_millis(10), 0.0);
    let speed = speed_beside_unread(&link, 20_000_000, 0);
    assert!(speed >= 0.9, "{speed}");
}

#[test]
fn a_download_beside_999_that_were_read_for_a_while_is_as_fast_as_alone() {
    let link = link(100, Duration::from_millis(10), 0.0);
    let speed = speed_beside_unread(&link, 20_000_000, 50_000);
    assert!(speed >= 0.9, "{speed}");
}

/// As programs do that stop reading: the sockets before them take some data at first, each while it
/// has the path for itself.
#[test]
fn a_download_beside_999_whose_sockets_are_full_is_as_fast_as_alone() {
    let link = link(2_000, Duration::from_micros(500), 0.0);
    let mut load = Load::new(1, &link, 1_024, |_| {});
    load.time(50_000_000);
    let alone = load.time(50_000_000);
    for _ in 0..999 {
        load.ask(10_000_000, 300_000);
        load.run(Duration::from_millis(5), |_| false);
    }
    load.run(Duration::from_secs(1), |_| false);
    let beside = load.time(50_000_000);
    println!("{alone} alone, {beside} beside 999; {:?}", load.buffered(load.client));
    let speed = alone.as_secs_f64() / beside.as_secs_f64();
    assert!(speed >= 0.9, "{speed}");
}

/// A long fat path: what flow control costs against limits that are never reached.
#[test]
fn one_stream_fills_a_gigabit_over_300_ms() {
    const BYTES: u64 = 400_000_000;
    let link = link(1_000, Duration::from_millis(150), 0.0);
    let without_limits = |transport: &mut TransportConfig| {
        transport.receive_window = 1 << 40;
        transport.stream_receive_window = 1 << 40;
        transport.initial_stream_window = Some(1 << 40);
        transport.send_buffer = 1 << 31;
    };
    let (adaptive, unlimited) = thread::scope(|scope| {
        let unlimited = scope.spawn(|| Load::new(2, &link, 10, without_limits).time(BYTES));
        (Load::new(2, &link, 10, |_| {}).time(BYTES), unlimited.join().unwrap())
    });
    println!("{adaptive}, without limits {unlimited}");
    assert!(
        unlimited.as_secs_f64() >= 0.9 * adaptive.as_secs_f64(),
        "{adaptive}, without limits {unlimited}"
    );
}

/// Issue: answers that waited for 30 s behind the data of others.
#[test]
fn answers_do_not_wait_behind_five_hundred_downloads() {
    let rtt = Duration::from_millis(20);
    let link = link(100, rtt / 2, 0.01);
    let mut load = Load::new(3, &link, 1_024, |_| {});
    for _ in 0..500 {
        load.ask(1_000_000, u64::MAX);
        // Programs do not open all at the same instant.
        load.run(Duration::from_millis(2), |_| false);
    }
    assert!(load.run(Duration::from_secs(1_200), Load::all_finished), "all of them end");
    let mut waits: Vec<Duration> =
        load.downloads.values().map(|d| d.answered.expect("it was") - d.asked).collect();
    waits.sort();
    // The queue holds as long a time as a round trip takes.
    let bound = rtt * 3 + rtt;
    println!("median {}, 99 % {}, last {}", waits[250], waits[494], waits[499]);
    assert!(waits[494] <= bound, "99 % of the answers within {}", waits[494]);
    for side in [load.client, load.server] {
        let held = load.buffered(side);
        assert!(held.receive_buffered_max <= 100 << 20 && held.send_buffered <= 64 << 20, "{held:?}");
    }
}
