//! Committed offsets of one group.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// A committed offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: String,
}

/// A committed offset with the id of its topic. The id shows that the offset is obsolete if the topic has been deleted
/// and created again under the same name.
#[derive(Debug)]
struct Stored {
    topic_id: [u8; 16],
    committed: Committed,
    committed_at: Instant,
    /// Expiry time that the commit itself specified, which OffsetCommit v2 to v4 support.
    until: Option<Instant>,
    /// Sequence number of the commit within the group.
    number: u64,
}

/// Time at which the retention of an offset starts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Retained {
    /// Starts when the group lost its last member.
    Since(Instant),
    /// Starts when the offset was committed.
    SinceCommit,
}

/// Committed offsets, ordered by topic and partition.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    stored: BTreeMap<(Arc<str>, i32), Stored>,
    /// Number of commits so far.
    count: u64,
}

impl Offsets {
    pub(crate) fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    pub(crate) fn commit(
        &mut self,
        now: Instant,
        topic: &Arc<str>,
        topic_id: [u8; 16],
        partition: i32,
        committed: Committed,
        keep: Option<Duration>,
    ) {
        let until = keep.map(|keep| now + keep);
        let number = self.next_number();
        self.stored
            .insert((topic.clone(), partition), Stored { topic_id, committed, committed_at: now, until, number });
    }

    /// Assigns and returns the sequence number of the next commit.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Commits a pending offset of a completed transaction, unless an offset of a later commit has been stored for the
    /// partition.
    pub(crate) fn commit_pending(
        &mut self,
        now: Instant,
        key: (Arc<str>, i32),
        topic_id: [u8; 16],
        committed: Committed,
        number: u64,
    ) {
        if self.stored.get(&key).is_none_or(|stored| stored.number < number) {
            self.stored.insert(key, Stored { topic_id, committed, committed_at: now, until: None, number });
        }
    }

    pub(crate) fn get(&self, topic: &Arc<str>, topic_id: [u8; 16], partition: i32) -> Option<Committed> {
        let stored = self.stored.get(&(topic.clone(), partition))?;
        (stored.topic_id == topic_id).then(|| stored.committed.clone())
    }

    pub(crate) fn all(&self) -> Vec<(Arc<str>, i32, Committed)> {
        let each = |((topic, partition), stored): (&(Arc<str>, i32), &Stored)| {
            (topic.clone(), *partition, stored.committed.clone())
        };
        self.stored.iter().map(each).collect()
    }

    pub(crate) fn delete(&mut self, topic: &Arc<str>, partition: i32) {
        self.stored.remove(&(topic.clone(), partition));
    }

    /// Removes the committed offsets of a deleted topic.
    pub(crate) fn forget_topic(&mut self, topic_id: [u8; 16]) {
        self.stored.retain(|_, stored| stored.topic_id != topic_id);
    }

    /// Removes the offsets whose retention has ended. Offsets of `subscribed` topics are kept.
    pub(crate) fn expire(
        &mut self,
        now: Instant,
        retention: Duration,
        from: Retained,
        subscribed: impl Fn(&str) -> bool,
    ) {
        self.stored.retain(|(topic, _), stored| {
            let since = match from {
                Retained::Since(since) => since,
                Retained::SinceCommit => stored.committed_at,
            };
            let end = stored.until.unwrap_or(since + retention);
            now < end || subscribed(topic)
        });
    }
}
