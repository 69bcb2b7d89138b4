//! Tests the code in the chapters of the book, and READMEs. Not in the crates themselves, whose
//! packages have no `docs`.
//!
//! There is nothing to start with: a chapter is a line here.

#[cfg(doctest)]
#[doc = include_str!("../../../docs/add-a-scheme.md")]
struct AddAScheme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/add-a-recovery-scheme.md")]
struct AddARecoveryScheme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/experiments.md")]
struct Experiments;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/simulator.md")]
struct Simulator;
