//! Planning of streaming queries: ends of micro-batches and the ranges between them. The planner performs no I/O. The
//! caller passes the offsets that brokers returned.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use samsarrow_client::types::TopicPartition;
use samsarrow_wire::messages::Uuid;

use crate::error::{Result, report_loss};
use crate::offsets::{Offsets, to_json};
use crate::options::ReadOptions;
use crate::ranges::{OffsetRange, split};
use crate::rate_limit::{MinOffsetsTrigger, distribute_limit};

/// Planner of a streaming query. It lives as long as the query runs, and none of its state is needed after a restart.
#[derive(Debug)]
pub struct StreamPlanner {
    min_offsets_trigger: Option<MinOffsetsTrigger>,
    initial: Option<(Offsets, StartCheckpoint)>,
    start_batch_planned: bool,
    planned_without_start: bool,
    replayed: Option<(Offsets, Offsets)>,
    frozen: Option<Offsets>,
    topic_ids: BTreeMap<String, Uuid>,
    recreated: BTreeSet<String>,
    planned: bool,
}

/// Describes whether the start of a query is stored, so that it outlives the process that resolved it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartCheckpoint {
    /// The start is not stored, as in Python sources. It is resolved again when the first micro-batch is replayed after
    /// a restart.
    NotStored,
    /// The caller stores the start after it has been resolved.
    New,
    /// The caller has already stored this start.
    Stored(Offsets),
}

/// Size limit of the next micro-batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Maximum number of offsets.
    Offsets(u64),
    /// The limit that is set in the options.
    Options,
    /// No limit, even if the options set one (`Trigger.Once`).
    Everything,
}

impl StreamPlanner {
    /// Creates the planner of a new or continued query.
    pub fn new(options: &ReadOptions) -> Self {
        Self {
            min_offsets_trigger: options
                .min_offsets
                .map(|min_offsets| MinOffsetsTrigger::new(min_offsets, options.max_delay)),
            initial: None,
            start_batch_planned: false,
            planned_without_start: false,
            replayed: None,
            frozen: None,
            topic_ids: BTreeMap::new(),
            recreated: BTreeSet::new(),
            planned: false,
        }
    }

    /// Returns the start offsets of a new query, or `None` if they are not resolved yet.
    pub fn initial(&self) -> Option<&Offsets> {
        self.initial.as_ref().map(|(offsets, _)| offsets)
    }

    /// Sets the start offsets of a new query.
    pub fn start_at(&mut self, offsets: Offsets, checkpoint: StartCheckpoint) {
        self.initial = Some((offsets, checkpoint));
    }

    /// Records that an end was planned before the start was requested. Spark 4.0 and 4.1 request the end of the first
    /// micro-batch before the start.
    pub fn plan_without_start(&mut self) {
        self.planned_without_start = true;
    }

    /// Returns the end offsets of a query with `Trigger.AvailableNow`. They are set when its first micro-batch is
    /// planned.
    pub fn frozen(&self) -> Option<&Offsets> {
        self.frozen.as_ref()
    }

    /// Sets the end offsets of the query. Later records are not read.
    pub fn freeze(&mut self, latest: Offsets) {
        self.frozen = Some(latest);
    }

    /// Records which topics were recreated since the end of the last micro-batch was planned.
    pub fn track_topic_ids(&mut self, topic_ids: BTreeMap<String, Uuid>) {
        if std::mem::take(&mut self.planned) {
            self.recreated.clear();
        }
        for (topic, id) in topic_ids {
            let before = self.topic_ids.insert(topic.clone(), id);
            if before.is_some_and(|before| before != id) {
                self.recreated.insert(topic);
            }
        }
    }

    /// Reports data loss if a topic in `start` was recreated. Planning the next micro-batch would also detect this, but
    /// Spark does not plan one while the new topic's end offset equals the offset that the query has already reached.
    ///
    /// # Errors
    /// Fails if a topic was recreated and `failOnDataLoss` is set.
    pub fn check_topics(&self, options: &ReadOptions, start: &Offsets) -> Result<()> {
        let mut affected = start.iter().filter(|(tp, _)| self.recreated.contains(&*tp.topic));
        match affected.next() {
            Some((tp, begin)) if options.fail_on_data_loss => report_loss(recreated_text(tp, *begin), true),
            _ => Ok(()),
        }
    }

    /// Returns the offsets of all topics that were not recreated.
    pub fn without_recreated(&self, offsets: &Offsets) -> Offsets {
        let current = offsets.iter().filter(|(tp, _)| !self.recreated.contains(&*tp.topic));
        current.map(|(tp, offset)| (tp.clone(), *offset)).collect()
    }

    /// Returns true if the next micro-batch is the first, empty micro-batch, which stores the start of the query.
    ///
    /// Spark stores the ends of micro-batches, but not the start of the first micro-batch. If the first micro-batch is
    /// replayed after a restart, the start is resolved again. By then, retention, new partitions or changed options may
    /// have moved every kind of start. Therefore, unless the caller stores the start, the first micro-batch ends where
    /// it starts and reads nothing.
    fn take_start_batch(&mut self) -> bool {
        let not_stored = self.initial.as_ref().is_some_and(|(_, checkpoint)| *checkpoint == StartCheckpoint::NotStored);
        let is_start_batch = !self.start_batch_planned && not_stored;
        self.start_batch_planned = true;
        is_start_batch
    }

    /// Returns the end of the next micro-batch. If a limit applies, returns the limit as `Err`, so that the caller
    /// distributes it over the partitions.
    pub fn end(
        &mut self,
        options: &ReadOptions,
        start: &Offsets,
        latest: &Offsets,
        limit: Limit,
        now: Instant,
    ) -> Result<Offsets, u64> {
        if self.take_start_batch() {
            return Ok(start.clone());
        }
        if limit == Limit::Everything {
            return Ok(latest.clone());
        }
        // With `Trigger.AvailableNow` there is no wait, because it would leave records unread.
        if let (Some(min_offsets_trigger), None) = (&mut self.min_offsets_trigger, &self.frozen)
            && min_offsets_trigger.should_wait(start, latest, now)
        {
            return Ok(start.clone());
        }
        match (limit, options.max_offsets) {
            (Limit::Offsets(max), _) | (Limit::Options, Some(max)) => Err(max),
            _ => Ok(latest.clone()),
        }
    }

    /// Returns the end of a micro-batch of about `limit` offsets. `new` contains the first offsets of new partitions.
    pub fn limit_end(&self, limit: u64, start: &Offsets, latest: &Offsets, new: &Offsets) -> Offsets {
        distribute_limit(limit, &self.without_recreated(start), latest, new)
    }

    /// Returns true if these are the start offsets of the query. The query has then not processed any record before
    /// them.
    pub fn is_start(&self, offsets: &Offsets) -> bool {
        self.initial() == Some(offsets)
    }

    /// Returns the partitions whose first offsets must be passed to [`ranges`](Self::ranges).
    pub fn first_needed(&self, start: &Offsets, end: &Offsets) -> Vec<TopicPartition> {
        let needed = end.keys().filter(|tp| !start.contains_key(tp) || self.recreated.contains(&*tp.topic));
        needed.cloned().collect()
    }

    /// Returns the ranges of the tasks of a micro-batch. `first` contains the first offsets of the partitions in
    /// [`first_needed`](Self::first_needed) that still exist. After a restart, this is Spark's first call if a
    /// micro-batch was not finished.
    ///
    /// # Errors
    /// Fails if records are lost and `failOnDataLoss` is set.
    pub fn ranges(
        &mut self,
        options: &ReadOptions,
        start: &Offsets,
        end: &Offsets,
        first: &Offsets,
    ) -> Result<Vec<OffsetRange>> {
        // Before Spark resolves a start, it may plan an empty range at the last end in the checkpoint
        // (`setLatestSeenOffset` of sources without limits).
        if self.initial.is_some() && !std::mem::replace(&mut self.start_batch_planned, true) {
            self.replayed = Some((start.clone(), end.clone()));
            if !self.planned_without_start && self.start_was_resolved_again(start, end) && start != end {
                tracing::warn!(
                    "the first micro-batch of the query, which ends at {}, is repeated, and Spark did not keep its start: \
                     the options resolve to {} now. If Spark 4.0 or 4.1 or another connector planned it, records before \
                     that offset are not read",
                    to_json(end),
                    to_json(start)
                );
            }
        }
        let ranges = self.check_ranges(options, start, end, first)?;
        Ok(split(&ranges, options.min_partitions, options.max_records_per_partition))
    }

    /// Returns the offset at which a real-time batch starts in each existing partition. `latest` contains the current
    /// ends.
    ///
    /// # Errors
    /// Fails if records are lost and `failOnDataLoss` is set.
    pub fn open(
        &mut self,
        options: &ReadOptions,
        start: &Offsets,
        latest: &Offsets,
        first: &Offsets,
    ) -> Result<Offsets> {
        let mut starts = latest.clone();
        starts
            .extend(self.check_ranges(options, start, latest, first)?.into_iter().map(|range| (range.tp, range.start)));
        Ok(starts)
    }

    /// Returns the range between two offsets for each partition, and reports data loss. Partitions whose end moved back
    /// are left out.
    fn check_ranges(
        &mut self,
        options: &ReadOptions,
        start: &Offsets,
        end: &Offsets,
        first: &Offsets,
    ) -> Result<Vec<OffsetRange>> {
        let fail = options.fail_on_data_loss;
        for tp in end.keys().filter(|tp| !start.contains_key(tp)) {
            match first.get(tp) {
                None => {
                    report_loss(format!("the new partition {tp} was already deleted: its records were not read"), fail)?
                }
                Some(0) => {}
                Some(at) => {
                    report_loss(
                        format!("the new partition {tp} starts at offset {at}: earlier records were deleted"),
                        fail,
                    )?;
                }
            }
        }
        let start_moved = self.start_was_resolved_again(start, end);
        for (tp, at) in start.iter().filter(|(tp, _)| !end.contains_key(tp)) {
            if start_moved {
                // The partition was added after the end was planned, so the next micro-batch reads it from its first
                // record.
                continue;
            }
            report_loss(format!("partition {tp} was deleted: its records from offset {at} on were not read"), fail)?;
        }
        let mut ranges = Vec::new();
        for (tp, &until) in end {
            // A partition that is neither in `start` nor in `first` was deleted, which is reported above.
            let Some(mut begin) = start.get(tp).or_else(|| first.get(tp)).copied() else { continue };
            if start.contains_key(tp) && self.recreated.contains(&*tp.topic) {
                report_loss(recreated_text(tp, begin), fail)?;
                // The new topic may have fewer partitions. A partition that no longer exists has nothing to read.
                begin = first.get(tp).copied().unwrap_or(until);
            } else if until < begin {
                // If `start_moved` is true, no loss is reported here: the new start is after the end that was planned
                // before the restart, so this micro-batch reads nothing. The next micro-batch begins at this end, and
                // its tasks report missing records.
                if !start_moved {
                    let lost = format!(
                        "the end of {tp} went from offset {begin} back to {until}: the topic was deleted and recreated, or \
                         its log was truncated"
                    );
                    report_loss(lost, fail)?;
                }
                // A recreated topic cannot be distinguished from a truncated log here. If the topic was truncated,
                // reading from the first offset would repeat records.
                continue;
            }
            ranges.push(OffsetRange { tp: tp.clone(), start: begin, end: until });
        }
        self.planned = true;
        Ok(ranges)
    }

    /// Returns true if this is the first micro-batch of the query and its start was resolved after its end was planned.
    fn start_was_resolved_again(&self, start: &Offsets, end: &Offsets) -> bool {
        let resolved = self
            .initial
            .as_ref()
            .is_some_and(|(at, checkpoint)| at == start && !matches!(checkpoint, StartCheckpoint::Stored(_)));
        resolved && self.replayed.as_ref().is_some_and(|(s, e)| s == start && e == end)
    }
}

fn recreated_text(tp: &TopicPartition, offset: i64) -> String {
    format!("topic {} was deleted and recreated: records of {tp} from offset {offset} on were not read", tp.topic)
}

#[cfg(test)]
#[path = "planner_tests.rs"]
mod tests;
