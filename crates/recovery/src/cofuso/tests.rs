use super::*;
use crate::unacked::test_view::Packets;

const PATH: PathId = PathId(1);

fn run(first: u64, last: u64, k: u16, m: u16) -> Block {
    Block { first: PacketNumber(first), last: PacketNumber(last), k, m }
}

fn resend(packet: u64) -> Step {
    Step::Resend { packet: PacketNumber(packet) }
}

#[test]
fn worked_example_of_block_sizes() {
    for (uncoded, loss, m_max, k_max, k, m) in [
        (50, 0.15, 3, 255, 20, 3),
        (50, 0.05, 3, 255, 50, 3),
        (12, 0.15, 3, 255, 12, 2),
        (10, 0.02, 1, 30, 10, 1),
        (40, 0.0, 3, 255, 40, 1),
        (40, 0.0, 1, 30, 30, 1),
        (10, 0.5, 3, 255, 6, 3),
        (10, 0.955, 1, 30, 1, 1),
        (10, 0.955, 3, 255, 3, 3),
        (0, 0.3, 3, 255, 0, 0),
    ] {
        let parameters = BlockParameters { m_max, k_max, rounding: Rounding::Ceil };
        assert_eq!(parameters.block_size(uncoded, loss), BlockSize { k, m }, "{uncoded} {loss} {m_max}");
    }
}

#[test]
fn rounding_noise_does_not_cost_a_parity() {
    // M_max / L a hair below 20, and K x L a hair above 3.
    let parameters = BlockParameters::default();
    assert_eq!(parameters.block_size(50, 0.15 + 1e-13), BlockSize { k: 20, m: 3 });
    let parameters = BlockParameters { m_max: 4, ..parameters };
    assert_eq!(parameters.block_size(20, 0.15 + 1e-13), BlockSize { k: 20, m: 3 });
    assert_eq!(parameters.block_size(20, 0.151), BlockSize { k: 20, m: 4 });
}

#[test]
fn rounding_to_nearest_is_an_option() {
    let nearest = BlockParameters { rounding: Rounding::Nearest, ..BlockParameters::default() };
    assert_eq!(nearest.block_size(12, 0.1).m, 1); // 1.2
    assert_eq!(nearest.block_size(15, 0.1).m, 2); // 1.5
    assert_eq!(nearest.block_size(10, 0.01).m, 1); // 0.1, but at least one
}

#[test]
fn sizes_respect_every_limit() {
    for m_max in [0, 1, 2, 3, 100, 255, 256, u16::MAX] {
        for k_max in [0, 1, 30, 255, 256, u16::MAX] {
            let parameters = BlockParameters { m_max, k_max, rounding: Rounding::Ceil };
            for uncoded in [1, 2, 255, 256, 100_000] {
                let mut last_m = 0;
                for loss in [-1.0, 0.0, 1e-12, 0.01, 0.3, 0.9, 1.0] {
                    let size = parameters.block_size(uncoded, loss);
                    assert!(size.k >= 1 && u32::from(size.k) <= uncoded && size.k <= k_max.max(1));
                    assert!(size.m >= 1 && size.m <= m_max.max(1) && size.k + size.m <= MAX_BLOCK);
                    if uncoded == 2 {
                        assert!(size.m >= last_m, "more loss, fewer parities");
                        last_m = size.m;
                    }
                }
            }
        }
    }
}

/// Carries out one step and returns it.
fn take(progress: &mut BlockProgress, loss: f64, packets: &mut Packets) -> Step {
    let step = progress.step(&BlockParameters::default(), loss, PATH, packets);
    progress.on_sent(&step);
    if let Step::Resend { packet } = step {
        packets.mark_resent(PATH, packet);
    }
    step
}

#[test]
fn parities_first_then_copies_then_nothing() {
    let mut packets = Packets::new(PATH, [10, 11, 13, 14]);
    let mut progress = BlockProgress::new();
    let block = run(10, 14, 4, 2);
    assert_eq!(take(&mut progress, 0.3, &mut packets), Step::Parity { block, index: 0 });
    assert_eq!(progress.open_block(), Some(block));
    assert_eq!(take(&mut progress, 0.3, &mut packets), Step::Parity { block, index: 1 });
    assert_eq!((progress.open_block(), progress.highest_coded()), (None, Some(PacketNumber(14))));
    for packet in [10, 11, 13, 14] {
        assert_eq!(take(&mut progress, 0.3, &mut packets), resend(packet));
    }
    assert_eq!(take(&mut progress, 0.3, &mut packets), Step::Nothing);
}

#[test]
fn small_blocks_follow_each_other() {
    // L = 0.955: three packets with three parities, twice, before any copy (COF-A8).
    let mut packets = Packets::new(PATH, 0..6);
    let mut progress = BlockProgress::new();
    let steps: Vec<_> = (0..7).map(|_| take(&mut progress, 0.955, &mut packets)).collect();
    let (a, b) = (run(0, 2, 3, 3), run(3, 5, 3, 3));
    let parities = [(a, 0), (a, 1), (a, 2), (b, 0), (b, 1), (b, 2)];
    let expected = parities.map(|(block, index)| Step::Parity { block, index });
    assert_eq!(steps[..6], expected);
    assert_eq!(steps[6], resend(0));
}

#[test]
fn new_data_pauses_a_block_that_then_goes_on() {
    let mut packets = Packets::new(PATH, 0..10);
    let mut progress = BlockProgress::new();
    let block = run(0, 9, 10, 3);
    assert_eq!(take(&mut progress, 0.3, &mut packets), Step::Parity { block, index: 0 });
    packets.send(PATH, 10..20); // new data, while nothing is asked of the block
    packets.acknowledge(PATH, 0..9);
    assert_eq!(take(&mut progress, 0.3, &mut packets), Step::Parity { block, index: 1 });
    packets.acknowledge(PATH, [9]); // now the block is done: the rest of its parities would be waste
    let next = run(10, 19, 10, 3);
    assert_eq!(take(&mut progress, 0.3, &mut packets), Step::Parity { block: next, index: 0 });
}

#[test]
fn asking_is_free_until_sent() {
    let mut packets = Packets::new(PATH, 0..3);
    let mut progress = BlockProgress::new();
    let ask = |progress: &BlockProgress, packets: &Packets| {
        progress.step(&BlockParameters::default(), 0.0, PATH, packets)
    };
    let first = ask(&progress, &packets);
    assert_eq!(first, ask(&progress, &packets));
    packets.send(PATH, [3]); // the block was not begun, so it takes in the newcomer
    let grown = ask(&progress, &packets);
    assert_eq!(grown, Step::Parity { block: run(0, 3, 4, 1), index: 0 });
    progress.on_sent(&grown);
    assert_eq!(ask(&progress, &packets), resend(0));
}

#[test]
fn abandoned_blocks_are_not_coded_again() {
    let mut packets = Packets::new(PATH, 0..3);
    let mut progress = BlockProgress::new();
    take(&mut progress, 0.955, &mut packets);
    progress.abandon();
    assert_eq!(take(&mut progress, 0.955, &mut packets), resend(0));
}

#[test]
fn other_paths_are_none_of_its_business() {
    let packets = Packets::new(PathId(2), 0..3);
    let step = BlockProgress::new().step(&BlockParameters::default(), 0.1, PATH, &packets);
    assert_eq!(step, Step::Nothing);
}

#[test]
fn random_histories_keep_the_invariants() {
    for seed in 1..=100_u64 {
        let mut state = seed;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let (mut packets, mut progress) = (Packets::default(), BlockProgress::new());
        let (mut next_number, mut last): (u64, Option<(Block, u16)>) = (0, None);
        for _ in 0..300 {
            match below(4) {
                0 => {
                    let count = below(20);
                    packets.send(PATH, next_number..next_number + count);
                    next_number += count + below(2); // some numbers are not source packets
                }
                1 => packets.acknowledge(PATH, (0..below(next_number + 1)).filter(|n| n % 3 != 0)),
                2 if below(10) == 0 => packets.acknowledge(PATH, 0..next_number),
                _ => match take(&mut progress, below(100) as f64 / 100.0, &mut packets) {
                    Step::Parity { block, index } => {
                        match last {
                            Some((before, i)) if before == block => assert_eq!(index, i + 1, "seed {seed}"),
                            Some((before, _)) => {
                                assert!(index == 0 && block.first > before.last, "seed {seed}")
                            }
                            None => assert_eq!(index, 0, "seed {seed}"),
                        }
                        assert!(index < block.m && block.k + block.m <= MAX_BLOCK);
                        assert!(packets.any_unacked(PATH, block.first, block.last));
                        last = Some((block, index));
                    }
                    Step::Resend { packet } => assert!(Some(packet) <= progress.highest_coded()),
                    Step::Nothing => assert_eq!(packets.oldest_resendable(PATH), None),
                },
            }
        }
    }
}
