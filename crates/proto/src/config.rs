//! What an application chooses: limits, timers, and the policies by name.

use std::{sync::Arc, time::Duration};

use congestion::ControllerKind;

use crate::{
    Observe, PathStore, TokenStore,
    policy::{RecoveryKind, RepairConfig},
    scheduler::SchedulerKind,
    streams::{StreamsConfig, initial_stream_window},
};

/// UDP payload that Ethernet leaves below IPv6, in bytes.
pub(crate) const ETHERNET: u16 = 1_452;
/// What the send buffer always holds: with no room at all, writers would wait for ever.
const MIN_SEND_BUFFER: u64 = 512;

/// Settings of one connection, the same type for both roles.
#[derive(Clone, Debug)]
pub struct TransportConfig {
    /// Silence after which the connection is dropped (RFC 9000 section 10.1); zero disables it.
    /// Default 30 s.
    pub max_idle_timeout: Duration,
    /// Interval of PINGs on every path that would otherwise be silent; `None` and zero send none.
    /// Default `None`.
    pub keep_alive: Option<Duration>,
    /// Bytes that all streams together may receive ahead of the application (RFC 9000 section 4):
    /// what a connection takes in memory at most, if nothing is read. Streams share it by how fast
    /// they are read; see docs/decisions/0015-receive-windows.md. Zero: the peer may send nothing on
    /// streams. Default 128 MiB.
    pub receive_window: u64,
    /// The most that a single stream may receive ahead of the application, however fast it is read;
    /// it never gets more than half of `receive_window`. Zero: the peer may send nothing on streams.
    /// Default 64 MiB.
    pub stream_receive_window: u64,
    /// What every stream may receive from the start, read or not. `None`: an eighth of
    /// `receive_window` for all streams that the peer may open, between 4 and 64 KiB each. Zero: the
    /// peer may send nothing on streams, since what is never sent is never read. Default `None`.
    pub initial_stream_window: Option<u64>,
    /// Bytes that the application may hand over before they are acknowledged, all streams together.
    /// Of these as many are used as the paths need, at least 1 MiB; a single stream never gets more than
    /// two thirds (21/32), since a part is for those that have little. Less than 512 counts as that.
    /// Default 64 MiB.
    pub send_buffer: u64,
    /// Bidirectional streams that the peer may have open; at most 65,536 count. Default 256.
    pub max_concurrent_bidi: u64,
    /// Unidirectional streams that the peer may have open; at most 65,536 count. Default 256.
    pub max_concurrent_uni: u64,
    /// Bytes of received datagrams (RFC 9221) kept for the application, each counted with 64 bytes
    /// more; the oldest is dropped first, and the peer is told what never fits. Zero: the peer may
    /// send none. Default 1 MiB.
    pub datagram_receive_buffer: usize,
    /// Bytes of datagrams waiting to be sent. Default 1 MiB.
    pub datagram_send_buffer: usize,
    /// Whether the peer may break streams off with RESET_STREAM_AT, which still delivers their beginning
    /// (draft-ietf-quic-reliable-stream-reset): WebTransport over HTTP/3 asks for it. What we send
    /// depends on the peer alone. Default false.
    pub reset_stream_at: bool,
    /// Paths open at once, 1 to 64; 1 does not negotiate multipath. Default 8.
    pub max_paths: u32,
    /// Initial congestion window of each path in packets (RFC 9002 section 7.2), 2 to 2^20. Default 10.
    pub initial_window_packets: u64,
    /// Round-trip time assumed before the first sample where the path store knows of none (RFC 9002
    /// section 6.2.2). Default 333 ms.
    pub initial_rtt: Duration,
    /// UDP payload that every path starts with, in bytes, 1,200 to 65,527: the network must carry
    /// it. Default 1,200.
    pub initial_datagram_size: u16,
    /// UDP payload up to which every path searches for what it carries (RFC 8899), in bytes, at
    /// most 65,527. Default 1,452, what Ethernet leaves below IPv6.
    pub max_datagram_size: u16,
    /// UDP payload up to which a connection's only path goes where the local link carries packets
    /// larger than Ethernet's, as jumbo frames and loopback do, and the path is short, in bytes, at
    /// most 65,527; see docs/decisions/0041-jumbo-datagrams.md. Zero: never. Another
    /// `max_datagram_size` than the default is meant, and never exceeded. Default 32,752, of which two
    /// leave with one system call.
    pub jumbo_datagram_size: u16,
    /// Whether to mark packets ECT(0) where that works, and to take marks for congestion (RFC 9000
    /// section 13.4). Default true.
    pub ecn: bool,
    /// Servers: whether a client's paths may move to other addresses of its, be it on purpose or
    /// because a NAT forgets a binding (RFC 9000 section 9). If not, clients are told
    /// (disable_active_migration), also not to open further paths, and packets from other addresses
    /// are ignored. Default true.
    pub migration: bool,
    /// What spare window is used for.
    pub recovery: RecoveryKind,
    /// Congestion controller of every path.
    pub controller: ControllerKind,
    /// Which path carries the next data.
    pub scheduler: SchedulerKind,
    /// Packets after which the keys are updated (RFC 9001 section 6), at least 1; what the AEAD
    /// bears is never exceeded. Default 2^22.
    pub key_update_interval: u64,
    /// Limits of the repair extension.
    pub repair: RepairConfig,
    /// How paths have lost, what they carried and how they were loaded, which new connections begin
    /// with: configurations that share a store share what their connections learn. Default: one of its
    /// own.
    pub path_store: Arc<PathStore>,
    /// Whether paths that are new or were idle may begin with what they were seen to carry within
    /// the last ten minutes (RFC 9959); see docs/decisions/0018-careful-resume.md. Default true.
    pub careful_resume: bool,
    /// Who is told about every packet and decision, for traces. Default: nobody.
    pub observe: Option<Arc<dyn Observe>>,
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            max_idle_timeout: Duration::from_secs(30),
            keep_alive: None,
            receive_window: 128 << 20,
            stream_receive_window: 64 << 20,
            initial_stream_window: None,
            send_buffer: 64 << 20,
            max_concurrent_bidi: 256,
            max_concurrent_uni: 256,
            datagram_receive_buffer: 1 << 20,
            datagram_send_buffer: 1 << 20,
            reset_stream_at: false,
            max_paths: 8,
            initial_window_packets: 10,
            initial_rtt: Duration::from_millis(333),
            initial_datagram_size: 1_200,
            max_datagram_size: ETHERNET,
            jumbo_datagram_size: 32_752,
            ecn: true,
            migration: true,
            recovery: RecoveryKind::default(),
            controller: ControllerKind::Auto,
            scheduler: SchedulerKind::default(),
            key_update_interval: 1 << 22,
            repair: RepairConfig::default(),
            path_store: Arc::default(),
            careful_resume: true,
            observe: None,
        }
    }
}

impl TransportConfig {
    pub(crate) fn streams(&self) -> StreamsConfig {
        let streams = self.max_concurrent_bidi.saturating_add(self.max_concurrent_uni);
        StreamsConfig {
            receive_window: self.receive_window,
            stream_receive_window: self.stream_receive_window,
            initial_stream_window: self
                .initial_stream_window
                .unwrap_or_else(|| initial_stream_window(self.receive_window, streams)),
            send_buffer: self.send_buffer.max(MIN_SEND_BUFFER),
            max_concurrent_bidi: self.max_concurrent_bidi,
            max_concurrent_uni: self.max_concurrent_uni,
        }
    }
}

/// A client's settings.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// TLS: TLS 1.3, root certificates or another verifier, ALPN. With `enable_early_data`, tickets
    /// that allow it make [`start_early_data`](crate::Connection::start_early_data) possible.
    pub tls: Arc<rustls::ClientConfig>,
    /// Transport; its connections share it.
    pub transport: Arc<TransportConfig>,
    /// Tokens of servers that sent some (RFC 9000 section 8.1.3): configurations that share a store
    /// share the tokens.
    pub tokens: Arc<TokenStore>,
}

impl ClientConfig {
    /// A configuration with a token store of its own.
    pub fn new(tls: Arc<rustls::ClientConfig>, transport: impl Into<Arc<TransportConfig>>) -> Self {
        Self { tls, transport: transport.into(), tokens: Arc::default() }
    }
}

/// When a server makes a client show that it receives at the address it sends from, at the price of
/// a round trip, before it keeps any state (RFC 9000 section 8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressValidation {
    /// Never: addresses are validated by the handshake alone, and no tokens are given out.
    Never,
    /// Always, except to clients with a token of an earlier connection.
    Always,
    /// While at least so many accepted connections are not let in, or the client's network has its
    /// share of that room; again except to clients with a token.
    WhenBusy {
        /// How many. 0 is as `Always`.
        half_open: usize,
    },
}

impl Default for AddressValidation {
    fn default() -> Self {
        Self::WhenBusy { half_open: 256 }
    }
}

/// A server's settings.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// TLS: TLS 1.3, certificate, ALPN. Early data are accepted if `max_early_data_size` is
    /// `u32::MAX` (0 refuses them). Then whoever lowers limits of the transport must change the
    /// session storage too: tickets promise the old ones (RFC 9000 section 7.4.1).
    pub tls: Arc<rustls::ServerConfig>,
    /// Transport; its connections share it.
    pub transport: Arc<TransportConfig>,
    /// Connections that may exist at once; further ones are refused with CONNECTION_REFUSED.
    pub max_connections: usize,
    /// Accepted connections that may wait at once to be let in: their handshake is under way or,
    /// with `admission`, the application has not admitted them. Newcomers displace the oldest; a
    /// network has a share alone (docs/security.md). 0 refuses everybody.
    pub max_half_open: usize,
    /// How long a handshake may take; then the connection is given up without a word.
    pub handshake_timeout: Duration,
    /// When clients must show that they receive at their address.
    pub address_validation: AddressValidation,
    /// Whether clients are let in by the application
    /// ([`Connection::admit`](crate::Connection::admit)) and not by the handshake alone, and what
    /// they may use up until then. Default `None`.
    pub admission: Option<Admission>,
}

/// What a client may use up before the application has admitted it, on a server that lets in only
/// whom it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Bytes that it may send on streams: one bidirectional stream is all it has. Default 64 KiB.
    pub receive_window: u64,
    /// Bytes of datagrams that are kept, if the transport takes datagrams at all. Default 4 KiB.
    pub datagram_receive_buffer: usize,
    /// Bytes kept for decoding. Default 16 KiB.
    pub decoder_memory: u64,
}

impl Default for Admission {
    fn default() -> Self {
        Self { receive_window: 64 << 10, datagram_receive_buffer: 4 << 10, decoder_memory: 16 << 10 }
    }
}

impl ServerConfig {
    /// A configuration with the default limits: 10,000 connections, 1,024 of them half open, for 30
    /// s.
    pub fn new(tls: Arc<rustls::ServerConfig>, transport: impl Into<Arc<TransportConfig>>) -> Self {
        Self {
            tls,
            transport: transport.into(),
            max_connections: 10_000,
            max_half_open: 1_024,
            handshake_timeout: Duration::from_secs(30),
            address_validation: AddressValidation::default(),
            admission: None,
        }
    }
}
