//! The bridge from the core's threads to event loops: one per running loop, one wake-up for all that is done by then.
//!
//! Threads of the core push what is done into a queue and never wait for the GIL, touch no object of Python's and call no
//! loop: the first push since the loop last looked writes a byte to a socket that the loop watches (asyncio, uvloop, trio).
//! Loops that watch no sockets (Proactor) are rung by a thread of Python's, which asks them to look.

mod inbox;
mod loops;

use std::collections::HashMap;
use std::io::Read;
#[cfg(unix)]
use std::os::{fd::AsRawFd, unix::net::UnixStream as Socket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
#[cfg(windows)]
use std::{net::TcpStream as Socket, os::windows::io::AsRawSocket};

use pyo3::exceptions::{PyException, PyRuntimeError, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use samsarrow_client::error::Error;

pub use self::inbox::Inbox;
use self::inbox::{Ring, drop_left};
use self::loops::running;
use crate::call::Outcome;
use crate::error::to_py;
use crate::gate;
use crate::lanes::{By, Slot};
use crate::runtime::process_id;

/// How often loops were woken by this process, ever.
static WAKE_UPS: AtomicU64 = AtomicU64::new(0);

/// Of loops that watch no sockets.
static LOOPS: Slot = Slot::new("samsarrow-loops", By::Thread);

/// What the loop's thread makes of a push: the result of what is awaited.
type Take = Box<dyn FnOnce(Python<'_>, Option<Outcome>) -> PyResult<Py<PyAny>> + Send>;

/// Somebody who awaits.
struct Waiter {
    /// Has `done`, `set_result` and `set_exception`, as futures of asyncio have.
    future: Py<PyAny>,
    take: Take,
}

/// The side of the loop's thread. The locks are held by threads that are attached, and never while Python runs.
struct Local {
    pid: u32,
    inbox: Option<Arc<Inbox>>,
    /// The end that the loop watches.
    socket: Mutex<Option<Socket>>,
    waiting: Mutex<HashMap<u64, Waiter>>,
    tokens: AtomicU64,
}

impl Local {
    fn inbox(&self) -> PyResult<&Arc<Inbox>> {
        // In the child of a fork the parent's loop does not go on.
        let inbox = self.inbox.as_ref().filter(|_| self.pid == process_id());
        inbox.ok_or_else(|| PyRuntimeError::new_err("this event loop belongs to the parent of this process"))
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, Waiter>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        match self.inbox.take() {
            Some(inbox) if self.pid == process_id() => inbox.close(),
            // Its lock may be held by a thread that is not here.
            inbox => std::mem::forget(inbox),
        }
    }
}

/// What a loop watches, and what it calls when there is something to read.
#[pyclass(frozen, module = "samsarrow._core")]
pub struct Bridge {
    local: Arc<Local>,
}

#[pymethods]
impl Bridge {
    #[new]
    fn new() -> PyResult<Self> {
        let (ours, theirs) = pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        Ok(Self {
            local: Arc::new(Local {
                pid: process_id(),
                inbox: Some(Arc::new(Inbox::new(ours))),
                socket: Mutex::new(Some(theirs)),
                waiting: Mutex::default(),
                tokens: AtomicU64::new(0),
            }),
        })
    }

    /// The socket to watch.
    fn fileno(&self) -> PyResult<u64> {
        let socket = self.local.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = || PyRuntimeError::new_err("the bridge is closed");
        socket.as_ref().and_then(number).ok_or_else(closed)
    }

    /// For a loop that cannot watch it: a thread asks the loop to call `drain`.
    fn by_thread(&self, py: Python<'_>) -> PyResult<()> {
        let lane = LOOPS.get(py)?;
        self.local.inbox()?.lock().ring = Ring::Thread(lane);
        drop(self.local.socket.lock().unwrap_or_else(PoisonError::into_inner).take());
        Ok(())
    }

    /// Settles everything that is done, on the loop's thread.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        let _pass = gate::enter(py);
        let Ok(inbox) = self.local.inbox() else { return Ok(()) };
        if let Some(socket) = &*self.local.socket.lock().unwrap_or_else(PoisonError::into_inner) {
            let mut byte = [0; 8];
            let _ = (&*socket).read(&mut byte);
        }
        WAKE_UPS.fetch_add(1, Ordering::Relaxed);
        let mut interrupted = Ok(());
        for (token, outcome) in inbox.take() {
            let waiter = self.local.waiting().remove(&token);
            // Ctrl-C may come in between: the others are settled all the same.
            if let Some(Err(error)) = waiter.map(|waiter| waiter.settle(py, outcome)) {
                interrupted = Err(error);
            }
        }
        interrupted
    }

    /// A loop that is thrown away unclosed is found by Python's collector: it keeps this, and this its futures.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let waiting = self.local.waiting.try_lock();
        waiting.iter().flat_map(|waiting| waiting.values()).try_for_each(|waiter| visit.call(&waiter.future))
    }

    fn __clear__(&self) {
        let left = std::mem::take(&mut *self.local.waiting());
        drop(left);
    }

    /// The loop has ended: nobody waits any more.
    fn close(&self) {
        if let Ok(inbox) = self.local.inbox() {
            inbox.close();
            drop(self.local.socket.lock().unwrap_or_else(PoisonError::into_inner).take());
            let left = std::mem::take(&mut *self.local.waiting());
            drop(left);
        }
    }
}

/// Two ends of a connection to itself.
#[cfg(unix)]
fn pair() -> std::io::Result<(Socket, Socket)> {
    Socket::pair()
}

/// Where there are no pairs of sockets, as asyncio itself does it.
#[cfg(windows)]
fn pair() -> std::io::Result<(Socket, Socket)> {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    let ours = Socket::connect(listener.local_addr()?)?;
    loop {
        let (theirs, from) = listener.accept()?;
        // Anybody on this machine may connect.
        if from == ours.local_addr()? {
            return Ok((ours, theirs));
        }
    }
}

/// What loops know a socket by.
#[cfg(unix)]
fn number(socket: &Socket) -> Option<u64> {
    u64::try_from(socket.as_raw_fd()).ok()
}

#[cfg(windows)]
#[allow(clippy::unnecessary_wraps, reason = "as on other systems")]
fn number(socket: &Socket) -> Option<u64> {
    Some(socket.as_raw_socket())
}

impl Waiter {
    fn settle(self, py: Python<'_>, outcome: Option<Outcome>) -> PyResult<()> {
        let future = self.future.bind(py);
        // Cancelled: nothing is taken for it.
        if future.call_method0(pyo3::intern!(py, "done"))?.is_truthy()? {
            return Ok(());
        }
        match (self.take)(py, outcome) {
            Ok(found) => future.call_method1(pyo3::intern!(py, "set_result"), (found,)).map(drop),
            Err(error) if error.is_instance_of::<PyException>(py) => {
                future.call_method1(pyo3::intern!(py, "set_exception"), (error.into_value(py),))?;
                // Somebody who was thrown away does not look at it: no reason to log it.
                future.call_method0(pyo3::intern!(py, "exception")).map(drop)
            }
            Err(error) => Err(error),
        }
    }
}

/// A place in a loop's queue that somebody awaits.
#[derive(Debug)]
pub struct Ticket {
    inbox: Arc<Inbox>,
    token: u64,
}

impl Ticket {
    /// Where to push, and under which number. Who takes it pushes for sure.
    pub fn redeem(mut self) -> (Arc<Inbox>, u64) {
        let parts = (Arc::clone(&self.inbox), self.token);
        self.token = u64::MAX;
        parts
    }

    /// Hands the outcome over.
    pub fn settle(self, outcome: Option<Outcome>) {
        let (inbox, token) = self.redeem();
        inbox.push([(token, outcome)]);
    }
}

impl Drop for Ticket {
    /// Work that was given up, or has panicked, leaves nobody waiting.
    fn drop(&mut self) {
        if self.token != u64::MAX {
            self.inbox.push([(self.token, Some(Err(Error::closed("the client (its work was given up)"))))]);
        }
    }
}

/// Awaits in the loop that runs here: what an `__await__` gives, and where the core says that it is done. Then `take` makes
/// the result, on the loop's thread.
pub fn wait(py: Python<'_>, take: Take) -> PyResult<(Ticket, Py<PyAny>)> {
    let _pass = gate::enter(py);
    drop_left();
    let (local, future, iterator) = running(py)?;
    let inbox = Arc::clone(local.inbox()?);
    let token = local.tokens.fetch_add(1, Ordering::Relaxed);
    local.waiting().insert(token, Waiter { future, take });
    Ok((Ticket { inbox, token }, iterator))
}

/// What awaits something that is there already: the loop does not turn for it.
#[pyclass(frozen, module = "samsarrow._core")]
pub struct There(Mutex<Option<Py<PyAny>>>);

impl There {
    pub fn iterator(py: Python<'_>, found: Py<PyAny>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, Self(Mutex::new(Some(found))))?.into_any())
    }
}

#[pymethods]
impl There {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        Err(PyStopIteration::new_err((found.unwrap_or_else(|| py.None()),)))
    }
}

/// How often event loops were woken to be given results, in this process.
#[pyfunction]
pub fn loop_wake_ups() -> u64 {
    WAKE_UPS.load(Ordering::Relaxed)
}

/// The error of a push, which always has an outcome unless what is awaited says itself how it ended.
pub fn outcome(py: Python<'_>, outcome: Option<Outcome>) -> PyResult<crate::call::Convert> {
    let outcome = outcome.unwrap_or_else(|| Err(Error::closed("the client (its work was given up)")));
    outcome.map_err(|error| to_py(py, &error))
}
