//! Runs work that takes milliseconds on separate threads, so that it does not delay timers and connections.

use std::panic::resume_unwind;

use tokio::task::JoinHandle;

use crate::error::{Error, Result};

/// Runs `work` on a thread for blocking work and returns its result. A panic in `work` is raised again in the caller.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    spawn(work).await.map_err(|failed| match failed.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => Error::closed("the client"),
    })
}

/// Returns the number of threads to split work between.
pub(crate) fn parallelism() -> usize {
    // A simulation has the same tasks on every machine.
    if cfg!(feature = "simulation") { 2 } else { std::thread::available_parallelism().map_or(1, usize::from) }
}

/// Starts `work` on a thread for blocking work. In a simulation, which has one thread, `work` runs as a task.
pub(crate) fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    #[cfg(feature = "simulation")]
    return tokio::spawn(async move { work() });
    #[cfg(not(feature = "simulation"))]
    tokio::task::spawn_blocking(work)
}
