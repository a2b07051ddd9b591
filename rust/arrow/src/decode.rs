//! Record batches into Arrow columns.
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use bytes::Bytes;
use samsarrow_wire::batch::{AbortedTransactions, BatchError, BatchErrorKind};
use samsarrow_wire::compression::Limits;

use crate::layout::Layout;
use crate::layout::binary::BinaryColumn;
use crate::layout::view::ViewColumn;
use crate::pool::Pool;
use crate::schema::{SchemaOptions, batch_schema};
use crate::topics::Topics;
use crate::walker::Walker;

/// Which columns are built. One that is not is null in every row: nothing of it is copied. Where the header of a batch says
/// all that is asked for, its records are neither decompressed nor read, nor are their errors found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Projection {
    /// The column `key`.
    pub keys: bool,
    /// The column `value`.
    pub values: bool,
    /// The column `timestamp`.
    pub timestamps: bool,
}

impl Projection {
    /// Nothing that needs a look at records, which is enough to count them.
    pub const NONE: Projection = Projection { keys: false, values: false, timestamps: false };
}

impl Default for Projection {
    fn default() -> Self {
        Projection { keys: true, values: true, timestamps: true }
    }
}

/// How to decode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeOptions {
    /// How keys and values lie in memory.
    pub layout: Layout,
    /// Which of keys, values and timestamps are built.
    pub projection: Projection,
    /// Adds the column `headers`.
    pub include_headers: bool,
    /// Adds the column `leader_epoch`.
    pub include_leader_epoch: bool,
    /// Gives the records of control batches too; [`ControlType::from_key`](samsarrow_wire::batch::ControlType::from_key) reads their keys.
    pub include_control: bool,
    /// Checks the CRC-32C of each batch.
    pub check_crcs: bool,
    /// The most bytes that one batch may decompress to.
    pub max_decompressed_bytes: usize,
    /// The most bytes that one batch may decompress to for each of its compressed bytes, 0 for any number; only
    /// batches that decompress to more than 64 MiB are held to it.
    pub max_decompressed_ratio: usize,
    /// The most bytes of decompressed records per finished batch, after which [`Appended::full`] is set. At most
    /// 2 GiB, what Arrow's offsets can address.
    pub max_bytes: usize,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        DecodeOptions {
            layout: Layout::Binary,
            projection: Projection::default(),
            include_headers: false,
            include_leader_epoch: false,
            include_control: false,
            check_crcs: true,
            max_decompressed_bytes: Limits::MAX_BYTES,
            max_decompressed_ratio: Limits::MAX_RATIO,
            max_bytes: i32::MAX as usize,
        }
    }
}

impl DecodeOptions {
    /// How far one batch may expand: also no further than Arrow's offsets can address.
    pub(crate) fn limits(&self) -> Limits {
        let max_bytes = self.max_decompressed_bytes.min(i32::MAX as usize);
        Limits { max_bytes, max_ratio: self.max_decompressed_ratio, ..Limits::default() }
    }

    /// The schema of what is decoded with these options.
    pub fn schema(&self) -> SchemaRef {
        batch_schema(&SchemaOptions {
            layout: self.layout,
            include_headers: self.include_headers,
            include_leader_epoch: self.include_leader_epoch,
        })
    }
}

/// Which records of the data are wanted.
#[derive(Debug)]
pub struct Window<'a> {
    /// Records before it are dropped: a fetch may begin in the middle of a batch.
    pub from_offset: i64,
    /// Records from it on are left for another time.
    pub until_offset: Option<i64>,
    /// The most rows to append.
    pub max_rows: Option<usize>,
    /// For `read_committed`: what the Fetch response lists for this partition. Keep it with the response when that
    /// is decoded in several steps.
    pub aborted: Option<&'a mut AbortedTransactions>,
}

impl Window<'_> {
    /// Everything from `offset` on.
    pub fn from(offset: i64) -> Window<'static> {
        Window { from_offset: offset, until_offset: None, max_rows: None, aborted: None }
    }
}

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

/// Data that cannot be decoded: where, and why.
#[derive(Debug, thiserror::Error)]
#[error("{}{cause}", self.place())]
pub struct DecodeError {
    /// The topic, if the caller named one.
    pub topic: Option<Arc<str>>,
    /// The partition, -1 if the caller named none.
    pub partition: i32,
    /// The offset at which decoding stopped.
    pub offset: i64,
    /// Why.
    #[source]
    pub cause: DecodeCause,
    /// What was appended before the bad batch, and remains in the decoder.
    pub appended: Appended,
}

impl DecodeError {
    fn place(&self) -> String {
        let Some(topic) = &self.topic else { return String::new() };
        format!("topic {topic}, partition {}, offset {}: ", self.partition, self.offset)
    }
}

/// Why data cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeCause {
    /// A batch is bad.
    #[error(transparent)]
    Batch(Box<BatchError>),
    /// The records of one record batch do not fit into one Arrow batch.
    #[error("a record batch with {bytes} bytes of records is more than one Arrow batch can hold ({limit} bytes)")]
    TooLarge {
        /// Bytes of the records.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The data does not fit into one Arrow batch.
    #[error(
        "the records come to more than the {limit} bytes that one Arrow batch can hold, {consumed} bytes of the data are \
         as many as fit; decode these, then those behind them"
    )]
    Full {
        /// Bytes of the data that hold what fits.
        consumed: usize,
        /// The most bytes of records.
        limit: usize,
    },
    /// Arrow refuses the columns.
    #[error("Arrow: {0}")]
    Arrow(#[from] ArrowError),
}

impl DecodeCause {
    /// Whether the data is bad, and not merely more than fits.
    pub fn is_corrupt(&self) -> bool {
        matches!(self, DecodeCause::Batch(_))
    }
}

impl DecodeError {
    /// The consumer's option that allows more, where a batch was to expand beyond a limit.
    pub fn option(&self) -> Option<&'static str> {
        match &self.cause {
            DecodeCause::Batch(error) => match &error.kind {
                BatchErrorKind::Decompress(error) => error.option(),
                _ => None,
            },
            _ => None,
        }
    }
}

impl From<BatchError> for DecodeCause {
    fn from(error: BatchError) -> Self {
        DecodeCause::Batch(Box::new(error))
    }
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
