//! A rebalance as listeners get it.

use pyo3::prelude::*;
use samsarrow_client::group::Rebalance;

use crate::partitions::{Tp, tuples};

/// A rebalance that the listener is to learn of: what happens, and to which partitions.
#[pyclass(frozen, module = "samsarrow._core", name = "Rebalance")]
#[derive(Debug)]
pub(crate) struct Event(pub(crate) Rebalance);

#[pymethods]
impl Event {
    #[getter]
    fn kind(&self) -> &'static str {
        named(&self.0).0
    }

    #[getter]
    fn partitions(&self) -> Vec<Tp> {
        named(&self.0).1
    }
}

/// An event as listeners get it.
pub(crate) fn named(event: &Rebalance) -> (&'static str, Vec<Tp>) {
    match event {
        Rebalance::Revoked(partitions) => ("revoked", tuples(partitions)),
        Rebalance::Lost(partitions) => ("lost", tuples(partitions)),
        Rebalance::Assigned(partitions) => ("assigned", tuples(partitions)),
    }
}
