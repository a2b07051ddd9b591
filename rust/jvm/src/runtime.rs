//! The runtime of this library in this process.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};

use crate::failure::{Failure, Result};
use crate::lines;

/// Other cores belong to other tasks.
const THREADS: usize = 2;

/// Made at the first use.
pub(crate) fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    lines::start();
    let built = Builder::new_multi_thread().worker_threads(THREADS).thread_name("samsarrow").enable_all().build();
    let built = built.map_err(|error| Failure::state(format!("no threads can be started: {error}")))?;
    // Of two threads that come here at once, one keeps the other's.
    Ok(RUNTIME.get_or_init(|| built))
}
