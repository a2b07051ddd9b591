//! Runs work that takes milliseconds on separate threads, so that it does not delay timers and connections.

use std::panic::resume_unwind;

use tokio::task::spawn_blocking;

use crate::error::{Error, Result};

/// Runs `work` on a thread for blocking work and returns its result. A panic in `work` is raised again in the caller.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    spawn_blocking(work).await.map_err(|failed| match failed.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => Error::closed("the client"),
    })
}
