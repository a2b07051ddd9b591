//! Assignors that are written in Python.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use samsarrow_client::error::{Error, Result};
use samsarrow_client::group::assignor::{Assignment, Assignor, Members, Topics};
use samsarrow_client::types::TopicPartition;

use crate::consumer::{Tp, tp, tuple};

/// An object with `name`, `cooperative` and `assign`; see `samsarrow.Assignor`.
#[derive(Debug)]
struct Custom {
    name: String,
    cooperative: bool,
    object: Py<PyAny>,
}

/// The object as an assignor.
pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Arc<dyn Assignor>> {
    let name = object.getattr("name")?.extract()?;
    let cooperative = object.getattr("cooperative")?.extract()?;
    Ok(Arc::new(Custom { name, cooperative, object: object.clone().unbind() }))
}

/// A member as Python gets it: topics, owned partitions, user data, rack, instance id.
type Seen<'py> = (Vec<String>, Vec<Tp>, Option<Bound<'py, PyBytes>>, Option<String>, Option<String>);

impl Custom {
    fn call(&self, topics: &Topics, members: &Members) -> PyResult<Assignment> {
        Python::attach(|py| {
            let counts: BTreeMap<&String, usize> = topics.iter().map(|(name, racks)| (name, racks.len())).collect();
            let seen: BTreeMap<&String, Seen<'_>> = members
                .iter()
                .map(|(id, member)| {
                    let owned = member.owned.iter().map(tuple).collect();
                    let data = member.user_data.as_ref().map(|data| PyBytes::new(py, data));
                    (id, (member.topics.clone(), owned, data, member.rack.clone(), member.instance_id.clone()))
                })
                .collect();
            let found = self.object.bind(py).call_method1("_assign", (counts, seen))?;
            let found: BTreeMap<String, Vec<Tp>> = found.extract()?;
            Ok(found.into_iter().map(|(id, tps)| (id, tps.iter().map(tp).collect())).collect())
        })
    }
}

impl Assignor for Custom {
    fn name(&self) -> &str {
        &self.name
    }

    fn cooperative(&self) -> bool {
        self.cooperative
    }

    fn user_data(&self, owned: &[TopicPartition], generation: i32) -> Option<Bytes> {
        Python::attach(|py| {
            let owned: Vec<Tp> = owned.iter().map(tuple).collect();
            let data = self.object.bind(py).call_method1("_user_data", (owned, generation)).ok()?;
            data.extract::<Option<Vec<u8>>>().ok().flatten().map(Bytes::from)
        })
    }

    fn assign(&self, topics: &Topics, members: &Members) -> Result<Assignment> {
        self.call(topics, members).map_err(|error| {
            let text = Python::attach(|py| error.value(py).repr().map(|text| text.to_string()).unwrap_or_default());
            Error::configuration(format!("assignor {} failed: {text}", self.name))
        })
    }
}
