//! Delivery of results from the Rust client to event loops. Each running loop has one bridge, and one wake-up delivers
//! all results that have been pushed before it.
//!
//! Threads of the client push results into a queue. These threads never wait for the GIL, touch no Python object and
//! call no loop. Instead, the first push since the last `drain` writes a byte to a socket that the loop watches
//! (asyncio, uvloop, trio). Loops that cannot watch sockets (Proactor) are woken by a Python thread.

mod inbox;
mod loops;

use std::collections::HashMap;
use std::io::Read;
#[cfg(unix)]
use std::os::{fd::AsRawFd, unix::net::UnixStream as Socket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
#[cfg(windows)]
use std::{net::TcpStream as Socket, os::windows::io::AsRawSocket};

use pyo3::exceptions::{PyException, PyRuntimeError, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use samsarrow_client::error::Error;
use samsarrow_client::sync::lock;

pub use self::inbox::Inbox;
use self::inbox::{Wakeup, drop_orphaned};
use self::loops::current_loop;
use crate::call::Outcome;
use crate::callback_threads::{LazyQueue, RunsOn};
use crate::error::to_py;
use crate::interpreter_guard;
use crate::runtime::process_id;

/// Number of wake-ups of event loops in this process.
static WAKE_UPS: AtomicU64 = AtomicU64::new(0);

/// Queue of the calls that wake loops that cannot watch sockets.
static LOOP_WAKER: LazyQueue = LazyQueue::new("samsarrow-loops", RunsOn::NativeThread);

/// Converts a pushed outcome to the awaited result, on the thread of the loop.
type BuildResult = Box<dyn FnOnce(Python<'_>, Option<Outcome>) -> PyResult<Py<PyAny>> + Send>;

/// A pending await.
struct Waiter {
    /// An object with `done`, `set_result` and `set_exception`, such as an asyncio future.
    future: Py<PyAny>,
    take: BuildResult,
}

/// The loop's side of a bridge. Only attached threads lock the mutexes, and they run no Python code while they hold
/// one.
struct LoopState {
    pid: u32,
    inbox: Option<Arc<Inbox>>,
    /// The socket that the loop watches.
    socket: Mutex<Option<Socket>>,
    waiters: Mutex<HashMap<u64, Waiter>>,
    tokens: AtomicU64,
}

impl LoopState {
    fn inbox(&self) -> PyResult<&Arc<Inbox>> {
        // In the child of a fork, the parent's loop does not run.
        let inbox = self.inbox.as_ref().filter(|_| self.pid == process_id());
        inbox.ok_or_else(|| PyRuntimeError::new_err("this event loop belongs to the parent of this process"))
    }
}

impl Drop for LoopState {
    fn drop(&mut self) {
        match self.inbox.take() {
            Some(inbox) if self.pid == process_id() => inbox.close(),
            // In the child of a fork, leak the inbox: its lock may be held by a thread that does not exist here.
            inbox => std::mem::forget(inbox),
        }
    }
}

/// The object that an event loop watches. Its `drain` is the callback for readable data.
#[pyclass(frozen, module = "samsarrow._core")]
pub struct Bridge {
    state: Arc<LoopState>,
}

#[pymethods]
impl Bridge {
    #[new]
    fn new() -> PyResult<Self> {
        let (writer, reader) = socket_pair()?;
        writer.set_nonblocking(true)?;
        reader.set_nonblocking(true)?;
        Ok(Self {
            state: Arc::new(LoopState {
                pid: process_id(),
                inbox: Some(Arc::new(Inbox::new(writer))),
                socket: Mutex::new(Some(reader)),
                waiters: Mutex::default(),
                tokens: AtomicU64::new(0),
            }),
        })
    }

    /// Returns the file descriptor of the socket that the loop must watch.
    fn fileno(&self) -> PyResult<u64> {
        let socket = lock(&self.state.socket);
        let closed = || PyRuntimeError::new_err("the bridge is closed");
        socket.as_ref().and_then(raw_handle).ok_or_else(closed)
    }

    /// Makes a thread wake the loop, because the loop cannot watch sockets.
    fn wake_by_thread(&self, py: Python<'_>) -> PyResult<()> {
        let queue = LOOP_WAKER.get(py)?;
        self.state.inbox()?.lock().wakeup = Wakeup::Thread(queue);
        drop(lock(&self.state.socket).take());
        Ok(())
    }

    /// Completes all waiters whose results are available. Runs on the thread of the loop.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        let _guard = interpreter_guard::acquire(py);
        let Ok(inbox) = self.state.inbox() else { return Ok(()) };
        if let Some(socket) = &*lock(&self.state.socket) {
            let mut byte = [0; 8];
            let _ = (&*socket).read(&mut byte);
        }
        WAKE_UPS.fetch_add(1, Ordering::Relaxed);
        let mut interrupted = Ok(());
        for (token, outcome) in inbox.take() {
            let waiter = lock(&self.state.waiters).remove(&token);
            // `complete` may raise KeyboardInterrupt. The remaining waiters are completed anyway.
            if let Some(Err(error)) = waiter.map(|waiter| waiter.complete(py, outcome)) {
                interrupted = Err(error);
            }
        }
        interrupted
    }

    /// Lets the garbage collector find a loop that was dropped without being closed. Such a loop is part of a reference
    /// cycle, because the loop references the bridge and the bridge references futures of the loop.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let waiters = self.state.waiters.try_lock();
        waiters.iter().flat_map(|waiters| waiters.values()).try_for_each(|waiter| visit.call(&waiter.future))
    }

    fn __clear__(&self) {
        let waiters = std::mem::take(&mut *lock(&self.state.waiters));
        drop(waiters);
    }

    /// Releases the socket and all waiters after the loop has ended.
    fn close(&self) {
        if let Ok(inbox) = self.state.inbox() {
            inbox.close();
            drop(lock(&self.state.socket).take());
            let waiters = std::mem::take(&mut *lock(&self.state.waiters));
            drop(waiters);
        }
    }
}

/// Returns two connected sockets.
#[cfg(unix)]
fn socket_pair() -> std::io::Result<(Socket, Socket)> {
    Socket::pair()
}

/// Returns two connected sockets. They are created as asyncio does on systems without socket pairs.
#[cfg(windows)]
fn socket_pair() -> std::io::Result<(Socket, Socket)> {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    let ours = Socket::connect(listener.local_addr()?)?;
    loop {
        let (theirs, from) = listener.accept()?;
        // Check the address, because any process on this machine may connect.
        if from == ours.local_addr()? {
            return Ok((ours, theirs));
        }
    }
}

/// Returns the file descriptor or handle by which event loops identify a socket.
#[cfg(unix)]
fn raw_handle(socket: &Socket) -> Option<u64> {
    u64::try_from(socket.as_raw_fd()).ok()
}

#[cfg(windows)]
#[allow(clippy::unnecessary_wraps, reason = "as on other systems")]
fn raw_handle(socket: &Socket) -> Option<u64> {
    Some(socket.as_raw_socket())
}

impl Waiter {
    fn complete(self, py: Python<'_>, outcome: Option<Outcome>) -> PyResult<()> {
        let future = self.future.bind(py);
        // If the await was cancelled, the result is not read.
        if future.call_method0(pyo3::intern!(py, "done"))?.is_truthy()? {
            return Ok(());
        }
        match (self.take)(py, outcome) {
            Ok(value) => future.call_method1(pyo3::intern!(py, "set_result"), (value,)).map(drop),
            Err(error) if error.is_instance_of::<PyException>(py) => {
                future.call_method1(pyo3::intern!(py, "set_exception"), (error.into_value(py),))?;
                // Mark the exception as retrieved, so that asyncio does not log it if the awaiting task was cancelled.
                future.call_method0(pyo3::intern!(py, "exception")).map(drop)
            }
            Err(error) => Err(error),
        }
    }
}

/// Handle with which the client's work pushes the result of one await to the loop.
#[derive(Debug)]
pub struct Completion {
    inbox: Arc<Inbox>,
    token: u64,
}

impl Completion {
    /// Returns the inbox and the token of this completion. The caller must then push a result for the token.
    pub fn into_parts(mut self) -> (Arc<Inbox>, u64) {
        let parts = (Arc::clone(&self.inbox), self.token);
        self.token = u64::MAX;
        parts
    }

    /// Pushes the outcome.
    pub fn complete(self, outcome: Option<Outcome>) {
        let (inbox, token) = self.into_parts();
        inbox.push([(token, outcome)]);
    }
}

impl Drop for Completion {
    /// Completes the await with an error if the work was cancelled or panicked.
    fn drop(&mut self) {
        if self.token != u64::MAX {
            self.inbox.push([(self.token, Some(Err(Error::closed("the client (its work was cancelled)"))))]);
        }
    }
}

/// Starts an await on the running loop. Returns the completion, to which the client's work pushes its outcome, and the
/// iterator for `__await__`. `take` converts the outcome on the thread of the loop.
pub fn wait(py: Python<'_>, take: BuildResult) -> PyResult<(Completion, Py<PyAny>)> {
    let _guard = interpreter_guard::acquire(py);
    drop_orphaned();
    let (state, future, iterator) = current_loop(py)?;
    let inbox = Arc::clone(state.inbox()?);
    let token = state.tokens.fetch_add(1, Ordering::Relaxed);
    lock(&state.waiters).insert(token, Waiter { future, take });
    Ok((Completion { inbox, token }, iterator))
}

/// The iterator of an await whose result already exists. The loop runs no other task before the await returns.
#[pyclass(frozen, module = "samsarrow._core")]
pub struct Ready(Mutex<Option<Py<PyAny>>>);

impl Ready {
    pub fn iterator(py: Python<'_>, value: Py<PyAny>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, Self(Mutex::new(Some(value))))?.into_any())
    }
}

#[pymethods]
impl Ready {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let value = lock(&self.0).take();
        Err(PyStopIteration::new_err((value.unwrap_or_else(|| py.None()),)))
    }
}

/// Returns the number of wake-ups of event loops in this process.
#[pyfunction]
pub fn loop_wake_ups() -> u64 {
    WAKE_UPS.load(Ordering::Relaxed)
}

/// Returns the converter in a successful outcome, or the outcome's error as a Python exception. The outcome is `None`
/// if the work was dropped.
pub fn converter(py: Python<'_>, outcome: Option<Outcome>) -> PyResult<crate::call::Convert> {
    let outcome = outcome.unwrap_or_else(|| Err(Error::closed("the client (its work was cancelled)")));
    outcome.map_err(|error| to_py(py, &error))
}
