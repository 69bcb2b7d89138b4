//! Accounts of a server: who was invited, on which terms, and what they have used of it.
//!
//! `mendpath invite` and the server open the same [`Store`], a file in the state directory, so that
//! invitations can be made and revoked whether a server runs or not
//! (docs/decisions/0019-accounts.md). The server holds all accounts in memory ([`Accounts`]), looks
//! for changes several times a second, and writes down every [`FLUSH`] what was used.
//!
//! A token's id is the account's, and the token's tag proves that this server's secret made it: who
//! reads the store alone can make no token. The account that the server's own invitation belongs to
//! is called [`OWNER`], and cannot be revoked.

mod account;
mod book;
mod meter;
mod pace;
mod record;
mod store;
mod terms;

pub use account::Account;
pub(crate) use account::{Direction, Row};
pub use book::{Accounts, FLUSH, LOOK};
pub(crate) use meter::Metered;
pub use record::{AccountId, Name, NameError, Record, Usage};
pub(crate) use store::{LATEST, millis, moment};
pub use store::{STORE_FILE, Store, StoreError};
pub use terms::{Over, Terms, parse_expiry};

/// The account of whoever has the invitation that the server prints.
pub const OWNER: &str = "owner";

/// The time of day. Terms end at a date, whatever the server did meanwhile.
#[expect(clippy::disallowed_methods, reason = "the command owns the clock")]
pub fn now() -> std::time::SystemTime {
    std::time::SystemTime::now()
}
