//! Assignors that are written in Python.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use samsarrow_bridge::gate;
use samsarrow_bridge::lanes::{ASSIGNORS, Lane};
use samsarrow_client::error::Error;
use samsarrow_client::group::assignor::{Assignment, Assignor, Members, Topics};
use samsarrow_client::types::TopicPartition;

use crate::partitions::{Tp, tp, tuple};

/// An object with `name`, `cooperative` and `assign`; see `samsarrow.Assignor`.
#[derive(Debug)]
struct Custom {
    name: String,
    cooperative: bool,
    object: Arc<Py<PyAny>>,
    lane: Arc<Lane>,
}

/// The object as an assignor.
pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Arc<dyn Assignor>> {
    let _pass = gate::enter(object.py());
    let name = object.getattr("name")?.extract()?;
    let cooperative = object.getattr("cooperative")?.extract()?;
    let lane = ASSIGNORS.get(object.py())?;
    Ok(Arc::new(Custom { name, cooperative, object: Arc::new(object.clone().unbind()), lane }))
}

type Take = Box<dyn FnOnce(Result<&Bound<'_, PyAny>, String>) + Send>;

/// Takes an assignor's answer, once.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct Reply {
    take: Mutex<Option<Take>>,
}

impl Reply {
    fn settle(&self, found: Result<&Bound<'_, PyAny>, String>) {
        let take = self.take.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(take) = take {
            take(found);
        }
    }
}

#[pymethods]
impl Reply {
    fn give(&self, found: &Bound<'_, PyAny>) {
        self.settle(Ok(found));
    }

    fn fail(&self, why: String) {
        self.settle(Err(why));
    }
}

/// A member as Python gets it: topics, owned partitions, user data, rack, instance id.
type Seen<'py> = (Vec<String>, Vec<Tp>, Option<Bound<'py, PyBytes>>, Option<String>, Option<String>);

impl Custom {
    /// Has the lane call a method; the group's task waits, and no other task of the runtime with it.
    fn ask<T: Send + 'static>(
        &self,
        method: &'static str,
        arguments: impl FnOnce(Python<'_>) -> PyResult<Py<PyTuple>> + Send + 'static,
        read: fn(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> samsarrow_client::error::Result<T> {
        let (sender, answer) = channel();
        let object = Arc::clone(&self.object);
        self.lane.push(usize::MAX, move |py| {
            let take: Take = Box::new(move |found| {
                let found = found.and_then(|found| read(found).map_err(|error| text_of(found.py(), &error)));
                // Nobody may wait any more.
                let _ = sender.send(found);
            });
            let reply = Py::new(py, Reply { take: Mutex::new(Some(take)) })?;
            let method = object.bind(py).getattr(method)?;
            let call = py.import("samsarrow._threads")?.getattr("answer")?.unbind();
            Ok((call, (method, arguments(py)?, reply).into_pyobject(py)?.unbind()))
        });
        let answer = tokio::task::block_in_place(|| answer.recv());
        // The lane drops its calls when the interpreter ends.
        let answer = answer.map_err(|_| Error::closed("the interpreter"))?;
        answer.map_err(|text| {
            Error::configuration(format!("assignor {}: {} failed: {text}", self.name, method.trim_start_matches('_')))
        })
    }
}

fn text_of(py: Python<'_>, error: &PyErr) -> String {
    error.value(py).repr().map(|text| text.to_string()).unwrap_or_default()
}

fn shown(py: Python<'_>, topics: &Topics, members: &Members) -> PyResult<Py<PyTuple>> {
    let counts: BTreeMap<&String, usize> = topics.iter().map(|(name, racks)| (name, racks.len())).collect();
    let seen: BTreeMap<&String, Seen<'_>> = members
        .iter()
        .map(|(id, member)| {
            let owned = member.owned.iter().map(tuple).collect();
            let data = member.user_data.as_ref().map(|data| PyBytes::new(py, data));
            (id, (member.topics.clone(), owned, data, member.rack.clone(), member.instance_id.clone()))
        })
        .collect();
    Ok((counts, seen).into_pyobject(py)?.unbind())
}

impl Assignor for Custom {
    fn name(&self) -> &str {
        &self.name
    }

    fn cooperative(&self) -> bool {
        self.cooperative
    }

    fn user_data(&self, owned: &[TopicPartition], generation: i32) -> samsarrow_client::error::Result<Option<Bytes>> {
        let owned: Vec<Tp> = owned.iter().map(tuple).collect();
        let arguments = move |py: Python<'_>| Ok((owned, generation).into_pyobject(py)?.unbind());
        let data = self.ask("_user_data", arguments, |data| data.extract::<Option<Vec<u8>>>())?;
        Ok(data.map(Bytes::from))
    }

    fn assign(&self, topics: &Topics, members: &Members) -> samsarrow_client::error::Result<Assignment> {
        let (topics, members) = (topics.clone(), members.clone());
        let arguments = move |py: Python<'_>| shown(py, &topics, &members);
        let assigned = self.ask("_assign", arguments, |assigned| assigned.extract::<BTreeMap<String, Vec<Tp>>>())?;
        Ok(assigned.into_iter().map(|(id, tps)| (id, tps.iter().map(tp).collect())).collect())
    }
}
