//! Windows that follow the reader, and memory that nobody can hold alone.

use super::{super::recv::MOST_AHEAD, *};

const MIB: u64 = 1 << 20;
const RTT: Duration = Duration::from_millis(100);

fn limits(memory: u64, streams: u64) -> StreamsConfig {
    StreamsConfig {
        receive_window: memory,
        stream_receive_window: memory / 2,
        initial_stream_window: initial_stream_window(memory, streams),
        send_buffer: 1 << 30,
        max_concurrent_bidi: streams,
        max_concurrent_uni: 0,
    }
}

/// A server that takes uploads of a client without limits of its own, in round trips of [`RTT`].
struct Uploads {
    client: Streams,
    server: Streams,
    now: Instant,
}

impl Uploads {
    fn new(server: &StreamsConfig) -> Self {
        let (client, server) = pair(&StreamsConfig { send_buffer: 1 << 30, ..config() }, server);
        Self { client, server, now: Instant::ORIGIN }
    }

    fn open(&mut self) -> StreamId {
        self.client.open(Dir::Bi).expect("the server allows it")
    }

    /// One round trip: the client sends up to `rate` bytes on a stream, the server reads them if it
    /// `reads`; returns what arrived.
    fn round(&mut self, id: StreamId, rate: usize, reads: bool) -> u64 {
        let sent = self.client.write(id, &vec![7; rate]).unwrap_or(0);
        self.server.note_network(Network { now: self.now, rtt: RTT, need: 0 });
        transfer(&mut self.client, &mut self.server);
        self.now += RTT;
        self.server.note_network(Network { now: self.now, rtt: RTT, need: 0 });
        if reads {
            assert!(read_all(&mut self.server, id).0.len() >= sent);
        }
        transfer(&mut self.server, &mut self.client);
        let held = self.server.stats();
        assert!(held.receive_buffered_max <= self.server.config.receive_window);
        sent as u64
    }

    /// Bytes per round trip once the window has had time to grow.
    fn speed(&mut self, id: StreamId, rate: usize) -> u64 {
        (0..12).map(|_| self.round(id, rate, true)).last().unwrap()
    }
}

#[test]
fn a_window_grows_with_the_rate_and_no_further() {
    let server = limits(128 * MIB, 512);
    let mut uploads = Uploads::new(&server);
    let id = uploads.open();
    assert!(uploads.round(id, 1 << 30, false) == server.initial_stream_window, "small at first");
    assert_eq!(uploads.speed(id, 1_000_000), 1_000_000, "10 MB/s");
    let window = uploads.server.stats().largest_window;
    assert!((2_000_000..6 << 20).contains(&window), "{window}");
    assert_eq!(uploads.speed(id, 20_000_000), 20_000_000);
}

/// A sender whose bytes from `next` on come in round trips, as many as the window has room for.
struct Holed {
    server: Streams,
    id: StreamId,
    now: Instant,
    next: u64,
}

impl Holed {
    fn new(next: u64) -> Self {
        let (_, server) = pair(&config(), &limits(128 * MIB, 64));
        let id = StreamId::new(Side::Client, Dir::Bi, 0);
        Self { server, id, now: Instant::ORIGIN, next }
    }

    fn window(&self) -> u64 {
        self.server.recv.get(&self.id).map_or(0, |half| half.window.size())
    }

    /// One round trip in which up to `len` bytes come; how many did.
    fn round(&mut self, len: u64) -> u64 {
        self.now += RTT;
        self.server.note_network(Network { now: self.now, rtt: RTT, need: 0 });
        let allowed = self.server.recv.get(&self.id).map_or(60_000, |half| half.window.remaining());
        let end = self.next + len.min(allowed);
        for start in (self.next..end).step_by(1_000) {
            let piece = vec![7; (end - start).min(1_000) as usize];
            self.server.on_stream(self.id, start, &piece, false).unwrap();
        }
        let came = end - core::mem::replace(&mut self.next, end);
        self.server.write_control(&mut Vec::new(), usize::MAX, &mut SentStreamFrames::default());
        came
    }

    fn read(&mut self) {
        _ = read_all(&mut self.server, self.id);
        self.server.write_control(&mut Vec::new(), usize::MAX, &mut SentStreamFrames::default());
    }
}

#[test]
fn what_waits_for_a_hole_widens_the_window_as_far_as_the_reader_has_earned() {
    let mut sender = Holed::new(0);
    let mut read = 0;
    for rate in [60_000, 300_000, 600_000, 1_200_000] {
        read += sender.round(rate);
        sender.read();
    }
    let before = sender.window();
    // A packet is lost, and nothing can be read.
    sender.next += 1_000;
    sender.round(2_400_000);
    sender.round(2_400_000);
    assert!(sender.window() >= before + 4_000_000, "{before}, {}", sender.window());
    // It never comes.
    while sender.round(16 << 20) > 0 {}
    let held = sender.next - read;
    assert!(held <= 4 * (MOST_AHEAD + 1) * read && held < 64 * MIB, "{held} after {read}");
}

/// In slow start, two round trips before the next update is heard.
#[test]
fn behind_a_hole_there_is_room_for_what_doubles_twice() {
    let mut sender = Holed::new(0);
    for doubled in 0..5 {
        assert_eq!(sender.round(60_000 << doubled), 60_000 << doubled);
        sender.read();
    }
    sender.next += 1_000;
    assert_eq!(sender.round(60_000 << 5), 60_000 << 5);
    let room = sender.window() - (sender.next - sender.server.recv[&sender.id].window.consumed());
    assert!(room >= (60_000 << 6) + (60_000 << 7), "{room}");
}

#[test]
fn what_is_left_unread_widens_nothing_nor_does_a_hole_before_all() {
    for from in [0, 1] {
        let mut sender = Holed::new(from);
        sender.round(30_000);
        let window = sender.window();
        while sender.round(30_000) > 0 {}
        assert_eq!(sender.window(), window);
    }
}

#[test]
fn streams_that_nobody_reads_take_nothing_from_the_others() {
    // 1 Gbit/s at 300 ms.
    const RATE: usize = 37_500_000;
    let mut uploads = Uploads::new(&limits(128 * MIB, 1_024));
    for _ in 0..999 {
        let id = uploads.open();
        uploads.round(id, 100_000, false);
        assert!(uploads.round(id, 100_000, false) < 100_000);
    }
    let last = uploads.open();
    assert_eq!(uploads.speed(last, RATE), RATE as u64);
}

/// What each had when it stopped stays promised: later ones get less, but always something, and
/// memory holds.
#[test]
fn readers_that_stop_at_full_speed_leave_a_share_for_the_next() {
    let mut uploads = Uploads::new(&limits(128 * MIB, 64));
    let mut before = u64::MAX;
    for number in 0..40 {
        let id = uploads.open();
        let speed = uploads.speed(id, 4_000_000);
        assert!(speed <= before);
        assert!(number > 5 || speed == 4_000_000, "{number}: {speed}");
        assert!(speed >= initial_stream_window(128 * MIB, 64));
        before = speed;
        for _ in 0..3 {
            uploads.round(id, 20 << 20, false);
        }
    }
}

/// Windows that are no longer needed are given up once memory gets short.
#[test]
fn memory_comes_back_from_those_who_slow_down() {
    let mut uploads = Uploads::new(&limits(128 * MIB, 64));
    let ids: Vec<_> = (0..6).map(|_| uploads.open()).collect();
    for &id in &ids {
        uploads.speed(id, 12_000_000);
    }
    let grown = uploads.server.stats().windows_grown;
    assert!(grown > 64 * MIB, "{grown}");
    for _ in 0..60 {
        for &id in &ids {
            uploads.round(id, 1_000_000, true);
        }
    }
    let later = uploads.server.stats().windows_grown;
    assert!(later <= 64 * MIB, "{later}");
    for &id in &ids {
        uploads.client.finish(id).unwrap();
        uploads.round(id, 0, true);
    }
    assert_eq!(uploads.server.stats().windows_grown, 0);
}

#[test]
fn a_stream_that_we_open_has_a_large_window_with_its_first_bytes() {
    let ours = limits(128 * MIB, 64);
    let (mut client, mut server) = pair(&ours, &ours);
    let id = client.open(Dir::Bi).unwrap();
    assert!(!client.has_pending(), "the peer hears of a stream with its first bytes");
    client.write(id, b"request").unwrap();
    transfer(&mut client, &mut server);
    assert_eq!(server.write(id, &vec![1; 1 << 21]), Ok(1 << 21));
    // Those who are not read share an eighth of the memory.
    let unread: Vec<StreamId> = (1..64).map(|_| client.open(Dir::Bi).unwrap()).collect();
    for &id in &unread {
        client.write(id, b"request").unwrap();
    }
    transfer(&mut client, &mut server);
    let granted: usize = unread.iter().map(|&id| server.write(id, &vec![1; 4 << 20]).unwrap()).sum();
    assert!(granted as u64 <= (128 / 8) * MIB + 64 * ours.initial_stream_window, "{granted}");
}

#[test]
fn writers_share_the_send_buffer_and_newcomers_find_room() {
    let sender = StreamsConfig { send_buffer: 64 * MIB, ..config() };
    let receiver = StreamsConfig {
        receive_window: 1 << 40,
        stream_receive_window: 1 << 40,
        initial_stream_window: 1 << 40,
        max_concurrent_uni: 1_000,
        ..config()
    };
    let (mut client, _) = pair(&sender, &receiver);
    let fill = |client: &mut Streams| {
        let id = client.open(Dir::Uni).unwrap();
        let data = vec![0; 1 << 20];
        let mut taken = 0;
        while let Ok(n) = client.write(id, &data) {
            taken += n as u64;
        }
        taken
    };
    assert_eq!(fill(&mut client), 42 * MIB);
    let mut least = u64::MAX;
    for _ in 1..600 {
        least = least.min(fill(&mut client));
        assert!(client.stats().send_buffered <= 64 * MIB);
    }
    assert!(least >= 16 << 10, "{least}");
    // The network needs little: so does the buffer, but answers always find room.
    let (mut client, _) = pair(&sender, &receiver);
    client.note_network(Network { now: Instant::ORIGIN, rtt: RTT, need: 500_000 });
    assert_eq!(fill(&mut client), 1_750_000);
    for _ in 1..600 {
        assert!(fill(&mut client) >= 16 << 10);
    }
}

/// A frame that has become moot is no news, and would be taken for some by whoever asks what leaves next.
#[test]
fn a_stream_that_nobody_reads_asks_for_no_window_with_its_first_bytes() {
    let ours = limits(128 * MIB, 64);
    let (mut client, _) = pair(&ours, &ours);
    let id = client.open(Dir::Bi).unwrap();
    client.stop(id, 0u8.into()).unwrap();
    let (_, sent) = packet(&mut client, 100);
    assert_eq!(sent.control, [StreamControl::StopSending(id)]);
    client.write(id, b"a message").unwrap();
    assert!(client.has_data() && !client.has_control());
}
