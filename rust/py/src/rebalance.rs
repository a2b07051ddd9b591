//! Rebalance events for listeners.

use pyo3::prelude::*;
use samsarrow_client::group::Rebalance;

use crate::conversions::{Tp, tuples};

/// A rebalance for which the listener must be called.
#[pyclass(frozen, module = "samsarrow._core", name = "Rebalance")]
#[derive(Debug)]
pub(crate) struct RebalanceEvent(pub(crate) Rebalance);

#[pymethods]
impl RebalanceEvent {
    #[getter]
    fn kind(&self) -> &'static str {
        kind_and_partitions(&self.0).0
    }

    #[getter]
    fn partitions(&self) -> Vec<Tp> {
        kind_and_partitions(&self.0).1
    }
}

/// Returns the kind and the partitions of a rebalance.
pub(crate) fn kind_and_partitions(event: &Rebalance) -> (&'static str, Vec<Tp>) {
    match event {
        Rebalance::Revoked(partitions) => ("revoked", tuples(partitions)),
        Rebalance::Lost(partitions) => ("lost", tuples(partitions)),
        Rebalance::Assigned(partitions) => ("assigned", tuples(partitions)),
    }
}
