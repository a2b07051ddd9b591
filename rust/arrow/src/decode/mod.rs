//! Record batches into Arrow columns.
mod columns;
mod counts;
mod error;
mod options;
mod payload;
mod room;
mod walker;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use bytes::Bytes;

pub use self::error::{DecodeCause, DecodeError};
pub use self::options::{DecodeOptions, Projection, Window};
use self::walker::Walker;
use crate::layout::Layout;
use crate::layout::binary::BinaryColumn;
use crate::layout::view::ViewColumn;
use crate::pool::Pool;
use crate::topics::Topics;

/// What [`Decoder::append`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Appended {
    /// Rows appended.
    pub rows: usize,
    /// The offset to go on from: past everything that was appended or skipped.
    pub next_offset: i64,
    /// Bytes of the batches that are dealt with. To go on after `row_limit` or `full`, append the rest of the data
    /// from here, with `next_offset` as `from_offset`.
    pub consumed: usize,
    /// The data ends within a batch. With `consumed == 0` the data holds no whole batch: fetch more bytes.
    pub truncated_tail: bool,
    /// Stopped at [`Window::max_rows`] and there is more.
    pub row_limit: bool,
    /// Stopped as the columns can take no more: finish, and append the rest.
    pub full: bool,
    /// Stopped at [`Window::until_offset`].
    pub reached_until: bool,
    /// Header keys that were not UTF-8: their bad bytes became U+FFFD.
    pub replaced_header_keys: usize,
}

/// Decodes the record batches of several partitions into one Arrow batch after the other.
#[derive(Debug)]
pub struct Decoder {
    schema: SchemaRef,
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Binary(Box<Walker<BinaryColumn>>),
    View(Box<Walker<ViewColumn>>),
}

impl Decoder {
    /// A decoder without rows.
    pub fn new(options: DecodeOptions) -> Decoder {
        Self::sharing(options, Topics::default(), Pool::default())
    }

    /// The same with a dictionary of topics and with memory that other decoders share.
    pub fn sharing(options: DecodeOptions, topics: Topics, pool: Pool) -> Decoder {
        let schema = options.schema();
        let inner = match options.layout {
            Layout::Binary => Inner::Binary(Box::new(Walker::new(options, topics, pool))),
            Layout::View => Inner::View(Box::new(Walker::new(options, topics, pool))),
        };
        Decoder { schema, inner }
    }

    /// The schema of all batches of this decoder.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Appends the records of `data`, bytes of one partition of a Fetch response.
    ///
    /// On an error the rows before the bad batch remain, and the decoder stays usable.
    pub fn append(
        &mut self,
        topic: &Arc<str>,
        partition: i32,
        data: Bytes,
        window: Window<'_>,
    ) -> Result<Appended, DecodeError> {
        match &mut self.inner {
            Inner::Binary(walker) => walker.append(Some((topic, partition)), &data, window),
            Inner::View(walker) => walker.append(Some((topic, partition)), &data, window),
        }
    }

    /// As [`Decoder::append`]; topic and partition are null.
    pub(crate) fn append_nameless(&mut self, data: &Bytes, window: Window<'_>) -> Result<Appended, DecodeError> {
        match &mut self.inner {
            Inner::Binary(walker) => walker.append(None, data, window),
            Inner::View(walker) => walker.append(None, data, window),
        }
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        match &self.inner {
            Inner::Binary(walker) => walker.rows(),
            Inner::View(walker) => walker.rows(),
        }
    }

    /// Bytes of decompressed records so far; of records that were not looked at, the least that they can have.
    pub fn bytes(&self) -> usize {
        match &self.inner {
            Inner::Binary(walker) => walker.bytes(),
            Inner::View(walker) => walker.bytes(),
        }
    }

    /// Hands the rows over and starts anew; without rows it is an empty batch of the same schema.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        match &mut self.inner {
            Inner::Binary(walker) => walker.finish(&self.schema),
            Inner::View(walker) => walker.finish(&self.schema),
        }
    }
}

/// Decodes `data`, the bytes of one partition, at once. Topic and partition are null, as the bytes do not name them.
/// An incomplete batch at the end is left out.
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
