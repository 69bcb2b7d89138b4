//! What comes on the stream of the CONNECT: capsules in DATA frames (RFC 9297 section 3.2). One of
//! them has a meaning here; the others are skipped, however long they are, and not kept.

use mendpath::{ReadError, RecvStream};

use super::{
    rules::{Broken, FRAME_ERROR, FRAME_UNEXPECTED, MESSAGE_ERROR},
    source::Source,
};

/// WT_CLOSE_SESSION (draft-ietf-webtrans-http3 section 6): the bytes of its code, and of the longest
/// words that may follow.
const CLOSE: u64 = 0x2843;
const CODE: usize = 4;
const LONGEST: usize = 1024;

/// DATA (RFC 9114 section 7.2.1).
const DATA: u64 = 0x00;
/// What begins a stream of a session, and nothing else (draft-ietf-webtrans-http3 section 4.3).
const WT_STREAM: u64 = 0x41;

/// How the stream of the CONNECT came to its end.
#[derive(Debug)]
pub(crate) enum Ended {
    /// With a capsule of this code and words, or without one, which is as code 0 without words.
    Closed(u32, String),
    /// The peer gave it up, or the connection is gone.
    Gone,
    Broken(Broken),
}

impl From<Broken> for Ended {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl From<ReadError> for Ended {
    fn from(_: ReadError) -> Self {
        Self::Gone
    }
}

/// Reads capsules until the session ends.
pub(crate) async fn last_words(stream: RecvStream) -> Ended {
    let mut data = Data { stream, left: 0 };
    loop {
        if let Err(ended) = capsule(&mut data).await {
            return ended;
        }
    }
}

async fn capsule(data: &mut Data) -> Result<(), Ended> {
    let Some(kind) = data.begins().await? else { return Err(Ended::Closed(0, String::new())) };
    let length = data.varint().await?.into_inner();
    if kind.into_inner() != CLOSE {
        return data.skip(length).await;
    }
    let wrong = Broken(MESSAGE_ERROR, "the capsule that closes the session is malformed");
    let length = usize::try_from(length).ok().filter(|length| (CODE..=CODE + LONGEST).contains(length));
    let mut code = [0; CODE];
    let mut words = vec![0; length.ok_or(wrong)? - CODE];
    data.exact(&mut code).await?;
    data.exact(&mut words).await?;
    let words = String::from_utf8(words).map_err(|_| wrong)?;
    Err(Ended::Closed(u32::from_be_bytes(code), words))
}

/// The payloads of DATA frames, one after another.
struct Data {
    stream: RecvStream,
    /// Of the frame's payload, the bytes that are to come.
    left: u64,
}

impl Source for Data {
    /// RFC 9297 section 3.3.
    const CUT: Broken = Broken(MESSAGE_ERROR, "a capsule was cut off");

    async fn some(&mut self, buffer: &mut [u8]) -> Result<usize, Ended> {
        while self.left == 0 {
            let Some(kind) = self.stream.begins().await? else { return Ok(0) };
            let length = self.stream.varint().await?.into_inner();
            match kind.into_inner() {
                DATA => self.left = length,
                // Those that RFC 9114 knows, and those that it reserves (section 4.4, 7.2.8).
                1..=9 | 0x0d => return Err(Broken(FRAME_UNEXPECTED, "a frame after the CONNECT").into()),
                WT_STREAM => return Err(Broken(FRAME_ERROR, "a stream within another").into()),
                _ => self.stream.skip(length).await?,
            }
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        match self.stream.some(&mut buffer[..most]).await? {
            0 => Err(RecvStream::CUT.into()),
            read => {
                self.left -= read as u64;
                Ok(read)
            }
        }
    }
}
