use super::*;
use crate::Rtt;

/// Paths with a queue each or together, in which a hold shows as it does in a network: the model
/// that a hold asks about.
struct Model {
    bottlenecks: Bottlenecks,
    now: Instant,
    /// Which queue a path stands in.
    queue_of: Vec<usize>,
    /// What stands there without a hold, in ms.
    queue: f64,
    /// Deviation of each sample, in ms.
    noise: f64,
    steady: bool,
    /// A path that carries little: a packet in so many steps.
    seldom: Option<(usize, u64)>,
    /// A path that loses packets in each hold.
    upset: Option<usize>,
    steps: u64,
    /// The last hold, and when it began.
    hold: Option<(Hold, Instant)>,
    holds: usize,
    random: u64,
}

/// Packets of a round trip, window in bytes, round-trip time without queue.
const STEP: Duration = Duration::from_millis(2);
const WINDOW: u64 = 60_000;
const MIN: f64 = 25.0;

impl Model {
    fn new(queue_of: &[usize]) -> Self {
        Self {
            bottlenecks: Bottlenecks::default(),
            now: Instant::ORIGIN,
            queue_of: queue_of.to_vec(),
            queue: 20.0,
            noise: 0.2,
            steady: true,
            seldom: None,
            upset: None,
            steps: 0,
            hold: None,
            holds: 0,
            random: 1,
        }
    }

    fn draw(&mut self) -> f64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as f64 / f64::from(1_u32 << 31) - 0.5
    }

    /// What a packet that leaves now waits in a queue, in ms: less while one of its paths is held.
    fn delay(&mut self, path: usize) -> f64 {
        let members = self.queue_of.iter().filter(|queue| **queue == self.queue_of[path]).count();
        let held = self.hold.filter(|(hold, began)| (*began..hold.until).contains(&self.now));
        let taken = match held {
            Some((hold, _)) if self.queue_of[hold.path as usize] == self.queue_of[path] => {
                let share = 1.0 - hold.window as f64 / WINDOW as f64;
                share * (MIN + self.queue) / members as f64
            }
            _ => 0.0,
        };
        (self.queue - taken).max(0.0) + self.noise * 2.0 * self.draw()
    }

    fn run(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        while self.now < end {
            self.now += STEP;
            self.steps += 1;
            for path in 0..self.queue_of.len() {
                if self.seldom.is_some_and(|(of, every)| of == path && !self.steps.is_multiple_of(every)) {
                    continue;
                }
                let rtt = Duration::from_secs_f64((MIN + self.delay(path)).max(MIN) / 1e3);
                let smoothed = Duration::from_secs_f64((MIN + self.queue) / 1e3);
                // A sample arrives a round trip after it was sent; that of packets sent then.
                let ack = Ack {
                    now: self.now + rtt,
                    largest_sent_at: self.now,
                    adjusted_rtt: rtt,
                    rtt: Rtt {
                        latest: rtt,
                        smoothed,
                        min: Duration::from_secs_f64(MIN / 1e3),
                        ..Rtt::default()
                    },
                    ..Ack::default()
                };
                let held = self.hold.is_some_and(|(hold, began)| (began..hold.until).contains(&self.now));
                let upset = held && self.upset == Some(path);
                let load = Load { window: WINDOW, steady: self.steady && !upset };
                if let Some(hold) = self.bottlenecks.on_ack(path as u32, &ack, load) {
                    assert!(hold.window >= WINDOW / 2 && hold.window < WINDOW, "{hold:?}");
                    assert!(self.hold.is_none_or(|(last, _)| ack.now >= last.until), "one at a time");
                    self.hold = Some((hold, ack.now));
                    self.holds += 1;
                }
            }
        }
    }
}

#[test]
fn queues_that_fall_together_are_one_and_others_are_not() {
    let mut model = Model::new(&[0, 0, 1]);
    model.run(10);
    let found = &model.bottlenecks;
    assert!(found.share(0, 1) && found.share(1, 0) && !found.share(0, 2) && !found.share(1, 2));
    assert_eq!([0, 1, 2].map(|path| found.group(path)), [Some(0), Some(0), None]);
    assert!(found.share(2, 2) && found.share(7, 7), "a path shares its own");
    // All is settled by then: one hold in ten seconds.
    let so_far = model.holds;
    assert!(so_far <= 12, "{so_far}");
    model.run(100);
    assert!((8..=22).contains(&(model.holds - so_far)), "{}", model.holds - so_far);
}

#[test]
fn equal_queues_in_lockstep_are_not_one() {
    // Both grow and fall at the same moments; only a hold tells them apart.
    let mut model = Model::new(&[0, 1]);
    for round in 0..120 {
        model.queue = 10.0 + f64::from(round % 12);
        model.run(1);
    }
    assert!(!model.bottlenecks.share(0, 1));
    assert!(model.bottlenecks.experiments() > 3);
}

#[test]
fn a_route_that_changes_is_found_out_and_no_single_experiment_decides() {
    let mut model = Model::new(&[0, 0]);
    model.run(10);
    assert!(model.bottlenecks.share(0, 1));
    let holds = model.holds;
    model.queue_of = vec![0, 1];
    while model.bottlenecks.share(0, 1) {
        model.run(1);
        assert!(model.now < Instant::ORIGIN + Duration::from_secs(60), "never found out");
    }
    assert!(model.holds >= holds + 2);
    model.run(20);
    let holds = model.holds;
    model.queue_of = vec![0, 0];
    while !model.bottlenecks.share(0, 1) {
        model.run(1);
        assert!(model.now < Instant::ORIGIN + Duration::from_secs(120), "never found out");
    }
    assert!(model.holds >= holds + 3);
}

#[test]
fn nobody_is_held_without_a_queue_a_second_path_or_data() {
    let mut empty = Model::new(&[0, 0]);
    empty.queue = 0.0;
    empty.noise = 0.0;
    let mut single = Model::new(&[0]);
    let mut lacking = Model::new(&[0, 0]);
    lacking.steady = false;
    for model in [&mut empty, &mut single, &mut lacking] {
        model.run(20);
        assert_eq!(model.bottlenecks.experiments(), 0);
    }
}

#[test]
fn a_path_that_carries_little_keeps_nobody_from_being_settled() {
    let mut model = Model::new(&[0, 0, 1]);
    model.seldom = Some((2, 100));
    model.run(10);
    assert!(model.bottlenecks.share(0, 1));
    let holds = model.holds;
    model.run(100);
    assert!(model.holds - holds < 22, "{}", model.holds - holds);
}

#[test]
fn what_a_loss_has_spoilt_is_asked_again_soon() {
    let mut model = Model::new(&[0, 0]);
    model.upset = Some(1);
    model.run(1);
    assert!(model.holds > 0 && !model.bottlenecks.share(0, 1));
    model.upset = None;
    // Not after the ten seconds for which nothing is asked once all is known.
    model.run(4);
    assert!(model.bottlenecks.share(0, 1));
    // What spoils each answer makes holds rare all the same.
    let mut model = Model::new(&[0, 0]);
    model.upset = Some(1);
    model.run(100);
    assert!(model.holds < 25, "{}", model.holds);
}

#[test]
fn noise_that_hides_the_answer_makes_holds_rare_and_decides_nothing() {
    let mut model = Model::new(&[0, 1]);
    model.noise = 40.0;
    model.run(300);
    assert!(!model.bottlenecks.share(0, 1));
    assert!(model.bottlenecks.experiments() < 60, "{}", model.bottlenecks.experiments());
}

#[test]
fn a_path_that_is_gone_or_moved_is_forgotten() {
    let mut model = Model::new(&[0, 0]);
    model.run(10);
    assert!(model.bottlenecks.share(0, 1));
    model.bottlenecks.forget(1);
    assert_eq!(model.bottlenecks.group(0), None);
    model.run(10);
    assert!(model.bottlenecks.share(0, 1), "it is found out anew");
}

#[test]
fn an_idle_connection_keeps_what_it_knows_and_asks_again_when_it_is_used() {
    let mut model = Model::new(&[0, 0]);
    model.run(10);
    let holds = model.holds;
    model.now += Duration::from_secs(600);
    assert!(model.bottlenecks.share(0, 1));
    model.run(2);
    assert!(model.holds > holds, "what is old is tried again soon");
    assert!(model.bottlenecks.share(0, 1));
}

#[test]
fn there_are_no_more_watches_than_the_bound() {
    let mut model = Model::new(&[0; MAX_PATHS + 4]);
    model.run(60);
    assert_eq!(model.bottlenecks.watches.len(), MAX_PATHS);
    assert_eq!(model.bottlenecks.group(MAX_PATHS as u32), None);
    assert!(model.bottlenecks.share(0, MAX_PATHS as u32 - 1));
}
