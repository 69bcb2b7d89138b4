//! Trust by a pinned public key instead of a certificate authority.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, PeerIncompatible, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

use crate::KeyPin;

/// Accepts exactly the servers that prove possession of one key, whatever their certificate says
/// about names and dates.
#[derive(Debug)]
pub(crate) struct PinnedKey {
    pin: KeyPin,
    provider: Arc<CryptoProvider>,
}

impl PinnedKey {
    pub(crate) fn new(pin: KeyPin, provider: Arc<CryptoProvider>) -> Self {
        Self { pin, provider }
    }
}

/// The server is another than the one that is trusted.
#[derive(Debug, thiserror::Error)]
#[error("the server's key is not the pinned one: its pin is {shown}")]
struct OtherKey {
    shown: KeyPin,
}

impl ServerCertVerifier for PinnedKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let shown = KeyPin::of_spki(&certificate.subject_public_key_info());
        if shown.matches(&self.pin) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::Other(OtherError(Arc::new(OtherKey { shown }))).into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls13RequiredForQuic.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;

    fn verify(verifier: &PinnedKey, certificate: &CertificateDer<'_>) -> Result<ServerCertVerified, Error> {
        let name = ServerName::try_from("any.example").unwrap();
        verifier.verify_server_cert(
            certificate,
            &[],
            &name,
            &[],
            UnixTime::since_unix_epoch(Default::default()),
        )
    }

    #[test]
    fn only_the_pinned_key_is_accepted() {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let other = Identity::self_signed(["localhost"]).unwrap();
        let verifier = PinnedKey::new(identity.pin(), provider);
        assert!(verify(&verifier, identity.certificate()).is_ok());
        let error = verify(&verifier, other.certificate()).unwrap_err();
        assert!(matches!(error, Error::InvalidCertificate(_)), "{error}");
        assert!(verify(&verifier, &CertificateDer::from(vec![0x30, 0x00])).is_err());
    }
}
