//! How large flows are: `bytes = N`, `uniform_bytes = [least, most]`, or
//! `sizes = "a table of the folder data"`, with `median_bytes` scaled so that this is its median;
//! cut by `at_most_bytes`.

use netsim::fabric::workload::{SizeTable, sizes::TABLES};

use plans::{Keys, PlanError, names};

/// The table of the folder `data` that a key names.
pub(crate) fn table(keys: &mut Keys<'_>, key: &'static str) -> Result<Option<SizeTable>, PlanError> {
    let Some(name) = keys.text(key)? else { return Ok(None) };
    let found = SizeTable::named(name);
    let known = || format!("one of {}", names(TABLES.iter().map(|(known, _)| *known)));
    found.map_or_else(
        || Err(PlanError::value(keys.path(key), format!("`{name}`"), known())),
        |table| Ok(Some(table)),
    )
}

/// Reads the sizes of a workload.
pub(crate) fn read(keys: &mut Keys<'_>) -> Result<SizeTable, PlanError> {
    keys.one_of("bytes", "uniform_bytes")?;
    let uniform = keys.floats("uniform_bytes")?;
    let wrong = PlanError::value(keys.path("uniform_bytes"), "not two sizes", "[least, most]");
    let sizes = match (keys.float("bytes", 1.0..=1e12)?, uniform.as_deref()) {
        (Some(bytes), _) => SizeTable::constant(bytes),
        (None, Some([least, most])) if least <= most => SizeTable::uniform(*least, *most),
        (None, Some(_)) => return Err(wrong),
        (None, None) => {
            let sizes = table(keys, "sizes")?;
            let sizes =
                keys.need("sizes", sizes, "a table of the folder `data`, `bytes` or `uniform_bytes`")?;
            match keys.float("median_bytes", 1.0..=1e12)? {
                None => sizes,
                Some(median) => {
                    let factor = median / sizes.quantile(0.5);
                    sizes.scaled(factor)
                }
            }
        }
    };
    let Some(limit) = keys.float("at_most_bytes", 1.0..=1e12)? else { return Ok(sizes) };
    let path = keys.path("at_most_bytes");
    sizes.at_most(limit).ok_or_else(|| PlanError::value(path, limit, "above the smallest size"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_said_once() {
        let table = "bytes = 9\nuniform_bytes = [1, 2]".parse().unwrap();
        let error = read(&mut Keys::new(&table, "workload")).unwrap_err().to_string();
        assert!(error.contains("left out where `workload.bytes` is given"), "{error}");
    }

    #[test]
    fn a_table_is_scaled_to_a_median() {
        let read = |text: &str| read(&mut Keys::new(&text.parse().unwrap(), "")).unwrap();
        let whole = read("sizes = \"baidu_mobile_search_SYNTHETIC_mid\"");
        let small = read("sizes = \"baidu_mobile_search_SYNTHETIC_mid\"\nmedian_bytes = 4_000");
        assert!((small.quantile(0.5) - 4_000.0).abs() < 1e-6);
        let factor = whole.quantile(0.5) / 4_000.0;
        assert!((small.quantile(0.9) * factor / whole.quantile(0.9) - 1.0).abs() < 1e-9);
    }
}
