//! Column builders of a decoded batch, and the visitor that appends records to them.
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int8Array, Int32Array, Int64Array, RecordBatch, TimestampMillisecondArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, SchemaRef};
use samsarrow_wire::batch::{BatchHeader, Block, MessageSet, RecordError, TimestampType, walk_blocks};

use super::{DecodeOptions, Projection};
use crate::layout::constant_column::ConstantColumn;
use crate::layout::headers::HeadersColumn;
use crate::layout::{Capacity, Origin, ValueColumn};
use crate::pool::Pool;
use crate::topics::Topics;

/// Offset range and maximum number of rows to append from a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    pub(crate) from_offset: i64,
    pub(crate) until_offset: i64,
    pub(crate) max_rows: usize,
}

/// Format of the decompressed records of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Records<'a> {
    /// Records in format v2, with the header of their batch.
    Batch(&'a BatchHeader),
    /// Messages in format v0 or v1.
    Messages(&'a MessageSet),
}

impl<'a> Records<'a> {
    fn header(self) -> &'a BatchHeader {
        match self {
            Records::Batch(header) => header,
            Records::Messages(set) => &set.header,
        }
    }
}

/// Timestamp type of messages in format v0, which have no timestamps.
const NO_TIMESTAMP_TYPE: i8 = -1;

/// Topic and partition of the rows that are appended next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TopicPartition {
    /// Index of the topic in the dictionary.
    pub(crate) topic: i32,
    pub(crate) partition: i32,
}

#[derive(Debug)]
pub(crate) struct BatchColumns<C> {
    projection: Projection,
    key: C,
    value: C,
    pool: Pool,
    offsets: Vec<i64>,
    /// Timestamps in milliseconds. A missing timestamp is -1, which `finish` converts to null.
    timestamps: Vec<i64>,
    any_timestamp_missing: bool,
    timestamp_types: ConstantColumn<i8>,
    any_timestamp_type_missing: bool,
    /// Index of each row's topic in the dictionary; empty if topic and partition are unknown.
    topics: ConstantColumn<i32>,
    partitions: ConstantColumn<i32>,
    names: Topics,
    headers: Option<HeadersColumn>,
    leader_epochs: Option<ConstantColumn<i32>>,
    replaced_header_keys: usize,
    buffers: Vec<Buffer>,
    /// Scratch memory of 11 KB, which is `None` while records are parsed. Allocating it takes 65 ns, and parsing a record
    /// 4 ns.
    block: Option<Box<Block>>,
}

impl<C: ValueColumn> BatchColumns<C> {
    pub(crate) fn new(options: &DecodeOptions, names: Topics, pool: Pool) -> Self {
        Self::with(options.projection, options.include_headers, options.include_leader_epoch, names, pool)
    }

    fn with(
        projection: Projection,
        include_headers: bool,
        include_leader_epoch: bool,
        names: Topics,
        pool: Pool,
    ) -> Self {
        BatchColumns {
            projection,
            key: C::default(),
            value: C::with_pool(&pool),
            pool,
            offsets: Vec::new(),
            timestamps: Vec::new(),
            any_timestamp_missing: false,
            timestamp_types: ConstantColumn::default(),
            any_timestamp_type_missing: false,
            topics: ConstantColumn::default(),
            partitions: ConstantColumn::default(),
            names,
            headers: include_headers.then(HeadersColumn::default),
            leader_epochs: include_leader_epoch.then(ConstantColumn::default),
            replaced_header_keys: 0,
            buffers: Vec::new(),
            block: None,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.offsets.len()
    }

    /// Returns the offset of the last row.
    pub(crate) fn last_offset(&self) -> Option<i64> {
        self.offsets.last().copied()
    }

    /// Returns the number of header keys so far that were not valid UTF-8.
    pub(crate) fn replaced_header_keys(&self) -> usize {
        self.replaced_header_keys
    }

    pub(crate) fn reserve(&mut self, rows: Capacity, bytes: Capacity) {
        self.key.reserve(rows, Capacity::default());
        self.value.reserve(rows, if self.projection.values { bytes } else { Capacity::default() });
        rows.reserve_in(&mut self.offsets);
        if self.projection.timestamps {
            rows.reserve_in(&mut self.timestamps);
        }
    }

    /// Returns the index of `topic` in the dictionary.
    pub(crate) fn topic(&self, topic: &Arc<str>) -> i32 {
        self.names.code(topic)
    }

    /// Registers a buffer for views, and returns its index.
    pub(crate) fn add_buffer(&mut self, buffer: Buffer) -> u32 {
        self.buffers.push(buffer);
        self.buffers.len() as u32 - 1
    }

    /// Appends the records of one batch that are in `cut`; `data` contains the decompressed records of the batch.
    /// Returns the offset of the first record excluded by `max_rows`. After an error, none of the batch's records
    /// remain in the columns.
    pub(crate) fn append(
        &mut self,
        data: &[u8],
        origin: Origin,
        records: Records<'_>,
        topic_partition: Option<TopicPartition>,
        cut: Cut,
    ) -> Result<Option<i64>, RecordError> {
        let header = records.header();
        let before = self.rows();
        let is_complete = cut.from_offset <= header.base_offset
            && cut.until_offset > header.last_offset()
            && usize::try_from(header.record_count).is_ok_and(|count| count <= cut.max_rows);
        let stopped = match self.visit(data, origin, records, (!is_complete).then_some(cut)) {
            Ok(stopped) => stopped,
            Err(error) => {
                self.truncate(before);
                return Err(error);
            }
        };
        self.fill(header, topic_partition);
        Ok(stopped)
    }

    /// Returns true if the header determines all requested columns. The header of a compacted batch does not, because
    /// it contains the number of remaining records, but not their offsets.
    pub(crate) fn header_determines(&self, header: &BatchHeader) -> bool {
        let Projection { keys, values, timestamps } = self.projection;
        let timestamps = timestamps && header.timestamp_type() == TimestampType::CreateTime;
        let gaps = header.last_offset_delta.checked_add(1) != Some(header.record_count);
        header.magic == 2 && !(header.is_control() || gaps || keys || values || timestamps || self.headers.is_some())
    }

    /// Like [`append`](Self::append), for a batch whose header determines all columns.
    pub(crate) fn append_header(
        &mut self,
        header: &BatchHeader,
        topic_partition: Option<TopicPartition>,
        cut: Cut,
    ) -> Option<i64> {
        let from = header.base_offset.max(cut.from_offset);
        let end = header.next_offset().min(cut.until_offset).max(from);
        let until = end.min(from.saturating_add_unsigned(cut.max_rows as u64));
        let before = self.rows();
        self.offsets.extend(from..until);
        let more = self.rows() - before;
        if self.projection.timestamps {
            self.push_append_time(header);
        }
        self.key.push_nulls(more);
        self.value.push_nulls(more);
        self.fill(header, topic_partition);
        (until < end).then_some(until)
    }

    /// Fills the columns that are constant within a batch, for all rows that were added to the other columns.
    fn fill(&mut self, header: &BatchHeader, topic_partition: Option<TopicPartition>) {
        let rows = self.rows();
        let timestamp_type = if header.magic == 0 { NO_TIMESTAMP_TYPE } else { header.timestamp_type().id() };
        self.any_timestamp_type_missing |= header.magic == 0;
        self.timestamp_types.fill(rows, timestamp_type);
        if let Some(topic_partition) = topic_partition {
            self.topics.fill(rows, topic_partition.topic);
            self.partitions.fill(rows, topic_partition.partition);
        }
        if let Some(epochs) = &mut self.leader_epochs {
            epochs.fill(rows, header.partition_leader_epoch);
        }
    }

    fn push_append_time(&mut self, header: &BatchHeader) {
        self.timestamps.resize(self.offsets.len(), header.max_timestamp);
        self.any_timestamp_missing |= header.max_timestamp == -1;
    }

    fn visit(
        &mut self,
        data: &[u8],
        origin: Origin,
        records: Records<'_>,
        mut cut: Option<Cut>,
    ) -> Result<Option<i64>, RecordError> {
        let header = records.header();
        let base_offset = header.base_offset;
        let (mut stopped, mut failure) = (None, None);
        let first = self.rows();
        let mut block = self.block.take().unwrap_or_default();
        let mut visit = |block: &mut Block| {
            // A negative delta becomes a huge unsigned number here, so it is rejected as well. An offset outside its
            // batch would result in a wrong position of the consumer.
            let largest = block.offset_delta().iter().fold(0, |largest, &delta| largest.max(delta as u32));
            if largest > header.last_offset_delta as u32 {
                failure = Some(RecordError::Field { index: self.rows() - first, what: "offset delta" });
                return ControlFlow::Break(());
            }
            if let Some(cut) = &mut cut {
                block.retain(|delta| {
                    let offset = base_offset + i64::from(delta);
                    let in_cut = stopped.is_none() && offset >= cut.from_offset && offset < cut.until_offset;
                    if in_cut && cut.max_rows == 0 {
                        stopped = Some(offset);
                        return false;
                    }
                    cut.max_rows -= usize::from(in_cut);
                    in_cut
                });
            }
            failure = self.append_block(data, origin, header, block).err();
            if stopped.is_some() || failure.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let walked = match records {
            Records::Batch(_) => walk_blocks(data, header.record_count, &mut block, visit),
            Records::Messages(set) => set.walk_blocks(data, &mut block, &mut visit),
        };
        self.block = Some(block);
        walked?;
        match failure {
            Some(error) => Err(error),
            None => Ok(stopped),
        }
    }

    /// Appends the records of a block, column by column.
    fn append_block(
        &mut self,
        data: &[u8],
        origin: Origin,
        header: &BatchHeader,
        block: &Block,
    ) -> Result<(), RecordError> {
        let base_offset = header.base_offset;
        self.offsets.extend(block.offset_delta().iter().map(|&delta| base_offset + i64::from(delta)));
        match header.timestamp_type() {
            _ if !self.projection.timestamps => {}
            TimestampType::CreateTime => {
                let base = header.base_timestamp;
                self.timestamps.extend(block.timestamp_delta().iter().map(|&delta| base.wrapping_add(delta)));
                let missing = (-1i64).wrapping_sub(base);
                self.any_timestamp_missing |=
                    block.timestamp_delta().iter().fold(false, |any, &d| any | (d == missing));
            }
            TimestampType::LogAppendTime => self.push_append_time(header),
        }
        match self.projection.keys {
            true => self.key.push_block(data, origin, block.key_start(), block.key_len())?,
            false => self.key.push_nulls(block.key_len().len()),
        }
        match self.projection.values {
            true => self.value.push_block(data, origin, block.value_start(), block.value_len())?,
            false => self.value.push_nulls(block.value_len().len()),
        }
        if let Some(headers) = &mut self.headers {
            for record in block.records() {
                self.replaced_header_keys += headers.push(data, &record)?;
            }
        }
        Ok(())
    }

    fn truncate(&mut self, rows: usize) {
        self.key.truncate(rows);
        self.value.truncate(rows);
        self.offsets.truncate(rows);
        self.timestamps.truncate(rows);
        if let Some(headers) = &mut self.headers {
            headers.truncate(rows);
        }
    }

    /// Returns the columns as a record batch, and resets the builders.
    pub(crate) fn finish(&mut self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let rows = self.rows();
        let (headers, epochs) = (self.headers.is_some(), self.leader_epochs.is_some());
        let empty = Self::with(self.projection, headers, epochs, self.names.clone(), self.pool.clone());
        let mut done = std::mem::replace(self, empty);
        let key = done.key.finish(&done.buffers)?;
        let value = done.value.finish(&done.buffers)?;
        let timestamp_nulls = done
            .any_timestamp_missing
            .then(|| NullBuffer::new(BooleanBuffer::from_iter(done.timestamps.iter().map(|&t| t != -1))))
            .filter(|nulls| nulls.null_count() > 0);
        let timestamps = match done.projection.timestamps {
            true => TimestampMillisecondArray::try_new(ScalarBuffer::from(done.timestamps), timestamp_nulls)?,
            false => TimestampMillisecondArray::new_null(rows),
        };
        let timestamp_type_nulls = done.any_timestamp_type_missing.then(|| {
            let known = done.timestamp_types.iter().map(|t| t != NO_TIMESTAMP_TYPE);
            NullBuffer::new(BooleanBuffer::from_iter(known))
        });
        let (topics, partitions) = if done.topics.len() == rows {
            (Int32Array::new(done.topics.finish(), None), Int32Array::new(done.partitions.finish(), None))
        } else {
            (Int32Array::new_null(rows), Int32Array::new_null(rows))
        };
        let timestamp_types = Int8Array::try_new(done.timestamp_types.finish(), timestamp_type_nulls)?;
        let mut arrays: Vec<ArrayRef> = vec![
            key,
            value,
            Arc::new(DictionaryArray::<Int32Type>::try_new(topics, done.names.values())?),
            Arc::new(partitions),
            Arc::new(Int64Array::from(done.offsets)),
            Arc::new(timestamps.with_timezone("UTC")),
            Arc::new(timestamp_types),
        ];
        if let Some(mut headers) = done.headers {
            arrays.push(headers.finish()?);
        }
        if let Some(epochs) = &mut done.leader_epochs {
            arrays.push(Arc::new(Int32Array::new(epochs.finish(), None)));
        }
        // Keep the builders of constant columns, because the next batch may share their memory.
        (self.topics, self.partitions) = (done.topics, done.partitions);
        (self.timestamp_types, self.leader_epochs) = (done.timestamp_types, done.leader_epochs);
        self.block = done.block;
        RecordBatch::try_new(Arc::clone(schema), arrays)
    }
}
