//! Keeps a connection's paths as they should be while interfaces come and go.

use std::{collections::BTreeMap, fmt::Display, net::SocketAddr, slice, time::Duration};

use mendpath::{Connection, OpenPathError, Path, PathEvent, PathId, PathUpdate, PathUse};
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};
use tracing::debug;

use super::{demand::Demand, follow::follow};
use crate::{
    backoff::Backoff,
    console::{mention, say},
    interfaces::{PathSpec, WantedPath, hindrance, local_addresses, usable_paths},
    status::{EventKind, Live, Silences},
    task::came_to,
};

/// How often the machine's interfaces are looked at.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// Between attempts to open a path that does not answer.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

type Added = (WantedPath, Result<Path, OpenPathError>);

/// The paths of one connection as the keeper knows them.
struct Keeper<'a> {
    live: &'a Live,
    connection: Connection,
    server: SocketAddr,
    open: BTreeMap<WantedPath, PathId>,
    /// Open in the transport, though their interface is gone: the last path cannot be removed
    /// before another is there.
    stale: Vec<PathId>,
    adding: JoinSet<Added>,
    under_way: Vec<WantedPath>,
    waiting: BTreeMap<WantedPath, (Instant, Backoff)>,
    silences: Silences,
    multipath: bool,
}

/// Opens and removes paths until the connection ends. `first` is the path it began with.
/// What happens is written down in `live`, and who has streams to spare hears of `demand`.
pub(crate) async fn keep_paths(
    connection: Connection,
    first: WantedPath,
    server: SocketAddr,
    specs: Vec<PathSpec>,
    demand: &Demand,
    live: &Live,
) {
    let mut keeper = Keeper::new(connection.clone(), first, server, live);
    keeper.tell_of_missing(&specs);
    let mut following = std::pin::pin!(follow(&connection, demand, live));
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut events = connection.path_updates();
    loop {
        tokio::select! {
            _ = look.tick() => {
                match usable_paths(&specs, server) {
                    Ok(wanted) => keeper.adjust(&wanted),
                    Err(error) => debug!(%error, "cannot list interfaces"),
                }
            }
            id = keeper.silences.overdue() => keeper.tell_of_silence(id),
            Some(added) = keeper.adding.join_next() => keeper.added(came_to(added)),
            event = events.next() => match event {
                Some(update) => keeper.tell(&update),
                None => return,
            },
            () = &mut following => {}
        }
    }
}

impl<'a> Keeper<'a> {
    fn new(connection: Connection, first: WantedPath, server: SocketAddr, live: &'a Live) -> Self {
        let id = connection.paths().first().map_or(PathId(0), Path::id);
        *live.path_names() = BTreeMap::from([(id, first.to_string())]);
        Self {
            live,
            multipath: connection.multipath_negotiated(),
            connection,
            server,
            open: BTreeMap::from([(first, id)]),
            stale: Vec::new(),
            adding: JoinSet::new(),
            under_way: Vec::new(),
            waiting: BTreeMap::new(),
            silences: Silences::default(),
        }
    }

    /// Says which of what `--path` names is no path yet, and why: the name may be mistyped.
    fn tell_of_missing(&self, specs: &[PathSpec]) {
        let have = local_addresses().unwrap_or_default();
        for spec in specs {
            if usable_paths(slice::from_ref(spec), self.server).is_ok_and(|paths| paths.is_empty()) {
                let why = hindrance(spec, &have, self.server);
                self.note(EventKind::Down, format_args!("no path over {spec} yet: {why}"));
            }
        }
    }

    fn adjust(&mut self, wanted: &[WantedPath]) {
        let known: Vec<PathId> = self.connection.paths().iter().map(Path::id).collect();
        self.open.retain(|_, id| known.contains(id));
        self.stale.retain(|id| known.contains(id));
        let before = self.live.path_names().len();
        self.live.path_names().retain(|id, _| known.contains(id));
        if self.live.path_names().len() < before {
            self.live.wishes.on_paths();
        }
        let wanted: Vec<WantedPath> = wanted.iter().map(|path| self.as_known(path)).collect();
        self.remove_unwanted(&wanted);
        if self.multipath {
            self.add_missing(&wanted);
        }
    }

    /// A path as it is known here. That the system does not say the number of its interface, for which a socket
    /// is needed and there may be none left, makes it no other; nor does a number that it says only now.
    fn as_known(&self, path: &WantedPath) -> WantedPath {
        let known = || self.open.keys().chain(&self.under_way).chain(self.waiting.keys());
        if known().any(|known| known == path) {
            return path.clone();
        }
        let is_it = |known: &&WantedPath| {
            let are_said = known.index.is_some() && path.index.is_some();
            !are_said && (&known.interface, known.ip, known.copy) == (&path.interface, path.ip, path.copy)
        };
        known().find(is_it).unwrap_or(path).clone()
    }

    fn remove_unwanted(&mut self, wanted: &[WantedPath]) {
        let gone: Vec<_> = self.open.keys().filter(|path| !wanted.contains(path)).cloned().collect();
        for path in gone {
            self.stale.extend(self.open.remove(&path));
            let paused = match !self.open.is_empty() && self.free().is_empty() {
                true => "; what is left is paused: `mendpath path resume` lets data over it",
                false => "",
            };
            self.note(EventKind::Down, format_args!("path {path} is gone{paused}"));
        }
        self.waiting.retain(|path, _| wanted.contains(path));
        self.stale.retain(|id| self.connection.path(*id).is_some_and(|path| path.close().is_err()));
    }

    fn add_missing(&mut self, wanted: &[WantedPath]) {
        let now = Instant::now();
        for path in wanted {
            let due = self.waiting.get(path).is_none_or(|(at, _)| *at <= now);
            if self.open.contains_key(path) || self.under_way.contains(path) || !due {
                continue;
            }
            debug!(%path, "opening");
            self.under_way.push(path.clone());
            let (connection, path) = (self.connection.clone(), path.clone());
            let options = path.options().remote(self.server);
            self.adding.spawn(async move { (path, connection.add_path(options).await) });
        }
    }

    fn added(&mut self, (path, result): Added) {
        self.under_way.retain(|other| *other != path);
        match result {
            Ok(open) => {
                self.note(EventKind::Up, format_args!("path {path} is open"));
                self.waiting.remove(&path);
                self.live.path_names().insert(open.id(), path.to_string());
                self.live.wishes.on_paths();
                self.open.insert(path, open.id());
            }
            Err(error) => {
                let entry = self.waiting.entry(path);
                let first_time = matches!(entry, std::collections::btree_map::Entry::Vacant(_));
                let name = entry.key().to_string();
                let (at, backoff) =
                    entry.or_insert_with(|| (Instant::now(), Backoff::new(FIRST_WAIT, LONGEST_WAIT)));
                *at = Instant::now() + backoff.next_wait();
                if first_time {
                    let text = format!("path {name} does not work: {error}; trying again from time to time");
                    self.note(EventKind::Down, text);
                }
                debug!(path = name, %error, "cannot open");
            }
        }
    }

    fn tell(&mut self, update: &PathUpdate) {
        debug!(?update, "path update");
        let PathUpdate::Event(event) = update else { return };
        match event {
            PathEvent::Suspect(id) => self.silences.begin(*id),
            // What has been reported gone, and perhaps replaced, does not come back.
            PathEvent::Resumed(id) if self.silences.end(*id) && self.is_open(*id) => {
                self.note(EventKind::Up, format_args!("path {} answers again", self.name(*id)));
            }
            PathEvent::Closed { path, .. } => {
                self.silences.end(*path);
                // Those that the keeper has closed were told of already.
                if self.is_open(*path) {
                    self.note(EventKind::Down, format_args!("path {} has ended", self.name(*path)));
                }
            }
            _ => {}
        }
    }

    fn tell_of_silence(&self, id: PathId) {
        // What is known to be gone was told already.
        if self.is_open(id) {
            let others = if self.another_answers(id) { "; the others carry its traffic" } else { "" };
            self.note(EventKind::Down, format_args!("path {} does not answer{others}", self.name(id)));
        }
    }

    fn another_answers(&self, id: PathId) -> bool {
        self.free().into_iter().any(|other| other != id && !self.silences.is_silent(other))
    }

    /// The open paths that are not paused.
    fn free(&self) -> Vec<PathId> {
        let terms = self.live.wishes.terms(&self.live.path_names());
        let paused = |id: &PathId| terms.get(id).is_some_and(|terms| terms.limits.carries == PathUse::Paused);
        self.open.values().filter(|id| !paused(id)).copied().collect()
    }

    fn is_open(&self, id: PathId) -> bool {
        self.open.values().any(|open| *open == id)
    }

    /// Tells the user, and those who look later.
    fn note(&self, kind: EventKind, text: impl Display) {
        self.live.journal.note(kind, &text);
        if kind == EventKind::Up { mention(text) } else { say(text) }
    }

    fn name(&self, id: PathId) -> String {
        let open = self.open.iter().find(|(_, open)| **open == id);
        open.map_or_else(|| format!("#{}", id.0), |(path, _)| path.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        association::tests::connected,
        status::{Change, Order},
    };

    fn loopback() -> WantedPath {
        WantedPath { interface: None, index: None, ip: [127, 0, 0, 1].into(), copy: 0 }
    }

    fn said(live: &Live) -> Vec<String> {
        live.journal.newest(usize::MAX).into_iter().map(|entry| entry.text).collect()
    }

    /// Else nothing comes any more, and nobody knows why.
    #[tokio::test]
    async fn that_only_paused_paths_are_left_is_told() {
        let (connection, _stream, _other) = connected().await;
        for is_paused in [false, true] {
            let live = Live::new(true);
            let mut keeper = Keeper::new(connection.clone(), loopback(), ([127, 0, 0, 1], 1).into(), &live);
            let second = WantedPath { copy: 1, ..loopback() };
            keeper.open.insert(second.clone(), PathId(7));
            live.path_names().insert(PathId(7), second.to_string());
            if is_paused {
                let order = Order { names: vec![second.to_string()], change: Change::Pause };
                let paths: Vec<String> = live.path_names().values().cloned().collect();
                live.wishes.order(&order, &paths).unwrap();
            }
            keeper.remove_unwanted(&[second]);
            let told = said(&live);
            let complains = told.iter().any(|text| text.contains("what is left is paused"));
            assert_eq!(complains, is_paused, "{told:?}");
        }
    }

    #[tokio::test]
    async fn what_was_asked_for_and_is_not_there_is_told() {
        let (connection, _stream, _other) = connected().await;
        let live = Live::new(true);
        let keeper = Keeper::new(connection.clone(), loopback(), ([127, 0, 0, 1], 1).into(), &live);
        keeper.tell_of_missing(&["127.0.0.1".parse().unwrap(), "wwan9".parse().unwrap()]);
        assert_eq!(said(&live), ["no path over wwan9 yet: there is no interface wwan9 with an address"]);
    }

    /// What is tied to the one of before never works again.
    #[tokio::test]
    async fn a_path_ends_with_its_interface_though_there_is_one_of_its_name() {
        let (connection, _stream, _other) = connected().await;
        let live = Live::new(true);
        let before = WantedPath { interface: Some("wg0".to_owned()), index: Some(7), ..loopback() };
        let server = connection.remote_address();
        let mut keeper = Keeper::new(connection.clone(), before.clone(), server, &live);
        keeper.remove_unwanted(std::slice::from_ref(&before));
        assert!(keeper.open.contains_key(&before));
        keeper.adjust(&[WantedPath { index: None, ..before.clone() }]);
        assert!(keeper.open.contains_key(&before), "with no file left, the system does not say");
        keeper.remove_unwanted(&[WantedPath { index: Some(8), ..before.clone() }]);
        assert!(!keeper.open.contains_key(&before));
        assert_eq!(said(&live), ["path wg0 (127.0.0.1) is gone"]);

        // Nor is it another if that is over: the only path of a connection would not come back, if its server
        // takes but one.
        let unsaid = WantedPath { index: None, ..before.clone() };
        let mut keeper = Keeper::new(connection.clone(), unsaid.clone(), server, &live);
        keeper.adjust(&[before]);
        assert!(keeper.open.contains_key(&unsaid) && keeper.stale.is_empty());
    }

    /// As where the server is gone, or what all paths share.
    #[tokio::test]
    async fn of_paths_that_are_all_silent_none_carries_the_traffic_of_another() {
        let (connection, _stream, _other) = connected().await;
        tokio::time::pause();
        let live = Live::new(true);
        let mut keeper = Keeper::new(connection.clone(), loopback(), connection.remote_address(), &live);
        let (one, other) = (keeper.open[&loopback()], PathId(7));
        keeper.open.insert(WantedPath { copy: 1, ..loopback() }, other);
        for (id, with_others) in [(one, true), (other, false)] {
            keeper.silences.begin(id);
            assert_eq!(keeper.silences.overdue().await, id);
            keeper.tell_of_silence(id);
            let told = said(&live).into_iter().find(|text| text.contains(&keeper.name(id))).unwrap();
            assert_eq!(told.contains("the others carry its traffic"), with_others, "{told}");
        }
    }

    /// The interface went away, and a new path took the place of this one: nobody cares that the old
    /// one answers after all.
    #[tokio::test]
    async fn a_path_that_is_gone_does_not_come_back() {
        let (connection, _stream, _other) = connected().await;
        tokio::time::pause();
        let first: WantedPath =
            usable_paths(&["127.0.0.1".parse().unwrap()], ([127, 0, 0, 1], 1).into()).unwrap().remove(0);
        let server = connection.remote_address();
        for is_gone in [false, true] {
            let live = Live::new(true);
            let mut keeper = Keeper::new(connection.clone(), first.clone(), server, &live);
            let id = keeper.open[&first];
            keeper.silences.begin(id);
            let silent = keeper.silences.overdue().await;
            keeper.tell_of_silence(silent);
            if is_gone {
                keeper.remove_unwanted(&[]);
            }
            keeper.tell(&PathUpdate::Event(PathEvent::Resumed(id)));
            let said = said(&live);
            assert_eq!(said.iter().any(|text| text.contains("answers again")), !is_gone, "{said:?}");
        }
    }
}
