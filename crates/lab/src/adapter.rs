//! Other programs as contenders: how to start both ends. One small TOML file each.

use std::collections::BTreeMap;

use serde::Deserialize;

/// How a program is started so that it forwards a local TCP port to the origin, over the emulated
/// paths.
///
/// Both commands are words; in them, and in the files, these names stand for what differs from run
/// to run.
///
/// | name | stands for |
/// |---|---|
/// | `{server_ip}` | the server's address, reachable over every path |
/// | `{client_ip}` | the client's address on the contender's path |
/// | `{port}` | a port for the program itself |
/// | `{origin_port}` | the origin's port, on 127.0.0.1 of the server's side |
/// | `{listen_port}` | where the client's end must listen, on 127.0.0.1 of the client's side |
/// | `{origin_ip}` | the origin's address: one behind the server if it is a tunnel |
/// | `{device}` | the client's device on the contender's path |
/// | `{dir}` | a directory that both ends may use, removed afterwards |
/// | `{root}`, `{cert}`, `{key}` | of a web server: the directory to serve, and files in PEM |
/// | `{{`, `}}` | braces themselves |
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// What it is, in one line.
    pub about: String,
    /// How to get it, shown when the program is not there.
    pub install: String,
    /// The server's end.
    pub server: Vec<String>,
    /// The client's end; a web server has none.
    #[serde(default)]
    pub client: Vec<String>,
    /// What makes it say its version, in the first line; empty if it has no way.
    #[serde(default)]
    pub version: Vec<String>,
    /// It is a web server that a browser asks by this protocol, for a `[[page]]`.
    #[serde(default)]
    pub web: Option<Web>,
    /// The congestion controller of the kernel's TCP between the program's two ends, if not cubic. A program
    /// that asks the kernel for another one before it connects or listens does not get it.
    #[serde(default)]
    pub congestion: Option<String>,
    /// Whether it is a tunnel: then it must lead to `{origin_ip}`, which the client connects to as
    /// if nothing were between, and nothing listens at `{listen_port}`.
    #[serde(default)]
    pub tunnel: bool,
    /// Files to write into `{dir}` before either end starts: name and content.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// What a browser speaks to a web server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Web {
    /// HTTP/3.
    H3,
    /// HTTP/2 over TLS and TCP.
    H2,
}

impl Web {
    /// As browsers call it (`nextHopProtocol`).
    pub fn name(self) -> &'static str {
        match self {
            Self::H3 => "h3",
            Self::H2 => "h2",
        }
    }
}

/// The adapters that the lab comes with: name and TOML text.
const BUILT_IN: [(&str, &str); 12] = [
    ("caddy", include_str!("../adapters/caddy.toml")),
    ("h3-quinn", include_str!("../adapters/h3-quinn.toml")),
    ("kcptun", include_str!("../adapters/kcptun.toml")),
    ("nginx-bbr", include_str!("../adapters/nginx-bbr.toml")),
    ("nginx-cubic", include_str!("../adapters/nginx-cubic.toml")),
    ("noq", include_str!("../adapters/noq.toml")),
    ("noq-cubic", include_str!("../adapters/noq-cubic.toml")),
    ("quinn", include_str!("../adapters/quinn.toml")),
    ("quinn-cubic", include_str!("../adapters/quinn-cubic.toml")),
    ("shadowsocks", include_str!("../adapters/shadowsocks.toml")),
    ("stunnel", include_str!("../adapters/stunnel.toml")),
    ("wireguard-go", include_str!("../adapters/wireguard-go.toml")),
];

/// The names that programs which forward, or are tunnels, may use in braces.
const NAMES: [&str; 8] =
    ["server_ip", "client_ip", "port", "origin_ip", "origin_port", "listen_port", "device", "dir"];

/// Those of web servers.
const WEB_NAMES: [&str; 6] = ["server_ip", "port", "dir", "root", "cert", "key"];

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
        if !crate::contender::is_name(name) || crate::contender::BUILT_IN.contains(&name) {
            return Err(format!(
                "adapter `{name}` needs another name: letters, digits, - and _, not a built-in contender's"
            ));
        }
        let names: &[&str] = if self.web.is_some() { &WEB_NAMES } else { &NAMES };
        let unknown = |word: &String| replace(word, |name| names.contains(&name).then_some(name)).is_none();
        if let Some(file) = self.files.keys().find(|file| !crate::contender::is_name(file)) {
            return Err(format!("adapter `{name}`: `{file}` is no file's name: letters, digits, -, _ and ."));
        }
        let mut words = self.server.iter().chain(&self.client).chain(self.files.values());
        if let Some(word) = words.find(|word| unknown(word)) {
            return Err(format!(
                "adapter `{name}`: `{word}` has a name in braces other than {}",
                names.join(", ")
            ));
        }
        if self.web.is_some() && (self.tunnel || !self.client.is_empty()) {
            return Err(format!("adapter `{name}` is a web server: a browser is its client"));
        }
        if self.server.is_empty() || (self.client.is_empty() && self.web.is_none()) {
            return Err(format!("adapter `{name}` needs a `server` and a `client` command"));
        }
        if self.congestion.as_ref().is_some_and(|name| !crate::contender::is_name(name)) {
            return Err(format!("adapter `{name}`: `congestion` is a name such as bbr"));
        }
        Ok(())
    }

    /// Whether its client's end is told over which path to send; otherwise it does as the routes say.
    #[cfg(target_os = "linux")]
    pub(crate) fn chooses_path(&self) -> bool {
        let mut words = self.client.iter().chain(self.files.values());
        words.any(|word| ["{client_ip}", "{device}"].iter().any(|name| word.contains(name)))
    }

    /// Writes its files into `directory`.
    #[cfg(target_os = "linux")]
    pub(crate) fn write_files(
        &self,
        directory: &std::path::Path,
        values: &[(&str, String)],
    ) -> Result<(), crate::LabError> {
        for (name, content) in &self.files {
            let file = directory.join(name);
            let written = std::fs::write(&file, fill_in(content, values));
            written.map_err(crate::LabError::system(format!("write {}", file.display())))?;
        }
        Ok(())
    }
}

/// Puts values in place of names in braces.
pub(crate) fn fill(words: &[String], values: &[(&str, String)]) -> Vec<String> {
    words.iter().map(|word| fill_in(word, values)).collect()
}

/// Puts values in place of names in braces of a text; one with other names, which [`Adapter::check`] refuses,
/// stays as it is.
pub(crate) fn fill_in(text: &str, values: &[(&str, String)]) -> String {
    let value = |name: &str| values.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
    replace(text, value).unwrap_or_else(|| text.to_owned())
}

/// The text with values in place of names in braces, and a brace in place of two; `None` if one of the names has no
/// value, or a brace is alone.
fn replace<'a>(text: &'a str, value: impl Fn(&'a str) -> Option<&'a str>) -> Option<String> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        filled += &rest[..at];
        let (brace, after) = rest[at..].split_at(1);
        if let Some(after) = after.strip_prefix(brace) {
            filled += brace;
            rest = after;
        } else if brace == "{" {
            let (name, after) = after.split_once('}')?;
            filled += value(name)?;
            rest = after;
        } else {
            return None;
        }
    }
    Some(filled + rest)
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
            let words = || adapter.server.iter().chain(&adapter.client).chain(adapter.files.values());
            let names = |name: &str| words().any(|word| word.contains(name));
            let leads = if adapter.web.is_some() {
                names("{root}") && names("{cert}") && names("{key}")
            } else if adapter.tunnel {
                names("{origin_ip}")
            } else {
                names("{origin_port}") && names("{listen_port}")
            };
            assert!(leads, "{name}");
        }
        #[cfg(target_os = "linux")]
        for (name, chooses) in
            [("quinn", true), ("wireguard-go", true), ("kcptun", false), ("stunnel", false)]
        {
            assert_eq!(adapters[name].chooses_path(), chooses, "{name}");
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
        let with = |file: &str| Adapter::parse("x", &format!("{text}\n[files]\n{file}"));
        assert!(with("'x.conf' = 'at {port}'").is_ok());
        assert!(with("'x.conf' = 'at {{ {port} }}'").is_ok());
        let braces = ["{{ listen {port}; }}".to_owned()];
        assert_eq!(fill(&braces, &[("port", "4000".to_owned())]), ["{ listen 4000; }"]);
        // What looks like a name between double braces is none.
        let named = ["{{port}} {{{port}}}".to_owned()];
        assert_eq!(fill(&named, &[("port", "4000".to_owned())]), ["{port} {4000}"]);
        assert!(with("'x.conf' = 'at {port'").is_err() && with("'x.conf' = 'at port}'").is_err());
        assert!(with("'x.conf' = 'serve {root}'").unwrap_err().contains("other than"), "it is no web server");
        assert!(with("'x.conf' = 'at {prot}'").unwrap_err().contains("`at {prot}` has a name"));
        assert!(with("'../x' = ''").unwrap_err().contains("is no file's name"));
        assert!(Adapter::parse("tcp", &text).unwrap_err().contains("another name"));
        let web = text.replace("client=['y']", "web='h3'");
        assert!(Adapter::parse("x", &web).is_ok_and(|adapter| adapter.web == Some(Web::H3)));
        assert!(Adapter::parse("x", &format!("{web}\nclient=['y']")).unwrap_err().contains("a browser is"));
        assert!(Adapter::parse("x", "about='a'").unwrap_err().contains("missing field"));
    }
}
