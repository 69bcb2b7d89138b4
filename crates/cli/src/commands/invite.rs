//! `mendpath invite`: accounts of a server, whether it runs or not.

mod exchange;
mod qr;
mod row;

use std::path::{Path, PathBuf};

use figures::TextTable;

use self::row::{AccountRow, Shown};
use super::print;
use crate::{
    accounts::{AccountId, Name, OWNER, Record, STORE_FILE, Store, Terms, now},
    args::{AddArgs, ChangeArgs, InviteArgs, InviteCommand, InviteListArgs, RevokeArgs, ShowArgs, TermsArgs},
    config,
    console::say,
    failure::{Failure, io_reason},
    identity::{Identity, default_state_dir},
    invitation::Invitation,
    target::Target,
    token::{ID_BYTES, Service},
};

pub(super) fn run(args: InviteArgs) -> Result<(), Failure> {
    let mut office = Office::open(&state(args.state.state)?)?;
    match args.command {
        InviteCommand::Add(args) => office.add(args),
        InviteCommand::List(args) => office.list(&args),
        InviteCommand::Show(args) => office.show(&args),
        InviteCommand::Change(args) => office.change(args),
        InviteCommand::Export => office.export(),
        InviteCommand::Import(args) => office.import(&args.file),
        InviteCommand::Revoke(args) => office.revoke(&args),
    }
}

/// The state that was named, or that of one's own server, or that of the machine's.
fn state(named: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let by_variable = || std::env::var_os("MENDPATH_STATE").filter(|state| !state.is_empty());
    if let Some(named) = named.or_else(|| by_variable().map(PathBuf::from)) {
        return Ok(named);
    }
    let own = default_state_dir()?;
    let machines = if own.join(STORE_FILE).exists() { None } else { config::system_state()? };
    Ok(machines.unwrap_or(own))
}

/// What invitations are made from.
struct Office {
    identity: Identity,
    store: Store,
    /// Where clients reach the server.
    place: Target,
    /// And others with the same keys.
    also: Vec<Target>,
}

impl Office {
    /// Of a server that has run: what would be made elsewhere opens nothing.
    fn open(state: &Path) -> Result<Self, Failure> {
        let no_server = |wrong: &str| {
            Failure::usage(
                format!("cannot invite anybody to a server with its state in {}", state.display()),
                wrong,
                "Start `mendpath server` once, or name its directory with --state",
            )
        };
        match state.join(STORE_FILE).try_exists() {
            Ok(true) => {}
            Ok(false) => return Err(no_server("none has run there")),
            Err(error) => {
                return Err(Failure::new(
                    format!("cannot look into the state directory {}", state.display()),
                    io_reason(&error),
                    "Run it as the user that the server runs as, or as root, or name another directory with --state",
                ));
            }
        }
        let identity = Identity::load_or_create(state)?;
        let mut store = Store::open(state)?;
        store.ensure_owner(AccountId(identity.tokens.invitation_id()))?;
        let mut places = store.place()?.into_iter();
        let place = places.next().ok_or_else(|| no_server("it has not said how clients reach it"))?;
        Ok(Self { identity, store, place, also: places.collect() })
    }

    fn invitation(&self, id: AccountId) -> Invitation {
        let token = self.identity.tokens.token(Service::Proxy, id.0);
        let (server, also) = (self.place.clone(), self.also.clone());
        Invitation { token, server, also, pin: self.identity.server.pin() }
    }

    fn add(&mut self, args: AddArgs) -> Result<(), Failure> {
        let terms = change_terms(Terms::default(), args.terms);
        let record = |name| Record::new(AccountId(random_id()), name, terms.clone());
        let records: Vec<_> = args.names.into_iter().map(record).collect();
        self.store.add(&records)?;
        print(&records.iter().map(|record| format!("{}\n", self.invitation(record.id))).collect::<String>())?;
        Ok(())
    }

    fn list(&self, args: &InviteListArgs) -> Result<(), Failure> {
        let now = now();
        let records = self.store.list()?;
        let wanted = records.iter().filter(|record| args.all || record.revoked.is_none());
        let rows = wanted.map(|record| AccountRow::new(record, now));
        if args.json {
            return print_json(&rows.collect::<Vec<_>>());
        }
        let table = TextTable { headings: &row::HEADINGS, words: &[0, 1, 5, 6, 7], indent: 0 };
        print(&table.text(rows.map(|row| row.cells())))?;
        Ok(())
    }

    fn show(&self, args: &ShowArgs) -> Result<(), Failure> {
        let record = self.store.find(&args.name)?;
        let (account, invitation) = (AccountRow::new(&record, now()), self.invitation(record.id).to_string());
        if args.json {
            return print_json(&Shown { account, invitation });
        }
        let headed = row::HEADINGS.iter().zip(account.cells());
        let lines: String = headed.map(|(heading, cell)| format!("{heading:<10} {cell}\n")).collect();
        print(&format!("{lines}\n{invitation}\n"))?;
        if args.qr {
            print(&format!("\n{}", qr::picture(&invitation)))?;
        }
        Ok(())
    }

    fn change(&mut self, args: ChangeArgs) -> Result<(), Failure> {
        let before = self.store.find(&args.name)?;
        let terms = change_terms(before.terms, args.terms);
        self.store.set_terms(&args.name, &terms, args.reset_usage)?;
        let record = self.store.find(&args.name)?;
        if let Some(over) = record.over(now()) {
            say(format_args!("{} is {} on these terms", args.name, over.name()));
        }
        Ok(())
    }

    fn revoke(&mut self, args: &RevokeArgs) -> Result<(), Failure> {
        if args.names.contains(&Name::owner()) {
            return Err(Failure::usage(
                format!("cannot revoke {OWNER}"),
                "it is the account of the invitation that the server itself prints",
                "Delete token-secret in the state directory and start the server again, which makes every invitation void",
            ));
        }
        self.store.revoke(&args.names, now())?;
        Ok(())
    }
}

/// `terms` with what was named.
fn change_terms(mut terms: Terms, args: TermsArgs) -> Terms {
    if let Some(expires) = args.expires {
        terms.expires = expires.value();
    }
    if let Some(quota) = args.quota {
        terms.quota = quota.value();
    }
    if let Some(rate) = args.rate {
        terms.rate = rate.value();
    }
    if !args.allow.is_empty() {
        // `any` beside a network is any.
        let networks: Option<Vec<_>> = args.allow.into_iter().map(|network| network.value()).collect();
        terms.allow = networks.unwrap_or_default();
    }
    terms
}

fn random_id() -> [u8; ID_BYTES] {
    use ring::rand::SecureRandom as _;
    let mut id = [0; ID_BYTES];
    ring::rand::SystemRandom::new().fill(&mut id).expect("the system has random numbers");
    id
}

fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    print(&(serde_json::to_string_pretty(value).expect("what we write has text for keys") + "\n"))
}

#[cfg(test)]
mod tests {
    use units::{BitRate, Bytes};

    use super::*;
    use crate::args::Limit;

    /// That a server has to run first is no help to who may not see whether one has.
    #[test]
    fn a_state_that_cannot_be_looked_into_is_not_one_where_no_server_has_run() {
        let dir = tempfile::tempdir().unwrap();
        let told = |state: &Path| Office::open(state).err().expect("there is no server").to_string();
        assert!(told(dir.path()).contains("none has run there. Start `mendpath server` once"));
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let told = told(&file);
        assert!(told.contains("there is a file in the place of a directory. Run it as the user"), "{told}");
    }

    #[test]
    fn what_is_not_named_stays() {
        let networks = vec!["192.0.2.0/24".parse().unwrap()];
        let (quota, rate) = (Some(Bytes(5)), Some(BitRate::from_mbps(1)));
        let before = Terms { expires: None, quota, rate, allow: networks.clone() };
        let nothing = || TermsArgs { expires: None, quota: None, rate: None, allow: Vec::new() };
        assert_eq!(change_terms(before.clone(), nothing()), before);
        let args = TermsArgs { quota: Some(Limit::None), allow: vec![Limit::None], ..nothing() };
        assert_eq!(change_terms(before, args), Terms { quota: None, rate, ..Terms::default() });
        let args =
            TermsArgs { quota: Some(Limit::At(Bytes(5))), allow: vec![Limit::At(networks[0])], ..nothing() };
        assert_eq!(
            change_terms(Terms::default(), args),
            Terms { quota, allow: networks, ..Terms::default() }
        );
    }
}
