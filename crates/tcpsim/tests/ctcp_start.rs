//! How CTCP begins where a packet per round trip would take half a minute to fill the link (CTCP
//! Fig. 3b).

use mendpath_tcpsim::{Sim, ctcp::Ctcp};
use netsim::{
    Loss, Seed,
    fabric::{Direction, Failure, Fault, Options, topology::Dumbbell},
};
use units::{BitRate, Duration, Instant, LossRate};

/// Tokens after 5 s over 25 Mbit/s and 100 ms, where 208 packets fill the link, with data lost
/// before it at `rate`.
fn tokens(rate: f64, seed: u64) -> u32 {
    let dumbbell = Dumbbell::new(1, BitRate::from_mbps(25), Duration::from_millis(100), 208);
    let loss = Loss::Bernoulli(LossRate::new(rate).unwrap());
    let failure = Failure::Loss { loss, data_only: true, before_rate: true };
    let faults = vec![Fault { link: Dumbbell::BOTTLENECK, direction: Direction::Both, failure }];
    let options = Options { seed: Seed(seed), faults, ..Options::default() };
    let mut sim = Sim::new(&dumbbell.build(), &options).unwrap();
    let ctcp = sim.add_profile(Ctcp::default().profile());
    let connection = sim.connect(ctcp, 0, 1).unwrap();
    sim.write(connection, 1 << 30, Instant::ORIGIN).unwrap();
    sim.run(Instant::ORIGIN + Duration::from_secs(5)).unwrap();
    sim.window(connection).unwrap()
}

#[test]
fn slow_start_fills_a_long_path_whatever_it_loses() {
    for rate in [0.01, 0.05, 0.2] {
        let least = (1..=6).map(|seed| tokens(rate, seed)).min().unwrap();
        assert!(least >= 180, "loss {rate}: {least}"); // by additive increase alone: at most 58
    }
}
