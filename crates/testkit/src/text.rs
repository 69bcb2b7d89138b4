//! Scenarios as text: what a failure prints, a person edits and a file of `regressions/` keeps.
//!
//! ```text
//! # What broke, in a line or two.
//! seed 42
//! client recovery=cofuso receive_window=1500
//! server max_paths=2
//! pause client 20ms
//! path mtu=1300 link=rate=10mbit,delay=20ms
//! path mtu=8972 local_mtu=8972 link=rate=1gbit,delay=1ms
//! path up=rate=1mbit down=rate=5mbit,loss=0.02
//! at 0s open-path 1
//! at 0s stream client bi 2000 back 30000/reset@100 priority 1
//! at 150ms drop 0 up skip 3 count 2
//! at 1s cut 1 both hold
//! ```
//!
//! One thing per line, in any order but that of the paths and of operations of the same time.
//! Settings are named like the fields of `TransportConfig` and have the default of
//! [`default_transport`](crate::scenario::default_transport) unless given; links are written as
//! everywhere in `netsim`, with `link=` for both ways. Text reads back to the same scenario, and so
//! to the same run.

mod operation;
pub(crate) mod settings;

use std::{fmt, str::FromStr};

use netsim::LinkConfig;
use proto::Side;
use units::Duration;

use crate::scenario::{ETHERNET, PathPlan, Scenario, default_transport};

/// Text that is no scenario.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ParseScenarioError {
    /// Counted from 1; 0 stands for the whole text.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        for (name, transport) in [("client", &self.client), ("server", &self.server)] {
            let settings = settings::changed(transport);
            if !settings.is_empty() {
                writeln!(f, "{name} {settings}")?;
            }
        }
        for (side, pause) in [(Side::Client, self.reader_pause[0]), (Side::Server, self.reader_pause[1])] {
            if !pause.is_zero() {
                writeln!(f, "pause {} {}", operation::side_name(side), exact(pause))?;
            }
        }
        for path in &self.paths {
            write_path(path, f)?;
        }
        for (at, what) in &self.operations {
            writeln!(f, "at {} {}", exact(*at), operation::Text(what))?;
        }
        Ok(())
    }
}

fn write_path(path: &PathPlan, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("path")?;
    if path.mtu != ETHERNET {
        write!(f, " mtu={}", path.mtu)?;
    }
    if path.local_mtu != ETHERNET {
        write!(f, " local_mtu={}", path.local_mtu)?;
    }
    if path.up == path.down {
        writeln!(f, " link={}", path.up)
    } else {
        writeln!(f, " up={} down={}", path.up, path.down)
    }
}

impl FromStr for Scenario {
    type Err = ParseScenarioError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut scenario = Self {
            seed: 0,
            paths: Vec::new(),
            client: default_transport(),
            server: default_transport(),
            operations: Vec::new(),
            reader_pause: [Duration::ZERO; 2],
        };
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                read_line(&mut scenario, line).map_err(|what| ParseScenarioError { line: i + 1, what })?;
            }
        }
        let wrong = |what: &str| Err(ParseScenarioError { line: 0, what: what.to_owned() });
        if scenario.paths.is_empty() {
            return wrong("no `path`: the handshake needs one");
        }
        if scenario.operations.iter().any(|(_, o)| o.path().is_some_and(|p| p >= scenario.paths.len())) {
            return wrong("an operation is about a path that there is not; they are counted from 0");
        }
        scenario.operations.sort_by_key(|(at, _)| *at);
        Ok(scenario)
    }
}

fn read_line(scenario: &mut Scenario, line: &str) -> Result<(), String> {
    let mut words = Words(line.split_whitespace());
    match words.next()? {
        "seed" => scenario.seed = words.value("a number")?,
        "client" => settings::read(&mut scenario.client, &mut words)?,
        "server" => settings::read(&mut scenario.server, &mut words)?,
        "pause" => {
            let side = words.side()?;
            scenario.reader_pause[side as usize] = words.value("a time")?;
        }
        "path" => scenario.paths.push(read_path(&mut words)?),
        "at" => {
            let at = words.value("a time")?;
            scenario.operations.push((at, operation::read(&mut words)?));
        }
        other => return Err(format!("`{other}` is none of seed, client, server, pause, path, at")),
    }
    words.end()
}

fn read_path(words: &mut Words<'_>) -> Result<PathPlan, String> {
    let mut path = PathPlan::symmetric(&LinkConfig::new());
    for word in words.0.by_ref() {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("`{word}` is not key=value"))?;
        let link = || value.parse::<LinkConfig>().map_err(|error| error.to_string());
        let size = || value.parse::<u16>().map_err(|_| format!("`{value}` is not a size in bytes"));
        match key {
            "mtu" => path.mtu = size()?,
            "local_mtu" => path.local_mtu = size()?,
            "link" => (path.up, path.down) = (link()?, link()?),
            "up" => path.up = link()?,
            "down" => path.down = link()?,
            _ => return Err(format!("`{key}` is none of mtu, local_mtu, link, up, down")),
        }
    }
    Ok(path)
}

/// The words of a line, one by one.
struct Words<'a>(std::str::SplitWhitespace<'a>);

impl<'a> Words<'a> {
    fn next(&mut self) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| "something is missing at the end".to_owned())
    }

    fn value<T: FromStr>(&mut self, expected: &str) -> Result<T, String> {
        let word = self.next()?;
        word.parse().map_err(|_| format!("`{word}` is not {expected}"))
    }

    fn keyword(&mut self, word: &str) -> Result<(), String> {
        let next = self.next()?;
        if next == word { Ok(()) } else { Err(format!("`{next}` should be `{word}`")) }
    }

    fn side(&mut self) -> Result<Side, String> {
        let word = self.next()?;
        operation::side(word).ok_or_else(|| format!("`{word}` is not `client` or `server`"))
    }

    fn end(&mut self) -> Result<(), String> {
        self.0.next().map_or(Ok(()), |word| Err(format!("`{word}` is too much")))
    }
}

/// A time in the largest unit that needs no fraction.
fn exact(time: Duration) -> String {
    let nanos = time.as_nanos();
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let unit = units.into_iter().find(|(_, n)| nanos.is_multiple_of(*n));
    unit.map_or_else(|| format!("{nanos}ns"), |(name, n)| format!("{}{name}", nanos / n))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Debug output shows every field of a scenario, settings included.
    fn same(a: &Scenario, b: &Scenario) -> bool {
        format!("{a:?}") == format!("{b:?}")
    }

    #[test]
    fn text_reads_back_to_the_same_scenario() {
        for seed in 0..2_000 {
            let scenario = Scenario::generate(seed);
            let text = scenario.to_string();
            let again: Scenario = text.parse().unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
            assert!(same(&scenario, &again), "seed {seed}:\n{text}\n{again}");
        }
    }

    #[test]
    fn a_person_may_write_less() {
        let text = "# a comment\n\npath link=delay=5ms # the only one\nat 3ms close server\nat 0s stream client uni 5";
        let scenario: Scenario = text.parse().unwrap();
        assert_eq!(scenario.paths[0].down.delay, Duration::from_millis(5));
        assert_eq!(
            scenario.to_string(),
            "seed 0\npath link=delay=5ms\nat 0s stream client uni 5\nat 3ms close server\n"
        );
    }

    #[test]
    fn errors_name_the_line() {
        let cases = [
            ("path link=\nat 0s fly 0", "line 2: `fly` is no operation"),
            ("path link=\nclient speed=3", "line 2: `speed` is no setting"),
            ("path link=\nclient max_paths=x", "line 2: max_paths: `x`"),
            ("path link=\nat 0s open-path 1", "line 0: an operation is about a path that there is not"),
            ("seed 3", "line 0: no `path`"),
            ("path link=\nat 0s drop 0 up skip 0", "line 2: something is missing"),
            ("path link=\nat 0s close server now", "line 2: `now` is too much"),
            ("path link=\nat soon close server", "line 2: `soon` is not a time"),
            ("path hop=3", "line 1: `hop` is none of mtu"),
        ];
        for (text, start) in cases {
            let error = text.parse::<Scenario>().unwrap_err().to_string();
            assert!(error.starts_with(start), "{text}: {error}");
        }
    }
}
