//! Keys and values of batches, decoded.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::builder::{ArrayBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch, StringArray};
use samsarrow_client::error::Result as ClientResult;
use samsarrow_client::schema_registry::Registry;
use samsarrow_client::types::TopicPartition;
use samsarrow_spark::Error;
use samsarrow_spark::typed::{SparkType, Typed, ask};
use samsarrow_values::path::{names, part};
use samsarrow_values::writer_schemas::{Found, Kind};
use samsarrow_values::{BadValue, Decoder, Format, Headers, Part, SchemaError, SchemaId, ValueError, Writers};

use crate::budget::MOST;
use crate::failure::{Failure, Result};
use crate::frame::other;
use crate::range::Range;

/// What tasks with the same options have learned of writers, of keys and of values.
#[derive(Debug, Default)]
pub(crate) struct Learned([Arc<Mutex<Writers>>; 2]);

impl Learned {
    fn of(&self, part: Part) -> Arc<Mutex<Writers>> {
        let [keys, values] = &self.0;
        Arc::clone(match part {
            Part::Key => keys,
            Part::Value => values,
        })
    }
}

/// A column that was decoded.
#[derive(Debug)]
pub(crate) struct Decoded<'a> {
    pub(crate) part: Part,
    pub(crate) array: ArrayRef,
    /// What Spark wants of it.
    pub(crate) kind: &'a SparkType,
    /// What is wrong, by row, where that is no error.
    pub(crate) errors: Option<StringArray>,
}

/// What a registry is asked, and has answered.
pub(crate) type Answer = (usize, Vec<(SchemaId, Found)>);

/// Decodes the keys, or the values, of one range.
#[derive(Debug)]
pub(crate) struct Decoding {
    part: Part,
    format: Format,
    decoder: Decoder,
    /// How much of what was learned the decoder knows.
    known: usize,
    kind: SparkType,
    nulls_bad: bool,
    ignores_rules: bool,
    reads_headers: bool,
}

/// Those of a range.
#[derive(Debug, Default)]
pub(crate) struct Decodings(Vec<Decoding>);

impl Decoding {
    fn new(typed: &Typed, range: &Range, learned: &Learned) -> Result<Decoding> {
        let name = typed.part.name();
        let found = range.found.get(name);
        let there = typed.spark_type(found)?;
        let kind = range.types.get(name).unwrap_or(&there).clone();
        let (format, mut decoder) = readable(typed, range, typed.chosen(&there, &kind)?, learned)?;
        decoder.set_limit(MOST as u64);
        Ok(Decoding {
            part: typed.part,
            format,
            decoder,
            known: 0,
            kind,
            nulls_bad: typed.nulls_bad,
            ignores_rules: typed.ignores_rules,
            reads_headers: typed.reads_headers(),
        })
    }

    fn values<'a>(&self, batch: &'a RecordBatch) -> Result<(&'a BinaryArray, Option<Headers>)> {
        let name = self.part.name();
        let column = batch.column_by_name(name).and_then(|column| column.as_binary_opt::<i32>());
        let headers =
            batch.column_by_name("headers").map_or(Ok(None), |headers| self.format.headers(headers, self.part));
        Ok((column.ok_or_else(|| other(name))?, headers.map_err(Failure::state)?))
    }

    /// The ids that a registry is to be asked for, and of which kind their schemas are.
    fn unknown(&self, batch: &RecordBatch) -> Result<Option<(BTreeSet<SchemaId>, Kind)>> {
        let Some((kind, _)) = self.format.writers() else { return Ok(None) };
        let (values, headers) = self.values(batch)?;
        let ids = self.format.unknown(values.iter(), headers.as_ref());
        Ok((!ids.is_empty()).then_some((ids, kind)))
    }

    /// The rows, up to the first that is bad, where that is an error, or that has no room any more.
    fn decode(&mut self, batch: &RecordBatch) -> Result<(ArrayRef, Option<StringArray>, Option<Box<BadValue>>)> {
        let (values, headers) = self.values(batch)?;
        self.known = self.format.catch_up(&mut self.decoder, self.known);
        self.decoder.reserve(values.len());
        let mut texts = StringBuilder::new();
        let mut first = None;
        for (row, value) in values.iter().enumerate() {
            match self.decoder.push_row(value, headers.as_ref(), row) {
                Ok(()) => {}
                Err(ValueError::Bad(bad)) if self.nulls_bad => {
                    texts.append_nulls(row - texts.len());
                    texts.append_value(bad.described(&[]));
                }
                Err(ValueError::Bad(bad)) => {
                    first = Some(bad);
                    break;
                }
                Err(ValueError::Full) if row > 0 => break,
                Err(full @ ValueError::Full) => return Err(Error::configuration(full.to_string()).into()),
            }
        }
        let array = self.decoder.finish().map_err(|error| Failure::state(error.to_string()))?;
        let errors = self.nulls_bad.then(|| {
            texts.append_nulls(array.len() - texts.len());
            texts.finish()
        });
        Ok((array, errors, first))
    }
}

/// What reads these fields; or all of those they are in, where one is within a union, which is read as a whole: Spark
/// knows structs only.
fn readable(typed: &Typed, range: &Range, fields: Option<Vec<String>>, learned: &Learned) -> Result<(Format, Decoder)> {
    let first = |path: &String| Ok(names(path)?.first().map_or_else(String::new, |name| part(name).into_owned()));
    let outer = fields.as_ref().map(|paths| paths.iter().map(first).collect::<Result<BTreeSet<_>, SchemaError>>());
    let outer = outer.transpose().map_err(|error| Error::configuration(error.to_string()))?;
    let outer = outer.map(|names| names.into_iter().collect());
    let made = |fields| {
        let format = typed.format(range.found.get(typed.part.name()), fields, learned.of(typed.part))?;
        let decoder = format.decoder().map_err(|error| Error::configuration(error.to_string()))?;
        Ok((format, decoder))
    };
    made(fields).or_else(|_: Failure| made(outer)).or_else(|_| made(None))
}

impl Decodings {
    /// Of what is wanted of keys and values.
    ///
    /// # Errors
    /// A schema cannot be read.
    pub(crate) fn new(typed: &[Typed], range: &Range, learned: &Learned) -> Result<Decodings> {
        let wanted = typed.iter().filter(|typed| typed.is_wanted(&range.columns));
        wanted.map(|typed| Decoding::new(typed, range, learned)).collect::<Result<_>>().map(Decodings)
    }

    /// Whether nothing is decoded.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether headers of records may say what they were written with.
    pub(crate) fn read_headers(&self) -> bool {
        self.0.iter().any(|one| one.reads_headers)
    }

    /// A question to the registry about what values of a batch were written with; none where all of that is known.
    ///
    /// # Errors
    /// The batch is not one of a reader's consumer.
    pub(crate) fn question(
        &self,
        batch: &RecordBatch,
        registry: &Registry,
    ) -> Result<Option<impl Future<Output = ClientResult<Vec<Answer>>> + use<>>> {
        let mut questions = Vec::new();
        for (index, one) in self.0.iter().enumerate() {
            if let Some((ids, kind)) = one.unknown(batch)? {
                questions.push((index, ask(registry.clone(), ids, kind, one.ignores_rules, Arc::default())));
            }
        }
        Ok((!questions.is_empty()).then_some(async {
            let mut answers = Vec::new();
            for (index, question) in questions {
                answers.push((index, question.await?));
            }
            Ok(answers)
        }))
    }

    /// Takes what the registry has said.
    pub(crate) fn learn(&self, answers: Vec<Answer>) {
        for (index, found) in answers {
            if let Some((_, writers)) = self.0.get(index).and_then(|one| one.format.writers()) {
                let mut writers = writers.lock().unwrap_or_else(PoisonError::into_inner);
                found.into_iter().for_each(|(id, found)| writers.learn(id, found));
            }
        }
    }

    /// The columns, up to the first row that has what is bad where that is an error, or that has no room any more; the
    /// number of rows, and the error.
    ///
    /// # Errors
    /// A column is too large, or the batch is not one of a reader's consumer.
    pub(crate) fn decode(
        &mut self,
        batch: &RecordBatch,
        tp: &TopicPartition,
    ) -> Result<(Vec<Decoded<'_>>, usize, Option<Failure>)> {
        let (mut columns, mut rows, mut error) = (Vec::new(), batch.num_rows(), None);
        for one in &mut self.0 {
            let (array, errors, bad) = one.decode(batch)?;
            if array.len() < rows {
                (rows, error) = (array.len(), None);
            }
            // Keys come first: of a row in which both are bad, the key is what is said.
            if let Some(bad) = bad.filter(|bad| bad.row < rows) {
                rows = bad.row;
                error = Some(Failure::bad_value(placed(&bad, one.part, batch, tp)));
            }
            columns.push(Decoded { part: one.part, array, kind: &one.kind, errors });
        }
        for column in &mut columns {
            column.array = column.array.slice(0, rows);
            column.errors = column.errors.take().map(|errors| errors.slice(0, rows));
        }
        Ok((columns, rows, error))
    }
}

/// What is wrong, and where.
fn placed(bad: &BadValue, part: Part, batch: &RecordBatch, tp: &TopicPartition) -> String {
    let offsets = batch.column_by_name("offset").and_then(|column| column.as_primitive_opt::<Int64Type>());
    let offset = offsets.and_then(|offsets| offsets.values().get(bad.row)).copied().unwrap_or_default();
    let (partition, offset) = (tp.to_string(), format!("offset {offset}"));
    let key = (part == Part::Key).then_some(part.name());
    let places: Vec<&str> = [partition.as_str(), offset.as_str()].into_iter().chain(key).collect();
    bad.described(&places)
}
