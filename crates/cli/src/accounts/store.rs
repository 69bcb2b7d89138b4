//! Where accounts are kept: a database of SQLite, which several processes may have open at a time,
//! and which is whole whenever one of them is killed. What was changed is on the disk before anybody
//! is told.

use std::{
    fs, io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
    time::{Duration, SystemTime},
};

use rusqlite::{
    Connection, OptionalExtension as _, Row, Statement, Transaction, TransactionBehavior, params,
};
use units::{BitRate, Bytes};

use super::{AccountId, Name, Record, Terms, Usage, now};
use crate::{
    failure::{Failure, io_reason},
    identity::hand_over,
    target::Target,
};

/// The file's name in the state directory. SQLite keeps two more beside it while it is open.
pub const STORE_FILE: &str = "accounts.db";

/// For how long others may be busy writing.
const PATIENCE: Duration = Duration::from_secs(5);

/// The number of [`SCHEMA`]; a later one says how it gets there from here.
const VERSION: u32 = 1;

/// Moments are in ms since 1970, rates in bit/s. Every change of an account gets the next number,
/// so that a server reads only what is new to it. Nothing is ever deleted: what was revoked stays
/// so, but for the owner of a secret that comes back.
const SCHEMA: &str = "
    CREATE TABLE account (
        id BLOB PRIMARY KEY, name TEXT NOT NULL, created INTEGER NOT NULL, expires INTEGER, quota INTEGER,
        rate INTEGER, allow TEXT NOT NULL, revoked INTEGER, change INTEGER NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX account_name ON account (name) WHERE revoked IS NULL;
    CREATE INDEX account_change ON account (change);
    CREATE TABLE usage (
        id BLOB PRIMARY KEY REFERENCES account (id), up INTEGER NOT NULL, down INTEGER NOT NULL, seen INTEGER
    ) STRICT;
    CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    PRAGMA user_version = 1;
";

const SELECT: &str = "SELECT account.id, name, created, expires, quota, rate, allow, revoked,
    coalesce(up, 0), coalesce(down, 0), seen, change FROM account LEFT JOIN usage USING (id)";

/// The open store.
#[derive(Debug)]
pub struct Store {
    database: Connection,
    /// As SQLite numbers what others do to the file.
    seen_version: Option<i64>,
    /// The newest change that was read.
    seen_change: i64,
}

/// Why a change cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is one of that name.
    #[error("there is an account {0} already")]
    Exists(Name),
    /// There is none of that name.
    #[error("there is no account {0}")]
    Unknown(Name),
    /// The file cannot be used.
    #[error("{}", reason(.0))]
    Database(#[from] rusqlite::Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let next = match &error {
            StoreError::Exists(name) => {
                format!("Choose another name, or first: mendpath invite revoke {name}")
            }
            StoreError::Unknown(_) => "See those that there are: mendpath invite list".to_owned(),
            StoreError::Database(_) => {
                "Check that the disk has room, or put a copy of the file in its place".to_owned()
            }
        };
        Self::new("cannot use the accounts", error, next)
    }
}

impl Store {
    /// Opens the store in the state directory `dir`, and makes it if there is none.
    ///
    /// # Errors
    /// When it cannot be used, or others may read it.
    pub fn open(dir: &Path) -> Result<Self, Failure> {
        let path = dir.join(STORE_FILE);
        let failed = |wrong: String| {
            let next = "Check who owns it and that the disk has room; a copy of it can be put in its place";
            Failure::new(format!("cannot use {}", path.display()), wrong, next)
        };
        let mode = private_file(&path).map_err(|error| failed(io_reason(&error)))?;
        if mode & 0o077 != 0 {
            return Err(Failure::new(
                format!("refusing to use {}", path.display()),
                format!("its mode {:03o} opens it to other users", mode & 0o777),
                format!("Run: chmod 600 {}", path.display()),
            ));
        }
        Self::open_file(&path).map_err(|error| failed(reason(&error)))
    }

    fn open_file(path: &Path) -> rusqlite::Result<Self> {
        let mut database = Connection::open(path)?;
        database.busy_timeout(PATIENCE)?;
        // Readers and the one who writes do not wait for each other; each commit is on the disk.
        database.pragma_update(None, "journal_mode", "wal")?;
        database.pragma_update(None, "synchronous", "full")?;
        let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        match transaction.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0))? {
            0 => transaction.execute_batch(SCHEMA)?,
            VERSION => {}
            other => return Err(rusqlite::Error::IntegralValueOutOfRange(0, other.into())),
        }
        transaction.commit()?;
        Ok(Self { database, seen_version: None, seen_change: 0 })
    }

    /// Adds accounts, all or none.
    ///
    /// # Errors
    /// When one of the names is taken, or the file cannot be used.
    pub fn add(&mut self, records: &[Record]) -> Result<(), StoreError> {
        self.change(|transaction, change| {
            let mut statement = transaction.prepare(INSERT)?;
            records.iter().try_for_each(|record| insert(&mut statement, change, record))
        })
    }

    /// Makes sure that there is the account of the server's own invitation. A server whose secret was
    /// replaced has another one, and the old invitation is good for nothing until that secret is back.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn ensure_owner(&mut self, id: AccountId) -> Result<(), StoreError> {
        let name = Name::owner();
        match self.find(&name) {
            Ok(record) if record.id == id => return Ok(()),
            Ok(_) | Err(StoreError::Unknown(_)) => {}
            Err(error) => return Err(error),
        }
        self.change(|transaction, change| {
            let revoke = "UPDATE account SET revoked = ?2, change = ?3 WHERE name = ?1 AND revoked IS NULL";
            transaction.execute(revoke, params![name.as_str(), millis(now()), change])?;
            let restore = "UPDATE account SET revoked = NULL, change = ?2 WHERE id = ?1";
            if transaction.execute(restore, params![id.0, change])? == 0 {
                let mut statement = transaction.prepare(INSERT)?;
                insert(&mut statement, change, &Record::new(id, name, Terms::default()))?;
            }
            Ok(())
        })
    }

    /// Gives an account other terms, and forgets its usage if `forget_usage`.
    ///
    /// # Errors
    /// When there is none of that name, or the file cannot be used.
    pub fn set_terms(&mut self, name: &Name, terms: &Terms, forget_usage: bool) -> Result<(), StoreError> {
        self.change(|transaction, change| {
            let terms = Columns::from(terms);
            let changed = transaction.execute(
                "UPDATE account SET expires = ?2, quota = ?3, rate = ?4, allow = ?5, change = ?6
                 WHERE name = ?1 AND revoked IS NULL",
                params![name.as_str(), terms.expires, terms.quota, terms.rate, terms.allow, change],
            )?;
            if forget_usage {
                transaction.execute(
                    "UPDATE usage SET up = 0, down = 0
                     WHERE id = (SELECT id FROM account WHERE name = ?1 AND revoked IS NULL)",
                    [name.as_str()],
                )?;
            }
            if changed == 0 { Err(StoreError::Unknown(name.clone())) } else { Ok(()) }
        })
    }

    /// Revokes accounts, all or none.
    ///
    /// # Errors
    /// When there is none of one of the names, or the file cannot be used.
    pub fn revoke(&mut self, names: &[Name], now: SystemTime) -> Result<(), StoreError> {
        self.change(|transaction, change| {
            let sql = "UPDATE account SET revoked = ?2, change = ?3 WHERE name = ?1 AND revoked IS NULL";
            let mut revoke = transaction.prepare(sql)?;
            for name in names {
                if revoke.execute(params![name.as_str(), millis(now), change])? == 0 {
                    return Err(StoreError::Unknown(name.clone()));
                }
            }
            Ok(())
        })
    }

    /// Takes over accounts of another server with the same secret, all or none: new ones are added,
    /// those that are here have the terms that they have there. What was revoked here or there
    /// stays so, and what was used is each server's own. Returns how many differed.
    ///
    /// # Errors
    /// When the name of a new one is taken, or the file cannot be used.
    pub fn merge(&mut self, records: &[Record]) -> Result<usize, StoreError> {
        self.change(|transaction, change| {
            let mut add = transaction.prepare(INSERT)?;
            let mut update = transaction.prepare(
                "UPDATE account SET expires = ?2, quota = ?3, rate = ?4, allow = ?5,
                     revoked = coalesce(revoked, ?6), change = ?7
                 WHERE id = ?1 AND (expires IS NOT ?2 OR quota IS NOT ?3 OR rate IS NOT ?4 OR allow IS NOT ?5
                     OR revoked IS NULL AND ?6 IS NOT NULL)",
            )?;
            let mut known = transaction.prepare("SELECT 1 FROM account WHERE id = ?1")?;
            let mut differed = 0;
            // What was revoked first: its name may be that of another one by now.
            let (revoked, others): (Vec<_>, Vec<_>) =
                records.iter().partition(|record| record.revoked.is_some());
            for record in revoked.into_iter().chain(others) {
                if known.exists([record.id.0])? {
                    let Columns { expires, quota, rate, allow } = Columns::from(&record.terms);
                    let revoked = record.revoked.map(millis);
                    let row = params![record.id.0, expires, quota, rate, allow, revoked, change];
                    differed += update.execute(row)?;
                } else {
                    insert(&mut add, change, record)?;
                    differed += 1;
                }
            }
            Ok(differed)
        })
    }

    /// Every account, revoked ones included, by name.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn list(&self) -> Result<Vec<Record>, StoreError> {
        let mut select = self.database.prepare(&format!("{SELECT} ORDER BY name, created"))?;
        let records = select.query_map([], |row| Ok(record(row)?.0))?.collect::<Result<_, _>>()?;
        Ok(records)
    }

    /// The account of that name, unless it was revoked.
    ///
    /// # Errors
    /// When there is none, or the file cannot be used.
    pub fn find(&self, name: &Name) -> Result<Record, StoreError> {
        let sql = format!("{SELECT} WHERE name = ?1 AND revoked IS NULL");
        let found = self.database.query_row(&sql, [name.as_str()], |row| Ok(record(row)?.0)).optional()?;
        found.ok_or_else(|| StoreError::Unknown(name.clone()))
    }

    /// What is new since this was last asked: the first time, everything.
    ///
    /// # Errors
    /// When the file cannot be used; what is new is then still so.
    pub fn news(&mut self) -> Result<Vec<Record>, StoreError> {
        let version = self.database.pragma_query_value(None, "data_version", |row| row.get(0))?;
        if self.seen_version == Some(version) {
            return Ok(Vec::new());
        }
        let mut select = self.database.prepare(&format!("{SELECT} WHERE change > ?1"))?;
        let found = select.query_map([self.seen_change], record)?.collect::<Result<Vec<_>, _>>()?;
        let newest = found.iter().map(|(_, change)| *change).max();
        (self.seen_version, self.seen_change) = (Some(version), newest.unwrap_or(self.seen_change));
        Ok(found.into_iter().map(|(record, _)| record).collect())
    }

    /// Adds to what accounts have used.
    ///
    /// # Errors
    /// When the file cannot be used; nothing is added then.
    pub fn add_usage(
        &mut self,
        used: impl IntoIterator<Item = (AccountId, Usage)>,
        now: SystemTime,
    ) -> Result<(), StoreError> {
        let transaction = self.database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut add = transaction.prepare(
            "INSERT INTO usage (id, up, down, seen) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (id)
             DO UPDATE SET up = up + excluded.up, down = down + excluded.down, seen = excluded.seen",
        )?;
        for (id, Usage { up, down }) in used {
            add.execute(params![id.0, whole(up), whole(down), millis(now)])?;
        }
        drop(add);
        Ok(transaction.commit()?)
    }

    /// Where clients reach the server, and others with the same keys, as it said when it last
    /// began; empty if none ever did.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn place(&self) -> Result<Vec<Target>, StoreError> {
        let sql = "SELECT value FROM fact WHERE name = 'place'";
        let place: Option<String> = self.database.query_row(sql, [], |row| row.get(0)).optional()?;
        let places = place.as_deref().unwrap_or_default().split(' ');
        Ok(places.map_while(|place| place.parse().ok()).collect())
    }

    /// Says where clients reach the server, and others with the same keys, for invitations to come.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn set_place<'a>(&self, places: impl IntoIterator<Item = &'a Target>) -> Result<(), StoreError> {
        let sql = "INSERT INTO fact (name, value) VALUES ('place', ?1)
                   ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE value != excluded.value";
        let places: Vec<_> = places.into_iter().map(Target::to_string).collect();
        self.database.execute(sql, [places.join(" ")])?;
        Ok(())
    }

    /// Changes accounts, with the number of the change, or not at all.
    fn change<T>(
        &mut self,
        make: impl FnOnce(&Transaction<'_>, i64) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        // From the beginning nobody else writes: numbers are in the order of commits.
        let transaction = self.database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let sql = "SELECT coalesce(max(change), 0) + 1 FROM account";
        let change = transaction.query_row(sql, [], |row| row.get(0))?;
        let made = make(&transaction, change)?;
        transaction.commit()?;
        Ok(made)
    }
}

const INSERT: &str = "
    INSERT INTO account (id, name, created, expires, quota, rate, allow, revoked, change)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

fn insert(statement: &mut Statement<'_>, change: i64, record: &Record) -> Result<(), StoreError> {
    let (id, name, created) = (record.id.0, record.name.as_str(), millis(record.created));
    let Columns { expires, quota, rate, allow } = Columns::from(&record.terms);
    let revoked = record.revoked.map(millis);
    let inserted =
        statement.execute(params![id, name, created, expires, quota, rate, allow, revoked, change]);
    match inserted {
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) => {
            Err(StoreError::Exists(record.name.clone()))
        }
        other => other.map(|_| ()).map_err(StoreError::from),
    }
}

/// Terms as the table has them.
struct Columns {
    expires: Option<i64>,
    quota: Option<i64>,
    rate: Option<i64>,
    allow: String,
}

impl From<&Terms> for Columns {
    fn from(terms: &Terms) -> Self {
        let allow: Vec<_> = terms.allow.iter().map(ToString::to_string).collect();
        Self {
            expires: terms.expires.map(millis),
            quota: terms.quota.map(|Bytes(quota)| whole(quota)),
            rate: terms.rate.map(|BitRate(rate)| whole(rate)),
            allow: allow.join(" "),
        }
    }
}

/// A row of [`SELECT`], and the number of its change.
fn record(row: &Row<'_>) -> rusqlite::Result<(Record, i64)> {
    let text = |column| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
    let unreadable = |column: usize, error: Box<dyn std::error::Error + Send + Sync>| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, error)
    };
    let allow = text(6)?.split_whitespace().map(str::parse).collect::<Result<_, _>>();
    let number = |column| row.get::<_, Option<i64>>(column).map(|n| n.map(i64::unsigned_abs));
    let terms = Terms {
        expires: number(3)?.map(moment),
        quota: number(4)?.map(Bytes),
        rate: number(5)?.map(BitRate),
        allow: allow.map_err(|error: ipnet::AddrParseError| unreadable(6, error.into()))?,
    };
    let record = Record {
        id: AccountId(row.get(0)?),
        name: text(1)?.parse().map_err(|error: super::NameError| unreadable(1, error.into()))?,
        created: number(2)?.map(moment).unwrap_or(SystemTime::UNIX_EPOCH),
        terms,
        revoked: number(7)?.map(moment),
        usage: Usage { up: number(8)?.unwrap_or(0), down: number(9)?.unwrap_or(0) },
        seen: number(10)?.map(moment),
    };
    Ok((record, row.get(11)?))
}

/// SQLite's whole numbers have a sign.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Milliseconds since 1970.
pub(crate) fn millis(moment: SystemTime) -> i64 {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The latest moment that a date can say, in ms since 1970.
pub(crate) const LATEST: u64 = 250_000_000_000_000;

/// The moment so many milliseconds after 1970, or [`LATEST`].
pub(crate) fn moment(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis.min(LATEST))
}

fn reason(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::IntegralValueOutOfRange(_, version) => {
            format!("a later version of mendpath made it (its format is {version}, this one's {VERSION})")
        }
        rusqlite::Error::SqliteFailure(_, Some(text)) => text.clone(),
        other => other.to_string(),
    }
}

/// Makes sure that there is a file which only its user may read, and returns its mode.
fn private_file(path: &Path) -> io::Result<u32> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    // What is new is not at the end of a link: what root made there would not be its user's to get.
    let file = match options.clone().create_new(true).open(path) {
        Ok(file) => {
            hand_over(&file, path);
            file
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(path)?,
        Err(error) => return Err(error),
    };
    Ok(file.metadata()?.permissions().mode())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        (dir, store)
    }

    fn account(number: u64, name: &str, terms: Terms) -> Record {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_be_bytes());
        let created = moment(1_800_000_000_000);
        Record { created, ..Record::new(AccountId(id), name.parse().unwrap(), terms) }
    }

    fn terms() -> Terms {
        Terms {
            expires: Some(moment(1_900_000_000_000)),
            quota: Some(Bytes(100_000_000_000)),
            rate: Some(BitRate::from_mbps(50)),
            allow: vec!["192.0.2.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()],
        }
    }

    #[test]
    fn everything_reads_back_also_by_another() {
        let (dir, mut store) = store();
        let (alice, bob) = (account(1, "alice", terms()), account(2, "bob", Terms::default()));
        store.add(&[bob.clone(), alice.clone()]).unwrap();
        let other = Store::open(dir.path()).unwrap();
        assert_eq!(other.list().unwrap(), [alice.clone(), bob]);
        assert_eq!(other.find(&alice.name).unwrap(), alice);
        assert_eq!(store.place().unwrap(), []);
        for places in [&["a.example:1"][..], &["[2001:db8::1]:2", "b.example:1"]] {
            let places: Vec<Target> = places.iter().map(|place| place.parse().unwrap()).collect();
            store.set_place(&places).unwrap();
            assert_eq!(other.place().unwrap(), places);
        }
    }

    #[test]
    fn another_server_s_accounts_are_taken_over() {
        let ((_here, mut here), (_there, mut there)) = (store(), store());
        let (alice, bob) = (account(1, "alice", terms()), account(2, "bob", Terms::default()));
        there.add(&[alice.clone(), bob.clone()]).unwrap();
        assert_eq!(here.merge(&there.list().unwrap()).unwrap(), 2);
        assert_eq!(here.merge(&there.list().unwrap()).unwrap(), 0, "nothing is new");
        assert_eq!(here.list().unwrap(), [alice.clone(), bob.clone()]);

        // Usage is each server's own; terms and revocations are not.
        here.add_usage([(alice.id, Usage { up: 1, down: 2 })], moment(1)).unwrap();
        there.set_terms(&alice.name, &Terms::default(), false).unwrap();
        there.revoke(std::slice::from_ref(&bob.name), moment(1_900_000_000_000)).unwrap();
        let second = account(3, "bob", Terms::default());
        there.add(std::slice::from_ref(&second)).unwrap();
        assert_eq!(here.merge(&there.list().unwrap()).unwrap(), 3, "also where a name is used again");
        assert_eq!(here.find(&bob.name).unwrap(), second);
        let alice = here.find(&alice.name).unwrap();
        assert_eq!((alice.terms, alice.usage.sum()), (Terms::default(), 3));
        // A list from before does not bring back what was revoked since.
        assert_eq!(here.merge(std::slice::from_ref(&bob)).unwrap(), 0);
        assert!(here.list().unwrap().iter().any(|found| found.id == bob.id && found.revoked.is_some()));

        let taken = account(9, "alice", Terms::default());
        assert!(matches!(here.merge(&[taken, account(8, "eve", terms())]), Err(StoreError::Exists(_))));
        assert!(here.find(&"eve".parse().unwrap()).is_err(), "all or none");
    }

    #[test]
    fn names_are_taken_until_they_are_revoked() {
        let (_dir, mut store) = store();
        let alice = account(1, "alice", Terms::default());
        store.add(std::slice::from_ref(&alice)).unwrap();
        let again = [account(3, "carol", Terms::default()), account(2, "alice", Terms::default())];
        assert!(matches!(store.add(&again), Err(StoreError::Exists(name)) if name == alice.name));
        assert_eq!(store.list().unwrap().len(), 1, "all or none");
        let name = std::slice::from_ref(&alice.name);
        store.revoke(name, now()).unwrap();
        assert!(matches!(store.revoke(name, now()), Err(StoreError::Unknown(_))));
        assert!(matches!(store.find(&alice.name), Err(StoreError::Unknown(_))));
        store.add(&again).unwrap();
        let all = store.list().unwrap();
        assert_eq!(all.iter().filter(|record| record.name == alice.name).count(), 2);
        assert_eq!(store.find(&alice.name).unwrap().id, again[1].id);
    }

    #[test]
    fn a_server_hears_of_changes_once() {
        let (dir, mut store) = store();
        let mut server = Store::open(dir.path()).unwrap();
        store.add(&[account(1, "alice", terms()), account(2, "bob", terms())]).unwrap();
        assert_eq!(server.news().unwrap().len(), 2);
        assert_eq!(server.news().unwrap(), []);
        let usage = Usage { up: 1, down: 2 };
        server.add_usage([(AccountId(account(1, "x", terms()).id.0), usage)], now()).unwrap();
        assert_eq!(server.news().unwrap(), [], "its own doings are no news");
        store.set_terms(&"alice".parse().unwrap(), &Terms::default(), false).unwrap();
        let news = server.news().unwrap();
        assert_eq!((news.len(), news[0].usage, &news[0].terms), (1, usage, &Terms::default()));
        store.set_terms(&"alice".parse().unwrap(), &Terms::default(), true).unwrap();
        assert_eq!(server.news().unwrap()[0].usage, Usage::default());
        store.revoke(&["bob".parse().unwrap()], now()).unwrap();
        assert!(server.news().unwrap()[0].revoked.is_some());
    }

    #[test]
    fn usage_adds_up() {
        let (_dir, mut store) = store();
        let alice = account(1, "alice", Terms::default());
        store.add(std::slice::from_ref(&alice)).unwrap();
        for _ in 0..3 {
            store.add_usage([(alice.id, Usage { up: 5, down: 70 })], now()).unwrap();
        }
        let found = store.find(&alice.name).unwrap();
        assert_eq!(found.usage, Usage { up: 15, down: 210 });
        assert!(found.seen.is_some());
    }

    #[test]
    fn what_is_no_store_is_said_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(STORE_FILE);
        fs::write(&path, "nonsense".repeat(100)).unwrap();
        let error = || Store::open(dir.path()).unwrap_err().to_string();
        assert!(error().contains("chmod 600"), "{}", error());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(error().contains("not a database"), "{}", error());
        fs::remove_file(&path).unwrap();
        Store::open(dir.path()).unwrap().database.pragma_update(None, "user_version", 9).unwrap();
        assert!(error().contains("a later version of mendpath made it"), "{}", error());
    }

    #[test]
    fn what_root_makes_belongs_to_the_server() {
        use std::os::unix::fs::{MetadataExt as _, chown};
        let (dir, owner) = (tempfile::tempdir().unwrap(), (61_234, 61_235));
        // Others than root cannot make such a directory.
        if chown(dir.path(), Some(owner.0), Some(owner.1)).is_err() {
            return;
        }
        Store::open(dir.path()).unwrap();
        let made = fs::metadata(dir.path().join(STORE_FILE)).unwrap();
        assert_eq!((made.uid(), made.gid(), made.mode() & 0o777), (owner.0, owner.1, 0o600));
    }
}
