//! Values into typed columns, without a broker.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, ListArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use samsarrow_client::error::Error;
use samsarrow_values::avro::Schema;
use samsarrow_values::plain::Plain;
use samsarrow_values::{BadValue, Decoder, Enums, Framing, Options, Part, SchemaId, ValueError};

use crate::arrow_ffi;
use crate::error::to_py;
use crate::gate;

/// Row, schema, field and reason of a value that is bad, and its schema as text.
type Bad = (usize, Option<Id>, String, String, Option<String>);

/// A batch of one column, or what is bad.
type Decoded<'py> = (Option<Bound<'py, PyAny>>, Option<Bad>);

/// What a writer's schema is known by; one without an id by its fingerprint.
#[derive(FromPyObject, IntoPyObject, Debug, Clone)]
pub(crate) enum Id {
    /// A registry's.
    Number(u64),
    /// A GUID's bytes.
    Guid([u8; 16]),
}

impl Id {
    fn of(id: SchemaId) -> Option<Id> {
        match id {
            SchemaId::Bare => None,
            SchemaId::Id(id) | SchemaId::Fingerprint(id) => Some(Id::Number(id)),
            SchemaId::Guid(guid) => Some(Id::Guid(guid)),
        }
    }
}

enum Format {
    Plain(Plain),
    Avro { schema: Schema, writers: Vec<(Option<Id>, Schema)>, options: Options },
}

impl Format {
    fn decoder(&self) -> Result<Decoder, String> {
        let (schema, writers, options) = match self {
            Format::Plain(plain) => return Ok(Decoder::plain(*plain)),
            Format::Avro { schema, writers, options } => (schema, writers, options),
        };
        let mut decoder = Decoder::avro(schema, options).map_err(|error| error.to_string())?;
        for (id, writer) in writers {
            match id {
                Some(Id::Number(id)) => decoder.add_writer(SchemaId::Id(*id), writer),
                Some(Id::Guid(guid)) => decoder.add_writer(SchemaId::Guid(*guid), writer),
                None => (),
            }
            decoder.add_writer(SchemaId::Fingerprint(writer.fingerprint()), writer);
        }
        Ok(decoder)
    }
}

/// See `samsarrow.values`.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct ValueDecoder {
    format: Format,
    /// Those that no call uses: schemas are resolved once.
    idle: Mutex<Vec<Decoder>>,
}

impl ValueDecoder {
    fn new(py: Python<'_>, format: Format) -> PyResult<Self> {
        // What is wrong with schemas shows before the first value.
        let first = format.decoder().map_err(|text| to_py(py, &Error::configuration(text)))?;
        Ok(Self { format, idle: Mutex::new(vec![first]) })
    }

    fn take(&self) -> Result<Decoder, String> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| self.format.decoder(), Ok)
    }

    fn put(&self, decoder: Decoder) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(decoder);
    }

    /// The array, or the first value that is bad, where that is an error.
    fn run(&self, batch: &RecordBatch, part: Part, strict: bool) -> Result<Result<ArrayRef, Box<BadValue>>, Failure> {
        let column = batch.column_by_name("value").ok_or("there is no column of values")?;
        let headers = batch.column_by_name("headers").map(|headers| Headers::of(headers, part)).transpose()?;
        let mut decoder = self.take()?;
        decoder.reserve(column.len());
        let bad = match column.data_type() {
            DataType::Binary => push_all(&mut decoder, column.as_binary::<i32>().iter(), headers.as_ref(), strict),
            DataType::LargeBinary => push_all(&mut decoder, column.as_binary::<i64>().iter(), headers.as_ref(), strict),
            DataType::BinaryView => push_all(&mut decoder, column.as_binary_view().iter(), headers.as_ref(), strict),
            DataType::Null => push_all(&mut decoder, (0..column.len()).map(|_| None), None, strict),
            other => {
                return Err(Failure::Type(format!(
                    "expected an array of binary, large_binary or binary_view, got {other}"
                )));
            }
        };
        let array = decoder.finish().map_err(|error| error.to_string())?;
        self.put(decoder);
        Ok(match bad? {
            Some(bad) => Err(bad),
            None => Ok(array),
        })
    }
}

/// A batch of no values.
fn empty() -> RecordBatch {
    let schema = Arc::new(ArrowSchema::new(vec![Field::new("value", DataType::Null, true)]));
    RecordBatch::new_empty(schema)
}

/// Why nothing was decoded, but for bad values.
enum Failure {
    Type(String),
    Other(String),
}

impl<T: Into<String>> From<T> for Failure {
    fn from(text: T) -> Self {
        Failure::Other(text.into())
    }
}

/// Appends rows, up to the first bad one if that is an error.
fn push_all<'a>(
    decoder: &mut Decoder,
    values: impl Iterator<Item = Option<&'a [u8]>>,
    headers: Option<&Headers>,
    strict: bool,
) -> Result<Option<Box<BadValue>>, Failure> {
    for (row, value) in values.enumerate() {
        match decoder.push(value, headers.and_then(|headers| headers.of_row(row))) {
            Ok(()) => (),
            Err(ValueError::Bad(bad)) if strict => return Ok(Some(bad)),
            Err(ValueError::Bad(_)) => (),
            Err(full @ ValueError::Full) => return Err(Failure::Other(full.to_string())),
        }
    }
    Ok(None)
}

/// The column of headers as consumers give it.
struct Headers {
    rows: ListArray,
    names: StringArray,
    values: BinaryArray,
    name: &'static str,
}

impl Headers {
    fn of(column: &ArrayRef, part: Part) -> Result<Headers, Failure> {
        let found = || {
            let rows = column.as_list_opt::<i32>()?.clone();
            let pairs = rows.values().as_struct_opt()?;
            let names = pairs.column_by_name("key")?.as_string_opt::<i32>()?.clone();
            let values = pairs.column_by_name("value")?.as_binary_opt::<i32>()?.clone();
            Some(Headers { rows, names, values, name: part.header() })
        };
        let kind = column.data_type();
        found().ok_or_else(|| {
            Failure::Type(format!(
                "headers must be list<struct<key: string, value: binary>>, as of a consumer, not {kind}"
            ))
        })
    }

    /// The last of the name, as Java's deserializers take it.
    fn of_row(&self, row: usize) -> Option<&[u8]> {
        let offsets = self.rows.value_offsets();
        let (start, end) = (*offsets.get(row)? as usize, *offsets.get(row + 1)? as usize);
        if self.rows.is_null(row) {
            return None;
        }
        let at = (start..end).rev().find(|&at| self.names.is_valid(at) && self.names.value(at) == self.name)?;
        self.values.is_valid(at).then(|| self.values.value(at))
    }
}

#[pymethods]
impl ValueDecoder {
    /// For Avro values.
    #[staticmethod]
    #[pyo3(signature = (schema, writers, fields, framing, enums))]
    fn avro(
        py: Python<'_>,
        schema: &str,
        writers: Vec<(Option<Id>, String)>,
        fields: Option<Vec<String>>,
        framing: &str,
        enums: &str,
    ) -> PyResult<Self> {
        let refuse = |text: String| to_py(py, &Error::configuration(text));
        let parse = |text: &str| Schema::parse(text).map_err(|error| refuse(error.to_string()));
        let framing = Framing::from_name(framing).ok_or_else(|| {
            refuse(format!("framing must be auto, confluent, apicurio8, single-object or none, not {framing:?}"))
        })?;
        let enums = match enums {
            "string" => Enums::Strings,
            "dictionary" => Enums::Dictionary,
            other => return Err(refuse(format!("enums must be string or dictionary, not {other:?}"))),
        };
        let parsed = writers.into_iter().map(|(id, text)| Ok((id, parse(&text)?)));
        let writers = parsed.collect::<PyResult<_>>()?;
        Self::new(py, Format::Avro { schema: parse(schema)?, writers, options: Options { framing, enums, fields } })
    }

    /// For values of one of Kafka's own types.
    #[staticmethod]
    fn plain(py: Python<'_>, name: &str) -> PyResult<Self> {
        let plain = Plain::from_name(name).ok_or_else(|| {
            let names = "string, short, int, long, float, double, boolean or uuid";
            to_py(py, &Error::configuration(format!("a format must be Avro(…), or {names}, not {name:?}")))
        })?;
        Self::new(py, Format::Plain(plain))
    }

    /// The column `value` of a batch as a batch of one column; or the first value that is bad, if `strict`.
    fn decode<'py>(
        &self,
        py: Python<'py>,
        batch: &Bound<'py, PyAny>,
        key: bool,
        strict: bool,
    ) -> PyResult<Decoded<'py>> {
        let mut input = arrow_ffi::from_python(batch)?;
        let part = if key { Part::Key } else { Part::Value };
        let refuse = |text: String| to_py(py, &Error::configuration(text));
        let batch = gate::detach_within(py, || input.next()).transpose().map_err(|error| refuse(error.to_string()))?;
        // One without rows does not come: it is decoded for the type.
        let batch = batch.unwrap_or_else(empty);
        match gate::detach(py, || self.run(&batch, part, strict)) {
            Err(Failure::Type(text)) => Err(PyTypeError::new_err(text)),
            Err(Failure::Other(text)) => Err(refuse(text)),
            Ok(Err(bad)) => {
                let schema = bad.schema.map(|schema| schema.to_string());
                Ok((None, Some((bad.row, bad.schema.and_then(Id::of), bad.path, bad.reason, schema))))
            }
            Ok(Ok(array)) => {
                let batch = RecordBatch::try_from_iter_with_nullable([("value", array, true)]);
                Ok((Some(arrow_ffi::to_pyarrow(py, &batch.map_err(|error| refuse(error.to_string()))?)?), None))
            }
        }
    }
}
