//! Public API of the consumer, based on the fetch tasks and the group membership.

mod commit;
mod poll;
mod positions;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_schema::SchemaRef;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::Uuid;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

pub use self::poll::Polled;
pub use self::positions::SeekTarget;
use crate::cluster::Cluster;
use crate::cluster::coordinator::Coordinator;
use crate::collections::HashSet;
use crate::config::{ConsumerOptions, Options};
use crate::error::{Error, Result};
use crate::fetcher::{Fetcher, Shared, decode_options};
use crate::group::assignor::Assignor;
use crate::group::consumer_group::ConsumerGroup;
use crate::group::member::PollWaker;
use crate::group::subscription::Subscription;
use crate::group::{MemberIdentity, Rebalance};
use crate::metrics::Metrics;
use crate::types::TopicPartition;

/// Consumes records of assigned partitions as Arrow batches. Methods take `&self` and may be called from any thread.
#[derive(Debug)]
pub struct Consumer {
    options: ConsumerOptions,
    cluster: Cluster,
    group: Option<ConsumerGroup>,
    fetcher: Fetcher,
    schema: SchemaRef,
    woken: AtomicBool,
    /// Wakes waiting calls other than `poll`.
    wakeups: Notify,
    /// Earliest time at which a waiting poll tries again.
    retry_at: Mutex<Option<Instant>>,
    /// Set to true once `close` has completed.
    ended: watch::Sender<bool>,
}

impl PollWaker for Shared {
    fn wake(&self) {
        self.notify_poll();
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.fetcher.stop();
    }
}

impl Consumer {
    /// Creates a consumer without I/O. No tokio runtime is required.
    pub fn new(options: &Options) -> Result<Consumer> {
        Self::with_assignors(options, Vec::new())
    }

    /// Creates a consumer with custom assignors, which `partition.assignment.strategy` may name.
    pub fn with_assignors(options: &Options, custom: Vec<Arc<dyn Assignor>>) -> Result<Consumer> {
        let cluster = Cluster::new(options)?;
        let coordinator = options.consumer.group.id.as_deref().map(|group| Coordinator::new(cluster.clone(), group));
        let fetcher = Fetcher::new(&cluster, coordinator.clone(), options);
        let waker: Arc<dyn PollWaker> = fetcher.shared.clone();
        let join = |coordinator| ConsumerGroup::new(&cluster, coordinator, &options.consumer, custom, waker);
        let group = coordinator.map(join).transpose()?;
        let schema = decode_options(&options.consumer).schema();
        let woken = AtomicBool::new(false);
        let wakeups = Notify::new();
        Ok(Consumer {
            options: options.consumer.clone(),
            cluster,
            group,
            fetcher,
            schema,
            woken,
            wakeups,
            retry_at: Mutex::default(),
            ended: watch::Sender::new(false),
        })
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        self.cluster.metrics()
    }

    /// Returns the id under which brokers receive this client's metrics (KIP-714).
    ///
    /// # Errors
    /// Fails if metrics are not pushed, if no broker accepts them, or if no broker was reachable within `timeout`.
    pub async fn client_instance_id(&self, timeout: Duration) -> Result<Uuid> {
        self.check_open()?;
        self.cluster.client_instance_id(timeout).await
    }

    /// Returns the schema of every batch.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Returns the timeout of calls that do not pass a timeout (`default.api.timeout.ms`).
    pub fn default_timeout(&self) -> Duration {
        self.cluster.options().default_api_timeout
    }

    /// Replaces the assignment. Partitions that stay assigned keep their positions. With `enable.auto.commit`, offsets
    /// of removed partitions are committed in the background, except for rows of the last poll, which the application
    /// may still be processing. Otherwise stored offsets of removed partitions are dropped. Must be called within a
    /// tokio runtime.
    ///
    /// # Errors
    /// Fails with [`Error::Configuration`] if the consumer is subscribed to topics, because the group then assigns
    /// partitions.
    pub fn assign(&self, partitions: &[TopicPartition]) -> Result<()> {
        self.check_open()?;
        if self.subscription().is_some() {
            return Err(Error::configuration(
                "cannot assign partitions while subscribed to topics, which the group assigns: call unsubscribe first",
            ));
        }
        if let Some(group) = &self.group {
            let kept: HashSet<&TopicPartition> = partitions.iter().collect();
            if group.auto_commits() {
                let mut finished = self.finished(group, false);
                finished.retain(|(tp, _)| !kept.contains(tp));
                group.commit_unassigned(finished, self.default_timeout());
            }
            // Stored offsets of removed partitions must not be committed once another consumer owns the partitions.
            let removed: Vec<_> = self.assignment().into_iter().filter(|tp| !kept.contains(tp)).collect();
            group.forget(&removed);
        }
        self.fetcher.shared.assign(partitions);
        if !partitions.is_empty() {
            self.fetcher.start();
        }
        Ok(())
    }

    /// Subscribes to topics as a member of the group, starting with the next poll. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// Fails with [`Error::Configuration`] if `group.id` is missing, or if partitions are assigned manually.
    pub fn subscribe(&self, subscription: Subscription) -> Result<()> {
        let group = self.group()?;
        if group.membership.subscription().is_none() && !self.fetcher.shared.nothing_assigned() {
            return Err(Error::configuration(
                "cannot subscribe while partitions are assigned by hand: call unsubscribe or assign([]) first",
            ));
        }
        group.subscribe(subscription);
        self.fetcher.start();
        Ok(())
    }

    /// Returns the subscription; `None` if the consumer has none.
    pub fn subscription(&self) -> Option<Arc<Subscription>> {
        self.group.as_ref().and_then(|group| group.membership.subscription())
    }

    /// Leaves the group and clears the assignment. Call [`commit`](Self::commit) first if necessary.
    pub fn unsubscribe(&self) -> Result<()> {
        self.check_open()?;
        if let Some(group) = &self.group {
            group.forget(&self.assignment());
            group.membership.set_subscription(None);
        }
        self.fetcher.shared.assign(&[]);
        Ok(())
    }

    /// Returns the partitions that the application or the group has assigned.
    pub fn assignment(&self) -> Vec<TopicPartition> {
        self.fetcher.shared.assignment()
    }

    /// Triggers a rebalance at the next poll; `reason` appears in the broker's log.
    ///
    /// # Errors
    /// Fails with [`Error::State`] if the consumer has no subscription.
    pub fn enforce_rebalance(&self, reason: &str) -> Result<()> {
        let group = self.group()?;
        if self.subscription().is_none() {
            return Err(Error::State("enforce_rebalance needs a subscription: call subscribe first".into()));
        }
        group.enforce_rebalance(reason);
        Ok(())
    }

    /// Makes the waiting call, or the next call that may wait, return [`Error::Wakeup`]. `close` and `unsubscribe`
    /// ignore wakeups.
    pub fn wakeup(&self) {
        self.woken.store(true, Ordering::Release);
        self.fetcher.shared.notify_poll();
        self.wakeups.notify_waiters();
    }

    /// Runs `work` until it completes, or fails as soon as `wakeup` is called.
    async fn unless_woken<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let notified = self.wakeups.notified();
        tokio::pin!(work, notified);
        // Registers for notifications before checking `woken`, so that a notification in between is not missed.
        notified.as_mut().enable();
        if !self.woken.load(Ordering::Acquire) {
            tokio::select! {
                biased;
                output = work => return output,
                () = notified => {}
            }
        }
        self.woken.store(false, Ordering::Release);
        Err(Error::Wakeup)
    }

    /// Returns this consumer's identity in its group, for requests that commit on its behalf. After the membership was
    /// lost, this is the last identity, which brokers reject.
    pub fn group_metadata(&self) -> Result<(String, MemberIdentity)> {
        let group = self.group()?;
        Ok((group.coordinator.group().to_owned(), group.membership.transaction_identity()))
    }

    /// Returns the known ids of the topics that this consumer reads (KIP-516).
    pub fn topic_ids(&self) -> BTreeMap<Arc<str>, Uuid> {
        self.fetcher.shared.topic_ids()
    }

    fn group(&self) -> Result<&ConsumerGroup> {
        self.check_open()?;
        let missing =
            || Error::configuration("subscriptions and committed offsets belong to a group: set option group.id");
        self.group.as_ref().ok_or_else(missing)
    }

    /// Returns the partitions of a topic, in order.
    ///
    /// # Errors
    /// Fails if repeated responses confirm that the topic does not exist, or if no broker was reachable within
    /// `timeout`.
    pub async fn partitions_for(&self, topic: &str, timeout: Duration) -> Result<Vec<TopicPartition>> {
        self.check_open()?;
        let unknown = || Error::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("topic {topic}"));
        let lookup =
            async { self.cluster.topics_each(&[topic], timeout).await.remove(topic).unwrap_or_else(|| Err(unknown())) };
        self.unless_woken(lookup).await?;
        let metadata = self.cluster.metadata();
        // The topic is missing here only if it was deleted after the lookup.
        let topic_metadata = metadata.topic(topic).ok_or_else(unknown)?;
        Ok(topic_metadata.partitions.iter().map(|p| TopicPartition::new(topic, p.partition)).collect())
    }

    /// Returns the names of all topics except Kafka's internal ones, in order.
    ///
    /// # Errors
    /// Fails if no broker responds within `timeout`, or with [`Error::Wakeup`] if `wakeup` is called.
    pub async fn topics(&self, timeout: Duration) -> Result<Vec<String>> {
        self.check_open()?;
        self.unless_woken(self.cluster.topic_names(timeout)).await
    }

    /// Stops returning rows of these partitions until `resume`. Positions do not change. Fetched rows of paused
    /// partitions are kept while they use at most half of the fetch memory.
    pub fn pause(&self, partitions: &[TopicPartition]) -> Result<()> {
        self.fetcher.shared.set_paused(partitions, true)
    }

    /// Resumes paused partitions.
    pub fn resume(&self, partitions: &[TopicPartition]) -> Result<()> {
        self.fetcher.shared.set_paused(partitions, false)
    }

    /// Returns the assigned partitions that are paused.
    pub fn paused(&self) -> Vec<TopicPartition> {
        self.fetcher.shared.paused()
    }

    fn check_open(&self) -> Result<()> {
        if self.fetcher.shared.is_closed() { Err(Error::closed("the consumer")) } else { Ok(()) }
    }

    /// Returns the event that a listener must receive before [`close`](Self::close) or
    /// [`unsubscribe`](Self::unsubscribe), if any.
    pub fn final_rebalance(&self) -> Option<Rebalance> {
        self.group.as_ref().and_then(|group| group.membership.final_rebalance())
    }

    /// Leaves the group, ends all tasks and closes all connections. Waiting calls and later calls return
    /// [`Error::Closed`].
    pub async fn close(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let remaining = || deadline.saturating_duration_since(Instant::now());
        if let Some(group) = self.group.as_ref().filter(|_| self.check_open().is_ok()) {
            // Like Java's client, pushes the last metrics while the consumer is still a member (KIP-714). At least half
            // of the time remains for leaving the group.
            self.cluster.end_telemetry(timeout / 2).await;
            group.close(remaining()).await;
        }
        self.fetcher.stop();
        self.cluster.close_within(remaining()).await;
        self.ended.send_replace(true);
    }

    /// Waits until a [`close`](Self::close) in progress has completed, but at most for `timeout`.
    pub async fn closed(&self, timeout: Duration) {
        let _ = tokio::time::timeout(timeout, self.ended.subscribe().wait_for(|ended| *ended)).await;
    }
}
