use super::*;
use crate::residual;

fn independent(loss: f64) -> Gilbert {
    Gilbert::new(loss, 1.0 / (1.0 - loss)).unwrap()
}

fn exposure(in_flight: u16, loss: f64) -> Exposure {
    Exposure { in_flight, lost: 0, loss: independent(loss), repairs: 0, repair_loss: loss }
}

const MEANS: Means = Means { decodes: true, bytes: 100_000, packet: 1_200, affordable: 10 };

#[test]
fn independent_losses_give_the_binomial_answer() {
    for in_flight in [1, 10, 42] {
        for more in 0..6 {
            let here = exposure(in_flight, 0.02).incomplete(more);
            assert!((here - residual::incomplete(in_flight, 0.02, more, 0.02)).abs() < 1e-12);
        }
    }
}

#[test]
fn hand_computed_cases() {
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    close(exposure(1, 0.1).incomplete(1), 0.01);
    let known = Exposure { lost: 1, repair_loss: 0.0, ..exposure(1, 0.1) };
    close(known.incomplete(0), 1.0);
    close(known.incomplete(1), 0.1);
    close(known.incomplete(2), 0.0);
    let flying = Exposure { repairs: 1, ..exposure(1, 0.1) };
    close(flying.incomplete(0), 0.01);
}

#[test]
fn what_is_in_flight_already_is_not_sent_again() {
    let fresh = exposure(42, 0.02);
    let needed = fresh.repairs_needed(1e-3, 20).unwrap();
    assert!(needed >= 4, "{needed}");
    for repairs in 0..=needed {
        let rest = Exposure { repairs, ..fresh }.repairs_needed(1e-3, 20);
        assert_eq!(rest, Some(needed - repairs));
    }
}

#[test]
fn bursts_need_more() {
    let bursty = Exposure { loss: Gilbert::new(0.02, 4.0).unwrap(), ..exposure(42, 0.02) };
    assert!(bursty.repairs_needed(1e-3, 60) > exposure(42, 0.02).repairs_needed(1e-3, 60));
}

#[test]
fn is_monotone() {
    for in_flight in [2, 20, 60] {
        for loss in [0.005, 0.05, 0.2] {
            for lost in [0, 3] {
                let at = Exposure { lost, ..exposure(in_flight, loss) };
                let mut last = 1.0 + 1e-12;
                for more in 0..12 {
                    let now = at.incomplete(more);
                    assert!((0.0..=last).contains(&now), "{at:?} {more}");
                    last = now + 1e-12;
                    let larger = Exposure { in_flight: in_flight + 1, ..at };
                    let lossier = Exposure { loss: independent(loss + 0.01), ..at };
                    let poorer = Exposure { repair_loss: loss + 0.1, ..at };
                    for worse in [larger, lossier, poorer, Exposure { lost: lost + 1, ..at }] {
                        assert!(now <= worse.incomplete(more) + 1e-12, "{at:?} {worse:?} {more}");
                    }
                }
            }
        }
    }
}

#[test]
fn plans() {
    let plan_for = |exposure: Exposure, means: Means| plan(&exposure, &means, 1e-3);
    assert_eq!(plan_for(exposure(0, 0.02), MEANS), Protection::Nothing);
    assert_eq!(plan_for(exposure(1, 0.0005), MEANS), Protection::Nothing);
    assert_eq!(plan_for(exposure(1, 0.02), MEANS), Protection::Again(1)); // 0.0004
    assert_eq!(plan_for(exposure(1, 0.2), MEANS), Protection::Again(4)); // 0.2^5
    assert_eq!(plan_for(exposure(5, 0.02), Means { bytes: 900, ..MEANS }), Protection::Again(2));
    let needed = exposure(42, 0.02).repairs_needed(1e-3, 10).unwrap();
    assert_eq!(plan_for(exposure(42, 0.02), MEANS), Protection::Symbols(needed));
    assert_eq!(plan_for(exposure(42, 0.02), Means { affordable: 2, ..MEANS }), Protection::Symbols(2));
    assert_eq!(plan_for(exposure(42, 0.02), Means { affordable: 0, ..MEANS }), Protection::Nothing);
    assert_eq!(plan_for(exposure(6, 0.02), Means { decodes: false, ..MEANS }), Protection::Copies(6));
}

/// The rule for copies: with as many packets, symbols complete a block at least as often as copies
/// of its packets do.
#[test]
fn symbols_are_never_worse_than_copies() {
    for in_flight in [2_u16, 3, 8, 20] {
        for loss in [0.01, 0.1, 0.3_f64] {
            for more in 1..=in_flight {
                let (copied, alone) = (i32::from(more), i32::from(in_flight - more));
                let copies = 1.0 - (1.0 - loss * loss).powi(copied) * (1.0 - loss).powi(alone);
                let symbols = exposure(in_flight, loss).incomplete(more);
                assert!(symbols <= copies + 1e-12, "{in_flight} {loss} {more}: {symbols} {copies}");
            }
        }
    }
}

#[test]
fn no_more_repairs_than_are_looked_at() {
    let at = Exposure { repairs: 60, ..exposure(200, 0.9) };
    assert_eq!(at.repairs_needed(1e-9, 1_000), None);
    assert!(at.incomplete(u16::MAX) > 0.5);
}
