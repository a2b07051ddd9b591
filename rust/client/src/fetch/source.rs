//! A task per broker: ask, cut the answer by partition, ask again while the last answer is decoded.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use samsarrow_arrow::decode::Decoder;
use samsarrow_wire::batch::batches;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::FetchRequest;
use tokio::task::{JoinHandle, JoinSet};

use super::cursor::Start;
use super::decode::{decode, decoder};
use super::positions::Positioner;
use super::queue::Item;
use super::request::{Asked, Idle, Outcome, Part, build, limit, plan, read};
use super::state::{RETRY, Shared};
use crate::cluster::{Cluster, Lane};
use crate::config::{ConsumerOptions, OffsetReset, Options};
use crate::error::Error;
use crate::group::coordinator::Coordinator;
use crate::types::TopicPartition;

/// All tasks of a consumer; they end when it is dropped.
#[derive(Debug)]
pub(crate) struct Fetcher {
    pub(crate) shared: Arc<Shared>,
    tasks: Mutex<Option<JoinSet<()>>>,
    parts: Mutex<Option<(Positioner, Arc<Source>)>>,
}

impl Fetcher {
    /// Nothing runs before the first call of `start`.
    pub(crate) fn new(cluster: &Cluster, coordinator: Option<Coordinator>, options: &Options) -> Self {
        let shared = Arc::new(Shared::new());
        let positioner = Positioner {
            shared: Arc::clone(&shared),
            cluster: cluster.clone(),
            coordinator,
            reset: options.consumer.auto_offset_reset,
            isolation: options.consumer.isolation_level,
            timeout: options.common.default_api_timeout,
        };
        let source = Source {
            shared: Arc::clone(&shared),
            cluster: cluster.lane(Lane::Fetch),
            options: options.consumer.clone(),
        };
        Self { shared, tasks: Mutex::default(), parts: Mutex::new(Some((positioner, Arc::new(source)))) }
    }

    /// Starts the tasks, once. Must be called within a tokio runtime.
    pub(crate) fn start(&self) {
        let Some((positioner, source)) = self.parts.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(positioner.run());
        tasks.spawn(supervise(source));
        *self.tasks.lock().unwrap_or_else(PoisonError::into_inner) = Some(tasks);
    }

    /// Ends the tasks.
    pub(crate) fn stop(&self) {
        self.shared.close();
        // Dropping the set aborts what is in it.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

#[derive(Debug)]
struct Source {
    shared: Arc<Shared>,
    cluster: Cluster,
    options: ConsumerOptions,
}

/// Keeps one task running for every broker that leads an assigned partition, and metadata known for all of them.
async fn supervise(source: Arc<Source>) {
    let mut work = source.shared.work();
    let mut metadata_changes = source.cluster.watch();
    let mut served = HashSet::new();
    // Dropping the set, as this task ends, ends the others.
    let mut brokers = JoinSet::new();
    loop {
        work.borrow_and_update();
        let metadata = metadata_changes.borrow_and_update().clone();
        let assigned = {
            let state = source.shared.lock();
            if state.closed {
                return;
            }
            let placed = state.cursors.iter().filter(|(_, c)| c.fetch_offset.is_some() && !c.failed);
            placed.map(|(tp, c)| (tp.clone(), c.version)).collect::<Vec<_>>()
        };
        let mut leaderless = Vec::new();
        for (tp, version) in assigned {
            match metadata.leader(&tp.topic, tp.partition) {
                Some(leader) if served.insert(leader.node) => {
                    let source = Arc::clone(&source);
                    brokers.spawn(async move { source.run(leader.node).await });
                }
                Some(_) => {}
                None => leaderless.push((tp, version)),
            }
        }
        tokio::select! {
            _ = work.changed() => {}
            _ = metadata_changes.changed() => {}
            () = source.find_leaders(&leaderless), if !leaderless.is_empty() => {}
        }
    }
}

impl Source {
    /// Asks for the metadata of partitions that have no leader; one that does not exist fails.
    async fn find_leaders(&self, leaderless: &[(TopicPartition, u64)]) {
        let mut topics: Vec<&str> = leaderless.iter().map(|(tp, _)| &*tp.topic).collect();
        topics.sort_unstable();
        topics.dedup();
        let patience = self.cluster.options().default_api_timeout;
        for topic in topics {
            let found = self.cluster.topics(&[topic], patience).await;
            let mut state = self.shared.lock();
            for (tp, version) in leaderless.iter().filter(|(tp, _)| &*tp.topic == topic) {
                let error = match &found {
                    Ok(metadata) if metadata.partition(topic, tp.partition).is_some() => continue,
                    Ok(_) => {
                        let context = format!("{tp} (the topic has fewer partitions)");
                        Error::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, context)
                    }
                    Err(error) => error.clone(),
                };
                if let Some(cursor) = state.at_version(tp, *version) {
                    cursor.failed = true;
                    state.queue.push_back(Item::PartitionError(tp.clone(), *version, error));
                }
            }
            drop(state);
            self.shared.ring_ready();
        }
        // Known, but without a leader: an election takes its time.
        self.cluster.request_refresh();
        tokio::time::sleep(self.cluster.options().retry_backoff_max).await;
    }

    /// Rounds at one broker, for as long as the consumer lives. It idles while the broker leads nothing of ours.
    async fn run(&self, node: i32) {
        let mut work = self.shared.work();
        let mut metadata_changes = self.cluster.watch();
        let mut decoding: Option<JoinHandle<Decoder>> = None;
        let mut spare = Some(decoder(&self.options));
        let mut backoff = self.cluster.backoff();
        let mut turn = 0;
        loop {
            work.borrow_and_update();
            let metadata = metadata_changes.borrow_and_update().clone();
            let round = match plan(&self.shared, &metadata, node, &self.options, turn) {
                Ok(round) => round,
                Err(idle) => {
                    let pause = match idle {
                        Idle::Wait => None,
                        Idle::Until(at) => Some(tokio::time::Instant::from_std(at)),
                    };
                    let until = async {
                        match pause {
                            Some(at) => tokio::time::sleep_until(at).await,
                            None => std::future::pending().await,
                        }
                    };
                    tokio::select! {
                        _ = work.changed() => {}
                        _ = metadata_changes.changed() => {}
                        () = until => {}
                    }
                    continue;
                }
            };
            turn = turn.wrapping_add(1);
            let reserved = Reservation { shared: &self.shared, bytes: round.max_bytes as usize };
            let time = limit(&self.options, self.cluster.options().request_timeout);
            let answer = self
                .cluster
                .send_with::<FetchRequest>(node, time, |version| build(&round, version, &metadata, &self.options))
                .await;
            // Answers are decoded in their order, one after the other.
            if let Some(running) = decoding.take() {
                spare = running.await.ok();
            }
            let parts = match answer {
                Ok((_, response)) => match ErrorCode::from_i16(response.error_code).ok() {
                    Ok(()) => {
                        backoff.reset();
                        self.advance(read(round, response, &self.cluster.metadata(), &self.options))
                    }
                    Err(code) => {
                        self.all_failed(&round.asked, &Error::server(code, format!("Fetch from broker {node}")));
                        tokio::time::sleep(backoff.next_delay()).await;
                        continue;
                    }
                },
                Err(error) => {
                    tracing::debug!(%error, node, "fetch failed");
                    self.all_failed(&round.asked, &error);
                    tokio::time::sleep(backoff.next_delay()).await;
                    continue;
                }
            };
            if parts.is_empty() {
                continue;
            }
            let mut decoder = spare.take().unwrap_or_else(|| decoder(&self.options));
            let (shared, max_rows) = (Arc::clone(&self.shared), self.options.max_poll_records);
            // What is being decoded still counts, as long as it is not in the queue.
            let held = reserved.exchange(parts.iter().map(|part| part.records.len()).sum());
            decoding = Some(tokio::task::spawn_blocking(move || {
                decode(&mut decoder, parts, max_rows, &shared);
                held.release(&shared);
                decoder
            }));
        }
    }

    /// Moves the fetch offsets past what is in an answer, by batch headers alone, so that the next round can start
    /// before this one is decoded. What was fetched for a cursor that has moved since is dropped.
    fn advance(&self, outcomes: Vec<Outcome>) -> Vec<Part> {
        let patience = self.cluster.options().default_api_timeout;
        let mut parts = Vec::new();
        let mut refresh = false;
        {
            let mut state = self.shared.lock();
            for outcome in outcomes {
                match outcome {
                    Outcome::Records(part) => {
                        let tp = part.asked.tp.clone();
                        let (next, stuck) = progress(&part, self.options.max_partition_fetch_bytes as usize);
                        let current = state.at_version(&tp, part.asked.version);
                        let Some(cursor) = current.filter(|c| c.fetch_offset == Some(part.asked.offset)) else {
                            continue;
                        };
                        match stuck {
                            None => {}
                            Some(Stuck::Cut) => {
                                cursor.retry_at = Some(Instant::now() + RETRY);
                                continue;
                            }
                            Some(Stuck::For(error)) => {
                                cursor.failed = true;
                                state.queue.push_back(Item::PartitionError(tp, part.asked.version, error));
                                continue;
                            }
                        }
                        cursor.failing = None;
                        cursor.fetch_offset = Some(next);
                        parts.push(part);
                    }
                    Outcome::Empty(asked) => {
                        if let Some(cursor) = state.at_version(&asked.tp, asked.version) {
                            cursor.failing = None;
                        }
                    }
                    Outcome::OutOfRange(asked, first, last) => self.out_of_range(&mut state, &asked, first, last),
                    Outcome::Failed(asked, error, hint) => {
                        refresh |= error.refresh_metadata();
                        if let Some(leader) = hint {
                            self.cluster.update_leader(&asked.tp.topic, asked.tp.partition, leader);
                        }
                        state.partition_failed(&asked.tp, asked.version, error, patience);
                    }
                }
            }
        }
        if refresh {
            self.cluster.request_refresh();
        }
        self.shared.ring_ready();
        parts
    }

    fn out_of_range(&self, state: &mut super::state::State, asked: &Asked, first: i64, last: i64) {
        let Some(cursor) = state.at_version(&asked.tp, asked.version) else { return };
        if self.options.auto_offset_reset == OffsetReset::None {
            cursor.failed = true;
            let error = Error::OffsetOutOfRange(format!(
                "{}: offset {} is not in the log, which has {first} to {last}, and auto.offset.reset is none; seek to an offset \
                 that is there",
                asked.tp, asked.offset
            ));
            state.queue.push_back(Item::PartitionError(asked.tp.clone(), asked.version, error));
            return;
        }
        tracing::warn!(tp = %asked.tp, offset = asked.offset, first, last, "the offset is not in the log: it is reset");
        cursor.fetch_offset = None;
        cursor.start = Start::Reset;
    }

    fn all_failed(&self, asked: &[Asked], error: &Error) {
        let patience = self.cluster.options().default_api_timeout;
        {
            let mut state = self.shared.lock();
            for one in asked {
                let error = error.clone().context(format!("Fetch of {} at offset {}", one.tp, one.offset));
                state.partition_failed(&one.tp, one.version, error, patience);
            }
        }
        if error.refresh_metadata() {
            self.cluster.request_refresh();
        }
        self.shared.ring_ready();
    }
}

/// Why an answer has bytes of a partition and yet nothing to go on with.
#[derive(Debug, PartialEq, Eq)]
enum Stuck {
    /// The answer was full before this partition's first batch was whole: its turn to be the first will come.
    Cut,
    /// Asking again would bring the same.
    For(Error),
}

/// The offset after the last whole batch: holes, markers and filtered batches are passed by. Bytes that are no batch
/// are left to the decoder to complain of.
fn progress(part: &Part, partition_bytes: usize) -> (i64, Option<Stuck>) {
    let asked = &part.asked;
    let mut next = asked.offset;
    let mut all = batches(part.records.clone());
    for batch in &mut all {
        match batch {
            Ok(batch) => next = next.max(batch.header.next_offset()),
            Err(_) => return (next, None),
        }
    }
    if next > asked.offset {
        return (next, None);
    }
    let size = part.records.len();
    let stuck = if !all.truncated_tail() {
        Stuck::For(Error::corrupt(format!(
            "{} at offset {}: the broker sent only records before this offset; seek past it, or check the log",
            asked.tp, asked.offset
        )))
    } else if asked.first || size >= partition_bytes {
        let context = format!(
            "{} at offset {}: only the first {size} bytes of the record batch came, as it is larger than a fetch may be; \
             raise max.partition.fetch.bytes, fetch.max.bytes and queued.max.bytes, or seek past it",
            asked.tp, asked.offset
        );
        Stuck::For(Error::server(ErrorCode::MESSAGE_TOO_LARGE, context))
    } else {
        Stuck::Cut
    };
    (next, Some(stuck))
}

/// Memory that a request may bring, given back when it is known what it brought.
struct Reservation<'a> {
    shared: &'a Shared,
    bytes: usize,
}

impl Reservation<'_> {
    /// Holds what came instead of what might have come.
    fn exchange(self, came: usize) -> Held {
        let mut state = self.shared.lock();
        state.reserved += came;
        Held(came)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.reserved = state.reserved.saturating_sub(self.bytes);
        drop(state);
        // Other brokers may have waited for this memory, and the positioner for what the answer said.
        self.shared.ring_work();
    }
}

/// Bytes that are being decoded.
struct Held(usize);

impl Held {
    fn release(self, shared: &Shared) {
        let mut state = shared.lock();
        state.reserved = state.reserved.saturating_sub(self.0);
        drop(state);
        shared.ring_work();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::{BufMut, Bytes, BytesMut};

    /// A batch header of one record at `offset`, of `size` bytes in all.
    fn batch(offset: i64, size: usize) -> Bytes {
        let mut out = BytesMut::zeroed(size);
        let mut head = &mut out[..17];
        head.put_i64(offset);
        head.put_i32(size as i32 - 12);
        head.put_i32(0);
        head.put_i8(2);
        out[57..61].copy_from_slice(&1i32.to_be_bytes());
        out.freeze()
    }

    fn stuck(records: Bytes, offset: i64, first: bool) -> (i64, Option<Stuck>) {
        let tp = TopicPartition::new("t", 3);
        progress(&Part { asked: Asked::new(tp, 1, offset, first), records, aborted: None }, 500)
    }

    #[test]
    fn whole_batches_move_on_whatever_follows_them() {
        assert_eq!(stuck(batch(7, 100), 7, true), (8, None));
        let mut cut = batch(7, 100).to_vec();
        cut.extend_from_slice(&batch(8, 100)[..40]);
        assert_eq!(stuck(cut.into(), 5, true), (8, None));
    }

    #[test]
    fn an_answer_that_brings_no_batch_never_loops() {
        let cut = batch(7, 1000).slice(..400);
        assert_eq!(stuck(cut.clone(), 7, false), (7, Some(Stuck::Cut)));
        for (records, first) in [(cut, true), (batch(7, 1000).slice(..500), false)] {
            let (next, Some(Stuck::For(error))) = stuck(records, 7, first) else { panic!("not stuck") };
            let text = error.to_string();
            assert!(
                next == 7 && text.contains("t-3 at offset 7") && text.contains("max.partition.fetch.bytes"),
                "{text}"
            );
        }
        let (_, before) = stuck(batch(3, 100), 7, true);
        assert!(matches!(before, Some(Stuck::For(Error::Corrupt(_)))), "{before:?}");
    }
}
