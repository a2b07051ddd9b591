//! The one door out of the GIL, and the runtime behind it.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use samsarrow_client::error::{Error, Result};
use tokio::runtime::Runtime;

use crate::error::{fork_error, to_py};
use crate::gate::{self, Pass};
use crate::lanes::{self, CALLBACKS};
use crate::logging;

/// How often a waiting call looks for signals: Ctrl-C is answered well within 200 ms.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);
/// Interval at which a waiting call makes queued calls under gevent and eventlet: `flush` waits for callbacks.
const CALL_CHECK: Duration = Duration::from_millis(5);

/// Bounds the calls of a lane at the end of the interpreter: callbacks of the last deliveries, and log lines.
const LAST_CALLS: Duration = Duration::from_secs(5);

static RUNTIME: Mutex<Option<(u32, Arc<Runtime>)>> = Mutex::new(None);

/// The id of this process; 0 until it is asked for. To ask is a system call, and every record sent wants to know.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The id of this process.
pub fn process_id() -> u32 {
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

/// Before a fork: no lock that the child needs may be held by a thread that it will not have.
#[pyfunction]
fn forking(py: Python<'_>) {
    logging::hold(py);
}

#[pyfunction]
fn forked_in_parent() {
    logging::release();
}

#[pyfunction]
fn forked_in_child() {
    remember_process();
    gate::forked();
    logging::forget();
}

/// The interpreter is about to end. The runtime stays: hooks that run later, and finalizers, may still close a client.
#[pyfunction]
fn ending(py: Python<'_>) -> PyResult<()> {
    // Their threads cannot call Python any more once the gate is closed, and clients that are closed now have results for
    // callbacks and lines for the log.
    let lanes: Vec<_> = [CALLBACKS.begun(), logging::current()].into_iter().flatten().collect();
    gate::detach(py, || lanes.iter().for_each(|lane| lane.take_over()));
    gate::close(py);
    // A program that made no such client has not loaded it.
    let modules = py.import("sys")?.getattr("modules")?;
    let unclosed = modules.call_method1("get", ("samsarrow._unclosed",))?;
    let closed = if unclosed.is_none() { Ok(()) } else { unclosed.call_method0("close_all").map(drop) };
    for lane in lanes {
        lanes::finish(py, lane, LAST_CALLS)?;
    }
    closed
}

/// Has Python report its end and forks. (Anyone who forks without Python's knowledge can run no Python in the child.)
pub fn watch(py: Python<'_>) -> PyResult<()> {
    // Before a fork its hook takes a lock that our log lines need: ours, which waits for them, must be called first.
    py.import("logging")?;
    // Hooks run in reverse order: those of the program, which may use clients, run before this one.
    py.import("atexit")?.call_method1("register", (wrap_pyfunction!(ending, py)?,))?;
    // Not where there is no fork.
    if let Ok(register) = py.import("os")?.getattr("register_at_fork") {
        let told = PyDict::new(py);
        told.set_item("before", wrap_pyfunction!(forking, py)?)?;
        told.set_item("after_in_parent", wrap_pyfunction!(forked_in_parent, py)?)?;
        told.set_item("after_in_child", wrap_pyfunction!(forked_in_child, py)?)?;
        register.call((), Some(&told))?;
    }
    Ok(())
}

/// This process's runtime, made at the first use and never at import.
///
/// After a fork the child makes its own. The inherited one is forgotten, not dropped: dropping joins threads that do
/// not exist in the child. The lock is held to read or swap only, by threads that are attached: no fork leaves it locked.
pub fn runtime(py: Python<'_>) -> PyResult<Arc<Runtime>> {
    let pid = process_id();
    if let Some((owner, runtime)) = &*RUNTIME.lock().unwrap_or_else(PoisonError::into_inner)
        && *owner == pid
    {
        return Ok(Arc::clone(runtime));
    }
    let built = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers(thread::available_parallelism().map_or(1, usize::from)))
        .thread_name("samsarrow")
        .enable_all()
        .build()?;
    logging::start(py)?;
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
    let built = Arc::new(built);
    let inherited = slot.replace((pid, Arc::clone(&built)));
    std::mem::forget(inherited);
    Ok(built)
}

/// How many threads serve sockets. Where there are two cores a second one would only be woken by the first, to find
/// nothing, on the core that the program's own thread needs next (ADR 47). What takes long is done by others anyway.
fn workers(cores: usize) -> usize {
    if cores <= 2 { 1 } else { cores.min(4) }
}

/// A thread that waits for a future.
struct Waiting(Thread);

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// What `work` gives within `limit`.
///
/// A timer of the runtime's in its place would be the next that is due, in most waits: each would wake the thread that
/// sits on the sockets, to have it wait for less, and that costs a wake-up of the same core as the answer.
fn wait<F: Future>(mut work: Pin<&mut F>, limit: Duration) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Waiting(thread::current())));
    let mut context = Context::from_waker(&waker);
    let start = Instant::now();
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
            return Some(done);
        }
        thread::park_timeout(limit.checked_sub(start.elapsed())?);
    }
}

/// Waits for `work` without the GIL. Signals are answered between slices of the wait: their handlers run outside of the
/// runtime, so that they may use any client.
pub fn run<T, F>(py: Python<'_>, work: F) -> PyResult<T>
where
    T: Send,
    F: Future<Output = Result<T>> + Send,
{
    let runtime = runtime(py)?;
    let mut work = Box::pin(work);
    let start = Instant::now();
    loop {
        let slice = if lanes::any_in_program() {
            lanes::serve(py, start)?;
            CALL_CHECK
        } else {
            SIGNAL_CHECK
        };
        let (step, rest) = gate::detach(py, || {
            let _inside = runtime.enter();
            let step = wait(work.as_mut(), slice);
            (step, work)
        });
        match step {
            Some(done) => return done.map_err(|error| to_py(py, &error)),
            None => py.check_signals()?,
        }
        work = rest;
    }
}

/// The same for work that goes on in the background if a signal's handler raises.
pub fn run_to_its_end<T, F>(py: Python<'_>, work: F) -> PyResult<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let task = runtime(py)?.spawn(work);
    run(py, async { task.await.unwrap_or_else(|_| Err(Error::closed("the client (its work was given up)"))) })
}

/// Something that belongs to the process that made it.
///
/// In another process every use is an error, and dropping it does nothing: its tasks and sockets are the parent's.
#[derive(Debug)]
pub struct Owned<T> {
    what: &'static str,
    pid: u32,
    value: Option<T>,
}

impl<T> Owned<T> {
    /// `value`, made by this process.
    pub fn new(what: &'static str, value: T) -> Self {
        Self { what, pid: process_id(), value: Some(value) }
    }

    /// The value, to be used by a thread that is attached. Once the interpreter ends, other threads never get it.
    ///
    /// # Errors
    /// `ForkError` in any process but the one that made it.
    pub fn get(&self, py: Python<'_>) -> PyResult<Held<'_, T>> {
        let pass = gate::enter(py);
        match &self.value {
            Some(value) if self.pid == process_id() => Ok(Held { value, _pass: pass }),
            _ => Err(fork_error(py, self.what, self.pid)),
        }
    }
}

/// Something in use, by a thread that has passed the gate.
#[derive(Debug)]
pub struct Held<'a, T> {
    value: &'a T,
    _pass: Pass,
}

impl<T> Deref for Held<'_, T> {
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

/// Seconds as Python gives them; None is `default`.
pub fn seconds(py: Python<'_>, given: Option<f64>, default: Duration) -> PyResult<Duration> {
    match given {
        None => Ok(default),
        Some(s) if s.is_finite() && (0.0..=1e9).contains(&s) => Ok(Duration::from_secs_f64(s)),
        Some(s) if s == f64::INFINITY => Ok(Duration::from_secs(1_000_000_000)),
        Some(s) => Err(to_py(py, &Error::configuration(format!("a timeout of {s} seconds: it must be 0 or more")))),
    }
}
