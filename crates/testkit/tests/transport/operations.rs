//! What single operations of scenarios are for, one by one: each does what it says, and the
//! transport answers as it should.

use mendpath_testkit::{Failure, Outcome, Scenario};
use units::{Duration, Instant};

const CLEAN: &str = "path link=rate=20mbit,delay=10ms\n";

fn run(paths: usize, operations: &str) -> Result<Outcome, Failure> {
    let text = format!("{}{operations}", CLEAN.repeat(paths));
    let scenario: Scenario = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    mendpath_testkit::run(&scenario)
}

fn after(outcome: &Outcome) -> Duration {
    outcome.finished - Instant::ORIGIN
}

/// Ten megabytes keep both paths busy for four seconds: it takes eight rounds of loss to wonder,
/// and six challenges to be sure.
#[test]
fn a_path_that_carries_small_packets_only_is_given_up_and_the_other_goes_on() {
    let narrow = "at 0s open-path 1\nat 500ms mtu 1 700\nat 600ms stream server bi 0 back 5000000\n\
                  at 600ms stream client bi 0 back 5000000\nat 12s stream client bi 10 back 10";
    let outcome = run(2, narrow).unwrap();
    assert!(outcome.seen.contains("~ path closed"), "{:?}", outcome.seen);
    for paths in &outcome.paths {
        assert_eq!(paths.iter().map(|p| p.id.0).collect::<Vec<_>>(), [0], "{paths:?}");
    }
    assert!(after(&outcome) < Duration::from_secs(13), "{:?}", outcome.finished);
}

#[test]
fn each_side_removes_the_others_last_path_and_both_hear_of_it() {
    let both = "at 0s open-path 1\nat 1s close-path 0 client\nat 1s close-path 1 server\nat 2s stream client bi 9 back 9";
    let outcome = run(2, both).unwrap();
    assert!(outcome.seen.contains("~ no path left that neither side has abandoned"), "{:?}", outcome.seen);
    assert!(after(&outcome) < Duration::from_secs(2), "the news took {:?}", outcome.finished);
    let one = "at 0s open-path 1\nat 1s close-path 0 client\nat 1s close-path 1 client\nat 2s stream client bi 9 back 9";
    let outcome = run(2, one).unwrap();
    assert!(!outcome.seen.contains("~ no path left that neither side has abandoned"), "{:?}", outcome.seen);
}

#[test]
fn a_stream_that_nobody_reads_holds_nobody_up() {
    let read = "at 0s stream server uni 2000000";
    let unread = "at 0s stream server uni 1000000/unread\n".repeat(3) + read;
    let (alone, beside) = (run(1, read).unwrap(), run(1, &unread).unwrap());
    // Afterwards they are read, all three million bytes.
    assert_eq!(beside.stats[0].stream_bytes_received, 5_000_000, "{:?}", beside.stats[0]);
    assert!(after(&beside) < after(&alone) * 4, "{:?} {:?}", beside.finished, alone.finished);
}

#[test]
fn an_application_that_pauses_reading_gets_everything_afterwards() {
    let bulk = "at 0s stream server uni 3000000";
    let paused = format!("{bulk}\nat 100ms pause-reading client 4s");
    let (alone, paused) = (run(1, bulk).unwrap(), run(1, &paused).unwrap());
    assert!(after(&alone) < Duration::from_secs(3), "{:?}", alone.finished);
    assert!(after(&paused) > Duration::from_secs(4), "{:?}", paused.finished);
}

#[test]
fn sustained_corruption_is_loss_and_nothing_else() {
    let bulk = "at 0s corrupt 0 0.1\nat 0s stream server uni 500000\nat 0s stream client uni 500000";
    let outcome = run(1, bulk).unwrap();
    for side in &outcome.stats {
        assert!(side.malformed_packets + side.packets_lost > 20, "{side:?}");
    }
}

#[test]
fn a_client_behind_ever_new_ports_is_followed() {
    let text = "at 0s stream server uni 3000000\n".to_owned()
        + &(1..10).map(|n| format!("at {}ms rebind 0\n", n * 100)).collect::<String>();
    let keep = format!("client keep_alive=200ms\n{CLEAN}{text}");
    let outcome = mendpath_testkit::run(&keep.parse().unwrap()).unwrap();
    assert!(outcome.seen.contains("~ path moved to another address"), "{:?}", outcome.seen);
    assert!(after(&outcome) < Duration::from_secs(10), "{:?}", outcome.finished);
}
