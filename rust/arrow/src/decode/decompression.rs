//! Decompression of batches. Each batch is decompressed only once, even if it is decoded in several steps.
use bytes::Bytes;
use samsarrow_wire::batch::{Batch, BatchError, BatchErrorKind, HEADER_LEN, LegacyDecompressor};
use samsarrow_wire::compression::{Codec, Decompressor, Limits};

use crate::layout::trimmed;

/// Maximum capacity of a scratch buffer that is kept for reuse.
const MAX_KEPT_SCRATCH: usize = 8 * 1024 * 1024;
/// Maximum size of decompressed records that are kept for the next call. The limit avoids waste, because the caller may
/// never request the rest.
const MAX_KEPT_RECORDS: usize = 64 * 1024 * 1024;

/// Decompressors, their scratch buffer, and the kept records.
#[derive(Debug)]
pub(super) struct BatchDecompressor {
    limits: Limits,
    decompressor: Decompressor,
    legacy_decompressor: LegacyDecompressor,
    scratch: Vec<u8>,
    pub(super) kept: Option<KeptRecords>,
    #[cfg(test)]
    pub(super) decompressions: usize,
}

/// The decompressed records of a batch that was not consumed completely, for the next call with the same bytes.
#[derive(Debug)]
pub(super) struct KeptRecords {
    /// The bytes of the batch. They are held so that no other batch can have the same address.
    batch: Bytes,
    records: Bytes,
}

impl KeptRecords {
    fn is_of(&self, batch: &Batch) -> bool {
        let bytes = batch.bytes();
        self.batch.as_ptr() == bytes.as_ptr() && self.batch.len() == bytes.len()
    }
}

impl BatchDecompressor {
    pub(super) fn new(limits: Limits) -> Self {
        BatchDecompressor {
            limits,
            decompressor: Decompressor::new(),
            legacy_decompressor: LegacyDecompressor::new(),
            scratch: Vec::new(),
            kept: None,
            #[cfg(test)]
            decompressions: 0,
        }
    }

    /// Returns the codec of the records.
    pub(super) fn codec(batch: &Batch) -> Result<Codec, BatchError> {
        if batch.header.magic == 2 && batch.bytes().len() == HEADER_LEN {
            return Ok(Codec::None); // compaction left no records to compress
        }
        let id = batch.header.codec_id();
        Codec::from_attributes(id).map_err(|_| batch.error(BatchErrorKind::Codec { id }))
    }

    /// Returns true if the decompressed records of the batch are kept.
    pub(super) fn has(&self, batch: &Batch) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.is_of(batch))
    }

    /// Returns the kept records if they belong to this batch, and drops them otherwise.
    pub(super) fn take(&mut self, batch: &Batch) -> Option<Bytes> {
        self.kept.take().filter(|kept| kept.is_of(batch)).map(|kept| kept.records)
    }

    /// Keeps the records of a batch that was not consumed completely.
    pub(super) fn keep(&mut self, batch: &Batch, records: Bytes) {
        if records.len() <= MAX_KEPT_RECORDS {
            self.kept = Some(KeptRecords { batch: batch.bytes().clone(), records });
        }
    }

    /// Decompresses the records into the scratch buffer. The caller returns it with [`put_back`](Self::put_back).
    pub(super) fn open(&mut self, batch: &Batch, codec: Codec) -> Result<Vec<u8>, BatchError> {
        let mut out = std::mem::take(&mut self.scratch);
        self.decompress(batch, codec, &mut out)?;
        Ok(out)
    }

    /// Takes the scratch buffer back for reuse.
    pub(super) fn put_back(&mut self, records: Vec<u8>) {
        if records.capacity() <= MAX_KEPT_SCRATCH {
            self.scratch = records;
        }
    }

    /// Returns the records in a buffer of their own, not in the scratch buffer.
    pub(super) fn own(&mut self, batch: &Batch) -> Result<Bytes, BatchError> {
        let mut out = Vec::new();
        Ok(match Self::codec(batch)? {
            Codec::None => batch.payload(),
            codec => {
                self.decompress(batch, codec, &mut out)?;
                // Trim the buffer, because a codec that does not know the decompressed size reserves too much capacity.
                Bytes::from(trimmed(out))
            }
        })
    }

    fn decompress(&mut self, batch: &Batch, codec: Codec, out: &mut Vec<u8>) -> Result<(), BatchError> {
        #[cfg(test)]
        {
            self.decompressions += 1;
        }
        out.clear();
        if batch.header.is_wrapper() {
            return self.legacy_decompressor.decompress(batch, out, self.limits);
        }
        self.decompressor
            .decompress(codec, batch.records(), out, self.limits)
            .map_err(|e| batch.error(BatchErrorKind::Decompress(e)))
    }
}
