//! Persistent congestion (RFC 9002 section 7.6), by outages of known length.

use mendpath_testkit::response::{Exchange, PathPlan};
use netsim::{LinkConfig, Loss, Seed, link::OutageKind};
use proto::{ControllerKind, RecoveryKind, TransportConfig};
use units::{BitRate, Duration, Instant};

/// Smallest window after an outage of the way to the client, in packets, and the probe timeout
/// before it.
fn smallest_window_after(outage: Duration) -> (u64, Duration) {
    let begins = Duration::from_secs(4);
    let up = LinkConfig::new().rate(BitRate::from_mbps(20)).delay(Duration::from_millis(25));
    let down = up.clone().outage(begins, begins + outage, OutageKind::Drop);
    let paths = [PathPlan { up, down, loss: Loss::None }];
    let transport = TransportConfig {
        controller: ControllerKind::NewReno,
        recovery: RecoveryKind::None,
        ..TransportConfig::default()
    };
    let mut exchange = Exchange::establish(Seed(7), &paths, &transport);
    let (mut smallest, mut pto) = (u64::MAX, Duration::ZERO);
    let response = exchange.request_observed(12_000_000, &paths, |world, server| {
        let path = &world.connection(server).paths()[0];
        if world.now() < Instant::ORIGIN + begins {
            pto = Duration::from(path.rtt + path.rtt_variance * 4) + Duration::from_millis(25);
        } else {
            smallest = smallest.min(path.window / u64::from(path.mtu));
        }
    });
    assert!(response.unwrap().paths[0].packets_lost > 0);
    (smallest, pto)
}

/// Lost packets span an outage, from the last one before to the last probe within. With a PTO of P
/// the probes leave P, 3 P, 7 P after the last packet: only the third one makes the span longer
/// than three PTOs.
#[test]
fn only_an_outage_with_three_probes_in_it_is_persistent_congestion() {
    let (_, pto) = smallest_window_after(Duration::from_millis(1));
    let (short, _) = smallest_window_after(pto.mul_f64(2.8));
    let (long, _) = smallest_window_after(pto.mul_f64(7.8));
    assert!(short > 8, "{short} packets after two probes, PTO {pto}");
    // kMinimumWindow of two packets, and slow start's two for the pair of probes whose ACK told of
    // the losses.
    assert_eq!(long, 4, "three probes, PTO {pto}");
}
