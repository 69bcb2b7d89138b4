//! Timelines to the nanosecond, limits, and bookkeeping.

use units::{Bytes, LossRate};

use super::*;

fn ms(n: u64) -> Instant {
    Instant::ORIGIN + Duration::from_millis(n)
}

fn us(n: u64) -> Instant {
    Instant::ORIGIN + Duration::from_micros(n)
}

fn link(text: &str) -> Link<u32> {
    Link::new(&text.parse().unwrap(), Seed(1), Instant::ORIGIN)
}

/// Takes out everything that arrives until nothing more comes, at exactly the times the link asks
/// for.
fn drain<T: Clone>(link: &mut Link<T>) -> Vec<Delivered<T>> {
    let mut out = Vec::new();
    let mut idle_wakes = 0;
    while let Some(at) = link.next_delivery() {
        let before = out.len();
        out.extend(std::iter::from_fn(|| link.deliver(at)));
        idle_wakes = if out.len() == before { idle_wakes + 1 } else { 0 };
        assert!(idle_wakes < 1_000, "the link wakes its caller for nothing");
    }
    out
}

fn times<T>(delivered: &[Delivered<T>]) -> Vec<Instant> {
    delivered.iter().map(|d| d.at).collect()
}

fn packets<T: Copy>(delivered: &[Delivered<T>]) -> Vec<T> {
    delivered.iter().map(|d| d.packet).collect()
}

/// Every packet is somewhere.
fn assert_accounted<T: Clone>(link: &Link<T>) {
    let stats = link.stats();
    assert_eq!(
        stats.offered + stats.duplicated,
        stats.gone() + stats.delivered + link.in_link() as u64,
        "{stats:?}"
    );
}

#[test]
fn serialises_then_delays_to_the_nanosecond() {
    // 1,000 bytes at 3 Mbit/s take 2,666,666.67 ns, rounded up; three packets in a row, then one
    // into the idle link.
    let mut link = link("rate=3mbit,delay=20ms");
    (0..3).for_each(|n| _ = link.offer(Instant::ORIGIN, n, 1_000));
    let late = Instant::from_nanos(10_000_001);
    link.offer(late, 3, 500);
    let delivered = drain(&mut link);
    assert_eq!(
        times(&delivered).iter().map(|at| at.as_nanos()).collect::<Vec<_>>(),
        [22_666_667, 25_333_334, 28_000_001, 31_333_335]
    );
    assert_eq!(packets(&delivered), [0, 1, 2, 3]);
    assert_eq!(link.stats().delivered_bytes, 3_500);
}

#[test]
fn rarely_asked_links_keep_exact_times() {
    let mut lazy =
        link("rate=8mbit,delay=1ms,jitter=500us,loss=10%,outage=3ms-4ms,rate@5ms=4mbit,queue=100p");
    let mut eager =
        link("rate=8mbit,delay=1ms,jitter=500us,loss=10%,outage=3ms-4ms,rate@5ms=4mbit,queue=100p");
    let mut seen = Vec::new();
    for n in 0..40 {
        let at = us(u64::from(n) * 300);
        lazy.offer(at, n, 400);
        eager.offer(at, n, 400);
        for step in 0..30 {
            seen.extend(std::iter::from_fn(|| eager.deliver(at + Duration::from_micros(step * 10))));
        }
    }
    seen.extend(drain(&mut eager));
    let at_once: Vec<_> = std::iter::from_fn(|| lazy.deliver(ms(1_000))).collect();
    assert_eq!(seen, at_once);
    assert_eq!(lazy.stats(), eager.stats());
    assert!(lazy.stats().lost > 0 && lazy.stats().dropped_outage > 0);
}

#[test]
fn nothing_arrives_early() {
    let mut link = link("delay=20ms");
    link.offer(ms(5), 1, 100);
    assert_eq!(link.next_delivery(), Some(ms(25)));
    assert_eq!(link.deliver(Instant::from_nanos(24_999_999)), None);
    assert_eq!(link.in_link(), 1);
    assert_eq!(link.deliver(ms(25)).map(|d| d.at), Some(ms(25)));
    assert_eq!(link.next_delivery(), None);
}

#[test]
fn the_queue_drops_at_its_tail() {
    let mut by_packets = link("rate=8mbit,queue=3p");
    let fates: Vec<Offered> = (0..5).map(|n| by_packets.offer(Instant::ORIGIN, n, 1_000)).collect();
    use Offered::{Accepted, QueueFull};
    assert_eq!(fates, [Accepted, Accepted, Accepted, Accepted, QueueFull]); // one on the wire, three wait
    assert_eq!(by_packets.queued(), 3);
    assert_eq!(by_packets.offer(ms(1), 5, 1_000), Accepted); // the first has left after 1 ms, the second is on the wire
    assert_eq!(packets(&drain(&mut by_packets)), [0, 1, 2, 3, 5]);
    let stats = by_packets.stats();
    assert_eq!((stats.dropped_queue, stats.max_queue_packets, stats.max_queue_bytes), (1, 3, 3_000));

    let mut by_bytes = link("rate=8mbit,queue=2500B");
    let fates: Vec<Offered> = [1_000, 1_000, 1_000, 1_000, 500]
        .iter()
        .enumerate()
        .map(|(n, size)| by_bytes.offer(Instant::ORIGIN, n as u32, *size))
        .collect();
    assert_eq!(fates, [Accepted, Accepted, Accepted, QueueFull, Accepted]); // the small one still fits
}

#[test]
fn the_default_queue_holds_a_round_trip() {
    let size = |text: &str| text.parse::<LinkConfig>().unwrap().queue_size();
    assert_eq!(size("rate=100mbit,delay=25ms"), QueueSize::Bytes(units::Bytes(625_000)));
    assert_eq!(size("rate=1mbit,delay=1ms"), QueueSize::Bytes(units::Bytes(48_000)));
    assert_eq!(size("delay=1s"), QueueSize::Bytes(units::Bytes(1_000_000)));
}

#[test]
fn a_link_without_a_rate_is_bounded_too() {
    let mut config = LinkConfig::new().delay(Duration::from_secs(10));
    config.capacity = units::Bytes(2_500);
    let mut link = Link::new(&config, Seed(1), Instant::ORIGIN);
    let accepted = (0..10).filter(|n| link.offer(Instant::ORIGIN, *n, 1_000) == Offered::Accepted).count();
    assert_eq!((accepted, link.stats().dropped_queue), (2, 8));
}

#[test]
fn packets_of_any_size_are_counted_without_overflow() {
    for capacity in [LinkConfig::default().capacity, Bytes(u64::MAX)] {
        let config = LinkConfig { capacity, ..LinkConfig::new().duplicate(LossRate::new(1.0).unwrap()) };
        let mut link = Link::new(&config, Seed(1), Instant::ORIGIN);
        for (packet, size) in [u64::MAX, 1_000, u64::MAX / 2 + 1, u64::MAX / 2 + 1].into_iter().enumerate() {
            link.offer(Instant::ORIGIN, packet, size);
        }
        let fits = if capacity == Bytes(u64::MAX) { 0 } else { 1 };
        assert_eq!(packets(&drain(&mut link)), [fits, fits]);
        assert_eq!(link.stats().offered_bytes, u64::MAX);
        assert_accounted(&link);
    }
}

#[test]
fn marks_above_the_ecn_threshold() {
    let mut link = link("rate=8mbit,ecn=2p");
    (0..6).for_each(|n| _ = link.offer(Instant::ORIGIN, n, 1_000));
    // Packet 0 is on the wire; 4 is the first to find more than two waiting (1, 2 and 3).
    let marks: Vec<bool> = drain(&mut link).iter().map(|d| d.ce).collect();
    assert_eq!(marks, [false, false, false, false, true, true]);
    assert_eq!(link.stats().marked, 2);
}

#[test]
fn loss_before_the_rate_costs_no_time_and_after_it_does() {
    for (point, expected) in [("before", [ms(1), ms(2)]), ("after", [ms(1), ms(3)])] {
        let mut link = link(&format!("rate=8mbit,drop=1,loss-at={point}"));
        (0..3).for_each(|n| _ = link.offer(Instant::ORIGIN, n, 1_000));
        let delivered = drain(&mut link);
        assert_eq!(times(&delivered), expected, "{point}");
        assert_eq!(packets(&delivered), [0, 2]);
        assert_eq!(link.stats().lost, 1);
        assert_accounted(&link);
    }
}

#[test]
fn the_nth_packet_has_the_same_fate_whatever_else_happens() {
    // The second link drops on its queue and through an outage, and repairs nothing; the loss
    // pattern is the same.
    let lost = |text: &str, spacing: u64| -> Vec<u64> {
        let mut link = link(text);
        let offer = |n: u64| link.offer(us(n * spacing), n as u32, 1_200);
        (0..2_000)
            .map(offer)
            .enumerate()
            .filter(|(_, fate)| *fate == Offered::Lost)
            .map(|(n, _)| n as u64)
            .collect()
    };
    let free = lost("loss=5%", 1);
    let busy = lost("loss=5%,rate=8mbit,queue=2p,jitter=3ms,duplicate=5%", 700);
    assert!(free.len() > 50);
    assert_eq!(free, busy);
}

#[test]
fn a_dropping_outage_takes_what_waits_and_what_is_offered() {
    // At 2 ms packets 0 and 1 have been sent and 2 has just begun; 3 and 4 wait.
    let mut link = link("rate=8mbit,delay=10ms,outage=2500us-5ms");
    (0..5).for_each(|n| _ = link.offer(Instant::ORIGIN, n, 1_000));
    assert_eq!(link.offer(ms(3), 5, 1_000), Offered::Outage);
    assert_eq!(link.offer(ms(5), 6, 1_000), Offered::Accepted);
    let delivered = drain(&mut link);
    assert_eq!(packets(&delivered), [0, 1, 2, 6]);
    assert_eq!(times(&delivered), [ms(11), ms(12), ms(13), ms(16)]);
    assert_eq!(link.stats().dropped_outage, 3);
    assert_accounted(&link);
}

#[test]
fn a_holding_outage_delays_what_waits() {
    let mut link = link("rate=8mbit,delay=10ms,hold=1500us-5ms,queue=3p");
    (0..3).for_each(|n| _ = link.offer(Instant::ORIGIN, n, 1_000));
    assert_eq!(link.offer(ms(3), 3, 1_000), Offered::Accepted);
    assert_eq!(link.offer(ms(3), 4, 1_000), Offered::Accepted);
    assert_eq!(link.offer(ms(3), 5, 1_000), Offered::QueueFull); // 2, 3 and 4 wait
    let delivered = drain(&mut link);
    assert_eq!(packets(&delivered), [0, 1, 2, 3, 4]);
    assert_eq!(times(&delivered), [ms(11), ms(12), ms(16), ms(17), ms(18)]);
}

#[test]
fn overlapping_outages_end_with_the_last() {
    let mut link = link("outage=1ms-3ms,outage=2ms-5ms,hold=4ms-6ms");
    let mut outage = |at| {
        link.deliver(at);
        link.outage()
    };
    assert_eq!(outage(us(500)), None);
    assert_eq!(outage(ms(1)), Some(OutageKind::Drop));
    assert_eq!(outage(ms(3)), Some(OutageKind::Drop));
    assert_eq!(outage(ms(5)), Some(OutageKind::Hold));
    assert_eq!(outage(ms(6)), None);
}

#[test]
fn an_outage_that_ends_no_later_than_it_begins_is_none() {
    let after = Duration::from_millis;
    for until in [2, 1] {
        let config = LinkConfig::default().outage(after(2), after(until), OutageKind::Drop);
        assert_eq!(config, LinkConfig::default());
    }
}

#[test]
fn cut_and_restored_by_hand() {
    let mut link = link("rate=8mbit,queue=2p");
    link.cut(ms(1), OutageKind::Hold);
    let fates = [0, 1, 2].map(|n| link.offer(ms(2), n, 1_000));
    assert_eq!(fates, [Offered::Accepted, Offered::Accepted, Offered::QueueFull]);
    assert_eq!(link.next_delivery(), None);
    link.restore(ms(7));
    assert_eq!(times(&drain(&mut link)), [ms(8), ms(9)]);

    link.offer(ms(20), 3, 1_000);
    link.offer(ms(20), 4, 1_000);
    link.cut(ms(20), OutageKind::Drop);
    assert_eq!(link.offer(ms(21), 5, 1_000), Offered::Outage);
    link.restore(ms(22));
    assert_eq!(packets(&drain(&mut link)), [3]); // on the wire already; 4 waited
    assert_eq!(link.stats().dropped_outage, 2);
    assert_accounted(&link);
}

#[test]
fn rate_and_delay_change_with_the_next_packet() {
    let mut link = link("rate=8mbit,delay=10ms,rate@1500us=4mbit,delay@20ms=1ms");
    (0..3).for_each(|n| _ = link.offer(Instant::ORIGIN, n, 1_000));
    link.offer(us(19_500), 3, 500);
    link.offer(ms(25), 4, 500);
    // Packet 1 is being sent when the rate halves; 3 leaves with the old delay, and 4 overtakes
    // nothing.
    let delivered = drain(&mut link);
    assert_eq!(times(&delivered), [ms(11), ms(12), ms(14), us(30_500), us(30_500)]);
    assert_eq!(packets(&delivered), [0, 1, 2, 3, 4]);
}

#[test]
fn a_zero_rate_holds_until_there_is_one_again() {
    let mut link = link("rate=8mbit");
    link.set_rate(ms(0), Some(BitRate(0)));
    link.offer(ms(1), 1, 1_000);
    assert_eq!(link.next_delivery(), None);
    link.set_rate(ms(4), Some(BitRate::from_mbps(8)));
    assert_eq!(times(&drain(&mut link)), [ms(5)]);
    link.set_rate(ms(6), None);
    link.offer(ms(6), 2, 1_000);
    assert_eq!(times(&drain(&mut link)), [ms(6)]);
}

#[test]
fn jitter_stays_in_bounds_and_in_order_unless_reordering_is_on() {
    for reorder in [false, true] {
        let config = LinkConfig::new()
            .delay(Duration::from_millis(10))
            .jitter(Duration::from_millis(3))
            .reordering(reorder);
        let mut link = Link::new(&config, Seed(4), Instant::ORIGIN);
        let n = 2_000u64;
        (0..n).for_each(|i| _ = link.offer(us(i * 100), i, 100));
        let delivered = drain(&mut link);
        assert_eq!(delivered.len() as u64, n);
        assert!(times(&delivered).is_sorted());
        assert_eq!(packets(&delivered).is_sorted(), !reorder);
        let travel = |d: &Delivered<u64>| d.at - us(d.packet * 100);
        let range = Duration::from_millis(7)..=Duration::from_millis(13);
        assert!(delivered.iter().all(|d| range.contains(&travel(d))));
        let mean = delivered.iter().map(|d| travel(d).as_nanos()).sum::<u64>() / n;
        if reorder {
            assert!((9_800_000..=10_200_000).contains(&mean), "{mean}"); // standard error 39 us
        }
    }
}

#[test]
fn jitter_longer_than_the_delay_does_not_go_back_in_time() {
    let mut link = link("delay=1ms,jitter=5ms,reorder");
    (0..500).for_each(|n| _ = link.offer(ms(50), n, 100));
    assert!(times(&drain(&mut link)).iter().all(|at| (ms(50)..=ms(56)).contains(at)));
}

#[test]
fn reordering_links_wake_in_time_for_packets_that_still_wait() {
    // The jitter is far longer than the time to send, so a waiting packet can arrive before a
    // travelling one.
    let text = "rate=80mbit,delay=20ms,jitter=20ms,reorder,queue=1000p";
    let mut woken = link(text);
    (0..500).for_each(|n| _ = woken.offer(Instant::ORIGIN, n, 1_000));
    let mut late_fetches = 0;
    while let Some(at) = woken.next_delivery() {
        while let Some(delivered) = woken.deliver(at) {
            late_fetches += u32::from(delivered.at != at);
        }
    }
    assert_eq!(late_fetches, 0);
}

#[test]
fn duplicates_are_counted() {
    let mut link = link("duplicate=10%,rate=80mbit,queue=10000p,delay=1ms");
    (0..5_000).for_each(|n| _ = link.offer(Instant::ORIGIN, n, 100));
    let delivered = drain(&mut link);
    let stats = link.stats();
    assert!((400..=600).contains(&stats.duplicated), "{stats:?}"); // 500 +- 21 (one standard deviation)
    assert_eq!(delivered.len() as u64, 5_000 + stats.duplicated);
    assert_accounted(&link);
}

#[test]
fn reseeding_starts_the_pattern_again() {
    let mut link = link("loss=20%");
    let lost = |link: &mut Link<u32>| -> Vec<bool> {
        (0..500).map(|n| link.offer(Instant::ORIGIN, n, 100) == Offered::Lost).collect()
    };
    let first = lost(&mut link);
    assert_ne!(lost(&mut link), first);
    link.reseed(Instant::ORIGIN, Seed(1));
    assert_eq!(lost(&mut link), first);
    link.reseed(Instant::ORIGIN, Seed(2));
    assert_ne!(lost(&mut link), first);
    link.set_loss(Instant::ORIGIN, Loss::nth([2]));
    assert_eq!(lost(&mut link).iter().position(|lost| *lost), Some(2));
}

#[test]
fn restarting_begins_the_schedule_again() {
    let mut link = link("delay=1ms,drop=1,outage=2ms-4ms,delay@3ms=5ms");
    // What arrives of four packets, and how many ms after `begin`.
    let run = |link: &mut Link<u32>, begin: u64| -> Vec<(u32, u64)> {
        for (n, after) in [(0, 0), (1, 1), (2, 2), (3, 6)] {
            link.offer(ms(begin + after), n, 100);
        }
        drain(link).iter().map(|d| (d.packet, (d.at - ms(begin)).as_nanos() / 1_000_000)).collect()
    };
    // The second is lost, the third meets the outage, the fourth the longer delay.
    let first = run(&mut link, 0);
    assert_eq!(first, [(0, 1), (3, 11)]);
    assert_eq!(run(&mut link, 100), [(0, 5), (1, 6), (2, 7), (3, 11)]);
    link.reseed(ms(200), Seed(1));
    link.restart(ms(200));
    assert_eq!(run(&mut link, 200), first);
    // In the middle of an outage, too.
    link.reseed(ms(300), Seed(1));
    link.restart(ms(300));
    link.offer(ms(303), 9, 100);
    assert_eq!(link.outage(), Some(OutageKind::Drop));
    link.reseed(ms(303), Seed(1));
    link.restart(ms(303));
    assert_eq!(link.outage(), None);
    assert_eq!(run(&mut link, 303), first);
}

#[test]
fn every_packet_is_accounted_for_in_random_links() {
    for seed in 0..200u64 {
        let mut rng = Seed(seed).stream("scenario");
        let probability = |x: f64| LossRate::new(x).unwrap();
        let mut config = LinkConfig::new()
            .rate(BitRate(1_000_000 + rng.below(100_000_000)))
            .delay(Duration::from_micros(rng.below(20_000)))
            .jitter(Duration::from_micros(rng.below(5_000)))
            .reordering(rng.chance(0.5))
            .random_loss(probability(rng.next_f64() * 0.3))
            .duplicate(probability(rng.next_f64() * 0.1))
            .queue(QueueSize::Packets(1 + rng.below(50)));
        if rng.chance(0.5) {
            config = config.loss_point(LossPoint::AfterRate);
        }
        for kind in [OutageKind::Drop, OutageKind::Hold] {
            let from = Duration::from_micros(rng.below(100_000));
            config = config.outage(from, from + Duration::from_micros(1 + rng.below(50_000)), kind);
        }
        let mut link = Link::new(&config, Seed(seed), Instant::ORIGIN);
        let mut now = Instant::ORIGIN;
        for n in 0..500 {
            now += Duration::from_nanos(rng.below(600_000));
            link.offer(now, n, 40 + rng.below(1_460));
            if rng.chance(0.3) {
                while link.deliver(now).is_some() {}
            }
            assert_accounted(&link);
        }
        drain(&mut link);
        assert_eq!(link.in_link(), 0, "seed {seed}");
        assert_accounted(&link);
    }
}
