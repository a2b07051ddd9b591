//! Decoding of values into typed columns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use arrow_array::builder::{ArrayBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use samsarrow_bridge::arrow_ffi;
use samsarrow_bridge::call::Call;
use samsarrow_bridge::error::to_py;
use samsarrow_bridge::interpreter_guard;
use samsarrow_client::error::Error;
use samsarrow_client::schema_registry::Link;
use samsarrow_spark::typed::lookup_schemas;
use samsarrow_values::avro::Schema;
use samsarrow_values::json;
use samsarrow_values::primitive_serdes::Plain;
use samsarrow_values::{
    BadValue, Decoder, Format, Framing, Headers, Options, Part, SchemaError, SchemaId, ValueError, Writers,
};
use samsarrow_wire::sync::lock;

use crate::registry::Registry as PyRegistry;
use crate::value_options::{ProtobufSchema, PySchemaId, enums_of};

/// Row, schema id, field, reason and schema description for a value that cannot be decoded.
type BadRow = (usize, Option<PySchemaId>, String, String, Option<String>);

/// A batch with the column `value`. If `strict`, the first bad value is returned, too; otherwise the batch has a column
/// `error`.
type Decoded<'py> = (Bound<'py, PyAny>, Option<BadRow>);

/// See `samsarrow.values`.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct ValueDecoder {
    format: Format,
    /// Idle decoders, each with the number of learned schemas that it contains. Decoders are reused, so that each
    /// schema is resolved once.
    idle: Mutex<Vec<(Decoder, usize)>>,
}

impl ValueDecoder {
    pub(crate) fn new(py: Python<'_>, format: Format) -> PyResult<Self> {
        // Create a decoder here, so that schema errors are reported before the first value is decoded.
        let first = format.decoder().map_err(|error| to_py(py, &Error::configuration(error.to_string())))?;
        Ok(Self { format, idle: Mutex::new(vec![(first, 0)]) })
    }

    /// Returns the field for JSON values, including the metadata of their schema. Returns `None` for other formats.
    pub(crate) fn json_field(&self) -> Option<&Field> {
        match &self.format {
            Format::Json { schema, .. } => Some(schema.field()),
            _ => None,
        }
    }

    fn take(&self) -> Result<(Decoder, usize), String> {
        let idle = lock(&self.idle).pop();
        let create = || self.format.decoder().map(|decoder| (decoder, 0)).map_err(|error| error.to_string());
        let (mut decoder, known) = idle.map_or_else(create, Ok)?;
        let known = self.format.catch_up(&mut decoder, known);
        Ok((decoder, known))
    }

    fn put_back(&self, decoder: (Decoder, usize)) {
        lock(&self.idle).push(decoder);
    }

    /// Returns the schema ids in a batch that must be looked up in a registry.
    fn missing_ids(&self, batch: &RecordBatch, part: Part) -> Result<BTreeSet<SchemaId>, Failure> {
        if self.format.writers().is_none() {
            return Ok(BTreeSet::new());
        }
        let column = batch.column_by_name("value").ok_or("there is no column of values")?;
        let headers = batch
            .column_by_name("headers")
            .map_or(Ok(None), |headers| self.format.headers(headers, part))
            .map_err(Failure::Type)?;
        let (headers, format) = (headers.as_ref(), &self.format);
        Ok(match column.data_type() {
            DataType::Binary => format.unknown(column.as_binary::<i32>().iter(), headers),
            DataType::LargeBinary => format.unknown(column.as_binary::<i64>().iter(), headers),
            DataType::BinaryView => format.unknown(column.as_binary_view().iter(), headers),
            // A column of another type contains no schema ids. Such a column is rejected when it is decoded.
            _ => BTreeSet::new(),
        })
    }

    /// Decodes the rows. If `strict`, stops before the first bad value. With a limit, the batch may have fewer rows.
    fn decode_batch(
        &self,
        batch: &RecordBatch,
        part: Part,
        strict: bool,
        limit: Option<u64>,
    ) -> Result<(RecordBatch, Option<Box<BadValue>>), Failure> {
        let column = batch.column_by_name("value").ok_or("there is no column of values")?;
        let headers = batch
            .column_by_name("headers")
            .map_or(Ok(None), |headers| self.format.headers(headers, part))
            .map_err(Failure::Type)?;
        let (mut decoder, known) = self.take()?;
        decoder.set_limit(limit.unwrap_or(u64::MAX));
        decoder.reserve(column.len());
        let mut errors = Errors::new(strict);
        let (headers, has_limit) = (headers.as_ref(), limit.is_some());
        match column.data_type() {
            DataType::Binary => {
                push_all(&mut decoder, column.as_binary::<i32>().iter(), headers, &mut errors, has_limit)
            }
            DataType::LargeBinary => {
                push_all(&mut decoder, column.as_binary::<i64>().iter(), headers, &mut errors, has_limit)
            }
            DataType::BinaryView => {
                push_all(&mut decoder, column.as_binary_view().iter(), headers, &mut errors, has_limit)
            }
            DataType::Null => push_all(&mut decoder, (0..column.len()).map(|_| None), None, &mut errors, has_limit),
            other => {
                return Err(Failure::Type(format!(
                    "expected an array of binary, large_binary or binary_view, got {other}"
                )));
            }
        }?;
        let array = decoder.finish().map_err(|error| error.to_string())?;
        self.put_back((decoder, known));
        let (array, errors, first) = match errors {
            Errors::First(Some(bad)) => (array.slice(0, bad.row), None, Some(bad)),
            Errors::First(None) => (array, None, None),
            Errors::All(mut texts) => {
                texts.append_nulls(array.len() - texts.len());
                (array, Some(Arc::new(texts.finish()) as ArrayRef), None)
            }
        };
        let columns = std::iter::once(("value", array, true)).chain(errors.map(|errors| ("error", errors, true)));
        let rows = RecordBatch::try_from_iter_with_nullable(columns).map_err(|error| error.to_string())?;
        Ok((rows, first))
    }
}

/// Handling of bad values.
enum Errors {
    /// Decoding stops at the first bad value.
    First(Option<Box<BadValue>>),
    /// Decoding continues. The builder contains an error text or null for each row up to the last bad value.
    All(StringBuilder),
}

impl Errors {
    fn new(strict: bool) -> Self {
        if strict { Self::First(None) } else { Self::All(StringBuilder::new()) }
    }
}

/// Returns the reason if some values of the writer's schema cannot be read with the reader's schema, and None if all
/// values can be read.
#[pyfunction]
pub(crate) fn avro_incompatibility(
    py: Python<'_>,
    writer: (String, Vec<String>),
    reader: (String, Vec<String>),
) -> PyResult<Option<String>> {
    let parse = |(text, needed): &(String, Vec<String>)| Schema::parse_with(text, needed);
    let incompatibility = || {
        let (writer, reader) = (parse(&writer)?, parse(&reader)?);
        let mut decoder = Decoder::avro(&reader, &Options::default())?;
        decoder.add_writer(SchemaId::Id(0), &writer);
        let id = SchemaId::Id(0);
        let all_values = decoder.refusal(id).map(ToString::to_string);
        Ok(all_values.or_else(|| decoder.refusal_of_some(id)))
    };
    incompatibility().map_err(|error: SchemaError| to_py(py, &Error::configuration(error.to_string())))
}

/// Returns the dead letters of the rows of a consumer's batch that have an error, which begins with `key: ` or
/// `value: `.
#[pyfunction]
pub(crate) fn dead_letters<'py>(
    py: Python<'py>,
    batch: &Bound<'py, PyAny>,
    errors: BTreeMap<usize, String>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(batch) = import_batch(py, batch)? else {
        return Err(PyTypeError::new_err("a batch without rows has no dead letters"));
    };
    if errors.keys().any(|row| *row >= batch.num_rows()) {
        return Err(PyTypeError::new_err(format!(
            "an error names a row that the batch of {} rows does not have",
            batch.num_rows()
        )));
    }
    let letters = interpreter_guard::detach(py, || samsarrow_values::dead_letters(&batch, &errors));
    arrow_ffi::to_pyarrow(py, &letters.map_err(PyTypeError::new_err)?)
}

/// Returns a batch without rows, whose column `value` has the null type.
fn empty() -> RecordBatch {
    let schema = Arc::new(ArrowSchema::new(vec![Field::new("value", DataType::Null, true)]));
    RecordBatch::new_empty(schema)
}

/// An error that concerns the whole batch or schema instead of a single value.
enum Failure {
    Type(String),
    Other(String),
}

impl<T: Into<String>> From<T> for Failure {
    fn from(text: T) -> Self {
        Failure::Other(text.into())
    }
}

fn to_exception(py: Python<'_>, failure: Failure) -> PyErr {
    match failure {
        Failure::Type(text) => PyTypeError::new_err(text),
        Failure::Other(text) => to_py(py, &Error::configuration(text)),
    }
}

/// Imports a batch from Python. Returns `None` if it has no rows.
fn import_batch(py: Python<'_>, batch: &Bound<'_, PyAny>) -> PyResult<Option<RecordBatch>> {
    arrow_ffi::from_python(batch)?.next(py)
}

/// Decodes rows. Stops at the first bad value if `errors` is `First`, and at the memory limit if `has_limit`.
fn push_all<'a>(
    decoder: &mut Decoder,
    values: impl Iterator<Item = Option<&'a [u8]>>,
    headers: Option<&Headers>,
    errors: &mut Errors,
    has_limit: bool,
) -> Result<(), Failure> {
    for (row, value) in values.enumerate() {
        match decoder.push_row(value, headers, row) {
            Ok(()) => (),
            Err(ValueError::Bad(bad)) => match errors {
                Errors::First(first) => {
                    *first = Some(bad);
                    return Ok(());
                }
                Errors::All(texts) => {
                    texts.append_nulls(row - texts.len());
                    texts.append_value(bad.described(&[]));
                }
            },
            Err(ValueError::Full) if has_limit && row > 0 => return Ok(()),
            Err(full @ ValueError::Full) => return Err(Failure::Other(full.to_string())),
        }
    }
    Ok(())
}

#[pymethods]
impl ValueDecoder {
    /// Creates a decoder of Avro values.
    #[staticmethod]
    #[pyo3(signature = (schema, needed, writers, fields, framing, enums, recursion))]
    #[expect(clippy::too_many_arguments, reason = "as Python has them")]
    fn avro(
        py: Python<'_>,
        schema: &str,
        needed: Vec<String>,
        writers: Vec<(Option<PySchemaId>, String)>,
        fields: Option<Vec<String>>,
        framing: &str,
        enums: &str,
        recursion: usize,
    ) -> PyResult<Self> {
        let config_error = |text: String| to_py(py, &Error::configuration(text));
        let parse = |text: &str| Schema::parse(text).map_err(|error| config_error(error.to_string()));
        let framings = ["auto", "header", "confluent", "apicurio8", "single-object", "glue", "none"];
        let framing = Framing::among(&framings, framing).map_err(config_error)?;
        let enums = enums_of(enums).map_err(config_error)?;
        let mut known = Writers::default();
        for (id, text) in writers {
            known.add_known(id.map(PySchemaId::into_schema_id), &parse(&text)?);
        }
        let schema = Schema::parse_with(schema, &needed).map_err(|error| config_error(error.to_string()))?;
        let options = Options { framing, enums, fields, recursion };
        Self::new(py, Format::Avro { schema, options, writers: Arc::new(Mutex::new(known)) })
    }

    /// Creates a decoder of JSON values. `schema` is the text of a JSON Schema, or Arrow data whose first column has
    /// the type of the values.
    #[staticmethod]
    #[pyo3(signature = (schema, needed, links, fields, framing))]
    fn json(
        py: Python<'_>,
        schema: &Bound<'_, PyAny>,
        needed: Vec<String>,
        links: Vec<Link>,
        fields: Option<Vec<String>>,
        framing: &str,
    ) -> PyResult<Self> {
        let config_error = |text: String| to_py(py, &Error::configuration(text));
        let framing = Framing::from_name(framing).ok_or_else(|| {
            config_error(format!("framing must be auto, header, confluent, apicurio8, glue or none, not {framing:?}"))
        })?;
        let schema = match schema.extract::<String>() {
            Ok(text) => json::Schema::parse(&text, &needed, &links).map_err(|error| config_error(error.to_string()))?,
            Err(_) => {
                let columns = arrow_ffi::schema_of(schema)?;
                let column = columns.fields().first().ok_or_else(|| config_error("there is no column".to_owned()))?;
                json::Schema::from_arrow(column.data_type().clone())
            }
        };
        Self::new(py, Format::Json { schema, options: Options { framing, fields, ..Options::default() } })
    }

    /// Creates a decoder of Protobuf values. `schema` is source text or serialized descriptors.
    #[staticmethod]
    #[pyo3(signature = (schema, needed, message, by_id, fields, framing, enums, recursion))]
    #[expect(clippy::too_many_arguments, reason = "as Python has them")]
    fn protobuf(
        py: Python<'_>,
        schema: ProtobufSchema,
        needed: Vec<String>,
        message: Option<String>,
        by_id: bool,
        fields: Option<Vec<String>>,
        framing: &str,
        enums: &str,
        recursion: usize,
    ) -> PyResult<Self> {
        let config_error = |text: String| to_py(py, &Error::configuration(text));
        let framing = Framing::among(&["auto", "header", "confluent", "apicurio8", "glue", "none"], framing)
            .map_err(config_error)?;
        let enums = enums_of(enums).map_err(config_error)?;
        let schema = schema.parse(&needed).map_err(|error| config_error(error.to_string()))?;
        let options = Options { framing, enums, fields, recursion };
        Self::new(py, Format::Protobuf { schema, message, by_id, options, writers: Arc::default() })
    }

    /// Creates a decoder for one of Kafka's primitive serdes.
    #[staticmethod]
    fn plain(py: Python<'_>, name: &str) -> PyResult<Self> {
        let plain = Plain::from_name(name).ok_or_else(|| {
            let names = "string, short, int, long, float, double, boolean or uuid";
            let text = format!("a format must be Avro(…), Json(…), Protobuf(…), or {names}, not {name:?}");
            to_py(py, &Error::configuration(text))
        })?;
        Self::new(py, Format::Plain(plain))
    }

    /// Returns a call that fetches from a registry the writer's schemas that a batch needs. Returns None if no schema
    /// is missing.
    fn learn(
        &self,
        py: Python<'_>,
        registry: &PyRegistry,
        batch: &Bound<'_, PyAny>,
        key: bool,
        ignore_rules: bool,
        imports: Vec<String>,
    ) -> PyResult<Option<Call>> {
        let Some(batch) = import_batch(py, batch)? else { return Ok(None) };
        let part = if key { Part::Key } else { Part::Value };
        let ids = interpreter_guard::detach(py, || self.missing_ids(&batch, part))
            .map_err(|failure| to_exception(py, failure))?;
        let Some((kind, writers)) = self.format.writers() else { return Ok(None) };
        if ids.is_empty() {
            return Ok(None);
        }
        let (registry, writers, imports) = (registry.core(py)?, Arc::clone(writers), imports.into());
        Ok(Some(Call::without_result(async move {
            let schemas = lookup_schemas(registry, ids, kind, ignore_rules, imports).await?;
            let mut writers = lock(&writers);
            schemas.into_iter().for_each(|(id, schema)| writers.learn(id, schema));
            Ok(())
        })))
    }

    /// Decodes the column `value` of a batch. If `strict`, stops at the first bad value and returns it; otherwise adds
    /// a column `error`. With a `limit` in bytes, the returned batch may have fewer rows.
    #[pyo3(signature = (batch, key, strict, limit = None))]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        batch: &Bound<'py, PyAny>,
        key: bool,
        strict: bool,
        limit: Option<u64>,
    ) -> PyResult<Decoded<'py>> {
        let part = if key { Part::Key } else { Part::Value };
        let batch = import_batch(py, batch)?;
        // A batch without rows is imported as None. Decode an empty batch in this case, to return a column of the right
        // type.
        let batch = batch.unwrap_or_else(empty);
        let decoded = interpreter_guard::detach(py, || self.decode_batch(&batch, part, strict, limit));
        let (rows, bad) = decoded.map_err(|failure| to_exception(py, failure))?;
        let bad = bad.map(|bad| {
            let schema = bad.schema.map(|schema| schema.to_string());
            (bad.row, bad.schema.and_then(PySchemaId::from_schema_id), bad.path, bad.reason, schema)
        });
        Ok((arrow_ffi::to_pyarrow(py, &rows)?, bad))
    }
}
