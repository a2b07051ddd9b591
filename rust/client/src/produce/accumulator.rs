//! Records of all partitions on their way, behind one short lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use samsarrow_wire::batch::{Append, BatchBuilder, BatchOptions};

use super::delivery::{BatchState, Delivery, Part};
use super::partitioner::{self, Sticky};
use super::queue::{Batch, Identity, PartitionQueue, Payload, Readiness, Rules, Settled};
use super::record::ProducerRecord;
use crate::error::{Error, Result};
use crate::metadata::Metadata;

/// Topic and partition as indices into the accumulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) topic: usize,
    pub(crate) partition: usize,
}

/// A batch taken out for its broker.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) slot: Slot,
    pub(crate) batch: Batch,
}

/// One request's worth of batches for one broker.
#[derive(Debug)]
pub(crate) struct Shipment {
    pub(crate) node: i32,
    pub(crate) batches: Vec<Outgoing>,
}

/// What a look at the queues brought.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) shipments: Vec<Shipment>,
    pub(crate) settled: Vec<Settled>,
    /// When to look again at the latest.
    pub(crate) wake_at: Option<Instant>,
    /// A batch waits for a leader.
    pub(crate) leader_missing: bool,
    /// A batch waits for a producer identity.
    pub(crate) identity_missing: bool,
}

/// Fixed numbers of a producer.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) batch_size: usize,
    pub(crate) max_request_size: usize,
    pub(crate) max_in_flight: usize,
}

#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: Arc<str>,
    pub(crate) partitions: Vec<PartitionQueue>,
    available: Vec<i32>,
    sticky: Sticky,
}

impl Topic {
    /// The number of partitions, for the partitioner.
    pub(crate) fn count(&self) -> i32 {
        self.partitions.len() as i32
    }

    /// The partitions that have a leader.
    pub(crate) fn available(&self) -> &[i32] {
        &self.available
    }

    /// The partition that rows without a key go to next.
    pub(crate) fn stick(&mut self, bytes: usize, switch_at: usize) -> i32 {
        let count = self.count();
        self.sticky.pick(&self.available, count, bytes, switch_at)
    }
}

#[derive(Debug, Default)]
struct Node {
    in_flight: usize,
    throttled_until: Option<Instant>,
}

/// Why a record was not taken.
#[derive(Debug)]
pub(crate) enum Refusal {
    NeedsMetadata,
    Failed(Error),
}

/// Whether the sender should look at the queues now.
pub(crate) type Wake = bool;

#[derive(Debug)]
pub(crate) struct Accumulator {
    pub(crate) rules: Rules,
    pub(crate) limits: Limits,
    topics: Vec<Topic>,
    index: HashMap<Arc<str>, usize>,
    /// The topic of the last record: most programs write to one.
    last_topic: usize,
    /// Partitions that hold batches.
    active: Vec<Slot>,
    nodes: HashMap<i32, Node>,
    incomplete: BTreeMap<u64, Arc<BatchState>>,
    next_state: u64,
    pub(crate) identity: Option<Identity>,
    pub(crate) flushing: usize,
    /// Set once no record is taken any more.
    pub(crate) closed: bool,
    /// When the sender will look by itself.
    sender_wakes_at: Option<Instant>,
}

impl Accumulator {
    pub(crate) fn new(rules: Rules, limits: Limits) -> Self {
        Self {
            rules,
            limits,
            topics: Vec::new(),
            index: HashMap::new(),
            last_topic: 0,
            active: Vec::new(),
            nodes: HashMap::new(),
            incomplete: BTreeMap::new(),
            next_state: 0,
            identity: None,
            flushing: 0,
            closed: false,
            sender_wakes_at: None,
        }
    }

    /// The index of a topic, if its partitions are known.
    pub(crate) fn find(&mut self, name: &Arc<str>) -> Option<usize> {
        if let Some(topic) = self.topics.get(self.last_topic)
            && (Arc::ptr_eq(&topic.name, name) || topic.name == *name)
        {
            return Some(self.last_topic);
        }
        let found = self.index.get(name).copied();
        if let Some(found) = found {
            self.last_topic = found;
        }
        found
    }

    pub(crate) fn topic(&self, index: usize) -> Option<&Topic> {
        self.topics.get(index)
    }

    pub(crate) fn topic_mut(&mut self, index: usize) -> Option<&mut Topic> {
        self.topics.get_mut(index)
    }

    /// Takes leaders and partition counts from the cluster's metadata. A topic that one answer leaves out keeps its
    /// partitions and their sequences: brokers give such answers now and then while they start.
    pub(crate) fn update(&mut self, metadata: &Metadata) {
        for topic in &mut self.topics {
            apply(topic, metadata);
        }
    }

    /// Makes a topic known from the cluster's metadata; returns its index.
    pub(crate) fn add_topic(&mut self, name: &Arc<str>, metadata: &Metadata) -> Option<usize> {
        if metadata.topic(name).is_none_or(|topic| topic.partitions.is_empty()) {
            return None;
        }
        let at = match self.index.get(name) {
            Some(at) => *at,
            None => {
                let name = Arc::clone(name);
                self.index.insert(Arc::clone(&name), self.topics.len());
                let topic = Topic { name, partitions: Vec::new(), available: Vec::new(), sticky: Sticky::default() };
                self.topics.push(topic);
                self.topics.len() - 1
            }
        };
        apply(self.topics.get_mut(at)?, metadata);
        Some(at)
    }

    /// Adds one record; its bytes are reserved already.
    pub(crate) fn append(
        &mut self,
        record: &ProducerRecord,
        timestamp: i64,
        reserved: usize,
    ) -> std::result::Result<(Delivery, Wake), Refusal> {
        if self.closed {
            return Err(Refusal::Failed(Error::closed("the producer")));
        }
        let index = self.find(&record.topic).ok_or(Refusal::NeedsMetadata)?;
        let batch_size = self.limits.batch_size;
        let topic = self.topics.get_mut(index).ok_or(Refusal::NeedsMetadata)?;
        let partition = match (record.partition, &record.key) {
            (Some(partition), _) => partition,
            (None, Some(key)) => partitioner::by_key(key, topic.count()),
            (None, None) => topic.stick(reserved, batch_size),
        };
        let count = topic.partitions.len();
        let slot = match usize::try_from(partition) {
            Ok(partition) if partition < count => Slot { topic: index, partition },
            _ => return Err(Refusal::Failed(no_such_partition(&record.topic, partition, count))),
        };
        let headers = record.headers.iter().map(|(name, value)| (name.as_bytes(), value.as_deref()));
        self.append_row(slot, timestamp, record.key.as_deref(), record.value.as_deref(), headers, reserved)
            .map_err(Refusal::Failed)
    }

    /// Adds one row to the open batch of its partition.
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
        // A batch that is full is closed and a new one takes the record: the first always fits.
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
        let options = BatchOptions { max_bytes: self.limits.batch_size, ..BatchOptions::default() };
        let payload = Payload::Draft(Box::new(BatchBuilder::new(options)));
        if let Ok((_, queue)) = self.queue(slot) {
            let order = queue.place();
            queue.open = Some(new_batch(order, state, 0, created, deadline, payload, 0));
            self.list(slot);
        }
        self.sender_wakes_at.is_none_or(|at| due < at)
    }

    /// Adds a batch that was built elsewhere, behind the records that are there.
    pub(crate) fn push_built(&mut self, slot: Slot, count: u32, payload: Payload, reserved: usize) -> Result<Part> {
        if self.closed {
            return Err(Error::closed("the producer"));
        }
        let topic = Arc::clone(self.queue(slot)?.0);
        let created = Instant::now();
        let deadline = created + self.rules.delivery_timeout;
        let state = self.new_state(topic, slot.partition);
        let part = Part { state: Arc::clone(&state), first: 0, count };
        let (_, queue) = self.queue(slot)?;
        queue.close_open();
        let order = queue.place();
        queue.add_records(count);
        queue.push(new_batch(order, state, count, created, deadline, payload, reserved));
        self.list(slot);
        Ok(part)
    }

    fn list(&mut self, slot: Slot) {
        if let Ok((_, queue)) = self.queue(slot)
            && !queue.listed
        {
            queue.listed = true;
            self.active.push(slot);
        }
    }

    /// Takes out what is to be sent now, one request per broker with room for one at a time.
    pub(crate) fn collect(&mut self, now: Instant, exhausted: bool) -> Collected {
        let mut collected = Collected::default();
        let force = exhausted || self.flushing > 0 || self.closed;
        self.expire(now, &mut collected.settled);
        while self.collect_round(now, force, &mut collected) {}
        self.retire_idle();
        let deadlines = self.active.iter().filter_map(|slot| self.peek(*slot)?.next_deadline());
        for deadline in deadlines.collect::<Vec<_>>() {
            earlier(&mut collected.wake_at, deadline);
        }
        // Fairness: another partition is looked at first next time.
        if self.active.len() > 1 {
            self.active.rotate_left(1);
        }
        self.sender_wakes_at = collected.wake_at;
        collected
    }

    fn peek(&self, slot: Slot) -> Option<&PartitionQueue> {
        self.topics.get(slot.topic)?.partitions.get(slot.partition)
    }

    fn expire(&mut self, now: Instant, settled: &mut Vec<Settled>) {
        for slot in &self.active {
            let queue = self.topics.get_mut(slot.topic).and_then(|topic| topic.partitions.get_mut(slot.partition));
            if let Some(queue) = queue.filter(|queue| queue.next_deadline().is_some_and(|at| at <= now)) {
                queue.expire(now, &self.rules, settled);
            }
        }
    }

    /// At most one request per broker; false when there was nothing to send.
    fn collect_round(&mut self, now: Instant, force: bool, collected: &mut Collected) -> bool {
        // Brokers with a batch that is due, then all batches that may go along with it.
        let mut due: Vec<i32> = Vec::new();
        let mut candidates: Vec<(Slot, i32)> = Vec::new();
        for slot in &self.active {
            let Some(queue) = self.peek(*slot) else { continue };
            let readiness = queue.readiness(now, &self.rules, force);
            match readiness {
                Readiness::Idle | Readiness::Blocked => continue,
                Readiness::At(at) => {
                    earlier(&mut collected.wake_at, at);
                    continue;
                }
                Readiness::Lingering(at) => earlier(&mut collected.wake_at, at),
                Readiness::Ready => {}
            }
            let Some(leader) = queue.leader else {
                collected.leader_missing |= readiness == Readiness::Ready;
                continue;
            };
            if self.rules.idempotent && queue.wants_identity() && self.identity.is_none() {
                collected.identity_missing |= readiness == Readiness::Ready;
                continue;
            }
            let node = self.nodes.entry(leader).or_default();
            if node.in_flight >= self.limits.max_in_flight {
                continue;
            }
            if let Some(until) = node.throttled_until.filter(|until| *until > now) {
                earlier(&mut collected.wake_at, until);
                continue;
            }
            if readiness == Readiness::Ready && !due.contains(&leader) {
                due.push(leader);
            }
            candidates.push((*slot, leader));
        }
        let mut shipments: Vec<(Shipment, usize)> =
            due.into_iter().map(|node| (Shipment { node, batches: Vec::new() }, 0)).collect();
        for (slot, leader) in candidates {
            let Some((shipment, size)) = shipments.iter_mut().find(|(shipment, _)| shipment.node == leader) else {
                continue;
            };
            let (rules, identity, limit) = (&self.rules, self.identity, self.limits.max_request_size);
            let queue = self.topics.get_mut(slot.topic).and_then(|topic| topic.partitions.get_mut(slot.partition));
            let Some(queue) = queue else { continue };
            let bytes = queue.front_size();
            if !shipment.batches.is_empty() && *size + bytes > limit {
                continue;
            }
            if let Some(batch) = queue.take(leader, rules, identity) {
                *size += bytes;
                shipment.batches.push(Outgoing { slot, batch });
            }
        }
        let before = collected.shipments.len();
        for (shipment, _) in shipments {
            if !shipment.batches.is_empty() {
                self.nodes.entry(shipment.node).or_default().in_flight += 1;
                collected.shipments.push(shipment);
            }
        }
        collected.shipments.len() > before
    }

    fn retire_idle(&mut self) {
        let topics = &mut self.topics;
        self.active.retain(|slot| {
            let queue = topics.get_mut(slot.topic).and_then(|topic| topic.partitions.get_mut(slot.partition));
            let Some(queue) = queue else { return false };
            queue.listed = !queue.is_idle();
            queue.listed
        });
    }

    /// A request to `node` has its answer (or will never have one).
    pub(crate) fn node_answered(&mut self, node: i32, throttle: Duration) {
        let node = self.nodes.entry(node).or_default();
        node.in_flight = node.in_flight.saturating_sub(1);
        if !throttle.is_zero() {
            node.throttled_until = Some(Instant::now() + throttle);
        }
    }

    /// The queue of a batch that was taken out.
    pub(crate) fn queue_of(&mut self, slot: Slot) -> Option<(&mut PartitionQueue, &Rules)> {
        let queue = self.topics.get_mut(slot.topic)?.partitions.get_mut(slot.partition)?;
        Some((queue, &self.rules))
    }

    /// An identity that a partition can no longer use is not given to others either.
    pub(crate) fn retire_identity(&mut self, slot: Slot) {
        let spent = self.queue_of(slot).and_then(|(queue, _)| queue.spent.take());
        if spent.is_some() && spent == self.identity {
            self.identity = None;
        }
    }

    /// A leader told by a broker that refused a batch.
    pub(crate) fn set_leader(&mut self, slot: Slot, leader: Option<i32>) {
        if let Some((queue, _)) = self.queue_of(slot) {
            queue.leader = leader;
        }
    }

    /// All records of a state have their result.
    pub(crate) fn forget_state(&mut self, id: u64) {
        self.incomplete.remove(&id);
    }

    /// The batches that are not done yet; what is open is sent now.
    pub(crate) fn incomplete(&self) -> Vec<Arc<BatchState>> {
        self.incomplete.values().cloned().collect()
    }

    /// Gives up on everything.
    pub(crate) fn abandon(&mut self, error: &Error) -> Vec<Settled> {
        let mut settled = Vec::new();
        for topic in &mut self.topics {
            for queue in &mut topic.partitions {
                queue.abandon(error, &mut settled);
            }
        }
        settled
    }
}

fn apply(topic: &mut Topic, metadata: &Metadata) {
    let Some(known) = metadata.topic(&topic.name) else { return };
    for partition in &known.partitions {
        let Ok(at) = usize::try_from(partition.partition) else { continue };
        // Answers list every partition from 0 on; a number far beyond their count is not to be believed.
        if at >= known.partitions.len() {
            continue;
        }
        while topic.partitions.len() <= at {
            topic.partitions.push(PartitionQueue::default());
        }
        if let Some(queue) = topic.partitions.get_mut(at) {
            queue.leader = (partition.leader >= 0).then_some(partition.leader);
        }
    }
    topic.available.clear();
    let led = known.partitions.iter().filter(|partition| partition.leader >= 0);
    topic.available.extend(led.map(|partition| partition.partition));
}

fn new_batch(
    order: u64,
    state: Arc<BatchState>,
    count: u32,
    created: Instant,
    deadline: Instant,
    payload: Payload,
    reserved: usize,
) -> Batch {
    Batch {
        order,
        state,
        first: 0,
        count,
        created,
        deadline,
        payload,
        numbered: None,
        attempts: 0,
        reserved,
        cause: None,
    }
}

fn earlier(at: &mut Option<Instant>, other: Instant) {
    *at = Some(at.map_or(other, |at| at.min(other)));
}

/// The error for a partition number that the topic does not have.
pub(crate) fn no_such_partition(topic: &str, partition: i32, count: usize) -> Error {
    let last = count.saturating_sub(1);
    Error::configuration(format!("topic {topic} has no partition {partition}: its {count} partitions are 0 to {last}"))
}
