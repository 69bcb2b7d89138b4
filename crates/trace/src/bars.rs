//! Bars of equal width on a logarithmic axis, by number.

/// Bars per factor of ten.
const BARS_PER_DECADE: f64 = 10.0;

/// Which bar a value belongs to.
pub(crate) fn bar(value: f64) -> i32 {
    (value.max(1e-3).log10() * BARS_PER_DECADE).floor() as i32
}

/// A bar's left edge.
pub(crate) fn edge(bar: i32) -> f64 {
    (10f64.powf(f64::from(bar) / BARS_PER_DECADE) * 1e4).round() / 1e4
}
