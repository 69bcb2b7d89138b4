//! What an application brings or limits by types of other crates, which are all to be had here.

use std::sync::Arc;

use mendpath::{
    ConnectionError, Dir, PathId, PathLimits, PathStore, PathUse, RecoveryKind, TransportConfig,
    policy::{Built, PathSnapshot, RecoveryAction, RecoveryPolicy, Scheme, SentData, UnackedView},
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

/// Does not survive the first packet of data.
#[derive(Debug)]
struct Panics;

impl RecoveryPolicy for Panics {
    fn on_opportunity(&mut self, _: Instant, _: &[PathSnapshot], _: &dyn UnackedView) -> RecoveryAction {
        RecoveryAction::Nothing
    }

    fn on_data(&mut self, _: Instant, _: &SentData, _: &[PathSnapshot]) {
        panic!("as asked for");
    }
}

const PANICS: Scheme = Scheme { name: "panics", build: |_terms| Built::new(Panics) };

#[tokio::test]
async fn a_scheme_that_panics_ends_its_connection_and_no_other() {
    watchdog(async {
        let (server, config) = configs();
        let pair = Pair::with(server, config.clone());
        let (other, other_there) = pair.connect().await;
        let panics = config.recovery(RecoveryKind::Custom(PANICS));
        let connecting = pair.client.connect_with(&panics, pair.address(), "localhost").unwrap();
        let accept = async { pair.server.accept().await.unwrap().await };
        let (client, _server) = tokio::join!(connecting, accept);
        let client = client.unwrap();
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"data").await.unwrap();
        let error = client.closed().await;
        assert_eq!(error, ConnectionError::EndpointGone);
        assert!(error.to_string().ends_with("its task panicked"), "{error}");
        assert!(send.write(b"more").await.is_err() && client.open_uni().await.is_err());
        let mut send = other.open_uni().await.unwrap();
        send.write_all(b"goes on").await.unwrap();
        send.finish().unwrap();
        let mut recv = other_there.accept_uni().await.unwrap();
        assert_eq!(recv.read_to_end(10).await.unwrap(), b"goes on");
        other.close(0u8.into(), b"");
        pair.client.wait_idle().await;
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

#[tokio::test]
async fn what_is_known_of_paths_is_kept_where_the_application_says() {
    watchdog(async {
        let store = Arc::<PathStore>::default();
        let transport = TransportConfig { path_store: store.clone(), ..TransportConfig::default() };
        let (server, client) = configs();
        let pair = Pair::with(server, client.transport(transport));
        let (client, _server) = pair.connect().await;
        let (send, _recv) = client.open_bi().await.unwrap();
        assert_eq!(send.id().dir(), Dir::Bi);
        assert!(Arc::strong_count(&store) > 1);
    })
    .await;
}
