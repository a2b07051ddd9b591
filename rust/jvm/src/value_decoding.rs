//! Decoding of keys and values of fetched batches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use arrow_array::builder::{ArrayBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch, StringArray};
use samsarrow_client::error::Result as ClientResult;
use samsarrow_client::schema_registry::Registry;
use samsarrow_client::types::TopicPartition;
use samsarrow_spark::Error;
use samsarrow_spark::typed::{OnError, SparkType, Typed, lookup_schemas};
use samsarrow_values::path::{names, part};
use samsarrow_values::writer_schemas::{Found, Kind};
use samsarrow_values::{BadValue, Decoder, Format, Headers, Part, SchemaError, SchemaId, ValueError, Writers};
use samsarrow_wire::sync::lock;

use crate::failure::{Failure, Result, wrong_column};
use crate::memory_budget::MAX_GRANT;
use crate::range::Range;

/// Writer schemas of keys and of values, shared by tasks with equal options.
#[derive(Debug, Default)]
pub(crate) struct WriterCaches([Arc<Mutex<Writers>>; 2]);

impl WriterCaches {
    fn of(&self, part: Part) -> Arc<Mutex<Writers>> {
        let [keys, values] = &self.0;
        Arc::clone(match part {
            Part::Key => keys,
            Part::Value => values,
        })
    }
}

/// Rows with bad keys, or with bad values, of a batch.
#[derive(Debug)]
pub(crate) struct BadRows {
    /// Topic to which they are sent.
    pub(crate) topic: Arc<str>,
    /// Errors by row.
    pub(crate) errors: BTreeMap<usize, String>,
}

/// Column with the decoded keys or values.
#[derive(Debug)]
pub(crate) struct DecodedColumn<'a> {
    pub(crate) part: Part,
    pub(crate) array: ArrayRef,
    /// Spark type of the column.
    pub(crate) kind: &'a SparkType,
    /// Error text of each row, or null for a row without an error. `None` unless rows with errors become null.
    pub(crate) errors: Option<StringArray>,
}

/// Decoded rows of a batch.
#[derive(Debug)]
pub(crate) struct Decoded<'a> {
    pub(crate) columns: Vec<DecodedColumn<'a>>,
    /// Number of rows, including bad rows.
    pub(crate) rows: usize,
    /// Error of the row after these rows.
    pub(crate) error: Option<Failure>,
    /// Bad rows among these rows, which belong in a dead letter topic.
    pub(crate) bad: Vec<BadRows>,
}

/// Index of a decoder, and the schemas that the registry returned for this decoder.
pub(crate) type LookupResult = (usize, Vec<(SchemaId, Found)>);

/// Decoder of either the keys or the values of a range.
#[derive(Debug)]
pub(crate) struct PartDecoder {
    part: Part,
    format: Format,
    decoder: Decoder,
    /// Number of shared writer schemas that were added to this decoder.
    writers_known: usize,
    kind: SparkType,
    on_error: OnError,
    ignore_rules: bool,
    reads_headers: bool,
}

/// Decoders of the keys and values of a range.
#[derive(Debug, Default)]
pub(crate) struct PartDecoders(Vec<PartDecoder>);

impl PartDecoder {
    fn new(typed: &Typed, range: &Range, caches: &WriterCaches) -> Result<PartDecoder> {
        let name = typed.part.name();
        let schema = range.reader_schemas.get(name);
        let available = typed.spark_type(schema)?;
        let kind = range.types.get(name).unwrap_or(&available).clone();
        let (format, mut decoder) =
            decoder_for_fields(typed, range, typed.selected_fields(&available, &kind)?, caches)?;
        decoder.set_limit(MAX_GRANT as u64);
        Ok(PartDecoder {
            part: typed.part,
            format,
            decoder,
            writers_known: 0,
            kind,
            on_error: typed.on_error.clone(),
            ignore_rules: typed.ignore_rules,
            reads_headers: typed.reads_headers(),
        })
    }

    fn values<'a>(&self, batch: &'a RecordBatch) -> Result<(&'a BinaryArray, Option<Headers>)> {
        let name = self.part.name();
        let column = batch.column_by_name(name).and_then(|column| column.as_binary_opt::<i32>());
        let headers =
            batch.column_by_name("headers").map_or(Ok(None), |headers| self.format.headers(headers, self.part));
        Ok((column.ok_or_else(|| wrong_column(name))?, headers.map_err(Failure::state)?))
    }

    /// Returns the schema ids in the batch that are not known yet, and the schema type.
    fn unknown_schemas(&self, batch: &RecordBatch) -> Result<Option<(BTreeSet<SchemaId>, Kind)>> {
        let Some((kind, _)) = self.format.writers() else { return Ok(None) };
        let (values, headers) = self.values(batch)?;
        let ids = self.format.unknown(values.iter(), headers.as_ref());
        Ok((!ids.is_empty()).then_some((ids, kind)))
    }

    /// Decodes rows until a row is invalid (if this is an error) or until the memory limit is exceeded. Rows in
    /// `skipped` become null.
    fn decode(
        &mut self,
        batch: &RecordBatch,
        skipped: &BTreeSet<usize>,
    ) -> Result<(ArrayRef, Option<StringArray>, Option<Box<BadValue>>)> {
        let raises = self.on_error == OnError::Raise;
        let (values, headers) = self.values(batch)?;
        self.writers_known = self.format.catch_up(&mut self.decoder, self.writers_known);
        self.decoder.reserve(values.len());
        let mut errors = StringBuilder::new();
        let mut error = None;
        for (row, value) in values.iter().enumerate() {
            let value = value.filter(|_| !skipped.contains(&row));
            match self.decoder.push_row(value, headers.as_ref(), row) {
                Ok(()) => {}
                Err(ValueError::Bad(bad)) if !raises => {
                    errors.append_nulls(row - errors.len());
                    errors.append_value(bad.described(&[]));
                }
                Err(ValueError::Bad(bad)) => {
                    error = Some(bad);
                    break;
                }
                Err(ValueError::Full) if row > 0 => break,
                Err(full @ ValueError::Full) => return Err(Error::configuration(full.to_string()).into()),
            }
        }
        let array = self.decoder.finish().map_err(|error| Failure::state(error.to_string()))?;
        let errors = (!raises).then(|| {
            errors.append_nulls(array.len() - errors.len());
            errors.finish()
        });
        Ok((array, errors, error))
    }
}

/// Returns a decoder for the selected fields. A union must be read as a whole, because Spark sees it as a struct. If a
/// selected field is inside a union, the decoder reads whole top-level fields instead.
fn decoder_for_fields(
    typed: &Typed,
    range: &Range,
    fields: Option<Vec<String>>,
    caches: &WriterCaches,
) -> Result<(Format, Decoder)> {
    let first = |path: &String| Ok(names(path)?.first().map_or_else(String::new, |name| part(name).into_owned()));
    let outer = fields.as_ref().map(|paths| paths.iter().map(first).collect::<Result<BTreeSet<_>, SchemaError>>());
    let outer = outer.transpose().map_err(|error| Error::configuration(error.to_string()))?;
    let outer = outer.map(|names| names.into_iter().collect());
    let create = |fields| {
        let format = typed.format(range.reader_schemas.get(typed.part.name()), fields, caches.of(typed.part))?;
        let decoder = format.decoder().map_err(|error| Error::configuration(error.to_string()))?;
        Ok((format, decoder))
    };
    create(fields).or_else(|_: Failure| create(outer)).or_else(|_| create(None))
}

impl PartDecoders {
    /// Creates the decoders that the columns of the range need.
    ///
    /// # Errors
    /// Fails if a schema cannot be parsed.
    pub(crate) fn new(typed: &[Typed], range: &Range, caches: &WriterCaches) -> Result<PartDecoders> {
        let needed = typed.iter().filter(|typed| typed.needs_decoding(&range.columns));
        needed.map(|typed| PartDecoder::new(typed, range, caches)).collect::<Result<_>>().map(PartDecoders)
    }

    /// Returns true if neither keys nor values are decoded.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if record headers may contain the ids of writer schemas.
    pub(crate) fn read_headers(&self) -> bool {
        self.0.iter().any(|decoder| decoder.reads_headers)
    }

    /// Returns a registry lookup of the unknown writer schemas of a batch, or `None` if all are known.
    ///
    /// # Errors
    /// Fails if the batch does not have the columns that the reader requested.
    pub(crate) fn lookup(
        &self,
        batch: &RecordBatch,
        registry: &Registry,
    ) -> Result<Option<impl Future<Output = ClientResult<Vec<LookupResult>>> + use<>>> {
        let mut lookups = Vec::new();
        for (index, decoder) in self.0.iter().enumerate() {
            if let Some((ids, kind)) = decoder.unknown_schemas(batch)? {
                lookups
                    .push((index, lookup_schemas(registry.clone(), ids, kind, decoder.ignore_rules, Arc::default())));
            }
        }
        Ok((!lookups.is_empty()).then_some(async {
            let mut results = Vec::new();
            for (index, lookup) in lookups {
                results.push((index, lookup.await?));
            }
            Ok(results)
        }))
    }

    /// Adds the schemas that the registry returned to the shared writer schemas.
    pub(crate) fn add_writers(&self, results: Vec<LookupResult>) {
        for (index, found) in results {
            if let Some((_, writers)) = self.0.get(index).and_then(|decoder| decoder.format.writers()) {
                let mut writers = lock(writers);
                found.into_iter().for_each(|(id, found)| writers.learn(id, found));
            }
        }
    }

    /// Decodes the key and value columns until a row is invalid (if this is an error) or until the memory limit is
    /// exceeded. The values of rows whose keys belong in a dead letter topic are not decoded.
    ///
    /// # Errors
    /// Fails if a single row exceeds the memory limit, or if the batch does not have the columns that the reader
    /// requested.
    pub(crate) fn decode(&mut self, batch: &RecordBatch, tp: &TopicPartition) -> Result<Decoded<'_>> {
        let (mut columns, mut rows, mut error) = (Vec::new(), batch.num_rows(), None);
        let (mut dead, mut skipped): (Vec<BadRows>, _) = (Vec::new(), BTreeSet::new());
        for decoder in &mut self.0 {
            let (array, errors, bad) = decoder.decode(batch, &skipped)?;
            if array.len() < rows {
                (rows, error) = (array.len(), None);
            }
            // Keys are decoded first. If both the key and the value of a row are invalid, the error is therefore about
            // the key.
            if let Some(bad) = bad.filter(|bad| bad.row < rows) {
                rows = bad.row;
                error = Some(Failure::bad_value(describe_error(&bad, decoder.part, batch, tp)));
            }
            let mut column = DecodedColumn { part: decoder.part, array, kind: &decoder.kind, errors };
            if let OnError::DeadLetter(topic) = &decoder.on_error
                && let Some(errors) = column.errors.take()
            {
                let texts = errors.iter().enumerate().filter_map(|(row, text)| Some((row, text?)));
                let errors: BTreeMap<_, _> =
                    texts.map(|(row, text)| (row, format!("{}: {text}", decoder.part.name()))).collect();
                skipped.extend(errors.keys());
                dead.push(BadRows { topic: Arc::clone(topic), errors });
            }
            columns.push(column);
        }
        for column in &mut columns {
            column.array = column.array.slice(0, rows);
            column.errors = column.errors.take().map(|errors| errors.slice(0, rows));
        }
        for bad in &mut dead {
            bad.errors.split_off(&rows);
        }
        dead.retain(|bad| !bad.errors.is_empty());
        Ok(Decoded { columns, rows, error, bad: dead })
    }
}

/// Returns the error text with the location of the bad value: the partition, the offset and, if the key is invalid, the
/// word key.
fn describe_error(bad: &BadValue, part: Part, batch: &RecordBatch, tp: &TopicPartition) -> String {
    let offsets = batch.column_by_name("offset").and_then(|column| column.as_primitive_opt::<Int64Type>());
    let offset = offsets.and_then(|offsets| offsets.values().get(bad.row)).copied().unwrap_or_default();
    let (partition, offset) = (tp.to_string(), format!("offset {offset}"));
    let key = (part == Part::Key).then_some(part.name());
    let location: Vec<&str> = [partition.as_str(), offset.as_str()].into_iter().chain(key).collect();
    bad.described(&location)
}
