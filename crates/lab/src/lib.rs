//! A laboratory for transports: real programs and the kernel's own TCP and MPTCP, side by side over
//! the same emulated links.
//!
//! For each contender of a [`Plan`] the lab makes two network namespaces, joined by TUN devices;
//! between the devices run the links of the crate `netsim`, on the wall clock, in the crate
//! `emulator`. So every contender meets the same rate, delay, queue and the same losses: the n-th
//! packet of the n-th fetch is lost for all of them or for none. The lab fetches responses from its
//! own origin server, through whatever the contender is, and times them.
//!
//! This crate never touches the machine's own network: namespaces have no names, and vanish with
//! the last process in them. What a run that was killed left behind (processes, files below
//! `/run/mendpath-lab`) is removed by the next. It needs Linux and root; reading plans and writing
//! results needs neither. It knows nothing of how mendpath works: it starts the program like any
//! other.
//!
//! Start with [`Plan`] and [`run`].
//!
//! ```
//! use mendpath_lab::{Plan, Scale};
//!
//! let plan = Plan::parse("example", r#"
//!     title = "A lossy path"
//!     contenders = ["tcp:cubic", "mendpath:cofuso"]
//!     vary = { loss = ["0%", "2%"] }
//!     network = [{ paths = ["rate=100mbit,delay=50ms,loss={loss}"] }]
//!     fetch = [{ size = "60kB", count = 200 }]
//! "#)?;
//! let networks = plan.networks(Scale::Paper).unwrap();
//! assert_eq!(networks[1].paths[0].to_string(), "rate=100mbit,delay=50ms,loss=2%");
//! # Ok::<(), mendpath_lab::LabError>(())
//! ```

mod adapter;
mod cancel;
mod contender;
mod error;
mod path;
mod plan;
mod plans;
mod report;

#[cfg(target_os = "linux")]
mod bed;
#[cfg(target_os = "linux")]
mod browser;
#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod fetch;
#[cfg(target_os = "linux")]
mod leftovers;
#[cfg(target_os = "linux")]
mod origin;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod running;

use std::{collections::BTreeMap, path::PathBuf};

pub use self::plans::PLANS;
pub use adapter::{Adapter, Web};
pub use cancel::Cancel;
pub use contender::{Contender, Entry, ParseContenderError, PathChoice};
pub use error::LabError;
pub use path::{ParsePathError, PathSpec, SMALL_PACKET};
pub use plan::{
    Bulk, Call, CallOutcome, Connection, Cut, Cuts, DropEach, DropOrder, Fetch, LogNormal, MAX_PATHS,
    MOST_AT_ONCE, Network, NetworkTemplate, Page, PathOrEach, Plan, Scale, SetUp, Share, Sizes, TimeRange,
};
pub use report::{
    Kind, Loads, Machine, PathUse, Repair, Report, Row, Sharing, data, html, json, published, read, table,
};

#[cfg(target_os = "linux")]
pub use bed::Namespace;
#[cfg(target_os = "linux")]
pub use run::{available, execute, run};

/// How a plan is run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// How much of it. The lab has no medium scale of its own: it is what the plan says, as the
    /// paper's.
    pub scale: Scale,
    /// Instead of the plan's counts of fetches.
    pub count: Option<u32>,
    /// The program `mendpath`.
    pub mendpath: PathBuf,
    /// Other programs, in addition to the lab's own adapters and the plan's.
    pub adapters: BTreeMap<String, Adapter>,
    /// The browser that loads pages; one that is on the `PATH` if there is none.
    pub browser: Option<PathBuf>,
    /// Who asks for the end.
    pub cancel: Cancel,
}

impl Options {
    /// The quick scale with this program.
    pub fn new(mendpath: PathBuf) -> Self {
        Self {
            scale: Scale::Quick,
            count: None,
            mendpath,
            adapters: BTreeMap::new(),
            browser: None,
            cancel: Cancel::default(),
        }
    }
}

/// How far a run is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Fetches and transfers made.
    pub done: u64,
    /// Fetches and transfers to be made.
    pub total: u64,
    /// What is being measured.
    pub now: String,
}

/// Whether the lab can work here: on this system, no.
///
/// # Errors
/// [`LabError::NotLinux`].
#[cfg(not(target_os = "linux"))]
pub fn available() -> Result<(), LabError> {
    Err(LabError::NotLinux)
}

/// Runs a plan: on this system it cannot be.
///
/// # Errors
/// [`LabError::NotLinux`].
#[cfg(not(target_os = "linux"))]
pub fn run(_: &Plan, _: &Options, _: &mut dyn FnMut(Progress)) -> Result<Report, LabError> {
    Err(LabError::NotLinux)
}

/// Runs a command behind emulated paths: on this system it cannot be.
///
/// # Errors
/// [`LabError::NotLinux`].
#[cfg(not(target_os = "linux"))]
pub fn execute(
    _: &[PathSpec],
    _: u64,
    _: Option<&[String]>,
    _: &[String],
    _: &Options,
) -> Result<i32, LabError> {
    Err(LabError::NotLinux)
}
