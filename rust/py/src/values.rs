//! Values into typed columns, without a broker.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, ListArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use samsarrow_client::error::Error;
use samsarrow_values::avro::Schema;
use samsarrow_values::frame::split;
use samsarrow_values::plain::Plain;
use samsarrow_values::{BadValue, Decoder, Enums, Framing, Options, Part, SchemaError, SchemaId, ValueError, proto};

use crate::arrow_ffi;
use crate::error::to_py;
use crate::gate;
use crate::registry::Registry as PyRegistry;
use crate::runtime::run;
use crate::writers::{File, Id, Kind, Writers, ask};

/// Row, schema, field and reason of a value that is bad, and its schema as text.
type Bad = (usize, Option<Id>, String, String, Option<String>);

/// A batch of one column, or what is bad.
type Decoded<'py> = (Option<Bound<'py, PyAny>>, Option<Bad>);

enum Format {
    Plain(Plain),
    Avro { schema: Schema, options: Options, writers: Mutex<Writers> },
    Protobuf { schema: proto::Schema, message: Option<String>, by_id: bool, options: Options, writers: Mutex<Writers> },
}

impl Format {
    fn decoder(&self) -> Result<Decoder, String> {
        let made = match self {
            Format::Plain(plain) => Ok(Decoder::plain(*plain)),
            Format::Avro { schema, options, .. } => Decoder::avro(schema, options),
            Format::Protobuf { schema, message, by_id, options, .. } => {
                Decoder::protobuf(schema, message.as_deref(), *by_id, options)
            }
        };
        made.map_err(|error| error.to_string())
    }

    /// What is known of writers, and of which kind their schemas are.
    fn writers(&self) -> Option<(Kind, &Mutex<Writers>)> {
        match self {
            Format::Plain(_) => None,
            Format::Avro { writers, .. } => Some((Kind::Avro, writers)),
            Format::Protobuf { writers, .. } => Some((Kind::Protobuf, writers)),
        }
    }

    /// Which schema a value names.
    fn id(&self, value: &[u8], header: Option<&[u8]>) -> Option<SchemaId> {
        match self {
            Format::Plain(_) => None,
            Format::Avro { options, .. } => split(options.framing, value, header).ok().map(|(id, _)| id),
            Format::Protobuf { options, .. } => proto::split(options.framing, value, header).ok().map(|(id, ..)| id),
        }
    }

    /// Has a decoder know what was learned since.
    fn catch_up(&self, decoder: &mut Decoder, known: usize) -> usize {
        let Some((_, writers)) = self.writers() else { return 0 };
        writers.lock().unwrap_or_else(PoisonError::into_inner).catch_up(decoder, known)
    }
}

/// See `samsarrow.values`.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct ValueDecoder {
    format: Format,
    /// Those that no call uses, and how much of what was learned they know: schemas are resolved once.
    idle: Mutex<Vec<(Decoder, usize)>>,
}

impl ValueDecoder {
    fn new(py: Python<'_>, format: Format) -> PyResult<Self> {
        // What is wrong with schemas shows before the first value.
        let first = format.decoder().map_err(|text| to_py(py, &Error::configuration(text)))?;
        Ok(Self { format, idle: Mutex::new(vec![(first, 0)]) })
    }

    fn take(&self) -> Result<(Decoder, usize), String> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let (mut decoder, known) = idle.map_or_else(|| self.format.decoder().map(|made| (made, 0)), Ok)?;
        let known = self.format.catch_up(&mut decoder, known);
        Ok((decoder, known))
    }

    fn put(&self, decoder: (Decoder, usize)) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(decoder);
    }

    /// The ids in a batch that a registry is to be asked for.
    fn unknown(&self, batch: &RecordBatch, part: Part) -> Result<BTreeSet<SchemaId>, Failure> {
        let Some((_, writers)) = self.format.writers() else { return Ok(BTreeSet::new()) };
        let column = batch.column_by_name("value").ok_or("there is no column of values")?;
        let headers = batch.column_by_name("headers").map(|headers| Headers::of(headers, part)).transpose()?;
        let (headers, format) = (headers.as_ref(), &self.format);
        let mut ids = match column.data_type() {
            DataType::Binary => ids(format, column.as_binary::<i32>().iter(), headers),
            DataType::LargeBinary => ids(format, column.as_binary::<i64>().iter(), headers),
            DataType::BinaryView => ids(format, column.as_binary_view().iter(), headers),
            // Of another type, which is an error in its place.
            _ => BTreeSet::new(),
        };
        let writers = writers.lock().unwrap_or_else(PoisonError::into_inner);
        ids.retain(|id| !writers.settles(*id));
        Ok(ids)
    }

    /// The array, or the first value that is bad, where that is an error.
    fn run(&self, batch: &RecordBatch, part: Part, strict: bool) -> Result<Result<ArrayRef, Box<BadValue>>, Failure> {
        let column = batch.column_by_name("value").ok_or("there is no column of values")?;
        let headers = batch.column_by_name("headers").map(|headers| Headers::of(headers, part)).transpose()?;
        let (mut decoder, known) = self.take()?;
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
        self.put((decoder, known));
        Ok(match bad? {
            Some(bad) => Err(bad),
            None => Ok(array),
        })
    }
}

/// The ids and GUIDs that values name.
fn ids<'a>(
    format: &Format,
    values: impl Iterator<Item = Option<&'a [u8]>>,
    headers: Option<&Headers>,
) -> BTreeSet<SchemaId> {
    let (mut found, mut last) = (BTreeSet::new(), None);
    for (row, value) in values.enumerate() {
        let Some(value) = value else { continue };
        let Some(id) = format.id(value, headers.and_then(|headers| headers.of_row(row))) else { continue };
        if last != Some(id) && matches!(id, SchemaId::Id(_) | SchemaId::Guid(_)) {
            found.insert(id);
        }
        last = Some(id);
    }
    found
}

/// Why values of one schema cannot be read as another, if they cannot.
#[pyfunction]
pub(crate) fn avro_refusal(
    py: Python<'_>,
    writer: (String, Vec<String>),
    reader: (String, Vec<String>),
) -> PyResult<Option<String>> {
    let parse = |(text, needed): &(String, Vec<String>)| Schema::parse_with(text, needed);
    let refusal = || {
        let (writer, reader) = (parse(&writer)?, parse(&reader)?);
        let mut decoder = Decoder::avro(&reader, &Options::default())?;
        decoder.add_writer(SchemaId::Id(0), &writer);
        Ok(decoder.refusal(SchemaId::Id(0)).map(ToString::to_string))
    };
    refusal().map_err(|error: SchemaError| to_py(py, &Error::configuration(error.to_string())))
}

fn framing_of(name: &str, names: &[&str]) -> Result<Framing, String> {
    let known = names.contains(&name).then(|| Framing::from_name(name)).flatten();
    let (last, others) = names.split_last().map_or(("", &[][..]), |(last, others)| (*last, others));
    known.ok_or_else(|| format!("framing must be {} or {last}, not {name:?}", others.join(", ")))
}

fn enums_of(name: &str) -> Result<Enums, String> {
    match name {
        "string" => Ok(Enums::Strings),
        "dictionary" => Ok(Enums::Dictionary),
        other => Err(format!("enums must be string or dictionary, not {other:?}")),
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

fn failed(py: Python<'_>, failure: Failure) -> PyErr {
    match failure {
        Failure::Type(text) => PyTypeError::new_err(text),
        Failure::Other(text) => to_py(py, &Error::configuration(text)),
    }
}

/// A batch of Python's; none has no rows.
fn taken(py: Python<'_>, batch: &Bound<'_, PyAny>) -> PyResult<Option<RecordBatch>> {
    let mut input = arrow_ffi::from_python(batch)?;
    let batch = gate::detach_within(py, || input.next()).transpose();
    batch.map_err(|error| to_py(py, &Error::configuration(error.to_string())))
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
    #[pyo3(signature = (schema, needed, writers, fields, framing, enums))]
    fn avro(
        py: Python<'_>,
        schema: &str,
        needed: Vec<String>,
        writers: Vec<(Option<Id>, String)>,
        fields: Option<Vec<String>>,
        framing: &str,
        enums: &str,
    ) -> PyResult<Self> {
        let refuse = |text: String| to_py(py, &Error::configuration(text));
        let parse = |text: &str| Schema::parse(text).map_err(|error| refuse(error.to_string()));
        let framing =
            framing_of(framing, &["auto", "confluent", "apicurio8", "single-object", "none"]).map_err(refuse)?;
        let enums = enums_of(enums).map_err(refuse)?;
        let mut known = Writers::default();
        for (id, text) in writers {
            known.given(id, parse(&text)?);
        }
        let schema = Schema::parse_with(schema, &needed).map_err(|error| refuse(error.to_string()))?;
        let options = Options { framing, enums, fields };
        Self::new(py, Format::Avro { schema, options, writers: Mutex::new(known) })
    }

    /// For Protobuf values: of a schema's text, or of descriptors.
    #[staticmethod]
    #[pyo3(signature = (schema, needed, message, by_id, fields, framing, enums))]
    #[expect(clippy::too_many_arguments, reason = "as Python has them")]
    fn protobuf(
        py: Python<'_>,
        schema: File,
        needed: Vec<String>,
        message: Option<String>,
        by_id: bool,
        fields: Option<Vec<String>>,
        framing: &str,
        enums: &str,
    ) -> PyResult<Self> {
        let refuse = |text: String| to_py(py, &Error::configuration(text));
        let framing = framing_of(framing, &["auto", "confluent", "none"]).map_err(refuse)?;
        let enums = enums_of(enums).map_err(refuse)?;
        let schema = schema.parse(&needed).map_err(|error| refuse(error.to_string()))?;
        let options = Options { framing, enums, fields };
        Self::new(py, Format::Protobuf { schema, message, by_id, options, writers: Mutex::default() })
    }

    /// For values of one of Kafka's own types.
    #[staticmethod]
    fn plain(py: Python<'_>, name: &str) -> PyResult<Self> {
        let plain = Plain::from_name(name).ok_or_else(|| {
            let names = "string, short, int, long, float, double, boolean or uuid";
            to_py(py, &Error::configuration(format!("a format must be Avro(…), Protobuf(…), or {names}, not {name:?}")))
        })?;
        Self::new(py, Format::Plain(plain))
    }

    /// Has a registry say what the values of a batch were written with, as far as that is not known.
    fn learn(
        &self,
        py: Python<'_>,
        registry: &PyRegistry,
        batch: &Bound<'_, PyAny>,
        key: bool,
        ignore_rules: bool,
    ) -> PyResult<()> {
        let Some(batch) = taken(py, batch)? else { return Ok(()) };
        let part = if key { Part::Key } else { Part::Value };
        let ids = gate::detach(py, || self.unknown(&batch, part)).map_err(|failure| failed(py, failure))?;
        if ids.is_empty() {
            return Ok(());
        }
        if let Some((kind, writers)) = self.format.writers() {
            let found = run(py, ask(registry.core(py)?, ids, kind, ignore_rules))?;
            let mut writers = writers.lock().unwrap_or_else(PoisonError::into_inner);
            found.into_iter().for_each(|(id, found)| writers.learn(id, found));
        }
        Ok(())
    }

    /// The column `value` of a batch as a batch of one column; or the first value that is bad, if `strict`.
    fn decode<'py>(
        &self,
        py: Python<'py>,
        batch: &Bound<'py, PyAny>,
        key: bool,
        strict: bool,
    ) -> PyResult<Decoded<'py>> {
        let part = if key { Part::Key } else { Part::Value };
        let refuse = |text: String| to_py(py, &Error::configuration(text));
        let batch = taken(py, batch)?;
        // One without rows does not come: it is decoded for the type.
        let batch = batch.unwrap_or_else(empty);
        match gate::detach(py, || self.run(&batch, part, strict)) {
            Err(failure) => Err(failed(py, failure)),
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
