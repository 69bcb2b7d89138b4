//! What the user wants of each path: the client's options, and `mendpath path ...` while it runs.
//!
//! Wishes belong to names, not to paths: they hold when an interface comes back, and when the
//! connection is made anew.

use std::{
    collections::BTreeMap,
    fmt,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use mendpath::{PathId, PathLimits, PathStatus, PathUse};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use units::BitRate;

/// Names that wishes are kept for.
const MAX_NAMES: usize = 64;

/// What is to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// No data on it.
    Pause,
    /// Like any other again; a cap stays.
    Resume,
    /// Only while no other works.
    Backup,
    /// The same, and no copies and repair symbols.
    Metered,
    /// Before all others that are not preferred, too.
    Prefer,
    /// At most so many bits per second in each direction.
    Cap(Option<u64>),
}

/// What the path is after it, in words.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pause => f.write_str("paused"),
            Self::Resume => f.write_str("like any other again"),
            Self::Backup => f.write_str("a backup"),
            Self::Metered => f.write_str("metered"),
            Self::Prefer => f.write_str("preferred"),
            Self::Cap(Some(rate)) => write!(f, "capped at {}", BitRate(*rate)),
            Self::Cap(None) => f.write_str("no longer capped"),
        }
    }
}

/// An order to change something, as it comes through the socket or from the options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Whole names of paths, interfaces or addresses.
    pub names: Vec<String>,
    /// What is to change for each of them.
    pub change: Change,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rank {
    Preferred,
    #[default]
    Regular,
    Backup,
}

/// What is wanted of what has one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wish {
    carries: PathUse,
    rank: Rank,
    rate: Option<BitRate>,
}

/// What is asked of the transport for one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) limits: PathLimits,
    pub(crate) status: PathStatus,
}

/// All wishes.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    kept: Mutex<Kept>,
    changed: Notify,
}

#[derive(Clone, Debug, Default)]
struct Kept {
    /// What counts.
    by_name: BTreeMap<String, Wish>,
    /// What the options said when they were read last.
    configured: BTreeMap<String, Wish>,
}

impl Wish {
    fn change(&mut self, change: Change) {
        match change {
            Change::Pause => self.carries = PathUse::Paused,
            Change::Resume => (self.carries, self.rank) = Default::default(),
            Change::Backup => (self.carries, self.rank) = (PathUse::Regular, Rank::Backup),
            Change::Metered => (self.carries, self.rank) = (PathUse::Metered, Rank::Backup),
            Change::Prefer => (self.carries, self.rank) = (PathUse::Regular, Rank::Preferred),
            Change::Cap(rate) => self.rate = rate.map(BitRate),
        }
    }
}

impl Wishes {
    /// Takes an order; answers with the paths that it concerns.
    ///
    /// # Errors
    /// In words, when nothing has such a name or nothing would be left to send on.
    pub(crate) fn order(&self, order: &Order, paths: &[String]) -> Result<Vec<String>, String> {
        let mut kept = self.kept();
        for name in &order.names {
            if !kept.by_name.contains_key(name) && !paths.iter().any(|path| is_called(path, name)) {
                let there = if paths.is_empty() { "none".to_owned() } else { paths.join(", ") };
                return Err(format!("there is no path `{name}`; there are: {there}"));
            }
        }
        let mut after = kept.by_name.clone();
        apply(&mut after, order);
        leave_out_empty(&mut after, paths);
        check(&after)?;
        let paused = |path: &String| of(&after, path).carries == PathUse::Paused;
        if order.change == Change::Pause && !paths.is_empty() && paths.iter().all(paused) {
            return Err("nothing would be left to send on; stop the client instead".to_owned());
        }
        kept.by_name = after;
        drop(kept);
        self.changed.notify_one();
        Ok(paths
            .iter()
            .filter(|path| order.names.iter().any(|name| is_called(path, name)))
            .cloned()
            .collect())
    }

    /// Takes what the options say. Names of which they say the same as before keep what was ordered
    /// since.
    ///
    /// # Errors
    /// In words, when they name too many paths; then all stays as it was.
    pub(crate) fn configure(&self, orders: &[Order]) -> Result<(), String> {
        let mut configured = BTreeMap::new();
        orders.iter().for_each(|order| apply(&mut configured, order));
        let mut kept = self.kept();
        let mut after = kept.by_name.clone();
        for name in kept.configured.keys().chain(configured.keys()) {
            match configured.get(name) {
                wish if wish == kept.configured.get(name) => {}
                Some(wish) => drop(after.insert(name.clone(), *wish)),
                None => drop(after.remove(name)),
            }
        }
        check(&after)?;
        *kept = Kept { by_name: after, configured };
        drop(kept);
        self.changed.notify_one();
        Ok(())
    }

    /// Paths have come or gone.
    pub(crate) fn on_paths(&self) {
        self.changed.notify_one();
    }

    /// Waits for what may change [`terms`](Self::terms); what came before the call counts, too.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to ask for, for each path that there is.
    pub(crate) fn terms(&self, paths: &BTreeMap<PathId, String>) -> BTreeMap<PathId, Terms> {
        let wishes = &self.kept().by_name;
        let any_preferred = paths.values().any(|path| of(wishes, path).rank == Rank::Preferred);
        let terms = |path: &String| {
            let wish = of(wishes, path);
            let last = wish.carries == PathUse::Paused
                || wish.rank == Rank::Backup
                || any_preferred && wish.rank != Rank::Preferred;
            let mut limits = PathLimits::default();
            (limits.carries, limits.rate) = (wish.carries, wish.rate);
            Terms { limits, status: if last { PathStatus::Backup } else { PathStatus::Available } }
        };
        paths.iter().map(|(id, path)| (*id, terms(path))).collect()
    }
}

fn apply(wishes: &mut BTreeMap<String, Wish>, order: &Order) {
    for name in &order.names {
        wishes.entry(name.clone()).or_default().change(order.change);
    }
}

/// Leaves out wishes for nothing in particular, unless one of `paths` would then have another's.
fn leave_out_empty(wishes: &mut BTreeMap<String, Wish>, paths: &[String]) {
    let empty: Vec<String> =
        wishes.iter().filter(|(_, wish)| **wish == Wish::default()).map(|(name, _)| name.clone()).collect();
    for name in empty {
        let before: Vec<Wish> = paths.iter().map(|path| of(wishes, path)).collect();
        wishes.remove(&name);
        if paths.iter().map(|path| of(wishes, path)).ne(before) {
            wishes.insert(name, Wish::default());
        }
    }
}

fn check(wishes: &BTreeMap<String, Wish>) -> Result<(), String> {
    match wishes.len() <= MAX_NAMES {
        true => Ok(()),
        false => Err(format!("there may be wishes for {MAX_NAMES} names")),
    }
}

/// What is wanted of a path: the wish for its whole name counts before that for its address, and
/// that before that for its interface.
fn of(wishes: &BTreeMap<String, Wish>, path: &str) -> Wish {
    let called = wishes.iter().filter(|(name, _)| is_called(path, name));
    let closest = called.max_by_key(|(name, _)| (path == *name, name.parse::<IpAddr>().is_ok()));
    closest.map(|(_, wish)| *wish).unwrap_or_default()
}

/// Whether `path`, such as `wlan0 (192.0.2.1) #2`, goes by `name`: the whole, the interface or the
/// address.
fn is_called(path: &str, name: &str) -> bool {
    let parts = path.split([' ', '(', ')']).filter(|part| !part.is_empty() && !part.starts_with('#'));
    path == name || parts.into_iter().any(|part| part == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> BTreeMap<PathId, String> {
        let name = |text: &str| text.to_owned();
        BTreeMap::from([
            (PathId(0), name("wlan0 (192.0.2.1)")),
            (PathId(1), name("wlan0 (192.0.2.1) #2")),
            (PathId(2), name("wwan0 (198.51.100.7)")),
        ])
    }

    fn ordered(wishes: &Wishes, names: &[&str], change: Change) -> Result<Vec<String>, String> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let paths: Vec<String> = paths().into_values().collect();
        wishes.order(&Order { names, change }, &paths)
    }

    fn told(wishes: &Wishes) -> Vec<(PathUse, PathStatus, Option<u64>)> {
        let terms = wishes.terms(&paths());
        terms.values().map(|t| (t.limits.carries, t.status, t.limits.rate.map(|rate| rate.0))).collect()
    }

    const FREE: (PathUse, PathStatus, Option<u64>) = (PathUse::Regular, PathStatus::Available, None);
    const LAST: (PathUse, PathStatus, Option<u64>) = (PathUse::Regular, PathStatus::Backup, None);

    /// Whoever looks at the events has not read the source.
    #[test]
    fn what_was_ordered_is_told_in_words() {
        let changes = [Change::Pause, Change::Cap(Some(5_000_000)), Change::Cap(None)];
        let words = changes.map(|change| change.to_string());
        assert_eq!(words, ["paused", "capped at 5.00 Mbit/s", "no longer capped"]);
    }

    #[test]
    fn names_are_interfaces_addresses_or_whole() {
        let wishes = Wishes::default();
        assert_eq!(ordered(&wishes, &["wlan0"], Change::Backup).unwrap().len(), 2);
        assert_eq!(told(&wishes), [LAST, LAST, FREE]);
        assert_eq!(ordered(&wishes, &["wlan0 (192.0.2.1) #2"], Change::Cap(Some(9))).unwrap().len(), 1);
        assert_eq!(told(&wishes)[1], (PathUse::Regular, PathStatus::Available, Some(9)));
        ordered(&wishes, &["wlan0", "wlan0 (192.0.2.1) #2"], Change::Resume).unwrap();
        ordered(&wishes, &["wlan0 (192.0.2.1) #2"], Change::Cap(None)).unwrap();
        assert_eq!(told(&wishes), [FREE; 3]);
        let wrong = ordered(&wishes, &["wlan"], Change::Pause).unwrap_err();
        assert!(wrong.contains("no path `wlan`; there are: wlan0 (192.0.2.1), "), "{wrong}");
    }

    /// Names of interfaces may be longer than addresses.
    #[test]
    fn an_address_counts_before_its_interface_and_the_whole_name_before_both() {
        let wishes = Wishes::default();
        let path = "enx001122334455 (192.0.2.1)";
        let paths = [path.to_owned(), "wwan0 (198.51.100.7)".to_owned()];
        let use_after = |name: &str, change| {
            let order = Order { names: vec![name.to_owned()], change };
            wishes.order(&order, &paths).unwrap();
            wishes.terms(&BTreeMap::from([(PathId(0), path.to_owned())]))[&PathId(0)].limits.carries
        };
        assert_eq!(use_after("enx001122334455", Change::Metered), PathUse::Metered);
        assert_eq!(use_after("192.0.2.1", Change::Pause), PathUse::Paused);
        assert_eq!(use_after("192.0.2.1", Change::Resume), PathUse::Regular, "this one, for it was said");
        assert_eq!(use_after(path, Change::Metered), PathUse::Metered);
        assert_eq!(use_after("192.0.2.1", Change::Pause), PathUse::Metered);
        assert_eq!(use_after(path, Change::Resume), PathUse::Regular);
        for name in ["enx001122334455", "192.0.2.1"] {
            assert_eq!(use_after(name, Change::Resume), PathUse::Regular);
        }
        assert!(wishes.kept().by_name.is_empty(), "nothing is left to say");
    }

    #[test]
    fn preferring_makes_backups_of_the_rest_until_it_is_taken_back() {
        let wishes = Wishes::default();
        ordered(&wishes, &["198.51.100.7"], Change::Prefer).unwrap();
        assert_eq!(told(&wishes), [LAST, LAST, FREE]);
        ordered(&wishes, &["198.51.100.7"], Change::Resume).unwrap();
        assert_eq!(told(&wishes), [FREE; 3]);
    }

    #[test]
    fn the_last_path_is_not_paused() {
        let wishes = Wishes::default();
        ordered(&wishes, &["wlan0"], Change::Pause).unwrap();
        assert_eq!(told(&wishes)[0], (PathUse::Paused, PathStatus::Backup, None));
        let wrong = ordered(&wishes, &["wwan0"], Change::Pause).unwrap_err();
        assert!(wrong.contains("nothing would be left"), "{wrong}");
        assert_eq!(told(&wishes)[2], FREE, "a refused order changes nothing");
    }

    #[test]
    fn options_count_until_something_else_is_said_and_again_when_they_change() {
        let configured = |wishes: &Wishes, names: &[(&str, Change)]| {
            let order =
                |(name, change): &(&str, Change)| Order { names: vec![(*name).to_owned()], change: *change };
            wishes.configure(&names.iter().map(order).collect::<Vec<_>>()).unwrap();
            told(wishes)
        };
        let wishes = Wishes::default();
        let both = [("wwan0", Change::Metered), ("wwan0", Change::Cap(Some(9)))];
        let metered = (PathUse::Metered, PathStatus::Backup, Some(9));
        assert_eq!(configured(&wishes, &both), [FREE, FREE, metered], "no path need be there yet");
        ordered(&wishes, &["wwan0"], Change::Resume).unwrap();
        ordered(&wishes, &["wlan0"], Change::Backup).unwrap();
        let ordered_since = [LAST, LAST, (PathUse::Regular, PathStatus::Available, Some(9))];
        assert_eq!(configured(&wishes, &both), ordered_since, "options that say the same change nothing");
        assert_eq!(configured(&wishes, &both[..1])[2], (PathUse::Metered, PathStatus::Backup, None));
        assert_eq!(configured(&wishes, &[]), [LAST, LAST, FREE], "an order is not the options' to end");
    }

    #[test]
    fn wishes_are_as_many_as_may_be() {
        let wishes = Wishes::default();
        let many: Vec<String> = (0..=MAX_NAMES).map(|n| format!("if{n}")).collect();
        let order = Order { names: many.clone(), change: Change::Backup };
        assert!(wishes.order(&order, &many).unwrap_err().contains("64 names"));
        assert!(wishes.configure(&[order]).unwrap_err().contains("64 names"));
        let order = Order { names: many[1..].to_vec(), change: Change::Backup };
        assert_eq!(wishes.order(&order, &many).unwrap().len(), MAX_NAMES);
    }
}
