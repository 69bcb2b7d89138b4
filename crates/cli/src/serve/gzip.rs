//! Compression of text on its way (RFC 1952).

use std::{
    io::Write as _,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use hyper::{
    Response,
    body::{Body, Frame, SizeHint},
    header::{ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderValue},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{files::weaken, site::BoxError};

/// What is compressed has at least so many bytes: less would not become shorter.
const LEAST: u64 = 32;
/// What is compressed in one go, and how much of more than that before some is sent, in bytes.
const AT_ONCE: u64 = 64 << 10;
/// Longer texts that are compressed at a time: each has a third of a megabyte for it, for as long as its
/// client likes.
const LONG: usize = 256;
/// The least that gzip makes of anything, in bytes.
const FRAME: u64 = 18;

/// Compresses what is worth it.
#[derive(Clone, Debug)]
pub(super) struct Packer {
    seats: Arc<Semaphore>,
}

impl Default for Packer {
    fn default() -> Self {
        Self::new(LONG)
    }
}

/// A body that may be compressed.
pub(super) struct Packed<B> {
    body: B,
    /// `None` if it stays as it is, or is over.
    packing: Option<Packing>,
}

struct Packing {
    /// Once something of the body was asked for.
    encoder: Option<GzEncoder<Vec<u8>>>,
    /// Of the longer ones.
    _seat: Option<OwnedSemaphorePermit>,
}

impl Packer {
    /// Compresses so many longer texts at a time.
    fn new(long: usize) -> Self {
        Self { seats: Arc::new(Semaphore::new(long)) }
    }

    /// The response, compressed if it is text, the client `wants` that, and there is a seat for it.
    pub(super) fn pack<B: Body>(
        &self,
        mut response: Response<B>,
        wants: impl FnOnce() -> bool,
    ) -> Response<Packed<B>> {
        let packing = self.packing(&response, wants);
        if packing.is_some() {
            let fields = response.headers_mut();
            fields.remove(ACCEPT_RANGES);
            fields.remove(CONTENT_LENGTH);
            fields.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            weaken(fields);
        }
        response.map(|body| Packed { body, packing })
    }

    fn packing<B: Body>(&self, response: &Response<B>, wants: impl FnOnce() -> bool) -> Option<Packing> {
        let fields = response.headers();
        let is_whole = !fields.contains_key(CONTENT_ENCODING) && !fields.contains_key(CONTENT_RANGE);
        let len = response.body().size_hint().exact()?;
        if !is_whole || len < LEAST || !is_text(fields.get(CONTENT_TYPE)) || !wants() {
            return None;
        }
        let seat = if len > AT_ONCE { Some(self.seats.clone().try_acquire_owned().ok()?) } else { None };
        Some(Packing { encoder: None, _seat: seat })
    }
}

impl<B> Packed<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    /// Some of it compressed, or all that is left.
    fn poll_packed(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(packing) = &mut self.packing else { return Poll::Ready(None) };
        let encoder =
            packing.encoder.get_or_insert_with(|| GzEncoder::new(Vec::new(), Compression::default()));
        let mut read = 0;
        while !self.body.is_end_stream() {
            if read >= AT_ONCE && !encoder.get_ref().is_empty() {
                let packed = std::mem::take(encoder.get_mut());
                return Poll::Ready(Some(Ok(Frame::data(packed.into()))));
            }
            let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
            let Some(frame) = frame.transpose().map_err(Into::into)? else { break };
            // Files have no trailers.
            let Ok(data) = frame.into_data() else { continue };
            read += data.len() as u64;
            encoder.write_all(&data)?;
        }
        // What it took is free before the client has all.
        let encoder = self.packing.take().and_then(|packing| packing.encoder);
        let rest = encoder.map(GzEncoder::finish).transpose()?.unwrap_or_default();
        Poll::Ready(Some(Ok(Frame::data(rest.into()))))
    }
}

impl<B> Body for Packed<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.packing {
            Some(_) => self.poll_packed(cx),
            // Of what was packed nothing is left.
            None => Pin::new(&mut self.body).poll_frame(cx).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.packing.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let Some(packing) = &self.packing else { return self.body.size_hint() };
        let mut hint = SizeHint::new();
        hint.set_lower(if packing.encoder.is_none() { FRAME } else { 0 });
        hint
    }
}

/// Whether contents of this kind and length are worth it and compressed in one go.
pub(super) fn is_short_text(kind: &HeaderValue, len: u64) -> bool {
    (LEAST..=AT_ONCE).contains(&len) && is_text(Some(kind))
}

/// A short text compressed.
///
/// # Errors
/// None that writing to memory could have.
pub(super) fn pack_all(text: &[u8]) -> std::io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text)?;
    // It is kept, and takes no more than it says.
    Ok(encoder.finish()?.into_boxed_slice().into())
}

/// Whether the contents are text, or as loose: what is packed already only costs time, and loses its
/// length and its ranges.
fn is_text(kind: Option<&HeaderValue>) -> bool {
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.split_once('/') {
        // Each event is to be there at once.
        Some(("text", name)) => name != "event-stream",
        Some((_, name)) if name.ends_with("+xml") || name.ends_with("+json") => true,
        Some(("application", name)) => {
            matches!(name, "javascript" | "x-javascript" | "json" | "xml" | "wasm" | "manifest")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use http_body_util::{BodyExt as _, Full};
    use hyper::header::ETAG;

    use super::*;

    fn text(len: usize) -> Response<Full<Bytes>> {
        let mut text = Response::new(Full::new((0..len).map(|n| b'a' + (n % 23) as u8).collect()));
        text.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        text
    }

    fn is_packed<B>(response: &Response<B>) -> bool {
        response.headers().get(CONTENT_ENCODING).is_some_and(|coding| coding == "gzip")
    }

    #[tokio::test]
    async fn what_is_packed_is_the_same_when_it_is_unpacked() {
        for (len, packs) in [(31, false), (32, true), (65_536, true), (1_000_000, true)] {
            let plain = text(len).into_body().collect().await.unwrap().to_bytes();
            for wants in [true, false] {
                let response = Packer::default().pack(text(len), || wants);
                assert_eq!(is_packed(&response), wants && packs, "{len} bytes");
                let body = response.into_body().collect().await.unwrap().to_bytes();
                let mut unpacked = Vec::new();
                match wants && packs {
                    true => _ = GzDecoder::new(&*body).read_to_end(&mut unpacked).unwrap(),
                    false => unpacked = body.into(),
                }
                assert!(unpacked == plain, "{len} bytes");
            }
        }
    }

    #[test]
    fn what_is_packed_has_a_weak_tag() {
        for (wants, tag) in [(true, "W/\"tag\""), (false, "\"tag\"")] {
            let mut text = text(1_000);
            text.headers_mut().insert(ETAG, HeaderValue::from_static("\"tag\""));
            assert_eq!(Packer::default().pack(text, || wants).headers()[ETAG], tag);
        }
    }

    /// Clients who take nothing cost no more than the seats.
    #[tokio::test]
    async fn few_long_texts_are_packed_at_a_time_and_nothing_before_it_is_taken() {
        let packer = Packer::new(2);
        let first = packer.pack(text(100_000), || true);
        let mut second = packer.pack(text(100_000), || true);
        assert!(is_packed(&first) && is_packed(&second));
        assert!(first.body().packing.as_ref().is_some_and(|packing| packing.encoder.is_none()));
        assert!(!is_packed(&packer.pack(text(100_000), || true)), "the third goes as it is");
        assert!(is_packed(&packer.pack(text(1_000), || true)), "a short one takes no seat");
        drop(first);
        assert!(is_packed(&packer.pack(text(100_000), || true)));
        // Nor does it wait for the last byte.
        while !second.body().is_end_stream() {
            second.body_mut().frame().await.unwrap().unwrap();
            if second.body().packing.is_none() {
                break;
            }
        }
        let _third = packer.pack(text(100_000), || true);
        assert!(is_packed(&packer.pack(text(100_000), || true)));
    }

    #[test]
    fn text_is_compressed_and_what_is_packed_is_not() {
        let is_text = |kind| is_text(Some(&HeaderValue::from_static(kind)));
        for kind in [
            "text/html; charset=utf-8",
            "TEXT/CSS",
            "text/javascript",
            "application/javascript",
            "application/json",
            "application/xml",
            "application/rss+xml",
            "application/ld+json",
            "application/manifest+json",
            "application/wasm",
            "image/svg+xml",
        ] {
            assert!(is_text(kind), "{kind}");
        }
        for kind in [
            "application/zip",
            "application/octet-stream",
            "application/gzip",
            "video/mp4",
            "font/woff2",
            "image/png",
            "text/event-stream",
            "",
        ] {
            assert!(!is_text(kind), "{kind}");
        }
    }
}
