//! Methods of [`Shared`] for the consumer's calls: assignment, seeks, pauses, and the state of partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::messages::Uuid;
use tokio::time::Instant;

use super::cursor::Cursor;
use super::queue::Item;
use super::rows::RowsEnd;
use super::shared_state::Shared;
use super::state::State;
use crate::collections::HashMap;
use crate::defects::Defect;
use crate::error::{Error, Result};
use crate::group::Offsets;
use crate::types::{OffsetAndMetadata, TopicPartition, join_limited};

/// Maximum age of a broker's last Fetch response. Partition ends from older responses are not used.
const MAX_END_AGE: Duration = Duration::from_secs(1);

/// Partitions that a bounded read has not finished.
#[derive(Debug, Default)]
pub struct Bounds {
    /// Partitions that have not reached their end: the partition, its position if known, and its end.
    pub open: Vec<(TopicPartition, Option<i64>, i64)>,
    /// Unpaused partitions that have no end, because a rebalance assigned them after the read began.
    pub unbounded: Vec<TopicPartition>,
    /// Unpaused partitions whose position is past their end since a seek or the lookup of their start offset, with the
    /// position.
    pub past: Vec<(TopicPartition, i64)>,
}

impl Shared {
    pub(crate) fn assign(&self, partitions: &[TopicPartition]) {
        let names: BTreeSet<&Arc<str>> = partitions.iter().map(|tp| &tp.topic).collect();
        for name in names {
            self.topics.code(name);
        }
        {
            let mut state = self.lock();
            state.assign(partitions);
            state.changing = state.waiting == 0;
        }
        self.notify_tasks();
        self.notify_poll();
    }

    pub(crate) fn assignment(&self) -> Vec<TopicPartition> {
        self.lock().cursors.keys().cloned().collect()
    }

    /// Returns the known ids of the assigned topics.
    pub(crate) fn topic_ids(&self) -> BTreeMap<Arc<str>, Uuid> {
        let state = self.lock();
        let known = state.cursors.iter().filter(|(_, cursor)| !cursor.topic_id.is_zero());
        known.map(|(tp, cursor)| (Arc::clone(&tp.topic), cursor.topic_id)).collect()
    }

    pub(crate) fn nothing_assigned(&self) -> bool {
        self.lock().cursors.is_empty()
    }

    pub(crate) fn paused(&self) -> Vec<TopicPartition> {
        let state = self.lock();
        state.cursors.iter().filter(|(_, cursor)| cursor.paused).map(|(tp, _)| tp.clone()).collect()
    }

    /// Seeks all given partitions, or none if one of them is not assigned. Without an offset, the committed offset is
    /// looked up again. The optional epoch is the leader epoch of the record before the offset.
    pub(crate) fn seek(&self, to: &[(TopicPartition, Option<i64>, Option<i32>)]) -> Result<()> {
        self.change(
            to.iter(),
            |(tp, ..)| tp,
            |state, (tp, offset, epoch)| {
                state.seek(tp, *offset, *epoch);
                state.changing = state.waiting == 0;
            },
        )
    }

    /// Pauses or resumes all given partitions, or none if one of them is not assigned.
    pub(crate) fn set_paused(&self, partitions: &[TopicPartition], paused: bool) -> Result<()> {
        self.change(partitions.iter(), |tp| tp, |state, tp| state.set_paused(tp, paused))
    }

    /// Limits a partition to rows below `until`, or removes the limit. Rows from `until` on are kept until the limit is
    /// raised or removed.
    pub(crate) fn read_until(&self, tp: &TopicPartition, until: Option<i64>) -> Result<()> {
        self.change(std::iter::once(tp), |tp| tp, |state, tp| state.read_until(tp, until))
    }

    /// Removes the limits of all partitions.
    pub(crate) fn lift_ends(&self) {
        {
            let mut state = self.lock();
            let bounded = state.cursors.iter().filter(|(_, cursor)| cursor.until.is_some());
            for tp in bounded.map(|(tp, _)| tp.clone()).collect::<Vec<_>>() {
                state.read_until(&tp, None);
            }
        }
        self.notify_tasks();
        self.notify_poll();
    }

    /// Returns the partitions that a bounded read has not finished.
    pub(crate) fn bounds(&self) -> Bounds {
        let state = self.lock();
        let mut bounds = Bounds::default();
        for (tp, cursor) in &state.cursors {
            match cursor.until {
                None if !cursor.paused => bounds.unbounded.push(tp.clone()),
                Some(until) if !cursor.is_at_end() => bounds.open.push((tp.clone(), cursor.position, until)),
                // Offsets without rows also move positions past an end. These are in the log.
                Some(until) if !cursor.paused && cursor.rowless_from == cursor.position => {
                    bounds.past.extend(cursor.position.filter(|at| *at > until).map(|at| (tp.clone(), at)));
                }
                _ => {}
            }
        }
        bounds
    }

    /// Drops the position of a bounded partition that is past the end of the log, so that the partition restarts at the
    /// offset that `auto.offset.reset` selects. The partition is then read up to `end`. Does nothing if the position has
    /// changed.
    pub(crate) fn reset_past_end(&self, tp: &TopicPartition, position: i64, end: i64) {
        self.lock().reset_past_end(tp, position, end);
        self.notify_tasks();
        self.notify_poll();
    }

    /// Ends the bounded read of a partition at its position, if this has not changed.
    pub(crate) fn end_at_position(&self, tp: &TopicPartition, position: i64) {
        let mut state = self.lock();
        if let Some(cursor) = state.cursors.get_mut(tp).filter(|cursor| cursor.position == Some(position)) {
            cursor.until = cursor.until.map(|_| position);
        }
    }

    /// Returns the offsets to commit for `ends`, the offsets after returned rows. Each offset is moved past directly
    /// following offsets that have no rows: transaction markers, and aborted or compacted records. Partitions whose
    /// rows were committed earlier are added if such offsets follow. Offsets of deleted topics are left out.
    pub(crate) fn past_rowless(&self, ends: BTreeMap<TopicPartition, RowsEnd>) -> Offsets {
        let mut state = self.lock();
        let (mut after, mut deleted) = (Offsets::with_capacity(ends.len()), Vec::new());
        for (tp, RowsEnd { mut at, topic_id }) in ends {
            // For a partition that is no longer assigned, the offset is returned unchanged.
            if let Some(cursor) = state.cursors.get_mut(&tp) {
                let of_unknown_topic = topic_id.is_zero() && cursor.may_be_of_old_topic(at.offset);
                if of_unknown_topic || cursor.is_of_another_topic(topic_id) {
                    deleted.push(format!("{tp} at offset {}", at.offset));
                    continue;
                }
                if let Some(position) = cursor.past_rowless(at.offset) {
                    at.offset = position;
                    at.leader_epoch = Some(cursor.position_epoch).filter(|epoch| *epoch >= 0);
                }
                cursor.committed_rows = Some(at.offset);
            }
            after.push((tp, at));
        }
        if !deleted.is_empty() {
            tracing::warn!(
                partitions = join_limited(&deleted),
                "rows of a topic that was deleted and created again are not committed: their offsets are not those of the \
                 new topic"
            );
        }
        for (tp, cursor) in &mut state.cursors {
            if let Some(position) = cursor.committed_rows.and_then(|offset| cursor.past_rowless(offset)) {
                cursor.committed_rows = Some(position);
                let leader_epoch = Some(cursor.position_epoch).filter(|epoch| *epoch >= 0);
                after.push((
                    tp.clone(),
                    OffsetAndMetadata { offset: position, leader_epoch, ..OffsetAndMetadata::default() },
                ));
            }
        }
        after
    }

    fn change<T>(
        &self,
        items: impl Iterator<Item = T> + Clone,
        partition_of: impl Fn(&T) -> &TopicPartition,
        mut change: impl FnMut(&mut State, T),
    ) -> Result<()> {
        {
            let mut state = self.lock();
            if let Some(missing) = items.clone().find(|item| !state.cursors.contains_key(partition_of(item))) {
                return Err(not_assigned(partition_of(&missing)));
            }
            items.for_each(|item| change(&mut state, item));
        }
        self.notify_tasks();
        self.notify_poll();
        Ok(())
    }

    /// Records that the application has processed the rows returned so far.
    pub(crate) fn finish(&self) {
        self.lock().finish();
        self.record_poll();
    }

    /// Like [`positions`](Self::positions), but the rows of the last poll do not count as consumed.
    pub(crate) fn finished(&self) -> Vec<(TopicPartition, i64, Option<i32>)> {
        let state = self.lock();
        let finished = state.cursors.iter().filter_map(|(tp, cursor)| {
            let (position, epoch) = state.finished(tp, cursor);
            Some((tp.clone(), position?, Some(epoch).filter(|epoch| *epoch >= 0)))
        });
        finished.collect()
    }

    /// Returns true if the partition is assigned.
    pub(crate) fn is_assigned(&self, tp: &TopicPartition) -> bool {
        self.lock().cursors.contains_key(tp)
    }

    /// Returns true if the next row of the partition has offset `offset` and the partition is not paused.
    pub(crate) fn is_next(&self, tp: &TopicPartition, offset: i64) -> bool {
        self.lock().cursors.get(tp).is_some_and(|cursor| !cursor.paused && cursor.position == Some(offset))
    }

    /// Returns the known positions of assigned partitions, each with the leader epoch of the record before it.
    pub(crate) fn positions(&self) -> Vec<(TopicPartition, i64, Option<i32>)> {
        let state = self.lock();
        let position = |c: &Cursor| if Defect::CommitOfFetchedRows.is_on() { c.fetch_offset } else { c.position };
        let known = state.cursors.iter().filter_map(|(tp, c)| Some((tp.clone(), position(c)?, c.position_epoch)));
        known.map(|(tp, position, epoch)| (tp, position, Some(epoch).filter(|epoch| *epoch >= 0))).collect()
    }

    /// Returns the ends of assigned partitions as reported by brokers that responded within [`MAX_END_AGE`]: the last
    /// stable offsets if `stable`, otherwise the high watermarks.
    pub(crate) fn ends(&self, stable: bool) -> HashMap<TopicPartition, i64> {
        let state = self.lock();
        let now = Instant::now();
        let is_recent =
            |node: i32| state.last_response.get(&node).is_some_and(|time| now.duration_since(*time) < MAX_END_AGE);
        let ends = state.cursors.iter().filter_map(|(tp, cursor)| {
            let ends = cursor.ends.filter(|ends| !cursor.paused && is_recent(ends.node))?;
            Some((tp.clone(), if stable { ends.stable } else { ends.high_watermark }))
        });
        ends.collect()
    }

    /// Waits until the position of a partition is known and returns it. If an error prevents this, removes the error
    /// from the queue, like a poll, and returns it. Returns `None` if `deadline` passes first.
    pub(crate) async fn position(&self, tp: &TopicPartition, deadline: tokio::time::Instant) -> Option<Result<i64>> {
        let result = self.wait_for(deadline, |state| {
            if state.closed {
                return Some(Err(Error::closed("the consumer")));
            }
            let Some(cursor) = state.cursors.get(tp) else { return Some(Err(not_assigned(tp))) };
            if let Some(position) = cursor.position {
                return Some(Ok(position));
            }
            let index = state.queue.iter().position(|item| match item {
                Item::Error(_) => true,
                Item::Failed(failed) => failed.partitions.iter().any(|(failed, _)| failed == tp),
                Item::Chunk(_) | Item::Slot(_) => false,
            })?;
            match state.queue.remove(index)? {
                Item::Failed(failed) => state.take_failed(failed).map(Err),
                Item::Error(error) => Some(Err(error)),
                Item::Chunk(_) | Item::Slot(_) => None,
            }
        });
        let result = result.await;
        if let Some(Err(_)) = &result {
            // Wakes the tasks, so that they look up the start offset again, as after a poll that has raised the error.
            self.notify_tasks();
        }
        result
    }

    /// Returns the last error of a partition that cannot be fetched.
    pub(crate) fn last_error(&self, tp: &TopicPartition) -> Option<Error> {
        Some(self.lock().cursors.get(tp)?.failing.as_ref()?.error.clone())
    }
}

fn not_assigned(tp: &TopicPartition) -> Error {
    Error::configuration(format!(
        "partition {tp} is not assigned to this consumer: call assign, or after subscribe poll until the group has assigned it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetcher::cursor::Start;

    #[test]
    fn position_past_the_end_of_a_bounded_read_is_reset_once() {
        let (shared, tp, _) = Shared::at_start(64 << 20);
        shared.seek(&[(tp.clone(), Some(10), None)]).unwrap();
        shared.read_until(&tp, Some(5)).unwrap();
        assert_eq!(shared.bounds().past, [(tp.clone(), 10)]);
        // A position that has changed since the bounds were read is kept.
        shared.reset_past_end(&tp, 9, 5);
        assert_eq!(shared.bounds().past, [(tp.clone(), 10)]);
        shared.reset_past_end(&tp, 10, 5);
        let bounds = shared.bounds();
        assert_eq!(
            (bounds.open.as_slice(), bounds.past.as_slice()),
            ([(tp.clone(), None, 5)].as_slice(), [].as_slice())
        );
        let version = shared.lock().cursors[&tp].version;
        assert_eq!(
            shared.without_position().into_values().flatten().collect::<Vec<_>>(),
            [(tp.clone(), version, Start::Reset)]
        );
        let moved = shared.record_starts([(tp.clone(), version, Ok((0, None)))]);
        assert_eq!(moved.iter().map(|moved| (moved.from, moved.to)).collect::<Vec<_>>(), [(10, 0)]);
        assert_eq!(shared.bounds().open, [(tp, Some(0), 5)]);
    }

    #[test]
    fn position_in_the_log_ends_a_bounded_read() {
        let (shared, tp, _) = Shared::at_start(64 << 20);
        shared.seek(&[(tp.clone(), Some(10), None)]).unwrap();
        shared.end_at_position(&tp, 10);
        assert_eq!(shared.bounds().unbounded, std::slice::from_ref(&tp));
        shared.read_until(&tp, Some(5)).unwrap();
        shared.end_at_position(&tp, 10);
        let bounds = shared.bounds();
        assert!(bounds.open.is_empty() && bounds.past.is_empty() && bounds.unbounded.is_empty());
    }
}
