//! Functions that `samsarrow._logging` calls.

use std::time::Duration;

use pyo3::prelude::*;
use samsarrow_bridge::call::Call;
use samsarrow_bridge::logging;
use samsarrow_client::log::Logger;
use tokio::time::timeout;

/// Maximum time to wait for a handler that blocks.
const LIMIT: Duration = Duration::from_secs(1);

/// Returns the names of the client's loggers.
#[pyfunction]
pub(crate) fn loggers() -> Vec<&'static str> {
    Logger::ALL.into_iter().map(Logger::name).collect()
}

/// Sets the smallest level that each logger handles, in the order of `loggers()`.
#[pyfunction]
pub(crate) fn set_log_levels(thresholds: Vec<i64>) {
    logging::set_levels(&thresholds);
}

/// Returns a call that waits until all log lines so far are written, but at most for [`LIMIT`]; `None` before the first
/// client is created.
#[pyfunction]
pub(crate) fn log_lines_written() -> Option<Call> {
    let queue = logging::current()?;
    Some(Call::without_result(async move {
        let _ = timeout(LIMIT, queue.wait_until_drained()).await;
        Ok(())
    }))
}
