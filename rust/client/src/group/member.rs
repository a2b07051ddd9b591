//! A member's task: it lives by one of the two protocols, and comes back after whatever ends its membership.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::assignor::Assignor;
use super::coordinator::Coordinator;
use super::membership::{Membership, Owned, Rebalance};
use super::wanted::Wanted;
use super::{classic, consumer_protocol};
use crate::cluster::Cluster;
use crate::config::{GroupOptions, GroupProtocol};
use crate::error::{Error, Result};

/// How a membership ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The coordinator no longer knows the member or its generation: it may join again.
    Fenced {
        /// Whether the member's id still stands.
        keep_id: bool,
        /// What the coordinator said.
        error: Error,
    },
    /// The program did not poll for too long.
    Overdue,
    /// Joining again would not help.
    Fatal(Error),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        End::Fatal(error)
    }
}

/// Tells the polling thread that something waits for it.
pub(crate) trait Bell: Send + Sync {
    /// It looks again.
    fn ring(&self);
}

/// A member of a group.
pub(crate) struct Member {
    pub(crate) cluster: Cluster,
    pub(crate) coordinator: Coordinator,
    pub(crate) options: GroupOptions,
    pub(crate) rack: String,
    pub(crate) assignors: Vec<Arc<dyn Assignor>>,
    pub(crate) membership: Arc<Membership>,
    pub(crate) bell: Arc<dyn Bell>,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("group", &self.coordinator.group()).finish_non_exhaustive()
    }
}

impl Member {
    /// Keeps the membership that the subscription asks for, until the consumer closes.
    pub(crate) async fn run(self) {
        while self.membership.awaited().await.is_some() {
            let end = tokio::select! {
                biased;
                () = self.membership.unwanted() => None,
                end = self.live() => Some(end),
            };
            let group = self.coordinator.group();
            match end {
                None => {
                    self.leave("the consumer unsubscribed or closed").await;
                    self.membership.outside(false);
                    self.cluster.unsubscribe();
                }
                Some(End::Overdue) => {
                    tracing::warn!(
                        group,
                        max_poll_interval = ?self.options.max_poll_interval,
                        "no poll for max.poll.interval.ms: leaving the group. Poll more often, or take fewer records at a time"
                    );
                    self.leave("no poll for max.poll.interval.ms").await;
                    self.membership.outside(false);
                    self.membership.park(None);
                    self.lose().await;
                }
                Some(End::Fenced { keep_id, error }) => {
                    tracing::warn!(group, %error, "the membership is void: joining again");
                    self.membership.outside(keep_id);
                    self.lose().await;
                }
                Some(End::Fatal(error)) => {
                    tracing::error!(group, %error, "no membership");
                    self.leave("an error that joining again does not heal").await;
                    self.membership.outside(false);
                    self.membership.park(Some(error));
                    self.bell.ring();
                    self.lose().await;
                }
            }
        }
    }

    async fn live(&self) -> End {
        match self.options.protocol {
            GroupProtocol::Classic => classic::live(self).await,
            GroupProtocol::Consumer => consumer_protocol::live(self).await,
        }
    }

    async fn leave(&self, reason: &str) {
        match self.options.protocol {
            GroupProtocol::Classic => classic::leave(self, reason).await,
            GroupProtocol::Consumer => consumer_protocol::leave(self).await,
        }
    }

    async fn lose(&self) {
        self.hand(|owned| (!owned.is_empty()).then(|| Rebalance::Lost(owned.iter().cloned().collect()))).await;
    }

    /// Hands an event over to the polling thread, and waits until it is dealt with.
    pub(super) async fn hand(&self, make: impl Fn(&Owned) -> Option<Rebalance>) {
        self.membership.hand(make, &|| self.bell.ring()).await;
    }

    /// The names of the topics that are wanted now.
    pub(super) async fn names(&self, wanted: &Wanted) -> Result<BTreeSet<String>> {
        let limit = self.cluster.options().default_api_timeout;
        let metadata = match wanted {
            Wanted::Topics(names) => {
                self.cluster.learn_all(false, limit).await?;
                self.cluster.learn(names, limit).await?
            }
            Wanted::Pattern(_) => self.cluster.learn_all(true, limit).await?,
        };
        Ok(wanted.names(&metadata, self.options.exclude_internal_topics))
    }
}

/// As requests carry it.
pub(super) fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}
