//! Configurations and identities.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use mendpath::{
    ClientConfig, Identity, KeyPin, QlogDirectory, ServerConfig, TransportConfig,
    rustls::{
        KeyLogFile, RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    },
};
use pyo3::prelude::*;

use super::errors::wrong;
use crate::files::of_file;

/// Most that a limit of bytes or streams may be: what a number of the wire holds.
const MOST: u64 = 1 << 62;

/// What both sides choose. `None`: as the library has it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Options {
    alpn: Option<Vec<Vec<u8>>>,
    recovery: Option<String>,
    congestion: Option<String>,
    scheduler: Option<String>,
    idle_timeout: Option<f64>,
    keep_alive: Option<f64>,
    receive_window: Option<u64>,
    stream_receive_window: Option<u64>,
    send_buffer: Option<u64>,
    max_bidi_streams: Option<u64>,
    max_uni_streams: Option<u64>,
    datagram_receive_buffer: Option<u64>,
    datagram_send_buffer: Option<u64>,
    reset_stream_at: bool,
    max_paths: Option<u32>,
    qlog: Option<PathBuf>,
    key_log: bool,
}

/// Seconds of an option.
pub(super) fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    if !(0.0..=1e9).contains(&value) {
        return Err(wrong(format!("{name} is from 0 to 1e9 seconds")));
    }
    Ok(Duration::from_secs_f64(value))
}

fn limit(name: &str, value: u64) -> PyResult<u64> {
    if value >= MOST {
        return Err(wrong(format!("{name} is below 2^62")));
    }
    Ok(value)
}

fn buffer(name: &str, value: u64) -> PyResult<usize> {
    usize::try_from(limit(name, value)?).map_err(|_| wrong(format!("{name} is larger than memory")))
}

impl Options {
    /// Changes what was chosen of the transport.
    fn change(&self, transport: &mut TransportConfig) -> PyResult<()> {
        if let Some(name) = &self.recovery {
            transport.recovery = name.parse().map_err(wrong)?;
        }
        if let Some(name) = &self.congestion {
            transport.controller = name.parse().map_err(wrong)?;
        }
        if let Some(name) = &self.scheduler {
            transport.scheduler = name.parse().map_err(wrong)?;
        }
        if let Some(value) = self.idle_timeout {
            transport.max_idle_timeout = seconds("idle_timeout", value)?;
        }
        if let Some(value) = self.keep_alive {
            transport.keep_alive = Some(seconds("keep_alive", value)?);
        }
        let numbers = [
            ("receive_window", self.receive_window, &mut transport.receive_window),
            ("stream_receive_window", self.stream_receive_window, &mut transport.stream_receive_window),
            ("send_buffer", self.send_buffer, &mut transport.send_buffer),
            ("max_bidi_streams", self.max_bidi_streams, &mut transport.max_concurrent_bidi),
            ("max_uni_streams", self.max_uni_streams, &mut transport.max_concurrent_uni),
        ];
        for (name, value, place) in numbers {
            if let Some(value) = value {
                *place = limit(name, value)?;
            }
        }
        if let Some(value) = self.datagram_receive_buffer {
            transport.datagram_receive_buffer = buffer("datagram_receive_buffer", value)?;
        }
        if let Some(value) = self.datagram_send_buffer {
            transport.datagram_send_buffer = buffer("datagram_send_buffer", value)?;
        }
        transport.reset_stream_at = self.reset_stream_at;
        if let Some(paths) = self.max_paths {
            if !(1..=64).contains(&paths) {
                return Err(wrong("max_paths is from 1 to 64"));
            }
            transport.max_paths = paths;
        }
        if let Some(folder) = &self.qlog {
            transport.observe = Some(Arc::new(QlogDirectory::new(folder)?));
        }
        Ok(())
    }
}

/// The certificates of a file in PEM, at least one.
fn certificates(file: &PathBuf) -> PyResult<Vec<CertificateDer<'static>>> {
    let text = fs::read(file).map_err(|error| of_file(error, file))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| wrong(format!("{}: {error}", file.display())))?;
    if found.is_empty() {
        return Err(wrong(format!("{}: no certificate in PEM", file.display())));
    }
    Ok(found)
}

/// How a client trusts servers, and how its connections behave.
#[pyclass(frozen, module = "mendpath._native")]
pub(crate) struct NativeClientConfig(pub(super) ClientConfig);

#[pymethods]
impl NativeClientConfig {
    /// Trusts the key with this pin, or else who leads to a root of these files.
    #[new]
    fn new(pin: Option<&str>, roots: Vec<PathBuf>, options: &Bound<'_, PyAny>) -> PyResult<Self> {
        let options: Options = options.extract()?;
        let mut config = match pin {
            Some(pin) => ClientConfig::with_pinned_key(pin.parse::<KeyPin>().map_err(wrong)?),
            None => {
                let mut store = RootCertStore::empty();
                for file in &roots {
                    let (taken, _) = store.add_parsable_certificates(certificates(file)?);
                    if taken == 0 {
                        return Err(wrong(format!("{}: no certificate that can be used", file.display())));
                    }
                }
                ClientConfig::with_roots(store)
            }
        };
        options.change(config.transport_mut())?;
        if let Some(protocols) = options.alpn {
            config = config.alpn(protocols);
        }
        if options.key_log {
            config = config.key_log(Arc::new(KeyLogFile::new()));
        }
        Ok(Self(config))
    }
}

/// Who a server is, and how its connections behave.
#[pyclass(frozen, module = "mendpath._native")]
pub(crate) struct NativeServerConfig(pub(super) ServerConfig);

#[pymethods]
impl NativeServerConfig {
    /// With an identity, or else the files of a certificate chain and its key.
    #[new]
    fn new(
        identity: Option<&NativeIdentity>,
        files: Option<(PathBuf, PathBuf)>,
        limits: (Option<usize>, Option<usize>, Option<f64>),
        migration: bool,
        options: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let options: Options = options.extract()?;
        let mut config = match (identity, files) {
            (Some(identity), None) => ServerConfig::with_identity(&identity.0).map_err(wrong)?,
            (None, Some((chain, key))) => {
                let text = fs::read(&key).map_err(|error| of_file(error, &key))?;
                let private = PrivateKeyDer::from_pem_slice(&text)
                    .map_err(|error| wrong(format!("{}: {error}", key.display())))?;
                ServerConfig::with_certificate(certificates(&chain)?, private).map_err(wrong)?
            }
            _ => return Err(wrong("a server has an identity, or certificate and key: one of both")),
        };
        options.change(config.transport_mut())?;
        if let Some(protocols) = options.alpn {
            config = config.alpn(protocols);
        }
        if options.key_log {
            config = config.key_log(Arc::new(KeyLogFile::new()));
        }
        let (connections, half_open, timeout) = limits;
        if let Some(connections) = connections {
            config = config.max_connections(connections);
        }
        if let Some(half_open) = half_open {
            config = config.max_half_open(half_open);
        }
        if let Some(timeout) = timeout {
            config = config.handshake_timeout(seconds("handshake_timeout", timeout)?);
        }
        Ok(Self(config.migration(migration)))
    }
}

/// A private key with a self-signed certificate.
#[pyclass(frozen, module = "mendpath._native")]
pub(crate) struct NativeIdentity(Identity);

#[pymethods]
impl NativeIdentity {
    #[staticmethod]
    fn self_signed(names: Vec<String>) -> PyResult<Self> {
        Identity::self_signed(names).map(Self).map_err(wrong)
    }

    #[staticmethod]
    fn from_pem(key: &str, names: Vec<String>) -> PyResult<Self> {
        Identity::from_pem(key, names).map(Self).map_err(wrong)
    }

    fn to_pem(&self) -> String {
        self.0.to_pem()
    }

    #[getter]
    fn pin(&self) -> String {
        self.0.pin().to_string()
    }

    #[getter]
    fn certificate(&self) -> Vec<u8> {
        self.0.certificate().to_vec()
    }
}
