//! Partitions whose start offsets are being looked up, and the offsets found.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::cursor::Start;
use super::shared_state::Shared;
use crate::error::{Error, Result};
use crate::types::TopicPartition;

/// An offset, and the leader epoch of the record before it.
pub(super) type Position = (i64, Option<i32>);

/// A partition without a position, the version of its cursor, and the source of its start offset.
pub(super) type PendingLookup = (TopicPartition, u64, Start);
/// A partition that continues at another offset because the previous one was out of range.
#[derive(Debug)]
pub(super) struct MovedPosition {
    pub(super) tp: TopicPartition,
    pub(super) from: i64,
    pub(super) to: i64,
}

impl MovedPosition {
    /// Returns the text that explains the move, for the log and the event.
    pub(super) fn reason(&self, reset: &str) -> String {
        let Self { from, to, .. } = self;
        let skipped = match to - from {
            0 => "nothing is skipped".to_owned(),
            count @ 1.. => format!("{count} offsets are skipped"),
            _ => "it is past the end of the log".to_owned(),
        };
        format!("offset {from} is not in the log: {skipped}, reading continues at {to} (auto.offset.reset={reset})")
    }
}

/// A lookup that no broker responded to, and its error.
pub(super) type Unanswered = (PendingLookup, Error);

impl Shared {
    /// Returns the partitions without a start offset, grouped by the time of their next attempt and in its order. The
    /// hash of a time would be another one in each run of a simulation.
    pub(super) fn without_position(&self) -> BTreeMap<Option<Instant>, Vec<PendingLookup>> {
        let state = self.lock();
        let open = state.cursors.iter().filter(|(_, c)| c.fetch_offset.is_none() && !c.failed);
        let mut results: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (tp, cursor) in open {
            results.entry(cursor.retry_at).or_default().push((tp.clone(), cursor.version, cursor.start));
        }
        results
    }

    /// Records that no broker responded to these lookups.
    pub(super) fn record_unanswered(&self, unanswered: &[Unanswered]) {
        let mut state = self.lock();
        for ((tp, version, _), error) in unanswered {
            state.record_unanswered(tp, *version, error.clone());
        }
    }

    /// Records start offsets, or errors of their lookups. Returns the partitions whose previous offset was out of
    /// range.
    pub(super) fn record_starts(
        &self,
        results: impl IntoIterator<Item = (TopicPartition, u64, Result<Position>)>,
    ) -> Vec<MovedPosition> {
        let mut moved = Vec::new();
        {
            let mut state = self.lock();
            for (tp, version, result) in results {
                match result {
                    Ok((to, epoch)) => {
                        let from = state.set_start(&tp, version, to, epoch.unwrap_or(-1));
                        moved.extend(from.map(|from| MovedPosition { tp, from, to }));
                    }
                    Err(error) => state.raise(&tp, version, error),
                }
            }
        }
        self.notify_poll();
        self.notify_tasks();
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_skipped_offsets_once() {
        let (shared, tp, _) = Shared::at_start(64 << 20);
        let reason = |from, to| {
            shared.seek(&[(tp.clone(), Some(from), None)]).unwrap();
            let version = {
                let mut state = shared.lock();
                let cursor = state.cursors.get_mut(&tp).unwrap();
                (cursor.fetch_offset, cursor.out_of_range) = (None, Some(from));
                cursor.version
            };
            let moved = shared.record_starts([(tp.clone(), version, Ok((to, None)))]);
            assert!(shared.record_starts([(tp.clone(), version, Ok((to, None)))]).is_empty(), "once");
            moved.iter().map(|moved| moved.reason("earliest")).collect::<String>()
        };
        let text =
            "offset 10 is not in the log: 40 offsets are skipped, reading continues at 50 (auto.offset.reset=earliest)";
        assert_eq!(reason(10, 50), text);
        let text = "offset 99 is not in the log: it is past the end of the log, reading continues at 0 (auto.offset.reset=earliest)";
        assert_eq!(reason(99, 0), text);
    }
}
