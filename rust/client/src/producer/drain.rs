//! Draining of the queues: selects the batches to send now.

use std::collections::BTreeSet;

use samsarrow_wire::messages::Uuid;
use tokio::time::Instant;

use super::accumulator::Accumulator;
use super::batch::{Batch, BatchResult};
use super::queue::{PartitionQueue, Readiness};
use super::topic::Slot;
use crate::error::Error;

/// A batch taken from its queue to be sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) slot: Slot,
    /// Topic ID when the batch was drained, zero if unknown. The response identifies the topic by this ID, even if
    /// metadata has changed since.
    pub(crate) topic_id: Uuid,
    pub(crate) batch: Batch,
    /// Reason why this batch cannot be part of a request; the other batches are sent without it.
    pub(crate) skip_error: Option<Error>,
}

/// Batches of one request to one broker.
#[derive(Debug)]
pub(crate) struct ReadyBatches {
    pub(crate) node: i32,
    pub(crate) batches: Vec<Outgoing>,
}

/// Result of draining the queues.
#[derive(Debug, Default)]
pub(crate) struct DrainResult {
    pub(crate) requests: Vec<ReadyBatches>,
    pub(crate) results: Vec<BatchResult>,
    /// Time of the next drain, if nothing else wakes the sender before.
    pub(crate) wake_at: Option<Instant>,
    /// Topics that need fresh metadata, because their batches wait for a leader or are sent to the last known leader.
    pub(crate) unknown: BTreeSet<usize>,
    /// True if a batch waits for a leader.
    pub(crate) leader_missing: bool,
    /// True if a batch waits for a producer ID.
    pub(crate) identity_missing: bool,
    /// True if partitions must be registered with the transaction coordinator.
    pub(crate) register: bool,
}

impl Accumulator {
    /// Drains the batches to send now. Repeatedly creates one request per broker that may have another request in
    /// flight, until nothing is left to send. Lingering batches are sent immediately while callers wait for memory
    /// (`memory_exhausted`), during a flush and once the producer is closed.
    pub(crate) fn drain(&mut self, now: Instant, memory_exhausted: bool) -> DrainResult {
        let mut drained = DrainResult::default();
        let force = memory_exhausted || self.flushing > 0 || self.closed;
        self.expire(now, &mut drained.results);
        while self.drain_once(now, force, &mut drained) {}
        self.remove_idle();
        drained.register = self.transaction.as_mut().is_some_and(|transaction| transaction.start_registering());
        let deadlines = self.active.iter().filter_map(|slot| self.peek(*slot)?.next_deadline());
        for deadline in deadlines.collect::<Vec<_>>() {
            set_earlier(&mut drained.wake_at, deadline);
        }
        // For fairness, the next drain starts at another partition.
        if self.active.len() > 1 {
            self.active.rotate_left(1);
        }
        self.sender_wakes_at = drained.wake_at;
        drained
    }

    fn peek(&self, slot: Slot) -> Option<&PartitionQueue> {
        self.topics.get(slot.topic)?.partitions.get(slot.partition)
    }

    fn expire(&mut self, now: Instant, results: &mut Vec<BatchResult>) {
        for slot in &self.active {
            let Some(topic) = self.topics.get_mut(slot.topic) else { continue };
            if slot.partition >= topic.count {
                topic.fail_removed_partition(slot.partition, results);
            }
            let queue = topic.partitions.get_mut(slot.partition);
            if let Some(queue) = queue.filter(|queue| queue.next_deadline().is_some_and(|at| at <= now)) {
                queue.expire(now, &self.rules, results);
            }
        }
    }

    /// Drains at most one request per broker. Returns false if no batch was ready.
    fn drain_once(&mut self, now: Instant, force: bool, drained: &mut DrainResult) -> bool {
        // Collects brokers with a batch that is due, then adds all other batches that can be sent with it.
        let mut due: Vec<i32> = Vec::new();
        let mut candidates: Vec<(Slot, i32)> = Vec::new();
        for slot in &self.active {
            let Some(queue) = self.peek(*slot) else { continue };
            let readiness = queue.readiness(now, &self.rules, force);
            let (leader, needs_identity) = (queue.leader, queue.needs_identity());
            // Partitions are registered with the transaction already while their batches linger.
            if readiness != Readiness::Idle && self.transaction.as_mut().is_some_and(|t| !t.may_write(*slot)) {
                continue;
            }
            match readiness {
                Readiness::Idle | Readiness::Blocked => continue,
                Readiness::At(at) => {
                    set_earlier(&mut drained.wake_at, at);
                    continue;
                }
                Readiness::Lingering(_) | Readiness::Ready => {}
            }
            let readiness = match readiness {
                Readiness::Lingering(_) if leader.is_some_and(|leader| self.sends_at_once(leader, now)) => {
                    Readiness::Ready
                }
                readiness => readiness,
            };
            if let Readiness::Lingering(at) = readiness {
                set_earlier(&mut drained.wake_at, at);
            }
            if leader.is_none() || self.topics.get(slot.topic).is_some_and(|topic| !topic.known) {
                drained.unknown.insert(slot.topic);
            }
            let Some(leader) = leader else {
                drained.leader_missing |= readiness == Readiness::Ready;
                continue;
            };
            if self.rules.idempotent && needs_identity && self.identity.is_none() {
                drained.identity_missing |= readiness == Readiness::Ready && !self.rules.transactional;
                continue;
            }
            let node = self.nodes.entry(leader).or_default();
            if node.in_flight >= self.limits.max_in_flight {
                node.stalled_since.get_or_insert(now);
                continue;
            }
            if let Some(until) = node.throttled_until.filter(|until| *until > now) {
                node.stalled_since.get_or_insert(now);
                set_earlier(&mut drained.wake_at, until);
                continue;
            }
            node.stalled_since = None;
            if readiness == Readiness::Ready && !due.contains(&leader) {
                due.push(leader);
            }
            candidates.push((*slot, leader));
        }
        let mut requests: Vec<(ReadyBatches, usize)> =
            due.into_iter().map(|node| (ReadyBatches { node, batches: Vec::new() }, 0)).collect();
        for (slot, leader) in candidates {
            let Some((request, size)) = requests.iter_mut().find(|(request, _)| request.node == leader) else {
                continue;
            };
            let (rules, identity, limit) = (&self.rules, self.identity, self.limits.max_request_size);
            // Topics and queues are never removed, so no batch is lost here.
            let Some(topic) = self.topics.get_mut(slot.topic) else { continue };
            let topic_id = topic.id;
            let Some(queue) = topic.partitions.get_mut(slot.partition) else { continue };
            let bytes = queue.front_size();
            if !request.batches.is_empty() && *size + bytes > limit {
                continue;
            }
            if let Some(batch) = queue.take(leader, rules, identity) {
                *size += bytes;
                if let Some(transaction) = &mut self.transaction {
                    transaction.batch_sent();
                }
                request.batches.push(Outgoing { slot, topic_id, batch, skip_error: None });
            }
        }
        let before = drained.requests.len();
        for (request, _) in requests {
            if !request.batches.is_empty() {
                let node = self.nodes.entry(request.node).or_default();
                node.in_flight += 1;
                node.last_records = request.batches.iter().map(|outgoing| outgoing.batch.count as usize).sum();
                drained.requests.push(request);
            }
        }
        drained.requests.len() > before
    }

    fn remove_idle(&mut self) {
        let topics = &mut self.topics;
        self.active.retain(|slot| {
            let queue = topics.get_mut(slot.topic).and_then(|topic| topic.partitions.get_mut(slot.partition));
            let Some(queue) = queue else { return false };
            queue.active = !queue.is_idle();
            queue.active
        });
    }
}

fn set_earlier(at: &mut Option<Instant>, other: Instant) {
    *at = Some(at.map_or(other, |at| at.min(other)));
}
