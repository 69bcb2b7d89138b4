//! Clients by TLS, whatever the certificate is.

use std::sync::Arc;

use mendpath::rustls::{ClientConfig, crypto::ring};
use testkit::tls::Trusting;

/// A client that trusts whoever answers, for one application protocol.
pub fn trusting(protocol: &str) -> ClientConfig {
    let mut tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting(Arc::new(ring::default_provider()))))
        .with_no_client_auth();
    tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    tls
}
