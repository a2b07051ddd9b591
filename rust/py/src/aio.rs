//! The bridge from the core's threads to event loops: one per running loop, one wake-up for all that is done by then.
//!
//! Threads of the core push what is done into a queue and never wait for the GIL, touch no object of Python's and call no
//! loop: the first push since the loop last looked writes a byte to a socket that the loop watches (asyncio, uvloop, trio).
//! Loops that watch no sockets (Proactor) are rung by a thread of Python's, which asks them to look.

use std::collections::HashMap;
use std::io::{Read, Write};
#[cfg(unix)]
use std::os::{fd::AsRawFd, unix::net::UnixStream as Socket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
#[cfg(windows)]
use std::{net::TcpStream as Socket, os::windows::io::AsRawSocket};

use pyo3::exceptions::{PyException, PyRuntimeError, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyWeakrefReference;
use samsarrow_client::error::Error;

use crate::call::Outcome;
use crate::error::to_py;
use crate::gate;
use crate::lanes::{self, Slot};
use crate::runtime::process_id;

/// How often loops were woken by this process, ever.
static WAKE_UPS: AtomicU64 = AtomicU64::new(0);

/// Of loops that watch no sockets.
static LOOPS: Slot = Slot::new("samsarrow-loops");

/// Outcomes that no loop takes any more. What Python lent may be in them: the next thread that is attached drops them.
static LEFT: Mutex<Vec<Outcome>> = Mutex::new(Vec::new());

/// What the loop's thread makes of a push: the result of what is awaited.
type Take = Box<dyn FnOnce(Python<'_>, Option<Outcome>) -> PyResult<Py<PyAny>> + Send>;

/// Somebody who awaits.
struct Waiter {
    /// Has `done`, `set_result` and `set_exception`, as futures of asyncio have.
    future: Py<PyAny>,
    take: Take,
}

/// How a loop is made to look.
enum Ring {
    /// The loop watches the other end.
    Socket(Socket),
    /// A thread of Python's asks it.
    Thread(Arc<lanes::Lane>),
    /// There is no loop any more.
    Never,
}

struct Queue {
    done: Vec<(u64, Option<Outcome>)>,
    /// The loop was rung since it last looked.
    armed: bool,
    ring: Ring,
}

/// The side of the core's threads.
pub(crate) struct Inbox {
    id: u64,
    queue: Mutex<Queue>,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over what is done, in one go.
    pub(crate) fn push(&self, done: impl IntoIterator<Item = (u64, Option<Outcome>)>) {
        let mut queue = self.lock();
        if matches!(queue.ring, Ring::Never) {
            let left = done.into_iter().filter_map(|(_, outcome)| outcome);
            LEFT.lock().unwrap_or_else(PoisonError::into_inner).extend(left);
            return;
        }
        queue.done.extend(done);
        if queue.done.is_empty() || std::mem::replace(&mut queue.armed, true) {
            return;
        }
        match &queue.ring {
            // One byte at most is on its way: there is always room for it.
            Ring::Socket(socket) => drop((&*socket).write(&[1])),
            Ring::Thread(lane) => {
                let id = self.id;
                lane.push(usize::MAX, move |py| ask(py, id));
            }
            Ring::Never => {}
        }
    }

    /// What was pushed since the last time.
    fn take(&self) -> Vec<(u64, Option<Outcome>)> {
        let mut queue = self.lock();
        queue.armed = false;
        std::mem::take(&mut queue.done)
    }

    /// Nobody looks any more.
    fn close(&self) {
        let mut queue = self.lock();
        let left = (std::mem::replace(&mut queue.ring, Ring::Never), std::mem::take(&mut queue.done));
        drop(queue);
        drop(left);
    }
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
pub(crate) struct Bridge {
    local: Arc<Local>,
}

#[pymethods]
impl Bridge {
    #[new]
    fn new() -> PyResult<Self> {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let (ours, theirs) = pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let queue = Queue { done: Vec::new(), armed: false, ring: Ring::Socket(ours) };
        let inbox = Inbox { id: IDS.fetch_add(1, Ordering::Relaxed), queue: Mutex::new(queue) };
        Ok(Self {
            local: Arc::new(Local {
                pid: process_id(),
                inbox: Some(Arc::new(inbox)),
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
pub(crate) struct Ticket {
    inbox: Arc<Inbox>,
    token: u64,
}

impl Ticket {
    /// Where to push, and under which number. Who takes it pushes for sure.
    pub(crate) fn redeem(mut self) -> (Arc<Inbox>, u64) {
        let parts = (Arc::clone(&self.inbox), self.token);
        self.token = u64::MAX;
        parts
    }

    /// Hands the outcome over.
    pub(crate) fn settle(self, outcome: Option<Outcome>) {
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
pub(crate) fn wait(py: Python<'_>, take: Take) -> PyResult<(Ticket, Py<PyAny>)> {
    let _pass = gate::enter(py);
    let left = std::mem::take(&mut *LEFT.lock().unwrap_or_else(PoisonError::into_inner));
    drop(left);
    let (bridge, future, iterator) = running(py)?;
    let inbox = Arc::clone(bridge.local.inbox()?);
    let token = bridge.local.tokens.fetch_add(1, Ordering::Relaxed);
    bridge.local.waiting().insert(token, Waiter { future, take });
    Ok((Ticket { inbox, token }, iterator))
}

/// The bridge of the loop that runs here, a new future of it, and what awaits that.
fn running(py: Python<'_>) -> PyResult<(Bridging, Py<PyAny>, Py<PyAny>)> {
    static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static MODULES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let modules = MODULES.get_or_try_init(py, || Ok::<_, PyErr>(py.import("sys")?.getattr("modules")?.unbind()))?;
    if modules.bind(py).contains(pyo3::intern!(py, "trio"))? {
        let found = py.import("samsarrow._aio")?.getattr("in_trio")?.call0()?;
        if !found.is_none() {
            let (bridge, future, iterator): (Bound<'_, Bridge>, Py<PyAny>, Py<PyAny>) = found.extract()?;
            return Ok((Bridging { local: Arc::clone(&bridge.get().local) }, future, iterator));
        }
    }
    let running = RUNNING
        .get_or_try_init(py, || Ok::<_, PyErr>(py.import("asyncio")?.getattr("get_running_loop")?.unbind()))?
        .bind(py)
        .call0()?;
    let local = of_loop(py, &running)?;
    let future = running.call_method0(pyo3::intern!(py, "create_future"))?;
    let iterator = future.call_method0(pyo3::intern!(py, "__await__"))?.unbind();
    Ok((Bridging { local }, future.unbind(), iterator))
}

struct Bridging {
    local: Arc<Local>,
}

/// A loop that has a bridge.
struct Known {
    running: Py<PyWeakrefReference>,
    /// The loop keeps it, through what it calls: a loop that is closed lets it go, with its sockets.
    local: Weak<Local>,
    /// Where nothing of the loop's keeps it.
    kept: Option<Py<Bridge>>,
}

/// By the loop's address. Threads that are attached hold the lock, and run no Python meanwhile.
static KNOWN: LazyLock<Mutex<HashMap<usize, Known>>> = LazyLock::new(Mutex::default);

fn of_loop(py: Python<'_>, running: &Bound<'_, PyAny>) -> PyResult<Arc<Local>> {
    let address = running.as_ptr().addr();
    {
        let known = known_loops();
        let local = known.get(&address).and_then(|known| {
            // Another loop may have been at this address.
            let same = known.running.bind(py).upgrade().is_some_and(|known| known.is(running));
            known.local.upgrade().filter(|local| same && local.pid == process_id())
        });
        if let Some(local) = local {
            return Ok(local);
        }
    }
    let bridge = Py::new(py, Bridge::new()?)?;
    let local = Arc::clone(&bridge.get().local);
    let attached = py.import("samsarrow._aio")?.getattr("attach")?.call1((running, &bridge))?.is_truthy()?;
    let running = PyWeakrefReference::new(running)?.unbind();
    let known = Known { running, local: Arc::downgrade(&local), kept: (!attached).then_some(bridge) };
    let before = known_loops().insert(address, known);
    drop(before);
    forget_closed(py);
    Ok(local)
}

fn known_loops() -> MutexGuard<'static, HashMap<usize, Known>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets go of loops that are closed. Whether one is, Python says: the lock is not held meanwhile.
fn forget_closed(py: Python<'_>) {
    let all: Vec<_> = known_loops().iter().map(|(address, known)| (*address, known.running.clone_ref(py))).collect();
    let open = |running: Bound<'_, PyAny>| {
        running.call_method0("is_closed").and_then(|closed| closed.is_truthy()).is_ok_and(|closed| !closed)
    };
    let closed = all.into_iter().filter(|(_, running)| !running.bind(py).upgrade().is_some_and(open));
    for (address, running) in closed {
        let gone = {
            let mut known = known_loops();
            let same = known.get(&address).is_some_and(|known| known.running.is(&running));
            if same { known.remove(&address) } else { None }
        };
        drop(gone);
    }
}

/// What asks a loop that watches no sockets to look: nothing, if it is gone.
fn ask(py: Python<'_>, id: u64) -> PyResult<lanes::Call> {
    let found = {
        let known = known_loops();
        let mut all = known.values();
        all.find(|known| known.kept.as_ref().is_some_and(|bridge| bridge.get().is(id)))
            .and_then(|known| Some((known.running.bind(py).upgrade()?.unbind(), known.kept.as_ref()?.clone_ref(py))))
    };
    let (running, bridge) = found.map_or((py.None(), py.None()), |(running, bridge)| (running, bridge.into_any()));
    let ring = py.import("samsarrow._aio")?.getattr("ring")?.unbind();
    Ok((ring, (running, bridge).into_pyobject(py)?.unbind()))
}

impl Bridge {
    fn is(&self, id: u64) -> bool {
        self.local.inbox.as_ref().is_some_and(|inbox| inbox.id == id)
    }
}

/// What awaits something that is there already: the loop does not turn for it.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct There(Mutex<Option<Py<PyAny>>>);

impl There {
    pub(crate) fn iterator(py: Python<'_>, found: Py<PyAny>) -> PyResult<Py<PyAny>> {
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
pub(crate) fn loop_wake_ups() -> u64 {
    WAKE_UPS.load(Ordering::Relaxed)
}

/// The error of a push, which always has an outcome unless what is awaited says itself how it ended.
pub(crate) fn outcome(py: Python<'_>, outcome: Option<Outcome>) -> PyResult<crate::call::Convert> {
    let outcome = outcome.unwrap_or_else(|| Err(Error::closed("the client (its work was given up)")));
    outcome.map_err(|error| to_py(py, &error))
}
