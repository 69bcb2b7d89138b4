//! Where something has its name outside its own files: what one has to touch to add another.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens as _;

use super::{Count, source::Crate};

/// Something of each kind, and the crates that have to know of it.
const EXAMPLES: &[(&str, &str, &[&str])] = &[
    ("recovery scheme (`ctcp`)", "ctcp", &["proto", "mendpath", "cli"]),
    ("congestion controller (`olia`)", "olia", &["congestion", "proto", "mendpath", "cli"]),
    ("scheduler (`lowest-rtt`)", "lowestrtt", &["proto", "mendpath", "cli"]),
    ("frame (PATHS_BLOCKED)", "pathsblocked", &["proto", "mendpath"]),
    ("scheme of the simulated TCP (`reactive`)", "reactive", &["tcpsim"]),
    ("metric (`mendpath_packets_lost`)", "packetslost", &["cli"]),
];

pub fn count(crates: &[Crate]) -> Vec<Count> {
    EXAMPLES.iter().map(|(what, word, within)| of(what, word, within, crates)).collect()
}

fn of(what: &str, word: &str, within: &[&str], crates: &[Crate]) -> Count {
    let mut places = BTreeSet::new();
    for module in crates.iter().filter(|of| within.contains(&of.name.as_str())).flat_map(|of| &of.modules) {
        if plain(&module.file).contains(word) {
            continue;
        }
        for item in &module.items {
            // A module within the file is seen by itself, one beside it is declared here.
            if !matches!(item, syn::Item::Mod(inner) if inner.content.is_some()) {
                find(item.to_token_stream(), word, &mut |line| {
                    places.insert((module.file.as_str(), line));
                });
            }
        }
    }
    let files: BTreeSet<&str> = places.iter().map(|place| place.0).collect();
    Count::said(
        format!("lines about a {what} in files of others"),
        format!("{} in {} files", places.len(), files.len()),
        places.iter().map(|(file, line)| format!("{file}:{line}")).collect(),
    )
}

/// Lines with the word as a name or within a text, documentation left out.
fn find(tokens: TokenStream, word: &str, found: &mut impl FnMut(usize)) {
    for token in tokens {
        match token {
            TokenTree::Group(group) if is_documentation(&group) => {}
            TokenTree::Group(group) => find(group.stream(), word, found),
            TokenTree::Punct(_) => {}
            token => {
                if plain(&token.to_string()).contains(word) {
                    found(token.span().start().line);
                }
            }
        }
    }
}

fn is_documentation(group: &proc_macro2::Group) -> bool {
    let first = group.stream().into_iter().next();
    group.delimiter() == Delimiter::Bracket
        && matches!(first, Some(TokenTree::Ident(name)) if name == "doc" || name == "error")
}

/// Letters only, so that a type, a function and a text of one name are equal.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}
