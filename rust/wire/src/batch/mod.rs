//! Codec of record batches (format v2, magic 2) and of messages of formats v0 and v1.
//!
//! [`batches`] splits the bytes of one partition into [`Batch`]es of any format, as determined by the magic byte.
//! [`records::walk`] visits the records of a v2 batch in a single pass; [`legacy`] reads messages of the older formats;
//! [`encode::BatchBuilder`] encodes batches.
pub mod control;
pub mod encode;
mod error;
mod fast_path;
pub mod header;
pub mod legacy;
pub mod patch;
pub mod record;
pub mod records;

use bytes::Bytes;

pub use control::{AbortedTransaction, AbortedTransactions, ControlType, EndMarker};
pub use encode::{
    Append, BatchBuilder, BatchOptions, EncodeError, EqualLengthRows, MAX_EQUAL_LENGTH_ROWS, PlainRecord, PlainRows,
};
pub use error::{BatchError, BatchErrorKind, LegacyError};
pub use fast_path::{BLOCK_LEN, Block};
pub use header::{BatchHeader, HEADER_LEN, TimestampType};
pub use legacy::{LegacyBuilder, LegacyDecompressor, LegacyOptions, MessageSet};
pub use record::{Header, Headers, RawRecord};
pub use records::{RecordError, RecordVisitor, walk, walk_blocks};

use header::{LENGTH_END, MAGIC_AT, MIN_LEGACY_LENGTH, MIN_LENGTH, MIN_V1_LENGTH};

/// One complete batch, or one message of format v0 or v1: its header and all of its bytes.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The parsed header.
    pub header: BatchHeader,
    /// Start of the batch in the input of [`batches`].
    pub position: usize,
    bytes: Bytes,
}

impl Batch {
    /// Returns the bytes of the batch, including its header.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the encoded records of a v2 batch, which are compressed if the header has a codec. For batches of the
    /// older formats, use [`legacy`].
    pub fn payload(&self) -> Bytes {
        self.bytes.slice(HEADER_LEN.min(self.bytes.len())..)
    }

    /// Verifies the checksum of the batch against the one in its header.
    pub fn check_crc(&self) -> Result<(), BatchError> {
        let actual = header::compute_crc(&self.bytes);
        if actual == self.header.crc {
            return Ok(());
        }
        Err(self.error(BatchErrorKind::Crc { expected: self.header.crc, actual }))
    }

    /// Creates an error for this batch.
    pub fn error(&self, kind: BatchErrorKind) -> BatchError {
        BatchError { base_offset: self.header.base_offset, position: self.position, kind }
    }
}

/// Iterates over the batches in `data`, the bytes of one partition.
///
/// An incomplete batch at the end is skipped (see [`Batches::truncated_tail`]), because brokers truncate the last batch
/// of a response to keep the size limit. The iterator ends after an error.
pub fn batches(data: Bytes) -> Batches {
    Batches { data, position: 0, truncated_tail: false, done: false }
}

/// Iterator returned by [`batches`].
#[derive(Debug)]
pub struct Batches {
    data: Bytes,
    position: usize,
    truncated_tail: bool,
    done: bool,
}

impl Batches {
    /// Returns the end of the last batch returned so far, as a position in the input.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns true if the bytes end within a batch. The result is only valid once the iterator has ended.
    pub fn truncated_tail(&self) -> bool {
        self.truncated_tail
    }

    /// Continues at `position`, which must be the end of a batch or message that was parsed elsewhere. If the position
    /// is past the end of the data, the next item of the iterator is an error.
    pub fn skip_to(&mut self, position: usize) {
        self.position = position;
    }

    fn read(&mut self) -> Result<Option<Batch>, BatchError> {
        let position = self.position;
        let Some(rest) = self.data.get(position..) else {
            let kind = BatchErrorKind::Beyond { len: self.data.len() };
            return Err(BatchError { base_offset: -1, position, kind });
        };
        let Some(&prefix) = rest.first_chunk::<LENGTH_END>() else {
            self.truncated_tail = !rest.is_empty();
            return Ok(None);
        };
        let (base_offset, length) = header::offset_and_length(&prefix);
        let fail = |kind| Err(BatchError { base_offset, position, kind });
        if length < MIN_LEGACY_LENGTH {
            return fail(BatchErrorKind::Length { length });
        }
        let size = LENGTH_END + length as usize;
        let magic = rest.get(MAGIC_AT).map(|&b| b as i8);
        match magic {
            None => {}
            Some(0..=2) if size > rest.len() => {}
            Some(1) if length < MIN_V1_LENGTH => return fail(BatchErrorKind::Length { length }),
            Some(2) if length < MIN_LENGTH => return fail(BatchErrorKind::Length { length }),
            Some(0..=2) => {
                let bytes = self.data.slice(position..position + size);
                let header = match BatchHeader::parse(&bytes) {
                    Ok(header) => header,
                    Err(kind) => return fail(kind),
                };
                self.position += size;
                return Ok(Some(Batch { header, position, bytes }));
            }
            Some(magic) => return fail(BatchErrorKind::UnknownMagic { magic }),
        }
        self.truncated_tail = true;
        Ok(None)
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let read = self.read();
        self.done = !matches!(read, Ok(Some(_)));
        read.transpose()
    }
}
