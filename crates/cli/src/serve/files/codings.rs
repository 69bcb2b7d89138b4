//! Which codings of a file a client takes.

use std::cmp::Reverse;

use headers::HeaderMap;
use hyper::header::ACCEPT_ENCODING;

/// How a file's name ends that has another's contents in a coding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coding {
    pub(super) ending: &'static str,
    /// As in `Content-Encoding`.
    pub(super) name: &'static str,
}

const BROTLI: Coding = Coding { ending: ".br", name: "br" };
const GZIP: Coding = Coding { ending: ".gz", name: "gzip" };

/// How much a client wants each coding, in thousandths; `None` where it does not say.
#[derive(Default)]
struct Weights {
    identity: Option<u16>,
    brotli: Option<u16>,
    gzip: Option<u16>,
    /// By its old name (RFC 9110 section 8.4.1.3).
    old_gzip: Option<u16>,
    /// All others.
    any: Option<u16>,
}

/// Whether a client rather takes gzip than a file as it is.
pub(in crate::serve) fn takes_gzip(fields: &HeaderMap) -> bool {
    preferred(fields).any(|coding| coding.name == "gzip")
}

/// The codings that a client rather takes than the file as it is, the best first (RFC 9110 section
/// 12.5.3).
pub(super) fn preferred(fields: &HeaderMap) -> impl Iterator<Item = Coding> {
    let Weights { identity, brotli, gzip, old_gzip, any } = Weights::new(fields);
    let plain = identity.unwrap_or(0);
    // The better ones first: equal ones stay in order.
    let mut weighed = [(brotli, BROTLI), (gzip.or(old_gzip), GZIP)]
        .map(|(weight, coding)| (weight.or(any).unwrap_or(0), coding));
    weighed.sort_by_key(|(weight, _)| Reverse(*weight));
    weighed.into_iter().filter(move |(weight, _)| *weight > 0 && *weight >= plain).map(|(_, coding)| coding)
}

impl Weights {
    /// Of what is said more than once the first counts.
    fn new(fields: &HeaderMap) -> Self {
        let mut weights = Self::default();
        for field in fields.get_all(ACCEPT_ENCODING) {
            for one in field.to_str().into_iter().flat_map(|field| field.split(',')) {
                let (name, parameters) = one.split_once(';').unwrap_or((one, ""));
                if let Some(place) = weights.place(name.trim()) {
                    place.get_or_insert_with(|| weight(parameters));
                }
            }
        }
        weights
    }

    /// Where the weight is of what is called so.
    fn place(&mut self, name: &str) -> Option<&mut Option<u16>> {
        [
            ("gzip", &mut self.gzip),
            ("br", &mut self.brotli),
            ("*", &mut self.any),
            ("identity", &mut self.identity),
            ("x-gzip", &mut self.old_gzip),
        ]
        .into_iter()
        .find_map(|(known, place)| name.eq_ignore_ascii_case(known).then_some(place))
    }
}

/// The weight that the parameters of a coding say, in thousandths (RFC 9110 section 12.4.2).
fn weight(parameters: &str) -> u16 {
    let mut named = parameters.split(';').filter_map(|part| part.split_once('='));
    let weight = named.find(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    weight.map_or(1_000, |(_, weight)| {
        let weight: f32 = weight.trim().parse().unwrap_or(0.0);
        (weight.clamp(0.0, 1.0) * 1_000.0) as u16
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
            ("br;q=0, gzip, br", &["gzip"]),
            ("gzip;q=0, x-gzip", &[]),
        ] {
            let fields = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(field))]);
            let preferred: Vec<_> = preferred(&fields).map(|coding| coding.name).collect();
            assert_eq!(preferred, names, "{field}");
        }
        assert_eq!(preferred(&HeaderMap::new()).count(), 0);
    }
}
