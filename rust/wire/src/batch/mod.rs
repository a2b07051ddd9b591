//! Record batches, format v2 (magic 2), and the messages of v0 and v1 before them, in both directions.
//!
//! [`batches`] cuts the bytes of one partition into [`Batch`]es, whatever their formats: the magic byte decides.
//! [`records::walk`] visits the records of a v2 batch in a single pass, [`legacy`] reads those of the others;
//! [`encode::BatchBuilder`] goes the other way.
mod block;
pub mod control;
pub mod encode;
mod error;
pub mod header;
pub mod legacy;
pub mod patch;
pub mod record;
pub mod records;

use bytes::Bytes;

pub use block::{BLOCK_LEN, Block};
pub use control::{AbortedTransaction, AbortedTransactions, ControlType, EndMarker};
pub use encode::{Alike, Append, BatchBuilder, BatchOptions, EncodeError, MOST_ALIKE, PlainRecord, PlainRows};
pub use error::{BatchError, BatchErrorKind, LegacyError};
pub use header::{BatchHeader, HEADER_LEN, TimestampType};
pub use legacy::{LegacyBuilder, LegacyDecompressor, LegacyOptions, MessageSet};
pub use record::{Header, Headers, RawRecord};
pub use records::{RecordError, RecordVisitor, walk, walk_blocks};

use header::{LENGTH_END, MAGIC_AT, MIN_LEGACY_LENGTH, MIN_LENGTH, MIN_V1_LENGTH};

/// One complete batch of the wire, or one message of the formats v0 and v1: its header and all of its bytes.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The parsed header.
    pub header: BatchHeader,
    /// Where the batch starts in the bytes given to [`batches`].
    pub position: usize,
    bytes: Bytes,
}

impl Batch {
    /// The whole batch, header included.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The records of a v2 batch as they lie on the wire: compressed if the header says so. Those of the formats before
    /// are for [`legacy`] to find.
    pub fn payload(&self) -> Bytes {
        self.bytes.slice(HEADER_LEN.min(self.bytes.len())..)
    }

    /// Compares the checksum of the batch with the one in its header.
    pub fn check_crc(&self) -> Result<(), BatchError> {
        let actual = header::compute_crc(&self.bytes);
        if actual == self.header.crc {
            return Ok(());
        }
        Err(self.error(BatchErrorKind::Crc { expected: self.header.crc, actual }))
    }

    /// An error that names this batch.
    pub fn error(&self, kind: BatchErrorKind) -> BatchError {
        BatchError { base_offset: self.header.base_offset, position: self.position, kind }
    }
}

/// The batches in `data`, the bytes of one partition.
///
/// An incomplete batch at the end is left out, as a broker cuts a response at its size limit: see
/// [`Batches::truncated_tail`]. After an error the iterator is at its end.
pub fn batches(data: Bytes) -> Batches {
    Batches { data, position: 0, truncated_tail: false, done: false }
}

/// See [`batches`].
#[derive(Debug)]
pub struct Batches {
    data: Bytes,
    position: usize,
    truncated_tail: bool,
    done: bool,
}

impl Batches {
    /// Bytes of the complete batches handed out so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Whether the bytes end within a batch; known once the iterator is at its end.
    pub fn truncated_tail(&self) -> bool {
        self.truncated_tail
    }

    /// Goes on at `position`, the end of a batch or message that was found by other means; past the end of the data is
    /// an error of the next batch.
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
