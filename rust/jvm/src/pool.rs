//! Consumers of this process, kept from task to task: with one at hand a task needs neither connections nor metadata nor a
//! new fetch session, and what the last one prefetched behind its range is there.

use std::time::{Duration, Instant};

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
}

/// A consumer that nobody uses at the moment, paused at `position` of `tp`.
#[derive(Debug)]
struct Parked {
    sort: Sort,
    lease: Lease,
    tp: TopicPartition,
    position: i64,
}

impl Pool {
    /// The idle one that read this partition up to here, or any of that sort.
    pub(crate) fn take(&self, sort: Sort, tp: &TopicPartition, start: i64) -> Option<Lease> {
        self.evict();
        let rank = |one: &Parked| (one.sort == sort).then(|| u8::from(one.tp != *tp || one.position != start));
        self.idle.take(rank).map(|one| one.lease)
    }

    /// Keeps a consumer that has read up to `position`.
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
    let Lease { consumer, grant } = lease;
    drop(grant);
    if let Ok(runtime) = runtime() {
        runtime.spawn(async move { consumer.close(Duration::ZERO).await });
    }
}
