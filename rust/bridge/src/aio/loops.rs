//! The loops of this process, each with its bridge.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyWeakrefReference;

use super::{Bridge, Local};
use crate::lanes;
use crate::runtime::process_id;

/// The bridge of the loop that runs here, a new future of it, and what awaits that.
pub(super) fn running(py: Python<'_>) -> PyResult<(Arc<Local>, Py<PyAny>, Py<PyAny>)> {
    static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static MODULES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let modules = MODULES.get_or_try_init(py, || Ok::<_, PyErr>(py.import("sys")?.getattr("modules")?.unbind()))?;
    if modules.bind(py).contains(pyo3::intern!(py, "trio"))? {
        let found = py.import("samsarrow._aio")?.getattr("in_trio")?.call0()?;
        if !found.is_none() {
            let (bridge, future, iterator): (Bound<'_, Bridge>, Py<PyAny>, Py<PyAny>) = found.extract()?;
            return Ok((Arc::clone(&bridge.get().local), future, iterator));
        }
    }
    let running = RUNNING
        .get_or_try_init(py, || Ok::<_, PyErr>(py.import("asyncio")?.getattr("get_running_loop")?.unbind()))?
        .bind(py)
        .call0()?;
    let local = of_loop(py, &running)?;
    let future = running.call_method0(pyo3::intern!(py, "create_future"))?;
    let iterator = future.call_method0(pyo3::intern!(py, "__await__"))?.unbind();
    Ok((local, future.unbind(), iterator))
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
pub(super) fn ask(py: Python<'_>, id: u64) -> PyResult<lanes::Call> {
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
