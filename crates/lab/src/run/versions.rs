//! What programs say of their versions.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::{Command, Stdio},
};

use crate::{Adapter, Contender, Network, Options, Plan};

/// Those of all programs that take part, as far as they tell; the kernel's is the machine's.
pub(super) fn versions(
    plan: &Plan,
    options: &Options,
    networks: &[Network],
    adapters: &BTreeMap<String, Adapter>,
) -> BTreeMap<String, String> {
    let program = options.mendpath.to_string_lossy().into_owned();
    let mut asked = BTreeMap::from([("mendpath".to_owned(), vec![program, "--version".to_owned()])]);
    if let Some(browser) = crate::browser::chromium(options.browser.as_deref())
        && !plan.pages.is_empty()
    {
        let words = vec![browser.to_string_lossy().into_owned(), "--version".to_owned()];
        asked.insert("browser".to_owned(), words);
    }
    let of_plan = plan.shares.iter().flat_map(|share| share.pairs.iter().flatten());
    let all = networks.iter().flat_map(|network| &network.contenders).chain(of_plan);
    let peers: BTreeSet<&String> = all
        .filter_map(|contender| match contender {
            Contender::Peer { name, .. } => Some(name),
            _ => None,
        })
        .collect();
    for name in peers {
        if let Some(adapter) = adapters.get(name).filter(|adapter| !adapter.version.is_empty()) {
            asked.insert(name.clone(), adapter.version.clone());
        }
    }
    asked.into_iter().filter_map(|(name, words)| Some((name, answer(&words)?))).collect()
}

/// The first line of what a command says, wherever it says it.
fn answer(words: &[String]) -> Option<String> {
    let (program, arguments) = words.split_first()?;
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    let line =
        String::from_utf8_lossy(&said).lines().map(str::trim).find(|line| !line.is_empty())?.to_owned();
    output.status.success().then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_counts_and_a_program_that_is_not_there_has_no_version() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let echo = ["sh", "-c", "echo; echo ' a 1.2 '; echo more"].map(str::to_owned);
        assert_eq!(answer(&echo).as_deref(), Some("a 1.2"));
        assert_eq!(answer(&["sh", "-c", "echo b 3 >&2"].map(str::to_owned)).as_deref(), Some("b 3"));
        assert_eq!(answer(&words("false")), None);
        assert_eq!(answer(&words("no-such-program-here --version")), None);
        assert_eq!(answer(&[]), None);
    }
}
