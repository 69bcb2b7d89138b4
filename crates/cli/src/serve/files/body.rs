//! A file as a response's body.

use std::{
    fs::File,
    future::Future,
    io::{ErrorKind, Result},
    ops::{Range, RangeInclusive},
    os::unix::fs::FileExt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::task::JoinHandle;

use super::memory::State;

/// What is read at a time: the least, and the most.
const PIECES: RangeInclusive<u64> = 16 << 10..=64 << 10;
/// Of what has been taken so much is read at a time: who takes nothing more has little waiting.
const AHEAD: u64 = 4;

/// Where the bytes of a file are.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// In memory.
    Bytes(Bytes),
    /// Where the system has them, if it is still in this state.
    File(Arc<File>, State),
}

/// A part of a file. What is in memory is sent at once, be it ours or the system's; everything else is
/// read by a thread that may wait for the disk.
pub(in crate::serve) struct FileBody {
    content: Content,
    /// Still to be sent.
    range: Range<u64>,
    /// Handed out.
    taken: u64,
    reading: Option<JoinHandle<Result<Bytes>>>,
}

impl FileBody {
    /// These bytes of the file.
    pub(super) fn new(content: &Content, range: Range<u64>) -> Self {
        Self { content: content.clone(), range, taken: 0, reading: None }
    }

    /// Bytes still to be sent.
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The next bytes; none if the file ends before.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes>> {
        let start = self.range.start;
        let (file, state) = match &self.content {
            Content::Bytes(bytes) => {
                let within = |offset| usize::try_from(offset).map_or(bytes.len(), |at| at.min(bytes.len()));
                return Poll::Ready(Ok(bytes.slice(within(start)..within(self.range.end))));
            }
            Content::File(file, state) => (file, *state),
        };
        let piece = (self.taken / AHEAD).clamp(*PIECES.start(), *PIECES.end());
        let size = self.len().min(piece) as usize;
        if self.reading.is_none()
            && let Some(piece) = read_at_hand(file, start, size)
        {
            return Poll::Ready(unchanged(piece?, file, &state));
        }
        let file = file.clone();
        let read = move || unchanged(read_from_disk(&file, start, size)?, &file, &state);
        let reading = self.reading.get_or_insert_with(|| tokio::task::spawn_blocking(read));
        let read = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        Poll::Ready(read.map_err(std::io::Error::other)?)
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>>>> {
        if self.len() == 0 {
            return Poll::Ready(None);
        }
        let piece = ready!(self.poll_piece(cx))?;
        if piece.is_empty() {
            // It was longer when its length was said.
            return Poll::Ready(Some(Err(ErrorKind::UnexpectedEof.into())));
        }
        self.range.start += piece.len() as u64;
        self.taken += piece.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.len() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len())
    }
}

/// A piece that was read just now, unless the file has other bytes than when the answer began: a part of
/// one version and a part of another would pass for a file.
fn unchanged(piece: Bytes, file: &File, state: &State) -> Result<Bytes> {
    match state.is_overwritten(&file.metadata()?) {
        true => Err(std::io::Error::other("the file was written to while it was sent")),
        false => Ok(piece),
    }
}

/// Reads the first bytes of a file, as above.
pub(super) async fn read_all(file: &Arc<File>, len: usize) -> Result<Bytes> {
    let at_hand = read_at_hand(file, 0, len).and_then(Result::ok);
    if let Some(all) = at_hand.filter(|bytes| bytes.len() == len) {
        return Ok(all);
    }
    let file = file.clone();
    let reading = tokio::task::spawn_blocking(move || read_from_disk(&file, 0, len));
    reading.await.map_err(std::io::Error::other)?
}

/// Reads what the system has in memory; `None` where the disk has to be asked (preadv2(2)).
#[cfg(target_os = "linux")]
fn read_at_hand(file: &File, start: u64, size: usize) -> Option<Result<Bytes>> {
    use std::io::IoSliceMut;

    use rustix::io::{ReadWriteFlags, preadv2};
    let mut piece = vec![0; size];
    let read = preadv2(file, &mut [IoSliceMut::new(&mut piece)], start, ReadWriteFlags::NOWAIT);
    // Whatever else is wrong, the disk says it again.
    let read = read.ok()?;
    piece.truncate(read);
    Some(Ok(piece.into()))
}

#[cfg(not(target_os = "linux"))]
fn read_at_hand(_file: &File, _start: u64, _size: usize) -> Option<Result<Bytes>> {
    None
}

fn read_from_disk(file: &File, start: u64, size: usize) -> Result<Bytes> {
    let mut piece = vec![0; size];
    let read = file.read_at(&mut piece, start)?;
    piece.truncate(read);
    Ok(piece.into())
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    fn on_disk(bytes: &[u8]) -> Content {
        content(file(bytes))
    }

    fn content(file: File) -> Content {
        let state = State::of(&file.metadata().unwrap());
        Content::File(Arc::new(file), state)
    }

    #[tokio::test]
    async fn a_part_comes_whole_and_nothing_beyond() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        for range in [0..200_000, 1..199_999, 65_535..65_537, 7..7, 0..1] {
            for content in [on_disk(&bytes), Content::Bytes(bytes.clone().into())] {
                let body = FileBody::new(&content, range.clone());
                assert_eq!(body.size_hint().exact(), Some(range.end - range.start));
                let read = body.collect().await.unwrap().to_bytes();
                assert_eq!(read, bytes[range.start as usize..range.end as usize], "{range:?}");
            }
        }
    }

    #[tokio::test]
    async fn more_is_read_at_a_time_of_what_is_taken() {
        let mut body = FileBody::new(&on_disk(&[7; 1 << 20]), 0..1 << 20);
        let mut taken = 0;
        let mut largest = 0;
        while let Some(piece) = body.frame().await {
            let piece = piece.unwrap().into_data().unwrap().len() as u64;
            assert!(piece <= (taken / 4).max(16 << 10), "{piece} bytes after {taken}");
            taken += piece;
            largest = largest.max(piece);
        }
        assert_eq!((taken, largest), (1 << 20, 64 << 10));
    }

    #[tokio::test]
    async fn a_file_that_became_shorter_is_an_error() {
        let body = FileBody::new(&on_disk(b"short"), 0..10);
        assert_eq!(body.collect().await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    /// A part of one version and a part of another are no file; what a log had is, whatever is added.
    #[tokio::test]
    async fn a_file_that_is_overwritten_meanwhile_is_an_error() {
        for (at, whole) in [(0, false), (1 << 20, true)] {
            let file = file(&[1; 1 << 20]);
            let written = file.metadata().unwrap().modified().unwrap();
            file.set_modified(written - std::time::Duration::from_secs(3_600)).unwrap();
            let mut body = FileBody::new(&content(file.try_clone().unwrap()), 0..1 << 20);
            body.frame().await.unwrap().unwrap();
            file.write_all_at(b"other", at).unwrap();
            assert_eq!(body.collect().await.is_ok(), whole, "written at {at}");
        }
    }

    #[tokio::test]
    async fn disk_and_memory_say_the_same() {
        let file = Arc::new(file(b"0123456789"));
        assert_eq!(read_all(&file, 10).await.unwrap(), "0123456789");
        assert_eq!(read_all(&file, 20).await.unwrap(), "0123456789");
        for (start, size) in [(0, 10), (3, 4), (8, 10), (10, 5)] {
            let read = read_from_disk(&file, start, size).unwrap();
            assert_eq!(read.len(), size.min(10 - start as usize));
            if let Some(at_hand) = read_at_hand(&file, start, size) {
                assert_eq!(at_hand.unwrap(), read);
            }
        }
    }
}
