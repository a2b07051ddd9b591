//! A member of a group whose coordinator assigns.

use std::collections::BTreeSet;
use std::time::Duration;

use regex::bytes::{Regex, RegexBuilder};
use samsarrow_wire::error_code::ErrorCode;
use tokio::time::Instant;

use super::Partitions;

/// The epoch of a static member that is away and will be back.
pub(super) const AWAY: i32 = -2;
/// A pattern may not take more memory than this.
const PATTERN_BYTES: usize = 1 << 20;

/// How far a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has what it was to have at its epoch.
    Stable,
    /// It has to give something up, and has not said that it did.
    Revoking,
    /// It waits for others to give up what it is to have.
    Waiting,
}

/// A pattern of topics' names; it must match all of a name.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    pub(super) source: String,
    regex: Regex,
}

impl Pattern {
    pub(super) fn new(source: &str) -> Result<Self, regex::Error> {
        // Names of topics are ASCII. Checked by itself first: what is put around it must not make it legal.
        let build = |text: &str| RegexBuilder::new(text).unicode(false).size_limit(PATTERN_BYTES).build();
        build(source)?;
        Ok(Pattern { source: source.to_owned(), regex: build(&format!("^(?:{source})$"))? })
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) id: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) rack_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(super) rebalance_timeout: Duration,
    pub(crate) topics: BTreeSet<String>,
    pub(super) pattern: Option<Pattern>,
    pub(super) assignor: Option<String>,
    pub(crate) epoch: i32,
    pub(super) previous_epoch: i32,
    pub(super) progress: Progress,
    /// What it may use, as it knows or is about to learn.
    pub(crate) assigned: Partitions,
    /// What it has to give up and still holds.
    pub(super) revoking: Partitions,
    /// When its session ends.
    pub(super) expires: Instant,
    /// When it must have given up.
    pub(super) revoke_by: Option<Instant>,
}

impl Member {
    /// One that has nothing yet.
    pub(super) fn new(id: &str, expires: Instant) -> Self {
        Member {
            id: id.to_owned(),
            instance_id: None,
            rack_id: None,
            client_id: String::new(),
            client_host: String::new(),
            rebalance_timeout: Duration::ZERO,
            topics: BTreeSet::new(),
            pattern: None,
            assignor: None,
            epoch: 0,
            previous_epoch: -1,
            progress: Progress::Stable,
            assigned: Partitions::new(),
            revoking: Partitions::new(),
            expires,
            revoke_by: None,
        }
    }

    pub(crate) fn pattern(&self) -> Option<&str> {
        self.pattern.as_ref().map(|pattern| pattern.source.as_str())
    }

    pub(super) fn reads(&self, topic: &str) -> bool {
        self.topics.contains(topic)
            || self.pattern.as_ref().is_some_and(|pattern| pattern.regex.is_match(topic.as_bytes()))
    }

    /// Whether it has arrived at this target.
    pub(super) fn is_at(&self, epoch: i32) -> bool {
        self.progress == Progress::Stable && self.epoch == epoch
    }

    pub(super) fn check_epoch(&self, epoch: i32) -> Result<(), ErrorCode> {
        if epoch == self.epoch { Ok(()) } else { Err(ErrorCode::STALE_MEMBER_EPOCH) }
    }

    /// Whether a heartbeat is of this epoch, or of the one before whose answer may have been lost.
    pub(super) fn check_beat(&self, epoch: i32, owned: Option<&Partitions>) -> Result<(), ErrorCode> {
        let lost = epoch == self.previous_epoch && owned.is_some_and(|owned| owned.is_subset(&self.assigned));
        if epoch == self.epoch || (epoch < self.epoch && lost) { Ok(()) } else { Err(ErrorCode::FENCED_MEMBER_EPOCH) }
    }

    pub(super) fn advance(&mut self, epoch: i32) {
        if epoch != self.epoch {
            self.previous_epoch = self.epoch;
            self.epoch = epoch;
        }
    }
}
