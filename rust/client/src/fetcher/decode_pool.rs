//! Chunks that are decoded on other cores, in a place of the queue that is kept for them (ADR 17).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use samsarrow_arrow::decode::Decoder;
use tokio::sync::Semaphore;

use super::chunk_sink::Outlet;
use super::decode::{decode, decoder};
use super::partition_records::Part;
use super::queue::Item;
use super::shared_state::Shared;
use crate::config::ConsumerOptions;
use crate::error::Error;
use crate::types::TopicPartition;

/// More chunks than this at a time cost memory rather than save time: the socket no longer keeps up.
const MOST: usize = 7;

/// Decoding tasks beside the fetch tasks.
#[derive(Debug)]
pub(super) struct Cores {
    shared: Arc<Shared>,
    options: ConsumerOptions,
    free: Arc<Semaphore>,
    /// Kept with their codecs' contexts.
    decoders: Mutex<Vec<Decoder>>,
}

impl Cores {
    /// All but the one that reads.
    pub(super) fn new(shared: &Arc<Shared>, options: &ConsumerOptions) -> Self {
        let others = std::thread::available_parallelism().map_or(1, usize::from) - 1;
        Self {
            shared: Arc::clone(shared),
            options: options.clone(),
            free: Arc::new(Semaphore::new(others.clamp(1, MOST))),
            decoders: Mutex::default(),
        }
    }

    /// Decodes there what waits for it, as far as cores are free and memory allows.
    pub(super) fn decode(self: &Arc<Self>) {
        while let Ok(core) = Arc::clone(&self.free).try_acquire_owned() {
            let Some(job) = Job::next(&self.shared) else { return };
            let this = Arc::clone(self);
            tokio::task::spawn_blocking(move || {
                let pooled = lock(&this.decoders).pop();
                let mut decoder = pooled.unwrap_or_else(|| decoder(&this.options, &this.shared));
                job.run(&mut decoder);
                lock(&this.decoders).push(decoder);
                drop(core);
                this.decode();
            });
        }
    }

    /// Decodes waiting records whenever polls have freed capacity.
    pub(super) async fn run(self: Arc<Self>) {
        let mut room = self.shared.room();
        while room.changed().await.is_ok() {
            self.decode();
        }
    }
}

fn lock(decoders: &Mutex<Vec<Decoder>>) -> std::sync::MutexGuard<'_, Vec<Decoder>> {
    decoders.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One place that is being decoded.
#[derive(Debug)]
pub(super) struct Job {
    outlet: Outlet,
    number: u64,
    parts: VecDeque<Part>,
    /// Whose they are.
    of: Vec<(TopicPartition, u64)>,
}

impl Job {
    /// Returns the next item for which there is capacity.
    pub(super) fn next(shared: &Arc<Shared>) -> Option<Job> {
        let (number, parts) = shared.lock().unpack()?;
        let of = parts.iter().map(|part| (part.tp.clone(), part.version)).collect();
        Some(Job { outlet: Outlet::before(shared, number), number, parts, of })
    }

    /// Decodes until all is done or memory is full.
    pub(super) fn run(mut self, decoder: &mut Decoder) {
        let shared = Arc::clone(self.outlet.shared());
        decode(decoder, &mut self.parts, &self.outlet, || shared.lock().may_go_on());
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let shared = self.outlet.shared();
        if std::thread::panicking() {
            self.outlet.put(Item::Error(Error::corrupt("a fetched chunk could not be decoded: its decoder failed")));
            let mut state = shared.lock();
            state.lost(&self.of);
            state.put_back(self.number, VecDeque::new());
            drop(state);
            shared.ring_work();
        } else {
            shared.lock().put_back(self.number, std::mem::take(&mut self.parts));
            shared.ring_room();
        }
        shared.ring_ready();
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

    fn packed(tp: &TopicPartition, version: u64) -> VecDeque<Part> {
        let records = vec![0; 5].into();
        let epochs = Epochs::new(-1, &[]);
        let part = Part { tp: tp.clone(), version, from: 0, epochs, records, compressed: true, aborted: None };
        VecDeque::from([part])
    }

    /// As if its parts were decoded by other means.
    fn done(mut job: Job) {
        job.parts.clear();
    }

    #[tokio::test]
    async fn rows_keep_their_order_whichever_core_is_faster() {
        let (shared, tp, version) = Shared::at_start(64 << 20);
        Outlet::end(&shared).put(chunk(&tp, version, 4));
        let mut jobs = [(); 2].map(|()| {
            shared.lock().pack(packed(&tp, version));
            Job::next(&shared)
        });
        let [slow, fast] = [jobs[0].take().unwrap(), jobs[1].take().unwrap()];
        fast.outlet.put(chunk(&tp, version, 6));
        done(fast);
        let now = tokio::time::Instant::now();
        let next = async || shared.poll(9, now).await.map(|_| shared.positions()[0].1);
        assert_eq!([next().await, next().await], [Some(4), None]);
        slow.outlet.put(chunk(&tp, version, 1));
        slow.outlet.put(chunk(&tp, version, 2));
        assert_eq!([next().await, next().await, next().await], [Some(1), Some(2), None]);
        done(slow);
        assert_eq!([next().await, next().await], [Some(6), None]);
        assert_eq!(shared.lock().queued, 0);
        // Records past the end of bounded reading are not needed.
        shared.lock().pack(packed(&tp, version));
        let late = Job::next(&shared).unwrap();
        shared.close();
        late.outlet.put(chunk(&tp, version, 5));
        drop(late);
        let state = shared.lock();
        assert_eq!((state.queue.len(), state.queued), (0, 0));
    }

    #[tokio::test]
    async fn what_has_no_room_is_decoded_as_polls_come_to_it() {
        let (shared, tp, version) = Shared::at_start(4);
        let room = shared.room();
        (0..2).for_each(|_| shared.lock().pack(packed(&tp, version)));
        // The first item is decoded even without capacity, one chunk at a time.
        let first = Job::next(&shared).unwrap();
        assert!(Job::next(&shared).is_none());
        first.outlet.put(chunk(&tp, version, 1));
        assert!(!shared.lock().may_go_on());
        drop(first);
        assert!(Job::next(&shared).is_none() && shared.lock().places.any_packed());
        let now = tokio::time::Instant::now();
        assert!(shared.poll(9, now).await.is_some());
        assert!(room.has_changed().unwrap());
        done(Job::next(&shared).unwrap());
        done(Job::next(&shared).unwrap());
        let state = shared.lock();
        assert_eq!((state.queue.len(), state.queued, state.places.any_packed()), (0, 0, false));
    }

    #[tokio::test]
    async fn polls_wake_those_alone_who_can_use_the_room() {
        let (shared, tp, version) = Shared::at_start(100);
        let mut of = |bytes| {
            let mut item = chunk(&tp, version, 4);
            if let Item::Chunk(chunk) = &mut item {
                chunk.bytes = bytes;
            }
            Outlet::end(&shared).put(item);
        };
        [30, 30, 30, 10].into_iter().for_each(&mut of);
        let mut room = shared.room();
        let mut rings = || {
            room.mark_unchanged();
            assert!(shared.take(Some(9), || None, |rows| rows).is_some());
            room.has_changed().unwrap()
        };
        assert!(!rings(), "nobody waits");
        shared.lock().idles(80);
        // Of 100, 40 are queued, and then 10.
        assert_eq!([rings(), rings()], [false, true]);
        assert!(!rings(), "who was woken waits again by asking again");
        of(200);
        shared.lock().idles(80);
        assert!(rings(), "nothing is queued");
        of(1);
        shared.lock().idles(80);
        shared.lock().idles(0);
        assert!(rings(), "one waits for any poll");
    }

    #[tokio::test]
    async fn rows_that_nobody_wants_now_make_room_for_others() {
        let (shared, tp, version) = Shared::at_start(64);
        let nothing = || shared.take(Some(9), || None, |rows| rows).is_none();
        let one = std::slice::from_ref(&tp);
        // Of a paused partition, and from before a seek.
        let pause = || shared.set_paused(one, true);
        let seek = || shared.seek(&[(tp.clone(), Some(7), None)]);
        for unwant in [&pause as &dyn Fn() -> crate::error::Result<()>, &seek] {
            Outlet::end(&shared).put(chunk(&tp, version, 4));
            unwant().unwrap();
            shared.lock().idles(0);
            let mut room = shared.room();
            assert!(nothing() && room.has_changed().unwrap());
            room.mark_unchanged();
            assert!(nothing() && !room.has_changed().unwrap(), "nothing was there");
        }
    }

    #[tokio::test]
    async fn a_place_that_is_first_now_is_decoded_for_polls_that_do_not_wait() {
        let (shared, tp, version) = Shared::at_start(4);
        let mut of_no_size = chunk(&tp, version, 4);
        if let Item::Chunk(chunk) = &mut of_no_size {
            chunk.bytes = 0;
        }
        Outlet::end(&shared).put(of_no_size);
        shared.lock().pack(packed(&tp, version));
        assert!(Job::next(&shared).is_none(), "no room behind rows that wait");
        shared.seek(&[(tp, Some(7), None)]).unwrap();
        let room = shared.room();
        assert!(shared.take(Some(9), || None, |rows| rows).is_none());
        assert!(room.has_changed().unwrap());
        done(Job::next(&shared).unwrap());
    }

    #[tokio::test]
    async fn a_decoder_that_fails_leaves_an_error_in_its_place_and_nothing_lost() {
        let (shared, tp, version) = Shared::at_start(64 << 20);
        shared.lock().pack(packed(&tp, version));
        shared.lock().cursors.get_mut(&tp).unwrap().fetch_offset = Some(9);
        let job = Job::next(&shared).unwrap();
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
