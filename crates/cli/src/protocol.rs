//! What client and server say to each other inside the connection; `docs/proxy-protocol.md` is the
//! reader's version.
//!
//! Every message is a frame: its length in two bytes, big-endian, then its body. The control stream
//! carries one [`Hello`] and one [`Reply`], then [`Notice`]s of the server; each later stream
//! begins with one [`Request`] and its [`Reply`], followed by the bytes of the proxied connection.

mod address;
mod assignment;
mod codes;
mod coding;
mod frame;
mod hello;
mod notice;
mod packet;
mod reader;
mod reply;
mod request;

use mendpath::VarInt;

pub use address::{decode_target, encode_target};
pub use assignment::Assignment;
use codes::codes;
pub use coding::Coding;
pub use frame::{FrameError, MAX_MESSAGE, MAX_PACKET, read_frame, write_frame};
pub use hello::{Hello, VERSION};
pub use notice::Notice;
pub use packet::Packet;
pub use reader::{DecodeError, Reader};
pub use reply::{Reply, Status};
pub use request::Request;

pub use crate::target::RESOLVER;

/// The protocol's name in the TLS handshake (RFC 7301).
pub const ALPN: &[u8] = b"mendpath/1";

/// How many bytes a file's checksum has: SHA-256 follows the file's bytes.
pub const CHECKSUM_BYTES: usize = 32;

codes! {
    /// Codes with which a whole connection is closed (application error codes, RFC 9000
    /// section 20.2).
    pub enum CloseCode: u32 {
        /// Finished; nothing went wrong.
        Done = 0,
        /// The other side broke this protocol.
        Protocol = 1,
        /// The token is not one of this server's.
        TokenRefused = 2,
        /// The server does not speak the client's version.
        Version = 3,
        /// No hello arrived in time.
        HelloTimeout = 4,
        /// The server offers another service: a proxy instead of file reception, or the other way
        /// round.
        WrongService = 5,
        /// The server is about to stop or has as many clients as it takes.
        Unavailable = 6,
        /// The invitation's account was revoked.
        Revoked = 7,
        /// The invitation's time is over.
        Expired = 8,
        /// The invitation's quota is used up.
        UsedUp = 9,
    }
}

impl CloseCode {
    /// The code that a connection was closed with.
    pub fn from_code(code: VarInt) -> Option<Self> {
        Self::from_number(u32::try_from(code.into_inner()).ok()?)
    }
}

impl From<CloseCode> for VarInt {
    fn from(code: CloseCode) -> Self {
        Self::from_u32(code.number())
    }
}

codes! {
    /// Codes with which one stream is reset or stopped.
    pub enum StreamCode: u32 {
        /// The TCP connection behind the stream was reset or failed.
        Reset = 0x10,
        /// Nothing passed for too long.
        Idle = 0x11,
        /// The stream is not wanted any more.
        Cancelled = 0x12,
        /// The stream broke this protocol.
        Malformed = 0x13,
    }
}

impl From<StreamCode> for VarInt {
    fn from(code: StreamCode) -> Self {
        Self::from_u32(code.number())
    }
}
