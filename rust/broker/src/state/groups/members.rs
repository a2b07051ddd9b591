//! Who belongs to a group, whichever protocol they speak.

use tokio::time::Instant;

use super::classic::{self, Classic, Phase};
use super::consumer::Consumers;
use super::offsets::Retained;
use crate::options::GroupOptions;

/// Who belongs to a group, by the protocol that they speak.
#[derive(Debug)]
pub(crate) enum Members {
    /// Also a group that only commits: it has no members ever, and no protocol type.
    Classic(Box<Classic>),
    Consumer(Consumers),
}

impl Members {
    /// Kafka's name of the kind.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Members::Classic(_) => "classic",
            Members::Consumer(_) => "consumer",
        }
    }

    /// Kafka's name of the state.
    pub(crate) fn state(&self) -> &'static str {
        match self {
            Members::Classic(classic) => classic.phase().name(),
            Members::Consumer(consumers) => consumers.state(),
        }
    }

    pub(crate) fn protocol_type(&self) -> Option<&str> {
        match self {
            Members::Classic(classic) => classic.protocol_type(),
            Members::Consumer(_) => Some(classic::CONSUMER),
        }
    }

    pub(crate) fn classic(&self) -> Option<&Classic> {
        match self {
            Members::Classic(classic) => Some(classic),
            Members::Consumer(_) => None,
        }
    }

    pub(crate) fn consumers(&self) -> Option<&Consumers> {
        match self {
            Members::Classic(_) => None,
            Members::Consumer(consumers) => Some(consumers),
        }
    }

    /// Nobody belongs to it.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Members::Classic(classic) => classic.phase() == Phase::Empty,
            Members::Consumer(consumers) => consumers.is_empty(),
        }
    }

    /// Nobody belongs to it, nor is about to, since then.
    pub(super) fn deserted_since(&self) -> Option<Instant> {
        match self {
            Members::Classic(classic) => classic.is_deserted().then(|| classic.since()),
            Members::Consumer(consumers) => consumers.is_empty().then(|| consumers.since()),
        }
    }

    /// Whether members may be reading a topic.
    pub(super) fn reads(&self, topic: &str) -> bool {
        match self {
            Members::Classic(classic) => classic.reads(topic),
            Members::Consumer(consumers) => consumers.reads(topic),
        }
    }

    /// From when on offsets count as old; none while they do not.
    pub(super) fn retained(&self) -> Option<Retained> {
        match self {
            Members::Classic(classic) if classic.protocol_type().is_some() => {
                let since = self.deserted_since().map(Retained::Since);
                since.or_else(|| classic.is_reading().then_some(Retained::SinceCommit))
            }
            Members::Classic(_) | Members::Consumer(_) => Some(Retained::SinceCommit),
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        match self {
            Members::Classic(classic) => classic.next_deadline(),
            Members::Consumer(consumers) => consumers.next_deadline(),
        }
    }

    pub(super) fn tick(&mut self, now: Instant, options: &GroupOptions) {
        match self {
            Members::Classic(classic) => classic.tick(now, options),
            Members::Consumer(consumers) => consumers.tick(now),
        }
    }

    pub(super) fn reload(&mut self, now: Instant, options: &GroupOptions) {
        match self {
            Members::Classic(classic) => classic.reload(now),
            Members::Consumer(consumers) => consumers.reload(now, options),
        }
    }
}
