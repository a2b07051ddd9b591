//! Task that keeps a consumer's group membership: runs the configured protocol and rejoins after the membership ends.

use super::member::{Member, MembershipEnd};
use super::membership::Rebalance;
use super::{classic, consumer_protocol};
use crate::config::GroupProtocol;
use crate::error::Error;
use crate::metrics::Event;
use crate::retry::Retry;

impl Member {
    /// Keeps the membership required by the subscription until the consumer is closed.
    pub(crate) async fn run(self) {
        let mut last_joins = 0;
        let mut retry = Retry::endless(self.cluster.options());
        while self.membership.ready_to_join().await.is_some() {
            let end = tokio::select! {
                biased;
                () = self.membership.unsubscribed() => None,
                end = self.live() => Some(end),
            };
            let (client_id, group) = (self.coordinator.client_id(), self.coordinator.group());
            if let Some(end) = &end {
                self.membership.rebalance_failed();
                self.cluster.metrics().emit(|| Event::Fenced { reason: end.to_string() });
            }
            match end {
                None => {
                    self.leave("the consumer unsubscribed or closed").await;
                    self.membership.set_unjoined(false);
                    self.cluster.unsubscribe();
                }
                Some(MembershipEnd::PollIntervalExceeded) => {
                    tracing::warn!(
                        client_id,
                        group_id = group,
                        "no poll for max.poll.interval.ms ({} ms): leaving the group. Poll more often, or reduce \
                         max.poll.records",
                        self.options.max_poll_interval.as_millis()
                    );
                    self.leave("no poll for max.poll.interval.ms").await;
                    self.membership.set_unjoined(false);
                    self.membership.suspend_until_poll(None);
                    self.revoke_lost().await;
                }
                Some(MembershipEnd::Fenced { keep_id, error }) => {
                    tracing::warn!(
                        client_id,
                        group_id = group,
                        "the membership is lost, and the group is joined again: {error}"
                    );
                    self.membership.set_unjoined(keep_id);
                    self.revoke_lost().await;
                    // Rejoins immediately if a generation was entered, and with backoff if the coordinator rejects
                    // every attempt.
                    if self.membership.joins() == last_joins {
                        let backoff = retry.wait(error, || format!("joining group {group}"));
                        tokio::select! {
                            biased;
                            () = self.membership.unsubscribed() => {}
                            _ = backoff => {}
                        }
                    } else {
                        last_joins = self.membership.joins();
                        retry = Retry::endless(self.cluster.options());
                    }
                }
                Some(MembershipEnd::Fatal(error)) => {
                    // While the interpreter exits, custom assignors cannot be called. This is not logged as an error.
                    if !matches!(error, Error::Closed(_)) {
                        tracing::error!(client_id, group_id = group, "cannot join the group: {error}");
                    }
                    self.leave("an error that rejoining does not fix").await;
                    self.membership.set_unjoined(false);
                    self.membership.suspend_until_poll(Some(error.clone()));
                    self.waker.wake();
                    self.revoke_lost().await;
                    // Backs off here too, in case the application continues to poll after the error.
                    let backoff = retry.wait(error, || format!("joining group {group}"));
                    tokio::select! {
                        biased;
                        () = self.membership.unsubscribed() => {}
                        _ = backoff => {}
                    }
                }
            }
        }
    }

    async fn live(&self) -> MembershipEnd {
        match self.options.protocol {
            GroupProtocol::Classic => classic::live(self).await,
            GroupProtocol::Consumer => consumer_protocol::live(self).await,
        }
    }

    async fn leave(&self, reason: &str) {
        match self.options.protocol {
            GroupProtocol::Classic => classic::leave(self, reason).await,
            GroupProtocol::Consumer => consumer_protocol::leave(self, reason).await,
        }
    }

    async fn revoke_lost(&self) {
        self.dispatch(|owned| (!owned.is_empty()).then(|| Rebalance::Lost(owned.iter().cloned().collect()))).await;
    }
}
