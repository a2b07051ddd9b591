//! Starts of partitions: those that are to be found, and what was found.

use std::collections::HashMap;
use std::time::Instant;

use super::cursor::Start;
use super::shared_state::Shared;
use crate::error::{Error, Result};
use crate::types::TopicPartition;

/// An offset, and the leader epoch of the record before it.
pub(super) type Position = (i64, Option<i32>);

/// A partition without a position, and the version of its cursor.
pub(super) type Open = (TopicPartition, u64, Start);
/// One of which no broker said anything, and why.
pub(super) type Silent = (Open, Error);

impl Shared {
    /// Partitions whose start is not known, by when it may be looked for.
    pub(super) fn unplaced(&self) -> HashMap<Option<Instant>, Vec<Open>> {
        let state = self.lock();
        let open = state.cursors.iter().filter(|(_, c)| c.fetch_offset.is_none() && !c.failed);
        let mut found: HashMap<_, Vec<_>> = HashMap::new();
        for (tp, cursor) in open {
            found.entry(cursor.retry_at).or_default().push((tp.clone(), cursor.version, cursor.start));
        }
        found
    }

    /// No broker could be asked where these start.
    pub(super) fn unanswered(&self, silent: &[Silent]) {
        let mut state = self.lock();
        for ((tp, version, _), error) in silent {
            state.unanswered(tp, *version, error.clone());
        }
    }

    /// Where reading of partitions goes on, or why that cannot be known.
    pub(super) fn placed_at(&self, found: impl IntoIterator<Item = (TopicPartition, u64, Result<Position>)>) {
        {
            let mut state = self.lock();
            for (tp, version, found) in found {
                match found {
                    Ok((offset, epoch)) => state.place(&tp, version, offset, epoch.unwrap_or(-1)),
                    Err(error) => state.raise(&tp, version, error),
                }
            }
        }
        self.ring_ready();
        self.ring_work();
    }
}
