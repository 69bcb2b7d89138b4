//! Conditions and ranges of requests for files (RFC 9110 sections 13 and 14).

use std::{
    fs::Metadata,
    ops::Range,
    os::unix::fs::MetadataExt as _,
    time::{Duration, SystemTime},
};

use headers::{
    ETag, Header as _, HeaderMap, HeaderMapExt as _, IfMatch, IfModifiedSince, IfNoneMatch,
    IfUnmodifiedSince, LastModified,
};
use http_range::{HttpRange, HttpRangeParseError};
use hyper::header::{ETAG, HeaderValue, IF_NONE_MATCH, IF_RANGE, RANGE};

/// The seconds since 1970 that a date of HTTP can say: up to the year 9999.
const SAYABLE: Range<i64> = 0..253_402_300_800;

/// Times of the last change, in seconds since 1970, that tools give to all that they lay down, whatever is
/// in it: OSTree and `SOURCE_DATE_EPOCH=0`, Nix, archives, npm.
const OF_ALL: [i64; 4] = [0, 1, 315_532_800, 499_162_500];

/// The largest size of a file, in bytes.
const LARGEST: &[u8] = b"9223372036854775807";

/// What tells a file's states apart.
#[derive(Debug)]
pub(super) struct Validators {
    /// A strong one where `modified` is said, by the same reasoning; before that a weak one. What is
    /// compressed on the way has it [weakened](weaken). None where no time is the file's own.
    pub(super) tag: Option<ETag>,
    /// When it was changed last, if that is a second ago: within it the file may change once more and
    /// say the same (RFC 9110 section 8.8.2.2).
    pub(super) modified: Option<LastModified>,
    /// The same as soon as it is so: what a client got before that is another state.
    changed: Option<SystemTime>,
}

/// How a request for a file is answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// With all of it.
    Whole,
    /// With these bytes.
    Part(Range<u64>),
    /// That the client has it already.
    NotModified,
    /// That it is no longer what the client thinks.
    PreconditionFailed,
    /// That it is not as long.
    NotSatisfiable,
}

impl Validators {
    /// Of a file that has its contents in this coding. In another they have other bytes, and another
    /// tag.
    pub(super) fn new(file: &Metadata, coding: Option<&str>, now: SystemTime) -> Self {
        let times = [(file.mtime(), file.mtime_nsec()), (file.ctime(), file.ctime_nsec())];
        let Some((seconds, nanoseconds)) = telling(times) else {
            return Self { tag: None, modified: None, changed: None };
        };
        let changed = if SAYABLE.contains(&seconds) { moment(file, seconds, nanoseconds) } else { None };
        let modified = changed.filter(|changed| *changed + Duration::from_secs(1) <= now);
        let weak = if modified.is_none() { "W/" } else { "" };
        let coding = coding.map_or_else(String::new, |coding| format!("-{coding}"));
        let tag = format!("{weak}\"{:x}-{seconds:x}.{nanoseconds:x}{coding}\"", file.len());
        Self { tag: tag.parse().ok(), modified: modified.map(LastModified::from), changed }
    }

    /// Whether they tell a state from all others: bytes of two answers that have the same are of one file.
    pub(super) fn are_strong(&self) -> bool {
        self.modified.is_some()
    }

    /// Whether the client knows the file by a weak tag alone: compressed on the way, or from when it was
    /// young. The tag that says that it is still so must not make more of it (RFC 9111 section 4.3.4).
    pub(super) fn are_known_weakly(&self, fields: &HeaderMap) -> bool {
        let tags = IfMatch::decode(&mut fields.get_all(IF_NONE_MATCH).iter());
        let is_strong = |tags: IfMatch| self.tag.as_ref().is_some_and(|tag| tags.precondition_passes(tag));
        fields.contains_key(IF_NONE_MATCH) && !tags.is_ok_and(is_strong)
    }

    /// What these fields of a request ask of a file with so many bytes, in the order of RFC 9110
    /// section 13.2.2.
    pub(super) fn answer(&self, fields: &HeaderMap, len: u64) -> Answer {
        if !self.is_expected(fields) {
            Answer::PreconditionFailed
        } else if self.is_known(fields) {
            Answer::NotModified
        } else if self.is_range_of_this(fields) {
            part(fields, len)
        } else {
            Answer::Whole
        }
    }

    fn is_expected(&self, fields: &HeaderMap) -> bool {
        if let Some(tags) = fields.typed_get::<IfMatch>() {
            return tags.is_any() || self.tag.as_ref().is_some_and(|tag| tags.precondition_passes(tag));
        }
        let since = fields.typed_get::<IfUnmodifiedSince>();
        since.is_none_or(|since| self.changed.is_none_or(|time| since.precondition_passes(time)))
    }

    fn is_known(&self, fields: &HeaderMap) -> bool {
        if let Some(tags) = fields.typed_get::<IfNoneMatch>() {
            return self.tag.as_ref().is_some_and(|tag| !tags.precondition_passes(tag));
        }
        let since = fields.typed_get::<IfModifiedSince>();
        since.is_some_and(|since| self.modified.is_some_and(|time| !since.is_modified(time.into())))
    }

    /// Whether parts of it fit the parts that the client has (RFC 9110 section 13.1.5): a strong tag
    /// says so, or a time, if it is the same.
    fn is_range_of_this(&self, fields: &HeaderMap) -> bool {
        let Some(state) = fields.get(IF_RANGE) else { return true };
        let Ok(state) = state.to_str() else { return false };
        if let Ok(tag) = state.parse::<ETag>() {
            return !tag.is_weak() && self.tag.as_ref() == Some(&tag);
        }
        let time = httpdate::parse_http_date(state).ok().map(LastModified::from);
        time.is_some() && time == self.modified
    }
}

/// The first of these times, in seconds and nanoseconds since 1970, that a file of its own has: when its
/// contents were changed, or anything about it. A read-only image may say the first for both, and then a tag
/// or a date would be the next version's as well.
fn telling(times: [(i64, i64); 2]) -> Option<(i64, i64)> {
    times.into_iter().find(|(seconds, _)| !OF_ALL.contains(seconds))
}

/// The moment so long after 1970, counted from the file's own time: nothing here has to do with the clock.
fn moment(file: &Metadata, seconds: i64, nanoseconds: i64) -> Option<SystemTime> {
    let part = |nanoseconds: i64| Duration::from_nanos(nanoseconds.unsigned_abs());
    let own = file.modified().ok()?.checked_sub(part(file.mtime_nsec()))?;
    let apart = Duration::from_secs(seconds.abs_diff(file.mtime()));
    let second = if seconds < file.mtime() { own.checked_sub(apart) } else { own.checked_add(apart) };
    second?.checked_add(part(nanoseconds))
}

/// Makes a weak tag of an answer's strong one: what it carries has the same contents, but not the same
/// bytes (RFC 9110 section 8.8.3.3).
pub(in crate::serve) fn weaken(fields: &mut HeaderMap) {
    let Some(tag) = fields.get(ETAG).filter(|tag| !tag.as_bytes().starts_with(b"W/")) else { return };
    let weak = HeaderValue::from_bytes(&[&b"W/"[..], tag.as_bytes()].concat());
    if let Ok(weak) = weak {
        fields.insert(ETAG, weak);
    }
}

/// One range is answered with it; who asks for several gets all (RFC 9110 section 14.2 allows it).
fn part(fields: &HeaderMap, len: u64) -> Answer {
    let asked = fields.get(RANGE).map(|field| HttpRange::parse_bytes(&sayable(field.as_bytes()), len));
    match asked {
        Some(Ok(ranges)) => match ranges[..] {
            // The last bytes of nothing are all of it, and no field could say which they are.
            [HttpRange { length: 0, .. }] => Answer::Whole,
            [HttpRange { start, length }] => Answer::Part(start..start + length),
            _ => Answer::Whole,
        },
        Some(Err(HttpRangeParseError::NoOverlap)) => Answer::NotSatisfiable,
        // What is no range counts as none.
        _ => Answer::Whole,
    }
}

/// The same field with numbers that fit: those that are larger than any file are as good as the
/// largest.
fn sayable(field: &[u8]) -> Vec<u8> {
    let mut parts = Vec::with_capacity(field.len());
    for part in field.chunk_by(|one, other| one.is_ascii_digit() == other.is_ascii_digit()) {
        let zeros = part.iter().take_while(|&&byte| byte == b'0').count();
        let is_too_large = part[0].is_ascii_digit() && part.len() - zeros > LARGEST.len() - 1;
        parts.extend_from_slice(if is_too_large { LARGEST } else { part });
    }
    parts
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;

    use super::*;
    use crate::accounts::now;

    const THEN: &str = "Tue, 14 Nov 2023 22:13:20 GMT";
    const AFTER: &str = "Tue, 14 Nov 2023 22:13:21 GMT";
    const BEFORE: &str = "Tue, 14 Nov 2023 22:13:19 GMT";
    /// Of the file below, and as it is while that is young or where it is compressed on the way.
    const TAG: &str = "\"3e8-6553f100.1dcd6500\"";
    const WEAK: &str = "W/\"3e8-6553f100.1dcd6500\"";

    /// What is said after so long of a file of 1,000 bytes that was changed half a second after
    /// [`THEN`].
    fn said(after: Duration) -> Validators {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1_000).unwrap();
        let changed = httpdate::parse_http_date(THEN).unwrap() + Duration::from_millis(500);
        file.set_modified(changed).unwrap();
        Validators::new(&file.metadata().unwrap(), None, changed + after)
    }

    fn fields(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let named = |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        fields.iter().map(named).collect()
    }

    fn answer(asked: &[(&'static str, &'static str)]) -> Answer {
        said(Duration::from_secs(3_600)).answer(&fields(asked), 1_000)
    }

    #[test]
    fn who_has_it_is_told_so() {
        assert_eq!(answer(&[]), Answer::Whole);
        assert_eq!(answer(&[("if-none-match", TAG)]), Answer::NotModified);
        assert_eq!(answer(&[("if-none-match", WEAK)]), Answer::NotModified);
        assert_eq!(answer(&[("if-none-match", "*")]), Answer::NotModified);
        assert_eq!(answer(&[("if-modified-since", THEN)]), Answer::NotModified);
        assert_eq!(answer(&[("if-modified-since", BEFORE)]), Answer::Whole);
        assert_eq!(answer(&[("if-modified-since", "yesterday")]), Answer::Whole);
        let other = ("if-none-match", "\"other\"");
        assert_eq!(answer(&[other, ("if-modified-since", THEN)]), Answer::Whole, "tags count more");
    }

    #[test]
    fn a_time_before_1970_is_not_said() {
        let file = tempfile::tempfile().unwrap();
        let then = httpdate::parse_http_date(THEN).unwrap();
        file.set_modified(then - Duration::from_secs(2_000_000_000)).unwrap();
        let said = Validators::new(&file.metadata().unwrap(), None, now());
        assert!(said.tag.is_some_and(|tag| tag.is_weak()) && said.modified.is_none());
    }

    /// A browser that hears 1970 takes the page as fresh for years (RFC 9111 section 4.2.2), and the next
    /// version, if it is as long, for the same.
    #[test]
    fn a_time_that_all_files_have_is_not_said() {
        let file = tempfile::tempfile().unwrap();
        let [then, epoch] =
            [THEN, "Thu, 01 Jan 1970 00:00:00 GMT"].map(|date| httpdate::parse_http_date(date).unwrap());
        for seconds in OF_ALL {
            let time = epoch + Duration::from_secs(seconds.unsigned_abs());
            file.set_modified(time).unwrap();
            let state = file.metadata().unwrap();
            let said = Validators::new(&state, None, now() + Duration::from_secs(3_600));
            let tag = format!("\"0-{:x}.{:x}\"", state.ctime(), state.ctime_nsec());
            assert_eq!(said.tag, tag.parse().ok(), "{seconds}");
            assert!(said.modified.is_some_and(|time| SystemTime::from(time) > then), "{seconds}");
        }
    }

    /// As in an image of composefs: there, too, the next version would be taken for the same.
    #[test]
    fn a_file_without_a_time_of_its_own_is_told_from_no_other() {
        for ((modified, changed), said) in [
            (((1_700_000_000, 5), (1_800_000_000, 0)), Some((1_700_000_000, 5))),
            (((1, 0), (1_800_000_000, 7)), Some((1_800_000_000, 7))),
            (((0, 0), (0, 0)), None),
            (((1, 0), (0, 0)), None),
        ] {
            assert_eq!(telling([modified, changed]), said);
        }
        let said = Validators { tag: None, modified: None, changed: None };
        for (field, expected) in [
            ("if-none-match", Answer::Part(0..10)),
            ("if-match", Answer::PreconditionFailed),
            ("if-range", Answer::Whole),
        ] {
            let asked = fields(&[("range", "bytes=0-9"), (field, "\"3e8-0.0\"")]);
            assert_eq!(said.answer(&asked, 1_000), expected, "{field}");
        }
    }

    #[test]
    fn a_time_is_said_and_a_tag_is_strong_once_they_tell_states_apart() {
        for (after, settled) in [(0, false), (500, false), (999, false), (1_000, true)] {
            let said = said(Duration::from_millis(after));
            assert_eq!((said.modified.is_some(), said.are_strong()), (settled, settled), "{after} ms");
            assert_eq!(said.tag, (if settled { TAG } else { WEAK }).parse().ok(), "{after} ms");
        }
    }

    #[test]
    fn each_coding_has_a_tag_of_its_own() {
        let file = tempfile::tempfile().unwrap().metadata().unwrap();
        let [plain, br, gzip] =
            [None, Some("br"), Some("gzip")].map(|coding| Validators::new(&file, coding, now()).tag);
        assert!(plain.is_some() && br.is_some() && gzip.is_some());
        assert!(plain != br && br != gzip && gzip != plain);
    }

    #[test]
    fn who_knows_a_weak_tag_hears_no_strong_one() {
        let said = said(Duration::from_secs(3_600));
        for (asked, weakly) in [
            (("if-none-match", TAG), false),
            (("if-none-match", "*"), false),
            (("if-modified-since", THEN), false),
            (("if-none-match", WEAK), true),
            (("if-none-match", "\"other\", W/\"3e8-6553f100.1dcd6500\""), true),
        ] {
            let asked = fields(&[asked]);
            assert_eq!(said.answer(&asked, 1_000), Answer::NotModified, "{asked:?}");
            assert_eq!(said.are_known_weakly(&asked), weakly, "{asked:?}");
        }
    }

    #[test]
    fn a_weak_tag_stays_as_it_is() {
        let mut fields = HeaderMap::from_iter([(ETAG, HeaderValue::from_static(TAG))]);
        for _ in 0..2 {
            weaken(&mut fields);
            assert_eq!(fields[ETAG], WEAK);
        }
        weaken(&mut HeaderMap::new());
    }

    #[test]
    fn who_expects_another_state_is_told_so() {
        assert_eq!(answer(&[("if-match", "*")]), Answer::Whole);
        assert_eq!(answer(&[("if-match", "\"other\"")]), Answer::PreconditionFailed);
        assert_eq!(answer(&[("if-match", TAG)]), Answer::Whole);
        assert_eq!(answer(&[("if-match", WEAK)]), Answer::PreconditionFailed, "RFC 9110 section 13.1.1");
        assert_eq!(answer(&[("if-unmodified-since", BEFORE)]), Answer::PreconditionFailed);
        assert_eq!(answer(&[("if-unmodified-since", THEN)]), Answer::Whole);
    }

    /// A part of it would be joined to a part of what was there before.
    #[test]
    fn who_expects_the_state_before_a_change_is_told_so_at_once() {
        for after in [Duration::ZERO, Duration::from_secs(3_600)] {
            for (since, expected) in [(BEFORE, Answer::PreconditionFailed), (AFTER, Answer::Part(0..10))] {
                let asked = fields(&[("range", "bytes=0-9"), ("if-unmodified-since", since)]);
                assert_eq!(said(after).answer(&asked, 1_000), expected, "{since}, {after:?} later");
            }
        }
    }

    #[test]
    fn ranges_are_cut_at_the_end() {
        for (range, expected) in [
            ("bytes=0-99", Answer::Part(0..100)),
            ("bytes=900-", Answer::Part(900..1_000)),
            ("bytes=900-5000", Answer::Part(900..1_000)),
            ("bytes=-10", Answer::Part(990..1_000)),
            ("bytes=-2000", Answer::Part(0..1_000)),
            ("bytes=1000-", Answer::NotSatisfiable),
            ("bytes=0-99999999999999999999", Answer::Part(0..1_000)),
            ("bytes=00000000000000000000001-2", Answer::Part(1..3)),
            ("bytes=-99999999999999999999", Answer::Part(0..1_000)),
            ("bytes=99999999999999999999-", Answer::NotSatisfiable),
            ("bytes=0-0,5-5", Answer::Whole),
            ("bytes=9-1", Answer::Whole),
            ("pages=1-2", Answer::Whole),
            ("bytes=", Answer::Whole),
        ] {
            assert_eq!(answer(&[("range", range)]), expected, "{range}");
        }
    }

    /// A field says of a range which byte is its last, and here is none.
    #[test]
    fn nothing_has_no_ranges() {
        for (range, expected) in [
            ("bytes=-1", Answer::Whole),
            ("bytes=-0", Answer::NotSatisfiable),
            ("bytes=0-", Answer::NotSatisfiable),
            ("bytes=0-0", Answer::NotSatisfiable),
        ] {
            let fields = HeaderMap::from_iter([(RANGE, HeaderValue::from_static(range))]);
            assert_eq!(part(&fields, 0), expected, "{range}");
        }
    }

    #[test]
    fn a_range_of_another_state_is_not_sent() {
        let range = ("range", "bytes=0-9");
        assert_eq!(answer(&[range, ("if-range", THEN)]), Answer::Part(0..10));
        assert_eq!(answer(&[range, ("if-range", BEFORE)]), Answer::Whole);
        assert_eq!(answer(&[range, ("if-range", AFTER)]), Answer::Whole);
        assert_eq!(answer(&[range, ("if-range", TAG)]), Answer::Part(0..10));
        assert_eq!(answer(&[range, ("if-range", "\"other\"")]), Answer::Whole);
        assert_eq!(answer(&[range, ("if-range", WEAK)]), Answer::Whole, "weak");
        let young = said(Duration::ZERO);
        assert_eq!(young.answer(&fields(&[range, ("if-range", WEAK)]), 1_000), Answer::Whole, "young");
        assert_eq!(young.answer(&fields(&[range, ("if-range", TAG)]), 1_000), Answer::Whole, "young");
        // As Firefox goes on with a download.
        assert_eq!(answer(&[range, ("if-match", TAG)]), Answer::Part(0..10));
        assert_eq!(answer(&[range, ("if-match", "\"other\"")]), Answer::PreconditionFailed);
        assert_eq!(answer(&[range, ("if-range", "nonsense")]), Answer::Whole);
        assert_eq!(answer(&[("if-none-match", "*"), range]), Answer::NotModified, "conditions come first");
    }
}
