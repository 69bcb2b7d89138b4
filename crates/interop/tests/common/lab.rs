//! One endpoint of ours and one of theirs on loopback, which trust each other.

use std::{net::SocketAddr, sync::Arc};

use mendpath::{ClientConfig, Endpoint, Identity, ServerConfig, TransportConfig};
use rustls::{RootCertStore, crypto::ring, pki_types::PrivatePkcs8KeyDer, version::TLS13};

use super::LOOPBACK;
use crate::stack;

/// The application protocol of the tests (RFC 7301).
pub(crate) const ALPN: &[u8] = b"interop";

/// The name in every certificate.
pub(crate) const NAME: &str = "localhost";

/// Which side of a connection we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

/// What endpoints of both stacks are made from.
pub(crate) struct Lab {
    pub(crate) identity: Identity,
    pub(crate) ours: TransportConfig,
    pub(crate) theirs: stack::TransportConfig,
    pub(crate) their_endpoint: stack::EndpointConfig,
}

/// A connection, seen from both ends.
pub(crate) struct Pair {
    pub(crate) ours: mendpath::Connection,
    pub(crate) theirs: stack::Connection,
    pub(crate) our_endpoint: Endpoint,
    pub(crate) their_endpoint: stack::Endpoint,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self {
            identity: Identity::self_signed([NAME]).unwrap(),
            ours: TransportConfig::default(),
            theirs: stack::TransportConfig::default(),
            their_endpoint: stack::EndpointConfig::default(),
        }
    }

    pub(crate) fn our_server_config(&self) -> ServerConfig {
        ServerConfig::with_identity(&self.identity).unwrap().alpn([ALPN]).transport(self.ours.clone())
    }

    pub(crate) fn our_client_config(&self) -> ClientConfig {
        ClientConfig::with_pinned_key(self.identity.pin()).alpn([ALPN]).transport(self.ours.clone())
    }

    /// Their TLS as a server.
    pub(crate) fn server_tls(&self) -> rustls::ServerConfig {
        let key = PrivatePkcs8KeyDer::from(self.identity.to_pkcs8_der());
        let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.identity.certificate().clone()], key.into())
            .unwrap();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        tls.max_early_data_size = u32::MAX;
        tls
    }

    /// Their TLS as a client.
    pub(crate) fn client_tls(&self) -> rustls::ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.identity.certificate().clone()).unwrap();
        let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        tls.enable_early_data = true;
        tls
    }

    /// Takes the transport settings out: they cannot be cloned.
    pub(crate) fn their_server_config(&mut self) -> stack::ServerConfig {
        let tls = stack::crypto::rustls::QuicServerConfig::try_from(self.server_tls()).unwrap();
        let mut config = stack::ServerConfig::with_crypto(Arc::new(tls));
        config.transport_config(Arc::new(std::mem::take(&mut self.theirs)));
        config
    }

    /// Takes the transport settings out: they cannot be cloned.
    pub(crate) fn their_client_config(&mut self) -> stack::ClientConfig {
        let tls = stack::crypto::rustls::QuicClientConfig::try_from(self.client_tls()).unwrap();
        let mut config = stack::ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(std::mem::take(&mut self.theirs)));
        config
    }

    /// An endpoint of theirs on `local`; a server if it has a configuration for that.
    pub(crate) fn their_endpoint(
        &self,
        local: SocketAddr,
        server: Option<stack::ServerConfig>,
    ) -> stack::Endpoint {
        let socket = std::net::UdpSocket::bind(local).unwrap();
        let runtime = stack::default_runtime().unwrap();
        stack::Endpoint::new(self.their_endpoint.clone(), server, socket, runtime).unwrap()
    }

    /// The two endpoints; the one that is not ours in `role` is the server.
    pub(crate) fn endpoints(&mut self, role: Role) -> (Endpoint, stack::Endpoint) {
        match role {
            Role::Client => {
                let server = self.their_server_config();
                let ours = Endpoint::builder().bind(LOOPBACK).client(self.our_client_config()).build();
                (ours.unwrap(), self.their_endpoint(LOOPBACK, Some(server)))
            }
            Role::Server => {
                let client = self.their_client_config();
                #[allow(unused_mut, reason = "one of the stacks sets it through a shared reference")]
                let mut theirs = self.their_endpoint(LOOPBACK, None);
                theirs.set_default_client_config(client);
                (Endpoint::server(self.our_server_config(), LOOPBACK).unwrap(), theirs)
            }
        }
    }

    /// One connection over loopback.
    pub(crate) async fn connect(mut self, role: Role) -> Pair {
        let (ours, theirs) = self.endpoints(role);
        let server = match role {
            Role::Client => theirs.local_addr().unwrap(),
            Role::Server => ours.local_addrs()[0],
        };
        Pair::connect(ours, theirs, role, server).await
    }
}

impl Pair {
    /// Connects two endpoints; the client knows the server by the address `server`.
    pub(crate) async fn connect(
        our_endpoint: Endpoint,
        their_endpoint: stack::Endpoint,
        role: Role,
        server: SocketAddr,
    ) -> Self {
        let (ours, theirs) = match role {
            Role::Client => {
                let connecting = our_endpoint.connect(server, NAME).unwrap();
                let accept = async { their_endpoint.accept().await.unwrap().await };
                tokio::join!(connecting, accept)
            }
            Role::Server => {
                let connecting = their_endpoint.connect(server, NAME).unwrap();
                let accept = async { our_endpoint.accept().await.unwrap().await };
                tokio::join!(accept, connecting)
            }
        };
        Self { ours: ours.unwrap(), theirs: theirs.unwrap(), our_endpoint, their_endpoint }
    }
}
