//! What a server says on the control stream after its reply, whenever it has something to say.

use std::time::Duration;

use super::{DecodeError, MAX_MESSAGE, Reader};

/// The server's word to a client that is connected. Clients ignore kinds that they do not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The server is about to stop. What runs may end here; what is new belongs elsewhere.
    Draining {
        /// When the server closes the connection at the latest, in whole seconds.
        within: Duration,
        /// For people; may be empty.
        text: String,
    },
    /// Another connection to the same address may come to another server: a balancer stands between.
    Balanced,
}

impl Notice {
    const DRAINING: u8 = 1;
    const BALANCED: u8 = 2;

    /// The message's body. Text that does not fit is cut.
    pub fn encode(&self) -> Vec<u8> {
        let Self::Draining { within, text } = self else { return vec![Self::BALANCED] };
        let mut body = vec![Self::DRAINING];
        body.extend(u32::try_from(within.as_secs()).unwrap_or(u32::MAX).to_be_bytes());
        let mut end = text.len().min(MAX_MESSAGE - body.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        body.extend(&text.as_bytes()[..end]);
        body
    }

    /// Reads a message's body. Control characters in the text are dropped: it reaches terminals.
    ///
    /// # Errors
    /// What is wrong with it; [`DecodeError::Unknown`] for a notice of a later version.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        match reader.u8()? {
            Self::DRAINING => {}
            Self::BALANCED => return reader.end().map(|()| Self::Balanced),
            _ => return Err(DecodeError::Unknown("notice")),
        }
        let within = Duration::from_secs(reader.u32()?.into());
        let text = reader.text()?;
        Ok(Self::Draining { within, text: text.chars().filter(|c| !c.is_control()).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_within_the_limit() {
        for text in ["", "maintenance until noon", &"ä".repeat(MAX_MESSAGE)] {
            let notice = Notice::Draining { within: Duration::from_secs(30), text: text.to_owned() };
            let body = notice.encode();
            assert!(body.len() <= MAX_MESSAGE);
            let Notice::Draining { within, text: read } = Notice::decode(&body).unwrap() else { panic!() };
            assert_eq!(within, Duration::from_secs(30));
            assert!(text.starts_with(&read) && (text == read || body.len() >= MAX_MESSAGE - 1), "{read}");
        }
    }

    #[test]
    fn what_is_cut_or_unknown_is_told_apart() {
        assert_eq!(Notice::decode(&[]), Err(DecodeError::Short));
        assert_eq!(Notice::decode(&[1, 0, 0, 0]), Err(DecodeError::Short));
        assert_eq!(Notice::decode(&[3, 0, 0, 0, 1]), Err(DecodeError::Unknown("notice")));
        assert_eq!(Notice::decode(&[1, 0, 0, 0, 1, 0xff]), Err(DecodeError::Text));
        let drawn = Notice::decode(b"\x01\0\0\0\x01by\x1b[2Je\n");
        assert_eq!(drawn, Ok(Notice::Draining { within: Duration::from_secs(1), text: "by[2Je".into() }));
        assert_eq!(Notice::decode(&Notice::Balanced.encode()), Ok(Notice::Balanced));
        assert_eq!(Notice::decode(&[2, 0]), Err(DecodeError::Trailing));
    }
}
