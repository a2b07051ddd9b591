//! Where reading of one partition is.

use std::time::Instant;

use crate::error::Error;

/// Where to start, while that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// At the group's committed offset; without one, where `auto.offset.reset` says.
    Committed,
    /// Where `auto.offset.reset` says: the offset that was asked for is gone.
    Reset,
}

/// One assigned partition.
///
/// `position` is what the user was given; `fetch_offset` runs ahead of it by what is queued. `version` rises with every
/// seek, pause and new assignment: whatever was fetched for an older version is void.
#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) version: u64,
    pub(super) position: Option<i64>,
    pub(super) fetch_offset: Option<i64>,
    pub(super) start: Start,
    pub(super) paused: bool,
    /// Broken until the error was raised by `poll`.
    pub(super) failed: bool,
    /// Not to be fetched before.
    pub(super) retry_at: Option<Instant>,
    /// Since when there were only errors, and the last of them.
    pub(super) failing: Option<(Instant, Error)>,
}

impl Cursor {
    pub(super) fn new(version: u64) -> Self {
        let start = Start::Committed;
        Self {
            version,
            position: None,
            fetch_offset: None,
            start,
            paused: false,
            failed: false,
            retry_at: None,
            failing: None,
        }
    }

    /// Goes on from `offset`, voiding what was prefetched.
    pub(super) fn seek(&mut self, offset: Option<i64>, version: u64) {
        self.version = version;
        self.position = offset;
        self.fetch_offset = offset;
        self.start = Start::Committed;
        self.failed = false;
        self.retry_at = None;
        self.failing = None;
    }

    /// Voids what was prefetched; the position stays.
    pub(super) fn rewind(&mut self, version: u64) {
        self.version = version;
        self.failed = false;
        self.fetch_offset = self.position;
    }

    /// Where to fetch from, if it should be fetched now.
    pub(super) fn wants(&self, now: Instant) -> Option<i64> {
        let ready = !self.paused && !self.failed && self.retry_at.is_none_or(|at| at <= now);
        self.fetch_offset.filter(|_| ready)
    }
}
