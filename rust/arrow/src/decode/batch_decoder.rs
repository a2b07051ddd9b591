//! Decoding of a partition's batches into columns.
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, SchemaRef};
use bytes::Bytes;
use samsarrow_wire::batch::{
    AbortedTransactions, Batch, BatchError, BatchErrorKind, ControlType, HEADER_LEN, MessageSet, RawRecord,
    RecordVisitor, batches, record::MIN_RECORD_LEN, walk,
};
use samsarrow_wire::compression::Codec;

use super::columns::{BatchColumns, Cut, Records, TopicPartition};
use super::decompression::BatchDecompressor;
use super::{Appended, DecodeCause, DecodeError, DecodeOptions, Window};
use crate::layout::{Layout, Origin, ValueColumn};
use crate::pool::Pool;
use crate::topics::Topics;

/// Decoder for one memory layout of keys and values; [`Decoder`](crate::Decoder) selects the layout.
#[derive(Debug)]
pub(crate) struct BatchDecoder<C> {
    pub(super) options: DecodeOptions,
    pub(super) columns: BatchColumns<C>,
    pub(super) bytes: usize,
    decompressor: BatchDecompressor,
}

/// Maximum size of messages decoded in one run. Messages are read twice, so a run must fit into the CPU cache.
const MAX_RUN: usize = 64 * 1024;

impl<C: ValueColumn> BatchDecoder<C> {
    pub(crate) fn new(options: DecodeOptions, topics: Topics, pool: Pool) -> Self {
        let columns = BatchColumns::new(&options, topics, pool);
        BatchDecoder { decompressor: BatchDecompressor::new(options.limits()), options, columns, bytes: 0 }
    }

    pub(crate) fn rows(&self) -> usize {
        self.columns.rows()
    }

    /// Returns the size of the decompressed records appended since the last `finish`.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn append(
        &mut self,
        name: Option<(&Arc<str>, i32)>,
        data: &Bytes,
        window: Window<'_>,
    ) -> Result<Appended, DecodeError> {
        let mut appended = Appended { next_offset: window.from_offset, ..Appended::default() };
        let topic_partition =
            name.map(|(topic, partition)| TopicPartition { topic: self.columns.topic(topic), partition });
        let replaced_before = self.columns.replaced_header_keys();
        let result = self.append_batches(topic_partition, data, window, &mut appended);
        appended.replaced_header_keys = self.columns.replaced_header_keys() - replaced_before;
        match result {
            Ok(()) => Ok(appended),
            Err(cause) => Err(DecodeError {
                topic: name.map(|(topic, _)| Arc::clone(topic)),
                partition: name.map_or(-1, |(_, partition)| partition),
                offset: appended.next_offset,
                cause,
                appended,
            }),
        }
    }

    fn append_batches(
        &mut self,
        topic_partition: Option<TopicPartition>,
        data: &Bytes,
        mut window: Window<'_>,
        appended: &mut Appended,
    ) -> Result<(), DecodeCause> {
        self.reserve(data, &window);
        let until_offset = window.until_offset.unwrap_or(i64::MAX);
        let max_rows = window.max_rows.unwrap_or(usize::MAX);
        let mut fetched = FetchedBuffer::default();
        let mut iter = batches(data.clone());
        while let Some(batch) = iter.next() {
            let batch = batch?;
            let header = &batch.header;
            // If a wrapper's offset is 0 or negative, its last offset is unknown (see `MessageSet`).
            let wrapper = header.is_wrapper();
            if header.next_offset() <= window.from_offset && !(wrapper && header.base_offset <= 0) {
                appended.consumed = iter.position();
                continue;
            }
            // The base offset of a wrapper is unknown, too, so the wrapper may contain earlier offsets.
            if header.base_offset >= until_offset && !wrapper {
                appended.reached_until = true;
                return Ok(());
            }
            if appended.rows >= max_rows {
                appended.row_limit = true;
                return Ok(());
            }
            // If the decompressed records are kept, the checksum was verified before.
            if self.options.check_crcs && !self.decompressor.has(&batch) {
                batch.check_crc()?;
            }
            if !self.is_returned(&batch, window.aborted.as_deref_mut())? {
                appended.consumed = iter.position();
                appended.next_offset = appended.next_offset.max(header.next_offset().min(until_offset));
                continue;
            }
            let cut =
                Cut { from_offset: window.from_offset, until_offset, max_rows: max_rows.saturating_sub(appended.rows) };
            let rows_before = self.columns.rows();
            let Done { next_offset, end, stopped } =
                self.append_batch(&batch, topic_partition, cut, data, &mut fetched)?;
            appended.rows += self.columns.rows() - rows_before;
            match stopped {
                Some(Stop::Full) => {
                    appended.full = true;
                    return Ok(());
                }
                Some(Stop::RowLimit { next_offset }) => {
                    appended.row_limit = true;
                    // If offsets do not ascend, the next record may have a smaller offset than the last row, and
                    // continuing from that offset would return the same rows forever.
                    let last_row = self.columns.last_offset().filter(|_| self.columns.rows() > rows_before);
                    let after_last_row = last_row.map_or(next_offset, |last| last.saturating_add(1));
                    appended.next_offset = appended.next_offset.max(next_offset).max(after_last_row);
                    return Ok(());
                }
                None => {}
            }
            appended.next_offset = appended.next_offset.max(next_offset.min(until_offset));
            if next_offset > until_offset {
                appended.reached_until = true;
                return Ok(());
            }
            iter.skip_to(end);
            appended.consumed = end;
        }
        appended.truncated_tail = iter.truncated_tail();
        Ok(())
    }

    /// Returns true if the caller gets the records of the batch. Also updates the filter of aborted transactions.
    fn is_returned(&mut self, batch: &Batch, aborted: Option<&mut AbortedTransactions>) -> Result<bool, BatchError> {
        let header = &batch.header;
        if header.is_control() {
            if let Some(aborted) = aborted
                && self.control_type(batch)? == Some(ControlType::Abort)
            {
                aborted.end(header.producer_id, header.last_offset());
            }
            return Ok(self.options.include_control);
        }
        let is_aborted = header.is_transactional()
            && aborted.is_some_and(|aborted| aborted.is_aborted(header.producer_id, header.last_offset()));
        Ok(!is_aborted)
    }

    fn control_type(&mut self, batch: &Batch) -> Result<Option<ControlType>, BatchError> {
        struct FirstKey(Option<ControlType>);
        impl RecordVisitor for FirstKey {
            fn record(&mut self, data: &[u8], record: &RawRecord) -> std::ops::ControlFlow<()> {
                self.0 = record.key(data).and_then(ControlType::from_key);
                std::ops::ControlFlow::Break(())
            }
        }
        let records = self.decompressor.own(batch)?;
        let mut first = FirstKey(None);
        walk(&records, batch.header.record_count, &mut first).map_err(|e| batch.error(e.into()))?;
        Ok(first.0)
    }

    fn append_batch(
        &mut self,
        batch: &Batch,
        topic_partition: Option<TopicPartition>,
        cut: Cut,
        data: &Bytes,
        fetched: &mut FetchedBuffer,
    ) -> Result<Done, DecodeCause> {
        let kept = self.decompressor.take(batch);
        let codec = BatchDecompressor::codec(batch)?;
        if self.is_header_only(batch, codec) {
            return self.append_header_only(batch, topic_partition, cut, data);
        }
        if codec == Codec::None {
            if batch.header.magic < 2 {
                return self.append_run(batch, topic_partition, cut, data, fetched);
            }
            let records = batch.records();
            if !self.fits(records.len())? {
                return Ok(Done::full());
            }
            let origin = match C::LAYOUT {
                Layout::Binary => Origin::default(),
                Layout::View => fetched.origin(
                    &mut self.columns,
                    data,
                    batch.position + HEADER_LEN..batch.position + batch.bytes().len(),
                ),
            };
            return self.append_records(batch, records, origin, topic_partition, cut);
        }
        if let Some(records) = kept {
            return self.append_shared(batch, records, topic_partition, cut, data);
        }
        if self.cannot_fit(batch) {
            return Ok(Done::full());
        }
        if C::LAYOUT == Layout::View {
            // Views keep their buffer alive, so the scratch buffer cannot be used for them.
            let records = self.decompressor.own(batch)?;
            return self.append_shared(batch, records, topic_partition, cut, data);
        }
        let records = self.decompressor.open(batch, codec)?;
        let done = match self.fits(records.len())? {
            true => {
                self.reserve_decompressed(batch, records.len(), data, cut.max_rows);
                self.append_records(batch, &records, Origin::default(), topic_partition, cut)?
            }
            false => Done::full(),
        };
        match done.stopped.is_some() || done.next_offset > cut.until_offset {
            true => self.decompressor.keep(batch, Bytes::from(records)),
            false => self.decompressor.put_back(records),
        }
        Ok(done)
    }

    /// Appends decompressed records, and keeps them for the next call if some were not appended.
    fn append_shared(
        &mut self,
        batch: &Batch,
        records: Bytes,
        topic_partition: Option<TopicPartition>,
        cut: Cut,
        data: &Bytes,
    ) -> Result<Done, DecodeCause> {
        let done = if self.fits(records.len())? {
            self.reserve_decompressed(batch, records.len(), data, cut.max_rows);
            let origin = match C::LAYOUT {
                Layout::Binary => Origin::default(),
                Layout::View => Origin { buffer: self.columns.add_buffer(Buffer::from(records.clone())), start: 0 },
            };
            self.append_records(batch, &records, origin, topic_partition, cut)?
        } else {
            Done::full()
        };
        if done.stopped.is_some() || done.next_offset > cut.until_offset {
            self.decompressor.keep(batch, records);
        }
        Ok(done)
    }

    /// Appends an uncompressed message together with the messages after it that have the same format.
    fn append_run(
        &mut self,
        batch: &Batch,
        topic_partition: Option<TopicPartition>,
        cut: Cut,
        data: &Bytes,
        fetched: &mut FetchedBuffer,
    ) -> Result<Done, DecodeCause> {
        let max_bytes = MAX_RUN.min(self.options.max_bytes.saturating_sub(self.bytes));
        let (set, end) = MessageSet::read_run(batch, data, max_bytes, cut.max_rows, self.options.check_crcs)?;
        let beyond = || batch.error(BatchErrorKind::Beyond { len: data.len() });
        let records = data.get(batch.position..end).ok_or_else(beyond)?;
        if !self.fits(records.len())? {
            return Ok(Done::full());
        }
        let origin = match C::LAYOUT {
            Layout::Binary => Origin::default(),
            Layout::View => fetched.origin(&mut self.columns, data, batch.position..end),
        };
        let appended = self.columns.append(records, origin, Records::Messages(&set), topic_partition, cut);
        let stopped = appended.map_err(|e| batch.error(e.into()))?.map(|next_offset| Stop::RowLimit { next_offset });
        self.bytes += records.len();
        Ok(Done { next_offset: set.header.next_offset(), end, stopped })
    }

    fn append_records(
        &mut self,
        batch: &Batch,
        records: &[u8],
        origin: Origin,
        topic_partition: Option<TopicPartition>,
        cut: Cut,
    ) -> Result<Done, DecodeCause> {
        let (appended, next_offset) = if batch.header.magic < 2 {
            let set = MessageSet::read(batch, records, self.options.check_crcs)?;
            let appended = self.columns.append(records, origin, Records::Messages(&set), topic_partition, cut);
            (appended, set.header.next_offset().max(batch.header.next_offset()))
        } else {
            let appended = self.columns.append(records, origin, Records::Batch(&batch.header), topic_partition, cut);
            (appended, batch.header.next_offset())
        };
        let stopped = appended.map_err(|e| batch.error(e.into()))?;
        self.bytes += records.len();
        let end = batch.position + batch.bytes().len();
        Ok(Done { next_offset, end, stopped: stopped.map(|next_offset| Stop::RowLimit { next_offset }) })
    }

    /// Returns true if `more` bytes of records fit into the Arrow batch, whose column offsets have 31 bits.
    pub(super) fn fits(&self, more: usize) -> Result<bool, DecodeCause> {
        // Each invalid byte of a header key may become the three bytes of U+FFFD.
        let hard = i32::MAX as usize / if self.options.include_headers { 3 } else { 1 };
        if more > hard {
            return Err(DecodeCause::TooLarge { bytes: more, limit: hard });
        }
        let limit = if self.columns.rows() == 0 { hard } else { self.options.max_bytes.min(hard) };
        Ok(self.bytes + more <= limit)
    }

    /// Returns true if the batch header already shows that the batch does not fit. Such a batch is not decompressed.
    fn cannot_fit(&self, batch: &Batch) -> bool {
        // A negative count is treated as 0 here. Decoding rejects the batch later.
        let claimed = usize::try_from(batch.header.record_count).unwrap_or(0).saturating_mul(MIN_RECORD_LEN);
        // The count in the header may be arbitrarily large, so it is limited by the compressed size.
        let min_size = claimed.min(batch.bytes().len()).max(1);
        self.columns.rows() > 0 && self.bytes.saturating_add(min_size) > self.options.max_bytes
    }

    pub(crate) fn finish(&mut self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        self.bytes = 0;
        self.columns.finish(schema)
    }
}

/// Progress after decoding a batch or a run of messages.
pub(super) struct Done {
    /// The offset after the batch; undefined if the batch did not fit.
    pub(super) next_offset: i64,
    /// End of the batch within the data, or end of the run of messages that starts with this batch.
    pub(super) end: usize,
    pub(super) stopped: Option<Stop>,
}

impl Done {
    pub(super) fn full() -> Done {
        Done { next_offset: 0, end: 0, stopped: Some(Stop::Full) }
    }
}

pub(super) enum Stop {
    Full,
    RowLimit { next_offset: i64 },
}

/// The part of the fetched data that is registered as a buffer for views of uncompressed batches. The part contains all
/// data, unless positions in it would exceed 31 bits.
#[derive(Default)]
struct FetchedBuffer {
    current: Option<(u32, usize)>,
}

impl FetchedBuffer {
    /// Returns the origin of the records in the range `records` of the data.
    fn origin<C: ValueColumn>(&mut self, columns: &mut BatchColumns<C>, data: &Bytes, records: Range<usize>) -> Origin {
        let (buffer, start) = match self.current {
            Some((buffer, start)) if records.end - start <= i32::MAX as usize => (buffer, start),
            _ => {
                let start = if data.len() <= i32::MAX as usize { 0 } else { records.start };
                let stretch_end = data.len().min(start.saturating_add(i32::MAX as usize));
                let buffer = columns.add_buffer(Buffer::from(data.slice(start..stretch_end)));
                self.current = Some((buffer, start));
                (buffer, start)
            }
        };
        Origin { buffer, start: (records.start - start) as u32 }
    }
}

#[cfg(test)]
#[path = "batch_decoder_tests.rs"]
mod tests;
