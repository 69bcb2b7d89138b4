//! How numbers are written beside an axis.

/// A share as percent without its sign.
pub fn percent(share: f64) -> String {
    trimmed(share * 100.0)
}

/// A number without decimals.
pub fn whole(value: f64) -> String {
    format!("{value:.0}")
}

/// A number of an axis that spans decades.
pub fn short(value: f64) -> String {
    if value >= 10.0 {
        format!("{value:.0}")
    } else if value >= 1.0 {
        format!("{value:.1}").trim_end_matches(".0").to_owned()
    } else if value >= 0.0009 || value == 0.0 {
        format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        format!("{value:e}").replace("e-", "e\u{2212}")
    }
}

/// Six decimals at most, and no more than are needed.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_digits_than_needed() {
        assert_eq!([0.0, 0.2, 1.0, 0.00125].map(percent), ["0", "20", "100", "0.125"]);
        assert_eq!([0.0, 0.005, 0.5, 2.0, 2.5, 40.0].map(short), ["0", "0.005", "0.5", "2", "2.5", "40"]);
        assert_eq!(short(1e-5), "1e\u{2212}5");
        assert_eq!(whole(3.4), "3");
    }
}
