//! Memory that Java may still look at. Consumers on other threads have outlived the listeners that close a task's readers
//! (SPARK-33277, SPARK-37088): a late read sees old bytes instead of ending the executor.

use std::time::Duration;

use crate::runtime::runtime;

const REST: Duration = Duration::from_secs(10);

/// Frees `memory` after a while.
pub(crate) fn rest(memory: impl Send + 'static) {
    match runtime() {
        Ok(runtime) => drop(runtime.spawn(async move {
            tokio::time::sleep(REST).await;
            drop(memory);
        })),
        Err(_) => drop(memory),
    }
}
