//! The thread of a worker: all its tasks run there, with a reactor and timers of their own.

use std::{io, sync::mpsc, thread};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

/// Ends the thread when it is dropped, with what still runs there.
pub(super) struct Thread {
    _end: oneshot::Sender<()>,
}

/// Starts the thread of the worker with this index.
///
/// # Errors
/// If the system has no room for it.
pub(super) fn start(index: usize) -> io::Result<(Handle, Thread)> {
    let (ready, started) = mpsc::sync_channel(1);
    let (end, ended) = oneshot::channel::<()>();
    thread::Builder::new().name(format!("mendpath-{index}")).spawn(move || {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return ready.send(Err(error)).unwrap_or_default(),
        };
        if ready.send(Ok(runtime.handle().clone())).is_ok() {
            // Nothing is ever sent: it ends when the sender is dropped.
            let _ = runtime.block_on(ended);
        }
    })?;
    let handle = started.recv().map_err(io::Error::other)??;
    Ok((handle, Thread { _end: end }))
}
