//! Queues of all partitions, behind one lock that is held briefly.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::batch::{Append, BatchBuilder, BatchOptions};
use tokio::time::Instant;

use super::batch::{Batch, Payload, ProducerIdAndEpoch};
use super::delivery::{Delivery, Part};
use super::delivery_state::BatchState;
use super::metrics::Counters;
use super::partitioner::{Choices, Partitioning};
use super::queue::{PartitionQueue, Rules};
use super::record::RecordRef;
use super::topic::{Slot, Topic, no_such_partition};
use super::transactions::state::Transaction;
use crate::cluster::metadata::Metadata;
use crate::collections::HashMap;
use crate::defects::Defect;
use crate::error::{Error, Result};

/// Maximum number of bytes in a row for one partition, of records without a key. This is the default `batch.size` of
/// Java's producer, so that records spread over partitions as with that producer, although batches may be larger.
const STICKY_BYTES: usize = 16 * 1024;

/// Limits and partitioning of a producer, constant after its creation.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) batch_size: usize,
    pub(crate) max_request_size: usize,
    pub(crate) max_in_flight: usize,
    pub(crate) partitioning: Partitioning,
    /// Rack whose brokers receive the records without a key (KIP-1123).
    pub(crate) rack: Option<Arc<str>>,
}

#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) in_flight: usize,
    pub(super) throttled_until: Option<Instant>,
    /// Time at which batches began to wait for the broker without being sent.
    pub(super) stalled_since: Option<Instant>,
    /// Number of records in the last request.
    pub(super) last_records: usize,
    /// Time at which the last request was complete.
    pub(super) last_completed: Option<Instant>,
}

/// Number of records in a request from which on the next records linger for more.
const STREAM_RECORDS: usize = 8;

impl Node {
    /// Returns true if records for this broker are sent at once instead of lingering, if `linger.ms` is not set.
    ///
    /// While a request is in flight, the next batches fill, as with Nagle's algorithm. Requests of a fast stream of
    /// records would stay small in this way, because a broker responds in less time than `linger.ms`. Therefore records
    /// that follow a request with many records linger.
    pub(super) fn sends_at_once(&self, now: Instant, linger: Duration) -> bool {
        let streams = self.last_records >= STREAM_RECORDS
            && self.last_completed.is_some_and(|completed| now.saturating_duration_since(completed) < linger);
        self.in_flight == 0 && !streams
    }
}

/// Error of [`Accumulator::append`].
#[derive(Debug)]
pub(crate) enum AppendError {
    NeedsMetadata,
    Failed(Error),
}

/// True if the sender must be woken to drain the queues.
pub(crate) type Wake = bool;

#[derive(Debug)]
pub(crate) struct Accumulator {
    pub(crate) rules: Rules,
    pub(crate) limits: Limits,
    pub(super) topics: Vec<Topic>,
    pub(super) index: HashMap<Arc<str>, usize>,
    /// Index of the topic of the last record. It is checked first, because most applications write to one topic.
    last_topic: usize,
    /// Partitions with batches.
    pub(super) active: Vec<Slot>,
    pub(super) nodes: HashMap<i32, Node>,
    incomplete: BTreeMap<u64, Arc<BatchState>>,
    next_state: u64,
    pub(crate) identity: Option<ProducerIdAndEpoch>,
    /// State of transactions, for a producer with a `transactional.id`.
    pub(crate) transaction: Option<Transaction>,
    pub(crate) flushing: usize,
    pub(crate) counters: Counters,
    /// True once the producer rejects further records.
    pub(crate) closed: bool,
    /// Time at which the sender will wake without a notification.
    pub(super) sender_wakes_at: Option<Instant>,
}

impl Accumulator {
    pub(crate) fn new(rules: Rules, limits: Limits) -> Self {
        Self {
            rules,
            limits,
            topics: Vec::new(),
            index: HashMap::default(),
            last_topic: 0,
            active: Vec::new(),
            nodes: HashMap::default(),
            incomplete: BTreeMap::new(),
            next_state: 0,
            identity: None,
            transaction: None,
            flushing: 0,
            counters: Counters::default(),
            closed: false,
            sender_wakes_at: None,
        }
    }

    /// Returns the index of a topic, if its partitions are known.
    pub(crate) fn find(&mut self, name: &str) -> Option<usize> {
        if self.topics.get(self.last_topic).is_some_and(|topic| *topic.name == *name) {
            return Some(self.last_topic);
        }
        let index = self.index.get(name).copied();
        if let Some(index) = index {
            self.last_topic = index;
        }
        index
    }

    pub(crate) fn topic(&self, index: usize) -> Option<&Topic> {
        self.topics.get(index)
    }

    /// Updates leaders and partition counts from the cluster's metadata. A topic that is missing from one response
    /// keeps its partitions and their sequences, because brokers send such responses occasionally while they start.
    pub(crate) fn update(&mut self, metadata: &Metadata) {
        for topic in &mut self.topics {
            topic.update(metadata, self.limits.rack.as_deref());
        }
    }

    /// Adds or updates a topic from the cluster's metadata. Returns the index of the topic, or `None` if no partitions
    /// are known.
    pub(crate) fn add_topic(&mut self, name: &Arc<str>, metadata: &Metadata) -> Option<usize> {
        if metadata.topic(name).is_none_or(|topic| topic.partitions.is_empty()) {
            return None;
        }
        let at = match self.index.get(name) {
            Some(at) => *at,
            None => {
                let name = Arc::clone(name);
                self.index.insert(Arc::clone(&name), self.topics.len());
                self.topics.push(Topic::new(name, self.counters.windows));
                self.topics.len() - 1
            }
        };
        self.topics.get_mut(at)?.update(metadata, self.limits.rack.as_deref());
        Some(at)
    }

    /// Returns the topics that were written to since the last call, and the topics with pending batches.
    pub(crate) fn topics_in_use(&mut self) -> Vec<Arc<str>> {
        for slot in &self.active {
            if let Some(topic) = self.topics.get_mut(slot.topic) {
                topic.written = true;
            }
        }
        let written = |topic: &mut Topic| std::mem::take(&mut topic.written).then(|| Arc::clone(&topic.name));
        self.topics.iter_mut().filter_map(written).collect()
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed { Err(Error::closed("the producer")) } else { Ok(()) }
    }

    /// Checks that a record may be appended now.
    #[inline]
    pub(crate) fn check_state(&self) -> Result<()> {
        self.check_open()?;
        self.transaction.as_ref().map_or(Ok(()), |transaction| transaction.check_state("send"))
    }

    /// Returns the number of the current or last transaction; 0 for a producer without a `transactional.id`.
    pub(crate) fn transaction_number(&self) -> u64 {
        self.transaction.as_ref().map_or(0, Transaction::number)
    }

    /// Checks that a record of this transaction may be appended now. While a send call waits for memory, its
    /// transaction may end and another transaction may begin, which must not contain records of that call.
    pub(crate) fn check_transaction(&self, transaction: u64) -> Result<()> {
        self.check_state()?;
        if self.transaction_number() == transaction {
            return Ok(());
        }
        let text = "the record was not sent: the transaction in which its send call began has ended";
        Err(Error::Aborted(text.into()))
    }

    /// Appends one record, whose bytes are already reserved.
    pub(crate) fn append(
        &mut self,
        record: RecordRef<'_>,
        timestamp: i64,
        reserved: usize,
    ) -> std::result::Result<(Delivery, Wake), AppendError> {
        self.check_state().map_err(AppendError::Failed)?;
        let index = self.find(record.topic).ok_or(AppendError::NeedsMetadata)?;
        let count = self.topics.get(index).ok_or(AppendError::NeedsMetadata)?.count;
        let partition = match record.partition {
            Some(partition) => partition,
            None => self.choose_partition(index, record.key, reserved),
        };
        let slot = match usize::try_from(partition) {
            Ok(partition) if partition < count => Slot { topic: index, partition },
            // The partition may be new, so `Shared::ensure_partition` requests metadata for the topic.
            Ok(_) => return Err(AppendError::NeedsMetadata),
            Err(_) => return Err(AppendError::Failed(no_such_partition(record.topic, partition, count))),
        };
        let headers = record.headers.iter().map(|(name, value)| (name.as_bytes(), value.as_deref()));
        self.append_row(slot, timestamp, record.key, record.value, headers, reserved).map_err(AppendError::Failed)
    }

    /// Chooses the partition for a record of `bytes` bytes that specifies no partition.
    pub(crate) fn choose_partition(&mut self, index: usize, key: Option<&[u8]>, bytes: usize) -> i32 {
        let partitioning = self.limits.partitioning;
        let switch_at = partitioning.switch_at(self.limits.batch_size.min(STICKY_BYTES));
        let Some(topic) = self.topics.get_mut(index) else { return 0 };
        if let Some(decided) = partitioning.by_key(key, topic.count()) {
            return decided;
        }
        if let Some(current) = topic.sticky.current_for(bytes, switch_at) {
            return current;
        }
        let choices = self.choices(index);
        self.topics.get_mut(index).map_or(0, |topic| topic.sticky.switch(&partitioning, &choices, bytes))
    }

    /// Returns the partitions to which records without a key may be sent now.
    pub(crate) fn choices(&self, index: usize) -> Choices {
        let Some(topic) = self.topics.get(index) else { return Choices::default() };
        let Partitioning { adaptive, availability_timeout, .. } = self.limits.partitioning;
        let stalled = |leader: Option<i32>| {
            let since = leader.and_then(|leader| self.nodes.get(&leader)).and_then(|node| node.stalled_since);
            availability_timeout
                .zip(since)
                .is_some_and(|(availability_timeout, since)| since.elapsed() > availability_timeout)
        };
        let queues = |from: &'_ [i32], avoid: bool| -> Vec<(i32, usize)> {
            let queue = |partition: &i32| {
                let queue = topic.partitions.get(usize::try_from(*partition).ok()?)?;
                (!avoid || !stalled(queue.leader)).then(|| (*partition, queue.waiting()))
            };
            from.iter().filter_map(queue).collect()
        };
        let avoids = availability_timeout.is_some();
        // As in Java's client, a stalled broker of the own rack is avoided in favor of another rack.
        let candidates = [(&topic.in_rack, avoids), (&topic.available, avoids), (&topic.available, false)];
        let found = candidates.into_iter().map(|(from, avoid)| queues(from, avoid)).find(|found| !found.is_empty());
        Choices::new(found.unwrap_or_default().into_iter(), topic.count(), adaptive)
    }

    /// Appends one row to the open batch of its partition.
    pub(crate) fn append_row<'h>(
        &mut self,
        slot: Slot,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = (&'h [u8], Option<&'h [u8]>)> + Clone,
        reserved: usize,
    ) -> Result<(Delivery, Wake)> {
        let mut wake = false;
        // If the open batch is full, it is closed and the record is appended to a new batch, in which the first record
        // always fits.
        for _ in 0..2 {
            let (topic_name, queue) = self.queue(slot)?;
            if queue.open.is_none() {
                let topic_name = Arc::clone(topic_name);
                wake |= self.open_batch(slot, topic_name);
            }
            let (_, queue) = self.queue(slot)?;
            let Some(batch) = queue.open.as_mut() else { continue };
            let Payload::Draft(builder) = &mut batch.payload else { continue };
            match builder.append(timestamp, key, value, headers.clone()) {
                Ok(Append::Added(index)) => {
                    let index = index as u32;
                    batch.count = index + 1;
                    batch.reserved += reserved;
                    let delivery = Delivery { state: Arc::clone(&batch.state), index, timestamp };
                    queue.add_records(1);
                    return Ok((delivery, wake));
                }
                Ok(Append::Full) => {
                    queue.close_open();
                    wake = true;
                }
                Err(error) => return Err(Error::configuration(format!("cannot encode the record: {error}"))),
            }
        }
        Err(Error::configuration("the record does not fit into an empty batch: raise batch.size"))
    }

    fn queue(&mut self, slot: Slot) -> Result<(&Arc<str>, &mut PartitionQueue)> {
        let topic = self.topics.get_mut(slot.topic).ok_or_else(|| Error::closed("the topic's queue"))?;
        let queue = topic.partitions.get_mut(slot.partition).ok_or_else(|| Error::closed("the partition's queue"))?;
        Ok((&topic.name, queue))
    }

    fn new_state(&mut self, topic: Arc<str>, partition: usize) -> Arc<BatchState> {
        let state = Arc::new(BatchState::new(topic, partition as i32, self.next_state));
        self.incomplete.insert(self.next_state, Arc::clone(&state));
        self.next_state += 1;
        state
    }

    fn open_batch(&mut self, slot: Slot, topic: Arc<str>) -> Wake {
        let created = Instant::now();
        let deadline = created + self.rules.delivery_timeout;
        let due = created + self.rules.linger;
        let state = self.new_state(topic, slot.partition);
        let accepted = self.topics.get(slot.topic).map_or(usize::MAX, |topic| topic.accepted_batch_size);
        let max_bytes = self.limits.batch_size.min(accepted);
        let payload =
            Payload::Draft(Box::new(BatchBuilder::new(BatchOptions { max_bytes, ..BatchOptions::default() })));
        let mut leader = None;
        if let Ok((_, queue)) = self.queue(slot) {
            leader = queue.leader;
            let order = queue.next_order();
            queue.open = Some(Batch::new(order, state, 0, created, deadline, payload, 0));
            self.activate(slot);
        }
        self.sender_wakes_at.is_none_or(|at| due < at)
            || leader.is_some_and(|leader| self.sends_at_once(leader, created))
    }

    /// Returns true if lingering batches for the broker `node` are sent now.
    pub(super) fn sends_at_once(&self, node: i32, now: Instant) -> bool {
        let Rules { adaptive_linger, linger, .. } = self.rules;
        adaptive_linger && self.nodes.get(&node).is_none_or(|node| node.sends_at_once(now, linger))
    }

    /// Limits later batches for a topic to the size of the parts of a batch that the broker has rejected as too large.
    /// Otherwise each later batch would be sent, rejected and split in the same way.
    pub(super) fn limit_batch_size(&mut self, slot: Slot, parts: &[Batch]) {
        if let Some(topic) = self.topics.get_mut(slot.topic)
            && let Some(size) = parts.iter().map(Batch::size).max()
        {
            topic.accepted_batch_size = topic.accepted_batch_size.min(size);
        }
    }

    /// Queues a batch that was built elsewhere, behind all queued records.
    pub(crate) fn push_built(
        &mut self,
        slot: Slot,
        count: u32,
        rows: Range<u64>,
        payload: Payload,
        reserved: usize,
    ) -> Result<Part> {
        self.check_state()?;
        let topic = Arc::clone(self.queue(slot)?.0);
        let created = Instant::now();
        let deadline = created + self.rules.delivery_timeout;
        let state = self.new_state(topic, slot.partition);
        let part = Part { state: Arc::clone(&state), first: 0, count, rows };
        let (_, queue) = self.queue(slot)?;
        queue.close_open();
        let order = queue.next_order();
        queue.add_records(count);
        queue.push(Batch::new(order, state, count, created, deadline, payload, reserved));
        self.activate(slot);
        Ok(part)
    }

    fn activate(&mut self, slot: Slot) {
        if let Some(topic) = self.topics.get_mut(slot.topic) {
            topic.written = true;
        }
        if let Ok((_, queue)) = self.queue(slot)
            && !queue.active
        {
            queue.active = true;
            self.active.push(slot);
        }
    }

    /// Records that a request to `node` is complete, with or without a response.
    pub(crate) fn request_completed(&mut self, node: i32, throttle: Duration) {
        let node = self.nodes.entry(node).or_default();
        let now = Instant::now();
        node.in_flight = node.in_flight.saturating_sub(1);
        node.last_completed = Some(now);
        if !throttle.is_zero() {
            node.throttled_until = Some(now + throttle);
        }
    }

    /// Returns the queue of a drained batch.
    pub(crate) fn queue_of(&mut self, slot: Slot) -> Option<(&mut PartitionQueue, &Rules)> {
        let queue = self.topics.get_mut(slot.topic)?.partitions.get_mut(slot.partition)?;
        Some((queue, &self.rules))
    }

    /// Begins the next epoch of the producer ID if the partition has invalidated the current one.
    ///
    /// Like Java's client, keeps the producer ID (KIP-360): once the leader has appended a batch of the new epoch, it
    /// rejects batches of the old one. A batch that expired while its request was in flight could otherwise be appended
    /// behind later records. A new producer ID is requested only after the last epoch.
    pub(crate) fn replace_invalid_identity(&mut self, slot: Slot) {
        let invalid_identity = self.queue_of(slot).and_then(|(queue, _)| queue.invalid_identity.take());
        if invalid_identity.is_some() && invalid_identity == self.identity {
            let next = self.identity.and_then(ProducerIdAndEpoch::next_epoch);
            self.identity = next.filter(|_| !Defect::NewProducerId.is_on());
            if let Some(identity) = self.identity {
                tracing::debug!(
                    client_id = &*self.rules.client_id,
                    producer_id = identity.producer_id,
                    "records are sent in producer epoch {}",
                    identity.epoch
                );
            }
        }
    }

    /// Disables idempotence. From now on, batches are sent without a producer ID.
    pub(crate) fn disable_idempotence(&mut self) {
        self.rules.idempotent = false;
    }

    /// Replaces the producer ID of all batches sent from now on. No batch may be pending.
    pub(crate) fn set_producer_id(&mut self, identity: ProducerIdAndEpoch) {
        self.identity = Some(identity);
        for queue in self.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
            queue.reset_sequences();
        }
    }

    /// Removes a batch state once all its records have a result.
    pub(crate) fn remove_state(&mut self, id: u64) {
        self.incomplete.remove(&id);
    }

    /// Returns the batches that are not complete yet.
    pub(crate) fn incomplete(&self) -> Vec<Arc<BatchState>> {
        self.incomplete.values().cloned().collect()
    }
}

#[cfg(test)]
#[path = "accumulator_tests.rs"]
mod tests;
