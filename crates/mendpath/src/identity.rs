//! Who a server is: a key, its certificate, and the pin by which clients know it.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rcgen::{CertificateParams, KeyPair, PublicKeyData as _};
use ring::digest;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use subtle::ConstantTimeEq as _;

use crate::ConfigError;

/// The SHA-256 of a certificate's SubjectPublicKeyInfo: names a key whatever certificate carries
/// it.
///
/// Its text form is 43 characters of unpadded base64url.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPin([u8; 32]);

impl KeyPin {
    /// The pin with this hash.
    pub const fn new(sha256: [u8; 32]) -> Self {
        Self(sha256)
    }

    /// The hash.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The pin of a DER-encoded SubjectPublicKeyInfo.
    pub fn of_spki(spki_der: &[u8]) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, spki_der).as_ref());
        Self(hash)
    }

    /// Whether both are the same, in time that does not depend on where they differ.
    pub(crate) fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for KeyPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for KeyPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPin({self})")
    }
}

impl FromStr for KeyPin {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ConfigError::Pin(text.to_owned());
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| error())?;
        bytes.try_into().map(Self).map_err(|_| error())
    }
}

/// A private key with a self-signed certificate, for servers whose clients pin the key.
///
/// Only the key needs to be kept: the certificate is made from it again, and the [pin](Self::pin)
/// stays the same.
pub struct Identity {
    key: KeyPair,
    certificate: CertificateDer<'static>,
}

impl Identity {
    /// A new key (ECDSA P-256) with a certificate for `names`, which are DNS names or IP addresses.
    ///
    /// # Errors
    /// If a name is neither.
    pub fn self_signed<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Result<Self, ConfigError> {
        Self::from_key(KeyPair::generate()?, names)
    }

    /// The identity of a key in PKCS#8 PEM, as [`to_pem`](Self::to_pem) wrote it.
    ///
    /// # Errors
    /// If the text holds no usable private key, or a name is neither a DNS name nor an IP address.
    pub fn from_pem<S: Into<String>>(
        key: &str,
        names: impl IntoIterator<Item = S>,
    ) -> Result<Self, ConfigError> {
        Self::from_key(KeyPair::from_pem(key)?, names)
    }

    /// The identity of a key in PKCS#8 DER, as [`to_pkcs8_der`](Self::to_pkcs8_der) wrote it.
    ///
    /// # Errors
    /// If the bytes are no usable private key, or a name is neither a DNS name nor an IP address.
    pub fn from_pkcs8_der<S: Into<String>>(
        key: &[u8],
        names: impl IntoIterator<Item = S>,
    ) -> Result<Self, ConfigError> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.to_vec()));
        Self::from_key(KeyPair::try_from(&key)?, names)
    }

    fn from_key<S: Into<String>>(
        key: KeyPair,
        names: impl IntoIterator<Item = S>,
    ) -> Result<Self, ConfigError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        if let Some(bad) = names.iter().find(|name| !is_certifiable(name)) {
            return Err(ConfigError::Name(bad.clone()));
        }
        let certificate = CertificateParams::new(names)?.self_signed(&key)?.into();
        Ok(Self { key, certificate })
    }

    /// The private key in PKCS#8 PEM. Keep it secret.
    pub fn to_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// The private key in PKCS#8 DER. Keep it secret.
    pub fn to_pkcs8_der(&self) -> Vec<u8> {
        self.key.serialize_der()
    }

    /// The certificate, DER-encoded.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The pin of the key.
    pub fn pin(&self) -> KeyPin {
        KeyPin::of_spki(&self.key.subject_public_key_info())
    }

    pub(crate) fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.to_pkcs8_der()))
    }
}

/// Whether a certificate can carry the name. Clients compare it with what they connect to, where
/// nothing else is allowed; a wildcard takes the place of the first label (RFC 6125 section 6.4.3).
fn is_certifiable(name: &str) -> bool {
    ServerName::try_from(name.strip_prefix("*.").unwrap_or(name)).is_ok()
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("pin", &self.pin()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_pin_through_pem_and_der() {
        let identity = Identity::self_signed(["localhost", "127.0.0.1"]).unwrap();
        let again = Identity::from_pem(&identity.to_pem(), ["elsewhere.example"]).unwrap();
        assert_eq!(identity.pin(), again.pin());
        let again = Identity::from_pkcs8_der(&identity.to_pkcs8_der(), ["localhost"]).unwrap();
        assert_eq!(identity.pin(), again.pin());
        assert_ne!(identity.pin(), Identity::self_signed(["localhost"]).unwrap().pin());
    }

    #[test]
    fn names_that_no_client_can_ask_for_are_refused() {
        for good in ["localhost", "a.example.", "*.example.com", "my_host", "127.0.0.1", "::1"] {
            assert!(Identity::self_signed([good]).is_ok(), "{good}");
        }
        for bad in ["", ".", "a b", "a..b", "[::1]", "127.0.0.1:443", "*", "\u{fc}.example", &"x".repeat(64)]
        {
            let error = Identity::self_signed(["localhost", bad]).unwrap_err();
            assert_eq!(error.to_string(), format!("`{bad}` is neither a DNS name nor an IP address"));
        }
    }

    #[test]
    fn a_pin_is_text() {
        let pin = KeyPin::new([0xfb; 32]);
        let text = pin.to_string();
        assert_eq!(text.len(), 43);
        assert_eq!(text.parse::<KeyPin>().unwrap(), pin);
        for bad in ["", "short", "+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/s"] {
            assert!(bad.parse::<KeyPin>().is_err(), "{bad}");
        }
    }

    #[test]
    fn debug_output_hides_the_key() {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        assert_eq!(format!("{identity:?}"), format!("Identity {{ pin: {:?}, .. }}", identity.pin()));
    }
}
