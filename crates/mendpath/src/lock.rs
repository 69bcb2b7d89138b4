//! Locks that outlive a panic elsewhere.
//!
//! Order: the endpoint's state, then a connection's inbox or the list of sockets, is the only nesting. A
//! connection's state is never locked together with another lock, so nobody waits in a circle.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also when another thread panicked meanwhile: its connection was given up by its driver,
/// the rest goes on.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
