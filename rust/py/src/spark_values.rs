//! Typed keys and values for the Spark source and sink that are written in Python.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use samsarrow_bridge::interpreter_guard;
use samsarrow_bridge::runtime::run;
use samsarrow_spark::Error;
use samsarrow_spark::typed::{
    ReadColumns, ReaderSchema, SparkType, ValueEncoder, WriterSchema, WrittenColumns, selected,
};
use samsarrow_spark::write_options::Field;
use samsarrow_wire::sync::lock;

use crate::encoder::{Encoded, column, to_batches};
use crate::registry::Registry as PyRegistry;
use crate::spark::{fields_of, to_exception};
use crate::values::ValueDecoder;

/// Parses a type in Spark's JSON.
fn spark_type(py: Python<'_>, text: &str) -> PyResult<SparkType> {
    let unknown = || to_exception(py, &Error::configuration(format!("{text} is no type in Spark's JSON")));
    SparkType::parse(text).ok_or_else(unknown)
}

/// Returns the paths of the fields that `.schema(...)` selects. The types are in Spark's JSON.
#[pyfunction]
pub(crate) fn spark_selected(py: Python<'_>, available: &str, requested: &str, path: &str) -> PyResult<Vec<String>> {
    let (available, requested) = (spark_type(py, available)?, spark_type(py, requested)?);
    selected(&available, &requested, path).map_err(|error| to_exception(py, &error))
}

/// Keys and values that a read decodes.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct SparkReadColumns {
    core: ReadColumns,
}

#[pymethods]
impl SparkReadColumns {
    #[new]
    fn new(py: Python<'_>, options: BTreeMap<String, String>) -> PyResult<Self> {
        let core = ReadColumns::parse(&options).map_err(|error| to_exception(py, &error))?;
        Ok(Self { core })
    }

    /// Returns the type of keys or values in Spark's JSON, and their schema as JSON if it is in the registry.
    fn resolve(&self, py: Python<'_>, name: &str) -> PyResult<(String, Option<String>)> {
        let resolved = run(py, async { Ok(self.core.resolve(name).await) })?;
        let (kind, schema) = resolved.map_err(|error| to_exception(py, &error))?;
        Ok((kind.json().to_string(), schema.map(|schema| schema.json().to_string())))
    }

    /// Returns true if record headers may identify the schemas of keys or values.
    fn reads_headers(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.core.typed(name).map(|typed| typed.reads_headers()).map_err(|error| to_exception(py, &error))
    }

    /// Returns whether the rules of schemas are ignored, and the texts that schemas import.
    fn lookup(&self, py: Python<'_>, name: &str) -> PyResult<(bool, Vec<String>)> {
        let typed = self.core.typed(name).map_err(|error| to_exception(py, &error))?;
        Ok((typed.ignore_rules, typed.imports().to_vec()))
    }

    /// Returns a client of the registry, or None if the options name no registry.
    fn registry(&self, py: Python<'_>) -> PyResult<Option<PyRegistry>> {
        let registry = self.core.registry().map_err(|error| to_exception(py, &error))?;
        Ok(registry.map(PyRegistry::of))
    }

    /// Creates a decoder of keys or values. `fields` replaces the option `fields`.
    fn decoder(
        &self,
        py: Python<'_>,
        name: &str,
        schema: Option<&str>,
        fields: Option<Vec<String>>,
    ) -> PyResult<ValueDecoder> {
        let format = || {
            let schema = schema.map(ReaderSchema::parse).transpose()?;
            self.core.typed(name)?.format(schema.as_ref(), fields, Arc::default())
        };
        ValueDecoder::new(py, format().map_err(|error| to_exception(py, &error))?)
    }
}

/// Keys and values that a write encodes.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct SparkWrittenColumns {
    core: WrittenColumns,
}

#[pymethods]
impl SparkWrittenColumns {
    /// `columns` are the columns of the DataFrame: names, Spark types, and types in Spark's JSON.
    #[new]
    fn new(
        py: Python<'_>,
        options: BTreeMap<String, String>,
        columns: Vec<(String, String, String)>,
    ) -> PyResult<Self> {
        let fields: Vec<Field> = fields_of(columns);
        let core = WrittenColumns::parse(&options, &fields).map_err(|error| to_exception(py, &error))?;
        Ok(Self { core })
    }

    /// Returns the schema of keys or values as JSON. `earlier` is the schema of an earlier call.
    fn resolve(&self, py: Python<'_>, name: &str, earlier: Option<&str>) -> PyResult<String> {
        let earlier = earlier.map(WriterSchema::parse).transpose().map_err(|error| to_exception(py, &error))?;
        let schema = run(py, async { Ok(self.core.resolve(name, earlier).await) })?;
        schema.map(|schema| schema.json().to_string()).map_err(|error| to_exception(py, &error))
    }

    /// Creates the encoder of keys or values.
    fn encoder(&self, py: Python<'_>, name: &str, schema: &str) -> PyResult<SparkEncoder> {
        let encoder = WriterSchema::parse(schema).and_then(|schema| self.core.encoder(name, &schema));
        let encoder = encoder.map_err(|error| to_exception(py, &error))?;
        let header = encoder.header().map(<[u8]>::to_vec);
        Ok(SparkEncoder { core: Mutex::new(encoder), header })
    }
}

/// Encoder of a column as keys or values.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct SparkEncoder {
    core: Mutex<ValueEncoder>,
    header: Option<Vec<u8>>,
}

#[pymethods]
impl SparkEncoder {
    /// Returns the value of the record header that identifies the schema, or None if values identify it.
    #[getter]
    fn header(&self) -> Option<&[u8]> {
        self.header.as_deref()
    }

    /// Encodes the column of a batch. If a row cannot be encoded, returns the first such row.
    fn encode<'py>(&self, py: Python<'py>, batch: &Bound<'py, PyAny>) -> PyResult<Encoded<'py>> {
        let column = column(batch)?;
        to_batches(py, interpreter_guard::detach(py, || lock(&self.core).encode(&column)))
    }
}
