//! Options of the decoder.
use arrow_schema::SchemaRef;
use samsarrow_wire::batch::AbortedTransactions;
use samsarrow_wire::compression::Limits;

use crate::layout::Layout;
use crate::schema::{SchemaOptions, batch_schema};

/// Columns to build. The other columns are null in all rows, and no bytes are copied for them. If the header of a batch
/// determines all requested columns, its records are neither decompressed nor parsed, and errors in them are not
/// detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Projection {
    pub keys: bool,
    pub values: bool,
    pub timestamps: bool,
}

impl Projection {
    /// Selects only columns that do not require the records, which is enough to count them.
    pub const NONE: Projection = Projection { keys: false, values: false, timestamps: false };
}

impl Default for Projection {
    fn default() -> Self {
        Projection { keys: true, values: true, timestamps: true }
    }
}

/// Options of a [`Decoder`](crate::Decoder).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Memory layout of keys and values.
    pub layout: Layout,
    /// Selects which of the columns `key`, `value` and `timestamp` are built.
    pub projection: Projection,
    /// Adds the column `headers`.
    pub include_headers: bool,
    /// Adds the column `leader_epoch`.
    pub include_leader_epoch: bool,
    /// Includes the records of control batches, whose keys
    /// [`ControlType::from_key`](samsarrow_wire::batch::ControlType::from_key) decodes.
    pub include_control: bool,
    /// Verifies the checksum of each batch.
    pub check_crcs: bool,
    /// Maximum decompressed size of one batch in bytes.
    pub max_decompressed_bytes: usize,
    /// Maximum number of decompressed bytes per compressed byte of a batch; 0 for no limit. Only applies to batches
    /// that decompress to more than 64 MiB.
    pub max_decompressed_ratio: usize,
    /// Maximum size of the decompressed records in an Arrow batch, after which [`Appended::full`] is set. At most 2
    /// GiB, the range of Arrow's offsets.
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
    /// Returns the limits for decompressing one batch. They never exceed the range of Arrow's offsets.
    pub(crate) fn limits(&self) -> Limits {
        let max_bytes = self.max_decompressed_bytes.min(i32::MAX as usize);
        Limits { max_bytes, max_ratio: self.max_decompressed_ratio, ..Limits::default() }
    }

    /// Returns the schema of batches decoded with these options.
    pub fn schema(&self) -> SchemaRef {
        batch_schema(&SchemaOptions {
            layout: self.layout,
            include_headers: self.include_headers,
            include_leader_epoch: self.include_leader_epoch,
        })
    }
}

/// Range of records to append.
#[derive(Debug)]
pub struct Window<'a> {
    /// Records before this offset are skipped, because a fetch may return the whole batch that contains the fetch
    /// offset.
    pub from_offset: i64,
    /// Records from this offset on are not appended.
    pub until_offset: Option<i64>,
    /// Maximum number of rows to append.
    pub max_rows: Option<usize>,
    /// Aborted transactions of this partition from the Fetch response, for `read_committed`. If a response is decoded
    /// in several steps, use the same filter for all of them.
    pub aborted: Option<&'a mut AbortedTransactions>,
}

impl Window<'_> {
    /// Returns a window of all records from `offset` on.
    pub fn from(offset: i64) -> Window<'static> {
        Window { from_offset: offset, until_offset: None, max_rows: None, aborted: None }
    }
}
