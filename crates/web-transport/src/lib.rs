//! WebTransport over [`mendpath`]: the traits of the crate [`web_transport_trait`], both halves,
//! for its connections.
//!
//! A [`Session`] is either a QUIC connection as it is ([`Session::raw`]), the way Media over QUIC
//! runs between programs, or one that began with an extended CONNECT over HTTP/3, the way browsers
//! open them with `new WebTransport(...)` (`http3::Request` for servers, `http3::connect` for
//! clients). What is done with it is the same: streams, datagrams, codes.
//!
//! Its paths are those of the [`Session::connection`]: a client adds another at any time, and what
//! runs over the session does not notice.
//!
//! # Polls
//! What a poll waits for is kept from poll to poll in the session that was polled, so no wake-up is
//! lost; every clone waits by itself. Nothing of a caller's buffer is kept.
//!
//! # Codes
//! Streams are reset and stopped with 32 bits. Over raw QUIC they are sent as they are, over HTTP/3
//! in the range that is set aside for them. A code outside has no meaning here and is told as
//! [`StreamError::Foreign`].
//!
//! A stream that is reset says whose it is nevertheless, and what
//! [`SendStream::set_reliable_boundary`] promises, if the peer takes RESET_STREAM_AT (section 4.4 of
//! the draft asks for it): set [`mendpath::TransportConfig::reset_stream_at`] where such resets are to
//! be received.
//!
//! # Limits
//! Everything that a peer can make this crate hold is counted in streams, of which
//! [`mendpath::TransportConfig::max_concurrent_bidi`] and its kin allow so many, and in the
//! connection's buffers.

mod codes;
mod error;
mod session;
mod stats;
mod traits;

pub use error::{SessionError, StreamError};
#[cfg(feature = "http3")]
pub use session::http3;
pub use session::{RecvStream, SendStream, Session};
pub use stats::SessionStats;
#[cfg(feature = "trait-0-4")]
pub use trait_0_4;
pub use web_transport_trait;
