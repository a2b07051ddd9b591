//! Events of the broker that simulations compare with the results of calls. Nothing is recorded outside of a simulation.

use std::sync::Arc;

#[cfg(feature = "simulation")]
use tokio::time::Instant;

/// Reason for which an acquisition lock has ended without an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(not(feature = "simulation"), expect(unreachable_pub, reason = "exported for simulations"))]
pub enum LockEnd {
    /// Its time has passed.
    Expired,
    /// The share session of the member was closed.
    SessionClosed,
    /// The leader of the partition has moved: locks are not stored.
    LeaderMoved,
}

/// An event.
#[cfg(feature = "simulation")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An OffsetCommit was applied to a partition.
    Committed {
        /// Group id.
        group: String,
        /// Topic name.
        topic: String,
        /// Partition index.
        partition: i32,
        /// Committed offset.
        offset: i64,
        /// Node that applied the commit.
        node: i32,
        /// Time at which the node received the request.
        received_at: Instant,
        /// Time at which the commit was applied.
        applied_at: Instant,
        /// True if the client had closed or lost the connection before, so that it may have sent later commits on
        /// another one.
        abandoned: bool,
    },
    /// A client has opened a share session as a member.
    ShareMember {
        /// Client id.
        client_id: String,
        /// Member id.
        member: Arc<str>,
    },
    /// The delivery state of records in a share group has changed.
    Shared {
        /// Group id.
        group: String,
        /// Partition index.
        partition: i32,
        /// First offset.
        first: i64,
        /// Last offset.
        last: i64,
        /// Change of each record.
        change: ShareChange,
    },
}

/// A change of the delivery state of records.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "simulation"), expect(unreachable_pub, reason = "exported for simulations"))]
pub enum ShareChange {
    /// The records were delivered to a member, with this delivery count.
    Acquired(Arc<str>, i16),
    /// The member has acknowledged the records, with a type of the protocol.
    Acknowledged(Arc<str>, i8),
    /// The lock of the member has ended.
    Ended(Arc<str>, LockEnd),
    /// The broker has finished the records, because their transaction was aborted.
    LeftOut,
    /// The delivery state is lost, because nothing was stored before the leader moved.
    Forgotten,
}

#[cfg(feature = "simulation")]
mod recorded {
    use std::cell::{Cell, RefCell};

    use super::Event;

    thread_local! {
        pub(super) static EVENTS: RefCell<Vec<Event>> = const { RefCell::new(Vec::new()) };
        /// Share-partition whose state changes.
        pub(super) static CURRENT: Cell<Option<(String, i32)>> = const { Cell::new(None) };
    }

    /// Takes the events of this thread's broker since the last call, in the order in which they occurred.
    pub fn take_history() -> Vec<Event> {
        EVENTS.take()
    }
}

#[cfg(feature = "simulation")]
pub use recorded::take_history;

/// Removes the events of an earlier broker.
pub(crate) fn clear() {
    #[cfg(feature = "simulation")]
    drop(take_history());
}

/// Time at which a request was received, in a simulation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Received {
    #[cfg(feature = "simulation")]
    pub(crate) at: Instant,
}

impl Received {
    #[inline]
    pub(crate) fn now() -> Self {
        Self {
            #[cfg(feature = "simulation")]
            at: Instant::now(),
        }
    }
}

/// Records an event.
#[cfg(feature = "simulation")]
pub(crate) fn record(event: Event) {
    recorded::EVENTS.with_borrow_mut(|events| events.push(event));
}

/// Records the member of a share session.
#[inline]
pub(crate) fn share_member(client_id: &str, member: &Arc<str>) {
    #[cfg(feature = "simulation")]
    record(Event::ShareMember { client_id: client_id.to_owned(), member: Arc::clone(member) });
    #[cfg(not(feature = "simulation"))]
    let _ = (client_id, member);
}

/// Sets the share-partition that later changes belong to.
#[inline]
pub(crate) fn share_partition(group: &str, partition: i32) {
    #[cfg(feature = "simulation")]
    recorded::CURRENT.set(Some((group.to_owned(), partition)));
    #[cfg(not(feature = "simulation"))]
    let _ = (group, partition);
}

/// Records a change of the records from `first` to `last` of the current share-partition.
#[inline]
pub(crate) fn shared(first: i64, last: i64, change: impl FnOnce() -> ShareChange) {
    #[cfg(feature = "simulation")]
    {
        let Some((group, partition)) = recorded::CURRENT.take() else { return };
        recorded::CURRENT.set(Some((group.clone(), partition)));
        record(Event::Shared { group, partition, first, last, change: change() });
    }
    #[cfg(not(feature = "simulation"))]
    let _ = (first, last, change);
}
