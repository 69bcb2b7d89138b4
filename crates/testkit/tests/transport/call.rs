//! A call with a deadline of 150 ms over paths of 40 ms: what docs/datagrams.md promises.

use mendpath_testkit::call::{self, Call, Cuts, Outcome, Protection};
use mendpath_testkit::response::PathPlan;
use netsim::Seed;
use proto::RecoveryKind;
use units::{BitRate, Duration};

const AUTO: Protection = Protection::Scheme(RecoveryKind::Auto);
const NONE: Protection = Protection::Scheme(RecoveryKind::None);

fn path(loss: f64, burst: f64) -> PathPlan {
    call::path(BitRate::from_mbps(10), Duration::from_millis(40), loss, burst)
}

fn call(paths: &[PathPlan], protection: Protection) -> Call {
    Call {
        paths: paths.to_vec(),
        protection,
        time: Duration::from_secs(40),
        deadline: Duration::from_millis(150),
        cuts: None,
        decodes: true,
        one_late_in: None,
    }
}

/// Every datagram is counted once, and the sender's view is about the truth.
fn check_books(outcome: &Outcome) {
    let known = outcome.known;
    assert_eq!(known.sent, known.in_time + known.mended + known.late, "{known:?}");
}

fn extra(outcome: &Outcome, plain: &Outcome) -> f64 {
    outcome.bytes_sent as f64 / plain.bytes_sent as f64 - 1.0
}

#[test]
fn frames_arrive_in_time_where_one_of_two_paths_loses_bursts() {
    for burst in [3.0, 8.0] {
        let paths = [path(0.03, burst), path(0.0, 1.0)];
        let [auto, none] = [AUTO, NONE].map(|protection| call(&paths, protection).run(Seed(7)));
        assert!(auto.frames.share() >= 0.995, "bursts of {burst}: {:?}", auto.frames);
        assert!(auto.frames.share() > none.frames.share(), "{:?} {:?}", auto.frames, none.frames);
        assert!(extra(&auto, &none) < 0.25, "{}", extra(&auto, &none));
        assert!(auto.known.mended > 0);
        [&auto, &none].into_iter().for_each(check_books);
    }
}

#[test]
fn frames_arrive_in_time_over_one_path_that_loses_bursts() {
    let paths = [path(0.03, 3.0)];
    let [auto, none] = [AUTO, NONE].map(|protection| call(&paths, protection).run(Seed(8)));
    assert!(auto.frames.share() >= 0.995, "{:?}", auto.frames);
    assert!(none.frames.share() < 0.97, "{:?}", none.frames);
    assert!(extra(&auto, &none) < 0.25, "{}", extra(&auto, &none));
}

/// Over paths of 100 ms no news of a loss comes in time: the streaming code, beside what blocks and
/// fixed redundancy do there (docs/datagrams.md).
#[test]
fn a_streaming_code_makes_up_for_bursts_without_an_answer() {
    let distant = |loss, burst| call::path(BitRate::from_mbps(10), Duration::from_millis(100), loss, burst);
    for (burst, least, most) in [(1.0, 0.993, 0.30), (3.0, 0.994, 0.52), (8.0, 0.98, 0.52)] {
        let paths = [distant(0.03, burst)];
        let run = |protection| call(&paths, protection).run(Seed(14));
        let [auto, streaming, fec, none] =
            [AUTO, Protection::Scheme(RecoveryKind::Streaming), Protection::Fec, NONE].map(run);
        for coded in [&auto, &streaming] {
            assert!(coded.frames.share() >= least, "bursts of {burst}: {:?}", coded.frames);
            assert!(coded.frames.share() > fec.frames.share(), "{:?} {:?}", coded.frames, fec.frames);
            assert!(extra(coded, &none) < most, "bursts of {burst}: {}", extra(coded, &none));
            check_books(coded);
        }
        assert!(auto.audio.share() >= auto.frames.share(), "audio does not go with video: {auto:?}");
    }
}

/// Who can do without one frame of five pays for less repair than who can do without one of five hundred.
#[test]
fn repair_is_as_much_as_the_application_wants() {
    let paths = [call::path(BitRate::from_mbps(10), Duration::from_millis(100), 0.03, 1.0)];
    let with = |one_late_in| Call { one_late_in, ..call(&paths, AUTO) }.run(Seed(15));
    let [auto, same, lax] = [None, Some(500), Some(5)].map(with);
    let none = call(&paths, NONE).run(Seed(15));
    assert_eq!(auto, same, "the default");
    assert!(extra(&lax, &none) < 0.7 * extra(&auto, &none), "{}", extra(&lax, &none));
    assert!(lax.frames.share() < auto.frames.share(), "{:?} {:?}", lax.frames, auto.frames);
    assert!(lax.frames.share() > none.frames.share(), "{:?} {:?}", lax.frames, none.frames);
}

#[test]
fn a_distant_path_without_loss_costs_nothing() {
    let paths = [call::path(BitRate::from_mbps(10), Duration::from_millis(100), 0.0, 1.0)];
    let long = |protection| Call { time: Duration::from_secs(60), ..call(&paths, protection) };
    let [auto, none] = [AUTO, NONE].map(|protection| long(protection).run(Seed(15)));
    assert!(auto.frames.share() >= none.frames.share());
    assert!(extra(&auto, &none) < 0.02, "{}", extra(&auto, &none));
}

#[test]
fn nothing_is_missed_while_a_path_is_cut() {
    let clean = path(0.0, 1.0);
    let cuts = Cuts { path: 0, every: Duration::from_secs(10), time: Duration::from_secs(4) };
    let cut = Call { cuts: Some(cuts), ..call(&[clean.clone(), clean], AUTO) };
    let outcome = cut.run(Seed(9));
    assert!(outcome.while_cut.all > 900, "{:?}", outcome.while_cut);
    assert!(outcome.while_cut.share() >= 0.999, "{:?}", outcome.while_cut);
    check_books(&outcome);
}

#[test]
fn a_path_without_loss_costs_nothing() {
    let paths = [path(0.0, 1.0)];
    let [auto, none] = [AUTO, NONE].map(|protection| call(&paths, protection).run(Seed(10)));
    assert_eq!(auto.frames.share(), 1.0);
    assert!(extra(&auto, &none).abs() < 0.005, "{}", extra(&auto, &none));
    assert_eq!(auto.known.mended + auto.known.late + auto.known.expired, 0, "{:?}", auto.known);
}

#[test]
fn a_peer_that_does_not_decode_gets_copies() {
    let paths = [path(0.03, 3.0), path(0.0, 1.0)];
    let with = |protection| Call { decodes: false, ..call(&paths, protection) };
    let [auto, none] = [AUTO, NONE].map(|protection| with(protection).run(Seed(11)));
    assert!(auto.frames.share() >= 0.995 && auto.known.mended > 0, "{:?} {:?}", auto.frames, auto.known);
    assert!(extra(&auto, &none) < 0.25, "{}", extra(&auto, &none));
    check_books(&auto);
}

/// Half of what the call sends: what does not fit the path in time is dropped before it is sent,
/// and audio, which goes first, gets through.
#[test]
fn what_does_not_fit_the_path_expires_and_audio_goes_first() {
    let narrow = call::path(BitRate(800_000), Duration::from_millis(40), 0.0, 1.0);
    let outcome = call(&[narrow], AUTO).run(Seed(12));
    assert!(outcome.known.expired > 1_000, "{:?}", outcome.known);
    let video = outcome.frames.in_time - outcome.audio.in_time;
    let all = outcome.frames.all - outcome.audio.all;
    assert!(outcome.audio.share() > video as f64 / all as f64, "{outcome:?}");
    check_books(&outcome);
}

#[test]
fn a_call_is_the_same_twice() {
    let paths = [path(0.05, 8.0), path(0.01, 1.0)];
    let once = || Call { time: Duration::from_secs(5), ..call(&paths, AUTO) }.run(Seed(13));
    assert_eq!(once(), once());
}
