//! Encoder of an Arrow column into record values.

use arrow_array::{Array, BinaryArray, new_empty_array};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use samsarrow_wire::ShortBytes;

use crate::avro::Schema;
use crate::avro::encode::{self, Source};
use crate::avro::schema::Kind;
use crate::error::{BadValue, EncodeError, Fault, Reason, SchemaError, Step};
use crate::framing::{self, Framing, SchemaId};
use crate::primitive_serdes::Plain;
use crate::proto;

/// Minimum spare capacity before a value is written, which allows short copies without a function call.
const SLACK: usize = 64;

/// Encodes the rows of a column as record values.
#[derive(Debug)]
pub struct Encoder {
    format: Format,
    /// Frame before each Avro value, padded with zeros to 32 bytes, so that it is copied without a function call.
    prefix: [u8; 32],
    prefix_len: usize,
    /// Maximum size of the data in one array in bytes. Offsets of arrays have 32 bits.
    max_bytes: usize,
}

#[derive(Debug)]
enum Format {
    Plain(Plain),
    /// The schema, and true if the whole value is of type bytes, which Confluent's serializers write without a length.
    Avro(Box<Schema>, bool),
    /// The writer, and the frame before each value. The length of the frame varies, because the frame contains message
    /// indexes.
    Protobuf(Box<proto::Writer>, Vec<u8>),
}

/// Source of the rows to encode.
enum Rows {
    Values(Source),
    Messages(proto::Source),
}

impl Encoder {
    /// Creates an encoder of Avro values. `id` is the schema id for the frames, unless the framing uses the schema's
    /// fingerprint.
    ///
    /// # Errors
    /// Fails if a field has no column, a column has no field or an unsuitable type, or the framing requires an id.
    pub fn avro(
        schema: &Schema,
        data_type: &DataType,
        framing: Framing,
        id: Option<SchemaId>,
    ) -> Result<Encoder, SchemaError> {
        let id = match framing {
            Framing::SingleObject => Some(SchemaId::Fingerprint(schema.fingerprint())),
            _ => id,
        };
        let bytes = framing::prefix(framing, id).map_err(|error| SchemaError::new("", error.to_string()))?;
        let raw = matches!(schema.root.kind, Kind::Bytes) && framing.is_confluents();
        Self::new(Format::Avro(Box::new(schema.clone()), raw), data_type, &bytes)
    }

    /// Creates an encoder of Protobuf messages. `id` is the schema id for the frames.
    ///
    /// # Errors
    /// Fails if a required field has no column, a column has no field or an unsuitable type, or the framing requires an
    /// id.
    pub fn protobuf(
        writer: proto::Writer,
        data_type: &DataType,
        framing: Framing,
        id: Option<SchemaId>,
    ) -> Result<Encoder, SchemaError> {
        let frame = framing::prefix(framing, id);
        let mut frame = frame.map_err(|error| SchemaError::new("", error.to_string()))?;
        frame.extend_from_slice(writer.which(framing)?);
        Self::new(Format::Protobuf(Box::new(writer), frame), data_type, &[])
    }

    /// Creates an encoder for a primitive type of Kafka's serializers.
    ///
    /// # Errors
    /// Fails if the type of the column is not suitable.
    pub fn plain(plain: Plain, data_type: &DataType) -> Result<Encoder, SchemaError> {
        Self::new(Format::Plain(plain), data_type, &[])
    }

    fn new(format: Format, data_type: &DataType, frame: &[u8]) -> Result<Encoder, SchemaError> {
        let mut prefix = [0; 32];
        prefix.iter_mut().zip(frame).for_each(|(to, from)| *to = *from);
        let encoder = Encoder { format, prefix, prefix_len: frame.len(), max_bytes: i32::MAX as usize };
        // Report type mismatches here instead of at the first row.
        encoder.source(&new_empty_array(data_type))?;
        Ok(encoder)
    }

    /// Sets the maximum size of the data in one array, in bytes.
    #[must_use]
    pub fn with_most_bytes(self, max_bytes: usize) -> Encoder {
        Encoder { max_bytes: max_bytes.min(i32::MAX as usize), ..self }
    }

    /// Returns the encoded Protobuf message indexes, which follow the schema id in a frame.
    pub fn indexes(&self) -> &[u8] {
        if let Format::Protobuf(writer, _) = &self.format { writer.indexes() } else { &[] }
    }

    fn source(&self, column: &dyn Array) -> Result<Rows, SchemaError> {
        match &self.format {
            Format::Plain(plain) => plain.source(column).map(Rows::Values),
            Format::Avro(schema, _) => encode::valid(&schema.root, column, &schema.named, "").map(Rows::Values),
            Format::Protobuf(writer, _) => writer.source(column).map(Rows::Messages),
        }
    }

    /// Encodes the rows of a column. Null rows become null values. If the values exceed the maximum size of an array,
    /// several arrays are returned.
    ///
    /// # Errors
    /// Fails if a row cannot be encoded, or if the type of the column differs from `data_type` and does not match the
    /// schema.
    pub fn encode(&self, column: &dyn Array) -> Result<Vec<BinaryArray>, EncodeError> {
        let source = self.source(column)?;
        let nulls = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let mut done = Vec::new();
        let mut values = Values::new(0, column.len());
        for row in 0..column.len() {
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                let start = values.data.len();
                if let Err(fault) = self.write(&source, row, &mut values.data) {
                    return Err(encode_error(row, *fault));
                }
                if values.data.len() > self.max_bytes {
                    let own = values.data.split_off(start);
                    if own.len() > self.max_bytes {
                        return Err(encode_error(row, *Box::<Fault>::from(Reason::Long(self.max_bytes))));
                    }
                    done.push(values.finish(nulls.as_ref())?);
                    values = Values::new(row, column.len() - row);
                    values.data.extend_from_slice(&own);
                }
            }
            values.end();
        }
        done.push(values.finish(nulls.as_ref())?);
        Ok(done)
    }

    #[inline]
    fn write(&self, rows: &Rows, row: usize, out: &mut Vec<u8>) -> Step {
        if out.capacity() - out.len() < SLACK {
            out.reserve(SLACK.max(out.len()));
        }
        match (&self.format, rows) {
            (Format::Plain(plain), Rows::Values(source)) => plain.write(source, row, out),
            (Format::Avro(_, raw), Rows::Values(source)) => {
                let prefix = ShortBytes::of(&self.prefix, 0, self.prefix_len).unwrap_or(ShortBytes::from(&[][..]));
                prefix.append_short::<32>(out);
                if *raw { encode::unprefixed(source, row, out) } else { source.run(row, out) }
            }
            (Format::Protobuf(_, frame), Rows::Messages(source)) => {
                out.extend_from_slice(frame);
                source.run(row, out)
            }
            _ => Err(Reason::Other("the columns are of another format".into()).into()),
        }
    }
}

#[cold]
fn encode_error(row: usize, fault: Fault) -> EncodeError {
    EncodeError::Bad(Box::new(BadValue { row, schema: None, path: fault.path, reason: fault.reason.to_string() }))
}

/// Array under construction.
struct Values {
    /// Index of the array's first row within the column.
    from: usize,
    offsets: Vec<i32>,
    data: Vec<u8>,
}

impl Values {
    fn new(from: usize, rows: usize) -> Values {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Values { from, offsets, data: Vec::new() }
    }

    /// Ends a row. The caller has checked that the offset fits into 32 bits.
    #[inline]
    fn end(&mut self) {
        self.offsets.push(self.data.len() as i32);
    }

    fn finish(self, nulls: Option<&NullBuffer>) -> Result<BinaryArray, SchemaError> {
        let rows = self.offsets.len() - 1;
        let nulls = nulls.map(|nulls| nulls.slice(self.from, rows));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        BinaryArray::try_new(offsets, Buffer::from_vec(self.data), nulls)
            .map_err(|error| SchemaError::new("", error.to_string()))
    }
}
