//! The server's certificate: from files that are read again when they change, or made for this run.

use std::{
    convert::Infallible,
    fs::File,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mendpath::{
    Identity,
    rustls::{
        Error, InconsistentKeys, ServerConfig,
        crypto::{CryptoProvider, ring},
        pki_types::{
            CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer,
            pem::{self, PemObject},
        },
        server::{ClientHello, ResolvesServerCert},
        sign::{CertifiedKey, SigningKey},
    },
};
use tokio::signal::unix::Signal;

use super::files::State;
use crate::{
    console::say,
    failure::{Failure, io_reason},
};

/// How often it is looked whether the files have changed.
const LOOK: Duration = Duration::from_secs(5);

/// What the server shows of itself.
#[derive(Debug)]
pub(super) struct Certificate {
    files: Option<Files>,
    current: Mutex<Arc<CertifiedKey>>,
    /// The hash of a key that was made for this run.
    hash: Option<String>,
}

/// Where it comes from.
#[derive(Debug)]
struct Files {
    chain: PathBuf,
    key: PathBuf,
    /// As they were before they were read for the first time.
    at_first: [Option<State>; 2],
}

impl Files {
    fn new((chain, key): (PathBuf, PathBuf)) -> Self {
        let at_first = [state(&chain), state(&key)];
        Self { chain, key, at_first }
    }
}

impl Certificate {
    /// That of the files, or one for localhost.
    ///
    /// # Errors
    /// If the files cannot be used.
    pub(super) fn new(files: Option<(PathBuf, PathBuf)>) -> Result<Self, Failure> {
        let files = files.map(Files::new);
        let (key, hash) = match &files {
            Some(Files { chain, key, .. }) => (read(chain, key)?, None),
            None => {
                let (key, hash) = self_signed()?;
                (key, Some(hash))
            }
        };
        Ok(Self { files, current: Mutex::new(Arc::new(key)), hash })
    }

    pub(super) fn self_signed(&self) -> Option<&str> {
        self.hash.as_deref()
    }

    /// A TLS configuration that shows whatever is current. Clients that come again to it may go on from
    /// the certificate that they have seen.
    pub(super) fn tls(self: &Arc<Self>, protocols: &[&[u8]]) -> ServerConfig {
        let mut tls = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("the ring provider has the suites of TLS 1.3")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Resolver(self.clone())));
        tls.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        tls
    }

    /// Whether the certificate is another one than before.
    fn replace(&self, key: CertifiedKey) -> bool {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let is_another = current.cert != key.cert;
        *current = Arc::new(key);
        is_another
    }

    /// Reads the files again whenever they change or `hangup` comes, and tells `renewed` if there is another
    /// certificate. Files that cannot be used leave what is there.
    pub(super) async fn watch(&self, mut hangup: Option<Signal>, renewed: impl Fn()) -> Infallible {
        let Some(Files { chain, key, at_first }) = &self.files else {
            while let Some(signal) = &mut hangup {
                signal.recv().await;
                say("the certificate was made for this run and stays as it is");
            }
            return std::future::pending().await;
        };
        let mut seen = *at_first;
        loop {
            let asked = async {
                match &mut hangup {
                    Some(signal) => _ = signal.recv().await,
                    None => std::future::pending().await,
                }
            };
            let forced = tokio::select! {
                () = asked => true,
                () = crate::backoff::pause(LOOK) => false,
            };
            // Before they are read: what changes meanwhile is seen the next time.
            let now = [state(chain), state(key)];
            if !forced && now == seen {
                continue;
            }
            seen = now;
            match read(chain, key) {
                Ok(key) => {
                    if self.replace(key) {
                        renewed();
                    }
                    say("read the certificate again");
                }
                Err(failure) => say(format_args!("{failure} The certificate stays as it was")),
            }
        }
    }
}

fn state(file: &Path) -> Option<State> {
    std::fs::metadata(file).ok().map(|about| State::of(&about))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn read(chain: &Path, key: &Path) -> Result<CertifiedKey, Failure> {
    let failed = |wrong: String| cannot_use("certificate", chain, wrong);
    let bytes = File::open(chain).and_then(plans::whole).map_err(|error| failed(io_reason(&error)))?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|error| failed(not_pem(&error)))?;
    if certificates.is_empty() {
        return Err(failed("there is none in it".into()));
    }
    let certified = CertifiedKey::new(certificates, read_key(key)?);
    match certified.keys_match() {
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(failed(format!("it is of another key than that in {}", key.display())))
        }
        // That it is not known is no error.
        Ok(()) | Err(Error::InconsistentKeys(_)) => Ok(certified),
        Err(error) => Err(failed(error.to_string())),
    }
}

fn read_key(file: &Path) -> Result<Arc<dyn SigningKey>, Failure> {
    let failed = |wrong: &str| cannot_use("private key", file, wrong.to_owned());
    let bytes = File::open(file).and_then(plans::whole).map_err(|error| failed(&io_reason(&error)))?;
    let has = |word: &[u8]| bytes.windows(word.len()).any(|part| part == word);
    let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        _ if has(b"ENCRYPTED") => {
            failed("it is encrypted, and nobody is there to be asked (`openssl pkey` decrypts it)")
        }
        pem::Error::NoItemsFound => failed("there is none in it"),
        error => failed(&not_pem(&error)),
    })?;
    let usable = "it is none of RSA (2,048 to 4,096 bits), ECDSA (P-256, P-384) and Ed25519";
    provider().key_provider.load_private_key(key).map_err(|_| failed(usable))
}

fn not_pem(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "it ends before its last section does".into(),
        pem::Error::IllegalSectionStart { .. } => "a section of it does not begin as one".into(),
        other => other.to_string(),
    }
}

fn cannot_use(what: &str, file: &Path, wrong: String) -> Failure {
    let tried = format!("cannot use the {what} {}", file.display());
    Failure::new(tried, wrong, "Name files in PEM with --cert and --key")
}

fn self_signed() -> Result<(CertifiedKey, String), Failure> {
    let failed =
        |wrong: String| Failure::new("cannot make a certificate", wrong, "Name one with --cert and --key");
    let identity = Identity::self_signed(["localhost", "127.0.0.1", "::1"])
        .map_err(|error| failed(error.to_string()))?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(identity.to_pkcs8_der()));
    let key = CertifiedKey::from_der(vec![identity.certificate().clone()], key, &provider())
        .map_err(|error| failed(error.to_string()))?;
    Ok((key, STANDARD.encode(identity.pin().as_bytes())))
}

/// Shows the current certificate to everybody, whatever name they ask for.
#[derive(Debug)]
struct Resolver(Arc<Certificate>);

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(kind: &str, der: &[u8]) -> String {
        format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der))
    }

    #[test]
    fn what_cannot_be_used_is_said_of_the_file_that_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let (chain, key) = (dir.path().join("chain.pem"), dir.path().join("key.pem"));
        let [identity, other] = [(); 2].map(|()| Identity::self_signed(["localhost"]).unwrap());
        let write = |file: &Path, text: &str| std::fs::write(file, text).unwrap();
        let certificate = pem("CERTIFICATE", identity.certificate());
        let private = |identity: &Identity| pem("PRIVATE KEY", &identity.to_pkcs8_der());
        for (chain_has, key_has, wrong) in [
            (&*certificate, private(&identity), None),
            ("", private(&identity), Some("chain.pem: there is none in it")),
            (&certificate, private(&other), Some("chain.pem: it is of another key than that in")),
            (
                &certificate[..99],
                private(&identity),
                Some("chain.pem: it ends before its last section does."),
            ),
            (
                &certificate,
                "-----BEGIN PRIV\n".to_owned(),
                Some("key.pem: a section of it does not begin as one."),
            ),
            (&certificate, String::new(), Some("key.pem: there is none in it")),
            (&certificate, pem("PRIVATE KEY", b"P-521"), Some("key.pem: it is none of RSA")),
            (&certificate, pem("ENCRYPTED PRIVATE KEY", b"?"), Some("key.pem: it is encrypted")),
            (&certificate, pem("ENCRYPTED PRIVATE KEY", b"?") + &private(&identity), None),
            (
                &certificate,
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n".to_owned(),
                Some("key.pem: it is encrypted"),
            ),
        ] {
            write(&chain, chain_has);
            write(&key, &key_has);
            let said = read(&chain, &key).err().map(|failure| failure.to_string());
            match (said, wrong) {
                (None, None) => {}
                (Some(said), Some(wrong)) => assert!(said.contains(wrong), "{said}"),
                (said, wrong) => panic!("{said:?}, not {wrong:?}"),
            }
        }
    }

    /// Before it serves, or with the date that the old ones had (`cp -p`), as a backup is brought back.
    #[tokio::test(start_paused = true)]
    async fn another_pair_of_files_is_seen_whenever_it_comes_and_whatever_its_date() {
        let dir = tempfile::tempdir().unwrap();
        let (chain, key) = (dir.path().join("chain.pem"), dir.path().join("key.pem"));
        let date = crate::accounts::now();
        let write = || {
            let identity = Identity::self_signed(["localhost"]).unwrap();
            let pems =
                [pem("CERTIFICATE", identity.certificate()), pem("PRIVATE KEY", &identity.to_pkcs8_der())];
            for (file, pem) in [&chain, &key].into_iter().zip(pems) {
                let new = file.with_extension("new");
                std::fs::write(&new, pem).unwrap();
                File::options().write(true).open(&new).unwrap().set_modified(date).unwrap();
                std::fs::rename(new, file).unwrap();
            }
            identity.certificate().clone()
        };
        write();
        let certificate = Certificate::new(Some((chain.clone(), key.clone()))).unwrap();
        let mut expected = write();
        let mut watching = std::pin::pin!(certificate.watch(None, || ()));
        for _ in 0..3 {
            assert!(tokio::time::timeout(2 * LOOK, watching.as_mut()).await.is_err());
            assert_eq!(certificate.current.lock().unwrap().cert, [expected]);
            expected = write();
        }
    }

    #[test]
    fn a_file_without_end_is_not_read_to_it() {
        let zero = Path::new("/dev/zero");
        let said = read(zero, zero).unwrap_err().to_string();
        assert!(said.contains("cannot use the certificate /dev/zero: it is longer than 1 MiB."), "{said}");
    }
}
