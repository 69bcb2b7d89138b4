//! The certificate that both ends share.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};

pub(crate) const NAME: &str = "lab";

/// Makes a certificate and leaves it for the client.
pub(crate) fn make(dir: &Path) -> anyhow::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    // Appears complete or not at all.
    std::fs::write(dir.join("certificate.part"), made.cert.der())?;
    std::fs::rename(dir.join("certificate.part"), dir.join("certificate"))?;
    Ok((vec![made.cert.der().clone()], key.into()))
}

/// Waits for the server's certificate.
pub(crate) async fn find(dir: &Path) -> anyhow::Result<Arc<RootCertStore>> {
    for _ in 0..500 {
        if let Ok(der) = std::fs::read(dir.join("certificate")) {
            let mut roots = RootCertStore::empty();
            roots.add(der.into())?;
            return Ok(Arc::new(roots));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(anyhow::anyhow!("no certificate in {}", dir.display())).context("is the server's end running?")
}
