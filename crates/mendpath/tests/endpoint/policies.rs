//! What an application brings or limits by types of other crates, which are all to be had here.

use mendpath::{
    PathId, PathLimits, PathUse, RecoveryKind,
    policy::{Built, PathSnapshot, RecoveryAction, RecoveryPolicy, Scheme, UnackedView},
    units::{BitRate, Instant},
};

use crate::common::{Pair, configs, watchdog};

/// Does nothing.
#[derive(Debug)]
struct Idle;

impl RecoveryPolicy for Idle {
    fn on_opportunity(&mut self, _: Instant, _: &[PathSnapshot], _: &dyn UnackedView) -> RecoveryAction {
        RecoveryAction::Nothing
    }
}

const IDLE: Scheme = Scheme { name: "idle", build: |_terms| Built::new(Idle) };

#[tokio::test]
async fn a_scheme_of_ones_own_is_used() {
    watchdog(async {
        let (server, client) = configs();
        let pair = Pair::with(server, client.recovery(RecoveryKind::Custom(IDLE)));
        let (client, _server) = pair.connect().await;
        assert_eq!(client.stats().recovery, "idle");
    })
    .await;
}

#[tokio::test]
async fn the_rate_of_a_path_is_limited() {
    watchdog(async {
        let pair = Pair::new();
        let (client, _server) = pair.connect().await;
        let limits = PathLimits { carries: PathUse::Metered, rate: Some(BitRate::from_mbps(10)) };
        let path = client.path(PathId(0)).unwrap();
        path.set_limits(limits).unwrap();
        assert_eq!(path.limits().unwrap(), limits);
        assert_eq!(path.stats().unwrap().limits, limits);
    })
    .await;
}
