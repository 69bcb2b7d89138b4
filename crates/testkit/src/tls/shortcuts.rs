//! TLS without its expensive arithmetic: every message has its usual size and its usual place, but
//! no curve is computed.
//!
//! A run makes a connection of its own, and curves would be a sixth of what it costs. What is under
//! test is the transport: it sees secrets, keys and handshake messages, and cannot tell where they
//! come from. None of this protects anything.

use std::sync::Arc;

use rustls::{
    DigitallySignedStruct, Error, NamedGroup, SignatureAlgorithm, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{
        ActiveKeyExchange, CryptoProvider, GetRandomFailed, SharedSecret, SupportedKxGroup,
        ring::default_provider,
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
    sign::{Signer, SigningKey},
};

/// Bytes of a public key of X25519.
const KEY: usize = 32;
/// Bytes of an Ed25519 signature.
const SIGNATURE: usize = 64;

/// The default provider, with a key exchange that computes nothing.
pub(super) fn provider() -> Arc<CryptoProvider> {
    let mut provider = default_provider();
    for group in provider.kx_groups.iter_mut().filter(|group| group.name() == NamedGroup::X25519) {
        *group = &Exchange;
    }
    Arc::new(provider)
}

/// Looks like X25519. The secret is the sum of both public keys.
#[derive(Debug)]
struct Exchange;

struct Begun([u8; KEY]);

impl SupportedKxGroup for Exchange {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut key = [0; KEY];
        default_provider()
            .secure_random
            .fill(&mut key)
            .map_err(|GetRandomFailed| Error::FailedToGetRandomBytes)?;
        Ok(Box::new(Begun(key)))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

impl ActiveKeyExchange for Begun {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let sum: Vec<u8> = self.0.iter().zip(peer).map(|(a, b)| a.wrapping_add(*b)).collect();
        Ok(sum[..].into())
    }

    fn pub_key(&self) -> &[u8] {
        &self.0
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// Signs like Ed25519, without a key: [`Trusting`] does not look.
#[derive(Debug)]
pub(super) struct Unsigned;

impl SigningKey for Unsigned {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        offered.contains(&SignatureScheme::ED25519).then(|| Box::new(Self) as Box<dyn Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl Signer for Unsigned {
    fn sign(&self, _: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(vec![0; SIGNATURE])
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

/// Takes every server for the right one, for simulations and for those who play an attacker. The
/// provider says which signatures are offered to the server.
#[derive(Debug)]
pub struct Trusting(pub Arc<CryptoProvider>);

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(rustls::PeerIncompatible::Tls13RequiredForQuic.into())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
