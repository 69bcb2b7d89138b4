//! `mendpath serve`: a web server for browsers as they are.
//!
//! HTTP/1.1 over TCP is hyper's, HTTP/2 the crate `h2`'s, and HTTP/3 `h3`'s over our transport.
//! Here is what joins them: one certificate, one site that answers whoever asks however, files that
//! nobody waits for, and limits for those who mean no good.

mod certificate;
mod files;
mod gzip;
mod host;
mod hosts;
mod http2;
mod log;
mod proxy;
mod site;
mod statistics;
mod tcp;
mod websocket;

use std::{future::Future, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use hyper::{Uri, Version, header::HeaderValue};
use mendpath::{
    Connection, ConnectionError, Endpoint, EndpointBuilder, Incoming, ServerConfig, TransportConfig, VarInt,
    ZeroRttAccepted,
};
use mendpath_h3::ALPN;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use tracing::debug;

pub(crate) use self::statistics::Statistics;
use self::{certificate::Certificate, files::Memory, hosts::Hosts, site::Site, tcp::Tcp};
use crate::{
    failure::{Failure, io_reason, listen_advice},
    protocol::CloseCode,
    socket_options,
    target::canonical,
    transport::Choice,
};

/// Requests of one connection at a time.
const MAX_REQUESTS: u32 = 128;
/// Streams of a client's HTTP/3 besides requests: control, QPACK's two, and some to ignore.
const UNI_STREAMS: u64 = 16;
/// H3_EXCESSIVE_LOAD (RFC 9114 section 8.1).
const EXCESSIVE_LOAD: u64 = 0x107;
/// What a client hears whose host has its share.
const CROWDED: &str = "its host has as many connections as it leaves for others";
/// How long a connection by HTTP/3 lives without an answer.
const IDLE: Duration = Duration::from_secs(30);

/// What is served.
#[derive(Clone, Debug)]
pub enum Content {
    /// The files of a directory.
    Files {
        /// The directory.
        root: PathBuf,
        /// Whether links that lead out of it are followed.
        follow_symlinks: bool,
    },
    /// What the server with this URL answers.
    Proxy(Uri),
}

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// What.
    pub content: Content,
    /// Where, by TCP and UDP.
    pub listen: SocketAddr,
    /// Files of the certificate chain and its key; without, one is made for localhost.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Links to what pages need, for whoever opens one of files (RFC 8297).
    pub hints: Vec<HeaderValue>,
    /// Where requests are noted.
    pub access_log: Option<PathBuf>,
    /// Connections at a time, of each kind.
    pub max_connections: usize,
    /// Threads that HTTP/3 has for itself, each with its own socket; without, it runs where it is made.
    pub workers: Option<usize>,
    /// Whether safe requests are answered that came before the handshake was complete.
    pub early_data: bool,
    /// The transport below HTTP/3.
    pub transport: Choice,
    /// What clients may do.
    pub limits: Limits,
}

/// How long clients may take and how much they may send.
#[derive(Clone, Debug)]
pub struct Limits {
    /// For the handshake of TLS, for the fields of a request, and for the next one by HTTP/1.1.
    pub head: Duration,
    /// Silence within a request's body while it is waited for.
    pub body: Duration,
    /// Without taking any of a response.
    pub send: Duration,
    /// Without a request, by HTTP/2 and 3.
    pub idle: Duration,
    /// Fields of a request, in bytes.
    pub fields: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            send: Duration::from_secs(60),
            idle: Duration::from_secs(120),
            fields: 16 << 10,
        }
    }
}

/// A web server that is bound.
pub struct WebServer {
    options: ServeOptions,
    endpoint: Endpoint,
    tcp: Tcp,
    /// How TLS over TCP begins, for `tcp`.
    tls: watch::Sender<TlsAcceptor>,
    address: SocketAddr,
    site: Arc<Site>,
    certificate: Arc<Certificate>,
    /// Heard from the beginning on, for the certificate and for the access log: nobody's SIGHUP ends
    /// the server, and none is lost.
    hangups: [Option<Signal>; 2],
    http3: Http3,
    statistics: Arc<Statistics>,
}

/// How connections by HTTP/3 are served.
#[derive(Clone)]
struct Http3 {
    server: mendpath_h3::Server,
    /// Before their handshake is complete.
    early: bool,
    hosts: Arc<Hosts>,
}

impl WebServer {
    /// Binds TCP and UDP on the same port, and reads what it needs.
    ///
    /// # Errors
    /// If the address is taken, or a file cannot be used.
    pub fn bind(options: &ServeOptions) -> Result<Self, Failure> {
        let hangups = [(); 2].map(|()| signal(SignalKind::hangup()).ok());
        let certificate = Arc::new(Certificate::new(options.certificate.clone())?);
        let (listener, address) = listen(options.listen)?;
        let endpoint = Endpoint::builder().server(http3_config(options, &certificate)).bind(address);
        let endpoint = options.workers.into_iter().fold(endpoint, EndpointBuilder::workers);
        let endpoint = endpoint.build().map_err(|error| cannot_listen(address, "UDP", &error))?;
        let (tls, acceptor) = watch::channel(tcp::acceptor(&certificate));
        let [by_tcp, by_quic] =
            ["tcp", "quic"].map(|transport| Hosts::new(transport, options.max_connections));
        let tcp = Tcp::new(listener, acceptor, options, by_tcp.clone());
        let memory = Arc::<Memory>::default();
        let statistics = Statistics::new(endpoint.clone(), memory.clone(), [by_tcp, by_quic.clone()]);
        let site = Arc::new(Site::new(options, address.port(), statistics.clone(), memory)?);
        let mut limits = mendpath_h3::Limits::default();
        limits.head = options.limits.head;
        limits.body = options.limits.body;
        limits.send = options.limits.send;
        limits.idle = options.limits.idle;
        limits.field_section = options.limits.fields.into();
        let server = mendpath_h3::Server::new(limits);
        let server = match options.content {
            // Of which there is nothing to say before the response.
            Content::Files { .. } if options.hints.is_empty() => server.without_interims(),
            Content::Files { .. } | Content::Proxy(_) => server,
        };
        let http3 = Http3 { server, early: options.early_data, hosts: by_quic };
        let options = options.clone();
        Ok(Self { options, endpoint, tcp, tls, address, site, certificate, hangups, http3, statistics })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it does.
    pub(crate) fn statistics(&self) -> Arc<Statistics> {
        self.statistics.clone()
    }

    /// The SHA-256 of the key of a certificate that was made for this run, in base64, as browsers
    /// take it.
    pub fn self_signed(&self) -> Option<&str> {
        self.certificate.self_signed()
    }

    /// Serves until `stop` resolves, and then what was asked for before, until what that has given
    /// resolves, too: nobody has patience any more.
    pub async fn run<P: Future<Output = ()>>(self, stop: impl Future<Output = P>) {
        let (stopping, stopped) = watch::channel(false);
        let Self { options, endpoint, tcp, tls, site, certificate, hangups, http3, .. } = self;
        let [for_certificate, for_log] = hangups;
        let mut serving = JoinSet::new();
        serving.spawn(serve_http3(endpoint.clone(), http3, site.clone(), stopped.clone()));
        serving.spawn(tcp.run(site.clone(), stopped));
        // Who comes again sees the new one, too: it may be there because the old one must not be used.
        let renewed = || {
            endpoint.set_server_config(Some(http3_config(&options, &certificate)));
            tls.send_replace(tcp::acceptor(&certificate));
        };
        let patience_ends = tokio::select! {
            patience_ends = stop => patience_ends,
            never = certificate.watch(for_certificate, renewed) => match never {},
            never = site.reopen_log_at(for_log) => match never {},
        };
        let _ = stopping.send(true);
        let ended = async { while serving.join_next().await.is_some() {} };
        tokio::select! {
            () = ended => {}
            () = patience_ends => {}
            () = refuse_http3(&endpoint) => {}
        }
        endpoint.close(CloseCode::Unavailable.into(), b"the server stops");
        let _ = tokio::time::timeout(Duration::from_secs(2), endpoint.wait_idle()).await;
        site.flush().await;
    }
}

impl Http3 {
    /// A connection that can be served, and the end of its handshake where that is still to come.
    async fn accept(
        &self,
        incoming: Incoming,
    ) -> Result<(Connection, Option<ZeroRttAccepted>), ConnectionError> {
        let connecting = incoming.accept()?;
        if !self.early {
            return Ok((connecting.await?, None));
        }
        match connecting.into_0rtt() {
            Ok((connection, handshake)) => Ok((connection, Some(handshake))),
            Err(connecting) => Ok((connecting.await?, None)),
        }
    }
}

/// Serves a client, who counts from the end of the handshake on: what comes before may be a replay
/// that somebody sends in the name of whatever address.
async fn counted<T, S>(
    serving: impl Future<Output = T>,
    handshake: Option<impl Future<Output = bool>>,
    enter: impl FnOnce() -> S,
) -> T {
    tokio::pin!(serving);
    if let Some(handshake) = handshake {
        tokio::select! {
            biased;
            served = &mut serving => return served,
            complete = handshake => if !complete {
                return serving.await;
            },
        }
    }
    let _seen = enter();
    serving.await
}

/// Resolves once the server is to stop.
async fn wait(mut stopped: watch::Receiver<bool>) {
    // Without a sender nobody serves any more.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

fn cannot_listen(address: SocketAddr, protocol: &str, error: &std::io::Error) -> Failure {
    Failure::new(
        format!("cannot listen on {protocol} {address}"),
        io_reason(error),
        listen_advice(error, "--listen"),
    )
}

fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let failed = |error: std::io::Error| cannot_listen(address, "TCP", &error);
    let listener = socket_options::listen(address, tcp::BACKLOG).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

fn http3_config(options: &ServeOptions, certificate: &Arc<Certificate>) -> ServerConfig {
    let transport = TransportConfig {
        max_concurrent_uni: UNI_STREAMS,
        ..options.transport.config(IDLE, MAX_REQUESTS.into())
    };
    ServerConfig::with_tls(certificate.tls(&[ALPN]))
        .transport(transport)
        .early_data(options.early_data)
        .max_connections(options.max_connections)
        .handshake_timeout(options.limits.head)
}

async fn serve_http3(endpoint: Endpoint, http3: Http3, site: Arc<Site>, stopped: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    let stop = wait(stopped.clone());
    tokio::pin!(stop);
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            _ = connections.join_next(), if !connections.is_empty() => continue,
            () = &mut stop => break,
        };
        let Some(incoming) = incoming else { break };
        let (http3, site, stopped) = (http3.clone(), site.clone(), stopped.clone());
        let runtime = incoming.runtime();
        let serve = serve_http3_client(incoming, http3, site, stopped);
        connections.spawn_on(serve, &runtime);
    }
    while connections.join_next().await.is_some() {}
}

/// Answers who comes by HTTP/3, if its network has room for one more, until it goes or is to.
async fn serve_http3_client(
    incoming: Incoming,
    http3: Http3,
    site: Arc<Site>,
    stopped: watch::Receiver<bool>,
) {
    let from = canonical(incoming.remote_address());
    // Who has its share need not compute for more. What the rest have counts once they are known
    // to be there: who comes may be anybody in the name of whatever address.
    if !http3.hosts.has_room(from) {
        return incoming.refuse(CROWDED);
    }
    let (connection, handshake) = match http3.accept(incoming).await {
        Ok(accepted) => accepted,
        Err(error) => return debug!(%from, %error, "no connection"),
    };
    let enter = || {
        let seat = http3.hosts.take(from);
        if seat.is_none() {
            connection.close(VarInt::saturating(EXCESSIVE_LOAD), CROWDED.as_bytes());
        }
        (seat, site.statistics().enter(connection.clone()))
    };
    let answers = site.for_http3(from);
    let noting = site.clone();
    let refused = move |status| noting.note_refusal(Version::HTTP_3, from, status);
    let serving = http3.server.serve_noting(connection.clone(), answers, refused, wait(stopped));
    let served = counted(serving, handshake, enter).await;
    if let Err(error) = served {
        debug!(%from, %error, "HTTP/3");
    }
}

/// Tells clients who come now that it stops; they need not find out by waiting.
async fn refuse_http3(endpoint: &Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        incoming.refuse("the server stops");
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        pin::{Pin, pin},
        task::{Context, Poll, Waker},
    };

    use tokio::sync::oneshot;

    use super::*;

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn an_early_client_counts_once_its_handshake_is_complete() {
        for complete in [true, false] {
            let entered = Cell::new(false);
            let (over, serving) = oneshot::channel::<()>();
            let (end, handshake) = oneshot::channel::<bool>();
            let handshake = async { handshake.await.unwrap_or(false) };
            let mut counted = pin!(counted(serving, Some(handshake), || entered.set(true)));
            assert!(poll(counted.as_mut()).is_pending() && !entered.get());
            end.send(complete).unwrap();
            assert!(poll(counted.as_mut()).is_pending());
            assert_eq!(entered.get(), complete);
            over.send(()).unwrap();
            assert_eq!(poll(counted.as_mut()), Poll::Ready(Ok(())));
        }
        let never: Option<std::future::Pending<bool>> = None;
        let entered = Cell::new(false);
        assert!(poll(pin!(counted(async {}, never, || entered.set(true)))).is_ready());
        assert!(entered.get(), "its handshake was over before");
    }
}
