//! Partitioning and encoding of the rows of a `send_batch` call, one chunk at a time.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use samsarrow_arrow::encode::RowReader;
use samsarrow_wire::compression::Codec;

use super::batch_encoder::{
    BatchEncoder, EncodedBatch, EncoderConfig, PartitionEncoders, RowGroup, Rows, encode_error,
};
use super::buffer_memory::Reserved;
use super::delivery::Part;
use super::partitioner::{Choices, Partitioning, Sticky};
use super::send_batch::SendBatch;
use super::shared::Shared;
use super::topic::{Slot, no_such_partition, topic_missing};
use crate::blocking;
use crate::clock::now_ms;
use crate::error::{Error, Result};

/// Maximum overhead of a row in bytes, beyond its key, value and headers.
const ROW_OVERHEAD: u32 = 32;
/// Maximum overhead of a header in bytes, beyond its name and value.
const HEADER_OVERHEAD: usize = 10;
/// Target size of a batch, unless `batch.size` is more than twice as large or `acks=0`, with which batches that are too
/// large are lost. Brokers accept batches of up to 1 MiB by
/// default. Half of that is as fast, and two such batches fit into one request.
const TARGET_BATCH: usize = 512 * 1024;
/// Maximum size of a chunk whose rows are appended to open batches one by one, as `send` does.
const SMALL_CHUNK: usize = 8 * 1024;
/// Maximum size of the chunks in which rows are assigned and encoded.
const MAX_CHUNK: usize = 8 * 1024 * 1024;

/// Returns the maximum number of bytes that are assigned and encoded at a time.
pub(super) fn chunk_size(shared: &Shared) -> usize {
    MAX_CHUNK.min(shared.memory.total() / 4).max(1)
}

/// Rows of one batch of a call, with the settings to partition and encode them.
pub(super) struct RowPlan<'a> {
    shared: &'a Arc<Shared>,
    call: &'a SendBatch,
    topic: Arc<str>,
    index: usize,
    pub(super) rows: Arc<RowReader>,
    /// Number of the first row within the call.
    first: usize,
    /// Maximum encoded size of each row.
    sizes: Arc<Vec<u32>>,
    timestamp: i64,
    target: usize,
    chunk: usize,
    partitioning: Partitioning,
}

impl<'a> RowPlan<'a> {
    pub(super) fn new(shared: &'a Arc<Shared>, call: &'a SendBatch, topic: &Arc<str>, rows: RowReader) -> Result<Self> {
        let mut accumulator = shared.lock();
        let index = accumulator.find(topic).ok_or_else(|| topic_missing(topic))?;
        let batch_size = accumulator.limits.batch_size;
        let accepted = accumulator.topic(index).map_or(usize::MAX, |topic| topic.accepted_batch_size);
        let partitioning = accumulator.limits.partitioning;
        drop(accumulator);
        let sizes = sizes(&rows);
        Ok(Self {
            shared,
            call,
            topic: Arc::clone(topic),
            index,
            rows: Arc::new(rows),
            first: call.queued() as usize,
            sizes: Arc::new(sizes),
            timestamp: now_ms(),
            target: if batch_size > 2 * TARGET_BATCH || shared.settings.acks == 0 { batch_size } else { TARGET_BATCH }
                .min(shared.settings.max_request_size)
                .min(accepted),
            chunk: chunk_size(shared),
            partitioning,
        })
    }

    /// Returns the maximum encoded size of a row.
    #[inline]
    fn size(&self, row: usize) -> usize {
        self.sizes.get(row).map_or(0, |size| *size as usize)
    }

    /// Rejects all rows if any row can never be sent. Must be called before a row is queued.
    pub(super) fn check(&self) -> Result<()> {
        let largest = self.sizes.iter().copied().max().unwrap_or(0) as usize;
        let too_large = self.shared.check_size(largest, String::new).is_err();
        for row in 0..if too_large { self.rows.rows() } else { 0 } {
            self.shared.check_size(self.size(row), || {
                let key = self.rows.key(row).map_or(0, <[u8]>::len);
                let value = self.rows.value(row).map_or(0, <[u8]>::len);
                format!("row {} for topic {} (key {key} bytes, value {value} bytes)", self.first + row, self.topic)
            })?;
        }
        if !self.rows.has_headers() && !self.rows.has_partition() {
            return Ok(());
        }
        let partitions = self.choices()?.count();
        for row in 0..self.rows.rows() {
            let has_headers = self.rows.headers(row).next().is_some();
            let description = || format!("row {} for topic {}", self.first + row, self.topic);
            self.shared.settings.check_headers(has_headers, description)?;
            if let Some(partition) = self.rows.partition(row)
                && !(0..partitions).contains(&partition)
            {
                let error = no_such_partition(&self.topic, partition, partitions as usize);
                return Err(error.context(format!("send_batch, row {}", self.first + row)));
            }
        }
        Ok(())
    }

    /// Returns the chunk of rows that starts at `start`, and its size in bytes.
    pub(super) fn chunk(&self, start: usize) -> (Range<usize>, usize) {
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

    pub(super) async fn send_chunk(
        &self,
        range: Range<usize>,
        reserved: Reserved<'_>,
        parts: &mut Parts,
    ) -> Result<()> {
        if reserved.bytes() < SMALL_CHUNK.min(self.shared.lock().limits.batch_size / 2) {
            return self.append_to_open(range, reserved, parts);
        }
        // The partitions are looked up for each chunk, because the topic may have grown while the call waited for
        // memory.
        let choices = self.choices()?;
        let (expected_rows, numbers) = (range.len(), self.call_rows(&range));
        let compressed = self.shared.settings.batch_codec() != Codec::None;
        let free = self.partitioning.keys_decide_all() || (self.rows.has_key() && self.partitioning.uses_keys());
        let encoded = match (compressed, self.rows.has_partition() || free) {
            (false, true) => self.encode_in_one_pass(range, &choices)?,
            (false, false) => self.encode_runs(&self.assign_runs(range, &choices)?, &choices)?,
            (true, true) => self.encode_in_parallel(self.assign(range, &choices)?).await?,
            (true, false) => self.encode_in_parallel(self.assign_runs(range, &choices)?).await?,
        };
        let encoded_rows: usize = encoded.iter().map(|batch| batch.count as usize).sum();
        if encoded_rows != expected_rows {
            return Err(Error::State(format!(
                "send_batch to topic {} has encoded {encoded_rows} of {expected_rows} rows: none of them is queued",
                self.topic
            )));
        }
        self.enqueue(encoded, &numbers, reserved, parts)
    }

    /// Returns the numbers of these rows within the call.
    fn call_rows(&self, rows: &Range<usize>) -> Range<u64> {
        (self.first + rows.start) as u64..(self.first + rows.end) as u64
    }

    /// Returns the partitions to which rows may be sent now.
    fn choices(&self) -> Result<Choices> {
        let choices = self.shared.lock().choices(self.index);
        if choices.count() == 0 { Err(topic_missing(&self.topic)) } else { Ok(choices) }
    }

    /// Checks that the topic has a partition and returns the partition as an index.
    #[inline]
    fn checked_partition(&self, partition: i32, count: i32) -> Result<usize> {
        let known = usize::try_from(partition).ok().filter(|_| partition < count);
        known.ok_or_else(|| no_such_partition(&self.topic, partition, usize::try_from(count).unwrap_or(0)))
    }

    /// Appends a small number of rows to the open batches, to which single records are appended too.
    fn append_to_open(&self, range: Range<usize>, mut reserved: Reserved<'_>, parts: &mut Parts) -> Result<()> {
        let mut accumulator = self.shared.lock();
        let mut wake = false;
        for row in range {
            accumulator.check_call(self.call)?;
            let size = self.size(row);
            let key = self.rows.key(row);
            let partition = match self.rows.partition(row) {
                Some(partition) => partition,
                None => accumulator.choose_partition(self.index, key, size),
            };
            let count = accumulator.topic(self.index).ok_or_else(|| topic_missing(&self.topic))?.count();
            let slot = Slot { topic: self.index, partition: self.checked_partition(partition, count)? };
            let timestamp = self.rows.timestamp(row).unwrap_or(self.timestamp);
            let headers = self.rows.headers(row);
            let (delivery, woken) =
                accumulator.append_row(slot, timestamp, key, self.rows.value(row), headers, size)?;
            reserved.transfer(size);
            self.call.add_queued(1);
            wake |= woken;
            parts.add(Part {
                state: delivery.state,
                first: delivery.index,
                count: 1,
                rows: self.call_rows(&(row..row + 1)),
            });
        }
        drop(accumulator);
        if wake {
            self.shared.wake.notify_one();
        }
        Ok(())
    }

    /// Returns the partition of a row. Rows without a key fill the batches of one partition after the other.
    #[inline]
    fn partition(&self, row: usize, choices: &Choices, sticky: &mut Sticky) -> Result<usize> {
        let (rule, size) = (&self.partitioning, self.size(row));
        let partition = self
            .rows
            .partition(row)
            .or_else(|| rule.by_key(self.rows.key(row), choices.count()))
            .or_else(|| sticky.current_for(size, rule.switch_at(self.target)))
            .unwrap_or_else(|| sticky.switch(rule, choices, size));
        self.checked_partition(partition, choices.count())
    }

    /// Encodes rows in a single pass, in memory order, each into the batch of its partition.
    fn encode_in_one_pass(&self, range: Range<usize>, choices: &Choices) -> Result<Vec<EncodedBatch>> {
        let config = self.encoder_config();
        let mut encoders = PartitionEncoders::new(&config, choices);
        let mut sticky = Sticky::default();
        for row in range {
            let partition = self.partition(row, choices, &mut sticky)?;
            encoders.of(partition)?.add(&self.rows, row, self.size(row))?;
        }
        encoders.finish()
    }

    /// Encodes contiguous runs of rows in a single pass.
    fn encode_runs(&self, groups: &[RowGroup], choices: &Choices) -> Result<Vec<EncodedBatch>> {
        let config = self.encoder_config();
        let mut encoders = PartitionEncoders::new(&config, choices);
        for group in groups {
            encoders.of(group.partition)?.add_group(&self.rows, &self.sizes, group)?;
        }
        encoders.finish()
    }

    /// Groups the rows of a chunk by partition, in order, and splits the groups for parallel encoding.
    fn assign(&self, range: Range<usize>, choices: &Choices) -> Result<Vec<RowGroup>> {
        let mut open: Vec<(Vec<u32>, usize)> = vec![(Vec::new(), 0); choices.len()];
        let mut groups = Vec::new();
        let mut sticky = Sticky::default();
        for row in range {
            let partition = self.partition(row, choices, &mut sticky)?;
            let (rows, bytes) = open
                .get_mut(partition)
                .ok_or_else(|| no_such_partition(&self.topic, partition as i32, choices.len()))?;
            rows.push(row as u32);
            *bytes += self.size(row);
            if *bytes >= self.group_size() {
                *bytes = 0;
                groups.push(RowGroup { partition, rows: Rows::Selected(std::mem::take(rows)) });
            }
        }
        let rest = open.into_iter().enumerate().filter(|(_, (rows, _))| !rows.is_empty());
        groups.extend(rest.map(|(partition, (rows, _))| RowGroup { partition, rows: Rows::Selected(rows) }));
        Ok(groups)
    }

    /// Assigns each run of rows that fills a batch to one partition, for rows without keys.
    fn assign_runs(&self, range: Range<usize>, choices: &Choices) -> Result<Vec<RowGroup>> {
        let mut groups: Vec<RowGroup> = Vec::new();
        let mut sticky = Sticky::default();
        let (mut at, mut bytes) = (range.start, 0);
        while at < range.end {
            let sizes = self.sizes.get(at..range.end).unwrap_or_default();
            let rule = &self.partitioning;
            let (partition, taken) = sticky.assign_run(rule, choices, sizes, rule.switch_at(self.target));
            let partition = self.checked_partition(partition, choices.count())?;
            let end = (at + taken).min(range.end);
            let size = sizes.iter().take(taken).map(|size| *size as usize).sum::<usize>();
            match groups.last_mut() {
                Some(RowGroup { partition: last, rows: Rows::Range(run) })
                    if *last == partition && bytes + size <= self.group_size() =>
                {
                    run.end = end;
                    bytes += size;
                }
                _ => {
                    groups.push(RowGroup { partition, rows: Rows::Range(at..end) });
                    bytes = size;
                }
            }
            at = end;
        }
        Ok(groups)
    }

    /// Returns the size of a group in bytes. Each core compresses one group at a time, and only the last batch of a
    /// group may be partly filled.
    fn group_size(&self) -> usize {
        self.chunk.div_ceil(2 * workers()).max(self.target)
    }

    fn encoder_config(&self) -> EncoderConfig {
        let settings = &self.shared.settings;
        EncoderConfig {
            target: self.target,
            timestamp: self.timestamp,
            codec: settings.batch_codec(),
            level: settings.level,
            transactional: settings.transactional_id.is_some(),
        }
    }

    /// Encodes and compresses groups on all cores.
    async fn encode_in_parallel(&self, groups: Vec<RowGroup>) -> Result<Vec<EncodedBatch>> {
        let share = groups.len().div_ceil(workers()).max(1);
        let mut groups = groups.into_iter().peekable();
        let mut tasks = Vec::new();
        while groups.peek().is_some() {
            let task_groups: Vec<RowGroup> = groups.by_ref().take(share).collect();
            let (config, rows, sizes) = (self.encoder_config(), Arc::clone(&self.rows), Arc::clone(&self.sizes));
            tasks.push(blocking::spawn(move || {
                let encode = |group: RowGroup| {
                    let mut encoder = BatchEncoder::new(&config, group.partition)?;
                    encoder.add_group(&rows, &sizes, &group)?;
                    encoder.finish()
                };
                task_groups.into_iter().map(encode).collect::<Result<Vec<_>>>()
            }));
        }
        let mut encoded = Vec::new();
        for task in tasks {
            encoded.extend(task.await.map_err(|error| encode_error(&error))??);
        }
        Ok(encoded.into_iter().flatten().collect())
    }

    /// Queues encoded batches.
    fn enqueue(
        &self,
        encoded: Vec<EncodedBatch>,
        rows: &Range<u64>,
        mut reserved: Reserved<'_>,
        parts: &mut Parts,
    ) -> Result<()> {
        {
            let mut accumulator = self.shared.lock();
            for EncodedBatch { partition, count, payload, bytes } in encoded {
                accumulator.check_call(self.call)?;
                let slot = Slot { topic: self.index, partition };
                parts.add(accumulator.push_built(slot, count, rows.clone(), payload, bytes)?);
                reserved.transfer(bytes);
                self.call.add_queued(u64::from(count));
            }
        }
        self.shared.wake.notify_one();
        Ok(())
    }
}

/// Returns the available parallelism. It is cached, because each lookup on Linux reads files (80 µs) and the value is
/// needed for every few rows.
fn workers() -> usize {
    static WORKERS: OnceLock<usize> = OnceLock::new();
    *WORKERS.get_or_init(blocking::parallelism)
}

/// Returns the maximum encoded size of each row.
fn sizes(rows: &RowReader) -> Vec<u32> {
    let mut sizes = rows.lengths();
    for (row, size) in sizes.iter_mut().enumerate() {
        *size = size.saturating_add(ROW_OVERHEAD);
        if rows.has_headers() {
            for (name, value) in rows.headers(row) {
                let header = HEADER_OVERHEAD + name.len() + value.map_or(0, <[u8]>::len);
                *size = size.saturating_add(u32::try_from(header).unwrap_or(u32::MAX));
            }
        }
    }
    sizes
}

/// Parts of the batches that contain a call's rows. Adjacent parts of one batch are merged.
#[derive(Default)]
pub(super) struct Parts(pub(super) Vec<Part>);

impl Parts {
    fn add(&mut self, part: Part) {
        if let Some(last) = self.0.last_mut()
            && Arc::ptr_eq(&last.state, &part.state)
            && last.first + last.count == part.first
        {
            last.count += part.count;
            last.rows.end = part.rows.end;
            return;
        }
        self.0.push(part);
    }
}
