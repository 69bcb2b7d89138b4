//! TLS configurations: with a key log, and for clients that trust anybody.

use std::{path::Path, sync::Arc};

use rustls::{
    CipherSuite, ClientConfig, DigitallySignedStruct, KeyLogFile, RootCertStore, ServerConfig,
    SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls13_signature},
    pki_types::{
        CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime, pem::PemObject as _,
    },
    version::TLS13,
};

use crate::{ClientArgs, Failure, ServerArgs, hq};

pub(crate) fn server(args: &ServerArgs) -> Result<ServerConfig, Failure> {
    let (chain, key) = match (&args.cert, &args.key) {
        (Some(cert), Some(key)) => {
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| pem_failure(key, &error))?;
            (certificates(cert)?, key)
        }
        _ => {
            let identity = mendpath::Identity::self_signed(["localhost"])?;
            let key = PrivatePkcs8KeyDer::from(identity.to_pkcs8_der());
            (vec![identity.certificate().clone()], key.into())
        }
    };
    let mut tls = ServerConfig::builder_with_provider(provider(None))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![hq::ALPN.to_vec()];
    tls.key_log = Arc::new(KeyLogFile::new());
    Ok(tls)
}

pub(crate) fn client(args: &ClientArgs) -> Result<ClientConfig, Failure> {
    let suite = args.chacha20.then_some(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256);
    let provider = provider(suite);
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[&TLS13])?;
    let mut tls = match &args.ca {
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate)?;
            }
            builder.with_root_certificates(roots).with_no_client_auth()
        }
        None if args.insecure => {
            let anybody = Arc::new(Anybody(provider));
            builder.dangerous().with_custom_certificate_verifier(anybody).with_no_client_auth()
        }
        None => return Err(Failure::NoTrust),
    };
    tls.alpn_protocols = vec![hq::ALPN.to_vec()];
    tls.key_log = Arc::new(KeyLogFile::new());
    Ok(tls)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let failure = |error| pem_failure(path, &error);
    CertificateDer::pem_file_iter(path).map_err(failure)?.collect::<Result<_, _>>().map_err(failure)
}

fn pem_failure(path: &Path, error: &rustls::pki_types::pem::Error) -> Failure {
    Failure::Pem { path: path.to_owned(), reason: error.to_string() }
}

/// All cipher suites, or those that make a server choose this one: Initial packets are protected
/// with AES-128-GCM whatever is chosen (RFC 9001 section 5.2), so that one cannot be missing.
fn provider(first: Option<CipherSuite>) -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    if let Some(first) = first {
        let initial = CipherSuite::TLS13_AES_128_GCM_SHA256;
        provider.cipher_suites.retain(|suite| [first, initial].contains(&suite.suite()));
        provider.cipher_suites.sort_by_key(|suite| suite.suite() != first);
    }
    Arc::new(provider)
}

/// Accepts any certificate, though not a signature by another key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::PeerIncompatible::Tls13RequiredForQuic.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
