//! Pool of tasks that decode chunks on other cores and insert them at their slots of the queue (ADR 17).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use samsarrow_arrow::decode::Decoder;
use samsarrow_wire::sync::lock;
use tokio::sync::Semaphore;

use super::chunk_sink::ChunkSink;
use super::decode::{decode, new_decoder};
use super::partition_records::PartitionRecords;
use super::queue::Item;
use super::shared_state::Shared;
use crate::blocking;
use crate::config::ConsumerOptions;
use crate::error::Error;
use crate::types::TopicPartition;

/// Maximum number of concurrent decode tasks. More tasks need more memory without saving time, because the socket is
/// the bottleneck.
const MAX_DECODE_TASKS: usize = 7;

/// Pool of decode tasks that run beside the fetch tasks.
#[derive(Debug)]
pub(super) struct DecodePool {
    shared: Arc<Shared>,
    options: ConsumerOptions,
    permits: Arc<Semaphore>,
    /// Idle decoders, kept because they own the contexts of their codecs.
    decoders: Mutex<Vec<Decoder>>,
}

impl DecodePool {
    /// Creates a pool with one task for every core except the core that the fetch task uses.
    pub(super) fn new(shared: &Arc<Shared>, options: &ConsumerOptions) -> Self {
        let available = blocking::parallelism() - 1;
        Self {
            shared: Arc::clone(shared),
            options: options.clone(),
            permits: Arc::new(Semaphore::new(available.clamp(1, MAX_DECODE_TASKS))),
            decoders: Mutex::default(),
        }
    }

    /// Starts decode tasks while records are pending and both a task and memory are available.
    pub(super) fn decode(self: &Arc<Self>) {
        while let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            let Some(job) = DecodeJob::next(&self.shared) else { return };
            let this = Arc::clone(self);
            blocking::spawn(move || {
                let pooled = lock(&this.decoders).pop();
                let mut decoder = pooled.unwrap_or_else(|| new_decoder(&this.options, &this.shared));
                job.run(&mut decoder);
                lock(&this.decoders).push(decoder);
                drop(permit);
                this.decode();
            });
        }
    }

    /// Decodes pending records whenever polls have freed capacity.
    pub(super) async fn run(self: Arc<Self>) {
        let mut capacity_changes = self.shared.capacity_changes();
        while capacity_changes.changed().await.is_ok() {
            self.decode();
        }
    }
}

/// Job that decodes the records of one slot.
#[derive(Debug)]
pub(super) struct DecodeJob {
    sink: ChunkSink,
    slot: u64,
    parts: VecDeque<PartitionRecords>,
    /// Partitions that the records belong to, with the versions of their cursors.
    partitions: Vec<(TopicPartition, u64)>,
}

impl DecodeJob {
    /// Takes the next slot that may be decoded now.
    pub(super) fn next(shared: &Arc<Shared>) -> Option<DecodeJob> {
        let (slot, parts) = shared.lock().next_deferred()?;
        let partitions = parts.iter().map(|part| (part.tp.clone(), part.version)).collect();
        Some(DecodeJob { sink: ChunkSink::before_slot(shared, slot), slot, parts, partitions })
    }

    /// Decodes until no records remain or the queue has no capacity left.
    pub(super) fn run(mut self, decoder: &mut Decoder) {
        let shared = Arc::clone(self.sink.shared());
        decode(decoder, &mut self.parts, &self.sink, || shared.lock().may_continue_decoding());
    }
}

impl Drop for DecodeJob {
    fn drop(&mut self) {
        let shared = self.sink.shared();
        if std::thread::panicking() {
            self.sink.push(Item::Error(Error::corrupt("a fetched chunk could not be decoded: its decoder failed")));
            let mut state = shared.lock();
            state.refetch(&self.partitions);
            state.finish_slot(self.slot, VecDeque::new());
            drop(state);
            shared.notify_tasks();
        } else {
            shared.lock().finish_slot(self.slot, std::mem::take(&mut self.parts));
            shared.notify_capacity();
        }
        shared.notify_poll();
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue::Epochs;
    use super::*;
    use crate::fetcher::queue::{Chunk, Segment};
    use arrow_array::RecordBatch;

    fn chunk(tp: &TopicPartition, version: u64, next_offset: i64) -> Item {
        let values: Arc<dyn arrow_array::Array> = Arc::new(arrow_array::Int64Array::from(vec![next_offset - 1]));
        let batch = RecordBatch::try_from_iter([("offset", values)]).unwrap();
        let epochs = Epochs::new(-1, &[]);
        let segments = vec![Segment { tp: tp.clone(), version, rows: 1, next_offset, epochs }];
        Item::Chunk(Chunk { batch, segments, bytes: 10 })
    }

    fn pending(tp: &TopicPartition, version: u64) -> VecDeque<PartitionRecords> {
        let records = vec![0; 5].into();
        let epochs = Epochs::new(-1, &[]);
        let part =
            PartitionRecords { tp: tp.clone(), version, from: 0, epochs, records, compressed: true, aborted: None };
        VecDeque::from([part])
    }

    /// Completes a job without decoding its records, as if they had been decoded.
    fn finish(mut job: DecodeJob) {
        job.parts.clear();
    }

    #[tokio::test]
    async fn rows_keep_their_order() {
        let (shared, tp, version) = Shared::at_start(64 << 20);
        ChunkSink::at_end(&shared).push(chunk(&tp, version, 4));
        let mut jobs = [(); 2].map(|()| {
            shared.lock().defer_decode(pending(&tp, version));
            DecodeJob::next(&shared)
        });
        let [slow, fast] = [jobs[0].take().unwrap(), jobs[1].take().unwrap()];
        fast.sink.push(chunk(&tp, version, 6));
        finish(fast);
        let now = tokio::time::Instant::now();
        let next = async || shared.poll(9, now).await.map(|_| shared.positions()[0].1);
        assert_eq!([next().await, next().await], [Some(4), None]);
        slow.sink.push(chunk(&tp, version, 1));
        slow.sink.push(chunk(&tp, version, 2));
        assert_eq!([next().await, next().await, next().await], [Some(1), Some(2), None]);
        finish(slow);
        assert_eq!([next().await, next().await], [Some(6), None]);
        assert_eq!(shared.lock().queued, 0);
        // After the consumer is closed, decoded chunks are dropped.
        shared.lock().defer_decode(pending(&tp, version));
        let job = DecodeJob::next(&shared).unwrap();
        shared.close();
        job.sink.push(chunk(&tp, version, 5));
        drop(job);
        let state = shared.lock();
        assert_eq!((state.queue.len(), state.queued), (0, 0));
    }

    #[tokio::test]
    async fn decoding_waits_for_capacity() {
        let (shared, tp, version) = Shared::at_start(4);
        let capacity_changes = shared.capacity_changes();
        (0..2).for_each(|_| shared.lock().defer_decode(pending(&tp, version)));
        // The first slot is decoded even without capacity, one chunk at a time.
        let first = DecodeJob::next(&shared).unwrap();
        assert!(DecodeJob::next(&shared).is_none());
        first.sink.push(chunk(&tp, version, 1));
        assert!(!shared.lock().may_continue_decoding());
        drop(first);
        assert!(DecodeJob::next(&shared).is_none() && shared.lock().decode_slots.any_pending());
        let now = tokio::time::Instant::now();
        assert!(shared.poll(9, now).await.is_some());
        assert!(capacity_changes.has_changed().unwrap());
        finish(DecodeJob::next(&shared).unwrap());
        finish(DecodeJob::next(&shared).unwrap());
        let state = shared.lock();
        assert_eq!((state.queue.len(), state.queued, state.decode_slots.any_pending()), (0, 0, false));
    }

    #[tokio::test]
    async fn polls_notify_only_tasks_that_can_use_the_capacity() {
        let (shared, tp, version) = Shared::at_start(100);
        let mut push = |bytes| {
            let mut item = chunk(&tp, version, 4);
            if let Item::Chunk(chunk) = &mut item {
                chunk.bytes = bytes;
            }
            ChunkSink::at_end(&shared).push(item);
        };
        [30, 30, 30, 10].into_iter().for_each(&mut push);
        let mut capacity_changes = shared.capacity_changes();
        let mut notified = || {
            capacity_changes.mark_unchanged();
            assert!(shared.take(Some(9), || None, |rows| rows).is_some());
            capacity_changes.has_changed().unwrap()
        };
        assert!(!notified(), "no task waits");
        shared.lock().wait_for_capacity(80);
        // Of the 100 bytes of memory, 40 bytes are queued after the first poll and 10 after the second.
        assert_eq!([notified(), notified()], [false, true]);
        assert!(!notified(), "a task that was woken must register again");
        push(200);
        shared.lock().wait_for_capacity(80);
        assert!(notified(), "nothing is queued");
        push(1);
        shared.lock().wait_for_capacity(80);
        shared.lock().wait_for_capacity(0);
        assert!(notified(), "a task waits for any poll");
    }

    #[tokio::test]
    async fn dropped_rows_free_capacity() {
        let (shared, tp, version) = Shared::at_start(64);
        let takes_nothing = || shared.take(Some(9), || None, |rows| rows).is_none();
        let partitions = std::slice::from_ref(&tp);
        // The rows are dropped because their partition is paused, or because they were fetched before a seek.
        let pause = || shared.set_paused(partitions, true);
        let seek = || shared.seek(&[(tp.clone(), Some(7), None)]);
        for invalidate in [&pause as &dyn Fn() -> crate::error::Result<()>, &seek] {
            ChunkSink::at_end(&shared).push(chunk(&tp, version, 4));
            invalidate().unwrap();
            shared.lock().wait_for_capacity(0);
            let mut capacity_changes = shared.capacity_changes();
            assert!(takes_nothing() && capacity_changes.has_changed().unwrap());
            capacity_changes.mark_unchanged();
            assert!(takes_nothing() && !capacity_changes.has_changed().unwrap(), "no rows were dropped");
        }
    }

    #[tokio::test]
    async fn first_slot_is_decoded_without_a_waiting_poll() {
        let (shared, tp, version) = Shared::at_start(4);
        let mut empty = chunk(&tp, version, 4);
        if let Item::Chunk(chunk) = &mut empty {
            chunk.bytes = 0;
        }
        ChunkSink::at_end(&shared).push(empty);
        shared.lock().defer_decode(pending(&tp, version));
        assert!(DecodeJob::next(&shared).is_none(), "no capacity behind queued rows");
        shared.seek(&[(tp, Some(7), None)]).unwrap();
        let capacity_changes = shared.capacity_changes();
        assert!(shared.take(Some(9), || None, |rows| rows).is_none());
        assert!(capacity_changes.has_changed().unwrap());
        finish(DecodeJob::next(&shared).unwrap());
    }

    #[tokio::test]
    async fn panicking_decoder_leaves_an_error_and_refetches() {
        let (shared, tp, version) = Shared::at_start(64 << 20);
        shared.lock().defer_decode(pending(&tp, version));
        shared.lock().cursors.get_mut(&tp).unwrap().fetch_offset = Some(9);
        let job = DecodeJob::next(&shared).unwrap();
        let failed = std::thread::spawn(move || {
            let _job = job;
            std::panic::panic_any("out of luck");
        });
        assert!(failed.join().is_err());
        let now = tokio::time::Instant::now();
        let error = shared.poll(9, now).await.unwrap().unwrap_err();
        assert!(error.to_string().contains("could not be decoded"), "{error}");
        assert_eq!(shared.lock().cursors[&tp].fetch_offset, Some(0));
    }
}
