//! Offsets committed in a transaction, which are pending until the transaction ends (KIP-98, KIP-447).

use std::collections::BTreeMap;
use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::TxnOffsetCommitRequest;
use tokio::time::Instant;

use super::offsets::{Committed, Offsets};
use super::{Group, Groups, Members};

#[derive(Debug)]
struct PendingOffset {
    topic_id: [u8; 16],
    committed: Committed,
    /// Sequence number of the commit within the group. It shows which commit of a partition is later.
    number: u64,
}

/// Pending offsets of one group by producer id, then by topic and partition.
#[derive(Debug, Default)]
pub(super) struct Pending(BTreeMap<i64, BTreeMap<(Arc<str>, i32), PendingOffset>>);

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn holds(&self, topic: &str, partition: i32) -> bool {
        self.0.values().flat_map(BTreeMap::keys).any(|(name, index)| **name == *topic && *index == partition)
    }

    fn end(&mut self, producer_id: i64, committed: bool, offsets: &mut Offsets, now: Instant) {
        let Some(pending) = self.0.remove(&producer_id).filter(|_| committed) else { return };
        for ((topic, partition), pending_offset) in pending {
            offsets.commit_pending(
                now,
                (topic, partition),
                pending_offset.topic_id,
                pending_offset.committed,
                pending_offset.number,
            );
        }
    }

    /// Removes the pending offsets of a deleted topic.
    pub(super) fn forget_topic(&mut self, topic_id: [u8; 16]) {
        for pending in self.0.values_mut() {
            pending.retain(|_, pending_offset| pending_offset.topic_id != topic_id);
        }
        self.0.retain(|_, pending| !pending.is_empty());
    }
}

impl Groups {
    /// Checks that the sender may commit offsets of the group in a transaction. Requests that name no group member are
    /// allowed too (KIP-447). `precise` is set if the client understands STALE_MEMBER_EPOCH and GROUP_ID_NOT_FOUND
    /// (KIP-1319).
    pub(crate) fn check_transactional_commit(
        &mut self,
        now: Instant,
        precise: bool,
        request: &TxnOffsetCommitRequest,
    ) -> Result<(), ErrorCode> {
        let (generation, member_id) = (request.generation_id_or_member_epoch, request.member_id.as_str());
        let instance_id = request.group_instance_id.as_deref();
        let has_no_member = generation < 0 && member_id.is_empty() && instance_id.is_none();
        match self.by_id.get_mut(&request.group_id).map(|group| &mut group.members) {
            _ if has_no_member => Ok(()),
            Some(Members::Classic(classic)) => {
                classic.check_transactional_commit(now, member_id, instance_id, generation)
            }
            Some(Members::Consumer(consumers)) => {
                consumers.check_transactional_commit(member_id, generation).map_err(|code| match code {
                    ErrorCode::STALE_MEMBER_EPOCH if !precise => ErrorCode::ILLEGAL_GENERATION,
                    code => code,
                })
            }
            None if generation < 0 => Ok(()),
            Some(Members::Share(_)) | None if precise => Err(ErrorCode::GROUP_ID_NOT_FOUND),
            Some(Members::Share(_)) | None => Err(ErrorCode::ILLEGAL_GENERATION),
        }
    }

    /// Stores an offset that is pending until the producer's transaction ends.
    pub(crate) fn commit_in_transaction(
        &mut self,
        group: &str,
        producer_id: i64,
        (topic, topic_id, partition): (&Arc<str>, [u8; 16], i32),
        committed: Committed,
    ) {
        let group = self.group_or_new(group, Instant::now());
        let number = group.offsets.next_number();
        let pending = group.pending.0.entry(producer_id).or_default();
        pending.insert((topic.clone(), partition), PendingOffset { topic_id, committed, number });
    }

    /// Ends the transaction of a producer: commits its pending offsets or drops them.
    pub(crate) fn end_transaction(&mut self, producer_id: i64, committed: bool) {
        let now = Instant::now();
        for Group { pending, offsets, .. } in self.by_id.values_mut() {
            pending.end(producer_id, committed, offsets, now);
        }
    }

    /// Returns true if any open transaction has a pending offset for this partition.
    pub(crate) fn is_unstable(&self, group: &str, topic: &str, partition: i32) -> bool {
        self.by_id.get(group).is_some_and(|group| group.pending.holds(topic, partition))
    }
}
