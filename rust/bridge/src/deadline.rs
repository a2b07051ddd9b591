//! Deadlines of calls that Python splits into several steps.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::interpreter_guard;
use crate::runtime::seconds;

/// Deadline of a call.
///
/// The deadline uses the system's monotonic clock, because applications may replace `time.monotonic`. For example,
/// freezegun stops that clock, so that a call that measures time with it would never end.
#[pyclass(frozen, module = "samsarrow._core")]
#[derive(Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// Returns the deadline `limit` from now.
    pub fn after(limit: Duration) -> Self {
        Self(Instant::now() + limit)
    }
}

#[pymethods]
impl Deadline {
    /// Returns the deadline `limit` seconds from now.
    #[new]
    fn new(py: Python<'_>, limit: f64) -> PyResult<Self> {
        seconds(py, Some(limit), Duration::ZERO).map(Self::after)
    }

    /// Returns the remaining seconds, or 0 once the deadline has passed.
    fn left(&self) -> f64 {
        self.0.saturating_duration_since(Instant::now()).as_secs_f64()
    }

    fn passed(&self) -> bool {
        self.0 <= Instant::now()
    }

    /// Sleeps in this thread for `limit` seconds or until the deadline. It does not use `time.sleep`, which
    /// applications may replace.
    fn sleep(&self, py: Python<'_>, limit: f64) -> PyResult<()> {
        let pause = seconds(py, Some(limit), Duration::ZERO)?;
        interpreter_guard::detach(py, || {
            std::thread::sleep(pause.min(self.0.saturating_duration_since(Instant::now())))
        });
        Ok(())
    }
}
