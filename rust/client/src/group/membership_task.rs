//! Task that keeps a consumer's group membership: runs the configured protocol and rejoins after the membership ends.

use super::member::{End, Member};
use super::membership::Rebalance;
use super::{classic, consumer_protocol};
use crate::config::GroupProtocol;
use crate::error::Error;
use crate::metrics::Event;
use crate::retry::Retry;

impl Member {
    /// Keeps the membership required by the subscription until the consumer is closed.
    pub(crate) async fn run(self) {
        let mut joins = 0;
        let mut retry = Retry::endless(self.cluster.options());
        while self.membership.awaited().await.is_some() {
            let end = tokio::select! {
                biased;
                () = self.membership.unwanted() => None,
                end = self.live() => Some(end),
            };
            let group = self.coordinator.group();
            if let Some(end) = &end {
                self.membership.failed();
                self.cluster.metrics().emit(|| Event::Fenced { reason: end.to_string() });
            }
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
                    // Rejoins immediately if a generation was entered, and with backoff if the coordinator rejects
                    // every attempt.
                    if self.membership.joins() == joins {
                        let again = retry.wait(error, || format!("joining group {group}"));
                        tokio::select! {
                            biased;
                            () = self.membership.unwanted() => {}
                            _ = again => {}
                        }
                    } else {
                        joins = self.membership.joins();
                        retry = Retry::endless(self.cluster.options());
                    }
                }
                Some(End::Fatal(error)) => {
                    // A custom assignor cannot be called while the interpreter exits, which is not an error to log.
                    if !matches!(error, Error::Closed(_)) {
                        tracing::error!(group, %error, "no membership");
                    }
                    self.leave("an error that joining again does not heal").await;
                    self.membership.outside(false);
                    self.membership.park(Some(error.clone()));
                    self.bell.ring();
                    self.lose().await;
                    // Backs off here too, in case the application continues to poll after the error.
                    let again = retry.wait(error, || format!("joining group {group}"));
                    tokio::select! {
                        biased;
                        () = self.membership.unwanted() => {}
                        _ = again => {}
                    }
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
}
