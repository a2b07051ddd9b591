//! A member of a KIP-848 consumer group.

use std::collections::BTreeSet;
use std::time::Duration;

use regex::bytes::{Regex, RegexBuilder};
use samsarrow_wire::error_code::ErrorCode;
use tokio::time::Instant;

use super::Partitions;

/// Member epoch of a static member that has left temporarily and may join again.
pub(super) const LEAVE_STATIC_EPOCH: i32 = -2;
/// Maximum size of a compiled pattern in bytes.
const PATTERN_BYTES: usize = 1 << 20;

/// Reconciliation state of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The member has the target assignment for its epoch.
    Stable,
    /// The member has not yet confirmed that it revoked its lost partitions.
    Revoking,
    /// The member waits for partitions of its target that other members still own.
    Waiting,
}

/// A regular expression that must match the whole topic name.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    pub(super) source: String,
    regex: Regex,
}

impl Pattern {
    pub(super) fn new(source: &str) -> Result<Self, regex::Error> {
        // Unicode is disabled because topic names are ASCII. The source is first compiled alone, so that the group
        // around it cannot make an invalid pattern valid.
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
    /// Assigned partitions. During a heartbeat they already include the partitions that its response assigns.
    pub(crate) assigned: Partitions,
    /// Partitions that the member must revoke but still owns.
    pub(super) revoking: Partitions,
    /// Time at which the session expires.
    pub(super) expires: Instant,
    /// Deadline for the revocation in progress.
    pub(super) revoke_by: Option<Instant>,
}

impl Member {
    /// Creates a member without partitions.
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

    /// Returns true if the member has reconciled with the target assignment of this epoch.
    pub(super) fn is_at(&self, epoch: i32) -> bool {
        self.progress == Progress::Stable && self.epoch == epoch
    }

    pub(super) fn check_epoch(&self, epoch: i32) -> Result<(), ErrorCode> {
        if epoch == self.epoch { Ok(()) } else { Err(ErrorCode::STALE_MEMBER_EPOCH) }
    }

    /// Checks the member epoch of a heartbeat. The previous epoch is accepted too if the member may not have received
    /// the last response.
    pub(super) fn check_heartbeat(&self, epoch: i32, owned: Option<&Partitions>) -> Result<(), ErrorCode> {
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
