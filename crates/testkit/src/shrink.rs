//! Makes a failing scenario small: whatever can be taken away or made simpler while it still fails,
//! is (delta debugging, after Zeller and Hildebrandt, "Simplifying and isolating failure-inducing
//! input", 2002).

use netsim::{LinkConfig, Loss};
use units::{BitRate, Duration, LossRate};

use crate::{
    scenario::{ETHERNET, Fault, Flow, FlowEnd, Operation, Scenario, StreamPlan},
    text::settings,
};

/// A smaller scenario that fails like `scenario`, which must fail. `fails` is asked at most
/// `budget` times; it should say yes to the same kind of failure only, see
/// [`Failure::kind`](crate::Failure::kind), since a smaller scenario may well fail for another
/// reason.
pub fn shrink(scenario: &Scenario, budget: u32, fails: impl FnMut(&Scenario) -> bool) -> Scenario {
    let mut shrinker = Shrinker { best: scenario.clone(), left: budget, fails };
    loop {
        let changed = shrinker.operations()
            | shrinker.paths()
            | shrinker.settings()
            | shrinker.links()
            | shrinker.details()
            | shrinker.pauses();
        if !changed || shrinker.left == 0 {
            return shrinker.best;
        }
    }
}

struct Shrinker<F> {
    /// The smallest scenario that failed.
    best: Scenario,
    left: u32,
    fails: F,
}

impl<F: FnMut(&Scenario) -> bool> Shrinker<F> {
    /// Takes the candidate if it fails.
    fn attempt(&mut self, candidate: Scenario) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let failed = (self.fails)(&candidate);
        if failed {
            self.best = candidate;
        }
        failed
    }

    /// The best scenario with a change, if `change` says that it made one.
    fn attempt_change(&mut self, change: impl FnOnce(&mut Scenario) -> bool) -> bool {
        let mut candidate = self.best.clone();
        change(&mut candidate) && self.attempt(candidate)
    }

    /// Leaves out operations: halves of them, quarters, and so on to single ones.
    fn operations(&mut self) -> bool {
        let mut changed = false;
        let mut size = self.best.operations.len().div_ceil(2);
        while size > 0 {
            let mut from = 0;
            while from < self.best.operations.len() {
                let gone = self.attempt_change(|s| {
                    let to = (from + size).min(s.operations.len());
                    s.operations.drain(from..to);
                    true
                });
                changed |= gone;
                // What comes next has moved into the gap.
                from += if gone { 0 } else { size };
            }
            size /= 2;
        }
        changed
    }

    /// Leaves out paths, with what is about them.
    fn paths(&mut self) -> bool {
        let mut changed = false;
        for path in (0..self.best.paths.len()).rev() {
            changed |= self.attempt_change(|s| s.paths.len() > 1 && remove_path(s, path));
        }
        changed
    }

    /// Gives settings their defaults.
    fn settings(&mut self) -> bool {
        let mut changed = false;
        for name in settings::NAMES {
            changed |= self.attempt_change(|s| settings::reset(&mut s.client, name));
            changed |= self.attempt_change(|s| settings::reset(&mut s.server, name));
        }
        changed
    }

    /// Makes links plain.
    fn links(&mut self) -> bool {
        let mut changed = false;
        for path in 0..self.best.paths.len() {
            changed |=
                self.attempt_change(|s| core::mem::replace(&mut s.paths[path].mtu, ETHERNET) != ETHERNET);
            changed |= self
                .attempt_change(|s| core::mem::replace(&mut s.paths[path].local_mtu, ETHERNET) != ETHERNET);
            changed |= self.attempt_change(|s| {
                let (up, down) = (s.paths[path].up.clone(), &mut s.paths[path].down);
                core::mem::replace(down, up.clone()) != up
            });
            for simpler in SIMPLER_LINKS {
                for way in [0, 1] {
                    changed |= self.attempt_change(|s| {
                        let path = &mut s.paths[path];
                        let link = if way == 0 { &mut path.up } else { &mut path.down };
                        let before = link.clone();
                        simpler(link);
                        *link != before
                    });
                }
            }
        }
        changed
    }

    /// Makes operations simpler and earlier.
    fn details(&mut self) -> bool {
        let mut changed = false;
        for i in 0..self.best.operations.len() {
            while simpler(&self.best.operations[i].1)
                .into_iter()
                .any(|smaller| self.attempt_change(|s| set_operation(s, i, smaller)))
            {
                changed = true;
            }
            for time in [Duration::ZERO, rounded(self.best.operations[i].0)] {
                changed |= self.attempt_change(|s| {
                    let earlier = time < s.operations[i].0;
                    s.operations[i].0 = time;
                    s.operations.sort_by_key(|(at, _)| *at);
                    earlier
                });
            }
        }
        changed
    }

    fn pauses(&mut self) -> bool {
        let pause =
            |side: usize| move |s: &mut Scenario| !core::mem::take(&mut s.reader_pause[side]).is_zero();
        self.attempt_change(pause(0)) | self.attempt_change(pause(1))
    }
}

fn set_operation(scenario: &mut Scenario, i: usize, operation: Operation) -> bool {
    scenario.operations[i].1 = operation;
    true
}

/// Removes a path and what is about it; those behind it move up.
fn remove_path(scenario: &mut Scenario, gone: usize) -> bool {
    scenario.paths.remove(gone);
    scenario.operations.retain(|(_, o)| o.path() != Some(gone));
    for (_, operation) in &mut scenario.operations {
        if let Some(path) = operation.path_mut().filter(|path| **path > gone) {
            *path -= 1;
        }
    }
    true
}

/// A time without its last digits.
fn rounded(time: Duration) -> Duration {
    let steps = [100_000_000, 1_000_000, 1_000];
    let step = steps.into_iter().find(|step| time.as_nanos() > *step).unwrap_or(1);
    Duration::from_nanos(time.as_nanos() / step * step)
}

type Simplify = fn(&mut LinkConfig);

const SIMPLER_LINKS: &[Simplify] = &[
    |link| link.loss = Loss::None,
    |link| link.duplicate = LossRate::ZERO,
    |link| (link.jitter, link.reorder) = (Duration::ZERO, false),
    |link| link.schedule.clear(),
    |link| link.queue = None,
    |link| link.ecn_threshold = None,
    |link| link.rate = Some(BitRate::from_mbps(10)),
    |link| link.delay = Duration::from_millis(20),
];

/// Operations that do less, the simplest first.
fn simpler(operation: &Operation) -> Vec<Operation> {
    match operation {
        Operation::Stream(plan) => simpler_streams(plan).into_iter().map(Operation::Stream).collect(),
        &Operation::Datagrams { side, count, size } if count > 1 => [1, count / 2]
            .into_iter()
            .filter(|n| *n < count)
            .map(|count| Operation::Datagrams { side, count, size })
            .collect(),
        &Operation::Fault { path, way, skip, count, what } => {
            let fault = |skip, count, what| Operation::Fault { path, way, skip, count, what };
            let candidates = [
                fault(0, count, what),
                fault(skip / 2, count, what),
                fault(skip, 1, what),
                fault(skip, count.div_ceil(2), what),
                fault(skip, count, simpler_fault(what)),
            ];
            candidates.into_iter().filter(|c| c != operation).collect()
        }
        &Operation::Sleep { side, time } if time > Duration::from_millis(1) => {
            vec![Operation::Sleep { side, time: rounded(time / 2) }]
        }
        &Operation::PauseReading { side, time } if time > Duration::from_millis(1) => {
            vec![Operation::PauseReading { side, time: rounded(time / 2) }]
        }
        _ => Vec::new(),
    }
}

fn simpler_fault(what: Fault) -> Fault {
    match what {
        Fault::Flip(n) => Fault::Flip(n.div_ceil(2)),
        Fault::Duplicate(time) => Fault::Duplicate(rounded(time)),
        Fault::Detour(time) => Fault::Detour(rounded(time)),
        Fault::Replay(time) => Fault::Replay(rounded(time)),
        Fault::Append(n) => Fault::Append(n.div_ceil(2)),
        Fault::Drop | Fault::Truncate(_) => what,
    }
}

fn simpler_streams(plan: &StreamPlan) -> Vec<StreamPlan> {
    let mut candidates = vec![
        StreamPlan { priority: 0, ..plan.clone() },
        StreamPlan { back: Flow::EMPTY, ..plan.clone() },
        StreamPlan { forward: Flow::EMPTY, ..plan.clone() },
    ];
    for (flow, back) in [(plan.forward, false), (plan.back, true)] {
        let with = |flow| {
            if back {
                StreamPlan { back: flow, ..plan.clone() }
            } else {
                StreamPlan { forward: flow, ..plan.clone() }
            }
        };
        candidates.push(with(Flow { end: FlowEnd::Finish, ..flow }));
        candidates.push(with(Flow { bytes: flow.bytes / 2, end: halved(flow.end) }));
        candidates.push(with(Flow { end: halved(flow.end), ..flow }));
    }
    candidates.retain(|candidate| candidate != plan);
    candidates
}

fn halved(end: FlowEnd) -> FlowEnd {
    match end {
        FlowEnd::Finish | FlowEnd::Unread => end,
        FlowEnd::Reset { after } => FlowEnd::Reset { after: after / 2 },
        FlowEnd::Stop { after } => FlowEnd::Stop { after: after / 2 },
    }
}

#[cfg(test)]
mod tests {
    use proto::Side;

    use super::*;

    /// A failure that needs a large stream of the server and a fault on some path: all else goes
    /// away.
    #[test]
    fn what_the_failure_does_not_need_is_gone() {
        let fails = |s: &Scenario| {
            let large = |o: &Operation| matches!(o, Operation::Stream(p) if p.opener == Side::Server && p.back.bytes >= 700);
            let fault = |o: &Operation| matches!(o, Operation::Fault { count, .. } if *count >= 2);
            let has = |wanted: &dyn Fn(&Operation) -> bool| s.operations.iter().any(|(_, o)| wanted(o));
            has(&large) && has(&fault)
        };
        let failing = (0..1_000).map(Scenario::generate).filter(fails).find(|s| s.paths.len() > 2);
        let failing = failing.expect("one of a thousand");
        let mut asked = 0;
        let small = shrink(&failing, 5_000, |candidate| {
            asked += 1;
            fails(candidate)
        });
        assert!(fails(&small) && asked <= 5_000);
        assert_eq!((small.paths.len(), small.operations.len()), (1, 2), "{small}");
        for (at, operation) in &small.operations {
            assert!(at.is_zero());
            match operation {
                Operation::Stream(plan) => {
                    assert!(
                        (700..1_400).contains(&plan.back.bytes) && plan.forward == Flow::EMPTY,
                        "{small}"
                    );
                }
                Operation::Fault { skip, count, .. } => assert_eq!((*skip, *count), (0, 2), "{small}"),
                _ => panic!("{small}"),
            }
        }
        let settings =
            small.to_string().lines().filter(|l| l.starts_with("client") || l.starts_with("server")).count();
        assert_eq!(settings, 0, "{small}");
    }

    #[test]
    fn the_budget_is_kept() {
        let mut asked = 0;
        let scenario = Scenario::generate(3);
        shrink(&scenario, 7, |_| {
            asked += 1;
            true
        });
        assert_eq!(asked, 7);
    }
}
