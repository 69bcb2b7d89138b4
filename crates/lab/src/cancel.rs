//! A request to stop, from a signal handler or anybody else.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::LabError;

/// Clones share one request. Asked for at least ten times a second while the lab waits.
#[derive(Clone, Default, Debug)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks the lab to stop and clean up.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody has asked.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// [`LabError::Interrupted`] if somebody has asked.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        if self.is_cancelled() { Err(LabError::Interrupted) } else { Ok(()) }
    }
}
