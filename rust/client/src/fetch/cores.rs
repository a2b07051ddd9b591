//! Compressed chunks decoded on other cores, in a place of the queue that is kept for them (ADR 17).

use std::sync::{Arc, Mutex, PoisonError};

use samsarrow_arrow::decode::Decoder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::decode::{Part, decode, decoder};
use super::queue::Item;
use super::state::Shared;
use crate::config::ConsumerOptions;
use crate::error::Error;

/// More chunks than this at a time cost memory rather than save time: the socket no longer keeps up.
const MOST: usize = 7;

/// What decodes beside the tasks that read.
#[derive(Debug)]
pub(super) struct Cores {
    free: Arc<Semaphore>,
    /// Kept with their codecs' contexts.
    decoders: Arc<Mutex<Vec<Decoder>>>,
}

impl Cores {
    /// All but the one that reads.
    pub(super) fn new() -> Self {
        let others = std::thread::available_parallelism().map_or(1, usize::from) - 1;
        Self { free: Arc::new(Semaphore::new(others.min(MOST))), decoders: Arc::default() }
    }

    /// A free core, if `parts` are worth it: compressed, and not to be told by the batches before them which
    /// transactions are void.
    pub(super) fn free_for(&self, parts: &[Part]) -> Option<OwnedSemaphorePermit> {
        if !parts.iter().any(|part| part.compressed) || parts.iter().any(|part| part.aborted.is_some()) {
            return None;
        }
        Arc::clone(&self.free).try_acquire_owned().ok()
    }

    /// Decodes there. The rows come in the place that the queue's end is now.
    pub(super) fn decode(
        &self,
        core: OwnedSemaphorePermit,
        shared: &Arc<Shared>,
        options: &ConsumerOptions,
        parts: Vec<Part>,
    ) {
        let outlet = Outlet::kept(shared, parts.iter().map(|part| part.records.len()).sum());
        let decoders = Arc::clone(&self.decoders);
        let options = options.clone();
        tokio::task::spawn_blocking(move || {
            let mut decoder = lock(&decoders).pop().unwrap_or_else(|| decoder(&options));
            decode(&mut decoder, parts, options.max_poll_records, &outlet);
            lock(&decoders).push(decoder);
            drop(core);
        });
    }
}

fn lock(decoders: &Mutex<Vec<Decoder>>) -> std::sync::MutexGuard<'_, Vec<Decoder>> {
    decoders.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where decoded chunks go: to the queue's end, or into a place that is kept until it is dropped.
#[derive(Debug)]
pub(super) struct Outlet {
    shared: Arc<Shared>,
    kept: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    number: u64,
    /// Counted as queued until the rows are.
    bytes: usize,
}

impl Outlet {
    pub(super) fn end(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), kept: None }
    }

    fn kept(shared: &Arc<Shared>, bytes: usize) -> Self {
        let number = shared.lock().keep_place(bytes);
        Self { shared: Arc::clone(shared), kept: Some(Kept { number, bytes }) }
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn put(&self, item: Item) {
        {
            let mut state = self.shared.lock();
            let at = match &self.kept {
                None => Some(state.queue.len()),
                Some(kept) => state.place_of(kept.number),
            };
            // No place any more: the consumer was closed.
            let Some(at) = at else { return };
            if let Item::Chunk(chunk) = &item {
                state.queued += chunk.bytes;
            }
            state.queue.insert(at, item);
        }
        self.shared.ring_ready();
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        let Some(kept) = &self.kept else { return };
        if std::thread::panicking() {
            self.put(Item::Error(Error::corrupt("a fetched chunk could not be decoded: its decoder failed")));
        }
        self.shared.lock().give_place_back(kept.number, kept.bytes);
        self.shared.ring_ready();
        self.shared.ring_room();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::queue::{Chunk, Epochs, Segment};
    use crate::types::TopicPartition;
    use arrow_array::RecordBatch;

    fn chunk(tp: &TopicPartition, version: u64, next_offset: i64) -> Item {
        let values: Arc<dyn arrow_array::Array> = Arc::new(arrow_array::Int64Array::from(vec![next_offset - 1]));
        let batch = RecordBatch::try_from_iter([("offset", values)]).unwrap();
        let segments = vec![Segment { tp: tp.clone(), version, rows: 1, next_offset, epochs: Epochs::new(-1, &[]) }];
        Item::Chunk(Chunk { batch, segments, bytes: 10 })
    }

    #[tokio::test]
    async fn rows_keep_their_order_whichever_core_is_faster() {
        let shared = Arc::new(Shared::new());
        let tp = TopicPartition::new("t", 0);
        shared.assign(std::slice::from_ref(&tp));
        shared.seek(&tp, Some(0), None).unwrap();
        let version = shared.lock().cursors[&tp].version;
        let (end, slow, fast) = (Outlet::end(&shared), Outlet::kept(&shared, 5), Outlet::kept(&shared, 5));
        end.put(chunk(&tp, version, 4));
        fast.put(chunk(&tp, version, 3));
        drop(fast);
        let now = tokio::time::Instant::now();
        assert!(shared.poll(9, now, || None, |rows| rows).await.is_none());
        slow.put(chunk(&tp, version, 1));
        slow.put(chunk(&tp, version, 2));
        let next = async || shared.poll(9, now, || None, |rows| rows).await.map(|_| shared.positions()[0].1);
        assert_eq!([next().await, next().await, next().await], [Some(1), Some(2), None]);
        drop(slow);
        assert_eq!([next().await, next().await, next().await], [Some(3), Some(4), None]);
        assert_eq!(shared.lock().queued, 0);
        // Nobody waits for what comes after the end.
        let late = Outlet::kept(&shared, 5);
        shared.close();
        late.put(chunk(&tp, version, 5));
        drop(late);
        let state = shared.lock();
        assert_eq!((state.queue.len(), state.queued), (0, 0));
    }

    #[tokio::test]
    async fn a_decoder_that_fails_leaves_an_error_in_its_place() {
        let shared = Arc::new(Shared::new());
        let kept = Outlet::kept(&shared, 5);
        let failed = std::thread::spawn(move || {
            let _kept = kept;
            std::panic::panic_any("out of luck");
        });
        assert!(failed.join().is_err());
        let now = tokio::time::Instant::now();
        let error = shared.poll(9, now, || None, |rows| rows).await.unwrap().unwrap_err();
        assert!(error.to_string().contains("could not be decoded"), "{error}");
    }
}
