//! Loads of a page in a browser.

use serde::Deserialize;
use units::Duration;

use super::{
    Scale,
    measure::{a_minute, check_count, repetitions},
    text::text,
};

/// Loads of a page in Chromium, each with a connection of its own and nothing cached.
///
/// The contenders take turns, a load each.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// What it is called; made from the rest if empty.
    #[serde(default)]
    pub name: String,
    /// Loads per contender.
    #[serde(default = "hundred")]
    pub count: u32,
    /// Loads per contender at the quick scale; a tenth of `count` unless given, but at least five.
    pub quick: Option<u32>,
    /// When to give up on one, which then counts as having taken this long.
    #[serde(default = "a_minute", deserialize_with = "text")]
    pub limit: Duration,
}

fn hundred() -> u32 {
    100
}

impl Page {
    /// Loads per contender.
    pub fn count(&self, scale: Scale) -> u32 {
        repetitions(scale, self.count, self.quick)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        check_count(self.count.min(self.count(Scale::Quick)), self.limit)
    }
}
