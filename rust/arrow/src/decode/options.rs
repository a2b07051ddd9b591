//! What is decoded, and how.
use arrow_schema::SchemaRef;
use samsarrow_wire::batch::AbortedTransactions;
use samsarrow_wire::compression::Limits;

use crate::layout::Layout;
use crate::schema::{SchemaOptions, batch_schema};

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
