//! Execution of the transaction coordinator's decisions: writes markers to partitions, commits offsets of groups, and
//! runs the transaction timer.

use std::sync::MutexGuard;
use std::time::Duration;

use samsarrow_wire::batch::EndMarker;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::sync::lock;
use tokio::time::{Instant, sleep_until};

use super::transaction::TopicPartition;
use super::{Ending, Now, Transactions};
use crate::clock::now_ms;
use crate::state::topic::NO_LEADER;
use crate::state::{Node, State};

/// Topic of committed offsets. If a transaction commits offsets of a group, it includes the group's partition of this
/// topic.
pub(crate) const OFFSETS_TOPIC: &str = "__consumer_offsets";
/// Kafka's `offsets.topic.num.partitions`.
const OFFSETS_PARTITIONS: u32 = 50;
/// Maximum and minimum interval at which expired producer state is removed. Between these bounds, the interval is a
/// tenth of the expiration time.
const MAX_SWEEP_INTERVAL: Duration = Duration::from_secs(600);
const MIN_SWEEP_INTERVAL: Duration = Duration::from_millis(10);

impl Now {
    pub(crate) fn read() -> Self {
        Now { at: Instant::now(), ms: now_ms() }
    }
}

/// Returns the `__consumer_offsets` partition of a group: the absolute value of Java's string hash, modulo the number
/// of partitions.
pub(crate) fn offsets_partition(group: &str) -> TopicPartition {
    let hash = group.encode_utf16().fold(0_u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
    // The minimum `int` has no absolute value. Kafka uses 0 instead.
    let partition = if hash == 1 << 31 { 0 } else { hash.cast_signed().unsigned_abs() % OFFSETS_PARTITIONS };
    (OFFSETS_TOPIC.to_owned(), i32::try_from(partition).unwrap_or_default())
}

impl State {
    /// Returns the coordinator of a transactional id. It is selected by the same rule as the coordinator of a group
    /// (see [`State::coordinator`]).
    pub(crate) fn transaction_coordinator(&self, transactional_id: &str) -> Option<(i32, &Node)> {
        let override_node = lock(&self.transaction_coordinator_overrides).get(transactional_id).copied();
        self.coordinator_of(transactional_id, override_node)
    }

    /// Checks that this node coordinates a transactional id.
    pub(crate) fn check_transaction_coordinator(&self, node: i32, transactional_id: &str) -> Result<(), ErrorCode> {
        // An empty id passes this check, since other checks reject it as invalid.
        let coordinates = self.transaction_coordinator(transactional_id).is_some_and(|(id, _)| id == node);
        if coordinates || transactional_id.is_empty() { Ok(()) } else { Err(ErrorCode::NOT_COORDINATOR) }
    }

    /// Makes `node` the coordinator of a transactional id.
    pub(crate) fn move_transaction_coordinator(&self, transactional_id: &str, node: i32) {
        lock(&self.transaction_coordinator_overrides).insert(transactional_id.to_owned(), node);
        lock(&self.transactions).reload(transactional_id);
    }

    /// Locks the transactions. Lock order: this lock is taken before the locks of partitions and groups.
    pub(crate) fn transactions(&self) -> MutexGuard<'_, Transactions> {
        lock(&self.transactions)
    }

    /// Writes the markers of ended transactions to all partitions that have a leader, and completes transactions whose
    /// markers are all written. Must be called after every event that may end a transaction or elect a leader.
    pub(crate) fn complete_transactions(&self) {
        let now = Now::read();
        let mut transactions = self.transactions();
        for ending in transactions.endings(now) {
            let written: Vec<TopicPartition> =
                ending.partitions.iter().filter(|partition| self.write_marker(&ending, partition)).cloned().collect();
            transactions.markers_written(now, &ending.transactional_id, &written);
        }
        drop(transactions);
        self.transaction_began();
    }

    /// Notifies the transaction timer. Must be called after every event that may begin a transaction.
    pub(crate) fn transaction_began(&self) {
        self.transaction_clock.notify_one();
    }

    /// Writes the marker of an ended transaction to one of its partitions. Returns false if the partition has no
    /// leader; the marker must then be written later.
    fn write_marker(&self, ending: &Ending, (topic, partition): &TopicPartition) -> bool {
        if topic == OFFSETS_TOPIC {
            lock(&self.groups).end_transaction(ending.producer.id, ending.committed);
            return true;
        }
        let target = self.topic(topic).and_then(|topic| topic.partition(*partition).cloned());
        // Partitions of deleted topics need no marker.
        let Some(target) = target else { return true };
        let mut state = target.state();
        if state.leader == NO_LEADER {
            return false;
        }
        let marker = EndMarker {
            producer_id: ending.producer.id,
            producer_epoch: ending.producer.epoch,
            committed: ending.committed,
            coordinator_epoch: ending.coordinator_epoch,
        };
        if let Err(code) = state.end_transaction(&marker, ending.bumps) {
            tracing::warn!(%code, topic, partition, "a partition rejected the end marker of a transaction");
        }
        drop(state);
        target.wake();
        true
    }

    /// Runs the timer task for transactions and producer state; never returns.
    pub(crate) async fn run_transaction_clock(&self) {
        let expiration = self.options.transactions.producer_id_expiration;
        let sweep = (expiration / 10).clamp(MIN_SWEEP_INTERVAL, MAX_SWEEP_INTERVAL);
        let mut next_sweep = Instant::now() + sweep;
        loop {
            let next = self.transactions().next_deadline().map_or(next_sweep, |next| next.min(next_sweep));
            tokio::select! {
                () = sleep_until(next) => {
                    self.transactions().tick(Now::read());
                    self.complete_transactions();
                }
                () = self.transaction_clock.notified() => (),
            }
            let now = Instant::now();
            if now >= next_sweep {
                next_sweep = now + sweep;
                for topic in self.topics() {
                    for (_, partition) in topic.partitions() {
                        partition.state().producers.expire(now, expiration);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_partition_matches_kafka() {
        // Kafka 4.3 with 50 partitions selects the same partition.
        assert_eq!(offsets_partition("grp"), (OFFSETS_TOPIC.to_owned(), 29));
        // Java's hash of this string is the minimum `int`.
        assert_eq!(offsets_partition("polygenelubricants").1, 0);
        assert_eq!(offsets_partition("").1, 0);
    }
}
