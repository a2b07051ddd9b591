//! The embedded broker as Python calls it.

use pyo3::prelude::*;
use samsarrow_broker::{Broker as Core, BrokerOptions};

use crate::runtime::{Owned, run, runtime};

/// See `samsarrow.testing.Broker`.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct Broker {
    core: Owned<Core>,
}

#[pymethods]
impl Broker {
    #[new]
    fn new(
        py: Python<'_>,
        brokers: usize,
        topics: Vec<(String, i32)>,
        port: u16,
        auto_create_topics: bool,
    ) -> PyResult<Self> {
        let options = BrokerOptions { brokers, topics, port, auto_create_topics, ..Default::default() };
        let runtime = runtime()?;
        let core = py.detach(|| runtime.block_on(Core::start(options)))?;
        Ok(Self { core: Owned::new("broker", core) })
    }

    #[getter]
    fn bootstrap_servers(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.core.get(py)?.bootstrap_servers())
    }

    fn create_topic(&self, py: Python<'_>, name: &str, partitions: i32) -> PyResult<()> {
        Ok(self.core.get(py)?.create_topic(name, partitions)?)
    }

    fn stop_node(&self, py: Python<'_>, node: i32) -> PyResult<()> {
        let core = self.core.get(py)?;
        Ok(run(py, async { Ok(core.stop_node(node).await) })??)
    }

    fn start_node(&self, py: Python<'_>, node: i32) -> PyResult<()> {
        let core = self.core.get(py)?;
        Ok(run(py, async { Ok(core.start_node(node).await) })??)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let core = self.core.get(py)?;
        run(py, async {
            core.shutdown().await;
            Ok(())
        })
    }
}
