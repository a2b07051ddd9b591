//! Admin as Python calls it.

use pyo3::prelude::*;
use samsarrow_client::admin::{Admin as Core, NewTopic, PerTopic};
use samsarrow_client::config::ClientKind;

use crate::config;
use crate::error::{to_py, to_py_value};
use crate::runtime::{Owned, run, seconds};

/// Name, partitions, replication factor, configs.
type Topic = (String, i32, i16, Vec<(String, String)>);
/// Name, id, number of partitions, internal.
type Listing = (String, [u8; 16], usize, bool);
/// Name and the exception, if it failed.
type Outcomes = Vec<(String, Option<Py<PyAny>>)>;

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

    #[pyo3(signature = (topics, timeout))]
    fn create_topics(&self, py: Python<'_>, topics: Vec<Topic>, timeout: Option<f64>) -> PyResult<Outcomes> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let one = |(name, num_partitions, replication_factor, configs): Topic| NewTopic {
            name,
            num_partitions,
            replication_factor,
            configs,
        };
        let topics = topics.into_iter().map(one).collect();
        run(py, core.create_topics(topics, timeout)).map(|done| outcomes(py, done))
    }

    #[pyo3(signature = (names, timeout))]
    fn delete_topics(&self, py: Python<'_>, names: Vec<String>, timeout: Option<f64>) -> PyResult<Outcomes> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        run(py, core.delete_topics(&names, timeout)).map(|done| outcomes(py, done))
    }

    #[pyo3(signature = (timeout))]
    fn list_topics(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Vec<Listing>> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let topics = run(py, core.list_topics(timeout))?;
        Ok(topics.into_iter().map(|t| (t.name, t.topic_id.0, t.partitions, t.internal)).collect())
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let core = self.core.get(py)?;
        run(py, async {
            core.close().await;
            Ok(())
        })
    }
}

fn outcomes(py: Python<'_>, done: PerTopic) -> Outcomes {
    done.into_iter().map(|(name, outcome)| (name, outcome.err().map(|error| to_py_value(py, &error)))).collect()
}
