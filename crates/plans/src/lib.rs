//! Reading plans: what the folder `plans` holds is TOML, whether it is simulated or measured.
//!
//! Values are serde's business. A plan whose shape is known is a type: [`read`] makes it from the
//! text. A plan whose tables mean something else for every `kind`, or hold names that a sweep fills
//! in, is a [`Table`] that is read key by key with [`Keys`].
//!
//! Either way an error is a [`PlanError`]: it names the key with the tables it stands in, what was
//! found and what may stand there, and [`line_of`] finds its line. Files are read by
//! [`whole_text`], which a device without end does not fill memory with.
//!
//! ```
//! #[derive(Debug, serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Plan {
//!     fetch: Vec<Fetch>,
//! }
//! #[derive(Debug, serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Fetch {
//!     count: u32,
//! }
//!
//! let text = "[[fetch]]\ncount = 3\n[[fetch]]\ncount = 'many'";
//! let error = plans::read::<Plan>(text).unwrap_err();
//! assert_eq!(error.to_string(), "line 4: `fetch[2].count`: invalid type: string \"many\", expected u32");
//! ```

mod error;
mod file;
mod keys;
mod line;
mod read;
mod scale;

pub use toml::{Table, Value};

pub use error::PlanError;
pub use file::{whole, whole_text};
pub use keys::{Keys, names};
pub use line::{exact_line_of, line_of};
pub use read::{number, read, table, value};
pub use scale::{Scale, UnknownScale};
