//! Connection matrices of htsim (files `.cm`), as its release of 2023 reads them: `Nodes N`,
//! `Connections N`, then a line for each connection, `SOURCE->DESTINATION id N start T size BYTES`.
//! `id` and `prio` are read over; lines that begin with `#` and empty ones are, too. What a matrix
//! of triggers or failures says is not understood, and an error.
//!
//! `start` is in picoseconds; files of older releases, whose programs write microseconds, say so
//! with [`StartUnit::Micros`].

use std::str::SplitWhitespace;

use thiserror::Error;
use units::Instant;

use super::FlowSpec;
use crate::fabric::HostId;

/// Most connections of a matrix.
pub const MOST_CONNECTIONS: usize = 10_000_000;

/// Latest start of a connection: eleven days, in ns.
const LATEST: f64 = 1e15;

/// What starts are counted in.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum StartUnit {
    /// Picoseconds.
    #[default]
    Picos,
    /// Microseconds.
    Micros,
}

/// Why a text is no matrix.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("line {line}: {what}")]
pub struct MatrixError {
    /// The line, from 1 on.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

/// Reads a matrix for a network of `hosts` hosts: its connections, in the order of the file.
///
/// # Errors
/// The first line that is wrong, or names a host that is not there.
pub fn parse(text: &str, unit: StartUnit, hosts: u32) -> Result<Vec<FlowSpec>, MatrixError> {
    let (mut nodes, mut wanted, mut flows, mut last) = (None, None, Vec::new(), 0);
    for (line, text) in (1..).zip(text.lines()) {
        last = line;
        let error = |what: String| MatrixError { line, what };
        let mut words = text.split_whitespace();
        let Some(first) = words.next().filter(|first| !first.starts_with('#')) else { continue };
        match (first, first.split_once("->")) {
            ("Nodes", _) => {
                let count = whole(words.next(), "Nodes").map_err(error)?;
                if count > u64::from(hosts) {
                    return Err(error(format!("{count} nodes, but the network has {hosts} hosts")));
                }
                nodes = Some(count);
            }
            ("Connections", _) => wanted = Some(whole(words.next(), "Connections").map_err(error)?),
            (_, Some(ends)) => {
                if flows.len() == MOST_CONNECTIONS {
                    return Err(error(format!("more than {MOST_CONNECTIONS} connections")));
                }
                let most = nodes.unwrap_or(u64::from(hosts));
                flows.push(connection(ends, words, unit, most).map_err(error)?);
            }
            _ => {
                let known = "Nodes, Connections and SOURCE->DESTINATION";
                return Err(error(format!("`{}` is not understood: here are {known}", short(first))));
            }
        }
    }
    let found = flows.len() as u64;
    match wanted {
        Some(wanted) if wanted != found => {
            let what = format!("{found} connections, but {wanted} were announced");
            Err(MatrixError { line: last, what })
        }
        _ if flows.is_empty() => Err(MatrixError { line: last.max(1), what: "no connection".into() }),
        _ => Ok(flows),
    }
}

/// The words of a connection.
fn connection(
    (from, to): (&str, &str),
    mut words: SplitWhitespace<'_>,
    unit: StartUnit,
    nodes: u64,
) -> Result<FlowSpec, String> {
    let host = |text: &str| match text.parse::<u32>() {
        Ok(host) if u64::from(host) < nodes => Ok(HostId(host)),
        Ok(host) => Err(format!("node {host}, but they are 0 to {}", nodes.saturating_sub(1))),
        Err(_) => Err(format!("`{}` is no node", short(text))),
    };
    let (from, to) = (host(from)?, host(to)?);
    if from == to {
        return Err(format!("from node {} to itself", from.0));
    }
    let (mut at, mut bytes) = (None, None);
    while let Some(word) = words.next() {
        match word {
            "start" => at = Some(start(words.next(), unit)?),
            "size" => bytes = Some(whole(words.next(), "size")?),
            "id" | "prio" => _ = whole(words.next(), word)?,
            other => {
                return Err(format!(
                    "`{}` is not understood: here are id, start, size and prio",
                    short(other)
                ));
            }
        }
    }
    match (at, bytes) {
        (None, _) => Err("`start` is missing".into()),
        (_, None | Some(0)) => Err("`size` is missing, or 0: flows have an end here".into()),
        (Some(at), Some(bytes)) => Ok(FlowSpec { at, from, to, bytes }),
    }
}

/// A start, which some programs write with a fraction.
fn start(text: Option<&str>, unit: StartUnit) -> Result<Instant, String> {
    let text = text.unwrap_or_default();
    let nanos = match unit {
        StartUnit::Picos => text.parse::<f64>().map(|picos| picos / 1e3),
        StartUnit::Micros => text.parse::<f64>().map(|micros| micros * 1e3),
    };
    match nanos {
        Ok(nanos) if (0.0..=LATEST).contains(&nanos) => Ok(Instant::from_nanos(nanos.round() as u64)),
        _ => Err(format!("`start {}` is no time from 0 to {} s", short(text), LATEST / 1e9)),
    }
}

fn whole(text: Option<&str>, of: &str) -> Result<u64, String> {
    let text = text.unwrap_or_default();
    text.parse().map_err(|_| format!("`{of} {}` is no number", short(text)))
}

/// What a message shows of a hostile line.
fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_read_as_htsim_reads_it() {
        let text = "# three\nNodes 4\nConnections 3\n0->3 id 1 start 0 size 2000000\n\
                    3->1 id 2 start 1500000 size 1 prio 7\n2->0 size 9 start 2e12\n";
        let flows = parse(text, StartUnit::Picos, 4).unwrap();
        let expected = [(0, 3, 0, 2_000_000), (3, 1, 1_500, 1), (2, 0, 2_000_000_000, 9)];
        let expected = expected.map(|(from, to, at, bytes)| FlowSpec {
            at: Instant::from_nanos(at),
            from: HostId(from),
            to: HostId(to),
            bytes,
        });
        assert_eq!(flows, expected);
        let old = parse("0->1 start 12.5 size 3", StartUnit::Micros, 2).unwrap();
        assert_eq!(old[0].at, Instant::from_nanos(12_500));
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        let cases = [
            ("Nodes 9\n", 1, "the network has 4 hosts"),
            ("Nodes 3\n0->3 start 0 size 1", 2, "0 to 2"),
            ("0->4 start 0 size 1", 1, "0 to 3"),
            ("a->1 start 0 size 1", 1, "`a` is no node"),
            ("1->1 start 0 size 1", 1, "itself"),
            ("0->1 size 1", 1, "`start` is missing"),
            ("0->1 start 0", 1, "`size` is missing"),
            ("0->1 start 0 size 0", 1, "have an end"),
            ("0->1 start -1 size 1", 1, "no time"),
            ("0->1 start nan size 1", 1, "no time"),
            ("0->1 start 1e30 size 1", 1, "no time"),
            ("0->1 start 0 size x", 1, "no number"),
            ("0->1 start", 1, "no time"),
            ("\n0->1 trigger 1 size 1", 2, "`trigger` is not understood"),
            ("trigger id 1 oneshot", 1, "`trigger` is not understood"),
            ("Connections 2\n0->1 start 0 size 1\n", 2, "2 were announced"),
            ("", 1, "no connection"),
        ];
        for (text, line, words) in cases {
            let error = parse(text, StartUnit::Picos, 4).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.to_string().contains(words), "{text:?}: {error}");
        }
    }
}
