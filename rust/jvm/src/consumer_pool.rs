//! Pool of consumers, kept across tasks: a task that gets one needs no connections, metadata or new fetch session.
//!
//! A task does not fetch beyond its range, unless it continues where the previous task ended, as the tasks of
//! micro-batches do: the next task will probably continue as well, and finds the records that were fetched beyond the
//! range. Such a consumer is reserved for its partition. Its fetch waits at the broker for new records, and later
//! requests on that connection wait behind it (up to `fetch.max.wait.ms`): a task of another partition that took it
//! over took 380 ms longer.

use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use samsarrow_arrow::Projection;
use samsarrow_client::consumer::Consumer;
use samsarrow_client::types::TopicPartition;

use crate::idle_pool::IdlePool;
use crate::memory_budget::Grant;
use crate::runtime::runtime;

/// Settings in which consumers of one client differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConsumerKind {
    /// True if a fetch requests few bytes.
    pub(crate) small: bool,
    /// Columns that are decoded, apart from headers.
    pub(crate) projection: Projection,
    /// True if headers are decoded.
    pub(crate) headers: bool,
}

/// Pool of idle consumers.
#[derive(Debug, Default)]
pub(crate) struct ConsumerPool {
    idle: IdlePool<IdleConsumer>,
}

/// Consumer and its memory grant, which is missing if the user sets `queued.max.bytes`.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) consumer: Consumer,
    pub(crate) grant: Option<Grant>,
    /// True if the consumer fetches beyond the range.
    pub(crate) prefetches: bool,
    /// Rows beyond the range that a poll has returned.
    pub(crate) leftover: Option<RecordBatch>,
}

impl Lease {
    pub(crate) fn new(consumer: Consumer, grant: Option<Grant>) -> Lease {
        Lease { consumer, grant, prefetches: false, leftover: None }
    }
}

/// Idle consumer, paused at `position` of `tp`.
#[derive(Debug)]
struct IdleConsumer {
    kind: ConsumerKind,
    lease: Lease,
    tp: TopicPartition,
    position: i64,
}

impl IdleConsumer {
    fn is_at(&self, tp: &TopicPartition, start: i64) -> bool {
        self.tp == *tp && self.position == start
    }
}

impl ConsumerPool {
    /// Returns an idle consumer, either one that has read this partition up to `start`, or any of this kind that does
    /// not prefetch. The flag is true if the caller continues where that consumer ended.
    pub(crate) fn take(&self, kind: ConsumerKind, tp: &TopicPartition, start: i64) -> Option<(Lease, bool)> {
        self.evict();
        let rank = |idle: &IdleConsumer| match idle.kind == kind {
            true if idle.is_at(tp, start) => Some(0),
            true if !idle.lease.prefetches => Some(1),
            _ => None,
        };
        let idle = self.idle.take(rank)?;
        let continues = idle.is_at(tp, start);
        Some((idle.lease, continues))
    }

    /// Returns a consumer to the pool; its records were handed out up to `position`.
    pub(crate) fn put(&self, kind: ConsumerKind, lease: Lease, tp: TopicPartition, position: i64) {
        self.idle.put(IdleConsumer { kind, lease, tp, position });
        self.evict();
    }

    fn evict(&self) {
        self.idle.surplus().into_iter().for_each(|idle| close(idle.lease));
    }

    /// Returns the time since which the oldest consumer has been idle.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.idle.oldest()
    }

    /// Closes the consumer that has been idle longest, to free its memory. Returns false if there was none.
    pub(crate) fn evict_oldest(&self) -> bool {
        self.idle.take_oldest().map(|idle| close(idle.lease)).is_some()
    }
}

/// Closes a consumer in the background.
pub(crate) fn close(lease: Lease) {
    // Fetched records are freed when the consumer closes; its memory may be granted again without waiting for that.
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
    fn prefetching_consumers_are_reserved_for_their_partition() {
        let kind = ConsumerKind { small: false, projection: Projection::default(), headers: false };
        let (zero, one) = (TopicPartition::new("t", 0), TopicPartition::new("t", 1));
        let lease = |prefetches| {
            let servers = ("bootstrap.servers".to_owned(), OptionValue::Str("localhost:1".to_owned()));
            let options = Options::parse(ClientKind::Consumer, [servers]).unwrap();
            Lease { prefetches, ..Lease::new(Consumer::new(&options).unwrap(), None) }
        };
        let _inside = runtime().unwrap().enter();
        let pool = ConsumerPool::default();
        let taken = |tp, start| pool.take(kind, tp, start).map(|(_, continues)| continues);
        pool.put(kind, lease(true), zero.clone(), 5);
        assert_eq!([taken(&one, 5), taken(&zero, 4), taken(&zero, 5), taken(&zero, 5)], [None, None, Some(true), None]);
        pool.put(kind, lease(false), zero.clone(), 5);
        pool.put(kind, lease(false), one.clone(), 7);
        assert_eq!([taken(&zero, 5), taken(&zero, 9), taken(&zero, 9)], [Some(true), Some(false), None]);
    }
}
