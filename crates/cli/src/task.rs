//! Tasks whose end is waited for.

use tokio::task::JoinError;

/// What a task has come to that nobody cancels. If it panicked, the panic goes on here.
pub(crate) fn came_to<T>(ended: Result<T, JoinError>) -> T {
    ended.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))
}
