use super::*;

const RTT: Duration = Duration::from_millis(100);
const SIZE: u64 = 1_000;

fn at(ms: u64) -> Instant {
    Instant::ORIGIN + Duration::from_millis(ms)
}

/// A schedule and the numbers of the packets sent on each path.
struct Sender {
    schedule: BlockSchedule,
    next: [u64; 2],
}

impl Sender {
    fn new(limits: Limits) -> Self {
        Self { schedule: BlockSchedule::new(limits), next: [0; 2] }
    }

    /// Sends what is asked for on `path`, if anything.
    fn send(&mut self, now: Instant, path: u32, waiting: bool, loss: f64) -> Option<Packet> {
        let packet = self.schedule.next(now, waiting.then_some(SIZE), |_| loss)?;
        let number = &mut self.next[path as usize];
        self.schedule.on_sent(now, packet, PathId(path), PacketNumber(*number), SIZE, RTT);
        *number += 1;
        Some(packet)
    }

    /// Sends until nothing more is asked for.
    fn drain(&mut self, now: Instant, waiting: bool, loss: f64) -> Vec<Packet> {
        core::iter::from_fn(|| self.send(now, 0, waiting, loss)).collect()
    }
}

fn blocks_of(packets: &[Packet], block: u64) -> usize {
    packets.iter().filter(|p| p.block() == block).count()
}

#[test]
fn worked_example_of_fresh_blocks() {
    for (loss, packets) in [(0.0, 32), (0.01, 33), (0.05, 34), (0.1, 36), (0.2, 40)] {
        let mut sender = Sender::new(Limits { max_blocks: 3, ..Limits::default() });
        let sent = sender.drain(at(0), true, loss);
        for block in 0..3 {
            assert_eq!(blocks_of(&sent, block), packets, "{loss}"); // CTCP-A19: 33 at 1 %
        }
        let sources = sent.iter().filter(|p| matches!(p, Packet::Source { .. })).count();
        assert_eq!(sources, 96);
        assert!(sent.is_sorted_by_key(|p| p.block()), "earlier blocks come first");
    }
}

#[test]
fn a_short_last_block_counts_with_its_own_size() {
    let mut sender = Sender::new(Limits::default());
    for index in 0..5 {
        assert_eq!(sender.send(at(0), 0, true, 0.1), Some(Packet::Source { block: 0, index }));
    }
    let coded = |index| Packet::Coded { block: 0, index };
    assert_eq!(sender.drain(at(0), false, 0.1), [coded(0)]); // 0.9 * 6 >= 5
    assert_eq!(sender.schedule.block(0), Some((5, true)));
    // Closed by its combination: later data begins another block.
    assert_eq!(sender.send(at(1), 0, true, 0.1), Some(Packet::Source { block: 1, index: 0 }));
    assert_eq!(sender.schedule.close_block(), None);
    assert_eq!(sender.send(at(1), 0, true, 0.0), Some(Packet::Source { block: 2, index: 0 }));
    assert_eq!(sender.schedule.on_acked(at(2), PathId(0), PacketNumber(7), RTT), None);
    assert_eq!(sender.schedule.close_block(), Some(2)); // all of it has arrived already
}

#[test]
fn without_loss_nothing_is_coded() {
    let mut sender = Sender::new(Limits::default());
    let mut sent = Vec::new();
    for _ in 0..70 {
        sent.extend(sender.send(at(0), 0, true, 0.0));
    }
    assert_eq!(sender.drain(at(0), false, 0.0), []);
    assert!(sent.iter().all(|p| matches!(p, Packet::Source { .. })));
    for number in 0..64 {
        let completes = sender.schedule.on_acked(at(100), PathId(0), PacketNumber(number), RTT);
        assert_eq!(completes, [(31, 0), (63, 1)].iter().find(|(n, _)| *n == number).map(|(_, block)| *block));
    }
    assert_eq!((sender.schedule.current(), sender.schedule.memory()), (2, 6 * SIZE));
}

#[test]
fn lost_sources_are_replaced_by_combinations_of_the_earliest_block() {
    let mut sender = Sender::new(Limits::default());
    for _ in 0..64 {
        sender.send(at(0), 0, true, 0.0);
    }
    sender.schedule.on_lost(PathId(0), PacketNumber(40));
    sender.schedule.on_lost(PathId(0), PacketNumber(7));
    sender.schedule.on_lost(PathId(0), PacketNumber(8));
    let coded = |block, index| Packet::Coded { block, index };
    assert_eq!(sender.drain(at(50), false, 0.0), [coded(0, 0), coded(0, 1), coded(1, 0)]);
    // What was ACKed of a later block counts (CTCP-A11), and a covered current block is left alone
    // (CTCP-A10).
    for number in 32..60 {
        sender.schedule.on_acked(at(100), PathId(0), PacketNumber(number), RTT);
    }
    assert_eq!(sender.drain(at(100), false, 0.0), []);
}

#[test]
fn overdue_packets_count_no_more_but_may_still_be_acknowledged() {
    let mut sender = Sender::new(Limits { block_size: 4, ..Limits::default() });
    for _ in 0..4 {
        sender.send(at(0), 0, true, 0.0);
    }
    assert_eq!(sender.schedule.deadline(), Some(at(160)));
    assert_eq!(sender.drain(at(159), false, 0.0), []);
    assert_eq!(sender.drain(at(160), false, 0.0).len(), 4);
    for number in 0..3 {
        assert_eq!(sender.schedule.on_acked(at(161), PathId(0), PacketNumber(number), RTT), None);
    }
    assert_eq!(sender.schedule.on_acked(at(161), PathId(0), PacketNumber(3), RTT), Some(0));
}

#[test]
fn what_is_on_the_fly_weighs_by_its_path() {
    let mut sender = Sender::new(Limits { block_size: 10, ..Limits::default() });
    for n in 0..10 {
        sender.send(at(0), n % 2, true, 0.0);
    }
    let loss = |path: PathId| if path == PathId(1) { 0.4 } else { 0.0 };
    let mut needed = 0;
    while let Some(packet) = sender.schedule.next(at(0), None, loss) {
        sender.schedule.on_sent(at(0), packet, PathId(0), PacketNumber(100 + needed), SIZE, RTT);
        needed += 1;
    }
    assert_eq!(needed, 2); // 5 + 0.6 * 5 + 2 = 10
    sender.schedule.on_path_closed(PathId(1));
    assert_eq!(sender.drain(at(0), false, 0.0).len(), 3);
}

#[test]
fn a_time_out_empties_the_pipe() {
    let mut sender = Sender::new(Limits { block_size: 4, ..Limits::default() });
    for _ in 0..4 {
        sender.send(at(0), 0, true, 0.0);
    }
    sender.schedule.on_timeout();
    assert_eq!(sender.schedule.deadline(), None);
    assert_eq!(sender.drain(at(10), false, 0.0).len(), 4);
}

#[test]
fn a_path_that_does_not_answer_leaves_the_others_alone() {
    let mut sender = Sender::new(Limits { block_size: 4, ..Limits::default() });
    for n in 0..4 {
        sender.send(at(0), u32::from(n == 3), true, 0.0);
    }
    sender.schedule.on_path_timeout(PathId(1));
    assert_eq!(sender.drain(at(10), false, 0.0).len(), 1);
    assert_eq!(sender.schedule.on_acked(at(11), PathId(1), PacketNumber(0), RTT), None);
    for number in 0..3 {
        assert_eq!(
            sender.schedule.on_acked(at(11), PathId(0), PacketNumber(number), RTT),
            (number == 2).then_some(0),
            "a late ACK counts"
        );
    }
}

#[test]
fn a_block_that_is_not_decoded_in_time_gets_one_more() {
    let mut sender = Sender::new(Limits { block_size: 4, ..Limits::default() });
    for _ in 0..4 {
        sender.send(at(0), 0, true, 0.0);
    }
    sender.schedule.on_lost(PathId(0), PacketNumber(0));
    assert_eq!(sender.drain(at(50), false, 0.0), [Packet::Coded { block: 0, index: 0 }]);
    for number in 1..=4 {
        assert_eq!(sender.schedule.on_acked(at(200), PathId(0), PacketNumber(number), RTT), None);
    }
    sender.schedule.on_deadline(at(250)); // what was sent last was acknowledged long ago
    assert_eq!(sender.schedule.deadline(), Some(at(360)));
    assert_eq!(sender.drain(at(359), false, 0.0), []);
    assert_eq!(sender.drain(at(360), false, 0.0), [Packet::Coded { block: 0, index: 1 }]);
    assert_eq!(sender.drain(at(365), false, 0.0), []);
    sender.schedule.on_decoded(0);
    sender.schedule.on_deadline(at(520)); // that of the last combination
    assert_eq!(
        (sender.schedule.current(), sender.schedule.open_blocks(), sender.schedule.deadline()),
        (1, 0, None)
    );
}

#[test]
fn reports_of_degrees_of_freedom_count_for_their_block_only() {
    let mut sender = Sender::new(Limits { block_size: 4, ..Limits::default() });
    for _ in 0..4 {
        sender.send(at(0), 0, true, 0.0);
    }
    sender.schedule.on_timeout();
    sender.schedule.on_dof(0, 3);
    sender.schedule.on_dof(0, 2); // older
    sender.schedule.on_dof(9, 4); // never opened
    assert_eq!(sender.drain(at(0), false, 0.0).len(), 1);
}

#[test]
fn limits_of_memory_and_blocks_stop_sources_until_a_block_is_decoded() {
    for limits in [
        Limits { block_size: 4, memory: 10 * SIZE, ..Limits::default() },
        Limits { block_size: 4, max_blocks: 2, ..Limits::default() },
    ] {
        let mut sender = Sender::new(limits);
        let sent = sender.drain(at(0), true, 0.0);
        let most = if limits.max_blocks == 2 { 8 } else { 10 };
        assert_eq!((sent.len(), sender.schedule.memory()), (most, most as u64 * SIZE));
        sender.schedule.on_decoded(1); // not the first: memory is free, but the block counts until the first is decoded
        sender.schedule.on_decoded(0);
        assert!(matches!(sender.send(at(1), 0, true, 0.0), Some(Packet::Source { block: 2, .. })));
    }
}

#[test]
fn packets_of_a_block_on_the_fly_are_bounded() {
    let mut sender = Sender::new(Limits { block_size: 4, max_blocks: 1, ..Limits::default() });
    assert_eq!(sender.drain(at(0), true, 0.999).len(), 16);
}

/// Random losses and ACK delays: every block is decoded in the end, and no limit is ever exceeded.
#[test]
fn every_block_is_decoded_whatever_is_lost() {
    for seed in 1..=30_u64 {
        let mut random = seed;
        let mut below = |n: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % n
        };
        let limits = Limits { block_size: 8, max_blocks: 4, memory: 30 * SIZE, ..Limits::default() };
        let mut sender = Sender::new(limits);
        let (mut waiting, mut dof) = (100, BTreeMap::<u64, u32>::new());
        let mut flying: Vec<(u64, u32, u64, Packet)> = Vec::new(); // due, path, number, packet
        for now in 0..20_000 {
            let path = below(2) as u32;
            if flying.len() < 40
                && let Some(packet) = sender.send(at(now), path, waiting > 0, 0.2)
            {
                waiting -= u64::from(matches!(packet, Packet::Source { .. }));
                flying.push((now + 80 + below(60), path, sender.next[path as usize] - 1, packet));
            }
            if waiting == 0 {
                sender.schedule.close_block();
            }
            let (due, rest) = flying.into_iter().partition::<Vec<_>, _>(|(due, ..)| *due <= now);
            flying = rest;
            for (_, path, number, packet) in due {
                if below(5) == 0 {
                    sender.schedule.on_lost(PathId(path), PacketNumber(number));
                    continue;
                }
                sender.schedule.on_acked(at(now), PathId(path), PacketNumber(number), RTT);
                let held = dof.entry(packet.block()).or_default();
                *held += u32::from(below(100) > 0); // one in a hundred is not innovative
                if sender
                    .schedule
                    .block(packet.block())
                    .is_some_and(|(k, closed)| closed && *held >= u32::from(k))
                {
                    sender.schedule.on_decoded(packet.block());
                }
            }
            assert!(
                sender.schedule.memory() <= limits.memory
                    && sender.schedule.open_blocks() <= limits.max_blocks
            );
        }
        assert_eq!(
            (waiting, sender.schedule.open_blocks(), sender.schedule.memory()),
            (0, 0, 0),
            "seed {seed}"
        );
        assert!(sender.schedule.transmissions.is_empty());
    }
}
