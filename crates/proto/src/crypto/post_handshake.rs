//! What a client reads of TLS once the handshake is complete: tickets (RFC 8446 section 4.6.1).

use super::UNEXPECTED_MESSAGE;
use crate::wire::{TransportError, TransportErrorCode};

/// The handshake type `new_session_ticket` (RFC 8446 section 4).
const NEW_SESSION_TICKET: u8 = 4;

/// Where one message ends and the next begins (RFC 8446 section 4): a type, a length of three bytes,
/// and so many bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Messages {
    header: [u8; 4],
    /// Bytes of `header` that have come.
    known: u8,
    /// Bytes of the message that have not come.
    left: u32,
}

impl Messages {
    /// Whether no message is half there.
    pub(super) fn are_whole(&self) -> bool {
        self.known == 0 && self.left == 0
    }

    /// Goes on by what comes next.
    pub(super) fn advance(&mut self, data: &[u8]) {
        self.walk(data, |_| Ok(())).unwrap_or_default();
    }

    /// The same where nobody is left to read the messages.
    ///
    /// # Errors
    /// CRYPTO_ERROR for anything but a ticket (RFC 9001 sections 4.4 and 6).
    pub(super) fn ignore(&mut self, data: &[u8]) -> Result<(), TransportError> {
        self.walk(data, |kind| match kind {
            NEW_SESSION_TICKET => Ok(()),
            _ => Err(unexpected_message()),
        })
    }

    fn walk(
        &mut self,
        mut data: &[u8],
        check: impl Fn(u8) -> Result<(), TransportError>,
    ) -> Result<(), TransportError> {
        while let Some((first, rest)) = data.split_first() {
            if self.left > 0 {
                let skipped = data.len().min(self.left as usize);
                self.left -= skipped as u32;
                data = &data[skipped..];
                continue;
            }
            data = rest;
            self.header[usize::from(self.known)] = *first;
            self.known += 1;
            if self.known == 1 {
                check(*first)?;
            }
            if usize::from(self.known) == self.header.len() {
                self.left = u32::from_be_bytes(self.header) & 0x00ff_ffff;
                self.known = 0;
            }
        }
        Ok(())
    }
}

/// The peer has said something of TLS that it may not say any more.
pub(super) fn unexpected_message() -> TransportError {
    TransportError::new(TransportErrorCode::crypto(UNEXPECTED_MESSAGE), "TLS message after the handshake")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ticket of three bytes, an empty one, and one of 300.
    fn tickets() -> Vec<u8> {
        let mut bytes = vec![NEW_SESSION_TICKET, 0, 0, 3, 9, 9, 9, NEW_SESSION_TICKET, 0, 0, 0];
        bytes.extend_from_slice(&[NEW_SESSION_TICKET, 0, 1, 44]);
        bytes.extend_from_slice(&[9; 300]);
        bytes
    }

    #[test]
    fn messages_end_where_their_lengths_say_however_they_are_cut() {
        for piece in 1..=tickets().len() {
            let mut messages = Messages::default();
            let mut taken = 0;
            for part in tickets().chunks(piece) {
                assert_eq!(messages.ignore(part), Ok(()));
                taken += part.len();
                assert_eq!(messages.are_whole(), [7, 11, 315].contains(&taken), "{taken} of {piece} each");
            }
        }
    }

    #[test]
    fn only_tickets_are_ignored() {
        let key_update = [24, 0, 0, 1, 0];
        let mut messages = Messages::default();
        messages.advance(&key_update);
        assert!(messages.are_whole());
        assert_eq!(messages.ignore(&tickets()), Ok(()));
        assert_eq!(messages.ignore(&key_update), Err(unexpected_message()));
    }
}
