//! HTTP/3 (RFC 9114) over [`mendpath`]: the traits of the crates `h3` and `h3-datagram` for its
//! connections, and a server that hands requests to a service.
//!
//! This crate never frames a request itself, and never opens or closes paths: the first is for
//! `h3`, the second for whoever holds the [`mendpath::Connection`]. It does encode the fields of
//! a [`Server`]'s responses, which takes `h3` an eighth of a server's time. Two types to start from:
//! [`Connection`] is what `h3::server` and `h3::client` take; [`Server`] does all of it for
//! services of `tower`, an `axum` router among them.
//!
//! # A client
//! ```no_run
//! # async fn get(config: mendpath::ClientConfig) -> Result<(), Box<dyn std::error::Error>> {
//! use std::future::poll_fn;
//!
//! use bytes::Buf as _;
//! use mendpath::Endpoint;
//!
//! let endpoint = Endpoint::client("0.0.0.0:0".parse()?)?;
//! let config = config.alpn([mendpath_h3::ALPN]);
//! let connection = endpoint.connect_with(&config, "192.0.2.1:443".parse()?, "localhost")?.await?;
//! let (mut driver, mut requests) = h3::client::new(mendpath_h3::Connection::new(connection)).await?;
//! let driving = tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
//!
//! let request = http::Request::get("https://localhost/").body(())?;
//! let mut stream = requests.send_request(request).await?;
//! stream.finish().await?;
//! println!("{}", stream.recv_response().await?.status());
//! while let Some(mut data) = stream.recv_data().await? {
//!     println!("{} bytes", data.copy_to_bytes(data.remaining()).len());
//! }
//! drop(requests);
//! driving.await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What happens to streams that are dropped
//! The sending side of a request or response that is dropped before its end is reset with
//! `H3_REQUEST_CANCELLED`, so that the peer does not take it for whole. One on which nothing was sent
//! ends, which nobody takes for a message, unless a panic drops it; so does the one with which `h3` refuses
//! fields that are too large, since it leaves that to the transport. To the client of `h3` a response that ends
//! like that is an error of the connection: who gives a request up says so with `stop_stream`, and
//! [`Server`] does. The receiving side stops
//! with `H3_REQUEST_CANCELLED` if it is a response, and with `H3_NO_ERROR` if it is a request that
//! the server need not read to answer (RFC 9114 section 4.1.1).

mod bell;
mod body;
mod connection;
mod datagram;
mod error;
mod extensions;
mod fields;
mod guard;
mod malformed;
mod patience;
mod response;
mod server;
mod settings;
mod stream;

pub use body::{Body, BodyError};
pub use connection::{Connection, OpenStreams};
pub use datagram::{RecvDatagrams, SendDatagrams};
pub use extensions::{EarlyData, Interim, Interims};
pub use server::{Limits, Server};
pub use stream::{BidiStream, RecvStream, SendStream};

/// The application protocol of HTTP/3 (RFC 9114 section 3.1), for
/// [`ClientConfig::alpn`](mendpath::ClientConfig::alpn) and
/// [`ServerConfig::alpn`](mendpath::ServerConfig::alpn).
pub const ALPN: &[u8] = b"h3";
