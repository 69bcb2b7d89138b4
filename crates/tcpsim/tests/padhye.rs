//! Goodput under independent loss beside the formula of Padhye, Firoiu, Towsley and Kurose,
//! "Modeling TCP Throughput" (SIGCOMM 1998), equation 30, with every segment acknowledged (b = 1).
//!
//! The formula is of Reno without SACK, in whose model a loss takes the rest of its round with it.
//! Where losses are rare both agree; SACK recovers several losses of a window in one round trip and
//! gets more where they are frequent (docs/validation.md has the comparison with ns-2 and ns-3,
//! which do the same).

use mendpath_tcpsim::{Profile, Sim, Tcp};
use netsim::{
    Loss, Seed,
    fabric::{Direction, Failure, Fault, Options, topology::Dumbbell},
};
use units::{BitRate, Duration, Instant, LossRate};

/// Segments per second by the formula.
fn formula(loss: f64, rtt: f64, timeout: f64) -> f64 {
    let halving = rtt * (2.0 * loss / 3.0).sqrt();
    let waiting = timeout * (3.0 * (3.0 * loss / 8.0).sqrt()).min(1.0) * loss * (1.0 + 32.0 * loss * loss);
    1.0 / (halving + waiting)
}

/// Segments per second of one flow over 100 Mbit/s and 50 ms.
fn simulated(loss: f64, seconds: u64) -> f64 {
    let network = Dumbbell::new(1, BitRate::from_mbps(100), Duration::from_millis(50), 10_000);
    let failure = Failure::Loss {
        loss: Loss::Bernoulli(LossRate::new(loss).unwrap()),
        data_only: true,
        before_rate: false,
    };
    let fault = Fault { link: Dumbbell::BOTTLENECK, direction: Direction::Forward, failure };
    let options = Options { seed: Seed(1), faults: vec![fault], ..Options::default() };
    let mut sim = Sim::new(&network.build(), &options).unwrap();
    let tcp = sim.add_profile(Profile::tcp(Tcp::default()));
    let connection = sim.connect(tcp, 0, 1).unwrap();
    sim.write(connection, 1 << 40, Instant::ORIGIN).unwrap();
    sim.run(Instant::ORIGIN + Duration::from_secs(seconds)).unwrap();
    sim.connection(connection).unwrap().acknowledged() as f64 / seconds as f64
}

#[test]
fn goodput_follows_the_formula() {
    let runs = [(0.001, 400), (0.002, 400), (0.005, 500), (0.01, 500), (0.02, 1_000), (0.05, 2_000)];
    for (loss, seconds) in runs {
        let ratio = simulated(loss, seconds) / formula(loss, 0.0501, 0.2);
        println!("{loss}: {ratio:.3}");
        assert!((0.9..1.25).contains(&ratio), "{loss}: {ratio}");
    }
}
