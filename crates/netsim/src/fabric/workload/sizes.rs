//! Distributions given as tables: flow sizes, and loss rates of lossy links.

use thiserror::Error;

use crate::Rng;

/// Why a table was refused. Lines count from 1.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum TableError {
    /// A line is not two numbers.
    #[error("line {line}: `{text}` is not `value,cdf`")]
    NotNumbers {
        /// Where.
        line: usize,
        /// What is there.
        text: String,
    },
    /// Values or shares decrease, or a share is no probability.
    #[error("line {line}: values and shares must not decrease, and shares lie between 0 and 1")]
    Decreasing {
        /// Where.
        line: usize,
    },
    /// The last share is not 1.
    #[error("the last share is {share}, not 1")]
    Incomplete {
        /// What it is.
        share: f64,
    },
}

/// A distribution: values with their shares P(x <= value), linear in between. Two rows with the
/// same value are an atom, and so is a first row whose share is above 0.
#[derive(Clone, PartialEq, Debug)]
pub struct SizeTable {
    rows: Vec<(f64, f64)>,
}

/// The tables of the folder `data`, by the name of their file without its ending. Sources and
/// grades: `data/README.md`.
pub const TABLES: &[(&str, &str)] = &[
    ("websearch_dctcp", include_str!("../../../data/websearch_dctcp.csv")),
    ("websearch_pfabric_pkts", include_str!("../../../data/websearch_pfabric_pkts.csv")),
    ("websearch_opera", include_str!("../../../data/websearch_opera.csv")),
    ("datamining_vl2", include_str!("../../../data/datamining_vl2.csv")),
    ("datamining_pfabric_pkts", include_str!("../../../data/datamining_pfabric_pkts.csv")),
    ("datamining_opera", include_str!("../../../data/datamining_opera.csv")),
    ("baidu_mobile_search_SYNTHETIC_lo", include_str!("../../../data/baidu_mobile_search_SYNTHETIC_lo.csv")),
    (
        "baidu_mobile_search_SYNTHETIC_mid",
        include_str!("../../../data/baidu_mobile_search_SYNTHETIC_mid.csv"),
    ),
    ("baidu_mobile_search_SYNTHETIC_hi", include_str!("../../../data/baidu_mobile_search_SYNTHETIC_hi.csv")),
    ("htpc_table2_web_search_SYNTHETIC", include_str!("../../../data/htpc_table2_web_search_SYNTHETIC.csv")),
    (
        "htpc_table2_data_mining_SYNTHETIC",
        include_str!("../../../data/htpc_table2_data_mining_SYNTHETIC.csv"),
    ),
    ("slp_web_object_SYNTHETIC", include_str!("../../../data/slp_web_object_SYNTHETIC.csv")),
    ("fuso_lossy_link_rate_textfit", include_str!("../../../data/fuso_lossy_link_rate_textfit.csv")),
    ("fuso_lossy_link_rate_loguniform", include_str!("../../../data/fuso_lossy_link_rate_loguniform.csv")),
];

impl SizeTable {
    /// The same with every size times `factor`.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        self.rows.iter_mut().for_each(|row| row.0 *= factor);
        self
    }

    /// The table of the folder `data` with this name ([`TABLES`]).
    pub fn named(name: &str) -> Option<Self> {
        let (_, text) = TABLES.iter().find(|(known, _)| *known == name)?;
        Self::parse(text).ok()
    }

    /// Always the same value.
    pub fn constant(value: f64) -> Self {
        Self { rows: vec![(value, 1.0)] }
    }

    /// Uniform between two values.
    pub fn uniform(low: f64, high: f64) -> Self {
        Self { rows: vec![(low, 0.0), (high.max(low), 1.0)] }
    }

    /// Reads lines of `value,cdf` below one header line.
    ///
    /// # Errors
    /// With the line that is wrong.
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let mut rows: Vec<(f64, f64)> = Vec::new();
        for (line, text) in (1..).zip(text.lines()).skip(1).filter(|(_, text)| !text.trim().is_empty()) {
            let (value, share) = text
                .split_once(',')
                .and_then(|(value, share)| Some((value.trim().parse().ok()?, share.trim().parse().ok()?)))
                .ok_or_else(|| TableError::NotNumbers { line, text: text.to_owned() })?;
            let (low, below) = rows.last().copied().unwrap_or((0.0, 0.0));
            if !(value >= low && share >= below && share <= 1.0 && f64::is_finite(value)) {
                return Err(TableError::Decreasing { line });
            }
            rows.push((value, share));
        }
        let share = rows.last().map_or(0.0, |row| row.1);
        if share == 1.0 { Ok(Self { rows }) } else { Err(TableError::Incomplete { share }) }
    }

    /// The value that a share `u` of all lies at or below; `u` between 0 and 1.
    pub fn quantile(&self, u: f64) -> f64 {
        let next = self.rows.partition_point(|row| row.1 < u);
        let (value, share) = self.rows[next.min(self.rows.len() - 1)];
        let Some(&(low, below)) = next.checked_sub(1).and_then(|before| self.rows.get(before)) else {
            return value;
        };
        if share > below { low + (value - low) * (u - below) / (share - below) } else { value }
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        let first = self.rows[0].0 * self.rows[0].1;
        let segment = |pair: &[(f64, f64)]| (pair[1].1 - pair[0].1) * (pair[0].0 + pair[1].0) / 2.0;
        first + self.rows.windows(2).map(segment).sum::<f64>()
    }

    /// A size in whole bytes, at least 1.
    pub fn sample(&self, rng: &mut Rng) -> u64 {
        (self.quantile(rng.next_f64()).round() as u64).max(1)
    }

    /// The part of the distribution at or below `limit`: what remains if larger values are not
    /// taken. `None` if nothing remains.
    pub fn at_most(&self, limit: f64) -> Option<Self> {
        let mut rows: Vec<(f64, f64)> = self.rows.iter().copied().take_while(|row| row.0 <= limit).collect();
        let last = *rows.last()?;
        if let Some(&(value, share)) = self.rows.get(rows.len())
            && last.0 < limit
        {
            rows.push((limit, last.1 + (share - last.1) * (limit - last.0) / (value - last.0)));
        }
        let whole = rows.last()?.1;
        if whole <= 0.0 {
            return None;
        }
        rows.iter_mut().for_each(|row| row.1 /= whole);
        Some(Self { rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    #[test]
    fn the_tables_have_their_known_means() {
        for (name, mean) in [
            ("websearch_dctcp", 1_711_250.0),
            ("websearch_pfabric_pkts", 1_665_831.0),
            ("websearch_opera", 1_490_033.0),
            ("datamining_vl2", 12_658_199.0),
            ("datamining_pfabric_pkts", 7_470_236.0),
            ("datamining_opera", 5_036_535.0),
            ("htpc_table2_web_search_SYNTHETIC", 1_711_250.0),
            ("htpc_table2_data_mining_SYNTHETIC", 7_470_236.0),
            ("fuso_lossy_link_rate_textfit", 0.0404),
            ("fuso_lossy_link_rate_loguniform", 0.086),
        ] {
            let found = SizeTable::named(name).unwrap().mean();
            assert!((found / mean - 1.0).abs() < 0.003, "{name}: {found}");
        }
        assert!(TABLES.iter().all(|(name, _)| SizeTable::named(name).is_some()));
    }

    #[test]
    fn samples_follow_the_table() {
        let table = SizeTable::named("websearch_dctcp").unwrap();
        let mut rng = Rng::new(Seed(1));
        let sizes: Vec<u64> = (0..100_000).map(|_| table.sample(&mut rng)).collect();
        let small = sizes.iter().filter(|size| **size <= 100_000).count();
        assert!((53_500..=54_900).contains(&small), "{small}"); // 54.2 %, one standard deviation is 158
        let mean = sizes.iter().sum::<u64>() as f64 / 100_000.0;
        assert!((mean / table.mean() - 1.0).abs() < 0.04, "{mean}");
    }

    #[test]
    fn a_cut_table_keeps_its_shape() {
        let small = SizeTable::named("websearch_dctcp").unwrap().at_most(100_000.0).unwrap();
        assert!((small.mean() - 32_308.0).abs() < 50.0, "{}", small.mean());
        assert_eq!(small.quantile(1.0), 100_000.0);
        assert_eq!(SizeTable::uniform(10.0, 20.0).at_most(5.0), None);
    }

    #[test]
    fn wrong_tables_are_refused() {
        let line = |text: &str| SizeTable::parse(&format!("bytes,cdf\n{text}"));
        assert!(matches!(line("1,0\nx,1"), Err(TableError::NotNumbers { line: 3, .. })));
        assert!(matches!(line("5,0\n1,1"), Err(TableError::Decreasing { line: 3 })));
        assert!(matches!(line("5,0\n6,2"), Err(TableError::Decreasing { line: 3 })));
        assert!(matches!(line("nan,1"), Err(TableError::Decreasing { line: 2 })));
        assert!(matches!(line("5,0.5"), Err(TableError::Incomplete { .. })));
        assert!(matches!(line(""), Err(TableError::Incomplete { .. })));
    }
}
