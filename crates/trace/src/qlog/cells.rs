//! The numbers behind a chart, for a table: a row for each interval of time.

/// Rows of a table.
pub(super) const ROWS: usize = 20;

/// What becomes of the points in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Summary {
    /// The least and the greatest; the value before, where there are none.
    Range,
    /// The mean.
    Mean,
    /// The last value up to its end.
    Last,
}

/// The end of each interval, of a trace that is `end` long.
pub(super) fn ends(end: f64) -> impl Iterator<Item = f64> {
    (1..=ROWS).map(move |row| end * row as f64 / ROWS as f64)
}

/// A cell for each of the [`ROWS`] intervals up to `end`, from points in the order of time.
pub(super) fn cells(points: &[(f64, f64)], summary: Summary, end: f64) -> Vec<String> {
    let mut rest = points;
    let mut before: Option<f64> = None;
    ends(end)
        .map(|until| {
            let count = rest.partition_point(|(at, _)| *at <= until);
            let (inside, after) = rest.split_at(count);
            rest = after;
            let cell = cell(inside, before, summary);
            before = inside.last().map(|(_, value)| *value).or(before);
            cell
        })
        .collect()
}

fn cell(inside: &[(f64, f64)], before: Option<f64>, summary: Summary) -> String {
    let values = || inside.iter().map(|(_, value)| *value);
    let Some(last) = values().next_back().or(before) else { return String::new() };
    match summary {
        Summary::Last => number(last),
        Summary::Mean if inside.is_empty() => number(0.0),
        Summary::Mean => number(values().sum::<f64>() / inside.len() as f64),
        Summary::Range => {
            let least = values().fold(f64::INFINITY, f64::min).min(last);
            let greatest = values().fold(f64::NEG_INFINITY, f64::max).max(last);
            let (least, greatest) = (number(least), number(greatest));
            if least == greatest { least } else { format!("{least} to {greatest}") }
        }
    }
}

fn number(value: f64) -> String {
    let text = if value.abs() < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") };
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_in_one_row() {
        let points = [(0.0, 3.0), (0.5, 7.25), (1.0, 5.0), (10.0, 100.5), (19.5, 2.0)];
        let rows = cells(&points, Summary::Range, 20.0);
        assert_eq!(rows.len(), ROWS);
        assert_eq!((rows[0].as_str(), rows[1].as_str(), rows[9].as_str()), ("3 to 7.2", "5", "100"));
        assert_eq!((rows[15].as_str(), rows[19].as_str()), ("100", "2"), "a value holds");
        let rows = cells(&points, Summary::Mean, 20.0);
        assert_eq!((rows[0].as_str(), rows[1].as_str()), ("5.1", "0"));
        let rows = cells(&points[3..], Summary::Last, 20.0);
        assert_eq!(
            (rows[0].as_str(), rows[9].as_str(), rows[18].as_str(), rows[19].as_str()),
            ("", "100", "100", "2")
        );
    }
}
