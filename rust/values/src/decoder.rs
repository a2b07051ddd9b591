//! Values, one after the other, into an Arrow array.

use arrow_array::{ArrayRef, make_array};
use arrow_schema::{ArrowError, DataType};

use crate::avro::Schema;
use crate::avro::plan::shape_growth;
use crate::avro::reader::Reader;
use crate::builders::{Columns, Shape};
use crate::error::{BadValue, Fault, Reason, SchemaError, ValueError};
use crate::frame::{self, Framing, SchemaId};
use crate::headers::Headers;
use crate::json;
use crate::others::Other;
use crate::plain::Plain;
use crate::proto;
use crate::target::{self, Enums};

/// The most rows of an array whose children have offsets of 32 bits.
const MAX_ROWS: usize = i32::MAX as usize;

/// Bytes of columns that a row takes if it is null: of a fixed, null is as large as a value, and takes none to write.
const MAX_NULL: u64 = 16 << 20;

/// How values with schemas are read.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where the id of the writer's schema is.
    pub framing: Framing,
    /// What enums become.
    pub enums: Enums,
    /// These fields only; none is all.
    pub fields: Option<Vec<String>>,
    /// How often a type that contains itself is followed; values that are deeper are bad.
    pub recursion: usize,
}

/// Makes an array of values. Its type stays the same, whatever schemas they were written with.
#[derive(Debug)]
pub struct Decoder {
    columns: Columns,
    shape: Shape,
    format: Format,
    rows: usize,
    /// Bytes of columns that a row takes without items.
    width: u64,
    /// Bytes of columns after which an array takes no more rows.
    limit: u64,
}

#[derive(Debug)]
enum Format {
    Plain(Plain),
    Avro(Box<Reader>),
    Json(Box<json::reader::Reader>),
    Protobuf(Box<proto::reader::Reader>),
}

impl Decoder {
    /// For Avro values as rows of this schema. It is also the one that values without frames are written with, and
    /// those that name it by its fingerprint.
    ///
    /// # Errors
    /// The schema has no Arrow type, or no such field.
    pub fn avro(schema: &Schema, options: &Options) -> Result<Decoder, SchemaError> {
        let reader = match &options.fields {
            Some(fields) => schema.project(fields)?,
            None => schema.clone(),
        }
        .unrolled(options.recursion)?;
        let mut columns = Columns::default();
        let shape = target::shape(&reader.root, options.enums, &mut columns)?;
        check_nulls(&shape)?;
        let mut decoder = Decoder::of(columns, shape, Format::Avro(Box::new(Reader::new(reader, options.framing))));
        decoder.add_writer(SchemaId::Bare, schema);
        decoder.add_writer(SchemaId::Fingerprint(schema.fingerprint()), schema);
        Ok(decoder)
    }

    /// For JSON values as rows of this type. Of the options the one about enums is Avro's.
    ///
    /// # Errors
    /// The type is none that JSON is read as, or has no such field.
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

    /// For Protobuf values as rows of this message, or of the file's first. Ids in frames stand for this schema, unless
    /// something is said of them; with `by_id` for what is said of them alone.
    ///
    /// # Errors
    /// There is no such message or field, or it contains itself.
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

    /// For values of one of Kafka's own types.
    pub fn plain(plain: Plain) -> Decoder {
        let mut columns = Columns::default();
        let shape = plain.shape(&mut columns);
        Decoder::of(columns, shape, Format::Plain(plain))
    }

    fn of(columns: Columns, shape: Shape, format: Format) -> Decoder {
        let width = shape_growth(&shape);
        Decoder { columns, shape, format, rows: 0, width, limit: u64::MAX }
    }

    /// Says what values of this id are written with. Where that cannot be read as the reader's schema, they are bad. Values
    /// of Kafka's own types have no schema.
    pub fn add_writer(&mut self, id: SchemaId, schema: &Schema) {
        if let Format::Avro(avro) = &mut self.format {
            avro.add_writer(id, schema, &self.shape);
        }
    }

    /// The same of Protobuf values.
    pub fn add_protobuf_writer(&mut self, id: SchemaId, schema: &proto::Schema) {
        if let Format::Protobuf(protobuf) = &mut self.format {
            protobuf.add(id, Ok(schema.clone()));
        }
    }

    /// Says why values of this id cannot be read.
    pub fn refuse_writer(&mut self, id: SchemaId, reason: &str) {
        let error = SchemaError::new("", reason);
        match &mut self.format {
            Format::Plain(_) | Format::Json(_) => (),
            Format::Avro(avro) => avro.add(id, Err(error)),
            Format::Protobuf(protobuf) => protobuf.add(id, Err(error)),
        }
    }

    /// Why no value of this id can be read, if that is known.
    pub fn refusal(&self, id: SchemaId) -> Option<&SchemaError> {
        match &self.format {
            Format::Plain(_) | Format::Json(_) => None,
            Format::Avro(avro) => avro.refusal(id),
            Format::Protobuf(protobuf) => protobuf.refusal(id),
        }
    }

    /// Why some values of this id cannot be read, as of a branch or a symbol that the reader has no place for. Others can.
    pub fn refusal_of_some(&self, id: SchemaId) -> Option<String> {
        let Format::Avro(avro) = &self.format else { return None };
        avro.refusal_of_some(id)
    }

    /// Whether values of this id can be pushed.
    pub fn knows(&self, id: SchemaId) -> bool {
        match &self.format {
            Format::Plain(_) | Format::Json(_) => true,
            Format::Avro(avro) => avro.knows(id),
            Format::Protobuf(protobuf) => protobuf.knows(id),
        }
    }

    /// The type of the array.
    pub fn data_type(&self) -> &DataType {
        &self.shape.data_type
    }

    /// Rows since the last array.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// An array whose columns take this many bytes is full, without those of text, which were in the values. It has one
    /// row at least.
    pub fn set_limit(&mut self, bytes: u64) {
        self.limit = bytes;
    }

    /// What columns take, without those of text.
    fn grown(&self) -> u64 {
        self.columns.budget.taken().saturating_add(self.width.saturating_mul(self.rows as u64))
    }

    /// Makes room for rows to come; a hint.
    pub fn reserve(&mut self, rows: usize) {
        let rows = rows.min(usize::try_from(self.limit / self.width).unwrap_or(usize::MAX).saturating_add(1));
        self.columns.reserve(&self.shape, rows);
    }

    /// Appends a row: of this value, of the record's header that names its schema, or null for null.
    ///
    /// # Errors
    /// The value is bad, and its row null; or the array is full, and has no row for it.
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
            Err(fault) => Err(self.give_up(value, header, *fault)),
        }
    }

    /// Appends a row as [`Decoder::push`] does, with the header that names its schema, or as bad if another registry's
    /// header does.
    ///
    /// # Errors
    /// As [`Decoder::push`].
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

    /// Takes back what there is of a row.
    #[cold]
    fn give_up(&mut self, value: &[u8], header: Option<&[u8]>, fault: Fault) -> ValueError {
        self.columns.truncate(&self.shape, self.rows);
        self.columns.budget.give_back();
        if fault.reason == Reason::Full {
            return ValueError::Full;
        }
        self.columns.push_null(&self.shape);
        let schema = match &self.format {
            Format::Plain(_) => None,
            Format::Avro(avro) => frame::split(avro.framing, value, header).ok().map(|(id, _)| id),
            Format::Json(json) => frame::split(json.framing, value, header).ok().map(|(id, _)| id),
            Format::Protobuf(protobuf) => protobuf.id_of(value, header),
        };
        let schema = schema.filter(|id| *id != SchemaId::Bare);
        let bad = BadValue { row: self.rows, schema, path: fault.path, reason: fault.reason.to_string() };
        self.rows += 1;
        ValueError::Bad(Box::new(bad))
    }

    /// The array of all rows since the last one.
    ///
    /// # Errors
    /// A column does not hold what Arrow wants of it, which would be a mistake of this crate.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.rows = 0;
        self.columns.budget.give_back_all();
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
