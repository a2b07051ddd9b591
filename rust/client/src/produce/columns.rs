//! Arrow columns into batches: rows are assigned to partitions, then each partition's rows are encoded straight from
//! the columns. Large data goes chunk by chunk, so that memory stays within `buffer.memory`.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use bytes::Bytes;
use samsarrow_arrow::encode::{Columns, RowReader};
use samsarrow_wire::batch::{Append, BatchBuilder, BatchOptions};
use samsarrow_wire::compression::{Codec, Compressor};
use samsarrow_wire::error_code::ErrorCode;

use super::accumulator::{Slot, no_such_partition};
use super::delivery::{BatchDelivery, Part};
use super::memory::Reserved;
use super::partitioner::{self, Sticky};
use super::queue::Payload;
use super::sink::Shared;
use crate::error::{Error, Result};
use crate::producer::now_ms;

/// Bytes that a row may take beyond its key, value and headers.
const ROW_OVERHEAD: usize = 32;
/// Bytes that a header may take beyond its name and value.
const HEADER_OVERHEAD: usize = 10;
/// Brokers take batches up to 1 MiB by default; half of it is as fast, and two go into one request.
const TARGET_BATCH: usize = 512 * 1024;
/// Rows are assigned and encoded in chunks of this many bytes at most.
const MAX_CHUNK: usize = 8 * 1024 * 1024;

/// Sends all rows; the topic's partitions are known already.
pub(crate) async fn send(
    shared: &Arc<Shared>,
    topic: Arc<str>,
    data: RecordBatch,
    columns: Columns,
) -> Result<BatchDelivery> {
    let rows = RowReader::new(&data, &columns)
        .map_err(|error| Error::configuration(format!("send_batch to topic {topic}: {error}")))?;
    // The reader holds the columns that it needs.
    drop(data);
    let plan = Plan::new(shared, &topic, rows)?;
    plan.check()?;
    let mut parts = Parts::default();
    let mut next = 0;
    while next < plan.rows.rows() {
        let (range, bytes) = plan.chunk(next);
        next = range.end;
        let deadline = Instant::now() + shared.settings.max_block;
        let sent = match shared.reserve(bytes, deadline).await {
            Ok(reserved) => plan.send_chunk(range.clone(), reserved, &mut parts).await,
            Err(error) => Err(error),
        };
        if let Err(error) = sent {
            let total = plan.rows.rows();
            return Err(error.context(format!(
                "send_batch to topic {topic} stopped at row {} of {total}: the rows before it were queued",
                range.start
            )));
        }
    }
    Ok(BatchDelivery::new(topic, parts.0))
}

/// What is the same for all rows of a call.
struct Plan<'a> {
    shared: &'a Arc<Shared>,
    topic: Arc<str>,
    index: usize,
    partitions: i32,
    rows: Arc<RowReader>,
    timestamp: i64,
    target: usize,
    chunk: usize,
    sticky: std::sync::Mutex<Sticky>,
    available: Vec<i32>,
}

impl<'a> Plan<'a> {
    fn new(shared: &'a Arc<Shared>, topic: &Arc<str>, rows: RowReader) -> Result<Self> {
        let mut accumulator = shared.lock();
        let index = accumulator.find(topic).ok_or_else(|| topic_gone(topic))?;
        let batch_size = accumulator.limits.batch_size;
        let known = accumulator.topic(index).ok_or_else(|| topic_gone(topic))?;
        let (partitions, available) = (known.count(), known.available().to_vec());
        drop(accumulator);
        Ok(Self {
            shared,
            topic: Arc::clone(topic),
            index,
            partitions,
            rows: Arc::new(rows),
            timestamp: now_ms(),
            target: batch_size.max(TARGET_BATCH).min(shared.settings.max_request_size),
            chunk: MAX_CHUNK.min(shared.memory.total() / 4).max(1),
            sticky: std::sync::Mutex::default(),
            available,
        })
    }

    /// The bytes that a row takes at most.
    #[inline]
    fn size(&self, row: usize) -> usize {
        row_size(&self.rows, row)
    }

    /// Refuses the whole call for a row that no broker would take, before anything is sent.
    fn check(&self) -> Result<()> {
        for row in 0..self.rows.rows() {
            let size = self.size(row);
            self.shared.check_size(size, || {
                let key = self.rows.key(row).map_or(0, <[u8]>::len);
                let value = self.rows.value(row).map_or(0, <[u8]>::len);
                format!("row {row} for topic {} (key {key} bytes, value {value} bytes)", self.topic)
            })?;
            let has_headers = self.rows.headers(row).next().is_some();
            self.shared.settings.check_headers(has_headers, || format!("row {row} for topic {}", self.topic))?;
            if let Some(partition) = self.rows.partition(row)
                && partition >= self.partitions
            {
                let error = no_such_partition(&self.topic, partition, self.partitions as usize);
                return Err(error.context(format!("send_batch, row {row}")));
            }
        }
        Ok(())
    }

    /// The rows from `start` on that make up one chunk, and their bytes.
    fn chunk(&self, start: usize) -> (Range<usize>, usize) {
        let mut bytes = 0;
        let mut end = start;
        while end < self.rows.rows() {
            let size = self.size(end);
            if end > start && bytes + size > self.chunk {
                break;
            }
            bytes += size;
            end += 1;
        }
        (start..end, bytes)
    }

    async fn send_chunk(&self, range: Range<usize>, reserved: Reserved<'_>, parts: &mut Parts) -> Result<()> {
        if reserved.bytes() < self.shared.lock().limits.batch_size / 2 {
            return self.append_to_open(range, reserved, parts);
        }
        let encoded = if self.shared.settings.batch_codec() == Codec::None {
            self.encode_in_one_pass(range)?
        } else {
            self.encode_in_parallel(self.assign(range)).await?
        };
        self.push(encoded, reserved, parts)
    }

    /// Few rows share the batches that records sent one by one fill.
    fn append_to_open(&self, range: Range<usize>, mut reserved: Reserved<'_>, parts: &mut Parts) -> Result<()> {
        let mut accumulator = self.shared.lock();
        let mut wake = false;
        let batch_size = accumulator.limits.batch_size;
        for row in range {
            accumulator.admits()?;
            let size = self.size(row);
            let key = self.rows.key(row);
            let partition = match (self.rows.partition(row), key) {
                (Some(partition), _) => partition,
                (None, Some(key)) => partitioner::by_key(key, self.partitions),
                (None, None) => accumulator.topic_mut(self.index).map_or(0, |topic| topic.stick(size, batch_size)),
            };
            let slot = Slot { topic: self.index, partition: usize::try_from(partition).unwrap_or(0) };
            let timestamp = self.rows.timestamp(row).unwrap_or(self.timestamp);
            let headers = self.rows.headers(row);
            let (delivery, woken) =
                accumulator.append_row(slot, timestamp, key, self.rows.value(row), headers, size)?;
            reserved.hand_over(size);
            wake |= woken;
            parts.add(Part { state: delivery.state, first: delivery.index, count: 1 });
        }
        drop(accumulator);
        if wake {
            self.shared.wake.notify_one();
        }
        Ok(())
    }

    /// The partition of a row; those without a key fill one partition's batch after the other.
    #[inline]
    fn partition(&self, row: usize, sticky: &mut Sticky) -> usize {
        let partition = match (self.rows.partition(row), self.rows.key(row)) {
            (Some(partition), _) => partition,
            (None, Some(key)) => partitioner::by_key(key, self.partitions),
            (None, None) => sticky.pick(&self.available, self.partitions, self.size(row), self.target),
        };
        usize::try_from(partition).unwrap_or(0)
    }

    /// Rows are read once, in the order in which they lie in memory, each into the batch of its partition.
    fn encode_in_one_pass(&self, range: Range<usize>) -> Result<Vec<Encoded>> {
        let encoding = self.encoding();
        let mut encoders: Vec<Option<Encoder<'_>>> = Vec::new();
        encoders.resize_with(usize::try_from(self.partitions).unwrap_or(0), || None);
        let mut sticky = self.sticky();
        for row in range {
            let partition = self.partition(row, &mut sticky);
            let Some(slot) = encoders.get_mut(partition) else { continue };
            if slot.is_none() {
                *slot = Some(Encoder::new(&encoding, partition)?);
            }
            if let Some(encoder) = slot {
                encoder.add(&self.rows, row)?;
            }
        }
        let mut encoded = Vec::new();
        for encoder in encoders.into_iter().flatten() {
            encoded.extend(encoder.finish()?);
        }
        Ok(encoded)
    }

    /// The rows of a chunk by partition, in their order.
    fn assign(&self, range: Range<usize>) -> Vec<Group> {
        if !self.rows.has_partition() && !self.rows.has_key() {
            return self.assign_runs(range);
        }
        let count = usize::try_from(self.partitions).unwrap_or(1).max(1);
        let mut groups: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut sticky = self.sticky();
        for row in range {
            if let Some(group) = groups.get_mut(self.partition(row, &mut sticky)) {
                group.push(row as u32);
            }
        }
        groups
            .into_iter()
            .enumerate()
            .filter(|(_, rows)| !rows.is_empty())
            .map(|(partition, rows)| Group { partition, rows: Rows::Picked(rows) })
            .collect()
    }

    /// Without keys, each run of rows that fills a batch goes to one partition.
    fn assign_runs(&self, range: Range<usize>) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut sticky = self.sticky();
        for row in range {
            let partition = sticky.pick(&self.available, self.partitions, self.size(row), self.target);
            let partition = usize::try_from(partition).unwrap_or(0);
            match groups.last_mut() {
                Some(Group { partition: last, rows: Rows::Run(run) }) if *last == partition => run.end = row + 1,
                _ => groups.push(Group { partition, rows: Rows::Run(row..row + 1) }),
            }
        }
        groups
    }

    fn sticky(&self) -> std::sync::MutexGuard<'_, Sticky> {
        self.sticky.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn encoding(&self) -> Encoding {
        let settings = &self.shared.settings;
        Encoding {
            target: self.target,
            timestamp: self.timestamp,
            codec: settings.batch_codec(),
            level: settings.level,
            transactional: settings.transactional_id.is_some(),
        }
    }

    /// Compression is work for all cores.
    async fn encode_in_parallel(&self, groups: Vec<Group>) -> Result<Vec<Encoded>> {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let share = groups.len().div_ceil(workers).max(1);
        let mut groups = groups.into_iter().peekable();
        let mut tasks = Vec::new();
        while groups.peek().is_some() {
            let mine: Vec<Group> = groups.by_ref().take(share).collect();
            let (encoding, rows) = (self.encoding(), Arc::clone(&self.rows));
            tasks.push(tokio::task::spawn_blocking(move || {
                mine.into_iter().map(|group| encode_group(&encoding, &rows, group)).collect::<Result<Vec<_>>>()
            }));
        }
        let mut encoded = Vec::new();
        for task in tasks {
            encoded.extend(task.await.map_err(|error| broken(&error))??);
        }
        Ok(encoded.into_iter().flatten().collect())
    }

    /// Queues what was encoded.
    fn push(&self, encoded: Vec<Encoded>, mut reserved: Reserved<'_>, parts: &mut Parts) -> Result<()> {
        {
            let mut accumulator = self.shared.lock();
            for Encoded { partition, count, payload, bytes } in encoded {
                let slot = Slot { topic: self.index, partition };
                parts.add(accumulator.push_built(slot, count, payload, bytes)?);
                reserved.hand_over(bytes);
            }
        }
        self.shared.wake.notify_one();
        Ok(())
    }
}

#[inline]
fn row_size(rows: &RowReader, row: usize) -> usize {
    let mut size = ROW_OVERHEAD + rows.key(row).map_or(0, <[u8]>::len) + rows.value(row).map_or(0, <[u8]>::len);
    for (name, value) in rows.headers(row) {
        size += HEADER_OVERHEAD + name.len() + value.map_or(0, <[u8]>::len);
    }
    size
}

/// Rows for one partition.
struct Group {
    partition: usize,
    rows: Rows,
}

enum Rows {
    Run(Range<usize>),
    Picked(Vec<u32>),
}

#[derive(Clone)]
struct Encoding {
    target: usize,
    timestamp: i64,
    codec: Codec,
    level: Option<i32>,
    transactional: bool,
}

struct Encoded {
    partition: usize,
    count: u32,
    payload: Payload,
    /// Of `buffer.memory`.
    bytes: usize,
}

fn encode_group(encoding: &Encoding, rows: &RowReader, group: Group) -> Result<Vec<Encoded>> {
    let mut encoder = Encoder::new(encoding, group.partition)?;
    match group.rows {
        Rows::Run(run) => run.into_iter().try_for_each(|row| encoder.add(rows, row))?,
        Rows::Picked(picked) => picked.into_iter().try_for_each(|row| encoder.add(rows, row as usize))?,
    }
    encoder.finish()
}

struct Encoder<'a> {
    encoding: &'a Encoding,
    partition: usize,
    builder: BatchBuilder,
    /// Memory reserved for the rows in the builder.
    bytes: usize,
    compressor: Option<Compressor>,
    encoded: Vec<Encoded>,
}

impl<'a> Encoder<'a> {
    fn new(encoding: &'a Encoding, partition: usize) -> Result<Self> {
        let compressor = match encoding.codec {
            Codec::None => None,
            codec => Some(Compressor::new(codec, encoding.level).map_err(|error| broken(&error))?),
        };
        let builder = new_builder(encoding);
        Ok(Self { encoding, partition, builder, bytes: 0, compressor, encoded: Vec::new() })
    }

    #[inline]
    fn add(&mut self, rows: &RowReader, row: usize) -> Result<()> {
        let timestamp = self.encoding.timestamp;
        if rows.append_to(&mut self.builder, row, timestamp).map_err(|error| broken(&error))? == Append::Full {
            self.close()?;
            // The first record always fits.
            rows.append_to(&mut self.builder, row, timestamp).map_err(|error| broken(&error))?;
        }
        self.bytes += row_size(rows, row);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        let count = u32::try_from(self.builder.count()).unwrap_or(0);
        let (payload, bytes) = match &mut self.compressor {
            // Length and checksum are written when the sequence is known, off the caller's thread.
            None => {
                let builder = std::mem::replace(&mut self.builder, new_builder(self.encoding));
                (Payload::Draft(Box::new(builder)), self.bytes)
            }
            Some(compressor) => {
                let bytes = Bytes::from(self.builder.finish(compressor).map_err(|error| broken(&error))?);
                let held = bytes.len().min(self.bytes);
                (Payload::Encoded(bytes), held)
            }
        };
        self.bytes = 0;
        self.encoded.push(Encoded { partition: self.partition, count, payload, bytes });
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<Encoded>> {
        if !self.builder.is_empty() {
            self.close()?;
        }
        Ok(self.encoded)
    }
}

fn new_builder(encoding: &Encoding) -> BatchBuilder {
    let transactional = encoding.transactional;
    BatchBuilder::new(BatchOptions { max_bytes: encoding.target, transactional, ..BatchOptions::default() })
}

fn broken(error: &dyn std::fmt::Display) -> Error {
    Error::configuration(format!("cannot encode a batch: {error}"))
}

/// The error for a topic that lost its partitions between two looks.
pub(crate) fn topic_gone(topic: &str) -> Error {
    Error::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("topic {topic} (its metadata names no partitions)"))
}

/// The batches that a call's rows went into, neighbours joined.
#[derive(Default)]
struct Parts(Vec<Part>);

impl Parts {
    fn add(&mut self, part: Part) {
        if let Some(last) = self.0.last_mut()
            && Arc::ptr_eq(&last.state, &part.state)
            && last.first + last.count == part.first
        {
            last.count += part.count;
            return;
        }
        self.0.push(part);
    }
}
