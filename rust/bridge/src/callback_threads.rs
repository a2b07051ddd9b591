//! Threads that call Python to write log lines and to run delivery callbacks, assignors and token providers.
//!
//! These are Python threads, so that user code has only Python frames below it and the threads end like any other
//! Python thread. `samsarrow._threads` does not use `threading` to start them, because gevent and eventlet replace
//! `threading` so that it starts greenlets on the thread that would wait for them. Threads of the Rust client only
//! queue the calls and never wait for the GIL.
//!
//! gevent and eventlet also replace locks, including those of `logging`, and a native thread must not wait for such a
//! lock. With gevent and eventlet, the application therefore makes most calls itself: in a greenlet of the hub, and in
//! each client call that waits and thereby blocks the hub.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use samsarrow_client::sync::{lock, wait};
use tokio::sync::watch;

use crate::interpreter_guard;
use crate::logging;
use crate::runtime::process_id;

/// Maximum number of calls that a thread takes per batch. It is large enough to amortize acquiring the GIL, and small
/// enough that the interpreter's exit does not have to wait long for the batch.
const MAX_BATCH: usize = 100;
/// Number of unfinished calls above which threads that queue more calls have to wait.
const MAX_PENDING: u64 = 100_000;
/// Time without a completed call after which threads stop waiting for the queue.
const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// Python function to call, and its positional arguments.
pub type PyCall = (Py<PyAny>, Py<PyTuple>);
/// Context variables of the code that registered a callback. The callback runs in this context, as in asyncio.
#[derive(Debug)]
pub struct Context(Py<PyAny>);

impl Context {
    /// Copies the current context.
    pub fn current(py: Python<'_>) -> PyResult<Self> {
        static COPY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let copy = || Ok::<_, PyErr>(py.import("contextvars")?.getattr("copy_context")?.unbind());
        Ok(Self(COPY.get_or_try_init(py, copy)?.call0(py)?))
    }

    /// Returns a copy for a single call, so that later calls do not see the variables that this call sets.
    pub fn copied(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(Self(self.0.call_method0(py, pyo3::intern!(py, "copy"))?))
    }

    /// Returns a call that runs `function` in this context.
    pub fn call<'py>(
        &self,
        py: Python<'py>,
        function: Py<PyAny>,
        arguments: impl IntoIterator<Item = Bound<'py, PyAny>>,
    ) -> PyResult<PyCall> {
        let all: Vec<_> = std::iter::once(function.into_bound(py)).chain(arguments).collect();
        Ok((self.0.getattr(py, pyo3::intern!(py, "run"))?, PyTuple::new(py, all)?.unbind()))
    }
}

/// Closure that creates a call. The closure runs on an attached thread.
pub type Job = Box<dyn FnOnce(Python<'_>) -> PyResult<PyCall> + Send>;

thread_local! {
    /// Address of the queue that this thread serves, or 0 for none.
    static CURRENT_QUEUE: Cell<usize> = const { Cell::new(0) };
}

struct State {
    jobs: VecDeque<Job>,
    /// Number of calls that were queued so far.
    pushed: u64,
    /// Number of calls taken from the queue so far.
    dispatched: u64,
    /// Value of `pushed` when the hub was last notified.
    notified: u64,
    /// True while the application makes calls itself, in a greenlet or in a waiting client call.
    busy: bool,
    /// True once no thread serves the queue.
    closed: bool,
    /// True if the queue closes after the next batch.
    closing: bool,
    /// Number of `pause` calls without a matching `resume` call. While it is above 0, no calls are handed out.
    pauses: usize,
    /// True if the thread that exits the interpreter makes the remaining calls.
    taken_over: bool,
    /// True while the queue's thread makes no calls.
    idle: bool,
}

/// Calls queued for one thread, in order.
pub struct CallbackQueue {
    pid: u32,
    state: Mutex<State>,
    ready: Condvar,
    /// Notified when the thread becomes idle.
    became_idle: Condvar,
    /// Number of completed calls.
    done: watch::Sender<u64>,
    /// The thread whose greenlets make the calls, under gevent and eventlet.
    hub: OnceLock<ThreadId>,
}

/// True once the application makes calls itself, because its threads are greenlets.
static ANY_IN_APPLICATION: AtomicBool = AtomicBool::new(false);

impl std::fmt::Debug for CallbackQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallbackQueue")
            .field("pid", &self.pid)
            .field("done", &*self.done.borrow())
            .finish_non_exhaustive()
    }
}

impl CallbackQueue {
    fn new() -> Arc<Self> {
        let state = State {
            jobs: VecDeque::new(),
            pushed: 0,
            dispatched: 0,
            notified: 0,
            busy: false,
            closed: false,
            closing: false,
            pauses: 0,
            taken_over: false,
            idle: true,
        };
        Arc::new(Self {
            pid: process_id(),
            state: Mutex::new(state),
            ready: Condvar::new(),
            became_idle: Condvar::new(),
            done: watch::Sender::new(0),
            hub: OnceLock::new(),
        })
    }

    /// Queues a call. Returns false if `limit` calls are already waiting or the queue is closed.
    pub fn push(&self, limit: usize, job: impl FnOnce(Python<'_>) -> PyResult<PyCall> + Send + 'static) -> bool {
        let mut state = lock(&self.state);
        if state.closed || state.closing || state.jobs.len() >= limit {
            return false;
        }
        state.jobs.push_back(Box::new(job));
        state.pushed += 1;
        drop(state);
        self.ready.notify_one();
        true
    }

    /// Returns true if this process created the queue, and false if the queue was inherited through a fork.
    pub fn is_of_this_process(&self) -> bool {
        self.pid == process_id()
    }

    /// Returns true on the thread that makes the calls. With greenlets, returns true on any thread while calls are
    /// being made, because the greenlet that makes them only continues once the others yield.
    pub fn is_current_thread(&self) -> bool {
        if self.hub.get().is_some() {
            return lock(&self.state).busy;
        }
        CURRENT_QUEUE.get() == std::ptr::from_ref(self).addr()
    }

    /// Waits until all calls queued so far have completed. On the queue's own thread, returns immediately, because the
    /// thread would wait for itself.
    pub async fn wait_until_drained(&self) {
        let (target, taken_over) = {
            let state = lock(&self.state);
            (state.pushed, state.taken_over)
        };
        if !taken_over && !self.is_current_thread() && interpreter_guard::is_open() {
            let _ = self.done.subscribe().wait_for(|done| *done >= target).await;
        }
    }

    /// Waits while the queue is backlogged, but only as long as calls still complete.
    pub async fn wait_for_capacity(&self) {
        let mut done = self.done.subscribe();
        while self.is_backlogged() && tokio::time::timeout(STALL_TIMEOUT, done.changed()).await.is_ok() {}
    }

    /// Returns true if more than [`MAX_PENDING`] calls are unfinished.
    pub fn is_backlogged(&self) -> bool {
        !self.is_current_thread() && lock(&self.state).pushed.saturating_sub(*self.done.borrow()) > MAX_PENDING
    }

    /// Closes the queue and drops the waiting calls.
    pub fn close(&self) {
        let jobs = {
            let mut state = lock(&self.state);
            state.closed = true;
            std::mem::take(&mut state.jobs)
        };
        drop(jobs);
        self.ready.notify_all();
        self.done.send_replace(u64::MAX);
    }

    /// Replaces the waiting calls by a last call, after which the thread ends.
    pub fn close_with(&self, job: impl FnOnce(Python<'_>) -> PyResult<PyCall> + Send + 'static) {
        let dropped = {
            let mut state = lock(&self.state);
            let dropped = std::mem::take(&mut state.jobs);
            state.jobs.push_back(Box::new(job));
            state.closing = true;
            dropped
        };
        drop(dropped);
        self.ready.notify_one();
    }

    /// Stops handing out calls until [`resume`](Self::resume). Waits at most [`STALL_TIMEOUT`] until the thread is
    /// idle. Must be called without the GIL.
    pub fn pause(&self) {
        let mut state = lock(&self.state);
        state.pauses += 1;
        let busy = |state: &mut State| !state.idle && !state.closed;
        drop(self.became_idle.wait_timeout_while(state, STALL_TIMEOUT, busy));
    }

    /// Pauses the queue permanently, so that the exiting thread can make the remaining calls. After this,
    /// [`wait_until_drained`](Self::wait_until_drained) returns immediately, because the queue's thread can no longer
    /// attach to the interpreter.
    pub fn take_over(&self) {
        lock(&self.state).taken_over = true;
        self.pause();
    }

    /// Undoes [`pause`](Self::pause).
    pub fn resume(&self) {
        let mut state = lock(&self.state);
        state.pauses -= 1;
        drop(state);
        self.ready.notify_one();
    }

    /// Returns the next batch for a thread other than the queue's own thread, and marks the previous batch as
    /// completed.
    fn next_batch_for_other_thread(&self) -> Vec<Job> {
        let mut state = lock(&self.state);
        self.done.send_replace(state.dispatched);
        let count = state.jobs.len().min(MAX_BATCH);
        state.dispatched += count as u64;
        state.jobs.drain(..count).collect()
    }

    /// Reserves the queued calls for the caller. Returns false if there are none, if the queue is paused, or if another
    /// greenlet is making them.
    fn begin_serving(&self) -> bool {
        let mut state = lock(&self.state);
        if state.busy || state.pauses > 0 || state.jobs.is_empty() {
            return false;
        }
        state.busy = true;
        true
    }

    fn end_serving(&self) {
        let mut state = lock(&self.state);
        state.busy = false;
        self.done.send_replace(state.dispatched);
    }

    /// Waits for calls that were queued since the hub was last notified. Returns false once the queue is closed.
    fn wait_for_push(&self) -> bool {
        let mut state = lock(&self.state);
        while state.notified == state.pushed && !state.closed {
            state = wait(&self.ready, state);
        }
        state.notified = state.pushed;
        !state.closed
    }

    /// Marks the previous batch as completed, and the thread as idle.
    fn mark_idle(&self) {
        let mut state = lock(&self.state);
        state.idle = true;
        self.done.send_replace(state.dispatched);
        self.became_idle.notify_all();
    }

    /// Waits for the next batch. Returns `None` once the queue is closed.
    fn next_batch(&self) -> Option<Vec<Job>> {
        let mut state = lock(&self.state);
        while (state.jobs.is_empty() || state.pauses > 0) && !state.closed {
            state = wait(&self.ready, state);
        }
        let count = state.jobs.len().min(MAX_BATCH);
        state.dispatched += count as u64;
        state.idle = false;
        let jobs = (!state.closed).then(|| state.jobs.drain(..count).collect());
        state.closed |= state.closing;
        jobs
    }
}

/// Python's handle of a queue.
#[pyclass(frozen, module = "samsarrow._core", name = "CallbackQueue")]
#[derive(Debug)]
pub struct Worker(Arc<CallbackQueue>);

#[pymethods]
impl Worker {
    /// Marks the previous batch as completed and waits for the next one. Returns None once the queue is closed, and in
    /// the child of a fork, which has its own queues.
    fn next(&self, py: Python<'_>) -> Option<Vec<PyCall>> {
        if CURRENT_QUEUE.replace(std::ptr::from_ref(&*self.0).addr()) != 0 {
            // Release the guard that was leaked for the previous batch.
            drop(interpreter_guard::AttachGuard::reclaim());
        }
        if self.0.pid != process_id() {
            return None;
        }
        self.0.mark_idle();
        let jobs = interpreter_guard::detach(py, || self.0.next_batch())?;
        // Hold a guard until the next call of this method, so that the exit of the interpreter waits for calls in
        // progress.
        interpreter_guard::acquire(py).leak();
        Some(build_calls(py, jobs))
    }

    /// Returns the next waiting calls of a queue that has no thread, or whose calls the exiting thread has taken over.
    fn take_remaining(&self, py: Python<'_>) -> Vec<PyCall> {
        if !self.0.is_of_this_process() {
            return Vec::new();
        }
        build_calls(py, self.0.next_batch_for_other_thread())
    }

    /// Records that the application makes the calls, in greenlets of this thread's hub.
    fn serve_in_application(&self) {
        let _ = self.0.hub.set(thread::current().id());
        ANY_IN_APPLICATION.store(true, Ordering::Relaxed);
    }

    /// Waits for calls that were queued since the hub was last notified. Returns false once the queue is closed.
    fn wait(&self, py: Python<'_>) -> bool {
        self.0.is_of_this_process() && interpreter_guard::detach(py, || self.0.wait_for_push())
    }

    /// Reserves the queued calls for the caller until `end_serving`. Returns false if there are none, if the queue is
    /// paused, or if another greenlet is making them.
    fn begin_serving(&self) -> bool {
        self.0.is_of_this_process() && self.0.begin_serving()
    }

    fn end_serving(&self) {
        if self.0.is_of_this_process() {
            self.0.end_serving();
        }
    }
}

fn build_calls(py: Python<'_>, jobs: Vec<Job>) -> Vec<PyCall> {
    jobs.into_iter().filter_map(|job| job(py).map_err(|error| error.write_unraisable(py, None)).ok()).collect()
}

/// Makes the remaining calls of a queue that was taken over, on this thread and for at most `limit`.
pub fn run_remaining(py: Python<'_>, queue: Arc<CallbackQueue>, limit: Duration) -> PyResult<()> {
    let module = py.import("samsarrow._threads")?;
    CURRENT_QUEUE.set(std::ptr::from_ref(&*queue).addr());
    let done = module.getattr("finish")?.call1((Worker(queue), limit.as_secs_f64())).map(drop);
    CURRENT_QUEUE.set(0);
    done
}

/// Returns true if threads that wait for the client have to make queued calls, because the application's threads are
/// greenlets.
pub fn any_in_application() -> bool {
    ANY_IN_APPLICATION.load(Ordering::Relaxed)
}

/// Makes queued calls on a thread that has waited for the client since `start`.
///
/// A thread other than the hub's only makes calls after [`STALL_TIMEOUT`], because the hub's thread may then have
/// ended.
pub fn serve(py: Python<'_>, start: Instant) -> PyResult<()> {
    let here = thread::current().id();
    let queues = [logging::current(), CALLBACKS.started(), EVENTS.started()];
    for queue in queues.into_iter().flatten() {
        let may_serve = queue.hub.get().is_some_and(|hub| *hub == here || start.elapsed() > STALL_TIMEOUT);
        if may_serve && !lock(&queue.state).jobs.is_empty() {
            py.import("samsarrow._threads")?.getattr("serve")?.call1((Worker(queue),))?;
        }
    }
    Ok(())
}

/// A queue of this process, created on first use.
#[derive(Debug)]
pub struct LazyQueue {
    name: &'static str,
    runs_on: RunsOn,
    queue: Mutex<Option<Arc<CallbackQueue>>>,
}

/// The threads that make queued calls under gevent and eventlet. Without gevent and eventlet, a native thread makes all
/// calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsOn {
    /// A native thread, because the client waits for the results even while the application blocks the hub.
    NativeThread,
    /// The application's own threads and greenlets.
    Application,
}

/// Delivery callbacks.
pub static CALLBACKS: LazyQueue = LazyQueue::new("samsarrow-callbacks", RunsOn::Application);
/// Observers of client events (`on_event`).
pub static EVENTS: LazyQueue = LazyQueue::new("samsarrow-events", RunsOn::Application);
/// Assignors. They have a separate queue, because a group waits for them and they must not wait for callbacks.
pub static ASSIGNORS: LazyQueue = LazyQueue::new("samsarrow-assignors", RunsOn::NativeThread);

impl LazyQueue {
    pub const fn new(name: &'static str, runs_on: RunsOn) -> Self {
        Self { name, runs_on, queue: Mutex::new(None) }
    }

    /// Returns the queue, and creates it if needed. Only attached threads take the lock, so that the lock is never held
    /// during a fork.
    pub fn get(&self, py: Python<'_>) -> PyResult<Arc<CallbackQueue>> {
        let queue = {
            let mut slot = lock(&self.queue);
            if let Some(queue) = slot.as_ref().filter(|queue| queue.pid == process_id()) {
                return Ok(Arc::clone(queue));
            }
            let queue = CallbackQueue::new();
            // Leak the queue of the parent process, because threads that do not exist in this process may hold its
            // locks.
            std::mem::forget(slot.replace(Arc::clone(&queue)));
            queue
        };
        start_worker(py, &queue, self.name, self.runs_on).inspect_err(|_| *lock(&self.queue) = None)?;
        Ok(queue)
    }

    /// Returns the queue if it was created in this process.
    pub fn started(&self) -> Option<Arc<CallbackQueue>> {
        lock(&self.queue).as_ref().filter(|queue| queue.pid == process_id()).map(Arc::clone)
    }
}

/// Creates a queue and starts its thread.
pub fn spawn(py: Python<'_>, name: &str, runs_on: RunsOn) -> PyResult<Arc<CallbackQueue>> {
    let queue = CallbackQueue::new();
    start_worker(py, &queue, name, runs_on)?;
    Ok(queue)
}

/// Starts the thread of a queue. Closes the queue if the thread cannot be started because Python is exiting.
fn start_worker(py: Python<'_>, queue: &Arc<CallbackQueue>, name: &str, runs_on: RunsOn) -> PyResult<()> {
    let _guard = interpreter_guard::acquire(py);
    let module = py.import("samsarrow._threads")?;
    let worker = module.getattr("start")?.call1((Worker(Arc::clone(queue)), name, runs_on == RunsOn::Application));
    worker.map(drop).or_else(|error| {
        queue.close();
        if error.is_instance_of::<PyRuntimeError>(py) { Ok(()) } else { Err(error) }
    })
}

/// Reports an exception through `sys.unraisablehook`, because no caller can handle it.
#[pyfunction]
pub fn unraisable(py: Python<'_>, function: &Bound<'_, PyAny>, error: Bound<'_, PyAny>) {
    let _guard = interpreter_guard::acquire(py);
    PyErr::from_value(error).write_unraisable(py, Some(function));
}
