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

/// Minimum time for LeaveGroup, even if commits are slow.
const MIN_LEAVE_TIME: Duration = Duration::from_secs(1);

impl Consumer {
    /// Returns the offsets of a commit without explicit ones: positions or stored offsets. With `all`, these include
    /// the rows of the last poll.
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

    /// Drops positions and offsets of deleted topics, which do not apply to a recreated topic.
    fn forget_old_topics(&self, group: &ConsumerGroup) {
        let shared = &self.fetcher.shared;
        shared.compare_topic_ids(&self.cluster, &self.cluster.metadata(), self.options.auto_offset_reset);
        group.forget(&shared.take_uncommittable());
    }

    /// Stores offsets for a later commit, with `enable.auto.offset.store=false`.
    ///
    /// # Errors
    /// [`Error::Configuration`] for a partition that is not assigned, as another consumer may own it.
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

    /// Returns the offsets to commit after the rows of these batches: after the last row of each partition, and past
    /// the offsets without rows that follow, so that transaction markers cause no lag. Rows of a topic that was
    /// recreated since are omitted with a warning: their offsets would skip rows of the new topic.
    ///
    /// # Errors
    /// [`Error::Configuration`] for batches that were not created by a consumer.
    pub fn offsets_after(&self, batches: &[RecordBatch]) -> Result<Offsets> {
        Ok(self.offsets_of_ends(ends_of_rows(batches)?))
    }

    /// Like [`offsets_after`](Self::offsets_after), for the ends of rows whose batches were dropped.
    pub fn offsets_of_ends(&self, ends: BTreeMap<TopicPartition, RowsEnd>) -> Offsets {
        if let Some(group) = &self.group {
            self.forget_old_topics(group);
        }
        let shared = &self.fetcher.shared;
        shared.of_known_topics(shared.past_rowless(ends), &self.cluster.metadata())
    }

    /// Commits offsets to the group after earlier commits: those passed, or stored offsets, or the positions of all
    /// assigned partitions. Retriable errors are retried.
    ///
    /// # Errors
    /// Missing `group.id`; errors of the coordinator about the group, the member or a partition; a timeout with its
    /// cause.
    pub async fn commit(&self, offsets: Option<Offsets>, timeout: Duration) -> Result<()> {
        let outcomes = self.commit_each(offsets, timeout).await?;
        outcomes.into_iter().try_for_each(|(_, outcome)| outcome)
    }

    /// Like [`commit`](Self::commit), with a result per partition.
    pub async fn commit_each(&self, offsets: Option<Offsets>, timeout: Duration) -> Result<Outcomes> {
        let group = self.group()?;
        let offsets = self.or_finished(group, offsets)?;
        self.unless_woken(group.commit(offsets, timeout)).await
    }

    /// Commits in the background, in the order of the calls. Returns the id of the [`Completed`] that will have the
    /// result, including any error. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Missing `group.id`, or invalid offsets.
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

    /// Returns the group's committed offsets, `None` for partitions without one. `stable` waits for open transactions
    /// that commit offsets, by default if `isolation.level=read_committed`.
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

    /// With `enable.auto.commit`, commits finished rows; with `all`, including those of the last poll. Returns the
    /// remaining time, part of which is kept for LeaveGroup.
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

/// Rejects offsets that no request can contain: queued commits share one request, and would fail with them.
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
