//! Mendpath against `quinn`, over loopback, in both roles.

use quinn as stack;

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "each stack uses a part of it")]
mod common;

mod migration;
mod stateless_reset;

/// Bytes of a bulk transfer.
const BULK: u64 = 100_000_000;

/// Whether its server challenges a new address again after it has given up once.
const VALIDATES_AGAIN: bool = true;
