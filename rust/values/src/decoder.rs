//! Decoder of record values into an Arrow array.

use arrow_array::{ArrayRef, make_array};
use arrow_schema::{ArrowError, DataType};

use crate::arrow_types::{self, Enums};
use crate::avro::Schema;
use crate::avro::plan::shape_growth;
use crate::avro::reader::Reader;
use crate::builders::{Columns, Shape};
use crate::error::{BadValue, Fault, Reason, SchemaError, ValueError};
use crate::framing::{self, Framing, SchemaId};
use crate::headers::Headers;
use crate::json;
use crate::others::Other;
use crate::primitive_serdes::Plain;
use crate::proto;

/// Maximum number of rows in an array, because offsets of its children have 32 bits.
const MAX_ROWS: usize = i32::MAX as usize;

/// Maximum number of bytes that a null row may occupy in the columns. A null in a column of a large fixed is as large
/// as a value, but takes no bytes in the input.
const MAX_NULL: u64 = 16 << 20;

/// Maximum capacity of the buffer for decompressed payloads that is kept for the next value, in bytes.
const MAX_KEPT: usize = 1 << 20;

/// Options for decoding values that have schemas.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Location and format of the schema id.
    pub framing: Framing,
    /// Selects the Arrow type of enums.
    pub enums: Enums,
    /// Paths of the fields to decode; `None` for all fields.
    pub fields: Option<Vec<String>>,
    /// Depth to which recursive types are expanded. Values that are nested deeper are errors.
    pub recursion: usize,
}

/// Decodes values into arrays of one type, which does not depend on the schemas that the values were written with.
#[derive(Debug)]
pub struct Decoder {
    columns: Columns,
    shape: Shape,
    format: Format,
    rows: usize,
    /// Number of bytes that a row without list items occupies in the columns.
    width: u64,
    /// Number of bytes in the columns at which an array is full.
    limit: u64,
    /// Buffer for the frame and the decompressed payload of a value.
    inflated: Vec<u8>,
}

#[derive(Debug)]
enum Format {
    Plain(Plain),
    Avro(Box<Reader>),
    Json(Box<json::reader::Reader>),
    Protobuf(Box<proto::reader::Reader>),
}

impl Decoder {
    /// Creates a decoder of Avro values into rows of `schema`. The same schema is used as the writer's schema for
    /// values without a frame, and for values with its fingerprint.
    ///
    /// # Errors
    /// Fails if the schema has no Arrow type, or if a selected field does not exist.
    pub fn avro(schema: &Schema, options: &Options) -> Result<Decoder, SchemaError> {
        let reader = match &options.fields {
            Some(fields) => schema.project(fields)?,
            None => schema.clone(),
        }
        .unrolled(options.recursion)?;
        let mut columns = Columns::default();
        let shape = arrow_types::shape(&reader.root, options.enums, &mut columns)?;
        check_nulls(&shape)?;
        let mut decoder = Decoder::of(columns, shape, Format::Avro(Box::new(Reader::new(reader, options.framing))));
        decoder.add_writer(SchemaId::Bare, schema);
        decoder.add_writer(SchemaId::Fingerprint(schema.fingerprint()), schema);
        Ok(decoder)
    }

    /// Creates a decoder of JSON values. The option `enums` has no effect.
    ///
    /// # Errors
    /// Fails if the type cannot be read from JSON, or if a selected field does not exist.
    pub fn json(schema: &json::Schema, options: &Options) -> Result<Decoder, SchemaError> {
        let projected;
        let schema = match &options.fields {
            Some(fields) => {
                projected = schema.project(fields)?;
                &projected
            }
            None => schema,
        };
        let mut columns = Columns::default();
        let reader = json::reader::Reader::new(schema, options.framing, &mut columns)?;
        let shape = reader.root.shape.clone();
        check_nulls(&shape)?;
        Ok(Decoder::of(columns, shape, Format::Json(Box::new(reader))))
    }

    /// Creates a decoder of Protobuf values into rows of a message, by default the first message of the file. As long
    /// as no writer's schema is added, all schema ids stand for `schema`. After the first writer's schema is added, or
    /// if `by_id` is true, only ids of added schemas are known.
    ///
    /// # Errors
    /// Fails if the message or a selected field does not exist, or if the message is recursive and `recursion` is 0.
    pub fn protobuf(
        schema: &proto::Schema,
        message: Option<&str>,
        by_id: bool,
        options: &Options,
    ) -> Result<Decoder, SchemaError> {
        let mut columns = Columns::default();
        let (mut reader, shape) = proto::reader::Reader::new(schema, message, options, &mut columns)?;
        if by_id {
            reader.by_id();
        }
        Ok(Decoder::of(columns, shape, Format::Protobuf(Box::new(reader))))
    }

    /// Creates a decoder for a primitive type of Kafka's serializers.
    pub fn plain(plain: Plain) -> Decoder {
        let mut columns = Columns::default();
        let shape = plain.shape(&mut columns);
        Decoder::of(columns, shape, Format::Plain(plain))
    }

    fn of(columns: Columns, shape: Shape, format: Format) -> Decoder {
        let width = shape_growth(&shape);
        Decoder { columns, shape, format, rows: 0, width, limit: u64::MAX, inflated: Vec::new() }
    }

    /// Adds the writer's schema for an id. If it cannot be resolved to the reader's schema, values with this id are
    /// errors. Only affects Avro.
    pub fn add_writer(&mut self, id: SchemaId, schema: &Schema) {
        if let Format::Avro(avro) = &mut self.format {
            avro.add_writer(id, schema, &self.shape);
        }
    }

    /// Adds the writer's schema for an id. Only affects Protobuf.
    pub fn add_protobuf_writer(&mut self, id: SchemaId, schema: &proto::Schema) {
        if let Format::Protobuf(protobuf) = &mut self.format {
            protobuf.add(id, Ok(schema.clone()));
        }
    }

    /// Makes values with this id fail with the given reason.
    pub fn refuse_writer(&mut self, id: SchemaId, reason: &str) {
        let error = SchemaError::new("", reason);
        match &mut self.format {
            Format::Plain(_) | Format::Json(_) => (),
            Format::Avro(avro) => avro.add(id, Err(error)),
            Format::Protobuf(protobuf) => protobuf.add(id, Err(error)),
        }
    }

    /// Returns the reason why no value with this id can be read, if there is one.
    pub fn refusal(&self, id: SchemaId) -> Option<&SchemaError> {
        match &self.format {
            Format::Plain(_) | Format::Json(_) => None,
            Format::Avro(avro) => avro.refusal(id),
            Format::Protobuf(protobuf) => protobuf.refusal(id),
        }
    }

    /// Returns the reason why some values with this id cannot be read, if there is one: for example, a branch or symbol
    /// that is missing in the reader's schema.
    pub fn refusal_of_some(&self, id: SchemaId) -> Option<String> {
        let Format::Avro(avro) = &self.format else { return None };
        avro.refusal_of_some(id)
    }

    /// Returns true if there is a writer's schema for the id.
    pub fn knows(&self, id: SchemaId) -> bool {
        match &self.format {
            Format::Plain(_) | Format::Json(_) => true,
            Format::Avro(avro) => avro.knows(id),
            Format::Protobuf(protobuf) => protobuf.knows(id),
        }
    }

    /// Returns the data type of the arrays.
    pub fn data_type(&self) -> &DataType {
        &self.shape.data_type
    }

    /// Returns the number of rows appended since the last array was built.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Sets the number of bytes in the columns at which an array is full. The bytes of text are not counted, because
    /// the size of the input limits them. An array always accepts one row.
    pub fn set_limit(&mut self, bytes: u64) {
        self.limit = bytes;
    }

    /// Returns the number of bytes that the rows occupy in the columns, without the bytes of text.
    fn grown(&self) -> u64 {
        self.columns.budget.taken().saturating_add(self.width.saturating_mul(self.rows as u64))
    }

    /// Reserves capacity for `rows` more rows. The number may be an estimate.
    pub fn reserve(&mut self, rows: usize) {
        let rows = rows.min(usize::try_from(self.limit / self.width).unwrap_or(usize::MAX).saturating_add(1));
        self.columns.reserve(&self.shape, rows);
    }

    /// Appends a row for a value. `header` is the record header with the schema id. If the value is `None`, the row is
    /// null.
    ///
    /// # Errors
    /// Fails if the value cannot be decoded, and appends a null row. Also fails if the array is full, but then no row
    /// is appended.
    #[inline]
    pub fn push(&mut self, value: Option<&[u8]>, header: Option<&[u8]>) -> Result<(), ValueError> {
        if self.rows >= MAX_ROWS || self.grown() >= self.limit {
            return Err(ValueError::Full);
        }
        let Some(value) = value else {
            self.columns.push_null(&self.shape);
            self.rows += 1;
            return Ok(());
        };
        if framing::is_compressed(self.framing(), value) {
            return self.push_compressed(value, header);
        }
        let done = match &mut self.format {
            Format::Plain(plain) => plain.push(value, &self.shape.slot, &mut self.columns),
            Format::Avro(avro) => avro.push(value, header, &mut self.columns),
            Format::Json(json) => json.push(value, header, &mut self.columns),
            Format::Protobuf(protobuf) => protobuf.push(value, header, &self.shape, self.rows, &mut self.columns),
        };
        match done {
            Ok(()) => {
                self.rows += 1;
                Ok(())
            }
            Err(fault) => Err(self.reject_row(value, header, *fault)),
        }
    }

    /// Appends a row for a value whose payload is compressed.
    #[cold]
    fn push_compressed(&mut self, value: &[u8], header: Option<&[u8]>) -> Result<(), ValueError> {
        let mut inflated = std::mem::take(&mut self.inflated);
        let done = match framing::inflate(value, &mut inflated) {
            Ok(()) => self.push(Some(&inflated), header),
            Err(error) => {
                let reason = Reason::Other(error.to_string().into());
                Err(self.reject_row(value, header, Fault { reason, path: String::new() }))
            }
        };
        inflated.shrink_to(MAX_KEPT);
        self.inflated = inflated;
        done
    }

    fn framing(&self) -> Framing {
        match &self.format {
            Format::Plain(_) => Framing::Bare,
            Format::Avro(avro) => avro.framing,
            Format::Json(json) => json.framing,
            Format::Protobuf(protobuf) => protobuf.framing,
        }
    }

    /// Appends a row like [`Decoder::push`], and takes the header with the schema id from `headers`. If a header of
    /// another registry shows that the value has no Confluent frame, the value is an error.
    ///
    /// # Errors
    /// Fails in the same cases as [`Decoder::push`].
    #[inline]
    pub fn push_row(&mut self, value: Option<&[u8]>, headers: Option<&Headers>, row: usize) -> Result<(), ValueError> {
        let Some(headers) = headers else { return self.push(value, None) };
        let header = headers.of_row(row);
        match value.filter(|_| header.is_none()).and_then(|value| headers.other(row, value)) {
            Some(other) => self.reject(other),
            None => self.push(value, header),
        }
    }

    #[cold]
    fn reject(&mut self, other: Other) -> Result<(), ValueError> {
        if self.rows >= MAX_ROWS || self.grown() >= self.limit {
            return Err(ValueError::Full);
        }
        self.columns.push_null(&self.shape);
        let bad = BadValue { row: self.rows, schema: None, path: String::new(), reason: other.to_string() };
        self.rows += 1;
        Err(ValueError::Bad(Box::new(bad)))
    }

    /// Removes the unfinished row of a value that failed, and returns the error. If the array is not full, appends a
    /// null row instead.
    #[cold]
    fn reject_row(&mut self, value: &[u8], header: Option<&[u8]>, fault: Fault) -> ValueError {
        self.columns.truncate(&self.shape, self.rows);
        self.columns.budget.undo_value();
        if fault.reason == Reason::Full {
            return ValueError::Full;
        }
        self.columns.push_null(&self.shape);
        let schema = match &self.format {
            Format::Plain(_) => None,
            Format::Avro(avro) => framing::split(avro.framing, value, header).ok().map(|(id, _)| id),
            Format::Json(json) => framing::split(json.framing, value, header).ok().map(|(id, _)| id),
            Format::Protobuf(protobuf) => protobuf.id_of(value, header),
        };
        let schema = schema.filter(|id| *id != SchemaId::Bare);
        let bad = BadValue { row: self.rows, schema, path: fault.path, reason: fault.reason.to_string() };
        self.rows += 1;
        ValueError::Bad(Box::new(bad))
    }

    /// Builds the array of all rows since the last call, and resets the decoder.
    ///
    /// # Errors
    /// Fails if a column violates Arrow's invariants, which would be a bug in this crate.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.rows = 0;
        self.columns.budget.reset();
        Ok(make_array(self.columns.finish(&self.shape)?))
    }
}

fn check_nulls(shape: &Shape) -> Result<(), SchemaError> {
    let nulls = shape_growth(shape);
    if nulls <= MAX_NULL {
        return Ok(());
    }
    let text = format!(
        "a row that is null would take {nulls} bytes, and at most {MAX_NULL} may be: read some fields only, without large fixed ones"
    );
    Err(SchemaError::new("", text))
}
