//! Event queues beside each other, for docs/decisions/0009: the fabric's (a wheel whose buckets are as
//! wide as events are frequent, and a heap), its four-ary heap with a hole alone, the same without the
//! hole, the standard library's binary heap, and a calendar queue (a timing wheel of sorted buckets of
//! one width).
//!
//! The hold model: `size` events wait; each step takes the first and adds one, after a wait drawn
//! like those of a fabric: a hop of 1-20 us (nineteen of twenty), or a timer of 1-200 ms.

use std::{cmp::Reverse, collections::BinaryHeap};

use netsim::{
    EventQueue, Rng, Seed,
    fabric::{EventHeap, Events},
};
use units::{Duration, Instant};

trait Queue {
    fn push(&mut self, at: Instant, id: u64);
    fn pop(&mut self) -> Option<(Instant, u64)>;
}

impl Queue for EventHeap {
    fn push(&mut self, at: Instant, id: u64) {
        EventHeap::push(self, at, id);
    }

    fn pop(&mut self) -> Option<(Instant, u64)> {
        self.pop_until(Instant::MAX)
    }
}

impl Queue for Events {
    fn push(&mut self, at: Instant, id: u64) {
        Events::push(self, at, id);
    }

    fn pop(&mut self) -> Option<(Instant, u64)> {
        self.pop_until(Instant::MAX)
    }
}

/// The fabric's heap with its hole closed at once.
struct WithoutHole(EventHeap);

impl Queue for WithoutHole {
    fn push(&mut self, at: Instant, id: u64) {
        self.0.push(at, id);
    }

    fn pop(&mut self) -> Option<(Instant, u64)> {
        let first = self.0.pop_until(Instant::MAX);
        self.0.pop_until(Instant::ORIGIN); // finds the hole, closes it, and takes nothing
        first
    }
}

impl Queue for EventQueue<u64> {
    fn push(&mut self, at: Instant, id: u64) {
        EventQueue::push(self, at, id);
    }

    fn pop(&mut self) -> Option<(Instant, u64)> {
        EventQueue::pop(self)
    }
}

/// Buckets of 512 ns over 2 ms, each sorted when its turn comes; what is later waits in a binary
/// heap.
struct Calendar {
    buckets: Vec<Vec<(Instant, u64)>>,
    /// The bucket whose turn it is, counted from time 0; its events are sorted, first last.
    turn: u64,
    inside: usize,
    later: BinaryHeap<Reverse<(Instant, u64)>>,
}

const WIDTH: u64 = 512;
const BUCKETS: u64 = 4_096;

impl Calendar {
    fn new() -> Self {
        Self { buckets: vec![Vec::new(); BUCKETS as usize], turn: 0, inside: 0, later: BinaryHeap::new() }
    }

    /// Moves what has come within the horizon from the heap into its bucket.
    fn fetch(&mut self) {
        while let Some(Reverse((at, id))) = self.later.peek().copied()
            && at.as_nanos() / WIDTH < self.turn + BUCKETS
        {
            self.later.pop();
            self.place(at, id);
        }
    }

    fn place(&mut self, at: Instant, id: u64) {
        let bucket = (at.as_nanos() / WIDTH).max(self.turn);
        let events = &mut self.buckets[(bucket % BUCKETS) as usize];
        if bucket == self.turn {
            let place = events.partition_point(|event| *event > (at, id));
            events.insert(place, (at, id));
        } else {
            events.push((at, id));
        }
        self.inside += 1;
    }
}

impl Queue for Calendar {
    fn push(&mut self, at: Instant, id: u64) {
        if at.as_nanos() / WIDTH < self.turn + BUCKETS {
            self.place(at, id);
        } else {
            self.later.push(Reverse((at, id)));
        }
    }

    fn pop(&mut self) -> Option<(Instant, u64)> {
        loop {
            if let Some(event) = self.buckets[(self.turn % BUCKETS) as usize].pop() {
                self.inside -= 1;
                return Some(event);
            }
            self.turn = match self.later.peek() {
                Some(Reverse((at, _))) if self.inside == 0 => at.as_nanos() / WIDTH,
                None if self.inside == 0 => return None,
                _ => self.turn + 1,
            };
            self.fetch();
            self.buckets[(self.turn % BUCKETS) as usize].sort_unstable_by(|a, b| b.cmp(a));
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "measures how long a run takes")]
fn nanoseconds_per_step(queue: &mut dyn Queue, size: u64) -> (f64, u64) {
    let mut rng = Rng::new(Seed(1));
    let mut wait = move || {
        let (kind, length) = (rng.below(20), rng.next_u64());
        let (low, span) = if kind == 0 { (1_000_000, 199_000_000) } else { (1_000, 19_000) };
        Duration::from_nanos(low + length % span)
    };
    for id in 0..size {
        queue.push(Instant::ORIGIN + wait(), id);
    }
    let steps = 2_000_000_u64;
    let mut check = 0_u64;
    let start = std::time::Instant::now();
    for _ in 0..steps {
        let Some((at, id)) = queue.pop() else { break };
        check = check.rotate_left(5) ^ at.as_nanos() ^ id;
        queue.push(at + wait(), id);
    }
    (start.elapsed().as_nanos() as f64 / steps as f64, check)
}

/// The queues and their names.
type Make = (&'static str, fn() -> Box<dyn Queue>);

const QUEUES: [Make; 5] = [
    ("wheel and heap", || Box::new(Events::default())),
    ("four-ary+hole", || Box::new(EventHeap::new())),
    ("four-ary", || Box::new(WithoutHole(EventHeap::new()))),
    ("binary heap", || Box::new(EventQueue::new())),
    ("calendar", || Box::new(Calendar::new())),
];

/// Prints how long each takes.
pub fn run() {
    print!("events");
    QUEUES.iter().for_each(|(name, _)| print!("  {name:>14}"));
    println!("   (ns per step, best of 5)");
    for size in [50, 300, 2_000, 20_000, 200_000] {
        let mut best = [f64::INFINITY; QUEUES.len()];
        let mut checks = [0; QUEUES.len()];
        for _ in 0..5 {
            for (i, (_, make)) in QUEUES.iter().enumerate() {
                let (time, check) = nanoseconds_per_step(make().as_mut(), size);
                best[i] = best[i].min(time);
                checks[i] = check;
            }
        }
        print!("{size:6}");
        best.iter().for_each(|best| print!("  {best:14.1}"));
        // The binary heap orders equal times by age.
        let equal = [1, 2, 4].iter().all(|i| checks[*i] == checks[0]);
        println!("{}", if equal { "" } else { "   orders differ!" });
    }
}
