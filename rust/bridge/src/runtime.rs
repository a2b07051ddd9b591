//! The tokio runtime of the process, and functions that wait without the GIL.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use pyo3::Borrowed;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use samsarrow_client::error::{Error, Result};
use samsarrow_client::sync::lock;
use tokio::runtime::Runtime;

use crate::callback_threads::{self, CALLBACKS};
use crate::error::{fork_error, to_py};
use crate::interpreter_guard::{self, AttachGuard};
use crate::logging;

/// Interval at which a waiting call checks for signals. With this interval, Ctrl-C takes effect well within 200 ms.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);
/// Interval at which a waiting call makes queued calls under gevent and eventlet. It must be short, because `flush`
/// waits for callbacks.
const CALL_CHECK: Duration = Duration::from_millis(5);

/// Maximum time for the remaining calls of each queue when the interpreter exits. These calls are callbacks of the last
/// deliveries, and log lines.
const LAST_CALLS_TIMEOUT: Duration = Duration::from_secs(5);

/// Period of a timer that keeps the next deadline of the runtime near. Registering a timer with the earliest deadline
/// wakes the thread that polls the sockets, even if that thread itself registers it: one write to an eventfd and one
/// return from `epoll_wait`. Each request registers its timeout, which is longer than this period.
const TICK: Duration = Duration::from_secs(5);

static RUNTIME: Mutex<Option<(u32, Arc<Runtime>)>> = Mutex::new(None);

/// Cached id of this process, or 0. The id is cached because each sent record needs it and getting it takes a system
/// call.
static PROCESS_ID: AtomicU32 = AtomicU32::new(0);

/// Returns the id of this process.
pub fn process_id() -> u32 {
    match PROCESS_ID.load(Ordering::Relaxed) {
        0 => cache_process_id(),
        known => known,
    }
}

#[cold]
fn cache_process_id() -> u32 {
    let pid = process::id();
    PROCESS_ID.store(pid, Ordering::Relaxed);
    pid
}

/// Hook before a fork. It ensures that no thread holds a lock that the child needs.
#[pyfunction]
fn before_fork(py: Python<'_>) {
    logging::pause(py);
}

#[pyfunction]
fn after_fork_in_parent() {
    logging::resume();
}

#[pyfunction]
fn after_fork_in_child() {
    cache_process_id();
    interpreter_guard::reset_after_fork();
    logging::reset_after_fork();
}

/// Hook at the interpreter's exit. The runtime continues to run, because later hooks and finalizers may still close a
/// client.
#[pyfunction]
fn at_exit(py: Python<'_>) -> PyResult<()> {
    // Take over these queues: their threads can no longer call Python once the guard is closed, but clients that are
    // closed below still produce callbacks and log lines.
    let queues: Vec<_> = [CALLBACKS.started(), logging::current()].into_iter().flatten().collect();
    interpreter_guard::detach(py, || queues.iter().for_each(|queue| queue.take_over()));
    interpreter_guard::close(py);
    // The module is only loaded once the application has created a producer or a consumer.
    let modules = py.import("sys")?.getattr("modules")?;
    let unclosed = modules.call_method1("get", ("samsarrow._unclosed",))?;
    let closed = if unclosed.is_none() { Ok(()) } else { unclosed.call_method0("close_all").map(drop) };
    for queue in queues {
        callback_threads::run_remaining(py, queue, LAST_CALLS_TIMEOUT)?;
    }
    closed
}

/// Registers hooks for the interpreter's exit and for forks. If a fork bypasses Python, the hooks do not run, but the
/// child then cannot run Python code either.
pub fn register_hooks(py: Python<'_>) -> PyResult<()> {
    // Import `logging` first, because its fork hook takes a lock that the log lines need. Hooks before a fork run in
    // reverse order, so the hook below, which waits for the log lines, then runs before that hook.
    logging::name_trace_level(&py.import("logging")?)?;
    // Exit hooks run in reverse order, so hooks that the application registers later run before this hook and may still
    // use clients.
    py.import("atexit")?.call_method1("register", (wrap_pyfunction!(at_exit, py)?,))?;
    // `register_at_fork` does not exist on systems without fork.
    if let Ok(register) = py.import("os")?.getattr("register_at_fork") {
        let hooks = PyDict::new(py);
        hooks.set_item("before", wrap_pyfunction!(before_fork, py)?)?;
        hooks.set_item("after_in_parent", wrap_pyfunction!(after_fork_in_parent, py)?)?;
        hooks.set_item("after_in_child", wrap_pyfunction!(after_fork_in_child, py)?)?;
        register.call((), Some(&hooks))?;
    }
    Ok(())
}

/// Returns the runtime of this process. It is created on first use, never at import.
///
/// The child of a fork creates its own runtime. The inherited runtime is leaked, because dropping it would join threads
/// that do not exist in the child. Only attached threads take the lock, and only to read or replace the runtime, so
/// that the lock is never held during a fork.
pub fn runtime(py: Python<'_>) -> PyResult<Arc<Runtime>> {
    let pid = process_id();
    if let Some((owner, runtime)) = &*lock(&RUNTIME)
        && *owner == pid
    {
        return Ok(Arc::clone(runtime));
    }
    let built = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(worker_count(thread::available_parallelism().map_or(1, usize::from)))
        .thread_name("samsarrow")
        .enable_all()
        .build()?;
    built.spawn(tick());
    logging::start(py)?;
    let mut slot = lock(&RUNTIME);
    if let Some((owner, runtime)) = &*slot
        && *owner == pid
    {
        // Another thread has created the runtime first, so use that runtime.
        let kept = Arc::clone(runtime);
        drop(slot);
        built.shutdown_background();
        return Ok(kept);
    }
    let built = Arc::new(built);
    let inherited = slot.replace((pid, Arc::clone(&built)));
    std::mem::forget(inherited);
    Ok(built)
}

async fn tick() {
    loop {
        tokio::time::sleep(TICK).await;
    }
}

/// Returns the number of worker threads. On two cores, it is 1: with two workers, the first would only wake the second,
/// which would find no work and occupy the core that the application's thread needs next (ADR 47). Long computations
/// run on other threads anyway.
fn worker_count(cores: usize) -> usize {
    if cores <= 2 { 1 } else { cores.min(4) }
}

/// Wakes a thread that waits for a future.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls `work` on this thread until it is done or `limit` has passed. Returns `None` if `limit` has passed.
///
/// The limit does not use a timer of the runtime. Such a timer would usually have the earliest deadline, so that each
/// wait would wake the thread that polls the sockets only to shorten its timeout, and this wake-up costs as much as the
/// wake-up for the response.
fn block_for<F: Future>(mut work: Pin<&mut F>, limit: Duration) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
    let mut context = Context::from_waker(&waker);
    let start = Instant::now();
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
            return Some(done);
        }
        thread::park_timeout(limit.checked_sub(start.elapsed())?);
    }
}

/// Runs `work` and waits for it without the GIL. The wait is split into slices. Signal handlers run between them,
/// outside of the runtime, so that they may use any client.
pub fn run<T, F>(py: Python<'_>, work: F) -> PyResult<T>
where
    T: Send,
    F: Future<Output = Result<T>> + Send,
{
    run_in_slices(py, None, work)
}

/// Like [`run`], but drops the work at `deadline` and returns `None`.
pub fn run_until<T, F>(py: Python<'_>, deadline: Instant, work: F) -> PyResult<Option<T>>
where
    T: Send,
    F: Future<Output = Result<T>> + Send,
{
    let mut work = Box::pin(work);
    let limited = std::future::poll_fn(move |context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(done.map(Some)),
        Poll::Pending if Instant::now() >= deadline => Poll::Ready(Ok(None)),
        Poll::Pending => Poll::Pending,
    });
    run_in_slices(py, Some(deadline), limited)
}

/// Runs `work`, and polls it again at `deadline`.
fn run_in_slices<T, F>(py: Python<'_>, deadline: Option<Instant>, work: F) -> PyResult<T>
where
    T: Send,
    F: Future<Output = Result<T>> + Send,
{
    let runtime = runtime(py)?;
    let mut work = Box::pin(work);
    let start = Instant::now();
    loop {
        let slice = if callback_threads::any_in_application() {
            callback_threads::serve(py, start)?;
            CALL_CHECK
        } else {
            SIGNAL_CHECK
        };
        let slice = deadline.map_or(slice, |at| slice.min(at.saturating_duration_since(Instant::now())));
        let (step, rest) = interpreter_guard::detach(py, || {
            let _inside = runtime.enter();
            let step = block_for(work.as_mut(), slice);
            (step, work)
        });
        match step {
            Some(done) => return done.map_err(|error| to_py(py, &error)),
            None => py.check_signals()?,
        }
        work = rest;
    }
}

/// Like [`run`], but the work continues in the background if a signal handler raises.
pub fn run_to_completion<T, F>(py: Python<'_>, work: F) -> PyResult<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let task = runtime(py)?.spawn(work);
    run(py, async { task.await.unwrap_or_else(|_| Err(Error::closed("the client (its work was cancelled)"))) })
}

/// A value that only the process that created it may use.
///
/// In another process, each access fails, and dropping the value does nothing, because its tasks and sockets belong to
/// the parent.
#[derive(Debug)]
pub struct Owned<T> {
    what: &'static str,
    pid: u32,
    value: Option<T>,
}

impl<T> Owned<T> {
    /// Wraps a value of this process. Error messages call the value `what`.
    pub fn new(what: &'static str, value: T) -> Self {
        Self { what, pid: process_id(), value: Some(value) }
    }

    /// Returns the value for use by an attached thread. Never returns once the interpreter exits, except on the exiting
    /// thread.
    ///
    /// # Errors
    /// Raises `ForkError` in any process other than the one that created the value.
    pub fn get(&self, py: Python<'_>) -> PyResult<OwnedRef<'_, T>> {
        let guard = interpreter_guard::acquire(py);
        match &self.value {
            Some(value) if self.pid == process_id() => Ok(OwnedRef { value, _guard: guard }),
            _ => Err(fork_error(py, self.what, self.pid)),
        }
    }
}

/// An [`Owned`] value in use. It holds the interpreter guard of the thread.
#[derive(Debug)]
pub struct OwnedRef<'a, T> {
    value: &'a T,
    _guard: AttachGuard,
}

impl<T> Deref for OwnedRef<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
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

/// A time span, which Python passes as a number of seconds or a `timedelta`.
#[derive(Debug, Clone, Copy)]
pub struct Seconds(pub f64);

impl<'a, 'py> FromPyObject<'a, 'py> for Seconds {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(number) = value.extract() {
            return Ok(Self(number));
        }
        // The stable interface of Python has no functions for `timedelta`.
        let total = value.call_method0("total_seconds").and_then(|total| total.extract());
        total.map(Self).map_err(|_| {
            let text = value.repr().map_or_else(|_| "?".to_owned(), |text| text.to_string());
            PyTypeError::new_err(format!("a timeout is a number of seconds or a timedelta: got {text}"))
        })
    }
}

/// Converts a timeout in seconds. None is converted to `default`.
pub fn seconds(py: Python<'_>, timeout: Option<f64>, default: Duration) -> PyResult<Duration> {
    match timeout {
        None => Ok(default),
        Some(s) if s.is_finite() && (0.0..=1e9).contains(&s) => Ok(Duration::from_secs_f64(s)),
        Some(s) if s == f64::INFINITY => Ok(Duration::from_secs(1_000_000_000)),
        Some(s) => Err(to_py(py, &Error::configuration(format!("a timeout of {s} seconds: it must be 0 or more")))),
    }
}
