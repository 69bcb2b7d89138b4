//! Who takes part, as users write it: `tcp:cubic@1`, `mptcp:bbr`, `mendpath:auto`, `kcptun@0`.

use std::{fmt, str::FromStr};

/// The names of contenders that need no adapter.
pub(crate) const BUILT_IN: [&str; 14] = [
    "tcp",
    "mptcp",
    "mendpath",
    "mendpath-new",
    "mendpath-socks",
    "mendpath-tunnel",
    "mendpath-tunnel-raw",
    "mendpath-tunnel-raw-none",
    "mendpath-tunnel-raw-slp",
    "mendpath-tunnel-raw-htpc",
    "mendpath-copies",
    "mendpath-fec",
    "mendpath-serve",
    "mendpath-serve-tcp",
];

/// A contender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Contender {
    /// `tcp[:CONGESTION][@PATH|@random]`: the kernel's TCP over one path; without a name,
    /// cubic, which Linux comes with.
    Tcp {
        /// The kernel's name of a congestion controller.
        congestion: Option<String>,
        /// The path.
        path: PathChoice,
    },
    /// `mptcp[:CONGESTION][@FIRST]`: the kernel's Multipath TCP over all paths; the connection
    /// begins on path FIRST.
    Mptcp {
        /// The kernel's name of a congestion controller.
        congestion: Option<String>,
        /// The path of the first sub-flow.
        first: usize,
    },
    /// `mendpath[:RECOVERY[=SYMBOLS][:CONGESTION[:SCHEDULER]]][@0+1]`: a `mendpath server` and a `mendpath client`
    /// that forwards a port, over all paths or those named. `mendpath-socks` connects through its SOCKS5
    /// proxy instead, `mendpath-tunnel` by `mendpath tunnel` and the kernel's own TCP,
    /// `mendpath-tunnel-raw` the same with `--tcp raw` (and `-none`, `-slp`, `-htpc` with that
    /// `--coding`), and `mendpath-new` makes a new QUIC
    /// connection for every fetch. In calls `mendpath-copies` and `mendpath-fec` are applications that
    /// protect their datagrams themselves. `mendpath-serve` is a web server, asked by HTTP/3, and
    /// `mendpath-serve-tcp[:CONGESTION]` the same by HTTP/2 over the kernel's TCP.
    Mendpath {
        /// The recovery scheme of both ends, with the most repair symbols of a block if they are told (`cofuso=1`);
        /// the program's default if there is none.
        recovery: Option<String>,
        /// The congestion controller of both ends; the program's default if there is none.
        congestion: Option<String>,
        /// The scheduler of both ends; the program's default if there is none.
        scheduler: Option<String>,
        /// Which paths, in this order; empty for all.
        paths: Vec<usize>,
        /// How a fetch gets in.
        entry: Entry,
    },
    /// `NAME[@PATH]`: another program, through its [`Adapter`](crate::Adapter).
    Peer {
        /// The adapter's name.
        name: String,
        /// The path that the program's packets take.
        path: usize,
    },
}

/// How a fetch gets into mendpath.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// By a port that is forwarded over one connection.
    Forward,
    /// By the SOCKS5 proxy of one connection.
    Socks,
    /// By `mendpath tunnel`, which the fetch knows nothing of.
    Tunnel,
    /// The same with packets as they are, so that TCP is from end to end.
    RawTunnel {
        /// What is sent beside them; the program's default if there is none.
        coding: Option<&'static str>,
    },
    /// By a connection of its own.
    New,
    /// Not at all: a call's application sends every datagram twice.
    Copies,
    /// Not at all: a call's application sends a parity for five datagrams.
    Fec,
    /// Not at all: a web server, by HTTP/3.
    Serve,
    /// Not at all: a web server, by HTTP/2 over the kernel's TCP.
    ServeTcp,
}

/// What a contender can be measured in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// Fetches and transfers.
    Carry,
    /// Calls.
    Call,
    /// Loads of a page.
    Page,
}

impl Entry {
    const ALL: [(Self, &str); 12] = [
        (Self::Forward, "mendpath"),
        (Self::Socks, "mendpath-socks"),
        (Self::Tunnel, "mendpath-tunnel"),
        (Self::RawTunnel { coding: None }, "mendpath-tunnel-raw"),
        (Self::RawTunnel { coding: Some("none") }, "mendpath-tunnel-raw-none"),
        (Self::RawTunnel { coding: Some("slp") }, "mendpath-tunnel-raw-slp"),
        (Self::RawTunnel { coding: Some("htpc") }, "mendpath-tunnel-raw-htpc"),
        (Self::New, "mendpath-new"),
        (Self::Copies, "mendpath-copies"),
        (Self::Fec, "mendpath-fec"),
        (Self::Serve, "mendpath-serve"),
        (Self::ServeTcp, "mendpath-serve-tcp"),
    ];

    fn can(self, task: Task) -> bool {
        match self {
            Self::Copies | Self::Fec => task == Task::Call,
            Self::Serve | Self::ServeTcp => task == Task::Page,
            Self::Forward => task != Task::Page,
            _ => task == Task::Carry,
        }
    }
}

/// The path of a single-path contender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathChoice {
    /// Always this one.
    Fixed(usize),
    /// Each connection on a path drawn at random (as TCP in CoFUSO's testbed).
    Random,
}

/// Text that names no contender.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{text}` is no contender: {reason}. Write tcp:cubic, tcp:bbr@1, tcp:reno@random, mptcp:cubic@1, mendpath:auto, mendpath:ctcp:ctcp@0, \
     mendpath-new:slp, or the name of an adapter such as kcptun"
)]
pub struct ParseContenderError {
    /// What was written.
    text: String,
    reason: String,
}

impl FromStr for Contender {
    type Err = ParseContenderError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |reason: &str| ParseContenderError { text: text.to_owned(), reason: reason.to_owned() };
        let (what, place) = match text.trim().split_once('@') {
            Some((what, place)) => (what, Some(place)),
            None => (text.trim(), None),
        };
        let mut words = what.split(':');
        let kind = words.next().unwrap_or_default();
        let words: Vec<String> = words.map(str::to_owned).collect();
        // What stands behind a recovery scheme's = is looked at below.
        let entry = Entry::ALL.iter().find(|(_, name)| *name == kind).map(|(entry, _)| *entry);
        let has_recovery = entry.is_some_and(|entry| entry != Entry::ServeTcp);
        let plain = |(at, word): (usize, &String)| match at {
            0 if has_recovery => is_name(split_symbols(word).0),
            _ => is_name(word),
        };
        if !words.iter().enumerate().all(plain) {
            return Err(wrong("a name after the colon is missing or has characters that no scheme has"));
        }
        let first = || match place {
            Some(place) => {
                place.parse::<usize>().map_err(|_| wrong("after the @ stands a path's number, from 0"))
            }
            None => Ok(0),
        };
        let most = |n| if words.len() > n { Err(wrong("there are too many colons")) } else { Ok(()) };
        match (kind, entry) {
            ("tcp", _) => {
                most(1)?;
                let path =
                    if place == Some("random") { PathChoice::Random } else { PathChoice::Fixed(first()?) };
                Ok(Self::Tcp { congestion: words.first().cloned(), path })
            }
            ("mptcp", _) => {
                most(1)?;
                Ok(Self::Mptcp { congestion: words.first().cloned(), first: first()? })
            }
            (_, Some(entry)) => {
                most(if entry == Entry::ServeTcp { 1 } else { 3 })?;
                Self::mendpath(entry, &words, place).map_err(wrong)
            }
            (name, None) if is_name(name) => {
                most(0)?;
                Ok(Self::Peer { name: name.to_owned(), path: first()? })
            }
            _ => Err(wrong("it has no name")),
        }
    }
}

impl Contender {
    /// Mendpath with the words behind its name, over the paths that `place` names.
    fn mendpath(entry: Entry, words: &[String], place: Option<&str>) -> Result<Self, &'static str> {
        let paths = place.map_or_else(|| Ok(Vec::new()), |place| place.split('+').map(str::parse).collect());
        let paths = paths.map_err(|_| "after the @ stand paths' numbers, such as 0+1")?;
        let [recovery, congestion, scheduler] = [0, 1, 2].map(|at| words.get(at).cloned());
        if !has_symbols(recovery.as_deref()) {
            return Err("after a recovery scheme's = stands a number of repair symbols, 1 to 32");
        }
        // Of the kernel's TCP nothing of the transport's is in it: the word is the kernel's.
        let (recovery, congestion) =
            if entry == Entry::ServeTcp { (None, recovery) } else { (recovery, congestion) };
        Ok(Self::Mendpath { recovery, congestion, scheduler, paths, entry })
    }
}

/// A recovery scheme's name, and what stands after its `=` if there is one: the most repair symbols of a block.
pub(crate) fn split_symbols(recovery: &str) -> (&str, Option<&str>) {
    match recovery.split_once('=') {
        Some((name, symbols)) => (name, Some(symbols)),
        None => (recovery, None),
    }
}

/// Whether a block may have as many repair symbols as it says, if it does.
fn has_symbols(recovery: Option<&str>) -> bool {
    let symbols = recovery.and_then(|recovery| split_symbols(recovery).1);
    symbols.is_none_or(|symbols| symbols.parse().is_ok_and(|count: u8| (1..=32).contains(&count)))
}

/// Names go into command lines: nothing but what schemes' names have.
pub(crate) fn is_name(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

impl Contender {
    /// The paths it uses among `count`.
    pub fn paths(&self, count: usize) -> Vec<usize> {
        match self {
            Self::Tcp { path: PathChoice::Fixed(path), .. } | Self::Peer { path, .. } => vec![*path],
            Self::Mendpath { paths, .. } if !paths.is_empty() => paths.clone(),
            _ => (0..count).collect(),
        }
    }

    /// Whether it can be measured so. What another program is for its adapter says, when it starts.
    pub(crate) fn can(&self, task: Task) -> bool {
        match self {
            Self::Mendpath { entry, .. } => entry.can(task),
            Self::Peer { .. } => task != Task::Call,
            Self::Tcp { .. } | Self::Mptcp { .. } => task == Task::Carry,
        }
    }

    /// Whether every path that it names exists among `count`.
    pub fn fits(&self, count: usize) -> bool {
        let first = if let Self::Mptcp { first, .. } = self { *first } else { 0 };
        first < count && self.paths(count).iter().all(|path| *path < count)
    }

    /// The same contender on path `path` alone, where that makes sense.
    pub fn alone_on(&self, path: usize) -> Option<Self> {
        match self {
            Self::Mendpath { .. } => {
                let mut alone = self.clone();
                if let Self::Mendpath { paths, .. } = &mut alone {
                    *paths = vec![path];
                }
                Some(alone)
            }
            Self::Mptcp { congestion, .. } => {
                Some(Self::Tcp { congestion: congestion.clone(), path: PathChoice::Fixed(path) })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |f: &mut fmt::Formatter<'_>, kind: &str, words: &[&Option<String>]| {
            f.write_str(kind)?;
            words.iter().copied().flatten().try_for_each(|word| write!(f, ":{word}"))
        };
        match self {
            Self::Tcp { congestion, path } => {
                named(f, "tcp", &[congestion])?;
                match path {
                    PathChoice::Fixed(0) => Ok(()),
                    PathChoice::Fixed(path) => write!(f, "@{path}"),
                    PathChoice::Random => write!(f, "@random"),
                }
            }
            Self::Mptcp { congestion, first } => {
                named(f, "mptcp", &[congestion])?;
                if *first == 0 { Ok(()) } else { write!(f, "@{first}") }
            }
            Self::Mendpath { recovery, congestion, scheduler, paths, entry } => {
                let name = Entry::ALL.iter().find(|(known, _)| known == entry).map_or("", |(_, name)| *name);
                named(f, name, &[recovery, congestion, scheduler])?;
                for (place, path) in paths.iter().enumerate() {
                    write!(f, "{}{path}", if place == 0 { "@" } else { "+" })?;
                }
                Ok(())
            }
            Self::Peer { name, path: 0 } => write!(f, "{name}"),
            Self::Peer { name, path } => write!(f, "{name}@{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_shown() {
        for text in [
            "tcp",
            "tcp:cubic",
            "tcp:bbr@1",
            "tcp:reno@random",
            "mptcp",
            "mptcp:bbr@1",
            "mendpath",
            "mendpath:auto",
            "mendpath:ctcp:ctcp@0",
            "mendpath:cofuso@1+0",
            "mendpath:cofuso=1",
            "mendpath-new:cofuso=32:cubic@1",
            "mendpath-new:slp",
            "mendpath-socks:auto@0+1",
            "mendpath:auto:cubic:round-robin@1",
            "mendpath-tunnel:auto",
            "mendpath-tunnel-raw:none@1",
            "mendpath-tunnel-raw-htpc:auto",
            "mendpath-copies",
            "mendpath-fec:none",
            "mendpath-serve:auto:cubic",
            "mendpath-serve-tcp:bbr",
            "kcptun",
            "quinn@1",
        ] {
            assert_eq!(text.parse::<Contender>().unwrap().to_string(), text);
        }
        assert_eq!("tcp:cubic@0".parse::<Contender>().unwrap().to_string(), "tcp:cubic");
    }

    #[test]
    fn errors_teach() {
        for (text, part) in [
            ("", "it has no name"),
            ("tcp:cubic:x", "too many colons"),
            ("tcp:", "is missing"),
            ("mptcp@random", "a path's number"),
            ("mendpath:auto@0,1", "paths' numbers"),
            ("kcptun:fast", "too many colons"),
            ("mendpath-serve-tcp:auto:bbr", "too many colons"),
            ("a b", "it has no name"),
            ("mendpath:$(rm)", "characters that no scheme has"),
            ("mendpath:=1", "is missing"),
            ("mendpath:cofuso=0", "a number of repair symbols"),
            ("mendpath:cofuso=33", "a number of repair symbols"),
            ("mendpath:cofuso=", "a number of repair symbols"),
            ("mendpath:cofuso:cubic=1", "characters that no scheme has"),
            ("mendpath:cofuso=$(rm)", "a number of repair symbols"),
            ("mendpath-serve-tcp:bbr=1", "characters that no scheme has"),
            ("tcp:cubic=1", "characters that no scheme has"),
        ] {
            let error = text.parse::<Contender>().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("mendpath:auto"), "{text}: {error}");
        }
    }

    #[test]
    fn paths_must_exist() {
        let fits = |text: &str| text.parse::<Contender>().unwrap().fits(2);
        assert!(fits("tcp@1") && fits("mptcp@1") && fits("mendpath@0+1") && fits("kcptun@1"));
        assert!(!fits("tcp@2") && !fits("mptcp@2") && !fits("mendpath@0+2") && !fits("kcptun@2"));
        let alone = |text: &str| text.parse::<Contender>().unwrap().alone_on(1).map(|it| it.to_string());
        assert_eq!(alone("mendpath:auto"), Some("mendpath:auto@1".to_owned()));
        assert_eq!(alone("mptcp:bbr@1"), Some("tcp:bbr@1".to_owned()));
        assert_eq!(alone("kcptun"), None);
    }
}
