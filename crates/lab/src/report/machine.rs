//! Where it was measured.

use serde::{Deserialize, Serialize};

/// The machine, and how busy it was.
#[derive(Clone, Default, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its kernel.
    pub kernel: String,
    /// Processors.
    pub cpus: usize,
    /// What its processors call themselves; empty if they do not.
    #[serde(default)]
    pub processor: String,
    /// Memory in bytes.
    #[serde(default)]
    pub memory_bytes: u64,
    /// Load average over a minute, at the start; part of it may be the lab's own.
    pub load_before: f64,
    /// The same at the end.
    pub load_after: f64,
    /// The part of all processor time that others had meanwhile: programs that are not the lab's,
    /// the kernel's threads, and what the hypervisor gave to other guests; `null` if not known.
    #[serde(default)]
    pub others_share: Option<f64>,
}
