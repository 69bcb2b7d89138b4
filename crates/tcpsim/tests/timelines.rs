//! Loss recovery on a link whose every event can be worked out by hand, to the nanosecond.

#[path = "common/by_hand.rs"]
mod by_hand;

use by_hand::{MS, THERE, ack};
use mendpath_tcpsim::{Profile, Tcp, schemes::reactive};
use units::Duration;

/// When `segments` full segments have arrived if the link loses the packets with these indices, and
/// the timeouts.
fn run(tcp: Tcp, segments: u64, lost: &[u64]) -> (u64, u64) {
    let (flow, totals) = by_hand::run(Profile::tcp(tcp), segments, lost);
    (flow.completion_time().expect("finished").as_nanos(), totals.timeouts)
}

#[test]
fn one_window_takes_half_a_round_trip() {
    assert_eq!(run(Tcp::default(), 10, &[]), (9 * MS + THERE, 0));
}

#[test]
fn slow_start_fills_the_link_from_the_first_acknowledgement_on() {
    // Each acknowledgement releases two segments and the link takes one per ms: it never idles
    // again.
    assert_eq!(run(Tcp::default(), 30, &[]), (ack(0) + 19 * MS + THERE, 0));
}

#[test]
fn a_window_of_one_takes_a_round_trip_per_doubling() {
    let tcp = Tcp { initial_window: 1, ..Tcp::default() };
    let round = ack(0);
    // 1, then 2 (the first of them acknowledged a ms before the second), then 4.
    assert_eq!(run(tcp.clone(), 3, &[]), (round + MS + THERE, 0));
    assert_eq!(run(tcp, 7, &[]), (2 * round + 3 * MS + THERE, 0));
}

#[test]
fn a_loss_in_the_middle_is_repaired_at_the_third_sack() {
    // Segment 3 is lost; 4, 5 and 6 are SACKed; 6's SACK sends 3 again. Likewise for all that three
    // others follow.
    for lost in 0..=6 {
        assert_eq!(run(Tcp::default(), 10, &[lost]), (ack(lost + 3) + THERE, 0), "{lost}");
    }
}

#[test]
fn early_retransmit_needs_one_sack_less_than_is_outstanding() {
    // 7 lost: 7, 8, 9 outstanding, two SACKs suffice. 8 lost: 8 and 9 outstanding, one suffices.
    assert_eq!(run(Tcp::default(), 10, &[7]), (ack(9) + THERE, 0));
    assert_eq!(run(Tcp::default(), 10, &[8]), (ack(9) + THERE, 0));
    let without = Tcp { early_retransmit: false, ..Tcp::default() };
    // 7 is acknowledged last by segment 6's ACK, which restarts the timer.
    assert_eq!(run(without, 10, &[7]), (ack(6) + 200 * MS + THERE, 1));
}

#[test]
fn a_lost_tail_waits_for_the_timer() {
    // The last acknowledgement, of segment 8, restarts it.
    assert_eq!(run(Tcp::default(), 10, &[9]), (ack(8) + 200 * MS + THERE, 1));
    // RFC 6298 over the samples 21.001054, 22.001054, ..., 29.001054 ms.
    let short = Tcp { min_rto: Duration::from_millis(5), ..Tcp::default() };
    assert_eq!(run(short, 10, &[9]), (ack(8) + SRTT + 4 * RTTVAR + THERE, 1));
}

#[test]
fn a_lost_retransmission_waits_for_the_timer_too() {
    // Segment 3 again, at the tenth packet after the first ten: lost as well. Its sending restarted
    // the timer.
    assert_eq!(run(Tcp::default(), 10, &[3, 10]), (ack(6) + 200 * MS + THERE, 1));
    // And once more: the timeout doubles. The twelfth packet is RFC 6675's rescue: at the SACK of 8
    // the halved window (3) has room, and 9 is the highest that is not SACKed yet.
    assert_eq!(run(Tcp::default(), 10, &[3, 10, 12]), (ack(6) + 600 * MS + THERE, 2));
}

#[test]
fn rack_sees_that_a_retransmission_was_lost() {
    // New ones follow the retransmission: their SACKs show by their time that it is lost.
    let rack = Tcp { rack: true, ..Tcp::default() };
    let (time, timeouts) = run(rack, 30, &[3, 18]);
    assert_eq!(timeouts, 0);
    let (without, timeouts) = run(Tcp::default(), 30, &[3, 18]);
    assert!(without > time && timeouts == 1, "{without} {time} {timeouts}");
}

#[test]
fn a_whole_lost_window_waits_for_the_first_timeout() {
    // No sample yet: 1 s. Then the window is 1, 2, 4: segments 0; 1, 2; 3, 4, 5, 6; and the rest.
    let all: Vec<u64> = (0..10).collect();
    let round = ack(0);
    assert_eq!(run(Tcp::default(), 10, &all), (1_000 * MS + 3 * round + 2 * MS + THERE, 1));
}

#[test]
fn the_probe_comes_two_round_trips_after_the_last_acknowledgement() {
    assert_eq!(run(reactive(Tcp::default()), 10, &[9]), (ack(8) + 2 * SRTT + THERE, 0));
}

#[test]
fn delayed_acknowledgements_hold_up_a_window_of_one() {
    let tcp = Tcp { initial_window: 1, ack_every: 2, ..Tcp::default() };
    assert_eq!(run(tcp, 2, &[]), (40 * MS + ack(0) + THERE, 0));
}

#[test]
fn quick_acknowledgements_do_not() {
    let tcp = Tcp { initial_window: 1, ack_every: 2, quick_acks: 1, ..Tcp::default() };
    assert_eq!(run(tcp, 2, &[]), (ack(0) + THERE, 0));
}

#[test]
fn sacks_of_what_was_sent_before_the_retransmission_restart_linuxs_timer() {
    // As above, 3 is lost twice. The SACKs of 7 and 8 come after 3 was sent again, and are of the
    // first window. That of 9 is not counted: the rescue has sent it again at the SACK of 8.
    let tcp = Tcp { sack_timing: true, ..Tcp::default() };
    assert_eq!(run(tcp, 10, &[3, 10]), (ack(8) + 200 * MS + THERE, 1));
}

#[test]
fn limited_transmit_keeps_a_small_window_from_timing_out() {
    // Window 3, segment 0 lost: the SACKs of 1 and 2 release 3 and 4, whose first SACK is the
    // third.
    let tcp = Tcp { initial_window: 3, early_retransmit: false, ..Tcp::default() };
    assert_eq!(run(tcp.clone(), 5, &[0]), (ack(1) + ack(0) + THERE, 0));
    let without = Tcp { limited_transmit: false, ..tcp };
    assert_eq!(run(without, 5, &[0]).1, 1);
}

/// SRTT and RTTVAR after the samples 21.001054, 22.001054, ..., 29.001054 ms, each division rounded
/// down.
const SRTT: u64 = 24_406_315;
const RTTVAR: u64 = 4_841_390;
