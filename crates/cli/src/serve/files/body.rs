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
/// Of what was handed out last so much is kept, in bytes: it tells a file that grew from one that was
/// written anew.
const TAIL: usize = 4 << 10;

/// Reads so many bytes of a file from an offset on, or fewer.
type Read = fn(&File, u64, usize) -> Result<Bytes>;

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
    source: Source,
    /// Still to be sent.
    range: Range<u64>,
    /// Handed out.
    taken: u64,
    reading: Option<JoinHandle<Result<(Bytes, State)>>>,
}

enum Source {
    Bytes(Bytes),
    File(Arc<File>, Sent),
}

/// What is known of a file of which something was sent, and to which the rest must belong.
#[derive(Clone, Debug)]
struct Sent {
    /// As it was when it was read last.
    state: State,
    /// Whether it has grown since the answer began, as a log does.
    grows: bool,
    /// What was sent last, up to [`TAIL`]; nothing at the beginning.
    tail: Vec<u8>,
    /// Whether the answer was said to be of this state and of no other.
    exact: bool,
}

impl FileBody {
    /// These bytes of the file. The answer is `exact` if its fields tell the file's state from all
    /// others (a strong tag, a time).
    pub(super) fn new(content: &Content, range: Range<u64>, exact: bool) -> Self {
        let source = match content {
            Content::Bytes(bytes) => Source::Bytes(bytes.clone()),
            Content::File(file, state) => {
                let sent = Sent { state: *state, grows: false, tail: Vec::new(), exact };
                Source::File(file.clone(), sent)
            }
        };
        Self { source, range, taken: 0, reading: None }
    }

    /// Bytes still to be sent.
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The next bytes; none if the file ends before.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes>> {
        let (start, left) = (self.range.start, self.len());
        let (file, sent) = match &mut self.source {
            Source::Bytes(bytes) => {
                let within = |offset| usize::try_from(offset).map_or(bytes.len(), |at| at.min(bytes.len()));
                return Poll::Ready(Ok(bytes.slice(within(start)..within(start + left))));
            }
            Source::File(file, sent) => (file, sent),
        };
        let piece = (self.taken / AHEAD).clamp(*PIECES.start(), *PIECES.end());
        let size = left.min(piece) as usize;
        if self.reading.is_none()
            && let Ok((piece, state)) = sent.next(file, start, size, read_at_hand)
        {
            sent.follow(&piece, state);
            return Poll::Ready(Ok(piece));
        }
        let reading = self.reading.get_or_insert_with(|| {
            let (file, sent) = (file.clone(), sent.clone());
            tokio::task::spawn_blocking(move || sent.next(&file, start, size, read_from_disk))
        });
        let read = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        let (piece, state) = read.map_err(std::io::Error::other)??;
        sent.follow(&piece, state);
        Poll::Ready(Ok(piece))
    }
}

impl Sent {
    /// Reads the piece that follows, and says in which state the file is by now.
    ///
    /// # Errors
    /// If it cannot be read, or belongs to something else than what was sent: a part of one version
    /// and a part of another would pass for a file.
    fn next(&self, file: &File, start: u64, size: usize, read: Read) -> Result<(Bytes, State)> {
        let piece = read(file, start, size)?;
        // After the bytes: what is written from now on shows with the next piece.
        let state = State::of(&file.metadata()?);
        let continues = state.has_bytes_of(&self.state)
            || self.may_have_grown(&state) && self.is_still_there(file, start, read)?;
        match continues {
            true => Ok((piece, state)),
            false => Err(std::io::Error::other("the file was written to while it was sent")),
        }
    }

    /// Whether the file may have got more bytes and kept the others. One that grows may have another
    /// time already while its length is still the old one.
    fn may_have_grown(&self, now: &State) -> bool {
        now.len() > self.state.len() || self.grows && now.len() == self.state.len()
    }

    /// Whether the file has, before `start`, what was sent last. Where nothing was sent, nobody can
    /// know: then an exact answer must not begin.
    fn is_still_there(&self, file: &File, start: u64, read: Read) -> Result<bool> {
        let size = self.tail.len();
        Ok(if size == 0 { !self.exact } else { read(file, start - size as u64, size)? == self.tail })
    }

    /// A piece was handed out, after which the file was in this state.
    fn follow(&mut self, piece: &[u8], state: State) {
        self.grows |= state.len() > self.state.len();
        self.state = state;
        self.tail.clear();
        self.tail.extend_from_slice(&piece[piece.len().saturating_sub(TAIL)..]);
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

/// Reads the first bytes of a file, as above.
pub(super) async fn read_all(file: &Arc<File>, len: usize) -> Result<Bytes> {
    let at_hand = read_at_hand(file, 0, len).ok();
    if let Some(all) = at_hand.filter(|bytes| bytes.len() == len) {
        return Ok(all);
    }
    let file = file.clone();
    let reading = tokio::task::spawn_blocking(move || read_from_disk(&file, 0, len));
    reading.await.map_err(std::io::Error::other)?
}

/// Reads what the system has in memory.
///
/// # Errors
/// Where the disk has to be asked (preadv2(2)). Whatever else is wrong, it says that again.
#[cfg(target_os = "linux")]
fn read_at_hand(file: &File, start: u64, size: usize) -> Result<Bytes> {
    use std::io::IoSliceMut;

    use rustix::io::{ReadWriteFlags, preadv2};
    let mut piece = vec![0; size];
    let read = preadv2(file, &mut [IoSliceMut::new(&mut piece)], start, ReadWriteFlags::NOWAIT)?;
    piece.truncate(read);
    Ok(piece.into())
}

#[cfg(not(target_os = "linux"))]
fn read_at_hand(_file: &File, _start: u64, _size: usize) -> Result<Bytes> {
    Err(ErrorKind::WouldBlock.into())
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
                let body = FileBody::new(&content, range.clone(), true);
                assert_eq!(body.size_hint().exact(), Some(range.end - range.start));
                let read = body.collect().await.unwrap().to_bytes();
                assert_eq!(read, bytes[range.start as usize..range.end as usize], "{range:?}");
            }
        }
    }

    #[tokio::test]
    async fn more_is_read_at_a_time_of_what_is_taken() {
        let mut body = FileBody::new(&on_disk(&[7; 1 << 20]), 0..1 << 20, true);
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
        let body = FileBody::new(&on_disk(b"short"), 0..10, true);
        assert_eq!(body.collect().await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    /// A part of one version and a part of another are no file; what a log had is, whatever is added.
    #[tokio::test]
    async fn a_file_that_is_overwritten_meanwhile_is_an_error() {
        for (at, whole) in [(0, false), (1 << 20, true)] {
            let file = file(&[1; 1 << 20]);
            let written = file.metadata().unwrap().modified().unwrap();
            file.set_modified(written - std::time::Duration::from_secs(3_600)).unwrap();
            let mut body = FileBody::new(&content(file.try_clone().unwrap()), 0..1 << 20, true);
            body.frame().await.unwrap().unwrap();
            file.write_all_at(b"other", at).unwrap();
            assert_eq!(body.collect().await.is_ok(), whole, "written at {at}");
        }
    }

    /// That it is longer does not tell it from a log.
    #[tokio::test]
    async fn a_file_that_is_overwritten_by_a_longer_one_is_an_error() {
        for empties in [true, false] {
            let file = file(&[1; 1 << 20]);
            let mut body = FileBody::new(&content(file.try_clone().unwrap()), 0..1 << 20, true);
            body.frame().await.unwrap().unwrap();
            if empties {
                file.set_len(0).unwrap();
            }
            file.write_all_at(&[2; 2 << 20], 0).unwrap();
            let error = body.collect().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Other, "emptied before: {empties}");
        }
    }

    #[tokio::test]
    async fn a_log_that_is_written_all_the_time_is_sent_as_it_was_and_one_that_begins_anew_is_not() {
        let file = file(&[1; 1 << 20]);
        let mut body = FileBody::new(&content(file.try_clone().unwrap()), 0..1 << 20, true);
        let mut taken = 0;
        while let Some(piece) = body.frame().await {
            let piece = piece.unwrap().into_data().unwrap();
            assert!(piece.iter().all(|&byte| byte == 1));
            taken += piece.len();
            file.write_all_at(&[2; 100], file.metadata().unwrap().len()).unwrap();
        }
        assert_eq!(taken, 1 << 20);

        let mut body = FileBody::new(&content(file.try_clone().unwrap()), 0..1 << 20, true);
        for _ in 0..2 {
            body.frame().await.unwrap().unwrap();
            file.write_all_at(&[2; 100], file.metadata().unwrap().len()).unwrap();
        }
        file.set_len(1 << 20).unwrap();
        assert!(body.collect().await.is_err());
    }

    /// What was there when the fields were said is not known any more.
    #[tokio::test]
    async fn an_exact_answer_does_not_begin_with_a_file_that_has_grown() {
        for exact in [true, false] {
            let file = file(&[1; 1 << 20]);
            let body = FileBody::new(&content(file.try_clone().unwrap()), 0..1 << 20, exact);
            file.write_all_at(b"more", 1 << 20).unwrap();
            let sent = body.collect().await.map(|sent| sent.to_bytes().len());
            assert_eq!(sent.ok(), (!exact).then_some(1 << 20));
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
            if let Ok(at_hand) = read_at_hand(&file, start, size) {
                assert_eq!(at_hand, read);
            }
        }
    }
}
