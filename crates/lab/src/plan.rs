//! What is measured: a TOML file, or flags that say the same.

mod call;
mod measure;
mod page;
mod text;
mod vary;

use std::{collections::BTreeMap, fs::File, path::Path};

use serde::Deserialize;

pub use call::{Call, CallOutcome, Cuts};
pub use measure::{
    Bulk, Connection, Cut, DropEach, DropOrder, Fetch, LogNormal, MOST_AT_ONCE, PathOrEach, SetUp, Share,
    Sizes, TimeRange,
};
pub use page::Page;
pub use plans::Scale;
pub use vary::Network;

use crate::{Adapter, Contender, LabError, PathSpec, contender::Task};
use text::texts;

/// Most emulated paths of one network.
pub const MAX_PATHS: usize = 8;

/// What to measure, over which paths, with whom.
///
/// Every measurement is made on every network with every contender. On a network each contender has
/// namespaces, devices and links of its own, all with the same seed; measurements are made one at a
/// time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// One line for `mendpath lab list` and above the results.
    pub title: String,
    /// What it is for, and what is synthetic or assumed about it.
    #[serde(default)]
    pub about: String,
    /// From which all losses derive.
    #[serde(default = "one")]
    pub seed: u64,
    /// In how many turns the fetches of a measurement are made: in each turn every contender makes
    /// its share in a row, so that all of them meet the same busy minutes of the machine.
    #[serde(default = "four")]
    pub rounds: u32,
    /// Values for names in braces: every network is made once for each combination.
    #[serde(default)]
    pub vary: BTreeMap<String, Vec<String>>,
    /// Instead of `vary` at the quick scale, as far as given.
    #[serde(default)]
    pub quick_vary: BTreeMap<String, Vec<String>>,
    /// The networks.
    #[serde(rename = "network")]
    pub networks: Vec<NetworkTemplate>,
    /// Who takes part.
    #[serde(default, deserialize_with = "texts")]
    pub contenders: Vec<Contender>,
    /// Single responses, one at a time.
    #[serde(default, rename = "fetch")]
    pub fetches: Vec<Fetch>,
    /// Long transfers.
    #[serde(default, rename = "bulk")]
    pub bulks: Vec<Bulk>,
    /// Long transfers of two contenders at once over the same links.
    #[serde(default, rename = "share")]
    pub shares: Vec<Share>,
    /// Calls: datagrams with a deadline.
    #[serde(default, rename = "call")]
    pub calls: Vec<Call>,
    /// Loads of a page in a browser.
    #[serde(default, rename = "page")]
    pub pages: Vec<Page>,
    /// Other programs, in addition to those that the lab knows.
    #[serde(default)]
    pub adapters: BTreeMap<String, Adapter>,
    /// What the kernel's TCP may remember between connections (the route's metrics cache): off, so
    /// that fetches are independent.
    #[serde(default)]
    pub tcp_metrics: bool,
}

/// A network with names in braces that `vary` fills in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkTemplate {
    /// What it is called; the paths' text if empty.
    #[serde(default)]
    pub name: String,
    /// One text for each path, see [`PathSpec`].
    pub paths: Vec<String>,
    /// Contenders on this network alone, instead of the plan's.
    #[serde(default, deserialize_with = "texts")]
    pub contenders: Vec<Contender>,
}

fn one() -> u64 {
    1
}

fn four() -> u32 {
    4
}

impl Plan {
    /// A plan that measures nothing yet, on one network.
    pub fn of(network: NetworkTemplate) -> Self {
        Self {
            title: "mendpath lab".to_owned(),
            about: String::new(),
            seed: one(),
            rounds: four(),
            vary: BTreeMap::new(),
            quick_vary: BTreeMap::new(),
            networks: vec![network],
            contenders: Vec::new(),
            fetches: Vec::new(),
            bulks: Vec::new(),
            shares: Vec::new(),
            calls: Vec::new(),
            pages: Vec::new(),
            adapters: BTreeMap::new(),
            tcp_metrics: false,
        }
    }

    /// Reads and checks a plan.
    ///
    /// # Errors
    /// [`LabError::ReadPlan`] or [`LabError::Plan`].
    pub fn read(path: &Path) -> Result<Self, LabError> {
        let text = File::open(path)
            .and_then(plans::whole_text)
            .map_err(|source| LabError::ReadPlan { path: path.to_owned(), source })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Understands and checks a plan; `name` is for messages.
    ///
    /// # Errors
    /// [`LabError::Plan`].
    pub fn parse(name: &str, text: &str) -> Result<Self, LabError> {
        let wrong = |reason: String| LabError::Plan { name: name.to_owned(), reason };
        let plan: Self = plans::read(text).map_err(|error| wrong(error.to_string()))?;
        plan.check().map_err(wrong)?;
        Ok(plan)
    }

    /// Whether it means something, at both scales.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.tasks().is_empty() && self.shares.is_empty() {
            return Err(
                "it measures nothing: add a [[fetch]], [[bulk]], [[share]], [[call]] or [[page]]".to_owned()
            );
        }
        for scale in [Scale::Quick, Scale::Paper] {
            let networks = self.networks(scale)?;
            if networks.is_empty() {
                return Err("it has no network: add a [[network]] with paths".to_owned());
            }
            networks.iter().try_for_each(|network| self.check_network(network))?;
        }
        self.adapters.iter().try_for_each(|(name, adapter)| adapter.check(name))?;
        self.fetches.iter().try_for_each(Fetch::check)?;
        self.bulks.iter().try_for_each(Bulk::check)?;
        self.shares.iter().try_for_each(Share::check)?;
        self.calls.iter().try_for_each(Call::check)?;
        self.pages.iter().try_for_each(Page::check)
    }

    /// What the contenders of its networks have to do.
    fn tasks(&self) -> Vec<Task> {
        let tasks = [
            (Task::Carry, self.fetches.is_empty() && self.bulks.is_empty()),
            (Task::Call, self.calls.is_empty()),
            (Task::Page, self.pages.is_empty()),
        ];
        tasks.into_iter().filter(|(_, absent)| !absent).map(|(task, _)| task).collect()
    }

    /// Whether everybody can do what is asked of them.
    fn check_tasks(&self, network: &Network) -> Result<(), String> {
        let asked = self.tasks();
        if network.contenders.is_empty() && !asked.is_empty() {
            return Err(
                "it has no contenders: write contenders = [\"tcp:cubic\", \"mendpath:auto\"]".to_owned()
            );
        }
        let pairs = self.shares.iter().flat_map(|share| share.pairs.iter().flatten());
        let shared = pairs.map(|contender| (contender, Task::Carry));
        let own =
            network.contenders.iter().flat_map(|contender| asked.iter().map(move |task| (contender, *task)));
        match own.chain(shared).find(|(contender, task)| !contender.can(*task)) {
            None => Ok(()),
            Some((contender, Task::Carry)) => Err(format!("`{contender}` carries no fetches and transfers")),
            Some((contender, Task::Call)) => Err(format!(
                "`{contender}` makes no calls: mendpath:SCHEME, mendpath-copies and mendpath-fec do"
            )),
            Some((contender, Task::Page)) => {
                Err(format!("`{contender}` is no web server: mendpath-serve, h3-quinn or nginx-cubic are"))
            }
        }
    }

    fn check_network(&self, network: &Network) -> Result<(), String> {
        let count = network.paths.len();
        if !(1..=MAX_PATHS).contains(&count) {
            return Err(format!("network `{}` has {count} paths: give it 1 to {MAX_PATHS}", network.name));
        }
        PathSpec::check(&network.paths).map_err(|wrong| format!("network `{}`: {wrong}", network.name))?;
        let pairs = self.shares.iter().flat_map(|share| share.pairs.iter().flatten());
        let mut all = network.contenders.iter().chain(pairs);
        if let Some(contender) = all.find(|contender| !contender.fits(count)) {
            return Err(format!("`{contender}` names a path that network `{}` does not have", network.name));
        }
        let touched = self.bulks.iter().any(|bulk| bulk.cut.is_some())
            || self.calls.iter().any(|call| call.cuts.is_some())
            || self.fetches.iter().any(|fetch| fetch.drop.is_some());
        if touched && network.paths.iter().any(|path| path.direct || path.through.is_some()) {
            return Err(format!(
                "nothing can be cut or dropped in network `{}`: a path has no links of its own",
                network.name
            ));
        }
        let cut = |bulk: &Bulk| matches!(&bulk.cut, Some(Cut { path: PathOrEach::One(path), .. }) if *path >= count);
        let drop = |fetch: &Fetch| {
            fetch.drop.as_ref().is_some_and(|drop| drop.paths.iter().any(|path| *path >= count))
        };
        let cuts = |call: &Call| call.cuts.as_ref().is_some_and(|cuts| cuts.path >= count);
        if self.bulks.iter().any(cut) || self.fetches.iter().any(drop) || self.calls.iter().any(cuts) {
            return Err(format!(
                "a `cut` or `drop` names a path that network `{}` does not have",
                network.name
            ));
        }
        self.check_tasks(network)
    }

    /// The networks at a scale, names in braces filled in.
    ///
    /// # Errors
    /// What is wrong with one of them, in words.
    pub fn networks(&self, scale: Scale) -> Result<Vec<Network>, String> {
        let mut vary = self.vary.clone();
        if scale == Scale::Quick {
            for (name, values) in &self.quick_vary {
                if vary.insert(name.clone(), values.clone()).is_none() {
                    return Err(format!("quick_vary has `{name}`, which vary has not"));
                }
            }
        }
        vary::networks(&self.networks, &self.contenders, &vary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        title = "small"
        contenders = ["tcp:cubic", "mendpath:auto"]
        [vary]
        loss = ["0%", "2%"]
        delay = ["20ms", "50ms"]
        [quick_vary]
        loss = ["2%"]
        [[network]]
        name = "loss {loss}"
        paths = ["rate=100mbit,delay={delay},loss={loss}", "rate=10mbit,delay=80ms"]
        [[fetch]]
        size = "60kB"
        count = 200
        quick = 10
        drop = { paths = [0], first = 10, order = "each" }
        [[bulk]]
        size = "20MiB"
        cut = { path = "each", after = "0.3s-1.5s", time = "3s" }
        [[share]]
        pairs = [["tcp:cubic", "mendpath:ctcp:ctcp"]]
        time = "20s"
        stagger = "5s"
    "#;

    #[test]
    fn a_plan_says_what_is_measured() {
        let plan = Plan::parse("small", SMALL).unwrap();
        assert_eq!((plan.seed, plan.rounds), (1, 4));
        let networks = plan.networks(Scale::Paper).unwrap();
        assert_eq!(networks.len(), 4);
        assert_eq!(networks[0].name, "loss 0%");
        assert_eq!(
            networks[0].vary,
            BTreeMap::from([("delay".into(), "20ms".into()), ("loss".into(), "0%".into())])
        );
        assert_eq!(plan.networks(Scale::Quick).unwrap().len(), 2);
        assert_eq!(plan.fetches[0].count(Scale::Quick), 10);
        assert_eq!(plan.fetches[0].count(Scale::Paper), 200);
        assert_eq!(plan.shares[0].pairs[0][1].to_string(), "mendpath:ctcp:ctcp");
    }

    #[test]
    fn errors_teach() {
        let error = |from: &str, to: &str| {
            assert!(SMALL.contains(from), "{from}");
            Plan::parse("small", &SMALL.replacen(from, to, 1)).unwrap_err().to_string()
        };
        for (from, to, part) in [
            ("rate=10mbit", "rato=10mbit", "`rato` is no property of a link"),
            ("{delay}", "{delai}", "{delai}"),
            ("tcp:cubic\",", "tcp:cubic@2\",", "`tcp:cubic@2` names a path that network `loss 2%`"),
            ("paths = [0]", "paths = [7]", "names a path"),
            ("order = \"each\"", "order = \"all\"", "unknown variant `all`"),
            ("0.3s-1.5s", "1.5s-0.3s", "the earlier one first"),
            (
                "count = 200",
                "cuont = 200",
                "line 14: `fetch[1].cuont`: unknown field `cuont`, expected one of",
            ),
            ("size = \"60kB\"", "size = \"0kB\"", "1 byte"),
            ("[vary]", "[vary]\nlos = ['1%']", "vary: no [[network]] has `{los}` in it"),
            (
                "[[network]]",
                "[[network]]\nname = \"loss 2%\"\npaths = ['', '']\n[[network]]\nname = \"loss 2%\"\npaths = ['', '']\n[[network]]",
                "two networks are called `loss 2%`",
            ),
            ("[quick_vary]\n        loss", "[quick_vary]\n        lost", "which vary has not"),
            ("[\"tcp:cubic\", \"mendpath:auto\"]", "[]", "it has no contenders"),
        ] {
            let text = error(from, to);
            assert!(text.contains(part), "{to}: {text}");
        }
        for (measure, contender, part) in [
            ("call = [{ time = '9s' }]", "tcp:cubic", "`tcp:cubic` makes no calls"),
            (
                "call = [{ time = '9s', cuts = { path = 1, every = '3s', time = '1s' } }]",
                "mendpath",
                "names a path",
            ),
            (
                "call = [{ time = '9s', cuts = { path = 0, every = '1s', time = '3s' } }]",
                "mendpath",
                "less than",
            ),
            ("page = [{ count = 9 }]", "mendpath:auto", "`mendpath:auto` is no web server"),
            ("fetch = [{ size = '9kB' }]", "mendpath-serve", "`mendpath-serve` carries no fetches"),
        ] {
            let text = format!(
                "title = 'x'\ncontenders = ['{contender}']\nnetwork = [{{ paths = [''] }}]\n{measure}"
            );
            let error = Plan::parse("x", &text).unwrap_err().to_string();
            assert!(error.contains(part), "{measure}: {error}");
        }
        let nothing = "title = \"x\"\ncontenders=[\"tcp\"]\n[[network]]\npaths=[\"\"]";
        assert!(Plan::parse("x", nothing).unwrap_err().to_string().contains("it measures nothing"));
    }
}
