//! Mendpath against `noq`, over loopback, in both roles; single path first, then multipath.

use noq as stack;

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "each stack uses a part of it")]
mod common;
mod paths;

/// Bytes of a bulk transfer over a single path; those over two are longer.
const BULK: u64 = 10_000_000;

/// Whether its server challenges a new address again after it has given up once. `noq` 1.4 gives up
/// after three probe timeouts, and sends neither data nor challenges to that address any more.
const VALIDATES_AGAIN: bool = false;
