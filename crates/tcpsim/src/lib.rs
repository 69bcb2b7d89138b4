//! TCP, MPTCP and the papers' recovery schemes as packet-level models on [`netsim::fabric`].
//!
//! TCP as the papers use it ([`Tcp`]): slow start and congestion avoidance (Reno, DCTCP, or a
//! controller of the crate `congestion`), SACK recovery (RFC 6675), Limited Transmit, Early
//! Retransmit, RFC 6298 timers with a configurable minimum, delayed acknowledgements, ECN, window
//! restart after idle; as options the tail loss probe, RACK and proportional rate reduction. On it
//! the [`schemes`]: baselines, FUSO, CoFUSO and SLP; below it the coding layers of HTPC
//! ([`shims`]); and in its place [`ctcp`] and [`ndp`]. Each of them is a [`transport::Transport`] to the
//! simulation. Their decisions are those of the crate `recovery`, with codes from `fec`.
//!
//! Sequence numbers count segments. Payload bytes do not exist, but whether a coded packet repairs
//! something depends on which packets arrived.
//!
//! What is not modelled: reneging, window scaling and the receiver's buffer in bytes, SYN cookies,
//! urgent data, F-RTO, pacing.
//!
//! Start with [`Sim`].

pub mod capture;
pub mod connection;
pub mod controllers;
pub mod ctcp;
pub mod ndp;
pub mod record;
pub mod schedulers;
pub mod schemes;
pub mod segment;
pub mod shim;
pub mod shims;
pub mod timeline;
pub mod transport;

mod config;
mod control;
mod own;
mod profile;
mod prr;
mod rack;
mod ranges;
mod receiver;
mod rtt;
mod scoreboard;
mod sim;
mod subflow;

pub use config::{CongestionKind, Tcp, Tlp};
pub use own::{Acked, OwnController, OwnScheduler, Scheduler, SubflowView, Unsent, WindowControl};
pub use profile::Profile;
pub use record::{FlowId, FlowRecord, Totals, quantile};
pub use schemes::SchemeKind;
pub use sim::{ConnectionId, FOREIGN_TIMER, MAX_FLOWS, ProfileId, Sim, SimError};
pub use subflow::Phase;
pub use transport::MAX_CONNECTIONS;
