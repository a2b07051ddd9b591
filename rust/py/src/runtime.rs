//! The one door out of the GIL, and the runtime behind it.

use std::future::Future;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use samsarrow_client::error::{Error, Result};
use tokio::runtime::Runtime;

use crate::error::{fork_error, to_py};
use crate::logging;

/// How often a waiting call looks for signals: Ctrl-C is answered well within 200 ms.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

static RUNTIME: Mutex<Option<(u32, Arc<Runtime>)>> = Mutex::new(None);

/// The id of this process; 0 until it is asked for. To ask is a system call, and every record sent wants to know.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The id of this process.
pub(crate) fn process_id() -> u32 {
    match PROCESS.load(Ordering::Relaxed) {
        0 => remember_process(),
        known => known,
    }
}

#[cold]
fn remember_process() -> u32 {
    let pid = process::id();
    PROCESS.store(pid, Ordering::Relaxed);
    pid
}

#[pyfunction]
fn forked() {
    remember_process();
}

/// Has Python tell of forks. (Whoever forks without Python's knowledge can run no Python in the child.)
pub(crate) fn watch_forks(py: Python<'_>) -> PyResult<()> {
    // Not where there is no fork.
    if let Ok(register) = py.import("os")?.getattr("register_at_fork") {
        let told = PyDict::new(py);
        told.set_item("after_in_child", wrap_pyfunction!(forked, py)?)?;
        register.call((), Some(&told))?;
    }
    Ok(())
}

/// This process's runtime, made at the first use and never at import.
///
/// After a fork the child makes its own. The inherited one is forgotten, not dropped: dropping joins threads that do
/// not exist in the child. The lock is held to read or swap only, so that a fork never leaves it locked for long.
pub(crate) fn runtime() -> PyResult<Arc<Runtime>> {
    let pid = process_id();
    if let Some((owner, runtime)) = &*RUNTIME.lock().unwrap_or_else(PoisonError::into_inner)
        && *owner == pid
    {
        return Ok(Arc::clone(runtime));
    }
    let built = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 4)))
        .thread_name("samsarrow")
        .enable_all()
        .build()?;
    let mut slot = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((owner, runtime)) = &*slot
        && *owner == pid
    {
        // Another thread was faster.
        let kept = Arc::clone(runtime);
        drop(slot);
        built.shutdown_background();
        return Ok(kept);
    }
    logging::start();
    let built = Arc::new(built);
    let inherited = slot.replace((pid, Arc::clone(&built)));
    std::mem::forget(inherited);
    Ok(built)
}

/// Waits for `work` without the GIL, answering signals.
pub(crate) fn run<T, F>(py: Python<'_>, work: F) -> PyResult<T>
where
    T: Send,
    F: Future<Output = Result<T>> + Send,
{
    let runtime = runtime()?;
    let outcome: PyResult<Result<T>> = py.detach(|| {
        runtime.block_on(async {
            tokio::pin!(work);
            loop {
                tokio::select! {
                    biased;
                    done = &mut work => return Ok(done),
                    () = tokio::time::sleep(SIGNAL_CHECK) => Python::attach(|py| py.check_signals())?,
                }
            }
        })
    });
    outcome?.map_err(|error| to_py(py, &error))
}

/// Something that belongs to the process that made it.
///
/// In another process every use is an error, and dropping it does nothing: its tasks and sockets are the parent's.
#[derive(Debug)]
pub(crate) struct Owned<T> {
    what: &'static str,
    pid: u32,
    value: Option<T>,
}

impl<T> Owned<T> {
    /// `value`, made by this process.
    pub(crate) fn new(what: &'static str, value: T) -> Self {
        Self { what, pid: process_id(), value: Some(value) }
    }

    /// The value.
    ///
    /// # Errors
    /// `ForkError` in any process but the one that made it.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<&T> {
        match &self.value {
            Some(value) if self.pid == process_id() => Ok(value),
            _ => Err(fork_error(py, self.what, self.pid)),
        }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        let value = self.value.take();
        if self.pid != process_id() {
            std::mem::forget(value);
        }
    }
}

/// Seconds as Python gives them; None is `default`.
pub(crate) fn seconds(py: Python<'_>, given: Option<f64>, default: Duration) -> PyResult<Duration> {
    match given {
        None => Ok(default),
        Some(s) if s.is_finite() && (0.0..=1e9).contains(&s) => Ok(Duration::from_secs_f64(s)),
        Some(s) if s == f64::INFINITY => Ok(Duration::from_secs(1_000_000_000)),
        Some(s) => Err(to_py(py, &Error::configuration(format!("a timeout of {s} seconds: it must be 0 or more")))),
    }
}
