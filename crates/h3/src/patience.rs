//! Until when somebody is waited for.

use std::time::Duration;

use tokio::time::Instant;

/// As good as never. The clock does not go as far as [`Duration::MAX`], which says that there is no limit.
const NEVER: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The moment after so long from now on.
pub(crate) fn after(patience: Duration) -> Instant {
    Instant::now() + patience.min(NEVER)
}
