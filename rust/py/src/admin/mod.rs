//! The admin client of `samsarrow._core`. Each operation is a function that returns a `Call`.

pub(crate) mod access;
pub(crate) mod cluster;
pub(crate) mod configs;
pub(crate) mod groups;
pub(crate) mod offsets;
pub(crate) mod replicas;
pub(crate) mod share_groups;
pub(crate) mod streams_groups;
pub(crate) mod topics;
pub(crate) mod transactions;

use std::future::Future;
use std::time::Duration;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use samsarrow_bridge::call::Call;
use samsarrow_bridge::error::{to_py, to_py_value};
use samsarrow_bridge::runtime::{Owned, seconds};
use samsarrow_client::admin::{AclOperation, Admin as Core};
use samsarrow_client::config::ClientKind;
use samsarrow_client::error::Result;

use crate::config;
use crate::metrics::{Metrics, instance_id};

/// See `samsarrow.Admin`.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct Admin {
    core: Owned<Core>,
}

#[pymethods]
impl Admin {
    #[new]
    fn new(py: Python<'_>, options: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let options = config::parse(py, ClientKind::Admin, options)?;
        let core = Core::new(&options).map_err(|error| to_py(py, &error))?;
        Ok(Self { core: Owned::new("admin client", core) })
    }

    #[pyo3(signature = (timeout))]
    fn client_instance_id(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.core.get(py)?.clone();
        let limit = seconds(py, timeout, core.default_timeout())?;
        Ok(instance_id(async move { core.client_instance_id(limit).await }))
    }

    fn metrics(&self, py: Python<'_>) -> PyResult<Metrics> {
        Ok(Metrics::new(self.core.get(py)?.metrics()))
    }

    fn close(&self, py: Python<'_>) -> PyResult<Call> {
        let core = self.core.get(py)?.clone();
        Ok(Call::without_result(async move {
            core.close().await;
            Ok(())
        }))
    }
}

impl Admin {
    /// Creates the call of an operation. `convert` converts the operation's result to a Python object.
    fn call<T, F>(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        work: impl FnOnce(Core, Duration) -> F,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Call>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let core = self.core.get(py)?.clone();
        let timeout = seconds(py, timeout, core.default_timeout())?;
        Ok(Call::new(work(core, timeout), convert))
    }
}

/// Converts the results of an operation to one tuple for each key: key, value, and exception.
fn keyed_results<'py, K, V, PK, PV>(
    py: Python<'py>,
    results: Vec<(K, Result<V>)>,
    key: impl Fn(K) -> PK,
    value: impl Fn(V) -> PV,
) -> PyResult<Py<PyAny>>
where
    PK: IntoPyObject<'py>,
    PV: IntoPyObject<'py>,
{
    let convert = |(item, outcome): (K, Result<V>)| {
        let item = key(item).into_py_any(py)?;
        let (value, error) = match outcome {
            Ok(result) => (value(result).into_py_any(py)?, py.None()),
            Err(error) => (py.None(), to_py_value(py, &error)),
        };
        Ok((item, value, error))
    };
    results.into_iter().map(convert).collect::<PyResult<Vec<_>>>()?.into_py_any(py)
}

/// Returns the operations as their numbers in Kafka's protocol.
fn codes(operations: Option<Vec<AclOperation>>) -> Option<Vec<i8>> {
    operations.map(|all| all.into_iter().map(AclOperation::code).collect())
}

/// Returns a Python list of the items, each converted by `convert`.
fn list_of<'py, T, P: IntoPyObject<'py>>(
    py: Python<'py>,
    items: impl IntoIterator<Item = T>,
    convert: impl Fn(T) -> P,
) -> PyResult<Py<PyAny>> {
    let objects = items.into_iter().map(|item| convert(item).into_py_any(py));
    objects.collect::<PyResult<Vec<_>>>()?.into_py_any(py)
}
