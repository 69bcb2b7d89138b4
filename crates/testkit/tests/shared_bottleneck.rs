use mendpath_testkit::meeting::*;
use netsim::Seed;
use proto::{ControllerKind, TransportConfig};
use units::Duration;

#[test]
fn explore() {
    for other in [Some(ControllerKind::Cubic), Some(ControllerKind::Auto), None] {
        for seed in 1..=3 {
            let b = [Bottleneck::new(25, 25, 1.0)];
            let mut flows = vec![Flow::new(ControllerKind::Auto, &[Route::new(0, 25), Route::new(0, 25)])];
            if let Some(k) = other {
                flows.push(Flow::new(k, &[Route::new(0, 25)]).from(13 * seed));
            }
            let mut m = Meeting::new(Seed(seed), &b, &flows, &TransportConfig::default());
            let mut found = None;
            let mut at = vec![];
            for t in 1..=60u64 {
                m.run_until(Duration::from_millis(t * 500));
                if found.is_none() && m.is_one_group(0) {
                    found = Some(t * 500);
                }
                if t % 20 == 0 {
                    at.push((m.received(0), if other.is_some() { m.received(1) } else { 0 }));
                }
            }
            let r: Vec<_> = at
                .windows(2)
                .map(|w| {
                    let a = (w[1].0 - w[0].0) as f64;
                    let o = (w[1].1 - w[0].1) as f64;
                    format!("{:.2} of {:.3}", a / (a + o) * 2.0, (a + o) * 8.0 / 25e7)
                })
                .collect();
            println!("{other:?} {seed} found {found:?} probes {} {r:?}", m.probes(0));
        }
    }
}
