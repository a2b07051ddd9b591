//! Consumers of this process, kept from task to task: with one at hand a task needs neither connections nor metadata nor a
//! new fetch session.
//!
//! A task fetches no further than its range, unless it goes on where the one before it ended, as those of micro-batches
//! do: then so will the next, and finds what was fetched behind the range. Such a consumer is that partition's alone. Its
//! fetch waits at the broker for records to come, and requests behind it on that connection wait too (up to
//! `fetch.max.wait.ms`): a task of another partition that took it over took 380 ms longer.

use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use samsarrow_arrow::Projection;
use samsarrow_client::consumer::Consumer;
use samsarrow_client::types::TopicPartition;

use crate::budget::Grant;
use crate::idle::Idle;
use crate::runtime::runtime;

/// What consumers of one client differ in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sort {
    /// It fetches little at a time.
    pub(crate) small: bool,
    /// What it decodes, beside headers.
    pub(crate) projection: Projection,
    /// It decodes headers.
    pub(crate) headers: bool,
}

/// Idle consumers.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    idle: Idle<Parked>,
}

/// A consumer and the memory that it may fill; none is granted where the user says how much it may.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) consumer: Consumer,
    pub(crate) grant: Option<Grant>,
    /// It fetches behind its range.
    pub(crate) ahead: bool,
    /// Rows behind its range that a poll gave with those before.
    pub(crate) rest: Option<RecordBatch>,
}

impl Lease {
    pub(crate) fn new(consumer: Consumer, grant: Option<Grant>) -> Lease {
        Lease { consumer, grant, ahead: false, rest: None }
    }
}

/// A consumer that nobody uses at the moment, paused at `position` of `tp`.
#[derive(Debug)]
struct Parked {
    sort: Sort,
    lease: Lease,
    tp: TopicPartition,
    position: i64,
}

impl Parked {
    fn is_at(&self, tp: &TopicPartition, start: i64) -> bool {
        self.tp == *tp && self.position == start
    }
}

impl Pool {
    /// The idle one that read this partition up to here, or any of that sort that fetches nothing; and whether the caller
    /// goes on where it ended.
    pub(crate) fn take(&self, sort: Sort, tp: &TopicPartition, start: i64) -> Option<(Lease, bool)> {
        self.evict();
        let rank = |one: &Parked| match one.sort == sort {
            true if one.is_at(tp, start) => Some(0),
            true if !one.lease.ahead => Some(1),
            _ => None,
        };
        let one = self.idle.take(rank)?;
        let goes_on = one.is_at(tp, start);
        Some((one.lease, goes_on))
    }

    /// Keeps a consumer whose records were handed out up to `position`.
    pub(crate) fn give(&self, sort: Sort, lease: Lease, tp: TopicPartition, position: i64) {
        self.idle.keep(Parked { sort, lease, tp, position });
        self.evict();
    }

    fn evict(&self) {
        self.idle.surplus().into_iter().for_each(|one| close(one.lease));
    }

    /// Since when the one is idle that has been for longest.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.idle.oldest()
    }

    /// Closes that one, whose memory others need; whether there was one.
    pub(crate) fn evict_oldest(&self) -> bool {
        self.idle.take_oldest().map(|one| close(one.lease)).is_some()
    }
}

/// Ends a consumer's connections, in the background.
pub(crate) fn close(lease: Lease) {
    // What it had fetched is gone as soon as it is closed; nobody waits for that to grant its memory again.
    let Lease { consumer, grant, .. } = lease;
    drop(grant);
    if let Ok(runtime) = runtime() {
        runtime.spawn(async move { consumer.close(Duration::ZERO).await });
    }
}

#[cfg(test)]
mod tests {
    use samsarrow_client::config::{ClientKind, OptionValue, Options};

    use super::*;

    #[test]
    fn who_fetches_ahead_is_its_partitions_alone() {
        let sort = Sort { small: false, projection: Projection::default(), headers: false };
        let (zero, one) = (TopicPartition::new("t", 0), TopicPartition::new("t", 1));
        let lease = |ahead| {
            let servers = ("bootstrap.servers".to_owned(), OptionValue::Str("localhost:1".to_owned()));
            let options = Options::parse(ClientKind::Consumer, [servers]).unwrap();
            Lease { ahead, ..Lease::new(Consumer::new(&options).unwrap(), None) }
        };
        let _inside = runtime().unwrap().enter();
        let pool = Pool::default();
        let taken = |tp, start| pool.take(sort, tp, start).map(|(_, goes_on)| goes_on);
        pool.give(sort, lease(true), zero.clone(), 5);
        assert_eq!([taken(&one, 5), taken(&zero, 4), taken(&zero, 5), taken(&zero, 5)], [None, None, Some(true), None]);
        pool.give(sort, lease(false), zero.clone(), 5);
        pool.give(sort, lease(false), one.clone(), 7);
        assert_eq!([taken(&zero, 5), taken(&zero, 9), taken(&zero, 9)], [Some(true), Some(false), None]);
    }
}
