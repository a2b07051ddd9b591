//! Draining of the queues: selects the batches to send now.

use std::collections::BTreeSet;
use std::time::Instant;

use samsarrow_wire::messages::Uuid;

use super::accumulator::Accumulator;
use super::batch::{Batch, Settled};
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
    pub(crate) unsendable: Option<Error>,
}

/// Batches of one request to one broker.
#[derive(Debug)]
pub(crate) struct Shipment {
    pub(crate) node: i32,
    pub(crate) batches: Vec<Outgoing>,
}

/// Result of draining the queues.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) shipments: Vec<Shipment>,
    pub(crate) settled: Vec<Settled>,
    /// Time of the next drain, if nothing else wakes the sender before.
    pub(crate) wake_at: Option<Instant>,
    /// Topics that need fresh metadata: their batches wait for a leader, or are sent to the last known one.
    pub(crate) unknown: BTreeSet<usize>,
    /// True if a batch waits for a leader.
    pub(crate) leader_missing: bool,
    /// True if a batch waits for a producer ID.
    pub(crate) identity_missing: bool,
    /// True if partitions must be registered with the transaction coordinator.
    pub(crate) register: bool,
}

impl Accumulator {
    /// Drains the batches to send now into one request per broker that may have another request in flight, repeatedly
    /// until nothing is left to send. Lingering batches are sent immediately while callers wait for memory
    /// (`memory_exhausted`), during a flush and once closed.
    pub(crate) fn collect(&mut self, now: Instant, exhausted: bool) -> Collected {
        let mut collected = Collected::default();
        let force = exhausted || self.flushing > 0 || self.closed;
        self.expire(now, &mut collected.settled);
        while self.collect_round(now, force, &mut collected) {}
        self.retire_idle();
        collected.register = self.transaction.as_mut().is_some_and(|transaction| transaction.start_registering());
        let deadlines = self.active.iter().filter_map(|slot| self.peek(*slot)?.next_deadline());
        for deadline in deadlines.collect::<Vec<_>>() {
            earlier(&mut collected.wake_at, deadline);
        }
        // Fairness: the next drain starts at another partition.
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
            let Some(topic) = self.topics.get_mut(slot.topic) else { continue };
            if slot.partition >= topic.count {
                topic.give_up(slot.partition, settled);
            }
            let queue = topic.partitions.get_mut(slot.partition);
            if let Some(queue) = queue.filter(|queue| queue.next_deadline().is_some_and(|at| at <= now)) {
                queue.expire(now, &self.rules, settled);
            }
        }
    }

    /// Drains at most one request per broker; returns false if nothing was ready.
    fn collect_round(&mut self, now: Instant, force: bool, collected: &mut Collected) -> bool {
        // Collects brokers with a batch that is due, then adds all other batches that can be sent with it.
        let mut due: Vec<i32> = Vec::new();
        let mut candidates: Vec<(Slot, i32)> = Vec::new();
        for slot in &self.active {
            let Some(queue) = self.peek(*slot) else { continue };
            let readiness = queue.readiness(now, &self.rules, force);
            let (leader, wants_identity) = (queue.leader, queue.wants_identity());
            // Partitions are registered while their batches linger.
            if readiness != Readiness::Idle && self.transaction.as_mut().is_some_and(|t| !t.may_write(*slot)) {
                continue;
            }
            match readiness {
                Readiness::Idle | Readiness::Blocked => continue,
                Readiness::At(at) => {
                    earlier(&mut collected.wake_at, at);
                    continue;
                }
                Readiness::Lingering(at) => earlier(&mut collected.wake_at, at),
                Readiness::Ready => {}
            }
            if leader.is_none() || self.topics.get(slot.topic).is_some_and(|topic| !topic.known) {
                collected.unknown.insert(slot.topic);
            }
            let Some(leader) = leader else {
                collected.leader_missing |= readiness == Readiness::Ready;
                continue;
            };
            if self.rules.idempotent && wants_identity && self.identity.is_none() {
                collected.identity_missing |= readiness == Readiness::Ready && !self.rules.transactional;
                continue;
            }
            let node = self.nodes.entry(leader).or_default();
            if node.in_flight >= self.limits.max_in_flight {
                node.stalled_since.get_or_insert(now);
                continue;
            }
            if let Some(until) = node.throttled_until.filter(|until| *until > now) {
                node.stalled_since.get_or_insert(now);
                earlier(&mut collected.wake_at, until);
                continue;
            }
            node.stalled_since = None;
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
            // Topics and queues are never removed, so no batch is lost here.
            let Some(topic) = self.topics.get_mut(slot.topic) else { continue };
            let topic_id = topic.id;
            let Some(queue) = topic.partitions.get_mut(slot.partition) else { continue };
            let bytes = queue.front_size();
            if !shipment.batches.is_empty() && *size + bytes > limit {
                continue;
            }
            if let Some(batch) = queue.take(leader, rules, identity) {
                *size += bytes;
                if let Some(transaction) = &mut self.transaction {
                    transaction.writes();
                }
                shipment.batches.push(Outgoing { slot, topic_id, batch, unsendable: None });
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
}

fn earlier(at: &mut Option<Instant>, other: Instant) {
    *at = Some(at.map_or(other, |at| at.min(other)));
}
