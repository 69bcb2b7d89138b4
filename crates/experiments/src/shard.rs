//! A part of a plan's runs, for one of several machines.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// Most parts.
const MOST: u32 = 100_000;

/// One of `count` parts of about the same size: every `count`-th run, so that expensive points are
/// spread over all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Which, from 0 on.
    index: u32,
    /// How many there are.
    count: u32,
}

impl Shard {
    /// All runs.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Whether the run at this place of the plan is part of it.
    pub fn has(self, place: usize) -> bool {
        place % self.count as usize == self.index as usize
    }

    /// What its file is called after the plan's hash: nothing if it is the whole.
    pub(crate) fn suffix(self) -> String {
        if self == Self::WHOLE { String::new() } else { format!("-{}-of-{}", self.index + 1, self.count) }
    }
}

/// As it is typed: `3/8` is the third of eight.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.count)
    }
}

/// Not a shard.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{text}` is no shard: use I/N, such as 3/8 for the third of eight (1 <= I <= N <= {MOST})")]
pub struct NoShard {
    /// What was asked for.
    pub text: String,
}

impl FromStr for Shard {
    type Err = NoShard;

    fn from_str(text: &str) -> Result<Self, NoShard> {
        let read = || {
            let (number, count) = text.split_once('/')?;
            let (number, count): (u32, u32) = (number.parse().ok()?, count.parse().ok()?);
            ((1..=count).contains(&number) && count <= MOST).then(|| Self { index: number - 1, count })
        };
        read().ok_or_else(|| NoShard { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_in_exactly_one_part() {
        let shards: Vec<Shard> = (1..=7).map(|n| format!("{n}/7").parse().unwrap()).collect();
        for place in 0..100 {
            assert_eq!(shards.iter().filter(|shard| shard.has(place)).count(), 1, "{place}");
        }
        assert!((0..100).all(|place| Shard::WHOLE.has(place)));
        assert_eq!((shards[2].to_string(), shards[2].suffix()), ("3/7".to_owned(), "-3-of-7".to_owned()));
        assert_eq!("1/1".parse(), Ok(Shard::WHOLE));
    }

    #[test]
    fn what_is_no_shard_is_refused() {
        for text in ["", "3", "0/8", "9/8", "1/0", "-1/2", "1/2/3", "a/b", "1/100001"] {
            assert_eq!(text.parse::<Shard>(), Err(NoShard { text: text.to_owned() }));
        }
    }
}
