//! Registry of the event loops of this process and their bridges.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, Weak};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyWeakrefReference;
use samsarrow_client::sync::lock;

use super::{Bridge, LoopState};
use crate::callback_threads;
use crate::runtime::process_id;

/// Returns the bridge state of the running loop, a new future of that loop, and the iterator that awaits it.
pub(super) fn current_loop(py: Python<'_>) -> PyResult<(Arc<LoopState>, Py<PyAny>, Py<PyAny>)> {
    static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static MODULES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let modules = MODULES.get_or_try_init(py, || Ok::<_, PyErr>(py.import("sys")?.getattr("modules")?.unbind()))?;
    if modules.bind(py).contains(pyo3::intern!(py, "trio"))? {
        let trio = py.import("samsarrow._aio")?.getattr("in_trio")?.call0()?;
        if !trio.is_none() {
            let (bridge, future, iterator): (Bound<'_, Bridge>, Py<PyAny>, Py<PyAny>) = trio.extract()?;
            return Ok((Arc::clone(&bridge.get().state), future, iterator));
        }
    }
    let running = RUNNING
        .get_or_try_init(py, || Ok::<_, PyErr>(py.import("asyncio")?.getattr("get_running_loop")?.unbind()))?
        .bind(py)
        .call0()?;
    let state = state_of(py, &running)?;
    let future = running.call_method0(pyo3::intern!(py, "create_future"))?;
    let iterator = future.call_method0(pyo3::intern!(py, "__await__"))?.unbind();
    Ok((state, future.unbind(), iterator))
}

/// An event loop that has a bridge.
struct KnownLoop {
    running: Py<PyWeakrefReference>,
    /// Weak reference, because the loop owns the bridge through the registered callback. A closed loop therefore
    /// releases the bridge and its sockets.
    state: Weak<LoopState>,
    /// The bridge itself, only set if the loop cannot watch sockets and therefore does not own it.
    bridge: Option<Py<Bridge>>,
}

/// Loops by address. Only attached threads take the lock, and they run no Python code while they hold it.
static KNOWN_LOOPS: LazyLock<Mutex<HashMap<usize, KnownLoop>>> = LazyLock::new(Mutex::default);

fn state_of(py: Python<'_>, running: &Bound<'_, PyAny>) -> PyResult<Arc<LoopState>> {
    let address = running.as_ptr().addr();
    {
        let known = lock(&KNOWN_LOOPS);
        let state = known.get(&address).and_then(|known| {
            // The entry may belong to an earlier loop that had the same address.
            let same = known.running.bind(py).upgrade().is_some_and(|known| known.is(running));
            known.state.upgrade().filter(|state| same && state.pid == process_id())
        });
        if let Some(state) = state {
            return Ok(state);
        }
    }
    let bridge = Py::new(py, Bridge::new()?)?;
    let state = Arc::clone(&bridge.get().state);
    let attached = py.import("samsarrow._aio")?.getattr("attach")?.call1((running, &bridge))?.is_truthy()?;
    let running = PyWeakrefReference::new(running)?.unbind();
    let known = KnownLoop { running, state: Arc::downgrade(&state), bridge: (!attached).then_some(bridge) };
    let before = lock(&KNOWN_LOOPS).insert(address, known);
    drop(before);
    remove_closed(py);
    Ok(state)
}

/// Removes closed loops. The lock is released while `is_closed` runs, because that is Python code.
fn remove_closed(py: Python<'_>) {
    let all: Vec<_> =
        lock(&KNOWN_LOOPS).iter().map(|(address, known)| (*address, known.running.clone_ref(py))).collect();
    let open = |running: Bound<'_, PyAny>| {
        running.call_method0("is_closed").and_then(|closed| closed.is_truthy()).is_ok_and(|closed| !closed)
    };
    let closed = all.into_iter().filter(|(_, running)| !running.bind(py).upgrade().is_some_and(open));
    for (address, running) in closed {
        let gone = {
            let mut known = lock(&KNOWN_LOOPS);
            let same = known.get(&address).is_some_and(|known| known.running.is(&running));
            if same { known.remove(&address) } else { None }
        };
        drop(gone);
    }
}

/// Builds the call that wakes a loop without watched sockets. The call does nothing if the loop no longer exists.
pub(super) fn wake_call(py: Python<'_>, id: u64) -> PyResult<callback_threads::PyCall> {
    let known_loop = {
        let known = lock(&KNOWN_LOOPS);
        let mut all = known.values();
        all.find(|known| known.bridge.as_ref().is_some_and(|bridge| bridge.get().is(id)))
            .and_then(|known| Some((known.running.bind(py).upgrade()?.unbind(), known.bridge.as_ref()?.clone_ref(py))))
    };
    let (running, bridge) = known_loop.map_or((py.None(), py.None()), |(running, bridge)| (running, bridge.into_any()));
    let ring = py.import("samsarrow._aio")?.getattr("ring")?.unbind();
    Ok((ring, (running, bridge).into_pyobject(py)?.unbind()))
}

impl Bridge {
    fn is(&self, id: u64) -> bool {
        self.state.inbox.as_ref().is_some_and(|inbox| inbox.id == id)
    }
}
