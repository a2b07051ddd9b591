//! The consumer: what a user calls, over the fetching tasks and the group's coordinator.

mod commit;
mod positions;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::Uuid;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

pub use self::positions::SeekTarget;
use crate::cluster::Cluster;
use crate::config::{ConsumerOptions, Options};
use crate::error::{Error, Result};
use crate::fetch::{Fetcher, Shared, decode_options};
use crate::group::assignor::Assignor;
use crate::group::consumer_group::ConsumerGroup;
use crate::group::coordinator::Coordinator;
use crate::group::member::Bell;
use crate::group::wanted::Wanted;
use crate::group::{Identity, Rebalance};
use crate::metrics::{Event, Metrics};
use crate::types::TopicPartition;

/// Reads records of assigned partitions as Arrow batches. Methods take `&self` and may be called from any thread.
#[derive(Debug)]
pub struct Consumer {
    options: ConsumerOptions,
    cluster: Cluster,
    group: Option<ConsumerGroup>,
    fetcher: Fetcher,
    schema: SchemaRef,
    woken: AtomicBool,
    /// Rings for calls that wait, but for `poll`.
    wakes: Notify,
    /// Before then nothing is looked for.
    again: Mutex<Option<Instant>>,
    /// Whether `close` is through.
    ended: watch::Sender<bool>,
}

/// What `next` brings.
#[derive(Debug)]
pub enum Polled {
    /// Rows, or none when nothing came in time.
    Rows(RecordBatch),
    /// The program's listener is to be notified; then [`Consumer::acknowledge`] must be called.
    Rebalance(Rebalance),
    /// An asynchronous commit is done: see [`Consumer::take_completed`].
    Committed,
}

impl Bell for Shared {
    fn ring(&self) {
        self.ring_ready();
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.fetcher.stop();
    }
}

impl Consumer {
    /// Made without I/O, within a tokio runtime or not.
    pub fn new(options: &Options) -> Result<Consumer> {
        Self::with_assignors(options, Vec::new())
    }

    /// The same with assignors of the program's own, which `partition.assignment.strategy` may name.
    pub fn with_assignors(options: &Options, custom: Vec<Arc<dyn Assignor>>) -> Result<Consumer> {
        let cluster = Cluster::new(options)?;
        let coordinator = options.consumer.group.id.as_deref().map(|group| Coordinator::new(cluster.clone(), group));
        let fetcher = Fetcher::new(&cluster, coordinator.clone(), options);
        let bell: Arc<dyn Bell> = fetcher.shared.clone();
        let join = |coordinator| ConsumerGroup::new(&cluster, coordinator, &options.consumer, custom, bell);
        let group = coordinator.map(join).transpose()?;
        let schema = decode_options(&options.consumer).schema();
        let woken = AtomicBool::new(false);
        let wakes = Notify::new();
        Ok(Consumer {
            options: options.consumer.clone(),
            cluster,
            group,
            fetcher,
            schema,
            woken,
            wakes,
            again: Mutex::default(),
            ended: watch::Sender::new(false),
        })
    }

    /// What it counts.
    pub fn metrics(&self) -> &Arc<Metrics> {
        self.cluster.metrics()
    }

    /// The id by which brokers know this client's metrics (KIP-714).
    ///
    /// # Errors
    /// Metrics are not pushed, or no broker takes them; none could be asked within `timeout`.
    pub async fn client_instance_id(&self, timeout: Duration) -> Result<Uuid> {
        self.check_open()?;
        self.cluster.client_instance_id(timeout).await
    }

    /// The schema of every batch.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// How long a call without a timeout of its own keeps trying.
    pub fn default_timeout(&self) -> Duration {
        self.cluster.options().default_api_timeout
    }

    /// Reads these partitions from now on; those that were assigned before keep their positions. Must be called within a
    /// tokio runtime.
    ///
    /// # Errors
    /// [`Error::Configuration`] while there is a subscription: then the group assigns.
    pub fn assign(&self, partitions: &[TopicPartition]) -> Result<()> {
        self.check_open()?;
        if self.subscription().is_some() {
            return Err(Error::configuration(
                "cannot assign partitions while subscribed to topics, which the group assigns: call unsubscribe first",
            ));
        }
        self.fetcher.shared.assign(partitions);
        if !partitions.is_empty() {
            self.fetcher.start();
        }
        Ok(())
    }

    /// Reads these topics as a member of the group from the next poll on. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Configuration`] without `group.id`, and while partitions are assigned by hand.
    pub fn subscribe(&self, wanted: Wanted) -> Result<()> {
        let group = self.group()?;
        if group.membership.wanted().is_none() && !self.fetcher.shared.nothing_assigned() {
            return Err(Error::configuration(
                "cannot subscribe while partitions are assigned by hand: call unsubscribe or assign([]) first",
            ));
        }
        group.subscribe(wanted);
        self.fetcher.start();
        Ok(())
    }

    /// What is subscribed to.
    pub fn subscription(&self) -> Option<Arc<Wanted>> {
        self.group.as_ref().and_then(|group| group.membership.wanted())
    }

    /// Leaves the group, and reads nothing any more. Anyone who wants to commit does it before.
    pub fn unsubscribe(&self) -> Result<()> {
        self.check_open()?;
        if let Some(group) = &self.group {
            group.forget(&self.assignment());
            group.membership.want(None);
        }
        self.fetcher.shared.assign(&[]);
        Ok(())
    }

    /// What is assigned.
    pub fn assignment(&self) -> Vec<TopicPartition> {
        self.fetcher.shared.assignment()
    }

    /// Begins a poll, which then takes what it finds with [`look`](Self::look) and waits with [`ready`](Self::ready): the
    /// program is done with what the polls before it gave. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Configuration`] if nothing is subscribed to or assigned.
    pub fn begin_poll(&self) -> Result<()> {
        self.check_open()?;
        self.cluster.metrics().polls.begin();
        let shared = &self.fetcher.shared;
        if shared.nothing_assigned() && self.subscription().is_none() {
            return Err(Error::configuration(
                "nothing is assigned to this consumer, so nothing can come: call subscribe or assign first",
            ));
        }
        if let Some(group) = &self.group {
            drop(group.membership.polling());
        }
        shared.finish();
        if let Some(group) = &self.group {
            group.commit_if_due(|| self.finished(group, true));
        }
        Ok(())
    }

    /// What is there now: rows, at most `max.poll.records`, a rebalance or a finished commit. Positions move past what is
    /// returned, and only then. A rebalance must be acknowledged, once it was [prepared](Self::prepare), or given back.
    ///
    /// # Errors
    /// What keeps an assigned partition from being read, or the consumer from being a member, once for each time that it
    /// is met; [`Error::Wakeup`].
    pub fn look(&self) -> Result<Option<Polled>> {
        let first = || {
            if self.woken.swap(false, Ordering::AcqRel) {
                return Some(Err(Error::Wakeup));
            }
            let group = self.group.as_ref()?;
            if let Some(error) = group.membership.failure() {
                return Some(Err(error));
            }
            match group.membership.take() {
                Some(event) => Some(Ok(Polled::Rebalance(event))),
                None => group.has_completed().then_some(Ok(Polled::Committed)),
            }
        };
        match self.fetcher.shared.take(self.options.max_poll_records, first, Polled::Rows).transpose() {
            // A topic that was deleted, or made again with fewer partitions: the group takes them from its members.
            Err(Error::Server { code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, context })
                if self.subscription().is_some() =>
            {
                tracing::debug!(what = context, "waiting for the group to notice what is gone");
                // It is looked for again at once.
                *self.again() = Some(Instant::now() + self.cluster.options().retry_backoff);
                Ok(None)
            }
            found => found,
        }
    }

    /// Waits until [`look`](Self::look) may find something, or for `timeout`. Nothing is taken: a wait that is given up loses
    /// nothing. The program counts as one that polls meanwhile.
    pub async fn ready(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let _idle = self.cluster.metrics().polls.wait();
        let _polling = self.group.as_ref().map(|group| group.membership.polling());
        let again = self.again().take();
        if let Some(again) = again {
            tokio::time::sleep_until(again.min(deadline)).await;
        }
        let first = || {
            let news = |group: &ConsumerGroup| group.membership.has_news() || group.has_completed();
            self.woken.load(Ordering::Acquire) || self.group.as_ref().is_some_and(news)
        };
        self.fetcher.shared.ready(deadline, first).await;
    }

    /// Does what has to be done before the listener is called; false when there was no time for it.
    ///
    /// # Errors
    /// [`Error::Wakeup`].
    pub async fn prepare(&self, event: &Rebalance, timeout: Duration) -> Result<bool> {
        let _polling = self.group.as_ref().map(|group| group.membership.polling());
        self.unless_woken(self.begin(event, Instant::now() + timeout)).await
    }

    /// The listener was not called after all: the next poll takes the event again.
    pub fn give_back(&self) {
        if let Some(group) = &self.group {
            group.membership.give_back();
        }
    }

    /// No rows.
    pub fn nothing(&self) -> Result<RecordBatch> {
        self.fetcher.shared.with_topics(RecordBatch::new_empty(self.schema.clone()))
    }

    fn again(&self) -> MutexGuard<'_, Option<Instant>> {
        self.again.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next rows, rebalance or finished commit. Rows are at most `max.poll.records`, and none when nothing came within
    /// `timeout`. A call that is given up loses nothing.
    ///
    /// # Errors
    /// What [`begin_poll`](Self::begin_poll), [`look`](Self::look) and [`prepare`](Self::prepare) refuse.
    pub async fn next(&self, timeout: Duration) -> Result<Polled> {
        let deadline = Instant::now() + timeout;
        self.begin_poll()?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.look()? {
                Some(Polled::Rebalance(event)) => {
                    // A call that is given up meanwhile leaves the event to the next poll.
                    let unseen = Unseen(self.group.as_ref());
                    if !self.prepare(&event, left).await? {
                        return self.nothing().map(Polled::Rows);
                    }
                    std::mem::forget(unseen);
                    return Ok(Polled::Rebalance(event));
                }
                Some(found) => return Ok(found),
                None if left.is_zero() => return self.nothing().map(Polled::Rows),
                None => self.ready(left).await,
            }
        }
    }

    /// [`next`](Self::next) for a program without a listener.
    pub async fn poll(&self, timeout: Duration) -> Result<RecordBatch> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.next(deadline.saturating_duration_since(Instant::now())).await? {
                Polled::Rows(rows) => return Ok(rows),
                Polled::Rebalance(event) => self.acknowledge(&event),
                Polled::Committed => drop(self.take_completed()),
            }
        }
    }

    /// What has to be so before a listener is called; false when there was no time for it.
    async fn begin(&self, event: &Rebalance, deadline: Instant) -> Result<bool> {
        let Some(group) = &self.group else { return Ok(true) };
        match event {
            Rebalance::Revoked(gone) => {
                if group.commits_by_itself() {
                    return Ok(group.commit_gone(gone, || self.finished(group, true), deadline).await);
                }
            }
            Rebalance::Assigned(new) => {
                // What others committed meanwhile counts, not what we remember.
                group.forget(new);
                self.fetcher.shared.assign(&group.membership.owned());
            }
            Rebalance::Lost(_) => {}
        }
        Ok(true)
    }

    /// The listener was notified.
    pub fn acknowledge(&self, event: &Rebalance) {
        let Some(group) = &self.group else { return };
        self.cluster.metrics().tell(|| Event::Rebalanced(event.clone()));
        group.membership.acknowledge();
        if let Rebalance::Revoked(gone) | Rebalance::Lost(gone) = event {
            group.forget(gone);
            self.fetcher.shared.assign(&group.membership.owned());
        }
    }

    /// Has the group share its partitions anew, at the next poll; `reason` is for the broker's log.
    ///
    /// # Errors
    /// [`Error::State`] without a subscription.
    pub fn enforce_rebalance(&self, reason: &str) -> Result<()> {
        let group = self.group()?;
        if self.subscription().is_none() {
            return Err(Error::State("enforce_rebalance needs a subscription: call subscribe first".into()));
        }
        group.enforce_rebalance(reason);
        Ok(())
    }

    /// Makes the call that waits now, or the next one that may wait, return [`Error::Wakeup`]; `close` and `unsubscribe`
    /// do not heed it.
    pub fn wakeup(&self) {
        self.woken.store(true, Ordering::Release);
        self.fetcher.shared.ring_ready();
        self.wakes.notify_waiters();
    }

    /// Does `work`, unless `wakeup` comes first.
    async fn unless_woken<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let bell = self.wakes.notified();
        tokio::pin!(work, bell);
        // Listening starts before looking: a ring in between is not missed.
        bell.as_mut().enable();
        if !self.woken.load(Ordering::Acquire) {
            tokio::select! {
                biased;
                done = work => return done,
                () = bell => {}
            }
        }
        self.woken.store(false, Ordering::Release);
        Err(Error::Wakeup)
    }

    /// Who this consumer is in its group, for those that commit in its name.
    pub fn group_metadata(&self) -> Result<(String, Identity)> {
        let group = self.group()?;
        Ok((group.coordinator.group().to_owned(), group.membership.identity()))
    }

    fn group(&self) -> Result<&ConsumerGroup> {
        self.check_open()?;
        let missing =
            || Error::configuration("subscriptions and committed offsets belong to a group: set option group.id");
        self.group.as_ref().ok_or_else(missing)
    }

    /// The partitions of a topic, in order.
    ///
    /// # Errors
    /// The topic does not exist, as brokers have said more than once; none could be asked within `timeout`.
    pub async fn partitions_for(&self, topic: &str, timeout: Duration) -> Result<Vec<TopicPartition>> {
        self.check_open()?;
        let looked_up = async { self.cluster.topics_each(&[topic], timeout).await.remove(topic).unwrap_or(Ok(())) };
        self.unless_woken(looked_up).await?;
        let metadata = self.cluster.metadata();
        let partitions = metadata.topic(topic).map(|topic| topic.partitions.as_slice()).unwrap_or_default();
        Ok(partitions.iter().map(|p| TopicPartition::new(topic, p.partition)).collect())
    }

    /// Gives no more rows of these partitions until `resume`; positions stay, and what was prefetched is kept as far as it
    /// takes no more than half of the memory.
    pub fn pause(&self, partitions: &[TopicPartition]) -> Result<()> {
        self.fetcher.shared.set_paused(partitions, true)
    }

    /// Undoes `pause`.
    pub fn resume(&self, partitions: &[TopicPartition]) -> Result<()> {
        self.fetcher.shared.set_paused(partitions, false)
    }

    /// What is paused.
    pub fn paused(&self) -> Vec<TopicPartition> {
        self.fetcher.shared.paused()
    }

    fn check_open(&self) -> Result<()> {
        if self.fetcher.shared.is_closed() { Err(Error::closed("the consumer")) } else { Ok(()) }
    }

    /// What a listener is to learn before [`close`](Self::close) or [`unsubscribe`](Self::unsubscribe), if anything.
    pub fn to_give_up(&self) -> Option<Rebalance> {
        self.group.as_ref().and_then(|group| group.membership.to_give_up())
    }

    /// Leaves the group, then ends the tasks and connections. Calls that wait, and later ones, get [`Error::Closed`].
    pub async fn close(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let left = || deadline.saturating_duration_since(Instant::now());
        if let Some(group) = self.group.as_ref().filter(|_| self.check_open().is_ok()) {
            // As in Java, the last metrics are those of a member (KIP-714). To leave there is time in any case.
            self.cluster.end_telemetry(timeout / 2).await;
            group.close(left()).await;
        }
        self.fetcher.stop();
        self.cluster.close_within(left()).await;
        self.ended.send_replace(true);
    }

    /// Waits for the end of a [`close`](Self::close) that was begun, for `timeout` at most.
    pub async fn closed(&self, timeout: Duration) {
        let _ = tokio::time::timeout(timeout, self.ended.subscribe().wait_for(|ended| *ended)).await;
    }
}

/// An event that was taken, until the program has it.
struct Unseen<'a>(Option<&'a ConsumerGroup>);

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            group.membership.give_back();
        }
    }
}
