//! What the coordinator decides, done: markers in partitions, offsets in groups; and its clock.

use std::sync::MutexGuard;
use std::time::Duration;

use samsarrow_wire::batch::EndMarker;
use samsarrow_wire::error_code::ErrorCode;
use tokio::time::{Instant, sleep_until};

use super::transaction::Place;
use super::{Ending, Now, Transactions};
use crate::state::topic::NO_LEADER;
use crate::state::{Node, State};
use crate::sync::{lock, now_ms};

/// Where groups keep their offsets; a transaction names its partition for those that it commits.
pub(crate) const OFFSETS_TOPIC: &str = "__consumer_offsets";
/// As `offsets.topic.num.partitions`.
const OFFSETS_PARTITIONS: u32 = 50;
/// Producers are looked through this often, or ten times while they are remembered.
const LONGEST_SWEEP: Duration = Duration::from_secs(600);
const SHORTEST_SWEEP: Duration = Duration::from_millis(10);

impl Now {
    pub(crate) fn read() -> Self {
        Now { at: Instant::now(), ms: now_ms() }
    }
}

/// The partition that holds a group's offsets: by the hash that Java's strings have.
pub(crate) fn offsets_partition(group: &str) -> Place {
    let hash = group.encode_utf16().fold(0_u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
    // Kafka takes the lowest number for 0, which its sign bit alone would be.
    let partition = if hash == 1 << 31 { 0 } else { hash.cast_signed().unsigned_abs() % OFFSETS_PARTITIONS };
    (OFFSETS_TOPIC.to_owned(), i32::try_from(partition).unwrap_or_default())
}

impl State {
    /// The node that coordinates a transactional id, as [`State::coordinator`] of groups.
    pub(crate) fn transaction_coordinator(&self, transactional_id: &str) -> Option<(i32, &Node)> {
        let moved = lock(&self.moved_transactions).get(transactional_id).copied();
        self.coordinator_of(transactional_id, moved)
    }

    /// Whether this node may answer for a transactional id.
    pub(crate) fn check_transaction_coordinator(&self, node: i32, transactional_id: &str) -> Result<(), ErrorCode> {
        // What cannot be an id is refused as such.
        let coordinates = self.transaction_coordinator(transactional_id).is_some_and(|(id, _)| id == node);
        if coordinates || transactional_id.is_empty() { Ok(()) } else { Err(ErrorCode::NOT_COORDINATOR) }
    }

    /// Makes `node` the coordinator of a transactional id.
    pub(crate) fn move_transaction_coordinator(&self, transactional_id: &str, node: i32) {
        lock(&self.moved_transactions).insert(transactional_id.to_owned(), node);
        lock(&self.transactions).reload(transactional_id);
    }

    /// The transactions; their lock comes before those of partitions and groups.
    pub(crate) fn transactions(&self) -> MutexGuard<'_, Transactions> {
        lock(&self.transactions)
    }

    /// Notifies partitions and groups of what has ended, as far as they have a leader; to be called after whatever may
    /// end a transaction, and whatever may give a partition a leader.
    pub(crate) fn complete_transactions(&self) {
        let now = Now::read();
        let mut transactions = self.transactions();
        for ending in transactions.endings(now) {
            let told: Vec<Place> =
                ending.partitions.iter().filter(|place| self.tell(&ending, place)).cloned().collect();
            transactions.told(now, &ending.transactional_id, &told);
        }
        drop(transactions);
        self.transaction_began();
    }

    /// To be called after whatever may begin a transaction: its timeout counts.
    pub(crate) fn transaction_began(&self) {
        self.transaction_clock.notify_one();
    }

    /// Writes the end of a transaction to one of its partitions; whether that is done.
    fn tell(&self, ending: &Ending, (topic, partition): &Place) -> bool {
        if topic == OFFSETS_TOPIC {
            lock(&self.groups).end_transaction(ending.producer.id, ending.committed);
            return true;
        }
        let found = self.topic(topic).and_then(|topic| topic.partition(*partition).cloned());
        // A topic that was deleted needs no marker.
        let Some(found) = found else { return true };
        let mut state = found.state();
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
            tracing::warn!(%code, topic, partition, "a partition refused the end of a transaction");
        }
        drop(state);
        found.wake();
        true
    }

    /// Lets time pass for transactions and producers; never ends.
    pub(crate) async fn run_transaction_clock(&self) {
        let expiration = self.options.transactions.producer_id_expiration;
        let sweep = (expiration / 10).clamp(SHORTEST_SWEEP, LONGEST_SWEEP);
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
    fn groups_lie_where_kafka_puts_them() {
        // By a broker of Kafka 4.3 with 50 partitions.
        assert_eq!(offsets_partition("grp"), (OFFSETS_TOPIC.to_owned(), 29));
        // Its hash is the lowest number.
        assert_eq!(offsets_partition("polygenelubricants").1, 0);
        assert_eq!(offsets_partition("").1, 0);
    }
}
