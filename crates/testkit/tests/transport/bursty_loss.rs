//! Long transfers where losses come in bursts: neither the controller nor recovery takes them for
//! congestion. docs/decisions/0014-bursty-loss.md and 0036-reductions-taken-back.md have the
//! figures.

use std::{ops::RangeInclusive, thread};

use mendpath_testkit::response::{Exchange, PathPlan};
use netsim::{LinkConfig, Loss, Seed, link::QueueSize, loss::GilbertElliott};
use proto::{RecoveryKind, TransportConfig};
use units::{BitRate, Duration, LossRate};

const SIZE: usize = 20 << 20;
/// Good to bad, bad to good, loss while bad.
const CHAINS: [[f64; 3]; 3] = [[0.005, 0.3, 0.5], [0.01, 0.2, 1.0], [0.002, 0.1, 1.0]];

/// 50 Mbit/s and 40 ms, with a buffer of one bandwidth-delay product.
fn path(chain: [f64; 3]) -> PathPlan {
    let link = LinkConfig::new()
        .rate(BitRate::from_mbps(50))
        .delay(Duration::from_millis(20))
        .queue(QueueSize::Packets(170));
    let [good_to_bad, bad_to_good, loss_in_bad] = chain.map(|p| LossRate::new(p).unwrap());
    let channel = GilbertElliott { good_to_bad, bad_to_good, loss_in_bad, loss_in_good: LossRate::ZERO };
    PathPlan::symmetric(link, Loss::GilbertElliott(channel))
}

/// Mean goodput of a transfer for each seed over `paths` such paths as a share of what they carry
/// together, slow start included. The later ones know the paths from the earlier ones.
fn goodput(chain: [f64; 3], paths: usize, seeds: RangeInclusive<u64>, transport: &TransportConfig) -> f64 {
    let plans = vec![path(chain); paths];
    let count = seeds.clone().count() as f64;
    let one = |seed| {
        let mut exchange = Exchange::establish(Seed(seed), &plans, transport);
        let response = exchange.request(SIZE, &plans).unwrap();
        SIZE as f64 * 8e-6 / response.completion.as_secs_f64() / (50 * paths) as f64
    };
    seeds.map(one).sum::<f64>() / count
}

fn transport(recovery: RecoveryKind) -> TransportConfig {
    TransportConfig { recovery, ..TransportConfig::default() }
}

/// 0.91 is what slow start leaves of a path without loss.
#[test]
fn one_path_is_full() {
    for chain in CHAINS {
        let share = goodput(chain, 1, 11..=13, &transport(RecoveryKind::Auto));
        assert!(share >= 0.83, "{chain:?}: {share}");
    }
}

#[test]
fn two_paths_are_full_and_recovery_costs_nothing() {
    for chain in CHAINS {
        let [auto, none] =
            [RecoveryKind::Auto, RecoveryKind::None].map(|kind| goodput(chain, 2, 11..=13, &transport(kind)));
        assert!(auto >= 0.78 && auto >= 0.95 * none, "{chain:?}: {auto}, without recovery {none}");
    }
}

/// A burst that falls into the first round trip is not taken for one that the path does not bear.
#[test]
fn who_knows_the_path_fills_it_no_less() {
    thread::scope(|scope| {
        for (paths, least) in [(1, 0.82), (2, 0.78)] {
            for chain in CHAINS {
                scope.spawn(move || fills_it_no_less(chain, paths, least));
            }
        }
    });
}

fn fills_it_no_less(chain: [f64; 3], paths: usize, least: f64) {
    let [known, anew] = [true, false].map(|careful_resume| {
        let transport = TransportConfig { careful_resume, ..transport(RecoveryKind::Auto) };
        goodput(chain, paths, 11..=50, &transport)
    });
    println!("{paths} paths, {chain:?}: {known:.3}, anew {anew:.3}");
    assert!(anew >= least, "{paths} paths, {chain:?}: {anew}");
    assert!(known >= 0.97 * anew, "{paths} paths, {chain:?}: {known}, anew {anew}");
}
