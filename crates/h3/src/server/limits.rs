//! What a client may ask for and how long it may take.

use std::time::Duration;

/// What a client may ask for and how long it may take; `Duration::MAX` is for ever.
///
/// How many requests may be under way at a time is for
/// [`ServerConfig::max_streams`](mendpath::ServerConfig::max_streams) to say.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Fields of a request, and again of its trailers, in bytes as RFC 9114 section 4.2.2 counts
    /// them once they are decompressed. Larger ones are answered with 431, but for those of a frame of more than
    /// twice that, whose stream is stopped with `H3_EXCESSIVE_LOAD`; larger trailers are an error of the body.
    /// Default 16 kB.
    pub field_section: u64,
    /// From the first byte of a request to the last of its fields, and until the client has room for our
    /// SETTINGS. Default 10 s.
    pub head: Duration,
    /// Silence within the body of a request while the service waits for it. Default 30 s.
    pub body: Duration,
    /// Without room for any more of a response, because the client does not read, and without
    /// acknowledging any of what is on its way, for which it has up to twice as long; also without room for
    /// GOAWAY. Default 60 s.
    pub send: Duration,
    /// Without a request, until the connection is closed. Default 120 s.
    pub idle: Duration,
    /// Requests that the client may have given up above those that were answered, until the
    /// connection is closed with `H3_EXCESSIVE_LOAD`. Those whose service panics are among them. Those
    /// of whose answer's body some was there already are not: somebody may be looking through a film.
    /// Default 256.
    pub cancelled: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            field_section: 16 << 10,
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            send: Duration::from_secs(60),
            idle: Duration::from_secs(120),
            cancelled: 256,
        }
    }
}
