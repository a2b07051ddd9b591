//! Positions: seeks, partition ends, lag, and bounded reads.

use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use tokio::time::Instant;

use super::Consumer;
use crate::config::{IsolationLevel, OffsetReset};
use crate::error::{Error, Result};
use crate::fetcher::{Bounds, not_in_log};
use crate::offsets::{self, ListTarget};
use crate::types::{OffsetAndMetadata, OffsetAndTimestamp, TopicPartition, join_limited};

/// Target of a seek.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeekTarget {
    /// The log start offset.
    Beginning,
    /// The end of the partition.
    End,
    /// The group's committed offset. Partitions without a committed offset use `auto.offset.reset`.
    Committed,
    /// The first record whose timestamp is at or after this time in milliseconds since 1970, or the end of the
    /// partition if there is no such record.
    Timestamp(i64),
}

impl Consumer {
    /// Returns the offset of the next row of an assigned partition.
    pub async fn position(&self, tp: &TopicPartition, timeout: Duration) -> Result<i64> {
        self.check_open()?;
        let position = async {
            let position = self.fetcher.shared.position(tp, Instant::now() + timeout).await;
            let timed_out =
                || Error::timeout_because(format!("the position of {tp}"), timeout, self.fetcher.shared.last_error(tp));
            position.unwrap_or_else(|| Err(timed_out()))
        };
        self.unless_woken(position).await
    }

    /// Returns the log start offset of each partition.
    pub async fn beginning_offsets(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, i64)>> {
        self.ends(partitions, ListTarget::Earliest, timeout).await
    }

    /// Returns the end of each partition: the high watermark, or the last stable offset for `read_committed`.
    pub async fn end_offsets(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, i64)>> {
        self.ends(partitions, ListTarget::Latest, timeout).await
    }

    async fn ends(
        &self,
        partitions: &[TopicPartition],
        target: ListTarget,
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, i64)>> {
        let targets: Vec<_> = partitions.iter().map(|tp| (tp.clone(), target)).collect();
        let offsets = self.list(&targets, timeout).await?;
        let known = |(tp, offset): (TopicPartition, Option<OffsetAndTimestamp>)| match offset {
            Some(offset) => Ok((tp, offset.offset)),
            // This is an error, because with a default of 0 a bounded read of the partition would end without returning
            // rows.
            None => Err(Error::protocol(format!("the leader of {tp}"), "ListOffsets returned no offset")),
        };
        offsets.into_iter().map(known).collect()
    }

    /// Returns, for each partition, the offset of the first record at or after the given time, or `None` if no such
    /// record exists.
    pub async fn offsets_for_times(
        &self,
        times: &[(TopicPartition, i64)],
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Option<OffsetAndTimestamp>)>> {
        if let Some((tp, time)) = times.iter().find(|(_, time)| *time < 0) {
            return Err(Error::configuration(format!(
                "a time of {time} ms for {tp}: times are milliseconds since 1970"
            )));
        }
        let targets: Vec<_> = times.iter().map(|(tp, time)| (tp.clone(), ListTarget::Timestamp(*time))).collect();
        self.list(&targets, timeout).await
    }

    async fn list(
        &self,
        targets: &[(TopicPartition, ListTarget)],
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Option<OffsetAndTimestamp>)>> {
        self.check_open()?;
        let isolation = self.options.isolation_level;
        // A missing topic fails at once, as in `partitions_for`. Java waits for the topic until the timeout.
        let lookup = async { Ok(offsets::list_offsets_each(&self.cluster, targets, isolation, timeout).await) };
        let each = self.unless_woken(lookup).await?;
        each.into_iter().map(|(tp, outcome)| Ok((tp, outcome?))).collect()
    }

    /// Returns the number of offsets between the position and the end of each assigned partition. Fetch responses
    /// contain the ends, so only ends older than a second are requested.
    pub async fn lag(&self, timeout: Duration) -> Result<Vec<(TopicPartition, i64)>> {
        self.check_open()?;
        let deadline = Instant::now() + timeout;
        let assigned = self.assignment();
        let mut ends = self.fetcher.shared.ends(self.options.isolation_level == IsolationLevel::ReadCommitted);
        let unknown: Vec<_> = assigned.iter().filter(|tp| !ends.contains_key(tp)).cloned().collect();
        if !unknown.is_empty() {
            ends.extend(self.end_offsets(&unknown, timeout).await?);
        }
        let mut lags = Vec::with_capacity(assigned.len());
        for tp in assigned {
            let position = self.position(&tp, deadline.saturating_duration_since(Instant::now())).await?;
            let end = ends.get(&tp).copied().unwrap_or(position);
            lags.push((tp, (end - position).max(0)));
        }
        Ok(lags)
    }

    /// Moves the position to `offset` and drops fetched records.
    pub fn seek(&self, tp: &TopicPartition, offset: i64) -> Result<()> {
        self.seek_after(tp, offset, None)
    }

    /// Moves the position to `offset`, where `leader_epoch` is the epoch of the preceding record, as returned with rows
    /// and commits. If that record has been truncated, the position is reset to the offset where the logs diverge
    /// (KIP-320).
    pub fn seek_after(&self, tp: &TopicPartition, offset: i64, leader_epoch: Option<i32>) -> Result<()> {
        self.check_open()?;
        if offset < 0 {
            return Err(Error::configuration(format!("cannot seek {tp} to offset {offset}: offsets start at 0")));
        }
        tracing::debug!(client_id = self.cluster.client_id(), "partition {tp}: seek to offset {offset}");
        self.fetcher.shared.seek(&[(tp.clone(), Some(offset), leader_epoch)])
    }

    /// Limits a partition to rows with offsets below `until`; `None` removes the limit. Once all rows below the limits
    /// have been returned, a poll returns without rows. Rows past the limit are kept for later reads. The limit applies
    /// until the partition is no longer assigned.
    pub fn read_until(&self, tp: &TopicPartition, until: Option<i64>) -> Result<()> {
        self.check_open()?;
        self.fetcher.shared.read_until(tp, until)
    }

    /// Returns true if the partition is assigned and not paused, and its next row has this offset.
    pub fn is_next(&self, tp: &TopicPartition, offset: i64) -> bool {
        self.fetcher.shared.is_next(tp, offset)
    }

    /// Removes the limits of all partitions.
    pub fn lift_ends(&self) {
        self.fetcher.shared.lift_ends();
    }

    /// Returns the partitions that have not reached the limit set by [`read_until`](Self::read_until), and the
    /// partitions without a limit.
    pub fn bounds(&self) -> Bounds {
        self.fetcher.shared.bounds()
    }

    /// Checks positions that are past the end of a bounded read. Resets those that are past the end of the log, as a
    /// fetch does, and reads them up to this end. A position inside the log, for example one that another member has
    /// committed since the ends were looked up, ends the read of its partition.
    ///
    /// # Errors
    /// Fails with [`Error::OffsetOutOfRange`] if a position is past the end and `auto.offset.reset` is `none`, or if the
    /// ends cannot be looked up within `timeout`.
    pub async fn reset_past_ends(&self, timeout: Duration) -> Result<()> {
        self.check_open()?;
        let past = self.bounds().past;
        let targets: Vec<_> = past.iter().map(|(tp, _)| (tp.clone(), ListTarget::Latest)).collect();
        // Positions may be past the last stable offset, because transactions are open.
        let ends = offsets::list_offsets(&self.cluster, &targets, IsolationLevel::ReadUncommitted, timeout);
        let ends = self.unless_woken(ends).await?;
        for ((tp, position), (_, end)) in past.into_iter().zip(ends) {
            match end {
                Some(end) if position > end.offset => {
                    if self.options.auto_offset_reset == OffsetReset::None {
                        return Err(not_in_log(&tp, position));
                    }
                    self.fetcher.shared.reset_past_end(&tp, position, end.offset);
                }
                _ => self.fetcher.shared.end_at_position(&tp, position),
            }
        }
        Ok(())
    }

    /// Returns those of the partitions that brokers report as unknown, because their topics were deleted. Partitions
    /// whose brokers do not respond within `timeout` count as known.
    ///
    /// # Errors
    /// Fails with [`Error::Wakeup`] if `wakeup` was called.
    pub async fn unknown_partitions(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<TopicPartition>> {
        self.check_open()?;
        let targets: Vec<_> = partitions.iter().map(|tp| (tp.clone(), ListTarget::Latest)).collect();
        let lookup = async {
            let isolation = IsolationLevel::ReadUncommitted;
            Ok(offsets::list_offsets_each(&self.cluster, &targets, isolation, timeout).await)
        };
        let listed = self.unless_woken(lookup).await?;
        let unknown = Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code());
        let is_unknown = |outcome: &Result<_>| outcome.as_ref().is_err_and(|error| error.code() == unknown);
        Ok(listed.into_iter().filter(|(_, outcome)| is_unknown(outcome)).map(|(tp, _)| tp).collect())
    }

    /// Moves the positions of these partitions, or of all assigned partitions if `partitions` is empty.
    pub async fn seek_to(&self, partitions: &[TopicPartition], target: SeekTarget, timeout: Duration) -> Result<()> {
        let partitions = if partitions.is_empty() { self.assignment() } else { partitions.to_vec() };
        let deadline = Instant::now() + timeout;
        let to: Vec<(TopicPartition, Option<i64>, Option<i32>)> = match target {
            SeekTarget::Committed => {
                let offsets = self.committed(&partitions, None, timeout).await?.into_iter();
                let target = |committed: &OffsetAndMetadata| (Some(committed.offset), committed.leader_epoch);
                offsets
                    .map(|(tp, committed)| (tp, committed.as_ref().map_or((None, None), target)))
                    .map(|(tp, (o, e))| (tp, o, e))
                    .collect()
            }
            SeekTarget::Beginning => without_epoch(self.beginning_offsets(&partitions, timeout).await?),
            SeekTarget::End => without_epoch(self.end_offsets(&partitions, timeout).await?),
            SeekTarget::Timestamp(time) => {
                let times: Vec<_> = partitions.iter().map(|tp| (tp.clone(), time)).collect();
                let offsets = self.offsets_for_times(&times, timeout).await?;
                let ends = self.end_offsets(&partitions, deadline.saturating_duration_since(Instant::now())).await?;
                let target = |(tp, found): (_, Option<OffsetAndTimestamp>), end| {
                    (tp, Some(found.map_or(end, |found| found.offset)), None)
                };
                offsets.into_iter().zip(ends).map(|(found, (_, end))| target(found, end)).collect()
            }
        };
        let offset = |offset: &Option<i64>| offset.map_or_else(|| "the committed offset".to_owned(), |o| o.to_string());
        let seeks = to.iter().map(|(tp, to, _)| format!("{tp} to {}", offset(to)));
        tracing::debug!(client_id = self.cluster.client_id(), "seek: {}", join_limited(seeks));
        self.fetcher.shared.seek(&to)
    }
}

fn without_epoch(offsets: Vec<(TopicPartition, i64)>) -> Vec<(TopicPartition, Option<i64>, Option<i32>)> {
    offsets.into_iter().map(|(tp, offset)| (tp, Some(offset), None)).collect()
}
