//! Controllers and schedulers of one's own.

use congestion::{PathWindow, Rtt};
use mendpath_tcpsim::{
    Acked, CongestionKind, OwnController, OwnScheduler, Profile, Scheduler, SchemeKind, Sim, SubflowView,
    Tcp, Unsent, WindowControl, schedulers::SCHEDULERS, schemes::Mptcp,
};
use netsim::{
    Loss, Seed,
    fabric::{Failure, Fault, Options, topology::ParallelPaths},
    loss::{LossModel, OwnLoss, PacketInfo},
};
use units::{Duration, Instant, LossRate};

/// RFC 5681, as the simulator's own.
#[derive(Debug)]
struct Reno {
    window: f64,
    threshold: f64,
}

impl Reno {
    fn halve(&mut self, flight: u32) {
        self.threshold = (f64::from(flight).min(self.window) / 2.0).floor().max(2.0);
    }
}

impl WindowControl for Reno {
    fn window(&self) -> f64 {
        self.window
    }

    fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    fn on_ack(&mut self, acked: &Acked, _rtt: &Rtt, _siblings: &[PathWindow]) {
        if acked.in_recovery || !acked.limited {
            return;
        }
        let mut left = f64::from(acked.segments);
        if self.in_slow_start() {
            let used = left.min(self.threshold - self.window);
            self.window += used;
            left -= used;
        }
        if left > 0.0 {
            self.window += left / self.window;
        }
    }

    fn on_loss(&mut self, _now: Instant, flight: u32) {
        self.halve(flight);
        self.window = self.threshold;
    }

    fn on_timeout(&mut self, _now: Instant, flight: u32, first: bool) {
        if first {
            self.halve(flight);
        }
        self.window = 1.0;
    }

    fn on_idle(&mut self, initial: u32) {
        self.window = self.window.min(f64::from(initial));
    }
}

/// The sub-flow with room and the smallest round-trip time, as the simulator's own.
#[derive(Debug)]
struct LowestRtt;

impl Scheduler for LowestRtt {
    fn choose(&mut self, _now: Instant, _unsent: Unsent, subflows: &[SubflowView]) -> Option<usize> {
        let ready = subflows.iter().filter(|flow| flow.room > 0);
        ready.min_by_key(|flow| (flow.failed, flow.rtt, flow.sub)).map(|flow| flow.sub)
    }
}

/// Names what has no room, or does not exist.
#[derive(Debug)]
struct Nonsense;

impl Scheduler for Nonsense {
    fn choose(&mut self, _now: Instant, _unsent: Unsent, subflows: &[SubflowView]) -> Option<usize> {
        Some(subflows.iter().position(|flow| flow.room == 0).unwrap_or(99))
    }
}

/// Forty flows over three paths, of which the first loses by `loss`: the trace, and how many
/// arrived.
fn run(tcp: Tcp, loss: Loss) -> (u64, usize) {
    let failure = Failure::Loss { loss, data_only: false, before_rate: false };
    let faults = vec![Fault::both(ParallelPaths::path(0), failure)];
    let options = Options { seed: Seed(7), faults, ..Options::default() };
    let mut sim = Sim::new(&ParallelPaths::fuso().build(), &options).unwrap();
    let profile = sim.add_profile(Profile { tcp, scheme: SchemeKind::Mptcp(Mptcp::new(3)) });
    for n in 0..40_u32 {
        let at = Instant::ORIGIN + Duration::from_millis(3) * u64::from(n);
        sim.add_flow(profile, 3 + n % 3, n % 3, u64::from(n) * 9_000 + 1, at).unwrap();
    }
    sim.run_until_done(Instant::ORIGIN + Duration::from_secs(600)).unwrap();
    (sim.fabric().trace_hash(), sim.flows().iter().filter(|flow| flow.finished != Instant::MAX).count())
}

fn lossy() -> Loss {
    Loss::Bernoulli(LossRate::new(0.05).unwrap())
}

#[test]
fn parts_of_ones_own_do_as_the_simulators_with_the_same_arithmetic() {
    let built_in = run(Tcp::fuso(), lossy());
    assert_eq!(built_in.1, 40);
    let reno = |window: u32| -> Box<dyn WindowControl> {
        Box::new(Reno { window: f64::from(window), threshold: f64::INFINITY })
    };
    let congestion = CongestionKind::Custom(OwnController::new("reno", reno));
    let scheduler = Some(OwnScheduler::new("lowest-rtt", |_| Box::new(LowestRtt)));
    assert_eq!(run(Tcp { congestion: congestion.clone(), ..Tcp::fuso() }, lossy()), built_in);
    assert_eq!(run(Tcp { scheduler: scheduler.clone(), ..Tcp::fuso() }, lossy()), built_in);
    assert_eq!(run(Tcp { congestion, scheduler, ..Tcp::fuso() }, lossy()), built_in);
    let seeded = Loss::Custom(OwnLoss::new("bernoulli", |seed| lossy().model(seed)));
    assert_eq!(run(Tcp::fuso(), seeded), built_in);
}

#[test]
fn with_every_scheduler_of_the_house_all_flows_end() {
    // Also with a receive window that binds, which is what some of them look at.
    for receive_window in [65_536, 40] {
        let tcp = Tcp { receive_window, ..Tcp::fuso() };
        let lowest_rtt = run(tcp.clone(), lossy());
        for (name, make) in SCHEDULERS {
            let found = run(Tcp { scheduler: Some(make()), ..tcp.clone() }, lossy());
            assert_eq!(found.1, 40, "{name}");
            let is_alike = *name == "blest" && receive_window > 40;
            assert_eq!(found.0 == lowest_rtt.0, is_alike, "{name}, {receive_window}");
        }
    }
}

#[test]
fn a_model_of_ones_own_decides_packet_by_packet() {
    struct EverySixth;
    impl LossModel for EverySixth {
        fn lose(&mut self, packet: &PacketInfo) -> bool {
            packet.index % 6 == 5
        }
    }
    let own = Loss::Custom(OwnLoss::new("every sixth", |_| Box::new(EverySixth)));
    let listed = Loss::nth((0..1_000_000).filter(|index| index % 6 == 5));
    assert_eq!(run(Tcp::fuso(), own), run(Tcp::fuso(), listed));
}

#[test]
fn a_scheduler_that_names_no_sub_flow_with_room_sends_nothing_and_ends() {
    let scheduler = Some(OwnScheduler::new("nonsense", |_| Box::new(Nonsense)));
    assert_eq!(run(Tcp { scheduler, ..Tcp::fuso() }, Loss::None).1, 0);
}
