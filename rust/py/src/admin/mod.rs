//! Admin as Python calls it: a function an operation, which gives a `Call`.

pub(crate) mod access;
pub(crate) mod cluster;
pub(crate) mod configs;
pub(crate) mod groups;
pub(crate) mod offsets;
pub(crate) mod replicas;
pub(crate) mod special;
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
        Ok(Call::done(async move {
            core.close().await;
            Ok(())
        }))
    }
}

impl Admin {
    /// `work` in the time that Python grants; `convert` makes Python's result.
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

/// What became of each item: its key, its value, the exception if there is none.
fn said<'py, K, V, PK, PV>(
    py: Python<'py>,
    done: Vec<(K, Result<V>)>,
    key: impl Fn(K) -> PK,
    value: impl Fn(V) -> PV,
) -> PyResult<Py<PyAny>>
where
    PK: IntoPyObject<'py>,
    PV: IntoPyObject<'py>,
{
    let one = |(item, outcome): (K, Result<V>)| {
        let item = key(item).into_py_any(py)?;
        let (found, error) = match outcome {
            Ok(found) => (value(found).into_py_any(py)?, py.None()),
            Err(error) => (py.None(), to_py_value(py, &error)),
        };
        Ok((item, found, error))
    };
    done.into_iter().map(one).collect::<PyResult<Vec<_>>>()?.into_py_any(py)
}

/// Operations by their numbers in the protocol.
fn codes(operations: Option<Vec<AclOperation>>) -> Option<Vec<i8>> {
    operations.map(|all| all.into_iter().map(AclOperation::code).collect())
}

/// A list of what `one` makes.
fn listed<'py, T, P: IntoPyObject<'py>>(
    py: Python<'py>,
    found: impl IntoIterator<Item = T>,
    one: impl Fn(T) -> P,
) -> PyResult<Py<PyAny>> {
    let all = found.into_iter().map(|item| one(item).into_py_any(py));
    all.collect::<PyResult<Vec<_>>>()?.into_py_any(py)
}
