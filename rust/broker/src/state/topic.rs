//! Topics and their partitions.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use samsarrow_wire::batch::EndMarker;
use samsarrow_wire::batch::patch::set_base_offset;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::Uuid;
use samsarrow_wire::sync::lock;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock::now_ms;
use crate::collections::HashMap;
use crate::log::Log;
use crate::log::producers::Producers;

/// Leader id of a partition without a running replica.
pub(crate) const NO_LEADER: i32 = -1;

/// Configs of a topic. The values of all configs that were set are stored as text, and the configs that affect the
/// broker also in parsed form.
#[derive(Debug, Default, Clone)]
pub(crate) struct TopicConfig {
    pub(crate) log_append_time: bool,
    pub(crate) max_message_bytes: Option<usize>,
    pub(crate) given: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: Arc<str>,
    pub(crate) id: Uuid,
    pub(crate) config: TopicConfig,
    pub(crate) replication_factor: i16,
    partitions: Vec<Arc<Partition>>,
}

impl Topic {
    /// Creates a topic. The replicas of partition `p` are on the nodes `replicas[p]`, and the first running node
    /// becomes the leader.
    pub(crate) fn new(name: &str, config: TopicConfig, replicas: Vec<Vec<i32>>, is_up: impl Fn(i32) -> bool) -> Self {
        let mut id = [0; 16];
        fastrand::fill(&mut id);
        let replication_factor = replicas.first().map_or(0, Vec::len);
        Topic {
            name: name.into(),
            id: Uuid(id),
            config,
            replication_factor: i16::try_from(replication_factor).unwrap_or(i16::MAX),
            partitions: replicas
                .into_iter()
                .map(|replicas| {
                    let leader = replicas.iter().copied().find(|node| is_up(*node)).unwrap_or(NO_LEADER);
                    let state = PartitionState {
                        leader,
                        leader_epoch: 0,
                        replicas,
                        preferred: None,
                        log: Log::default(),
                        producers: Producers::default(),
                    };
                    Arc::new(Partition { state: Mutex::new(state), ..Partition::default() })
                })
                .collect(),
        }
    }

    /// Returns a copy of the topic with other configs and with additional partitions. `more` contains the replicas of
    /// each additional partition.
    pub(crate) fn with(&self, config: TopicConfig, more: Vec<Vec<i32>>, is_up: impl Fn(i32) -> bool) -> Self {
        let added = Topic::new(&self.name, TopicConfig::default(), more, is_up).partitions;
        Topic {
            name: Arc::clone(&self.name),
            id: self.id,
            config,
            replication_factor: self.replication_factor,
            partitions: self.partitions.iter().cloned().chain(added).collect(),
        }
    }

    pub(crate) fn partition(&self, index: i32) -> Option<&Arc<Partition>> {
        usize::try_from(index).ok().and_then(|index| self.partitions.get(index))
    }

    /// Returns all partitions, each with its partition index.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = (i32, &Arc<Partition>)> {
        (0_i32..).zip(&self.partitions)
    }

    pub(crate) fn len(&self) -> usize {
        self.partitions.len()
    }
}

#[derive(Debug, Default)]
pub(crate) struct PartitionState {
    pub(crate) leader: i32,
    pub(crate) leader_epoch: i32,
    pub(crate) replicas: Vec<i32>,
    /// Preferred read replica for consumers that have a rack (KIP-392).
    pub(crate) preferred: Option<i32>,
    pub(crate) log: Log,
    pub(crate) producers: Producers,
}

impl PartitionState {
    /// Returns the last stable offset: the first offset of the oldest open transaction, or the log end offset if no
    /// transaction is open.
    pub(crate) fn last_stable_offset(&self) -> i64 {
        self.producers.first_open().unwrap_or_else(|| self.log.next_offset())
    }

    /// Appends encoded batches unchanged, and updates the producer state from them.
    pub(crate) fn load(&mut self, data: &Bytes) {
        let (log, producers) = (&mut self.log, &mut self.producers);
        log.load(data, |batch| producers.replay(batch, Instant::now()));
    }

    /// Truncates the log from the batch that contains `offset`, and rebuilds the producer state from the remaining
    /// batches.
    pub(crate) fn truncate(&mut self, offset: i64) {
        self.log.truncate(offset);
        self.producers = Producers::default();
        for batch in self.log.batches() {
            self.producers.replay(&batch, Instant::now());
        }
    }

    /// Checks a transaction marker and appends it to the log.
    pub(crate) fn end_transaction(&mut self, marker: &EndMarker, bumps: bool) -> Result<(), ErrorCode> {
        self.producers.check_end(marker, bumps)?;
        let now = now_ms();
        let bytes = marker.encode(now).map_err(|error| {
            tracing::error!(%error, "could not encode a transaction marker");
            ErrorCode::UNKNOWN_SERVER_ERROR
        })?;
        let epoch = self.leader_epoch;
        let offset = self.log.append(&bytes, 1, now, |copy, offset| {
            if let Err(error) = set_base_offset(copy, offset, epoch) {
                tracing::error!(%error, "could not set the offset of a transaction marker");
            }
        });
        self.producers.ended(marker, offset, now, Instant::now());
        Ok(())
    }

    /// Checks that `node` is the leader and that `epoch`, the leader epoch known to the client, is current. -1 skips
    /// the check of the epoch.
    pub(crate) fn check_leader(&self, node: i32, epoch: i32) -> Result<(), ErrorCode> {
        if epoch >= 0 && epoch < self.leader_epoch {
            return Err(ErrorCode::FENCED_LEADER_EPOCH);
        }
        if epoch > self.leader_epoch {
            return Err(ErrorCode::UNKNOWN_LEADER_EPOCH);
        }
        if self.leader != node {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        Ok(())
    }

    /// Checks that `node` may serve a consumer's fetch: it must be the leader or the preferred read replica (KIP-392).
    pub(crate) fn check_readable(&self, node: i32, epoch: i32) -> Result<(), ErrorCode> {
        let effective_node = if self.preferred == Some(node) { self.leader } else { node };
        self.check_leader(effective_node, epoch)
    }
}

/// A partition, and the fetches that wait for changes of the partition.
#[derive(Debug, Default)]
pub(crate) struct Partition {
    state: Mutex<PartitionState>,
    deleted: AtomicBool,
    waiters: Mutex<Vec<Arc<Notify>>>,
}

impl Partition {
    pub(crate) fn state(&self) -> MutexGuard<'_, PartitionState> {
        lock(&self.state)
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    pub(crate) fn delete(&self) {
        self.deleted.store(true, Ordering::Release);
        self.wake();
    }

    /// Registers `waiter`, which is notified of appends and leader changes. The caller must check the partition after
    /// this call, because `waiter` is not notified of earlier changes.
    pub(crate) fn register(&self, waiter: &Arc<Notify>) {
        let mut waiters = lock(&self.waiters);
        if !waiters.iter().any(|registered| Arc::ptr_eq(registered, waiter)) {
            waiters.push(waiter.clone());
        }
    }

    pub(crate) fn deregister(&self, waiter: &Arc<Notify>) {
        lock(&self.waiters).retain(|registered| !Arc::ptr_eq(registered, waiter));
    }

    pub(crate) fn wake(&self) {
        for waiter in lock(&self.waiters).drain(..) {
            waiter.notify_one();
        }
    }

    /// Sets the leader that `choose` returns. Bumps the leader epoch if the leader changes.
    pub(crate) fn elect(&self, choose: impl FnOnce(&PartitionState) -> i32) {
        let mut state = self.state();
        let leader = choose(&state);
        if leader != state.leader {
            state.leader = leader;
            state.leader_epoch += 1;
            drop(state);
            self.wake();
        }
    }
}

/// All topics, by name and by id.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    by_name: BTreeMap<Arc<str>, Arc<Topic>>,
    by_id: HashMap<[u8; 16], Arc<Topic>>,
}

impl Topics {
    pub(crate) fn by_name(&self, name: &str) -> Option<&Arc<Topic>> {
        self.by_name.get(name)
    }

    pub(crate) fn by_id(&self, id: &Uuid) -> Option<&Arc<Topic>> {
        self.by_id.get(&id.0)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.by_name.values()
    }

    pub(crate) fn partitions(&self) -> usize {
        self.by_name.values().map(|topic| topic.len()).sum()
    }

    pub(crate) fn insert(&mut self, topic: Arc<Topic>) {
        self.by_id.insert(topic.id.0, topic.clone());
        self.by_name.insert(topic.name.clone(), topic);
    }

    pub(crate) fn remove(&mut self, topic: &Topic) {
        self.by_id.remove(&topic.id.0);
        // The name may already belong to a topic that was created later, whose entry must stay.
        if self.by_name.get(&topic.name).is_some_and(|named| named.id == topic.id) {
            self.by_name.remove(&topic.name);
        }
        for (_, partition) in topic.partitions() {
            partition.delete();
        }
    }
}
