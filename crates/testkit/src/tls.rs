//! TLS with fixed key material, so that every handshake message has the same size in every run.
//!
//! The certificate is self-signed, for `localhost`, and stands for an Ed25519 key, whose signatures
//! all have one length. The clock of TLS stands still and sessions are never resumed: two runs
//! differ in TLS's randomness alone, which shows in no size. Configurations are made once, since
//! they remember nothing, and leave the arithmetic of curves out (see `shortcuts`).

mod shortcuts;

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use rustls::{
    client::Resumption,
    pki_types::{CertificateDer, UnixTime},
    sign::{CertifiedKey, SingleCertAndKey},
    time_provider::TimeProvider,
    version::TLS13,
};

pub use shortcuts::Trusting;

const CERTIFICATE: &[u8] = include_bytes!("../fixtures/server.cert.der");

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

/// A client that trusts whoever answers.
pub fn client() -> Arc<rustls::ClientConfig> {
    static CLIENT: LazyLock<Arc<rustls::ClientConfig>> = LazyLock::new(make_client);
    CLIENT.clone()
}

/// A server with the fixed certificate.
pub fn server() -> Arc<rustls::ServerConfig> {
    static SERVER: LazyLock<Arc<rustls::ServerConfig>> = LazyLock::new(make_server);
    SERVER.clone()
}

fn make_client() -> Arc<rustls::ClientConfig> {
    let provider = shortcuts::provider();
    let builder = rustls::ClientConfig::builder_with_details(provider.clone(), Arc::new(FixedTime));
    let builder = builder.with_protocol_versions(&[&TLS13]).expect("ring speaks TLS 1.3");
    let verifier = Arc::new(Trusting(provider));
    let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

fn make_server() -> Arc<rustls::ServerConfig> {
    let builder = rustls::ServerConfig::builder_with_details(shortcuts::provider(), Arc::new(FixedTime));
    let builder =
        builder.with_protocol_versions(&[&TLS13]).expect("ring speaks TLS 1.3").with_no_client_auth();
    let chain = vec![CertificateDer::from(CERTIFICATE)];
    let certified = CertifiedKey::new(chain, Arc::new(shortcuts::Unsigned));
    Arc::new(builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified))))
}
