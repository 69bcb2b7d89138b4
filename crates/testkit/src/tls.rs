//! TLS with fixed key material, so that every handshake message has the same size in every run.
//!
//! The certificate is self-signed, for `localhost`, with an Ed25519 key, whose signatures all have one length. The clock of TLS
//! stands still and sessions are never resumed: two runs differ in TLS's randomness alone, which shows in no size.

use std::{sync::Arc, time::Duration};

use rustls::{
    client::Resumption,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime},
    time_provider::TimeProvider,
    version::TLS13,
};

const CERTIFICATE: &[u8] = include_bytes!("../fixtures/server.cert.der");
const KEY: &[u8] = include_bytes!("../fixtures/server.key.der");

/// The name in the certificate.
pub const SERVER_NAME: &str = "localhost";

/// A clock that stands within the certificate's validity.
#[derive(Debug)]
struct FixedTime;

impl TimeProvider for FixedTime {
    fn current_time(&self) -> Option<UnixTime> {
        const YEAR_2050: u64 = 2_524_608_000;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(YEAR_2050)))
    }
}

/// A client that trusts the fixed certificate and nothing else.
pub fn client() -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(CERTIFICATE)).expect("the fixture is a certificate");
    let builder =
        rustls::ClientConfig::builder_with_details(Arc::new(default_provider()), Arc::new(FixedTime));
    let builder = builder.with_protocol_versions(&[&TLS13]).expect("ring speaks TLS 1.3");
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

/// A server with the fixed certificate.
pub fn server() -> Arc<rustls::ServerConfig> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(KEY));
    let builder =
        rustls::ServerConfig::builder_with_details(Arc::new(default_provider()), Arc::new(FixedTime));
    let builder =
        builder.with_protocol_versions(&[&TLS13]).expect("ring speaks TLS 1.3").with_no_client_auth();
    let config = builder.with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key);
    Arc::new(config.expect("the fixture's key belongs to its certificate"))
}
