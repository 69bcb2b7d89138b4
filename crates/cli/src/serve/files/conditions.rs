//! Conditions and ranges of requests for files (RFC 9110 sections 13 and 14).

use std::{
    fs::Metadata,
    ops::Range,
    os::unix::fs::MetadataExt as _,
    time::{Duration, SystemTime},
};

use headers::{
    ETag, HeaderMap, HeaderMapExt as _, IfMatch, IfModifiedSince, IfNoneMatch, IfUnmodifiedSince,
    LastModified,
};
use http_range::{HttpRange, HttpRangeParseError};
use hyper::header::{IF_RANGE, RANGE};

/// The seconds since 1970 that a date of HTTP can say: up to the year 9999.
const SAYABLE: Range<i64> = 0..253_402_300_800;

/// The largest size of a file, in bytes.
const LARGEST: &[u8] = b"9223372036854775807";

/// What tells a file's states apart.
#[derive(Debug)]
pub(super) struct Validators {
    /// A weak one: files may change twice within what their time can say, and what is compressed on
    /// the way has the same.
    pub(super) tag: Option<ETag>,
    /// When it was changed last, if that is a second ago: within it the file may change once more and
    /// say the same (RFC 9110 section 8.8.2.2).
    pub(super) modified: Option<LastModified>,
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
    pub(super) fn new(file: &Metadata, now: SystemTime) -> Self {
        let (seconds, nanoseconds) = (file.mtime(), file.mtime_nsec());
        let tag = format!("W/\"{:x}-{seconds:x}.{nanoseconds:x}\"", file.len());
        let modified = if SAYABLE.contains(&seconds) { file.modified().ok() } else { None };
        let modified = modified.filter(|modified| *modified + Duration::from_secs(1) <= now);
        Self { tag: tag.parse().ok(), modified: modified.map(LastModified::from) }
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
        since.is_none_or(|since| self.modified.is_none_or(|time| since.precondition_passes(time.into())))
    }

    fn is_known(&self, fields: &HeaderMap) -> bool {
        if let Some(tags) = fields.typed_get::<IfNoneMatch>() {
            return self.tag.as_ref().is_some_and(|tag| !tags.precondition_passes(tag));
        }
        let since = fields.typed_get::<IfModifiedSince>();
        since.is_some_and(|since| self.modified.is_some_and(|time| !since.is_modified(time.into())))
    }

    /// Whether parts of it fit the parts that the client has (RFC 9110 section 13.1.5). Our tags are
    /// weak, and do not say so; a time does, if it is the same.
    fn is_range_of_this(&self, fields: &HeaderMap) -> bool {
        let Some(state) = fields.get(IF_RANGE) else { return true };
        let time = state.to_str().ok().and_then(|state| httpdate::parse_http_date(state).ok());
        time.is_some_and(|time| self.modified.is_some_and(|modified| modified == LastModified::from(time)))
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
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;
    use crate::accounts::now;

    const THEN: &str = "Tue, 14 Nov 2023 22:13:20 GMT";
    const AFTER: &str = "Tue, 14 Nov 2023 22:13:21 GMT";
    const BEFORE: &str = "Tue, 14 Nov 2023 22:13:19 GMT";

    fn answer(fields: &[(&'static str, &'static str)]) -> Answer {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1_000).unwrap();
        file.set_modified(httpdate::parse_http_date(THEN).unwrap() + Duration::from_millis(500)).unwrap();
        let named = |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        Validators::new(&file.metadata().unwrap(), now()).answer(&fields.iter().map(named).collect(), 1_000)
    }

    #[test]
    fn who_has_it_is_told_so() {
        const TAG: &str = "W/\"3e8-6553f100.1dcd6500\"";
        assert_eq!(answer(&[]), Answer::Whole);
        assert_eq!(answer(&[("if-none-match", TAG)]), Answer::NotModified);
        assert_eq!(answer(&[("if-none-match", "\"3e8-6553f100.1dcd6500\"")]), Answer::NotModified);
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
        let said = Validators::new(&file.metadata().unwrap(), now());
        assert!(said.tag.is_some() && said.modified.is_none());
    }

    #[test]
    fn a_time_is_said_once_it_tells_states_apart() {
        let file = tempfile::tempfile().unwrap();
        let then = httpdate::parse_http_date(THEN).unwrap();
        file.set_modified(then + Duration::from_millis(900)).unwrap();
        let said = |after| {
            let now = then + Duration::from_millis(after);
            Validators::new(&file.metadata().unwrap(), now).modified.is_some()
        };
        assert!(!said(0) && !said(1_000) && !said(1_899) && said(1_900));
    }

    #[test]
    fn who_expects_another_state_is_told_so() {
        assert_eq!(answer(&[("if-match", "*")]), Answer::Whole);
        assert_eq!(answer(&[("if-match", "\"other\"")]), Answer::PreconditionFailed);
        assert_eq!(answer(&[("if-unmodified-since", BEFORE)]), Answer::PreconditionFailed);
        assert_eq!(answer(&[("if-unmodified-since", THEN)]), Answer::Whole);
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
        assert_eq!(answer(&[range, ("if-range", "W/\"3e8-6553f100.1dcd6500\"")]), Answer::Whole, "weak");
        assert_eq!(answer(&[range, ("if-range", "nonsense")]), Answer::Whole);
        assert_eq!(answer(&[("if-none-match", "*"), range]), Answer::NotModified, "conditions come first");
    }
}
