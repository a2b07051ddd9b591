//! Decoder of record batches to Arrow columns.
mod batch_decoder;
mod columns;
mod decompression;
mod error;
mod header_only;
mod options;
mod reserve;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use bytes::Bytes;

use self::batch_decoder::BatchDecoder;
pub use self::error::{DecodeCause, DecodeError};
pub use self::options::{DecodeOptions, Projection, Window};
use crate::layout::Layout;
use crate::layout::binary::BinaryColumn;
use crate::layout::view::ViewColumn;
use crate::pool::Pool;
use crate::topics::Topics;

/// Result of [`Decoder::append`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Appended {
    /// Rows appended.
    pub rows: usize,
    /// The offset to continue from. It follows all records that were appended or skipped.
    pub next_offset: i64,
    /// Number of bytes of the batches that were decoded completely. To continue after `row_limit` or `full`, append the
    /// rest of the data from this position, with `next_offset` as `from_offset`.
    pub consumed: usize,
    /// True if the data ends within a batch. If `consumed` is 0 as well, the data contains no complete batch, and more
    /// bytes must be fetched.
    pub truncated_tail: bool,
    /// True if [`Window::max_rows`] was reached and more records follow.
    pub row_limit: bool,
    /// True if the columns are full. Call [`Decoder::finish`], then append the rest of the data.
    pub full: bool,
    /// True if [`Window::until_offset`] was reached.
    pub reached_until: bool,
    /// Number of header keys that were not valid UTF-8. Their invalid bytes were replaced by U+FFFD.
    pub replaced_header_keys: usize,
}

/// Decodes record batches of several partitions into a sequence of Arrow batches.
#[derive(Debug)]
pub struct Decoder {
    schema: SchemaRef,
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Binary(Box<BatchDecoder<BinaryColumn>>),
    View(Box<BatchDecoder<ViewColumn>>),
}

impl Decoder {
    /// Creates an empty decoder.
    pub fn new(options: DecodeOptions) -> Decoder {
        Self::sharing(options, Topics::default(), Pool::default())
    }

    /// Creates a decoder that shares a dictionary of topics and a memory pool with other decoders.
    pub fn sharing(options: DecodeOptions, topics: Topics, pool: Pool) -> Decoder {
        let schema = options.schema();
        let inner = match options.layout {
            Layout::Binary => Inner::Binary(Box::new(BatchDecoder::new(options, topics, pool))),
            Layout::View => Inner::View(Box::new(BatchDecoder::new(options, topics, pool))),
        };
        Decoder { schema, inner }
    }

    /// Returns the schema of all batches of this decoder.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Appends the records in `window` from `data`, the bytes of one partition. After an error, the rows before the
    /// invalid batch remain in the decoder, which can still be used.
    pub fn append(
        &mut self,
        topic: &Arc<str>,
        partition: i32,
        data: Bytes,
        window: Window<'_>,
    ) -> Result<Appended, DecodeError> {
        match &mut self.inner {
            Inner::Binary(decoder) => decoder.append(Some((topic, partition)), &data, window),
            Inner::View(decoder) => decoder.append(Some((topic, partition)), &data, window),
        }
    }

    /// Like [`Decoder::append`], but topic and partition of the rows are null.
    pub(crate) fn append_nameless(&mut self, data: &Bytes, window: Window<'_>) -> Result<Appended, DecodeError> {
        match &mut self.inner {
            Inner::Binary(decoder) => decoder.append(None, data, window),
            Inner::View(decoder) => decoder.append(None, data, window),
        }
    }

    /// Returns the number of rows appended since the last `finish`.
    pub fn rows(&self) -> usize {
        match &self.inner {
            Inner::Binary(decoder) => decoder.rows(),
            Inner::View(decoder) => decoder.rows(),
        }
    }

    /// Returns the size of the decompressed records appended since the last `finish`. If records were not parsed, their
    /// minimum size counts.
    pub fn bytes(&self) -> usize {
        match &self.inner {
            Inner::Binary(decoder) => decoder.bytes(),
            Inner::View(decoder) => decoder.bytes(),
        }
    }

    /// Returns the rows as a batch and resets the decoder. If there are no rows, the batch is empty.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        match &mut self.inner {
            Inner::Binary(decoder) => decoder.finish(&self.schema),
            Inner::View(decoder) => decoder.finish(&self.schema),
        }
    }
}

/// Decodes `data`, the bytes of one partition, in one call. Topic and partition are null, because the bytes do not
/// contain them. An incomplete batch at the end is skipped.
pub fn decode_batches(data: Bytes, options: DecodeOptions) -> Result<RecordBatch, DecodeError> {
    let limit = options.max_bytes;
    let mut decoder = Decoder::new(options);
    let appended = decoder.append_nameless(&data, Window::from(i64::MIN))?;
    let fail = |cause| DecodeError { topic: None, partition: -1, offset: appended.next_offset, cause, appended };
    if appended.full {
        return Err(fail(DecodeCause::Full { consumed: appended.consumed, limit }));
    }
    decoder.finish().map_err(|e| fail(e.into()))
}
