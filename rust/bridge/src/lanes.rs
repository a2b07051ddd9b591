//! Threads of ours on which Python is called: for log lines, for delivery callbacks, for assignors, for tokens.
//!
//! They are threads of Python's, so that below the user's code there are only frames of Python: however such a thread
//! ends, it ends as any thread of Python does. `samsarrow._threads` starts them past `threading`, which gevent and eventlet
//! replace: their threads are greenlets of the thread that would wait for them. The core's threads hand over what is to be
//! called and never wait for the GIL.
//!
//! Where greenlets replace `threading`, they also replace locks, those of `logging` included, and a native thread must not
//! wait for one. The program itself then makes most calls: in a greenlet of the hub, and in each client call that waits and
//! so keeps the hub from running.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use tokio::sync::watch;

use crate::gate;
use crate::logging;
use crate::runtime::process_id;

/// Calls that a lane takes in one go: many for one way to Python, few to be waited for when Python ends.
const TAKEN: usize = 100;
/// Calls that may wait before those who ask for more wait, too.
const CROWDED: u64 = 100_000;
/// A lane that does not end a single call for so long is not waited for by those who ask for more.
const STUCK: Duration = Duration::from_secs(1);

/// What is called, and with what.
pub type Call = (Py<PyAny>, Py<PyTuple>);
/// The context variables of the code that asks for a call: the call sees them, as callbacks of asyncio do.
#[derive(Debug)]
pub struct Context(Py<PyAny>);

impl Context {
    /// A copy of those of this moment.
    pub fn here(py: Python<'_>) -> PyResult<Self> {
        static COPY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let copy = || Ok::<_, PyErr>(py.import("contextvars")?.getattr("copy_context")?.unbind());
        Ok(Self(COPY.get_or_try_init(py, copy)?.call0(py)?))
    }

    /// For one call of several: what it sets, the others do not see.
    pub fn another(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(Self(self.0.call_method0(py, pyo3::intern!(py, "copy"))?))
    }

    /// The call of `function` in it.
    pub fn call<'py>(
        &self,
        py: Python<'py>,
        function: Py<PyAny>,
        arguments: impl IntoIterator<Item = Bound<'py, PyAny>>,
    ) -> PyResult<Call> {
        let all: Vec<_> = std::iter::once(function.into_bound(py)).chain(arguments).collect();
        Ok((self.0.getattr(py, pyo3::intern!(py, "run"))?, PyTuple::new(py, all)?.unbind()))
    }
}

/// Makes a call, where Python is at hand.
pub type Job = Box<dyn FnOnce(Python<'_>) -> PyResult<Call> + Send>;

thread_local! {
    /// The address of the lane whose thread this is, or 0.
    static SERVING: Cell<usize> = const { Cell::new(0) };
}

struct Queue {
    jobs: VecDeque<Job>,
    /// How many were pushed, ever.
    pushed: u64,
    /// How many were handed to the thread, ever.
    handed: u64,
    /// Number of pushed calls that the hub was notified of.
    noticed: u64,
    /// The program itself is making calls, in a greenlet or in a call that waits.
    busy: bool,
    /// There is no thread to do them.
    over: bool,
    /// There will be once what waits is done.
    ending: bool,
    /// Number of threads that hold it: nothing is handed out until all have released it.
    held: usize,
    /// The thread that ends the interpreter makes the calls that wait.
    taken_over: bool,
    /// The thread is not calling anything.
    idle: bool,
}

/// Calls that wait for one thread, in their order.
pub struct Lane {
    pid: u32,
    queue: Mutex<Queue>,
    ready: Condvar,
    /// The thread has become idle.
    rests: Condvar,
    /// How many are done, ever.
    done: watch::Sender<u64>,
    /// The thread whose greenlets make the calls.
    hub: OnceLock<ThreadId>,
}

/// Set once the program itself makes calls, because greenlets replace its threads.
static ANY_IN_PROGRAM: AtomicBool = AtomicBool::new(false);

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane").field("pid", &self.pid).field("done", &*self.done.borrow()).finish_non_exhaustive()
    }
}

impl Lane {
    fn new() -> Arc<Self> {
        let queue = Queue {
            jobs: VecDeque::new(),
            pushed: 0,
            handed: 0,
            noticed: 0,
            busy: false,
            over: false,
            ending: false,
            held: 0,
            taken_over: false,
            idle: true,
        };
        Arc::new(Self {
            pid: process_id(),
            queue: Mutex::new(queue),
            ready: Condvar::new(),
            rests: Condvar::new(),
            done: watch::Sender::new(0),
            hub: OnceLock::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a call over, unless `limit` of them wait already or nobody would take it.
    pub fn push(&self, limit: usize, job: impl FnOnce(Python<'_>) -> PyResult<Call> + Send + 'static) -> bool {
        let mut queue = self.lock();
        if queue.over || queue.ending || queue.jobs.len() >= limit {
            return false;
        }
        queue.jobs.push_back(Box::new(job));
        queue.pushed += 1;
        drop(queue);
        self.ready.notify_one();
        true
    }

    /// Whether this process made it.
    pub fn is_ours(&self) -> bool {
        self.pid == process_id()
    }

    /// Returns true in the thread that makes the calls. With greenlets that is any thread while one of them makes calls:
    /// it only continues once the others yield.
    pub fn is_here(&self) -> bool {
        if self.hub.get().is_some() {
            return self.lock().busy;
        }
        SERVING.get() == std::ptr::from_ref(self).addr()
    }

    /// Waits until all calls of this moment are done. The lane's own thread does not wait: it would wait for itself.
    pub async fn settled(&self) {
        let (target, taken_over) = {
            let queue = self.lock();
            (queue.pushed, queue.taken_over)
        };
        if !taken_over && !self.is_here() && gate::is_open() {
            let _ = self.done.subscribe().wait_for(|done| *done >= target).await;
        }
    }

    /// Waits while too many calls wait, as long as that helps.
    pub async fn room(&self) {
        let mut done = self.done.subscribe();
        while self.is_crowded() && tokio::time::timeout(STUCK, done.changed()).await.is_ok() {}
    }

    /// Whether those who ask for more should wait.
    pub fn is_crowded(&self) -> bool {
        !self.is_here() && self.lock().pushed.saturating_sub(*self.done.borrow()) > CROWDED
    }

    /// No call is made any more.
    pub fn end(&self) {
        let jobs = {
            let mut queue = self.lock();
            queue.over = true;
            std::mem::take(&mut queue.jobs)
        };
        drop(jobs);
        self.ready.notify_all();
        self.done.send_replace(u64::MAX);
    }

    /// Has the thread make one more call, instead of those that wait, and end.
    pub fn finish(&self, job: impl FnOnce(Python<'_>) -> PyResult<Call> + Send + 'static) {
        let unmade = {
            let mut queue = self.lock();
            let unmade = std::mem::take(&mut queue.jobs);
            queue.jobs.push_back(Box::new(job));
            queue.ending = true;
            unmade
        };
        drop(unmade);
        self.ready.notify_one();
    }

    /// Waits, without the GIL, until the thread calls nothing, or is too long about it; it then stays so.
    pub fn hold(&self) {
        let mut queue = self.lock();
        queue.held += 1;
        let busy = |queue: &mut Queue| !queue.idle && !queue.over;
        drop(self.rests.wait_timeout_while(queue, STUCK, busy));
    }

    /// As [`hold`](Self::hold), for good: the thread that ends the interpreter makes the calls that wait. It waits for no
    /// thread that could not come back to Python.
    pub fn take_over(&self) {
        self.lock().taken_over = true;
        self.hold();
    }

    /// Undoes [`hold`](Self::hold).
    pub fn release(&self) {
        let mut queue = self.lock();
        queue.held -= 1;
        drop(queue);
        self.ready.notify_one();
    }

    /// Some of the calls that wait, for a thread other than the lane's own, which has made those of the last time.
    fn take_rest(&self) -> Vec<Job> {
        let mut queue = self.lock();
        self.done.send_replace(queue.handed);
        let count = queue.jobs.len().min(TAKEN);
        queue.handed += count as u64;
        queue.jobs.drain(..count).collect()
    }

    /// Reserves the queued calls for the caller; false if there are none or another greenlet makes them.
    fn begin_serving(&self) -> bool {
        let mut queue = self.lock();
        if queue.busy || queue.held > 0 || queue.jobs.is_empty() {
            return false;
        }
        queue.busy = true;
        true
    }

    fn end_serving(&self) {
        let mut queue = self.lock();
        queue.busy = false;
        self.done.send_replace(queue.handed);
    }

    /// Waits for calls that the hub was not notified of; false when there are no further ones.
    fn wait_for_push(&self) -> bool {
        let mut queue = self.lock();
        while queue.noticed == queue.pushed && !queue.over {
            queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.noticed = queue.pushed;
        !queue.over
    }

    /// The calls of the last time are done.
    fn rest(&self) {
        let mut queue = self.lock();
        queue.idle = true;
        self.done.send_replace(queue.handed);
        self.rests.notify_all();
    }

    /// Waits for calls; None when there will be none.
    fn take(&self) -> Option<Vec<Job>> {
        let mut queue = self.lock();
        while (queue.jobs.is_empty() || queue.held > 0) && !queue.over {
            queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let count = queue.jobs.len().min(TAKEN);
        queue.handed += count as u64;
        queue.idle = false;
        let jobs = (!queue.over).then(|| queue.jobs.drain(..count).collect());
        queue.over |= queue.ending;
        jobs
    }
}

/// What a lane's thread works on.
#[pyclass(frozen, module = "samsarrow._core", name = "Lane")]
#[derive(Debug)]
pub struct Server(Arc<Lane>);

#[pymethods]
impl Server {
    /// The next calls, once those of the last time are done; None in the child of a fork, which has lanes of its own.
    fn next(&self, py: Python<'_>) -> Option<Vec<Call>> {
        if SERVING.replace(std::ptr::from_ref(&*self.0).addr()) != 0 {
            // What the last calls held.
            drop(gate::Pass::again());
        }
        if self.0.pid != process_id() {
            return None;
        }
        self.0.rest();
        let jobs = gate::detach(py, || self.0.take())?;
        // Inside until it comes again: the end of the interpreter waits for calls that are being made.
        gate::enter(py).keep();
        Some(made(py, jobs))
    }

    /// Calls that wait in a lane that has no thread, or was taken over by the thread that ends the interpreter.
    fn rest(&self, py: Python<'_>) -> Vec<Call> {
        if !self.0.is_ours() {
            return Vec::new();
        }
        made(py, self.0.take_rest())
    }

    /// Marks the calls as made by the program itself.
    fn serve_in_program(&self) {
        let _ = self.0.hub.set(thread::current().id());
        ANY_IN_PROGRAM.store(true, Ordering::Relaxed);
    }

    /// Waits for calls that the hub was not notified of; false when there are no further ones.
    fn wait(&self, py: Python<'_>) -> bool {
        self.0.is_ours() && gate::detach(py, || self.0.wait_for_push())
    }

    /// Reserves the queued calls for the caller until `end_serving`; false if there are none or another greenlet makes them.
    fn begin_serving(&self) -> bool {
        self.0.is_ours() && self.0.begin_serving()
    }

    fn end_serving(&self) {
        if self.0.is_ours() {
            self.0.end_serving();
        }
    }
}

fn made(py: Python<'_>, jobs: Vec<Job>) -> Vec<Call> {
    jobs.into_iter().filter_map(|job| job(py).map_err(|error| error.write_unraisable(py, None)).ok()).collect()
}

/// Makes the calls that wait in a lane that was taken over, in this thread, for at most `limit`.
pub fn finish(py: Python<'_>, lane: Arc<Lane>, limit: Duration) -> PyResult<()> {
    let module = py.import("samsarrow._threads")?;
    SERVING.set(std::ptr::from_ref(&*lane).addr());
    let done = module.getattr("finish")?.call1((Server(lane), limit.as_secs_f64())).map(drop);
    SERVING.set(0);
    done
}

/// Returns true if waiting threads have to make queued calls, because greenlets replace the program's threads.
pub fn any_in_program() -> bool {
    ANY_IN_PROGRAM.load(Ordering::Relaxed)
}

/// Makes queued calls in a thread that has waited since `start`.
///
/// Threads other than the hub's do so only after a while: the hub's thread may have ended.
pub fn serve(py: Python<'_>, start: Instant) -> PyResult<()> {
    let here = thread::current().id();
    let lanes = [logging::current(), CALLBACKS.begun(), EVENTS.begun()];
    for lane in lanes.into_iter().flatten() {
        let ours = lane.hub.get().is_some_and(|hub| *hub == here || start.elapsed() > STUCK);
        if ours && !lane.lock().jobs.is_empty() {
            py.import("samsarrow._threads")?.getattr("serve")?.call1((Server(lane),))?;
        }
    }
    Ok(())
}

/// A lane of this process, begun when it is first needed.
#[derive(Debug)]
pub struct Slot {
    name: &'static str,
    by: By,
    lane: Mutex<Option<Arc<Lane>>>,
}

/// The threads that make queued calls where greenlets replace `threading`. Elsewhere it is always a native thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// A native thread: the core waits for the results, whatever the program does meanwhile.
    Thread,
    /// The program's own threads and greenlets.
    Program,
}

/// Of delivery callbacks.
pub static CALLBACKS: Slot = Slot::new("samsarrow-callbacks", By::Program);
/// Of functions that are notified of events.
pub static EVENTS: Slot = Slot::new("samsarrow-events", By::Program);
/// Of assignors, which a group waits for: not behind callbacks.
pub static ASSIGNORS: Slot = Slot::new("samsarrow-assignors", By::Thread);

impl Slot {
    pub const fn new(name: &'static str, by: By) -> Self {
        Self { name, by, lane: Mutex::new(None) }
    }

    /// The lane. The lock is only held by threads that are attached, so that no fork leaves it locked.
    pub fn get(&self, py: Python<'_>) -> PyResult<Arc<Lane>> {
        let lane = {
            let mut slot = self.lock();
            if let Some(lane) = slot.as_ref().filter(|lane| lane.pid == process_id()) {
                return Ok(Arc::clone(lane));
            }
            let lane = Lane::new();
            // The parent's is forgotten, not dropped: its locks may be held by threads that are not here.
            std::mem::forget(slot.replace(Arc::clone(&lane)));
            lane
        };
        start(py, &lane, self.name, self.by).inspect_err(|_| *self.lock() = None)?;
        Ok(lane)
    }

    /// The lane, if it was begun.
    pub fn begun(&self) -> Option<Arc<Lane>> {
        self.lock().as_ref().filter(|lane| lane.pid == process_id()).map(Arc::clone)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Lane>>> {
        self.lane.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A new lane with its thread.
pub fn begin(py: Python<'_>, name: &str, by: By) -> PyResult<Arc<Lane>> {
    let lane = Lane::new();
    start(py, &lane, name, by)?;
    Ok(lane)
}

/// Starts a lane's thread. While Python ends it starts none: then nothing is called.
fn start(py: Python<'_>, lane: &Arc<Lane>, name: &str, by: By) -> PyResult<()> {
    let _pass = gate::enter(py);
    let module = py.import("samsarrow._threads")?;
    let started = module.getattr("start")?.call1((Server(Arc::clone(lane)), name, by == By::Program));
    started.map(drop).or_else(|error| {
        lane.end();
        if error.is_instance_of::<PyRuntimeError>(py) { Ok(()) } else { Err(error) }
    })
}

/// Reports an exception that has no caller to go to as Python reports such.
#[pyfunction]
pub fn unraisable(py: Python<'_>, function: &Bound<'_, PyAny>, error: Bound<'_, PyAny>) {
    let _pass = gate::enter(py);
    PyErr::from_value(error).write_unraisable(py, Some(function));
}
