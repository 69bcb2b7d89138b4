//! A path with a fixed RTT, no queue and periodic loss, for tests of whole controllers.

use std::collections::VecDeque;

use units::{Duration, Instant};

use crate::{Ack, Controller, Loss, Rtt};

/// What a run saw, without its first fifth, which belongs to slow start and its overshoot.
pub(crate) struct Outcome {
    /// Mean number of packets per RTT.
    pub(crate) mean_window: f64,
    /// Times the window fell.
    pub(crate) reductions: u64,
}

/// Sends `packets` packets through `controller`, each `period`-th of which is lost.
pub(crate) fn run(controller: &mut dyn Controller, rtt: Duration, period: u64, packets: u64) -> Outcome {
    const SIZE: u64 = 1_200;
    let sample = Rtt { latest: rtt, smoothed: rtt, min: rtt, variance: Duration::ZERO };
    let mut now = Instant::ORIGIN;
    let mut flying: VecDeque<(Instant, bool)> = VecDeque::new();
    let (mut sent, mut reductions) = (0, 0);
    let warm_up = packets / 5;
    let mut measured_from = None;
    while sent < packets {
        while (flying.len() as u64 + 1) * SIZE <= controller.window() {
            now += Duration::from_nanos(10);
            sent += 1;
            flying.push_back((now, sent % period == 0));
            controller.on_sent(now, SIZE, flying.len() as u64 * SIZE);
        }
        let in_flight_before = flying.len() as u64 * SIZE;
        let (sent_at, lost) = flying.pop_front().expect("the window holds at least two packets");
        now = now.max(sent_at + rtt);
        let before = controller.window();
        if lost {
            controller
                .on_loss(&Loss { now, bytes: SIZE, packets: 1, largest_sent_at: sent_at, rtt: sample }, &[]);
        } else {
            let ack = Ack {
                now,
                bytes: SIZE,
                largest_sent_at: sent_at,
                in_flight_before,
                app_limited: false,
                ce_bytes: 0,
                rtt: sample,
                adjusted_rtt: sample.latest,
            };
            controller.on_ack(&ack, &[]);
            assert!(controller.window() >= before, "an ACK lowered the window");
        }
        if sent >= warm_up {
            measured_from.get_or_insert((now, sent));
            reductions += u64::from(controller.window() < before);
        }
    }
    let (start, skipped) = measured_from.expect("a fifth of the packets comes before all of them");
    let rounds = (now - start).as_secs_f64() / rtt.as_secs_f64();
    Outcome { mean_window: (sent - skipped) as f64 / rounds, reductions }
}
