//! Pool of consumers, which are kept across tasks. A task that gets a consumer from the pool needs no new connections,
//! metadata or fetch session.
//!
//! A task fetches beyond its range only if it continues where the previous task ended, as the tasks of micro-batches
//! do. The next task will probably continue in the same way, and then the records beyond the range are already fetched.
//! A consumer that fetches beyond its range is reserved for its partition, because its fetch waits at the broker for
//! new records and delays later requests on the same connection by up to `fetch.max.wait.ms`. Tasks of other partitions
//! that took over such a consumer took 380 ms longer.

use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use samsarrow_arrow::Projection;
use samsarrow_client::consumer::Consumer;
use samsarrow_client::types::TopicPartition;

use crate::idle_pool::IdlePool;
use crate::memory_budget::Grant;
use crate::runtime::runtime;

/// Settings in which the consumers of a client differ from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConsumerKind {
    /// True if the consumer requests few bytes per fetch.
    pub(crate) small: bool,
    /// Columns that the consumer decodes, apart from headers.
    pub(crate) projection: Projection,
    /// True if the consumer decodes headers.
    pub(crate) headers: bool,
}

/// Pool of idle consumers.
#[derive(Debug, Default)]
pub(crate) struct ConsumerPool {
    idle: IdlePool<IdleConsumer>,
}

/// Consumer with its memory grant. There is no grant if the user sets `queued.max.bytes`.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) consumer: Consumer,
    pub(crate) grant: Option<Grant>,
    /// True if the consumer fetches beyond the end of the range.
    pub(crate) prefetches: bool,
    /// Rows beyond the end of the range that a poll has returned.
    pub(crate) leftover: Option<RecordBatch>,
}

impl Lease {
    pub(crate) fn new(consumer: Consumer, grant: Option<Grant>) -> Lease {
        Lease { consumer, grant, prefetches: false, leftover: None }
    }
}

/// Idle consumer, which is paused at `position` of the partition `tp`.
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
    /// Returns an idle consumer of this kind: preferably the consumer that has read this partition up to `start`,
    /// otherwise any consumer that does not fetch beyond its range. The flag is true if the consumer continues at
    /// `start`.
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

    /// Returns a consumer to the pool. Its records up to `position` were returned to the caller.
    pub(crate) fn put(&self, kind: ConsumerKind, lease: Lease, tp: TopicPartition, position: i64) {
        self.idle.put(IdleConsumer { kind, lease, tp, position });
        self.evict();
    }

    fn evict(&self) {
        self.idle.surplus().into_iter().for_each(|idle| close(idle.lease));
    }

    /// Returns the time at which the consumer that has been idle longest became idle.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.idle.oldest()
    }

    /// Closes the consumer that has been idle longest, to free its memory. Returns false if no consumer is idle.
    pub(crate) fn evict_oldest(&self) -> bool {
        self.idle.take_oldest().map(|idle| close(idle.lease)).is_some()
    }
}

/// Closes a consumer in the background.
pub(crate) fn close(lease: Lease) {
    // The memory may be granted again before the consumer is closed and its fetched records are freed.
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
