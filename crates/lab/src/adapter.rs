//! Other programs as contenders: how to start both ends. One small TOML file each.

use std::collections::BTreeMap;

use serde::Deserialize;

/// How a program is started so that it forwards a local TCP port to the origin, over the emulated
/// paths.
///
/// Both commands are words; in them, these names stand for what differs from run to run.
///
/// | name | stands for |
/// |---|---|
/// | `{server_ip}` | the server's address, reachable over every path |
/// | `{client_ip}` | the client's address on the contender's path |
/// | `{port}` | a port for the program itself |
/// | `{origin_port}` | the origin's port, on 127.0.0.1 of the server's side |
/// | `{listen_port}` | where the client's end must listen, on 127.0.0.1 of the client's side |
/// | `{dir}` | a directory that both ends may use, removed afterwards |
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// What it is, in one line.
    pub about: String,
    /// How to get it, shown when the program is not there.
    pub install: String,
    /// The server's end.
    pub server: Vec<String>,
    /// The client's end.
    pub client: Vec<String>,
}

/// The adapters that the lab comes with: name and TOML text.
const BUILT_IN: [(&str, &str); 3] = [
    ("kcptun", include_str!("../adapters/kcptun.toml")),
    ("noq", include_str!("../adapters/noq.toml")),
    ("quinn", include_str!("../adapters/quinn.toml")),
];

const NAMES: [&str; 6] = ["server_ip", "client_ip", "port", "origin_port", "listen_port", "dir"];

impl Adapter {
    /// The adapters that the lab comes with, by name.
    ///
    /// # Panics
    /// Never: a test reads them all.
    pub fn built_in() -> BTreeMap<String, Self> {
        let read = |text| plans::read(text).expect("the lab's own adapters are well-formed");
        BUILT_IN.into_iter().map(|(name, text)| (name.to_owned(), read(text))).collect()
    }

    /// Reads one from TOML.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let adapter: Self = plans::read(text).map_err(|error| format!("adapter `{name}`: {error}"))?;
        adapter.check(name).map(|()| adapter)
    }

    /// Whether its commands are whole and use no unknown names.
    pub(crate) fn check(&self, name: &str) -> Result<(), String> {
        if !crate::contender::is_name(name) || ["tcp", "mptcp", "mendpath", "mendpath-new"].contains(&name) {
            return Err(format!(
                "adapter `{name}` needs another name: letters, digits, - and _, not a built-in contender's"
            ));
        }
        let unknown = |word: &String| {
            let rest = NAMES.iter().fold(word.clone(), |word, name| word.replace(&format!("{{{name}}}"), ""));
            rest.contains(['{', '}'])
        };
        let mut words = self.server.iter().chain(&self.client);
        if let Some(word) = words.find(|word| unknown(word)) {
            return Err(format!(
                "adapter `{name}`: `{word}` has a name in braces other than {}",
                NAMES.join(", ")
            ));
        }
        if self.server.is_empty() || self.client.is_empty() {
            return Err(format!("adapter `{name}` needs a `server` and a `client` command"));
        }
        Ok(())
    }
}

/// Puts values in place of names in braces.
pub(crate) fn fill(words: &[String], values: &[(&str, String)]) -> Vec<String> {
    let fill = |word: &String| {
        values.iter().fold(word.clone(), |word, (name, value)| word.replace(&format!("{{{name}}}"), value))
    };
    words.iter().map(fill).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labs_own_adapters_are_well_formed() {
        let adapters = Adapter::built_in();
        assert_eq!(adapters.len(), BUILT_IN.len());
        for (name, adapter) in &adapters {
            adapter.check(name).unwrap();
            let names = |words: &[String], name: &str| words.iter().any(|word| word.contains(name));
            assert!(
                names(&adapter.server, "{origin_port}") && names(&adapter.client, "{listen_port}"),
                "{name}"
            );
        }
    }

    #[test]
    fn names_are_filled_in_and_unknown_ones_refused() {
        let words = ["-l".to_owned(), ":{port}".to_owned()];
        assert_eq!(fill(&words, &[("port", "4000".to_owned())]), ["-l", ":4000"]);
        let text = "about='a'\ninstall='i'\nserver=['x','{prot}']\nclient=['y']";
        assert!(Adapter::parse("x", text).unwrap_err().contains("`{prot}` has a name in braces other than"));
        let text = text.replace("{prot}", "{port}");
        assert!(Adapter::parse("x", &text).is_ok());
        assert!(Adapter::parse("tcp", &text).unwrap_err().contains("another name"));
        assert!(Adapter::parse("x", "about='a'").unwrap_err().contains("missing field"));
    }
}
