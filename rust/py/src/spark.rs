//! Planner for the Spark source that is written in Python.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field as ArrowField, Schema};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use samsarrow_bridge::arrow_ffi;
use samsarrow_bridge::error::to_py;
use samsarrow_bridge::interpreter_guard;
use samsarrow_bridge::runtime::{Owned, run};
use samsarrow_client::admin::Admin;
use samsarrow_client::config::ClientKind;
use samsarrow_client::consumer::Consumer;
use samsarrow_client::error::Error as ClientError;
use samsarrow_spark::columns::{COLUMNS, TextLayout};
use samsarrow_spark::kafka_metadata::KafkaMetadata;
use samsarrow_spark::options::Reading;
use samsarrow_spark::typed::{OnError, SparkType, Typed, Written};
use samsarrow_spark::write_options::Field;
use samsarrow_spark::{Driver, Error, ReadOptions, WriteOptions};
use tokio::sync::Mutex;

use crate::config;

type Pairs<'py> = Vec<(String, Bound<'py, PyAny>)>;

/// Returns the exception for an error of the planner.
pub(crate) fn to_exception(py: Python<'_>, error: &Error) -> PyErr {
    match error {
        Error::Client(error) => to_py(py, error),
        Error::DataLoss(_) => python_exception(py, "samsarrow.spark.errors", "DataLossError", error),
        Error::SchemaEvolved(_) => python_exception(py, "samsarrow.spark.errors", "SchemaEvolvedError", error),
        Error::ReplayMismatch(_) => python_exception(py, "samsarrow.spark.errors", "ReplayMismatchError", error),
    }
}

fn python_exception(py: Python<'_>, module: &str, class: &str, error: &Error) -> PyErr {
    let _guard = interpreter_guard::acquire(py);
    let class = py.import(module).and_then(|module| module.getattr(class));
    let exception = class.and_then(|class| class.call1((error.to_string(),)));
    exception.map_or_else(|failure| failure, PyErr::from_value)
}

/// Parses the options of a read, and returns the options that the Python source uses. `streaming` is None if Spark does
/// not report whether the read is streaming.
#[pyfunction]
#[pyo3(signature = (options, streaming))]
pub(crate) fn spark_options<'py>(
    py: Python<'py>,
    options: BTreeMap<String, String>,
    streaming: Option<bool>,
) -> PyResult<Bound<'py, PyDict>> {
    let reading = match streaming {
        None => Reading::Any,
        Some(false) => Reading::Batch,
        Some(true) => Reading::Stream,
    };
    let options = ReadOptions::parse(&options, reading).map_err(|error| to_exception(py, &error))?;
    let kafka: BTreeMap<&str, &str> = options.kafka().map(|(name, value)| (name, value.reveal())).collect();
    let columns: Vec<&str> = options.output.iter().map(|column| column.name()).collect();
    let typed: Vec<_> = options.typed.iter().map(|typed| (typed.part.name(), on_error(typed))).collect();
    let text = [("key", options.text.key), ("value", options.text.value)];
    let text: Vec<&str> = text.into_iter().filter_map(|(name, is_text)| is_text.then_some(name)).collect();
    let result = PyDict::new(py);
    result.set_item("kafka", kafka)?;
    result.set_item("columns", columns)?;
    result.set_item("typed", typed)?;
    result.set_item("checks_schemas", options.typed.iter().any(Typed::ends_with_newer_schema))?;
    result.set_item("text", text)?;
    result.set_item("fail_on_data_loss", options.fail_on_data_loss)?;
    result.set_item("max_offsets", options.max_offsets)?;
    result.set_item("min_offsets", options.min_offsets)?;
    result.set_item("poll_timeout_s", options.poll_timeout.as_secs_f64())?;
    result.set_item("token_mechanism", options.token_mechanism)?;
    Ok(result)
}

/// Returns the effect of a value that cannot be decoded, `raise`, `null` or `deadletter`, and the dead letter topic.
fn on_error(typed: &Typed) -> (&'static str, Option<String>) {
    match &typed.on_error {
        OnError::Raise => ("raise", None),
        OnError::Null => ("null", None),
        OnError::DeadLetter(topic) => ("deadletter", Some(topic.to_string())),
    }
}

/// Returns the columns of a DataFrame: names, Spark types, and types in Spark's JSON.
pub(crate) fn fields_of(columns: Vec<(String, String, String)>) -> Vec<Field> {
    let field = |(name, kind, json): (String, String, String)| Field { name, kind, data_type: SparkType::parse(&json) };
    columns.into_iter().map(field).collect()
}

/// Parses the options of a write and its columns: names, Spark types, and types in Spark's JSON. `batch`
/// is false for a streaming write. Returns the options that the Python sink uses.
#[pyfunction]
#[pyo3(signature = (options, columns, batch))]
pub(crate) fn spark_write_options<'py>(
    py: Python<'py>,
    options: BTreeMap<String, String>,
    columns: Vec<(String, String, String)>,
    batch: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let parse = || {
        let options = WriteOptions::parse(&options, &fields_of(columns))?;
        if batch {
            options.check_batch()?;
        }
        Ok::<_, Error>(options)
    };
    let options = parse().map_err(|error| to_exception(py, &error))?;
    let kafka: BTreeMap<&str, &str> = options.kafka().map(|(name, value)| (name, value.reveal())).collect();
    let sent: Vec<&str> = options.columns.iter().map(|column| column.name()).collect();
    let result = PyDict::new(py);
    result.set_item("kafka", kafka)?;
    result.set_item("topic", &options.topic)?;
    result.set_item("columns", sent)?;
    result.set_item("written", options.written.iter().map(|one| written(py, one)).collect::<PyResult<Vec<_>>>()?)?;
    result.set_item("exactly_once", options.exactly_once)?;
    result.set_item("prefix", &options.prefix)?;
    result.set_item("accepted", options.allow_replay_mismatch)?;
    result.set_item("token_mechanism", options.token_mechanism)?;
    Ok(result)
}

/// Returns the name of an encoded column, an empty batch that has it, and true if a header identifies its schema.
fn written<'py>(py: Python<'py>, written: &Written) -> PyResult<(&'static str, Bound<'py, PyAny>, bool)> {
    let (name, kind) = written.column();
    let schema = Schema::new(vec![ArrowField::new("value", kind.clone(), true)]);
    Ok((name, arrow_ffi::to_pyarrow(py, &RecordBatch::new_empty(Arc::new(schema)))?, written.writes_header()))
}

/// Returns all columns of the source, each with its type: `binary`, `string`, `int`, `long`, `timestamp` or `headers`.
#[pyfunction]
pub(crate) fn spark_columns() -> Vec<(&'static str, &'static str)> {
    COLUMNS.into_iter().map(|column| (column.name(), column.kind(TextLayout::default()))).collect()
}

/// Planner of one batch query or one streaming query.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct SparkDriver {
    core: Owned<Arc<Mutex<Driver>>>,
}

#[pymethods]
impl SparkDriver {
    /// `options` are the options of the read. `consumer` and `admin` are the options of the two clients, adapted to
    /// this process.
    #[new]
    fn new(py: Python<'_>, options: BTreeMap<String, String>, consumer: Pairs<'_>, admin: Pairs<'_>) -> PyResult<Self> {
        let client_error = |error: ClientError| to_py(py, &error);
        let consumer = Consumer::new(&config::parse(py, ClientKind::Consumer, consumer)?).map_err(client_error)?;
        let admin = Admin::new(&config::parse(py, ClientKind::Admin, admin)?).map_err(client_error)?;
        let driver = Driver::with_clients(Arc::new(options), KafkaMetadata::with_clients(consumer, admin));
        Ok(Self { core: Owned::new("planner of a Spark source", Arc::new(Mutex::new(driver))) })
    }

    /// Returns the JSON response to a JSON request.
    fn ask(&self, py: Python<'_>, question: &str) -> PyResult<String> {
        let core = Arc::clone(&*self.core.get(py)?);
        let response = run(py, async { Ok(core.lock().await.handle(question).await) })?;
        response.map_err(|error| to_exception(py, &error))
    }

    /// Closes all connections.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let core = Arc::clone(&*self.core.get(py)?);
        run(py, async {
            core.lock().await.close().await;
            Ok(())
        })
    }
}
