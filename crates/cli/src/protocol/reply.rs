//! The answer to a hello or a request: a status, and words for people.

use std::fmt;

use super::{DecodeError, MAX_MESSAGE, Reader, codes::codes};

codes! {
    /// How a request ended. Values up to 8 mean what they mean in SOCKS5 (RFC 1928 section 6).
    pub enum Status: u8 {
        /// Granted.
        Ok = 0,
        /// Failed in a way without a code of its own.
        Failed = 1,
        /// Forbidden by the server's rules.
        Forbidden = 2,
        /// No route to that network.
        NetworkUnreachable = 3,
        /// No route to that host.
        HostUnreachable = 4,
        /// Nobody listens there.
        Refused = 5,
        /// No answer in time.
        TimedOut = 6,
        /// The server does not offer this kind of request.
        Unsupported = 7,
        /// The server cannot reach this kind of address.
        AddressUnsupported = 8,
        /// The name has no address.
        NameUnknown = 9,
        /// The client has as many of these as the server grants.
        TooMany = 10,
        /// A file's bytes did not match their checksum, or were too few.
        Damaged = 11,
        /// A file of that name exists.
        Exists = 12,
    }
}

impl Status {
    /// The SOCKS5 reply code (RFC 1928 section 6) that comes closest.
    pub fn socks5(self) -> u8 {
        match self {
            // SOCKS5 has "TTL expired" where a timeout belongs; clients show "host unreachable"
            // more helpfully.
            Self::TimedOut | Self::NameUnknown => 4,
            Self::TooMany | Self::Damaged | Self::Exists => 1,
            other => other.number(),
        }
    }

    /// The HTTP status code and reason phrase (RFC 9110 section 15) that come closest.
    pub fn http(self) -> (u16, &'static str) {
        match self {
            Self::Ok => (200, "Connection established"),
            Self::Forbidden => (403, "Forbidden"),
            Self::TimedOut => (504, "Gateway Timeout"),
            Self::Unsupported | Self::AddressUnsupported => (501, "Not Implemented"),
            Self::TooMany => (503, "Service Unavailable"),
            _ => (502, "Bad Gateway"),
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// How it ended.
    pub status: Status,
    /// Details for people; may be empty.
    pub text: String,
}

impl Reply {
    /// Everything is fine.
    pub fn ok() -> Self {
        Self::new(Status::Ok, "")
    }

    /// An answer with words.
    pub fn new(status: Status, text: impl fmt::Display) -> Self {
        Self { status, text: text.to_string() }
    }

    /// The message's bytes; text that is too long for a message is cut at a character.
    pub fn encode(&self) -> Vec<u8> {
        [&[self.status.number()], cut(&self.text, MAX_MESSAGE - 1).as_bytes()].concat()
    }

    /// Reads an answer; a status that this version does not know reads as [`Status::Failed`].
    ///
    /// # Errors
    /// When it is empty or its text is not UTF-8.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let code = reader.u8()?;
        let status = Status::from_number(code).unwrap_or(Status::Failed);
        // What a server says ends up on a terminal: no control characters.
        let text = reader.text()?.chars().filter(|c| !c.is_control()).collect();
        Ok(Self { status, text })
    }
}

/// The longest front of `text` with at most `limit` bytes that ends at a character.
fn cut(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|&i| text.is_char_boundary(i));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_status_reads_back() {
        for &status in Status::ALL {
            let reply = Reply::new(status, "why");
            assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
            assert!(status.socks5() <= 8);
        }
        assert_eq!(Reply::decode(&[200]).unwrap().status, Status::Failed);
        assert!(Reply::decode(&[]).is_err());
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        let reply = Reply::new(Status::Failed, "ü".repeat(MAX_MESSAGE));
        let wire = reply.encode();
        assert!(wire.len() <= MAX_MESSAGE);
        assert!(Reply::decode(&wire).is_ok());
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(Reply::decode(b"\x01a\x1b[31mb\n").unwrap().text, "a[31mb");
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Reply::decode(&bytes);
        }
    }
}
