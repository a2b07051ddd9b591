//! Start offsets of share groups, which administrators describe, alter and delete.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::Uuid;
use samsarrow_wire::sync::lock;

use super::partition::SharePartition;
use super::sessions::TopicPartition;
use crate::state::State;

/// Start offset of a share-partition, as the share coordinator stores it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShareOffset {
    pub(crate) start: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) lag: i64,
}

impl State {
    /// Returns the partitions of a share group that have a stored start offset, ordered by topic id and partition.
    pub(crate) fn share_partitions(&self, group: &str) -> Vec<TopicPartition> {
        let shares = lock(&self.shares);
        let of_group = shares.partitions.iter().filter(|((of, _), share)| of == group && share.stored_start.is_some());
        of_group.map(|((_, partition), _)| *partition).collect()
    }

    /// Returns the start offset of a partition in a share group, or `None` if the partition has none.
    pub(crate) fn share_offset(&self, group: &str, (topic, partition): TopicPartition) -> Option<ShareOffset> {
        let log = self.topic_by_id(&Uuid(topic))?.partition(partition)?.clone();
        let shares = lock(&self.shares);
        let share = shares.partitions.get(&(group.to_owned(), (topic, partition)))?;
        if let Some(start) = share.altered {
            let lag = log.state().log.next_offset() - start;
            return Some(ShareOffset { start, leader_epoch: share.leader_epoch, lag });
        }
        let start = share.stored_start?;
        // The records between the stored start offset and the start offset are finished.
        let lag = log.state().log.next_offset() - share.start.max(start) - share.delivery_complete();
        Some(ShareOffset { start, leader_epoch: share.leader_epoch, lag })
    }

    /// Sets the start offset of a partition in a share group. All delivery state of the partition is lost, as soon as no
    /// broker has it in memory.
    pub(crate) fn set_share_offset(&self, group: &str, key: TopicPartition, start: i64) -> Result<(), ErrorCode> {
        let (topic, partition) = key;
        let log = self.topic_by_id(&Uuid(topic)).and_then(|topic| topic.partition(partition).cloned());
        let log = log.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        let mut shares = lock(&self.shares);
        let entry = (group.to_owned(), key);
        shares.initialized.insert((group.to_owned(), topic));
        let is_loaded = shares.loaded.contains(group);
        match shares.partitions.get_mut(&entry).filter(|_| is_loaded) {
            Some(share) => (share.altered, share.stored_start) = (Some(start), Some(start)),
            None => {
                let share = SharePartition::at_stored(start, log.state().leader_epoch);
                shares.partitions.insert(entry, share);
            }
        }
        drop(shares);
        log.wake();
        Ok(())
    }

    /// Deletes the start offsets of a topic in a share group.
    pub(crate) fn delete_share_offsets(&self, group: &str, topic: [u8; 16]) {
        let mut shares = lock(&self.shares);
        shares.partitions.retain(|(of, (id, _)), _| of != group || *id != topic);
        shares.initialized.remove(&(group.to_owned(), topic));
    }
}
