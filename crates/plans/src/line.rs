//! Where a key stands.

use toml::de::{DeTable, DeValue};

/// The line of `key` (as in `scheme[2].tcp.mss`) in the text of a plan, from 1; that of the nearest
/// table around it if the key is not there. `None` if not even the first table is.
pub fn line_of(text: &str, key: &str) -> Option<usize> {
    place_of(text, key).map(|(place, _)| line_at(text, place))
}

/// The line of a key that is there.
pub fn exact_line_of(text: &str, key: &str) -> Option<usize> {
    place_of(text, key).filter(|(_, rest)| rest.is_empty()).map(|(place, _)| line_at(text, place))
}

/// Where the nearest that is known of a key stands, and what of it is not there.
fn place_of<'k>(text: &str, key: &'k str) -> Option<(usize, &'k str)> {
    let plan = DeTable::parse(text).ok()?;
    let (mut table, mut rest, mut place) = (plan.get_ref(), key, None);
    while let Some((start, value, after)) = find(table, rest) {
        place = Some((start, after));
        let (value, after) = match (value, element(after)) {
            (DeValue::Array(list), Some((number, after))) => {
                let Some(one) = list.get(number - 1) else { break };
                place = Some((one.span().start, after));
                (one.get_ref(), after)
            }
            (other, _) => (other, after),
        };
        let (DeValue::Table(below), Some(below_key)) = (value, after.strip_prefix('.')) else { break };
        (table, rest) = (below, below_key);
    }
    place
}

/// The entry of `table` whose name `key` begins with, the longest one, as names may have dots in
/// them: where its name stands, its value, and what of `key` is left.
fn find<'t, 'k>(table: &'t DeTable<'_>, key: &'k str) -> Option<(usize, &'t DeValue<'t>, &'k str)> {
    let fits = |name: &str| {
        let after = key.strip_prefix(name)?;
        (after.is_empty() || after.starts_with(['.', '['])).then_some(after)
    };
    let entries = table
        .iter()
        .filter_map(|(name, value)| Some((name.span().start, value.get_ref(), fits(name.get_ref())?)));
    entries.min_by_key(|(_, _, after)| after.len())
}

/// `[2].rest` as the number and the rest.
fn element(key: &str) -> Option<(usize, &str)> {
    let (number, after) = key.strip_prefix('[')?.split_once(']')?;
    Some((number.parse().ok().filter(|number| *number > 0)?, after))
}

/// The line of a byte, from 1.
pub(crate) fn line_at(text: &str, place: usize) -> usize {
    1 + text.bytes().take(place).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "title = 'x'\n[topology]\nkind = 'wifi'\n\n[[scheme]]\nkind = 'tcp'\n[[scheme]]\nkind = 'slp'\ntcp = { mss = 5 }\n\
                        [cases.loss]\n'0.01' = { rtt = 1 }\n";

    #[test]
    fn keys_are_found_where_they_stand() {
        for (key, line) in [
            ("title", 1),
            ("topology.kind", 3),
            ("scheme[2].kind", 8),
            ("scheme[2].tcp.mss", 9),
            ("cases.loss.0.01", 11),
            ("cases.loss.0.01.rtt", 11),
        ] {
            assert_eq!(line_of(PLAN, key), Some(line), "{key}");
        }
    }

    #[test]
    fn what_is_not_there_is_missing_from_the_table_around_it() {
        assert_eq!(line_of(PLAN, "topology.pairs"), Some(2));
        assert_eq!(line_of(PLAN, "scheme[2].tcp.window"), Some(9));
        assert_eq!(line_of(PLAN, "workload.flows"), None);
        assert_eq!(line_of("not TOML", "title"), None);
        assert_eq!(exact_line_of(PLAN, "topology.pairs"), None);
        assert_eq!(exact_line_of(PLAN, "topology.kind"), Some(3));
    }
}
