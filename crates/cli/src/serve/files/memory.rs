//! Small files, kept in memory for as long as the disk has nothing newer, and what gzip makes of them.
//!
//! Nothing is sent from here unless the system has said within the last millisecond that the file is
//! still as it was read: an edit shows after that at the latest. Files that were changed a moment ago are
//! not kept, since a second change within the tick of a file system's clock would look like the first.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::Metadata,
    os::unix::fs::MetadataExt as _,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use tokio::time::Instant;

use super::shown::Shown;
use crate::accounts::moment;

/// What is kept, and for how long it counts.
#[derive(Clone, Copy, Debug)]
pub(in crate::serve) struct Limits {
    /// All that is kept, in bytes: contents, and [`OVERHEAD`] for each file. Default 32 MB.
    pub(super) total: usize,
    /// The longest file, in bytes. Default 64 kB.
    pub(super) file: u64,
    /// How long ago a file must have been changed last. Default 2 s, the coarsest clock of a file
    /// system.
    pub(super) settled: Duration,
    /// How long the way to a file counts that was walked link by link: after that it is walked
    /// again, since a link may have come in between that leads out of the root. Default 1 s.
    pub(super) walked: Duration,
    /// How long it counts what the system said of a file: of many requests at once only the first has
    /// to ask. Default 1 ms.
    pub(super) looked: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            total: 32 << 20,
            file: 64 << 10,
            settled: Duration::from_secs(2),
            walked: Duration::from_secs(1),
            looked: Duration::from_millis(1),
        }
    }
}

/// What a file counts for besides its contents, in bytes: its name and the fields of its response.
pub(super) const OVERHEAD: usize = 2_048;

/// Small files.
#[derive(Debug, Default)]
pub(in crate::serve) struct Memory {
    limits: Limits,
    books: Mutex<Books>,
    /// Answered from here.
    found: AtomicU64,
    /// Answered from what was opened.
    opened: AtomicU64,
    /// Compressed, to be kept.
    packed: AtomicU64,
}

#[derive(Debug, Default)]
struct Books {
    kept: BTreeMap<Arc<str>, Kept>,
    /// Who goes next, unless used meanwhile.
    order: VecDeque<Arc<str>>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    known: Known,
    walked: Instant,
    looked: Instant,
    /// Since it was its turn to go.
    used: bool,
}

/// What is known of a name.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// A file that was in this state.
    File(State, Arc<Shown>),
    /// There was none.
    Nothing,
    /// What a file that was in this state becomes by gzip.
    Packed(State, Bytes),
}

/// What is known, and whether the system has said lately that it is so.
#[derive(Debug)]
pub(super) struct Recalled {
    pub(super) known: Known,
    /// Whether it need not be asked again.
    pub(super) is_fresh: bool,
}

/// What tells whether a file is the same and unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) struct State {
    device: u64,
    inode: u64,
    len: u64,
    /// Seconds and nanoseconds since 1970.
    modified: (i64, i64),
    /// The same of anything about it, which nobody can set.
    changed: (i64, i64),
}

/// What the metrics say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::serve) struct Figures {
    /// Names that something is known of.
    pub(in crate::serve) names: usize,
    /// What they count for, in bytes.
    pub(in crate::serve) bytes: usize,
    /// Files that were sent from memory.
    pub(in crate::serve) found: u64,
    /// Files that were opened.
    pub(in crate::serve) opened: u64,
    /// How often a file was compressed to be kept so.
    pub(in crate::serve) packed: u64,
}

impl State {
    pub(in crate::serve) fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            len: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }

    /// Whether an open file that was in this state has the same bytes in another.
    pub(super) fn has_bytes_of(&self, other: &Self) -> bool {
        (self.len, self.modified) == (other.len, other.modified)
    }

    /// The length of the file, in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Whether it is so long since the last change that another would look different.
    fn is_settled(&self, now: SystemTime, after: Duration) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let Ok(seconds) = u64::try_from(seconds) else { return false };
        let changed =
            moment(seconds.saturating_mul(1_000)) + Duration::from_nanos(nanoseconds.unsigned_abs());
        changed + after <= now
    }
}

impl Memory {
    /// Whether a file in this state may be kept.
    pub(super) fn may_keep(&self, state: &State, now: SystemTime) -> bool {
        state.len <= self.limits.file && state.is_settled(now, self.limits.settled)
    }

    /// What is known of a name to which the way was walked lately. Whether it is still so is for the
    /// caller to see, if it [has to be asked](Recalled::is_fresh).
    pub(super) fn recall(&self, name: &str, now: Instant) -> Option<Recalled> {
        let mut books = self.books();
        let kept = books.kept.get_mut(name)?;
        kept.used = true;
        let is_fresh = now.duration_since(kept.looked) < self.limits.looked;
        let is_walked = now.duration_since(kept.walked) < self.limits.walked;
        is_walked.then(|| Recalled { known: kept.known.clone(), is_fresh })
    }

    /// The system was asked after `now`, and says that it still is so.
    pub(super) fn confirm(&self, name: &str, known: &Known, now: Instant) {
        if let Some(kept) = self.books().kept.get_mut(name)
            && kept.known.state() == known.state()
        {
            kept.looked = kept.looked.max(now);
        }
    }

    /// The file that is kept under a name, if it is in this state: the way to it was walked again.
    pub(super) fn renew(&self, name: &str, state: State, now: Instant) -> Option<Arc<Shown>> {
        let mut books = self.books();
        let kept = books.kept.get_mut(name)?;
        match &kept.known {
            Known::File(before, shown) if *before == state => {
                (kept.walked, kept.looked) = (now, now);
                Some(shown.clone())
            }
            _ => None,
        }
    }

    /// Keeps what was found where the way to a name ends, instead of what was there before. Who was
    /// not used for longest goes for it.
    pub(super) fn keep(&self, name: &str, known: Known, now: Instant) {
        let mut books = self.books();
        // That there is no coded file is found again each second: nobody's turn changes by it.
        if let (Known::Nothing, Some(kept)) = (&known, books.kept.get_mut(name))
            && matches!(kept.known, Known::Nothing)
        {
            (kept.walked, kept.looked) = (now, now);
            return;
        }
        books.remove(name);
        let bytes = known.bytes();
        if bytes > self.limits.total {
            return;
        }
        while books.bytes + bytes > self.limits.total {
            books.make_room();
        }
        let name: Arc<str> = name.into();
        books.bytes += bytes;
        books.order.push_back(name.clone());
        books.kept.insert(name, Kept { known, walked: now, looked: now, used: false });
    }

    /// Keeps a file in this state, unless it was kept meanwhile: who asked for it at the same time
    /// shares that.
    pub(super) fn share(&self, name: &str, state: State, shown: Arc<Shown>, now: Instant) -> Arc<Shown> {
        self.renew(name, state, now).unwrap_or_else(|| {
            self.keep(name, Known::File(state, shown.clone()), now);
            shown
        })
    }

    /// What a file in this state becomes by `pack`, which is kept under a name of its own.
    ///
    /// # Errors
    /// As `pack`.
    pub(super) fn pack<E>(
        &self,
        name: &str,
        state: State,
        now: Instant,
        pack: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        if let Some(packed) = self.packed(name, state) {
            return Ok(packed);
        }
        let packed = pack()?;
        self.packed.fetch_add(1, Ordering::Relaxed);
        self.keep(name, Known::Packed(state, packed.clone()), now);
        Ok(packed)
    }

    fn packed(&self, name: &str, state: State) -> Option<Bytes> {
        let mut books = self.books();
        let kept = books.kept.get_mut(name)?;
        kept.used = true;
        match &kept.known {
            Known::Packed(of, packed) if *of == state => Some(packed.clone()),
            _ => None,
        }
    }

    /// What was there is no more.
    pub(super) fn forget(&self, name: &str) {
        self.books().remove(name);
    }

    pub(super) fn on_found(&self) {
        self.found.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn on_opened(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    /// What the metrics say.
    pub(in crate::serve) fn figures(&self) -> Figures {
        let books = self.books();
        Figures {
            names: books.kept.len(),
            bytes: books.bytes,
            found: self.found.load(Ordering::Relaxed),
            opened: self.opened.load(Ordering::Relaxed),
            packed: self.packed.load(Ordering::Relaxed),
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// The state of the file, if there was one.
    fn state(&self) -> Option<State> {
        match self {
            Self::File(state, _) | Self::Packed(state, _) => Some(*state),
            Self::Nothing => None,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::File(state, _) => OVERHEAD + usize::try_from(state.len).unwrap_or(usize::MAX - OVERHEAD),
            Self::Nothing => OVERHEAD,
            Self::Packed(_, packed) => OVERHEAD + packed.len(),
        }
    }
}

impl Books {
    fn remove(&mut self, name: &str) {
        if let Some(kept) = self.kept.remove(name) {
            self.bytes -= kept.known.bytes();
            self.order.retain(|other| &**other != name);
        }
    }

    /// The clock: who was used since its last turn has another.
    fn make_room(&mut self) {
        while let Some(name) = self.order.pop_front() {
            match self.kept.get_mut(&name) {
                Some(kept) if kept.used => {
                    kept.used = false;
                    self.order.push_back(name);
                }
                _ => {
                    let gone = self.kept.remove(&name);
                    self.bytes -= gone.map_or(0, |kept| kept.known.bytes());
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
impl Memory {
    /// With other limits than those of the server.
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: usize = 1_000;

    fn state(len: usize) -> State {
        State { device: 1, inode: 2, len: len as u64, modified: (3, 4), changed: (5, 999_999_999) }
    }

    fn file(len: usize) -> Known {
        Known::File(state(len), Arc::new(Shown::empty()))
    }

    fn is_kept(memory: &Memory, name: &str, now: Instant) -> bool {
        memory.recall(name, now).is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_is_bounded_and_who_is_used_stays() {
        let now = Instant::now();
        let limits = Limits { total: 4 * (EACH + OVERHEAD), file: EACH as u64, ..Limits::default() };
        let memory = Memory::new(limits);
        for n in 0..100 {
            memory.keep(&format!("page {n}"), file(EACH), now);
            assert!(is_kept(&memory, "page 0", now), "it is used again and again");
            assert!(memory.figures().bytes <= limits.total);
        }
        let left: Vec<_> = (0..100).filter(|n| is_kept(&memory, &format!("page {n}"), now)).collect();
        assert_eq!(left.len(), 4);
        assert!(left[1..].iter().all(|n| *n >= 96), "{left:?}");
        memory.keep("page 0", file(2 * EACH), now);
        assert_eq!(memory.figures().bytes, limits.total - EACH - OVERHEAD + EACH, "one had to go");
        memory.keep("giant", file(limits.total), now);
        assert_eq!((memory.figures().names, is_kept(&memory, "giant", now)), (3, false));
        for n in 0..100 {
            memory.forget(&format!("page {n}"));
        }
        assert_eq!(memory.figures(), Figures::default());
        assert!(memory.books().order.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_compressed_is_kept_within_the_limit() {
        let now = Instant::now();
        let limits = Limits { total: 4 * (EACH + OVERHEAD), ..Limits::default() };
        let memory = Memory::new(limits);
        let pack = |name: &str, len| {
            let pack = || Ok::<_, std::convert::Infallible>(Bytes::from(vec![7; EACH]));
            let Ok(packed) = memory.pack(name, state(len), now, pack);
            assert_eq!(packed.len(), EACH);
            memory.figures().packed
        };
        for n in 0..100 {
            let before = pack(&format!("page {n}"), EACH);
            assert_eq!(pack("page 0", EACH), before, "it is kept");
            assert!(memory.figures().bytes <= limits.total);
        }
        let full = Figures { names: 4, bytes: limits.total, found: 0, opened: 0, packed: 100 };
        assert_eq!(memory.figures(), full);
        assert_eq!(pack("page 0", EACH + 1), 101, "it was edited");
        assert_eq!(pack("page 1", EACH), 102, "it had to go");
        assert_eq!(memory.figures(), Figures { packed: 102, ..full });
    }

    #[tokio::test(start_paused = true)]
    async fn a_way_counts_for_a_while() {
        let memory = Memory::new(Limits::default());
        let begin = Instant::now();
        memory.keep("page", file(EACH), begin);
        assert!(is_kept(&memory, "page", begin + Duration::from_millis(999)));
        let later = begin + Duration::from_secs(1);
        assert!(!is_kept(&memory, "page", later));
        assert!(memory.renew("page", state(EACH + 1), later).is_none());
        assert!(memory.renew("page", state(EACH), later).is_some());
        assert!(is_kept(&memory, "page", later));
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_system_says_counts_for_a_moment() {
        let (memory, begin) = (Memory::new(Limits::default()), Instant::now());
        let is_fresh = |now| memory.recall("page", now).is_some_and(|recalled| recalled.is_fresh);
        let moment = Limits::default().looked;
        memory.keep("page", file(EACH), begin);
        assert!(is_fresh(begin + moment / 2) && !is_fresh(begin + moment));
        memory.confirm("page", &file(EACH), begin + moment);
        assert!(is_fresh(begin + moment));
        // Somebody else was slower to hear of it, or heard of what is no longer kept.
        memory.confirm("page", &file(EACH), begin);
        assert!(is_fresh(begin + moment));
        for other in [file(EACH + 1), Known::Nothing] {
            memory.confirm("page", &other, begin + 2 * moment);
            assert!(!is_fresh(begin + 2 * moment));
        }
    }

    /// To give it another would cost each request as much as there are names.
    #[tokio::test(start_paused = true)]
    async fn what_is_still_not_there_keeps_its_place() {
        let (memory, begin) = (Memory::new(Limits::default()), Instant::now());
        for name in ["page", "other"] {
            memory.keep(name, Known::Nothing, begin);
        }
        let later = begin + Duration::from_secs(1);
        assert!(!is_kept(&memory, "page", later));
        memory.keep("page", Known::Nothing, later);
        assert!(is_kept(&memory, "page", later));
        assert_eq!(memory.books().order.front().map(|name| &**name), Some("page"));
        memory.keep("page", file(EACH), later);
        assert_eq!(memory.books().order.back().map(|name| &**name), Some("page"), "it is new");
        assert_eq!(memory.figures().names, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_a_file_at_the_same_time_shares_it() {
        let (memory, now) = (Memory::new(Limits::default()), Instant::now());
        let share = |len| memory.share("page", state(len), Arc::new(Shown::empty()), now);
        let first = share(EACH);
        assert!(Arc::ptr_eq(&first, &share(EACH)));
        assert!(!Arc::ptr_eq(&first, &share(EACH + 1)), "it is another");
        assert_eq!(memory.figures().bytes, OVERHEAD + EACH + 1);
    }

    #[test]
    fn what_was_changed_a_moment_ago_is_not_kept() {
        let memory = Memory::new(Limits::default());
        let at = |nanoseconds| moment(7_000) + Duration::from_nanos(nanoseconds);
        assert!(!memory.may_keep(&state(EACH), at(999_999_998)));
        assert!(memory.may_keep(&state(EACH), at(999_999_999)));
        assert!(!memory.may_keep(&state((64 << 10) + 1), at(999_999_999)), "it is too long");
        let before_1970 = State { changed: (-1, 0), ..state(EACH) };
        assert!(!memory.may_keep(&before_1970, at(0)));
    }
}
