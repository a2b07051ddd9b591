//! Commits of a consumer: positions, stored offsets, or offsets passed by the application.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow_array::RecordBatch;
use tokio::time::Instant;

use super::Consumer;
use crate::config::IsolationLevel;
use crate::error::{Error, Result};
use crate::fetcher::{RowsEnd, ends_of_rows};
use crate::group::consumer_group::ConsumerGroup;
use crate::group::{Completed, Offsets};
use crate::offsets::{self, Outcomes};
use crate::types::{OffsetAndMetadata, TopicPartition};

/// Time that is reserved for LeaveGroup if commits are slow, but at most a fifth of the timeout.
const MIN_LEAVE_TIME: Duration = Duration::from_secs(1);

impl Consumer {
    /// Returns the offsets for a commit without explicit offsets: positions, or stored offsets with
    /// `enable.auto.offset.store=false`. With `all`, positions include the rows of the last poll.
    pub(super) fn finished(&self, group: &ConsumerGroup, all: bool) -> Offsets {
        self.forget_old_topics(group);
        let shared = &self.fetcher.shared;
        let offsets = match (group.auto_stores(), all) {
            (false, _) => group.stored(),
            (true, true) => offsets_of(shared.positions()),
            (true, false) => offsets_of(shared.finished()),
        };
        shared.of_known_topics(offsets, &self.cluster.metadata())
    }

    /// Drops positions and stored offsets of deleted topics, because they would be wrong for a recreated topic of that
    /// name.
    fn forget_old_topics(&self, group: &ConsumerGroup) {
        let shared = &self.fetcher.shared;
        shared.compare_topic_ids(&self.cluster, &self.cluster.metadata(), self.options.auto_offset_reset);
        group.forget(&shared.take_uncommittable());
    }

    /// Stores offsets for a later commit, with `enable.auto.offset.store=false`.
    ///
    /// # Errors
    /// Fails with [`Error::Configuration`] if `poll` stores offsets itself, if an offset or its metadata is invalid, or
    /// if a partition is not assigned, because another consumer may own it.
    pub fn store_offsets(&self, offsets: Offsets) -> Result<()> {
        let group = self.group()?;
        if group.auto_stores() {
            return Err(Error::configuration(
                "store_offsets needs enable.auto.offset.store=false: otherwise poll stores offsets itself",
            ));
        }
        check_offsets(&offsets)?;
        if let Some((tp, _)) = offsets.iter().find(|(tp, _)| !self.fetcher.shared.is_assigned(tp)) {
            return Err(Error::configuration(format!("cannot store an offset of {tp}, which is not assigned")));
        }
        self.forget_old_topics(group);
        group.store(offsets);
        Ok(())
    }

    /// Returns the offset to commit per partition once the rows of these batches are processed: the offset after the
    /// last row, or after the offsets without rows that follow, so that transaction markers cause no lag. Rows of a
    /// topic that was recreated later are omitted with a warning, because their offsets would skip rows of the new
    /// topic.
    ///
    /// # Errors
    /// Fails with [`Error::Configuration`] if a batch was not created by a consumer.
    pub fn offsets_after(&self, batches: &[RecordBatch]) -> Result<Offsets> {
        Ok(self.offsets_of_ends(ends_of_rows(batches)?))
    }

    /// Like [`offsets_after`](Self::offsets_after), but takes the ends of rows instead of batches, which may already be
    /// dropped.
    pub fn offsets_of_ends(&self, ends: BTreeMap<TopicPartition, RowsEnd>) -> Offsets {
        if let Some(group) = &self.group {
            self.forget_old_topics(group);
        }
        let shared = &self.fetcher.shared;
        shared.of_known_topics(shared.past_rowless(ends), &self.cluster.metadata())
    }

    /// Commits the passed offsets to the group, or otherwise the stored offsets or the positions of all assigned
    /// partitions. Commits take effect in the order of the calls. Retriable errors are retried.
    ///
    /// # Errors
    /// Fails if `group.id` is missing, if an offset is invalid, if the coordinator returns an error for the group, the
    /// member or a partition, or after `timeout`.
    pub async fn commit(&self, offsets: Option<Offsets>, timeout: Duration) -> Result<()> {
        let outcomes = self.commit_each(offsets, timeout).await?;
        outcomes.into_iter().try_for_each(|(_, outcome)| outcome)
    }

    /// Like [`commit`](Self::commit), but returns a result per partition.
    pub async fn commit_each(&self, offsets: Option<Offsets>, timeout: Duration) -> Result<Outcomes> {
        let group = self.group()?;
        let offsets = self.or_finished(group, offsets)?;
        self.unless_woken(group.commit(offsets, timeout)).await
    }

    /// Commits in the background, in the order of the calls. Returns the id of the [`Completed`] that will contain the
    /// result or the error. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Fails if `group.id` is missing or an offset is invalid.
    pub fn commit_async(&self, offsets: Option<Offsets>) -> Result<u64> {
        let group = self.group()?;
        let offsets = self.or_finished(group, offsets)?;
        Ok(group.commit_async(offsets, self.default_timeout()))
    }

    fn or_finished(&self, group: &ConsumerGroup, offsets: Option<Offsets>) -> Result<Offsets> {
        let offsets = offsets.unwrap_or_else(|| self.finished(group, true));
        check_offsets(&offsets)?;
        Ok(offsets)
    }

    /// Takes the completed asynchronous commits, in the order of the calls.
    pub fn take_completed(&self) -> Vec<Completed> {
        self.group.as_ref().map(ConsumerGroup::take_completed).unwrap_or_default()
    }

    /// Returns the group's committed offset per partition, or `None` for a partition without a committed offset. With
    /// `stable` (by default if `isolation.level=read_committed`), waits for open transactions that commit offsets.
    pub async fn committed(
        &self,
        partitions: &[TopicPartition],
        stable: Option<bool>,
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Option<OffsetAndMetadata>)>> {
        let stable = stable.unwrap_or(self.options.isolation_level == IsolationLevel::ReadCommitted);
        let coordinator = &self.group()?.coordinator;
        self.unless_woken(offsets::fetch_committed(&self.cluster, coordinator, partitions, stable, timeout)).await
    }

    /// Commits the offsets of finished rows with `enable.auto.commit`; otherwise only waits for earlier commits. With
    /// `all`, rows of the last poll count as finished. Returns the remaining time, part of which is reserved for
    /// LeaveGroup.
    pub async fn commit_finished(&self, all: bool, timeout: Duration) -> Duration {
        let Some(group) = self.group.as_ref().filter(|_| self.check_open().is_ok()) else { return timeout };
        let started_at = Instant::now();
        let limit = timeout - (timeout / 5).min(MIN_LEAVE_TIME);
        if group.auto_commits() {
            group.commit_finished(self.finished(group, all), limit).await;
        } else {
            group.flush(limit).await;
        }
        timeout.saturating_sub(started_at.elapsed())
    }
}

fn offsets_of(positions: Vec<(TopicPartition, i64, Option<i32>)>) -> Offsets {
    let offset_and_metadata = |offset, leader_epoch| OffsetAndMetadata { offset, leader_epoch, ..Default::default() };
    positions.into_iter().map(|(tp, position, epoch)| (tp, offset_and_metadata(position, epoch))).collect()
}

/// Rejects offsets that a request cannot contain. Queued commits share one request, so an invalid offset would make all
/// of them fail.
fn check_offsets(offsets: &Offsets) -> Result<()> {
    for (tp, invalid) in offsets {
        if invalid.offset < 0 {
            let text = format!("cannot commit offset {} of {tp}: offsets start at 0", invalid.offset);
            return Err(Error::configuration(text));
        }
        let length = invalid.metadata.len();
        if i16::try_from(length).is_err() {
            return Err(Error::configuration(format!(
                "cannot commit offset {} of {tp}: its metadata has {length} bytes, and a request can have {} at most \
                 (brokers store offset.metadata.max.bytes, 4096 by default): shorten it",
                invalid.offset,
                i16::MAX
            )));
        }
    }
    Ok(())
}
