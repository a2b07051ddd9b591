//! Deadlines of calls that Python divides into several.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::gate;
use crate::runtime::seconds;

/// The end of a call's time.
///
/// It is of the system's monotonic clock. Programs replace `time.monotonic`: freezegun stops it, and a call that counts
/// with it never ends.
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

    /// Returns the seconds that are left, 0 once it has passed.
    fn left(&self) -> f64 {
        self.0.saturating_duration_since(Instant::now()).as_secs_f64()
    }

    /// Returns true once it has passed.
    fn passed(&self) -> bool {
        self.0 <= Instant::now()
    }

    /// Sleeps in this thread, whatever `time.sleep` is, for `limit` seconds or until the deadline.
    fn sleep(&self, py: Python<'_>, limit: f64) -> PyResult<()> {
        let pause = seconds(py, Some(limit), Duration::ZERO)?;
        gate::detach(py, || std::thread::sleep(pause.min(self.0.saturating_duration_since(Instant::now()))));
        Ok(())
    }
}
