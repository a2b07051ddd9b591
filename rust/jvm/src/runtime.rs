//! Tokio runtime of the library.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};

use crate::failure::{Failure, Result};
use crate::log_queue;

/// Number of threads. It is small, because the other cores belong to other tasks.
const THREADS: usize = 2;

/// Returns the runtime. The first call starts it.
pub(crate) fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    log_queue::start();
    let built = Builder::new_multi_thread().worker_threads(THREADS).thread_name("samsarrow").enable_all().build();
    let built = built.map_err(|error| Failure::state(format!("no threads can be started: {error}")))?;
    // If two threads start a runtime concurrently, one of the runtimes is dropped.
    Ok(RUNTIME.get_or_init(|| built))
}
