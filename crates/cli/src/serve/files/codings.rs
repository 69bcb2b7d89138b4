//! Which codings of a file a client takes.

use std::cmp::Reverse;

use headers::HeaderMap;
use hyper::header::ACCEPT_ENCODING;

/// What may be sent instead of a file; the better ones first.
const CODINGS: [Coding; 2] = [Coding { ending: ".br", name: "br" }, Coding { ending: ".gz", name: "gzip" }];

/// How a file's name ends that has another's contents in a coding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coding {
    pub(super) ending: &'static str,
    /// As in `Content-Encoding`.
    pub(super) name: &'static str,
}

/// Whether a client rather takes gzip than a file as it is.
pub(in crate::serve) fn takes_gzip(fields: &HeaderMap) -> bool {
    preferred(fields).any(|coding| coding.name == "gzip")
}

/// The codings that a client rather takes than the file as it is, the best first (RFC 9110 section
/// 12.5.3).
pub(super) fn preferred(fields: &HeaderMap) -> impl Iterator<Item = Coding> {
    let plain = weight(fields, "identity").unwrap_or(0);
    let weigh = |coding: Coding| {
        // Its old name (RFC 9110 section 8.4.1.3).
        let old = if coding.name == "gzip" { weight(fields, "x-gzip") } else { None };
        weight(fields, coding.name).or(old).or_else(|| weight(fields, "*")).unwrap_or(0)
    };
    let mut weighed = CODINGS.map(|coding| (weigh(coding), coding));
    // Equal ones stay in order.
    weighed.sort_by_key(|(weight, _)| Reverse(*weight));
    weighed.into_iter().filter(move |(weight, _)| *weight > 0 && *weight >= plain).map(|(_, coding)| coding)
}

/// How much a client wants what it calls by this name, in thousandths; `None` where it does not say.
fn weight(fields: &HeaderMap, name: &str) -> Option<u16> {
    let all = fields.get_all(ACCEPT_ENCODING).into_iter().filter_map(|field| field.to_str().ok());
    all.flat_map(|field| field.split(',')).find_map(|one| {
        let mut parts = one.split(';');
        parts.next()?.trim().eq_ignore_ascii_case(name).then(|| {
            let mut named = parts.filter_map(|part| part.split_once('='));
            let weight = named.find(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
            weight.map_or(1_000, |(_, weight)| {
                let weight: f32 = weight.trim().parse().unwrap_or(0.0);
                (weight.clamp(0.0, 1.0) * 1_000.0) as u16
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn codings_are_taken_as_they_are_weighed() {
        for (field, names) in [
            ("gzip, deflate, br", &["br", "gzip"][..]),
            ("gzip;q=0.5", &["gzip"]),
            ("GZIP", &["gzip"]),
            ("x-gzip", &["gzip"]),
            ("*", &["br", "gzip"]),
            ("gzip;q=0, *", &["br"]),
            ("identity", &[]),
            ("br; q=0.0", &[]),
            ("br;q=0.1, gzip;q=0.9", &["gzip", "br"]),
            ("identity, gzip;q=0.5, br", &["br"]),
            ("br ; q = 0 , gzip ; Q = 0.5", &["gzip"]),
            ("br;q=much", &[]),
        ] {
            let fields = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(field))]);
            let preferred: Vec<_> = preferred(&fields).map(|coding| coding.name).collect();
            assert_eq!(preferred, names, "{field}");
        }
        assert_eq!(preferred(&HeaderMap::new()).count(), 0);
    }
}
