//! Counts in words.

/// A number and what it counts.
pub(crate) fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", thousands(number), if number == 1 { "" } else { "s" })
}

/// With a comma after every three digits.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|g| str::from_utf8(g).ok()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!([0, 1, 2_000].map(|n| counted(n, "packet")), ["0 packets", "1 packet", "2,000 packets"]);
    }

    #[test]
    fn digits_in_threes() {
        let numbers = [0, 999, 1_000, 12_345_678];
        assert_eq!(numbers.map(thousands), ["0", "999", "1,000", "12,345,678"]);
    }
}
