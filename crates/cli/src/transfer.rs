//! `mendpath send` and `mendpath receive`: one file, without any set-up, and the simplest way to
//! measure goodput.

mod name;
mod part;
mod receive;
mod send;

pub use name::safe_name;
pub use receive::{ReceiveOptions, Received, Receiver};
pub use send::{SendOptions, Sent, send, send_until};

/// How the bytes are drawn while they move; hidden unless stderr is a terminal.
const BAR: &str = "{msg} [{bar:24}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";

/// Bytes read or written at a time.
const CHUNK: usize = 128 * 1024;

/// Without progress, until a transfer is given up.
const STALL: std::time::Duration = std::time::Duration::from_secs(60);
