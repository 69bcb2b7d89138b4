//! Long transfers where losses come in bursts: neither the controller nor recovery takes them for
//! congestion. docs/decisions/0014-bursty-loss.md has the figures.

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
    PathPlan { up: link.clone(), down: link, loss: Loss::GilbertElliott(channel) }
}

/// Mean goodput of three transfers over `paths` such paths as a share of what they carry together,
/// slow start included.
fn goodput(chain: [f64; 3], paths: usize, recovery: RecoveryKind) -> f64 {
    let transport = TransportConfig { recovery, ..TransportConfig::default() };
    let plans = vec![path(chain); paths];
    let one = |seed| {
        let mut exchange = Exchange::establish(Seed(seed), &plans, &transport);
        let response = exchange.request(SIZE, &plans).unwrap();
        SIZE as f64 * 8e-6 / response.completion.as_secs_f64() / (50 * paths) as f64
    };
    (11..=13).map(one).sum::<f64>() / 3.0
}

/// 0.89 is what slow start leaves of a path without loss.
#[test]
fn one_path_is_full() {
    for chain in CHAINS {
        let share = goodput(chain, 1, RecoveryKind::Auto);
        assert!(share >= 0.75, "{chain:?}: {share}");
    }
}

#[test]
fn two_paths_are_full_and_recovery_costs_nothing() {
    for chain in CHAINS {
        let [auto, none] = [RecoveryKind::Auto, RecoveryKind::None].map(|kind| goodput(chain, 2, kind));
        assert!(auto >= 0.7 && auto >= 0.95 * none, "{chain:?}: {auto}, without recovery {none}");
    }
}
