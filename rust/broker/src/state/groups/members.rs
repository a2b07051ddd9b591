//! Members of a group, by group protocol.

use tokio::time::Instant;

use super::classic::{self, Classic, Phase};
use super::consumer::Consumers;
use super::offsets::Retained;
use super::share::ShareMembers;
use crate::options::GroupOptions;

/// Members of a group, by group protocol.
#[derive(Debug)]
pub(crate) enum Members {
    /// A classic group, or a group without members whose offsets are committed by consumers outside of the group
    /// protocol.
    Classic(Box<Classic>),
    Consumer(Consumers),
    Share(ShareMembers),
}

impl Members {
    /// Returns Kafka's name of the group type.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Members::Classic(_) => "classic",
            Members::Consumer(_) => "consumer",
            Members::Share(_) => "share",
        }
    }

    /// Returns Kafka's name of the state.
    pub(crate) fn state(&self) -> &'static str {
        match self {
            Members::Classic(classic) => classic.phase().name(),
            Members::Consumer(consumers) => consumers.state(),
            Members::Share(shares) => shares.state(),
        }
    }

    pub(crate) fn protocol_type(&self) -> Option<&str> {
        match self {
            Members::Classic(classic) => classic.protocol_type(),
            Members::Consumer(_) => Some(classic::CONSUMER),
            Members::Share(_) => Some("share"),
        }
    }

    pub(crate) fn classic(&self) -> Option<&Classic> {
        match self {
            Members::Classic(classic) => Some(classic),
            Members::Consumer(_) | Members::Share(_) => None,
        }
    }

    pub(crate) fn consumers(&self) -> Option<&Consumers> {
        match self {
            Members::Classic(_) | Members::Share(_) => None,
            Members::Consumer(consumers) => Some(consumers),
        }
    }

    pub(crate) fn shares(&self) -> Option<&ShareMembers> {
        match self {
            Members::Classic(_) | Members::Consumer(_) => None,
            Members::Share(shares) => Some(shares),
        }
    }

    /// Returns true if the group has no members.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Members::Classic(classic) => classic.phase() == Phase::Empty,
            Members::Consumer(consumers) => consumers.is_empty(),
            Members::Share(shares) => shares.is_empty(),
        }
    }

    /// Returns the time since which the group has had neither members nor pending members; `None` if it has any.
    pub(super) fn unused_since(&self) -> Option<Instant> {
        match self {
            Members::Classic(classic) => classic.is_unused().then(|| classic.since()),
            Members::Consumer(consumers) => consumers.is_empty().then(|| consumers.since()),
            Members::Share(shares) => shares.is_empty().then(|| shares.since()),
        }
    }

    /// Returns true if the members are subscribed to a topic, or if their subscriptions are unknown.
    pub(super) fn reads(&self, topic: &str) -> bool {
        match self {
            Members::Classic(classic) => classic.reads(topic),
            Members::Consumer(consumers) => consumers.reads(topic),
            Members::Share(shares) => shares.reads(topic),
        }
    }

    /// Returns the time at which the retention of committed offsets starts, or `None` if the offsets cannot expire.
    pub(super) fn retained(&self) -> Option<Retained> {
        match self {
            Members::Classic(classic) if classic.protocol_type().is_some() => {
                let since = self.unused_since().map(Retained::Since);
                since.or_else(|| classic.is_reading().then_some(Retained::SinceCommit))
            }
            Members::Classic(_) | Members::Consumer(_) => Some(Retained::SinceCommit),
            // The start offsets of share groups do not expire, so the group does not either.
            Members::Share(_) => None,
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        match self {
            Members::Classic(classic) => classic.next_deadline(),
            Members::Consumer(consumers) => consumers.next_deadline(),
            Members::Share(shares) => shares.next_deadline(),
        }
    }

    pub(super) fn tick(&mut self, now: Instant, options: &GroupOptions) {
        match self {
            Members::Classic(classic) => classic.tick(now, options),
            Members::Consumer(consumers) => consumers.tick(now),
            Members::Share(shares) => shares.tick(now),
        }
    }

    pub(super) fn reload(&mut self, now: Instant, options: &GroupOptions) {
        match self {
            Members::Classic(classic) => classic.reload(now),
            Members::Consumer(consumers) => consumers.reload(now, options),
            Members::Share(shares) => shares.reload(now, options.consumer_session_timeout),
        }
    }
}
