//! Reading a plan's tables: every key is asked for by name, and what nobody asked for is an error
//! that says what there is.

use std::{ops::RangeInclusive, sync::LazyLock};

use serde::de::DeserializeOwned;
use toml::{Table, Value};
use units::Duration;

use crate::{PlanError, value};

/// Reads one table.
#[derive(Debug)]
pub struct Keys<'a> {
    table: &'a Table,
    at: String,
    known: Vec<&'static str>,
}

static EMPTY: LazyLock<Table> = LazyLock::new(Table::new);

impl<'a> Keys<'a> {
    /// Reads `table`, which stands at `at` in the plan (empty for the plan itself).
    pub fn new(table: &'a Table, at: impl Into<String>) -> Self {
        Self { table, at: at.into(), known: Vec::new() }
    }

    /// The key with the tables it stands in.
    pub fn path(&self, key: &str) -> String {
        if self.at.is_empty() { key.to_owned() } else { format!("{}.{key}", self.at) }
    }

    fn look(&mut self, key: &'static str) -> Option<&'a Value> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.table.get(key)
    }

    fn wrong<T>(&self, key: &str, found: &Value, allowed: impl std::fmt::Display) -> Result<T, PlanError> {
        Err(PlanError::value(self.path(key), found, allowed))
    }

    /// A value that serde reads, or an error that says what is allowed.
    fn read<T: DeserializeOwned>(
        &mut self,
        key: &'static str,
        fits: impl FnOnce(&T) -> bool,
        allowed: impl std::fmt::Display,
    ) -> Result<Option<T>, PlanError> {
        let Some(found) = self.look(key) else { return Ok(None) };
        value(found).filter(fits).map_or_else(|| self.wrong(key, found, allowed), |value| Ok(Some(value)))
    }

    /// Any value.
    pub fn value(&mut self, key: &'static str) -> Option<&'a Value> {
        self.look(key)
    }

    /// A number within a range.
    ///
    /// # Errors
    /// If it is none, or outside.
    pub fn float(&mut self, key: &'static str, range: RangeInclusive<f64>) -> Result<Option<f64>, PlanError> {
        let allowed = format!("a number from {} to {}", range.start(), range.end());
        self.read(key, |value| range.contains(value), allowed)
    }

    /// A whole number within a range.
    ///
    /// # Errors
    /// If it is none, or outside.
    pub fn int(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Result<Option<u64>, PlanError> {
        let allowed = format!("a whole number from {} to {}", range.start(), range.end());
        self.read(key, |value| range.contains(value), allowed)
    }

    /// A whole number that fits 32 bits.
    ///
    /// # Errors
    /// If it is none, or outside.
    pub fn count(&mut self, key: &'static str, range: RangeInclusive<u32>) -> Result<Option<u32>, PlanError> {
        let wide = u64::from(*range.start())..=u64::from(*range.end());
        Ok(self.int(key, wide)?.map(|value| value as u32))
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// If it is neither.
    pub fn flag(&mut self, key: &'static str) -> Result<Option<bool>, PlanError> {
        self.read(key, |_| true, "true or false")
    }

    /// A text.
    ///
    /// # Errors
    /// If it is none.
    pub fn text(&mut self, key: &'static str) -> Result<Option<&'a str>, PlanError> {
        let Some(found) = self.look(key) else { return Ok(None) };
        found.as_str().map_or_else(|| self.wrong(key, found, "a text"), |value| Ok(Some(value)))
    }

    /// A text that must be there.
    ///
    /// # Errors
    /// If it is not, or is no text.
    pub fn need_text(&mut self, key: &'static str, wanted: &str) -> Result<&'a str, PlanError> {
        let found = self.text(key)?;
        self.need(key, found, wanted)
    }

    /// What a key names in a list of names and meanings.
    ///
    /// # Errors
    /// If it names nothing there.
    pub fn named<T: Copy>(
        &mut self,
        key: &'static str,
        all: &[(&'static str, T)],
    ) -> Result<Option<T>, PlanError> {
        let Some(name) = self.text(key)? else { return Ok(None) };
        let found = all.iter().find(|(known, _)| *known == name);
        let names = || format!("one of {}", names(all.iter().map(|(known, _)| *known)));
        found.map_or_else(
            || Err(PlanError::value(self.path(key), format!("`{name}`"), names())),
            |(_, value)| Ok(Some(*value)),
        )
    }

    /// What a key that must be there names.
    ///
    /// # Errors
    /// If it is not there, or names nothing.
    pub fn need_named<T: Copy>(
        &mut self,
        key: &'static str,
        all: &[(&'static str, T)],
    ) -> Result<T, PlanError> {
        let found = self.named(key, all)?;
        self.need(key, found, &format!("one of {}", names(all.iter().map(|(known, _)| *known))))
    }

    /// A time in milliseconds, from 0 to a million seconds.
    ///
    /// # Errors
    /// If it is none.
    pub fn millis(&mut self, key: &'static str) -> Result<Option<Duration>, PlanError> {
        Ok(self.float(key, 0.0..=1e9)?.map(|ms| Duration::from_secs_f64(ms / 1e3)))
    }

    /// A list of numbers.
    ///
    /// # Errors
    /// If it is none.
    pub fn floats(&mut self, key: &'static str) -> Result<Option<Vec<f64>>, PlanError> {
        self.read(key, |list: &Vec<f64>| list.iter().all(|number| number.is_finite()), "a list of numbers")
    }

    /// A list of texts.
    ///
    /// # Errors
    /// If it is none.
    pub fn texts(&mut self, key: &'static str) -> Result<Vec<String>, PlanError> {
        Ok(self.read(key, |_| true, "a list of texts")?.unwrap_or_default())
    }

    /// Refuses two keys that both say the same thing.
    ///
    /// # Errors
    /// If both are there.
    pub fn one_of(&mut self, one: &'static str, other: &'static str) -> Result<(), PlanError> {
        match (self.look(one), self.look(other)) {
            (Some(_), Some(found)) => {
                let allowed = format!("left out where `{}` is given", self.path(one));
                self.wrong(other, found, allowed)
            }
            _ => Ok(()),
        }
    }

    /// Refuses keys that say nothing without another one.
    ///
    /// # Errors
    /// If one of them is there and the other one is not.
    pub fn only_with(&mut self, keys: &[&'static str], other: &'static str) -> Result<(), PlanError> {
        if self.look(other).is_some() {
            return Ok(());
        }
        let there = keys.iter().find_map(|&key| Some((key, self.look(key)?)));
        there.map_or(Ok(()), |(key, found)| {
            self.wrong(key, found, format!("left out where `{}` is not given", self.path(other)))
        })
    }

    /// A table below, empty if it is not there.
    ///
    /// # Errors
    /// If it is no table.
    pub fn table(&mut self, key: &'static str) -> Result<Keys<'a>, PlanError> {
        let at = self.path(key);
        match self.look(key) {
            None => Ok(Keys::new(&EMPTY, at)),
            Some(Value::Table(table)) => Ok(Keys::new(table, at)),
            Some(found) => self.wrong(key, found, "a table"),
        }
    }

    /// The tables of a list, which may be empty.
    ///
    /// # Errors
    /// If it is no list of tables.
    pub fn tables(&mut self, key: &'static str) -> Result<Vec<Keys<'a>>, PlanError> {
        let Some(found) = self.look(key) else { return Ok(Vec::new()) };
        let tables: Option<Vec<&Table>> =
            found.as_array().and_then(|list| list.iter().map(Value::as_table).collect());
        let Some(tables) = tables else { return self.wrong(key, found, "a list of tables") };
        let at = self.path(key);
        Ok((1..).zip(tables).map(|(n, table)| Keys::new(table, format!("{at}[{n}]"))).collect())
    }

    /// The whole table, whatever is in it.
    pub fn everything(&self) -> &'a Table {
        self.table
    }

    /// `found`, or an error that says what is wanted.
    ///
    /// # Errors
    /// If there is nothing.
    pub fn need<T>(&self, key: &str, found: Option<T>, wanted: &str) -> Result<T, PlanError> {
        found.ok_or_else(|| PlanError::Missing { key: self.path(key), wanted: wanted.to_owned() })
    }

    /// Refuses keys that nobody asked for.
    ///
    /// # Errors
    /// With the first of them.
    pub fn finish(self) -> Result<(), PlanError> {
        let unknown = self.table.keys().find(|key| !self.known.iter().any(|known| known == key));
        unknown.map_or(Ok(()), |key| {
            let known = names(self.known.iter().copied());
            Err(PlanError::UnknownKey { key: self.path(key), known })
        })
    }
}

/// Names as a list for people.
pub fn names<'n>(all: impl Iterator<Item = &'n str>) -> String {
    let all: Vec<&str> = all.collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn errors_say_where_what_and_what_is_allowed() {
        let table = table("n = 20\nname = 'tpc'\nodd = 1\nflag = 'yes'\n[below]\nx = -1");
        let mut keys = Keys::new(&table, "scheme[2]");
        let text = |error: PlanError| error.to_string();
        assert_eq!(
            text(keys.count("n", 1..=14).unwrap_err()),
            "`scheme[2].n` is 20: it must be a whole number from 1 to 14"
        );
        assert_eq!(
            text(keys.named("name", &[("tcp", 1), ("fuso", 2)]).unwrap_err()),
            "`scheme[2].name` is `tpc`: it must be one of tcp, fuso"
        );
        assert_eq!(
            text(keys.flag("flag").unwrap_err()),
            "`scheme[2].flag` is \"yes\": it must be true or false"
        );
        let mut below = keys.table("below").unwrap();
        assert_eq!(
            text(below.millis("x").unwrap_err()),
            "`scheme[2].below.x` is -1: it must be a number from 0 to 1000000000"
        );
        assert_eq!(
            text(keys.need_text("title", "what it shows").unwrap_err()),
            "`scheme[2].title` is missing: what it shows"
        );
        assert_eq!(
            text(keys.finish().unwrap_err()),
            "there is no key `scheme[2].odd`: here are n, name, flag, below, title"
        );
    }

    #[test]
    fn one_thing_is_said_once() {
        let table = table("packets = 20\nbytes = 30_000");
        let mut keys = Keys::new(&table, "line");
        assert_eq!(keys.one_of("packets", "times"), Ok(()));
        assert_eq!(
            keys.one_of("packets", "bytes").unwrap_err().to_string(),
            "`line.bytes` is 30000: it must be left out where `line.packets` is given"
        );
        assert_eq!(keys.finish(), Ok(()), "they are known");
    }

    #[test]
    fn whole_numbers_are_numbers() {
        let table = table("a = 2\nb = [1, 0.5]\nc = 1.5");
        let mut keys = Keys::new(&table, "");
        assert_eq!(keys.float("a", 0.0..=5.0), Ok(Some(2.0)));
        assert_eq!(keys.floats("b"), Ok(Some(vec![1.0, 0.5])));
        assert!(keys.int("c", 0..=5).is_err());
        assert_eq!(keys.int("absent", 0..=5), Ok(None));
    }
}
