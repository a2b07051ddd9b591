//! The driver's side of a streaming query: ends of micro-batches and the ranges between them. It asks nobody: what brokers
//! say comes in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use samsarrow_client::types::TopicPartition;
use samsarrow_wire::messages::Uuid;

use crate::admission::{Patience, share};
use crate::error::{Result, report_loss};
use crate::offsets::{Offsets, to_json};
use crate::options::ReadOptions;
use crate::ranges::{OffsetRange, split};

/// Lives as long as the query; nothing here survives a restart, nor needs to.
#[derive(Debug)]
pub struct StreamPlanner {
    patience: Option<Patience>,
    initial: Option<(Offsets, Keeping)>,
    opened: bool,
    planned_without_start: bool,
    repeated: Option<(Offsets, Offsets)>,
    frozen: Option<Offsets>,
    topic_ids: BTreeMap<String, Uuid>,
    remade: BTreeSet<String>,
    planned: bool,
}

/// Whether the start of a query outlives the process that asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keeping {
    /// It is asked for again when the first micro-batch is repeated after a restart (Python sources).
    Never,
    /// The caller keeps it from now on.
    New,
    /// The caller has kept this one.
    Kept(Offsets),
}

/// How much of what is there the next micro-batch may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// This many offsets.
    Offsets(u64),
    /// What the options say.
    Options,
    /// All there is, whatever the options say (Trigger.Once).
    Everything,
}

impl StreamPlanner {
    /// Of a query that starts or goes on.
    pub fn new(options: &ReadOptions) -> Self {
        Self {
            patience: options.min_offsets.map(|least| Patience::new(least, options.max_delay)),
            initial: None,
            opened: false,
            planned_without_start: false,
            repeated: None,
            frozen: None,
            topic_ids: BTreeMap::new(),
            remade: BTreeSet::new(),
            planned: false,
        }
    }

    /// Where a new query starts, once that is known.
    pub fn initial(&self) -> Option<&Offsets> {
        self.initial.as_ref().map(|(offsets, _)| offsets)
    }

    /// A new query starts here.
    pub fn start_at(&mut self, offsets: Offsets, keeping: Keeping) {
        self.initial = Some((offsets, keeping));
    }

    /// An end was planned without a start: Spark 4.0 and 4.1 ask for the end of the first micro-batch first.
    pub fn plan_without_start(&mut self) {
        self.planned_without_start = true;
    }

    /// What Trigger.AvailableNow reads up to, once the first micro-batch was planned.
    pub fn frozen(&self) -> Option<&Offsets> {
        self.frozen.as_ref()
    }

    /// Nothing that comes later than this is read.
    pub fn freeze(&mut self, latest: Offsets) {
        self.frozen = Some(latest);
    }

    /// Notes the topics that were made again since the end of the last micro-batch was planned.
    pub fn compare(&mut self, topic_ids: BTreeMap<String, Uuid>) {
        if std::mem::take(&mut self.planned) {
            self.remade.clear();
        }
        for (topic, id) in topic_ids {
            let before = self.topic_ids.insert(topic.clone(), id);
            if before.is_some_and(|before| before != id) {
                self.remade.insert(topic);
            }
        }
    }

    /// Fails where a query that must not lose data stands in a topic that was deleted. The next micro-batch would report it,
    /// but Spark plans none as long as the new topic ends where the old one was read to.
    ///
    /// # Errors
    /// Records are gone, with `failOnDataLoss`.
    pub fn check_topics(&self, options: &ReadOptions, start: &Offsets) -> Result<()> {
        let mut remade = start.iter().filter(|(tp, _)| self.remade.contains(&*tp.topic));
        match remade.next() {
            Some((tp, begin)) if options.fail_on_data_loss => report_loss(recreated(tp, *begin), true),
            _ => Ok(()),
        }
    }

    /// Those of `offsets` that are of the topics that are there now.
    pub fn known(&self, offsets: &Offsets) -> Offsets {
        let kept = offsets.iter().filter(|(tp, _)| !self.remade.contains(&*tp.topic));
        kept.map(|(tp, offset)| (tp.clone(), *offset)).collect()
    }

    /// Returns whether the micro-batch to be planned is the empty one that stores the start of the query.
    ///
    /// Spark keeps the ends of micro-batches, not where the first one started: if that one is repeated after a restart,
    /// the start is asked for again. Retention, new partitions and changed options may have moved it by then, whatever
    /// it is. So where the caller does not keep it, the first micro-batch ends where it starts, and reads nothing.
    fn opening(&mut self) -> bool {
        let unkept = self.initial.as_ref().is_some_and(|(_, keeping)| *keeping == Keeping::Never);
        let opening = !self.opened && unkept;
        self.opened = true;
        opening
    }

    /// The end of the next micro-batch, or the limit that is to be shared out.
    pub fn end(
        &mut self,
        options: &ReadOptions,
        start: &Offsets,
        latest: &Offsets,
        limit: Limit,
        now: Instant,
    ) -> Result<Offsets, u64> {
        if self.opening() {
            return Ok(start.clone());
        }
        if limit == Limit::Everything {
            return Ok(latest.clone());
        }
        // What AvailableNow should read would be left unread by waiting.
        if let (Some(patience), None) = (&mut self.patience, &self.frozen)
            && patience.wait(start, latest, now)
        {
            return Ok(start.clone());
        }
        match (limit, options.max_offsets) {
            (Limit::Offsets(most), _) | (Limit::Options, Some(most)) => Err(most),
            _ => Ok(latest.clone()),
        }
    }

    /// The end of a micro-batch of about `limit` offsets; `new` are the first offsets of partitions that are not known.
    pub fn share(&self, limit: u64, start: &Offsets, latest: &Offsets, new: &Offsets) -> Offsets {
        share(limit, &self.known(start), latest, new)
    }

    /// Whether the query has done nothing but start: these offsets are nobody's work.
    pub fn is_start(&self, offsets: &Offsets) -> bool {
        self.initial() == Some(offsets)
    }

    /// The partitions whose first offsets the ranges of a micro-batch depend on.
    pub fn first_needed(&self, start: &Offsets, end: &Offsets) -> Vec<TopicPartition> {
        let needed = end.keys().filter(|tp| !start.contains_key(tp) || self.remade.contains(&*tp.topic));
        needed.cloned().collect()
    }

    /// The tasks of a micro-batch. `first` are the first offsets of those partitions of
    /// [`first_needed`](Self::first_needed) that are still there. After a restart this is asked first, for a micro-batch
    /// that was not finished.
    ///
    /// # Errors
    /// Records are gone, with `failOnDataLoss`.
    pub fn ranges(
        &mut self,
        options: &ReadOptions,
        start: &Offsets,
        end: &Offsets,
        first: &Offsets,
    ) -> Result<Vec<OffsetRange>> {
        // Before it resolves a start, Spark may have an empty range planned at the last end of the checkpoint
        // (`setLatestSeenOffset` of sources without limits).
        if self.initial.is_some() && !std::mem::replace(&mut self.opened, true) {
            self.repeated = Some((start.clone(), end.clone()));
            if !self.planned_without_start && self.is_resolved_again(start, end) && start != end {
                tracing::warn!(
                    "the first micro-batch of the query, which ends at {}, is repeated, and Spark did not keep its start: \
                     the options resolve to {} now. If Spark 4.0 or 4.1 or another connector planned it, what it had \
                     before that is not read",
                    to_json(end),
                    to_json(start)
                );
            }
        }
        let ranges = self.checked(options, start, end, first)?;
        Ok(split(&ranges, options.min_partitions, options.max_records_per_partition))
    }

    /// Where a batch in real-time mode starts in each partition that is there, whose end now is `latest`.
    ///
    /// # Errors
    /// Records are gone, with `failOnDataLoss`.
    pub fn open(
        &mut self,
        options: &ReadOptions,
        start: &Offsets,
        latest: &Offsets,
        first: &Offsets,
    ) -> Result<Offsets> {
        let mut starts = latest.clone();
        starts.extend(self.checked(options, start, latest, first)?.into_iter().map(|range| (range.tp, range.start)));
        Ok(starts)
    }

    /// What lies between two offsets, a partition each; none of those whose end went back.
    fn checked(
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
                    report_loss(format!("the new partition {tp} is gone already: its records were not read"), fail)?
                }
                Some(0) => {}
                Some(at) => {
                    report_loss(format!("the new partition {tp} starts at {at}: records before were deleted"), fail)?;
                }
            }
        }
        let resolved_again = self.is_resolved_again(start, end);
        for (tp, at) in start.iter().filter(|(tp, _)| !end.contains_key(tp)) {
            if resolved_again {
                // It was added after the end was planned: the next micro-batch reads it from its first record.
                continue;
            }
            report_loss(format!("partition {tp} is gone: what it had from offset {at} on was not read"), fail)?;
        }
        let mut ranges = Vec::new();
        for (tp, &until) in end {
            // One that is in neither was reported above as gone.
            let Some(mut begin) = start.get(tp).or_else(|| first.get(tp)).copied() else { continue };
            if start.contains_key(tp) && self.remade.contains(&*tp.topic) {
                report_loss(recreated(tp, begin), fail)?;
                // The new topic may have fewer partitions: nothing can be read of one that it lacks.
                begin = first.get(tp).copied().unwrap_or(until);
            } else if until < begin {
                // A start that is later now reads nothing here. The next micro-batch begins at the end, and its tasks
                // report records that are missing from there.
                if !resolved_again {
                    let lost = format!(
                        "the end of {tp} went from offset {begin} back to {until}: the topic was deleted and recreated, or \
                         its log was truncated"
                    );
                    report_loss(lost, fail)?;
                }
                // Which of the two it was cannot be known: reading from the first offset could repeat records.
                continue;
            }
            ranges.push(OffsetRange { tp: tp.clone(), start: begin, end: until });
        }
        self.planned = true;
        Ok(ranges)
    }

    /// Returns whether this is a query's first micro-batch, and its start was resolved after its end had been planned.
    fn is_resolved_again(&self, start: &Offsets, end: &Offsets) -> bool {
        let resolved =
            self.initial.as_ref().is_some_and(|(at, keeping)| at == start && !matches!(keeping, Keeping::Kept(_)));
        resolved && self.repeated.as_ref().is_some_and(|(s, e)| s == start && e == end)
    }
}

fn recreated(tp: &TopicPartition, offset: i64) -> String {
    format!("topic {} was deleted and recreated: what {tp} had from offset {offset} on was not read", tp.topic)
}

#[cfg(test)]
#[path = "planner_tests.rs"]
mod tests;
