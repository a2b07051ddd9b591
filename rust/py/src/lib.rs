//! `samsarrow._core`: conversions between Python and the Rust core, nothing else.

mod admin;
mod arrow_ffi;
mod assignor;
mod codec;
mod config;
mod consumer;
mod error;
mod gate;
mod lanes;
mod logging;
mod producer;
mod runtime;
mod segment;
mod testing;

use pyo3::prelude::*;

// On a free-threaded Python it is untried: there, importing it turns the GIL on.
#[pymodule(gil_used = true)]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::admin::Admin;
    #[pymodule_export]
    use super::assignor::Reply;
    #[pymodule_export]
    use super::codec::{decode_batches, encode_batches, write_values};
    #[pymodule_export]
    use super::config::{error_table, options_markdown};
    #[pymodule_export]
    use super::consumer::{Consumer, Event, offsets_of};
    #[pymodule_export]
    use super::lanes::{Server, unraisable};
    #[pymodule_export]
    use super::producer::{BatchDelivery, Delivery, Producer};
    #[pymodule_export]
    use super::segment::{LogDump, SegmentReader, check_index};
    #[pymodule_export]
    use super::testing::Broker;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::runtime::watch(module.py())
    }
}
