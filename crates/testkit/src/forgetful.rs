//! Runs that learn nothing from each other.

use std::sync::Arc;

use proto::TransportConfig;

/// The same without what connections of other runs have learnt of paths: a result must not hang on
/// the order in which runs are made.
pub(crate) fn forgetful(transport: &TransportConfig) -> TransportConfig {
    TransportConfig { path_store: Arc::default(), ..transport.clone() }
}
