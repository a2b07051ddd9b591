//! Acquisition: selects the records that a ShareFetch delivers, and locks them for its member.

use std::sync::Arc;

use samsarrow_wire::batch::{AbortedTransactions, Batch, EndMarker, batches};
use tokio::time::Instant;

use super::partition::{SharePartition, lock_end};
use super::settings::ShareSettings;
use crate::log::Slices;
use crate::state::topic::PartitionState;

/// Limits of an acquisition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) max_records: i64,
    pub(crate) max_bytes: usize,
    /// Size above which acquired ranges are split at the end of a record batch.
    pub(crate) batch_size: i64,
    /// True if `max_records` must not be exceeded (KIP-1206). Otherwise the last record batch is acquired whole.
    pub(crate) strict: bool,
    pub(crate) at_least_one: bool,
}

/// A range of records that was acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AcquiredRange {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) deliveries: i16,
}

/// Acquired records of one partition, with the record batches that contain them.
#[derive(Debug, Default)]
pub(crate) struct Acquired {
    pub(crate) ranges: Vec<AcquiredRange>,
    pub(crate) records: Slices,
}

impl Acquired {
    pub(crate) fn count(&self) -> i64 {
        self.ranges.iter().map(|range| range.last - range.first + 1).sum()
    }

    /// Adds a range, merged with the last one if both were delivered equally often and may be merged.
    fn push(&mut self, range: AcquiredRange, may_merge: bool) {
        match self.ranges.last_mut() {
            Some(last) if may_merge && last.last + 1 == range.first && last.deliveries == range.deliveries => {
                last.last = range.last;
            }
            _ => self.ranges.push(range),
        }
    }
}

/// Returns the exclusive end of the records that may be delivered.
pub(super) fn readable_end(log: &PartitionState, settings: &ShareSettings) -> i64 {
    if settings.committed_only { log.last_stable_offset() } else { log.log.next_offset() }
}

/// Returns the offset at which the next acquisition starts, or `None` if no record can be acquired.
pub(super) fn next_acquirable(share: &SharePartition, log: &PartitionState, settings: &ShareSettings) -> Option<i64> {
    let next = share.next_offset();
    let is_new = next == share.end;
    if next >= readable_end(log, settings) || is_new && share.in_flight() >= settings.record_locks {
        return None;
    }
    Some(next)
}

/// Acquires records for a member.
pub(super) fn acquire(
    share: &mut SharePartition,
    log: &PartitionState,
    member: &Arc<str>,
    limits: Limits,
    settings: &ShareSettings,
    now: Instant,
) -> Acquired {
    let mut acquired = Acquired::default();
    let Some(from) = next_acquirable(share, log, settings) else { return acquired };
    let slices = log.log.read(from, readable_end(log, settings), limits.max_bytes, limits.at_least_one);
    if slices.bytes == 0 {
        return acquired;
    }
    let read: Vec<Batch> =
        slices.chunks.iter().flat_map(|chunk| batches(chunk.clone()).map_while(Result::ok)).collect();
    // The last batch of a corrupt log may be unreadable; its records are delivered with the others.
    let until = slices.until;
    let capacity = settings.record_locks - share.in_flight();
    let max_records = if capacity > 0 { limits.max_records.min(capacity) } else { limits.max_records };
    let deadline = lock_end(now, settings.lock);
    let limits = Limits { max_records, ..limits };
    let may_continue = acquire_again(share, (from, until), member, limits, settings, deadline, &mut acquired);
    let remaining = max_records - acquired.count();
    if may_continue && capacity > 0 && remaining > 0 && until > share.end {
        let first_batch = read.first().map_or(from, |batch| batch.header.base_offset);
        let first = share.end.max(first_batch);
        let last = last_new(&read, first, until - 1, remaining, limits.strict);
        share.extend(first, last);
        share.deliver(first, last, member, deadline);
        for (first, last) in by_size(&read, first, last, limits.batch_size) {
            acquired.push(AcquiredRange { first, last, deliveries: 1 }, false);
        }
    }
    if settings.committed_only {
        leave_out_aborted(share, log, &read, &mut acquired);
    }
    if let (Some(first), Some(last)) = (acquired.ranges.first(), acquired.ranges.last()) {
        acquired.records = log.log.read(first.first, last.last.saturating_add(1), usize::MAX, true);
    }
    acquired
}

/// Acquires records that were delivered before. Returns false if no new records may be delivered in the same response.
///
/// Records that near the delivery limit are throttled, so that a record that cannot be processed is found and the others
/// are not lost with it: they are delivered in halves, and alone in the last attempt (KAFKA-17541).
fn acquire_again(
    share: &mut SharePartition,
    (from, until): (i64, i64),
    member: &Arc<str>,
    limits: Limits,
    settings: &ShareSettings,
    deadline: Instant,
    acquired: &mut Acquired,
) -> bool {
    let limit = settings.delivery_limit;
    let throttled_from = limit.saturating_add(1).div_euclid(2).max(2);
    let candidates: Vec<(i64, i64, i16, (i64, i64))> = share
        .ranges
        .range(from..until)
        .filter(|(_, range)| range.is_available())
        .map(|(first, range)| (*first, range.last, range.deliveries, range.batch))
        .collect();
    let is_throttled = |batch: (i64, i64)| {
        let of_batch = candidates.iter().filter(|(.., of)| *of == batch);
        of_batch.map(|(_, _, deliveries, _)| *deliveries).max().unwrap_or(0) >= throttled_from
    };
    let mut window: Option<((i64, i64), Option<i64>)> = None;
    for (first, last, deliveries, batch) in &candidates {
        let taken = acquired.count();
        if taken >= limits.max_records {
            return false;
        }
        let throttled = is_throttled(*batch);
        let is_same_batch = window.is_some_and(|(of, _)| of == *batch);
        // A throttled batch is delivered without other batches.
        if window.is_some() && !is_same_batch || throttled && taken > 0 && !is_same_batch {
            return false;
        }
        let is_final = limit > 2 && *deliveries == limit - 1;
        if is_final && taken > 0 {
            return false;
        }
        let mut last = *last;
        if throttled {
            let size = if *deliveries >= throttled_from {
                Some((batch.1 >> (deliveries - throttled_from + 1).clamp(0, 62)).max(1))
            } else {
                None
            };
            let allowed = window.and_then(|(_, allowed)| allowed).or(size);
            window = Some((*batch, allowed));
            if let Some(allowed) = allowed {
                if taken >= allowed {
                    return false;
                }
                last = last.min(first + allowed - taken - 1);
            }
        }
        if is_final {
            last = *first;
        }
        if limits.strict {
            last = last.min(first + limits.max_records - taken - 1);
        }
        let deliveries = share.deliver(*first, last, member, deadline);
        acquired.push(AcquiredRange { first: *first, last, deliveries }, true);
        if is_final {
            return false;
        }
    }
    window.is_none()
}

/// Returns the last offset of a new acquisition. A soft limit ends at the end of the record batch that reaches it.
fn last_new(read: &[Batch], first: i64, last: i64, remaining: i64, strict: bool) -> i64 {
    if last - first < remaining {
        return last;
    }
    let at_limit = first + remaining - 1;
    if strict {
        return at_limit;
    }
    let reaching = read.iter().find(|batch| batch.header.last_offset() >= at_limit);
    reaching.map_or(last, |batch| batch.header.last_offset().min(last))
}

/// Splits an acquired range at the ends of record batches, if it is larger than `size`.
fn by_size(read: &[Batch], first: i64, last: i64, size: i64) -> Vec<(i64, i64)> {
    let mut parts = Vec::new();
    let mut from = first;
    for end in read.iter().map(|batch| batch.header.last_offset()).filter(|end| (first..last).contains(end)) {
        if size > 0 && end - from + 1 >= size {
            parts.push((from, end));
            from = end + 1;
        }
    }
    parts.push((from, last));
    parts
}

/// Ends the delivery of acquired records that belong to aborted transactions.
fn leave_out_aborted(share: &mut SharePartition, log: &PartitionState, read: &[Batch], acquired: &mut Acquired) {
    let (Some(first), Some(last)) = (read.first(), read.last()) else { return };
    let (first, last) = (first.header.base_offset, last.header.last_offset());
    let mut aborted = AbortedTransactions::new(log.producers.aborted.between(first, last.saturating_add(1)));
    for batch in read {
        let header = &batch.header;
        if header.is_control() {
            if EndMarker::read(batch).is_some_and(|marker| !marker.committed) {
                aborted.end(header.producer_id, header.last_offset());
            }
        } else if header.is_transactional() && aborted.is_aborted(header.producer_id, header.last_offset()) {
            let (from, to) = (header.base_offset, header.last_offset());
            let ranges = std::mem::take(&mut acquired.ranges);
            for range in ranges {
                if range.last < from || range.first > to {
                    acquired.ranges.push(range);
                    continue;
                }
                share.finish(range.first.max(from), range.last.min(to));
                if range.first < from {
                    acquired.ranges.push(AcquiredRange { last: from - 1, ..range });
                }
                if range.last > to {
                    acquired.ranges.push(AcquiredRange { first: to + 1, ..range });
                }
            }
        }
    }
    share.advance();
}
