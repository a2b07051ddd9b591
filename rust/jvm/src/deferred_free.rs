//! Deferred freeing of memory that Java may still read. In Spark, threads that consume rows have continued after the
//! listeners that close a task's readers had run (SPARK-33277, SPARK-37088). Because of the delay, a late read sees old
//! bytes instead of crashing the executor.

use std::time::Duration;

use crate::runtime::runtime;

const DELAY: Duration = Duration::from_secs(10);

/// Frees `memory` after a delay.
pub(crate) fn free_later(memory: impl Send + 'static) {
    match runtime() {
        Ok(runtime) => drop(runtime.spawn(async move {
            tokio::time::sleep(DELAY).await;
            drop(memory);
        })),
        Err(_) => drop(memory),
    }
}
