//! Experiments as plans.
//!
//! A [`Plan`] is a TOML file: a network, what is broken, traffic, schemes, a sweep, seeds at two
//! scales, metrics, figures. A [`Campaign`] runs it over the cores, keeps every finished row, and
//! does none twice. [`write_all`] makes Parquet files, summaries with confidence intervals over the
//! seeds, and figures. The command line's `mendpath experiment` is a thin layer over these.
//!
//! Rows depend on plan and seed only: not on the number of threads, the order of completion, the
//! machine or the optimisation level. Nothing here reads a clock.
//!
//! What a plan can name is registered in one place per kind: [`TOPOLOGIES`], [`WORKLOADS`],
//! [`SCHEMES`], [`METRICS`], [`MODELS`]. Adding to one is a file and a line.
//!
//! ```
//! use mendpath_experiments::{Campaign, Plan, Scale, Summary};
//!
//! let plan = Plan::parse("example", r#"
//!     title = "TCP and FUSO beside each other"
//!     metrics = ["fct_mean_ms", "timeout_share"]
//!     seeds = 2
//!     topology = { kind = "parallel-paths" }
//!     tcp = { preset = "fuso" }
//!     fault = [{ links = "paths", index = 0, loss = "$loss" }]
//!     workload = { kind = "spaced", from = "first", to = "second", flows = 20, apart_ms = 50, bytes = 20_000 }
//!     scheme = [{ kind = "tcp" }, { kind = "fuso", subflows = 4 }]
//!     sweep = { loss = [0, 0.05] }
//! "#, Scale::Quick).unwrap();
//! let folder = std::env::temp_dir().join(format!("mendpath-example-{}", std::process::id()));
//! let rows = Campaign::new(&plan, &folder).unwrap().run(2, &|_| {}).unwrap();
//! assert_eq!(rows.len(), 2 * 2 * 2); // loss rates, schemes, seeds
//! let summary = Summary::new(&plan, &rows).unwrap();
//! assert_eq!(summary.cells[0].mean, summary.cells[0].min); // without loss, one seed is like the other
//! # std::fs::remove_dir_all(folder).unwrap();
//! ```

mod campaign;
mod claims;
mod columns;
mod curves;
mod faults;
mod figure;
mod figure_plan;
mod follow;
mod inputs;
mod journal;
mod merge;
mod metrics;
mod models;
mod neighbours;
mod outcome;
mod output;
mod parts;
mod plan;
mod player;
mod point;
mod readme;
mod redraw;
mod resample;
mod row;
mod run;
mod schemes;
mod shard;
mod single;
mod sizes;
mod sketch;
mod summary;
mod tail;
mod tcp;
mod texts;
mod topologies;
mod workloads;
mod yardstick;

pub use campaign::{Campaign, CampaignError, Keeper, Progress};
pub use claims::claims_page;
pub use columns::{Columns, Data};
pub use curves::Curve;
pub use figure_plan::FigurePlan;
pub use follow::Followed;
pub use journal::Journal;
pub use merge::MergeError;
pub use metrics::{COUNTS, Class, Compute, Count, METRICS, Metric, MetricUse, View};
pub use models::{MODELS, Model, ModelPlan};
pub use neighbours::publishing_rival;
pub use outcome::{Measured, Outcome, Role};
pub use output::{Files, distributions_table, publish, runs_table, write_all};
pub use parts::{Part, Parts, Stop};
pub use plan::{Plan, PlanFileError, SchemeEntry};
pub use plans::{Keys, PlanError, Scale, UnknownScale};
pub use player::{Playback, Player};
pub use point::{Point, Setting, SweepAxis};
pub use readme::{MARKS, filled, tables};
pub use redraw::{Redrawn, redraw};
pub use resample::{LEAST_SEEDS, RESAMPLES};
pub use row::Row;
pub use run::{Scenario, ScenarioError};
pub use schemes::SCHEMES;
pub use shard::{NoShard, Shard};
pub use single::Single;
pub use sketch::{Pool, Sketch};
pub use summary::{Cell, Shown, Summary, TooFew, committed_summary};
pub use tail::{Tail, TailError};
pub use topologies::{Network, TOPOLOGIES};
pub use workloads::{Party, Traffic, TrafficError, WORKLOADS, Workload};
