//! Assignors implemented in Python.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use samsarrow_bridge::callback_threads::{ASSIGNORS, CallbackQueue};
use samsarrow_bridge::interpreter_guard;
use samsarrow_client::error::Error;
use samsarrow_client::group::assignor::{Assignment, Assignor, Members, Topics};
use samsarrow_client::types::TopicPartition;
use samsarrow_wire::sync::lock;

use crate::conversions::{Tp, tp, tuple};

/// An assignor object with `name`, `cooperative` and `assign` (see `samsarrow.Assignor`).
#[derive(Debug)]
struct PythonAssignor {
    name: String,
    cooperative: bool,
    object: Arc<Py<PyAny>>,
    queue: Arc<CallbackQueue>,
}

/// Wraps an assignor object. Reads its name and whether it is cooperative once, so that later reads need no Python
/// call.
pub(crate) fn wrap(object: &Bound<'_, PyAny>) -> PyResult<Arc<dyn Assignor>> {
    let _guard = interpreter_guard::acquire(object.py());
    let name = object.getattr("name")?.extract()?;
    let cooperative = object.getattr("cooperative")?.extract()?;
    let queue = ASSIGNORS.get(object.py())?;
    Ok(Arc::new(PythonAssignor { name, cooperative, object: Arc::new(object.clone().unbind()), queue }))
}

type OnResult = Box<dyn FnOnce(Result<&Bound<'_, PyAny>, String>) + Send>;

/// Receives the result of an assignor. Only the first result is used.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct Reply {
    on_result: Mutex<Option<OnResult>>,
}

impl Reply {
    fn complete(&self, result: Result<&Bound<'_, PyAny>, String>) {
        let on_result = lock(&self.on_result).take();
        if let Some(on_result) = on_result {
            on_result(result);
        }
    }
}

#[pymethods]
impl Reply {
    fn give(&self, result: &Bound<'_, PyAny>) {
        self.complete(Ok(result));
    }

    fn fail(&self, reason: String) {
        self.complete(Err(reason));
    }
}

/// Subscribed topics, owned partitions, user data, rack and instance id of a group member.
type MemberTuple<'py> = (Vec<String>, Vec<Tp>, Option<Bound<'py, PyBytes>>, Option<String>, Option<String>);

impl PythonAssignor {
    /// Calls a method of the assignor on the assignors' thread. This blocks the group's task, but no other task of the
    /// runtime.
    fn call_method<T: Send + 'static>(
        &self,
        method: &'static str,
        arguments: impl FnOnce(Python<'_>) -> PyResult<Py<PyTuple>> + Send + 'static,
        read: fn(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> samsarrow_client::error::Result<T> {
        let (sender, receiver) = channel();
        let object = Arc::clone(&self.object);
        self.queue.push(usize::MAX, move |py| {
            let on_result: OnResult = Box::new(move |result| {
                let result = result.and_then(|value| read(value).map_err(|error| repr_of(value.py(), &error)));
                // An error is ignored: the thread that waits for the result may no longer exist.
                let _ = sender.send(result);
            });
            let reply = Py::new(py, Reply { on_result: Mutex::new(Some(on_result)) })?;
            let method = object.bind(py).getattr(method)?;
            let call = py.import("samsarrow._threads")?.getattr("answer")?.unbind();
            Ok((call, (method, arguments(py)?, reply).into_pyobject(py)?.unbind()))
        });
        let result = tokio::task::block_in_place(|| receiver.recv());
        // The channel is closed if the interpreter exits, because the queue then drops its calls.
        let result = result.map_err(|_| Error::closed("the interpreter"))?;
        result.map_err(|text| {
            Error::configuration(format!("assignor {}: {} failed: {text}", self.name, method.trim_start_matches('_')))
        })
    }
}

fn repr_of(py: Python<'_>, error: &PyErr) -> String {
    error.value(py).repr().map(|text| text.to_string()).unwrap_or_default()
}

fn assign_arguments(py: Python<'_>, topics: &Topics, members: &Members) -> PyResult<Py<PyTuple>> {
    let counts: BTreeMap<&String, usize> = topics.iter().map(|(name, racks)| (name, racks.len())).collect();
    let members: BTreeMap<&String, MemberTuple<'_>> = members
        .iter()
        .map(|(id, member)| {
            let owned = member.owned.iter().map(tuple).collect();
            let data = member.user_data.as_ref().map(|data| PyBytes::new(py, data));
            (id, (member.topics.clone(), owned, data, member.rack.clone(), member.instance_id.clone()))
        })
        .collect();
    Ok((counts, members).into_pyobject(py)?.unbind())
}

impl Assignor for PythonAssignor {
    fn name(&self) -> &str {
        &self.name
    }

    fn cooperative(&self) -> bool {
        self.cooperative
    }

    fn user_data(&self, owned: &[TopicPartition], generation: i32) -> samsarrow_client::error::Result<Option<Bytes>> {
        let owned: Vec<Tp> = owned.iter().map(tuple).collect();
        let arguments = move |py: Python<'_>| Ok((owned, generation).into_pyobject(py)?.unbind());
        let data = self.call_method("_user_data", arguments, |data| data.extract::<Option<Vec<u8>>>())?;
        Ok(data.map(Bytes::from))
    }

    fn assign(&self, topics: &Topics, members: &Members) -> samsarrow_client::error::Result<Assignment> {
        let (topics, members) = (topics.clone(), members.clone());
        let arguments = move |py: Python<'_>| assign_arguments(py, &topics, &members);
        let assigned =
            self.call_method("_assign", arguments, |assigned| assigned.extract::<BTreeMap<String, Vec<Tp>>>())?;
        Ok(assigned.into_iter().map(|(id, tps)| (id, tps.iter().map(tp).collect())).collect())
    }
}
