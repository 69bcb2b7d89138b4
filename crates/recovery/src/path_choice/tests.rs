use super::*;

fn sample(path: u32, loss: f64, rtt_ms: u64) -> PathSample {
    let rtt = Duration::from_millis(rtt_ms);
    PathSample { path: PathId(path), loss, rtt, spare: true, protectable: true, ever_sent: true }
}

/// Worst and best of both schemes, after checking that the order of the samples does not matter.
fn choose(samples: &[PathSample]) -> [(Option<u32>, Option<u32>); 2] {
    let id = |path: Option<PathId>| path.map(|path| path.0);
    let answer = |samples: &[PathSample]| {
        let weights = cofuso::Weights::default();
        [
            (id(fuso::worst(samples)), id(fuso::best(samples))),
            (id(cofuso::worst(samples, weights)), id(cofuso::best(samples, weights))),
        ]
    };
    let reversed: Vec<_> = samples.iter().rev().copied().collect();
    assert_eq!(answer(samples), answer(&reversed));
    answer(samples)
}

#[test]
fn loss_decides_for_fuso_and_loss_with_rtt_for_cofuso() {
    let samples = [sample(0, 0.02, 10), sample(1, 0.01, 100), sample(2, 0.005, 50)];
    // CoFUSO: 0.5 + 0.05, 0.25 + 0.5, 0.125 + 0.25.
    assert_eq!(choose(&samples), [(Some(0), Some(2)), (Some(1), Some(2))]);
}

#[test]
fn without_loss_the_rtt_decides() {
    let samples = [sample(0, 0.0, 20), sample(1, 0.0, 30), sample(2, 0.0, 10)];
    assert_eq!(choose(&samples), [(Some(1), Some(2)); 2]);
}

#[test]
fn ties_go_by_rtt_and_then_by_id() {
    let tied_loss = [sample(0, 0.1, 20), sample(1, 0.1, 30), sample(2, 0.1, 10)];
    assert_eq!(choose(&tied_loss), [(Some(1), Some(2)); 2]);
    let tied = [sample(4, 0.1, 20), sample(3, 0.1, 20)];
    assert_eq!(choose(&tied), [(Some(3), Some(3)); 2]);
    // CoFUSO's metric can tie while its parts do not: 0.5 + 0.25 on both. The larger RTT is the
    // worse path.
    let [_, cofuso] = choose(&[sample(0, 0.2, 50), sample(1, 0.1, 100)]);
    assert_eq!(cofuso, (Some(1), Some(0)));
}

#[test]
fn only_protectable_paths_need_help_and_only_spare_ones_give_it() {
    let mut samples = [sample(0, 0.5, 10), sample(1, 0.1, 10), sample(2, 0.0, 10)];
    samples[0].protectable = false;
    samples[2].spare = false;
    assert_eq!(choose(&samples), [(Some(1), Some(1)); 2]);
    samples.iter_mut().for_each(|s| s.spare = false);
    assert_eq!(choose(&samples), [(Some(1), None); 2]);
    samples.iter_mut().for_each(|s| s.protectable = false);
    assert_eq!(choose(&samples), [(None, None); 2]);
}

#[test]
fn never_used_paths_come_last() {
    let mut samples = [sample(0, 0.0, 0), sample(1, 0.9, 900), sample(2, 0.0, 0)];
    samples[0].ever_sent = false;
    samples[2].ever_sent = false;
    assert_eq!(choose(&samples)[0].1, Some(1));
    assert_eq!(choose(&samples)[1].1, Some(1));
    samples[1].ever_sent = false;
    assert_eq!(choose(&samples)[0].1, Some(0)); // all never used: the lowest id
    assert_eq!(choose(&samples)[1].1, Some(0));
}

#[test]
fn one_path_is_worst_and_best() {
    assert_eq!(choose(&[sample(7, 0.3, 10)]), [(Some(7), Some(7)); 2]);
    assert_eq!(choose(&[]), [(None, None); 2]);
}
