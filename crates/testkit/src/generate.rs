//! Random scenarios: one seed, one scenario.

use netsim::{LinkConfig, Loss, Rng, Seed, link::OutageKind, link::QueueSize, loss::GilbertElliott};
use proto::{ControllerKind, Dir, RecoveryKind, SchedulerKind, Side, TransportConfig};
use units::{BitRate, Duration, LossRate};

use crate::scenario::{
    ETHERNET, EcnTreatment, Fault, Flow, FlowEnd, Operation, PathPlan, Scenario, StreamPlan, Way,
    default_transport,
};

/// Draws of the shapes that scenarios need.
struct Draw(Rng);

impl Draw {
    fn chance(&mut self, p: f64) -> bool {
        self.0.chance(p)
    }

    /// Uniform, both ends included.
    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    /// Uniform in the logarithm, both ends included; `low` is at least 1.
    fn scale(&mut self, low: u64, high: u64) -> u64 {
        let (low_log, high_log) = ((low as f64).ln(), (high as f64).ln());
        let drawn = (low_log + (high_log - low_log) * self.0.next_f64()).exp();
        (drawn.round() as u64).clamp(low, high)
    }

    fn micros(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.between(low, high))
    }

    fn millis(&mut self, low: u64, high: u64) -> Duration {
        self.micros(low * 1_000, high * 1_000)
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.0.below(choices.len() as u64) as usize]
    }

    fn side(&mut self) -> Side {
        self.of(&[Side::Client, Side::Server])
    }
}

impl Scenario {
    /// The scenario of a seed.
    pub fn generate(seed: u64) -> Self {
        let mut draw = Draw(Seed(seed).stream("scenario"));
        let count = draw.between(1, 4) as usize;
        let mut paths: Vec<_> = (0..count).map(|_| path(&mut draw)).collect();
        let mut client = transport(&mut draw);
        let mut server = transport(&mut draw);
        if draw.chance(0.08) {
            client.max_paths = 1;
        }
        if draw.chance(0.08) {
            server.max_paths = 1;
        }
        let least = client.initial_datagram_size.max(server.initial_datagram_size);
        for path in &mut paths {
            if draw.chance(0.3) {
                path.mtu = draw.between(u64::from(least), u64::from(ETHERNET)) as u16;
            }
        }
        let budget = budget(&paths, &client, &server);
        let mut operations = Vec::new();
        streams(&mut draw, budget, &mut operations);
        path_changes(&mut draw, count, least, &mut operations);
        faults(&mut draw, count, &mut operations);
        if draw.chance(0.3) {
            let (side, most) = (draw.side(), draw.scale(1, 300) as u32);
            let size = draw.scale(8, 1_400) as usize;
            operations.push((draw.millis(0, 500), Operation::Datagrams { side, count: most, size }));
        }
        if draw.chance(0.05) {
            operations.push((draw.millis(0, 1_500), Operation::Close(draw.side())));
        }
        operations.sort_by_key(|(at, _)| *at);
        let mut pause = || if draw.chance(0.15) { draw.millis(1, 300) } else { Duration::ZERO };
        let reader_pause = [pause(), pause()];
        additions(&mut draw, &paths, [&mut client, &mut server], &mut operations);
        // Whatever else the language learns, the same seeds have these.
        let mut draw = Draw(Seed(seed).stream("jumbo"));
        if draw.chance(0.1) {
            jumbo(&mut draw, &mut paths[0], [&mut client, &mut server], &mut operations);
        }
        operations.sort_by_key(|(at, _)| *at);
        Self { seed, paths, client, server, operations, reader_pause }
    }
}

fn path(draw: &mut Draw) -> PathPlan {
    let mut link = LinkConfig::new()
        .rate(BitRate(draw.scale(1_000, 200_000) * 1_000))
        .delay(Duration::from_micros(draw.scale(1_000, 150_000)));
    if draw.chance(0.3) {
        let jitter = draw.micros(0, link.delay.as_micros());
        link = link.jitter(jitter).reordering(draw.chance(0.6));
    }
    if draw.chance(0.3) {
        link = link.queue(QueueSize::Packets(draw.scale(2, 30)));
    }
    if draw.chance(0.2) {
        link = link.ecn_threshold(QueueSize::Packets(draw.scale(1, 60)));
    }
    if draw.chance(0.2) {
        let rate = probability(0.05 * draw.0.next_f64());
        link = link.duplicate(rate);
    }
    if draw.chance(0.15) {
        let (from, kind) = (draw.millis(0, 4_000), draw.of(&[OutageKind::Hold, OutageKind::Drop]));
        link = link.outage(from, from + draw.millis(10, 3_000), kind);
    }
    let (up, down) = (loss(draw), loss(draw));
    PathPlan { up: link.clone().loss(up), down: link.loss(down), mtu: ETHERNET, local_mtu: ETHERNET }
}

/// Nothing, a little, or up to 30 %, independently or in bursts.
fn loss(draw: &mut Draw) -> Loss {
    if draw.chance(0.35) {
        return Loss::None;
    }
    let share = draw.0.next_f64();
    let rate = (0.3 * share * share).max(1e-4);
    if draw.chance(0.6) {
        return Loss::Bernoulli(probability(rate));
    }
    let leave = 1.0 / (1.5 + 6.0 * draw.0.next_f64());
    Loss::GilbertElliott(GilbertElliott::gilbert(
        probability(leave * rate / (1.0 - rate)),
        probability(leave),
    ))
}

/// With four digits, for people who read scenarios.
fn probability(p: f64) -> LossRate {
    LossRate::new((p * 1e4).round() / 1e4).expect("a probability")
}

fn transport(draw: &mut Draw) -> TransportConfig {
    let mut t = TransportConfig {
        recovery: draw.of(RecoveryKind::ALL),
        controller: draw.of(ControllerKind::ALL),
        scheduler: draw.of(SchedulerKind::ALL),
        max_datagram_size: draw.of(&[1_200, 1_252, 1_350, 1_452, 1_452]),
        initial_window_packets: draw.of(&[2, 10, 10, 10, 32]),
        initial_rtt: draw.millis(50, 1_000).into(),
        ..default_transport()
    };
    // Half of them send large datagrams from the start, the others find out what passes.
    t.initial_datagram_size = if draw.chance(0.5) { t.max_datagram_size } else { 1_200 };
    t.max_paths = draw.between(2, 8) as u32;
    if draw.chance(0.5) {
        t.recovery = RecoveryKind::Cofuso;
    }
    if draw.chance(0.2) {
        t.keep_alive = Some(draw.millis(200, 5_000).into());
    }
    if draw.chance(0.25) {
        t.receive_window = draw.scale(1_000, 200_000);
        t.stream_receive_window = draw.scale(500, t.receive_window);
    }
    if draw.chance(0.2) {
        t.send_buffer = draw.scale(1_000, 200_000);
    }
    if draw.chance(0.2) {
        t.max_concurrent_bidi = draw.between(1, 4);
        t.max_concurrent_uni = draw.between(1, 4);
    }
    if draw.chance(0.2) {
        t.datagram_send_buffer = draw.scale(2_000, 50_000) as usize;
        t.datagram_receive_buffer = draw.scale(2_000, 50_000) as usize;
    }
    t.ecn = draw.chance(0.9);
    if draw.chance(0.2) {
        t.key_update_interval = draw.scale(10, 3_000);
    }
    t.repair.accept = draw.chance(0.85);
    if draw.chance(0.4) {
        t.repair.m_max = draw.between(1, 32) as u8;
        t.repair.k_max = draw.scale(1, 255) as u8;
    }
    if draw.chance(0.2) {
        t.repair.decoder_memory = draw.scale(1, 60_000) - 1;
    }
    if draw.chance(0.2) {
        t.repair.source_memory = draw.scale(1, 60_000) - 1;
    }
    t.reset_stream_at = draw.chance(0.5);
    t
}

/// Stream bytes that the scenario's paths carry in reasonable time, simulated and real.
fn budget(paths: &[PathPlan], client: &TransportConfig, server: &TransportConfig) -> u64 {
    let lossy = |p: &PathPlan| p.up.loss.stationary().get().max(p.down.loss.stationary().get());
    let worst = paths.iter().map(lossy).fold(0.0, f64::max);
    let window = client.receive_window.min(server.receive_window);
    let window = window.min(client.stream_receive_window).min(server.stream_receive_window);
    let by_loss = if worst > 0.12 {
        150_000
    } else if worst > 0.04 {
        500_000
    } else {
        2_000_000
    };
    by_loss.min(window.saturating_mul(100))
}

fn streams(draw: &mut Draw, budget: u64, operations: &mut Vec<(Duration, Operation)>) {
    let count = if draw.chance(0.1) { draw.between(20, 60) } else { draw.between(1, 8) };
    let mut left = budget;
    for _ in 0..count {
        let mut flow = || {
            let bytes = match draw.between(0, 9) {
                0 => 0,
                1 => 1,
                2..=5 => draw.scale(1, 20_000),
                _ => draw.scale(1_000, budget),
            };
            let bytes = bytes.min(left);
            left -= bytes;
            let end = match draw.between(0, 19) {
                0..=1 => FlowEnd::Reset { after: draw.between(0, bytes) },
                2..=3 => FlowEnd::Stop { after: draw.between(0, bytes) },
                _ => FlowEnd::Finish,
            };
            Flow { bytes, end }
        };
        let (forward, back) = (flow(), flow());
        let (dir, back) = if draw.chance(0.3) { (Dir::Uni, Flow::EMPTY) } else { (Dir::Bi, back) };
        let priority = if draw.chance(0.2) { draw.between(0, 4) as i32 - 2 } else { 0 };
        let plan = StreamPlan { opener: draw.side(), dir, forward, back, priority };
        let at = if draw.chance(0.5) { Duration::ZERO } else { draw.millis(0, 2_000) };
        operations.push((at, Operation::Stream(plan)));
    }
}

/// Paths that are added, removed, cut, restored and changed while data flows. One side alone
/// removes paths: where both do, each may remove the other's last one, which ends the connection.
fn path_changes(draw: &mut Draw, count: usize, least_mtu: u16, operations: &mut Vec<(Duration, Operation)>) {
    let closer = draw.side();
    for path in 0..count {
        if path > 0 {
            let at = if draw.chance(0.6) { Duration::ZERO } else { draw.millis(0, 3_000) };
            operations.push((at, Operation::OpenPath(path)));
        }
        if draw.chance(if path == 0 { 0.15 } else { 0.3 }) {
            let at = draw.millis(50, 3_000);
            operations.push((at, Operation::ClosePath { side: closer, path }));
            if draw.chance(0.5) {
                operations.push((at + draw.millis(0, 3_000), Operation::OpenPath(path)));
            }
        }
        if draw.chance(0.25) {
            let (at, kind) = (draw.millis(0, 2_000), draw.of(&[OutageKind::Hold, OutageKind::Drop]));
            let way = draw.of(&[Way::Up, Way::Down, Way::Both, Way::Both]);
            operations.push((at, Operation::Cut { path, way, kind }));
            operations.push((at + draw.millis(20, 4_000), Operation::Restore { path, way }));
        }
        if draw.chance(0.15) {
            let (side, at) = (draw.side(), draw.millis(0, 2_000));
            operations.push((at, Operation::Backup { side, path, backup: true }));
            if draw.chance(0.5) {
                operations
                    .push((at + draw.millis(0, 2_000), Operation::Backup { side, path, backup: false }));
            }
        }
        if draw.chance(0.15) {
            let change = match draw.between(0, 3) {
                0 => Operation::Rate(path, BitRate(draw.scale(1_000, 200_000) * 1_000)),
                1 => Operation::Mtu(path, draw.between(u64::from(least_mtu), u64::from(ETHERNET)) as u16),
                2 => Operation::Delay(path, draw.millis(1, 150)),
                _ => Operation::Loss(path, loss(draw)),
            };
            operations.push((draw.millis(0, 3_000), change));
        }
    }
}

/// What befalls single packets and whole hosts, in some scenarios.
fn faults(draw: &mut Draw, paths: usize, operations: &mut Vec<(Duration, Operation)>) {
    if draw.chance(0.35) {
        for _ in 0..draw.between(1, 6) {
            let path = draw.between(0, paths as u64 - 1) as usize;
            let what = match draw.between(0, 6) {
                0 => Fault::Drop,
                1 => Fault::Duplicate(draw.millis(0, 500)),
                2 => Fault::Detour(draw.millis(0, 500)),
                3 => Fault::Flip(draw.scale(1, 100) as u32),
                4 => Fault::Truncate(draw.scale(1, 1_400) as u32),
                5 => Fault::Append(draw.scale(1, 200) as u32),
                _ => Fault::Replay(if draw.chance(0.5) { Duration::ZERO } else { draw.millis(0, 1_000) }),
            };
            let way = draw.of(&[Way::Up, Way::Down, Way::Both]);
            let (skip, count) = (draw.scale(1, 200) as u32 - 1, draw.scale(1, 20) as u32);
            // Whose copy of the first packet of all arrives first has the connection: nothing tells
            // the server who is the client.
            let races_the_first = matches!(what, Fault::Replay(_)) && path == 0;
            let at = if draw.chance(0.3) { Duration::ZERO } else { draw.millis(0, 2_000) };
            let at = if races_the_first { at.max(Duration::from_secs(1)) } else { at };
            operations.push((at, Operation::Fault { path, way, skip, count, what }));
        }
    }
    if draw.chance(0.15) {
        use EcnTreatment::{Bleach, Drop, MarkAll};
        let path = draw.between(0, paths as u64 - 1) as usize;
        let treatment = draw.of(&[Some(Bleach), Some(Drop), Some(MarkAll), None]);
        operations.push((draw.millis(0, 2_000), Operation::Ecn(path, treatment)));
    }
    if draw.chance(0.15) {
        for _ in 0..draw.between(1, 3) {
            operations.push((draw.millis(0, 2_000), Operation::UpdateKeys(draw.side())));
        }
    }
    if draw.chance(0.1) {
        let side = draw.of(&[None, Some(Side::Client), Some(Side::Server)]);
        let time = Duration::from_micros(draw.scale(1_000, 8_000_000));
        operations.push((draw.millis(0, 2_000), Operation::Sleep { side, time }));
    }
}

/// What the language learnt later; drawn last, so that seeds keep what they had.
fn additions(
    draw: &mut Draw,
    paths: &[PathPlan],
    [client, server]: [&mut TransportConfig; 2],
    operations: &mut Vec<(Duration, Operation)>,
) {
    if draw.chance(0.1) {
        for (_, operation) in operations.iter_mut() {
            if let Operation::ClosePath { side, .. } = operation {
                *side = draw.side();
            }
        }
    }
    if draw.chance(0.12) {
        unread_streams(draw, [client, server], operations);
    }
    if draw.chance(0.1) {
        let (side, at, time) = (draw.side(), draw.millis(0, 1_500), draw.millis(100, 5_000));
        operations.push((at, Operation::PauseReading { side, time }));
    }
    let any = |draw: &mut Draw| draw.between(0, paths.len() as u64 - 1) as usize;
    if draw.chance(0.1) {
        let (path, at) = (any(draw), draw.millis(0, 1_000));
        let share = probability(0.1 * draw.0.next_f64());
        operations.push((at, Operation::Corrupt(path, share)));
        if draw.chance(0.5) {
            operations.push((at + draw.millis(100, 4_000), Operation::Corrupt(path, LossRate::ZERO)));
        }
    }
    if draw.chance(0.08) {
        let (path, mut at) = (any(draw), draw.millis(0, 1_000));
        let (way, kind) =
            (draw.of(&[Way::Up, Way::Down, Way::Both]), draw.of(&[OutageKind::Hold, OutageKind::Drop]));
        let (down, up) = (draw.millis(20, 800), draw.millis(50, 1_000));
        for _ in 0..draw.between(3, 8) {
            operations.push((at, Operation::Cut { path, way, kind }));
            operations.push((at + down, Operation::Restore { path, way }));
            at += down + up;
        }
    }
    if draw.chance(0.08) {
        let (path, mut at) = (any(draw), draw.millis(0, 1_000));
        // Nobody can reach a client behind a new port that sends nothing.
        client.keep_alive.get_or_insert(draw.millis(200, 3_000).into());
        for _ in 0..draw.between(1, 5) {
            operations.push((at, Operation::Rebind(path)));
            at += draw.millis(50, 1_500);
        }
    }
    // Others must be able to do without the path.
    let removes = operations.iter().any(|(_, o)| matches!(o, Operation::ClosePath { .. }));
    if draw.chance(0.06) && paths.len() > 1 && !removes {
        let path = draw.between(1, paths.len() as u64 - 1) as usize;
        operations.push((draw.millis(0, 2_000), Operation::Mtu(path, draw.between(300, 1_199) as u16)));
    }
}

/// The first path is so short and so busy that its hosts ask for the sizes that their own links
/// carry, which the network between them carries as well, or does not, or for a while.
fn jumbo(
    draw: &mut Draw,
    path: &mut PathPlan,
    sides: [&mut TransportConfig; 2],
    operations: &mut Vec<(Duration, Operation)>,
) {
    let (rate, delay) = (BitRate(draw.scale(20_000, 2_000_000) * 1_000), draw.micros(10, 1_000));
    let spared = draw.chance(0.7);
    for link in [&mut path.up, &mut path.down] {
        let plain = if spared { LinkConfig::new() } else { link.clone().jitter(Duration::ZERO) };
        *link = plain.rate(rate).delay(delay);
    }
    path.local_mtu = draw.of(&[4_000, 8_972, 8_972, 16_000, 65_507]);
    path.mtu = match draw.between(0, 3) {
        0 => ETHERNET,
        1 => draw.between(u64::from(ETHERNET), u64::from(path.local_mtu)) as u16,
        _ => path.local_mtu,
    };
    for transport in sides {
        transport.max_datagram_size = TransportConfig::default().max_datagram_size;
        if draw.chance(0.3) {
            transport.jumbo_datagram_size = draw.scale(1_452, 65_000) as u16;
        }
        transport.receive_window = transport.receive_window.max(100_000);
        transport.stream_receive_window = transport.stream_receive_window.max(50_000);
    }
    // More than it takes to be busy, and to be seen to lose nothing.
    let opener = draw.side();
    let plan = StreamPlan::exchange(opener, draw.scale(1, 2_000_000), draw.scale(400_000, 4_000_000));
    operations.push((Duration::ZERO, Operation::Stream(plan)));
    for (at, operation) in operations.iter_mut() {
        if matches!(operation, Operation::OpenPath(_)) && at.is_zero() {
            *at = Duration::from_micros(draw.scale(1_000, 2_000_000));
        }
    }
    if draw.chance(0.3) {
        let mtu = draw.between(u64::from(ETHERNET), u64::from(path.mtu)) as u16;
        operations.push((draw.millis(0, 500), Operation::Mtu(0, mtu)));
    }
}

/// Streams that are read last. What they hold of their receiver's window and of its streams leaves
/// enough for the others.
fn unread_streams(
    draw: &mut Draw,
    sides: [&TransportConfig; 2],
    operations: &mut Vec<(Duration, Operation)>,
) {
    if sides.iter().any(|t| t.max_concurrent_bidi.min(t.max_concurrent_uni) < 100) {
        return;
    }
    let opener = draw.side();
    let receiver = sides[1 - opener as usize];
    let streams = draw.between(1, 4);
    for _ in 0..streams {
        let bytes = draw.scale(1, 100_000);
        if bytes.min(receiver.stream_receive_window) > receiver.receive_window / 2 / streams {
            continue;
        }
        let forward = Flow { bytes, end: FlowEnd::Unread };
        let plan = StreamPlan { forward, dir: Dir::Uni, ..StreamPlan::exchange(opener, 0, 0) };
        operations.push((draw.millis(0, 500), Operation::Stream(plan)));
    }
}
