//! Client and server configurations: TLS on one side, transport parameters on the other.

use std::{sync::Arc, time::Duration};

use rustls::{
    CipherSuite, RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer},
    server::ServerSessionMemoryCache,
    version::TLS13,
};

use crate::{
    AddressValidation, Admission, ConfigError, ControllerKind, Identity, KeyPin, RecoveryKind, SchedulerKind,
    TokenStore, TransportConfig, verifier::PinnedKey,
};

/// The application protocol (RFC 7301) used unless [`alpn`](ClientConfig::alpn) names others.
pub const DEFAULT_ALPN: &[u8] = b"mendpath/1";

/// Sessions that a server which accepts early data remembers; the oldest is forgotten first, and
/// its client starts anew.
const STORED_SESSIONS: usize = 1_024;

/// The setters that both configurations share.
macro_rules! shared_setters {
    () => {
        /// Application protocols in order of preference (RFC 7301); the peers must share one (RFC
        /// 9001 section 8.1).
        #[must_use]
        pub fn alpn<P: Into<Vec<u8>>>(mut self, protocols: impl IntoIterator<Item = P>) -> Self {
            self.tls.alpn_protocols = protocols.into_iter().map(Into::into).collect();
            self
        }

        /// What to do with spare window about packets that may be lost.
        #[must_use]
        pub fn recovery(mut self, kind: RecoveryKind) -> Self {
            self.transport_mut().recovery = kind;
            self
        }

        /// The congestion controller of every path.
        #[must_use]
        pub fn congestion(mut self, kind: ControllerKind) -> Self {
            self.transport_mut().controller = kind;
            self
        }

        /// How new data is shared out to paths.
        #[must_use]
        pub fn scheduler(mut self, kind: SchedulerKind) -> Self {
            self.transport_mut().scheduler = kind;
            self
        }

        /// How long the connection survives without an answer on any path; the smaller value of
        /// both peers counts.
        #[must_use]
        pub fn idle_timeout(mut self, timeout: Duration) -> Self {
            self.transport_mut().max_idle_timeout = timeout;
            self
        }

        /// Sends something after this long without traffic, so that neither the peer nor a NAT
        /// forgets the connection. Zero sends nothing.
        #[must_use]
        pub fn keep_alive(mut self, interval: Duration) -> Self {
            self.transport_mut().keep_alive = Some(interval);
            self
        }

        /// Bytes that the peer may have under way and unread: on the whole connection, which is
        /// what they may cost in memory here, and on one stream at most, if it is read fast enough.
        #[must_use]
        pub fn receive_windows(mut self, connection: u64, stream: u64) -> Self {
            self.transport_mut().receive_window = connection;
            self.transport_mut().stream_receive_window = stream;
            self
        }

        /// Streams that the peer may have open at a time, bidirectional and unidirectional.
        #[must_use]
        pub fn max_streams(mut self, bidi: u64, uni: u64) -> Self {
            self.transport_mut().max_concurrent_bidi = bidi;
            self.transport_mut().max_concurrent_uni = uni;
            self
        }

        /// Paths that may be open at a time.
        #[must_use]
        pub fn max_paths(mut self, paths: u32) -> Self {
            self.transport_mut().max_paths = paths;
            self
        }

        /// Writes a qlog file of every connection, for analysis of what it did and why.
        #[cfg(feature = "qlog")]
        #[must_use]
        pub fn qlog(mut self, directory: crate::QlogDirectory) -> Self {
            self.transport_mut().observe = Some(Arc::new(directory));
            self
        }

        /// Where TLS secrets are logged, for the analysis of captured packets: `rustls::KeyLogFile`
        /// writes the file that the environment variable SSLKEYLOGFILE names. Nowhere by default.
        #[must_use]
        pub fn key_log(mut self, log: Arc<dyn rustls::KeyLog>) -> Self {
            self.tls.key_log = log;
            self
        }

        /// All transport parameters at once, for what has no setter of its own. Overwrites earlier
        /// setters.
        #[must_use]
        pub fn transport(mut self, transport: TransportConfig) -> Self {
            *self.transport_mut() = transport;
            self
        }
    };
}

/// How a client trusts servers, and how its connections behave.
///
/// TLS 1.3 only. There is no switch for the verification of servers; who needs another than these
/// brings it in [`with_tls`](Self::with_tls).
#[derive(Clone, Debug)]
pub struct ClientConfig {
    tls: rustls::ClientConfig,
    transport: Arc<TransportConfig>,
    tokens: Arc<TokenStore>,
}

impl ClientConfig {
    /// Trusts exactly the server that proves possession of the key with this pin; names and dates
    /// do not matter.
    pub fn with_pinned_key(pin: KeyPin) -> Self {
        let provider = provider();
        let verifier = Arc::new(PinnedKey::new(pin, provider.clone()));
        let tls = client_builder(provider)
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Self::from_tls(tls)
    }

    /// Trusts servers whose certificate is valid for the name connected to and leads to one of
    /// these roots.
    pub fn with_roots(roots: RootCertStore) -> Self {
        Self::from_tls(client_builder(provider()).with_root_certificates(roots).with_no_client_auth())
    }

    /// Trusts whom this TLS configuration trusts; for a verifier, a key log or a choice of cipher
    /// suites of one's own.
    ///
    /// It must allow TLS 1.3 with AES-128-GCM, which every QUIC handshake begins with; otherwise
    /// connecting fails. Its application protocols are kept.
    pub fn with_tls(tls: rustls::ClientConfig) -> Self {
        Self { tls, transport: Arc::default(), tokens: Arc::default() }
    }

    fn from_tls(tls: rustls::ClientConfig) -> Self {
        Self::with_tls(tls).alpn([DEFAULT_ALPN])
    }

    shared_setters!();

    /// The transport parameters, to change some.
    pub fn transport_mut(&mut self) -> &mut TransportConfig {
        Arc::make_mut(&mut self.transport)
    }

    /// Whether [`Connecting::into_0rtt`](crate::Connecting::into_0rtt) may send data before the
    /// handshake is complete, if a ticket allows it. Off by default. Tickets are kept in memory,
    /// for this configuration and its clones; connections to a server seen before resume with them
    /// in any case.
    #[must_use]
    pub fn early_data(mut self, send: bool) -> Self {
        self.tls.enable_early_data = send;
        self
    }

    /// Shares the tokens with which servers spare their returning clients a round trip when they
    /// are busy (RFC 9000 section 8.1.3). Without this, clones of a configuration share theirs.
    #[must_use]
    pub fn token_store(mut self, tokens: Arc<TokenStore>) -> Self {
        self.tokens = tokens;
        self
    }

    pub(crate) fn to_proto(&self) -> proto::ClientConfig {
        proto::ClientConfig {
            tls: Arc::new(self.tls.clone()),
            transport: self.transport.clone(),
            tokens: self.tokens.clone(),
        }
    }
}

/// Who a server is, and how its connections behave.
///
/// TLS 1.3 only.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    tls: rustls::ServerConfig,
    transport: Arc<TransportConfig>,
    max_connections: usize,
    max_half_open: usize,
    handshake_timeout: Duration,
    address_validation: AddressValidation,
    admission: Option<Admission>,
}

impl ServerConfig {
    /// Connections held at a time unless [`max_connections`](Self::max_connections) says otherwise.
    pub const DEFAULT_MAX_CONNECTIONS: usize = 10_000;
    /// Clients that wait to be let in at a time unless [`max_half_open`](Self::max_half_open) says
    /// otherwise.
    pub const DEFAULT_MAX_HALF_OPEN: usize = 1_024;
    /// How long a handshake may take unless [`handshake_timeout`](Self::handshake_timeout) says
    /// otherwise.
    pub const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

    /// A server known by a pinned key.
    ///
    /// # Errors
    /// If TLS cannot use the key.
    pub fn with_identity(identity: &Identity) -> Result<Self, ConfigError> {
        Self::with_certificate(vec![identity.certificate().clone()], identity.private_key())
    }

    /// A server with a certificate chain, its own certificate first.
    ///
    /// # Errors
    /// If the chain is empty, TLS cannot use the key, or it does not belong to the certificate.
    pub fn with_certificate(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, ConfigError> {
        if chain.is_empty() {
            return Err(ConfigError::NoCertificate);
        }
        let tls = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        Ok(Self::with_tls(tls).alpn([DEFAULT_ALPN]))
    }

    /// A server with this TLS configuration; for a key log, several certificates, or clients with
    /// certificates.
    ///
    /// It must allow TLS 1.3 with AES-128-GCM, which every QUIC handshake begins with; otherwise no
    /// connection is accepted. Its application protocols are kept.
    pub fn with_tls(tls: rustls::ServerConfig) -> Self {
        let mut config = Self {
            tls,
            transport: Arc::default(),
            max_connections: Self::DEFAULT_MAX_CONNECTIONS,
            max_half_open: Self::DEFAULT_MAX_HALF_OPEN,
            handshake_timeout: Self::DEFAULT_HANDSHAKE_TIMEOUT,
            address_validation: AddressValidation::default(),
            admission: None,
        };
        config.forget_sessions();
        config
    }

    shared_setters!();

    /// The transport parameters, to change some.
    pub fn transport_mut(&mut self) -> &mut TransportConfig {
        self.forget_sessions();
        Arc::make_mut(&mut self.transport)
    }

    /// Tickets for early data promise the limits of their time (RFC 9000 section 7.4.1): where
    /// those change, the tickets from before must not count.
    fn forget_sessions(&mut self) {
        if self.tls.max_early_data_size > 0 {
            self.tls.session_storage = ServerSessionMemoryCache::new(STORED_SESSIONS);
        }
    }

    /// Whether clients may send data before the handshake is complete (0-RTT). Off by default. They
    /// stay unread until it is, which no replay brings about, unless the application calls
    /// [`Connecting::into_0rtt`](crate::Connecting::into_0rtt).
    ///
    /// Tickets that allow it are good for one connection, accepted with the configuration that gave
    /// them out or a clone of it. After the transport or the admission was changed, older ones count
    /// no more.
    #[must_use]
    pub fn early_data(mut self, accept: bool) -> Self {
        self.tls.max_early_data_size = if accept { u32::MAX } else { 0 };
        self.forget_sessions();
        self
    }

    /// Whether clients' paths may move to other addresses, be it because a NAT forgets a binding
    /// (RFC 9000 section 9). If not, they may not open further paths either. Default true.
    #[must_use]
    pub fn migration(mut self, allowed: bool) -> Self {
        self.transport_mut().migration = allowed;
        self
    }

    /// Connections held at a time; more are refused.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// Clients that wait to be let in at a time: their handshake is under way or, with
    /// [`admission`](Self::admission), they are not admitted. Newcomers displace the oldest; no
    /// network gets more than a share.
    #[must_use]
    pub fn max_half_open(mut self, connections: usize) -> Self {
        self.max_half_open = connections;
        self
    }

    /// How long a handshake may take.
    #[must_use]
    pub fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.handshake_timeout = timeout;
        self
    }

    /// Lets clients in by [`Connection::admit`](crate::Connection::admit) and not by the handshake
    /// alone; until then they have what `limits` says. For servers that serve only whom they know.
    #[must_use]
    pub fn admission(mut self, limits: Admission) -> Self {
        self.admission = Some(limits);
        self.forget_sessions();
        self
    }

    /// When clients must show that they receive at their address before any state is kept for them
    /// (RFC 9000 section 8.1).
    #[must_use]
    pub fn address_validation(mut self, policy: AddressValidation) -> Self {
        self.address_validation = policy;
        self
    }

    pub(crate) fn to_proto(&self) -> Arc<proto::ServerConfig> {
        Arc::new(proto::ServerConfig {
            tls: Arc::new(self.tls.clone()),
            transport: self.transport.clone(),
            max_connections: self.max_connections,
            max_half_open: self.max_half_open,
            handshake_timeout: self.handshake_timeout,
            address_validation: self.address_validation,
            admission: self.admission,
        })
    }
}

/// `ring`, preferring AES-128: it is as good as AES-256 here and takes a quarter less time per
/// packet.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

fn client_builder(
    provider: Arc<CryptoProvider>,
) -> rustls::ConfigBuilder<rustls::ClientConfig, rustls::WantsVerifier> {
    rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .expect("the ring provider has TLS 1.3 cipher suites")
}
