//! The consumer: what a user calls, over the fetching tasks and the group's coordinator.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use samsarrow_wire::error_code::ErrorCode;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::config::{ConsumerOptions, IsolationLevel, Options};
use crate::error::{Error, Result};
use crate::fetch::{Fetcher, Shared, decode_options};
use crate::group::assignor::Assignor;
use crate::group::consumer_group::ConsumerGroup;
use crate::group::coordinator::Coordinator;
use crate::group::member::Bell;
use crate::group::wanted::Wanted;
use crate::group::{Completed, Identity, Offsets, Rebalance};
use crate::offsets::{self, ListTarget, Outcomes};
use crate::types::{OffsetAndMetadata, OffsetAndTimestamp, TopicPartition};

/// What a coordinator that is slow with commits may have for LeaveGroup all the same.
const LEAVING: Duration = Duration::from_secs(1);

/// Where to seek.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeekTarget {
    /// To the first offset that is there.
    Beginning,
    /// To the end.
    End,
    /// To the group's committed offset, or where `auto.offset.reset` says.
    Committed,
    /// To the first record at or after so many milliseconds since 1970, or the end.
    Timestamp(i64),
}

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
}

/// What `next` brings.
#[derive(Debug)]
pub enum Polled {
    /// Rows, or none when nothing came in time.
    Rows(RecordBatch),
    /// The program's listener is to be told; then [`Consumer::acknowledge`] must be called.
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
        Ok(Consumer { options: options.consumer.clone(), cluster, group, fetcher, schema, woken, wakes })
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

    /// Leaves the group, and reads nothing any more. Whoever wants to commit does it before.
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

    /// The next rows, rebalance or finished commit. Rows are at most `max.poll.records`, and none when nothing came within
    /// `timeout`; positions move past what is returned, and only then. A call that is given up loses nothing.
    ///
    /// # Errors
    /// What keeps an assigned partition from being read, or the consumer from being a member, once for each time that it
    /// is met; [`Error::Wakeup`].
    pub async fn next(&self, timeout: Duration) -> Result<Polled> {
        self.check_open()?;
        let shared = &self.fetcher.shared;
        if shared.nothing_assigned() && self.subscription().is_none() {
            return Err(Error::configuration(
                "nothing is assigned to this consumer, so nothing can come: call subscribe or assign first",
            ));
        }
        let deadline = Instant::now() + timeout;
        let _polling = self.group.as_ref().map(|group| group.membership.polling());
        shared.finish();
        if let Some(group) = &self.group {
            group.commit_if_due(|| self.finished(group, true));
        }
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
        let polled = loop {
            match shared.poll(self.options.max_poll_records, deadline, first, Polled::Rows).await {
                // A topic that was deleted, or made again with fewer partitions: the group takes them from its members.
                Some(Err(Error::Server { code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, context }))
                    if self.subscription().is_some() =>
                {
                    tracing::debug!(what = context, "waiting for the group to notice what is gone");
                    // It is looked for again at once.
                    let again = Instant::now() + self.cluster.options().retry_backoff;
                    tokio::time::sleep_until(again.min(deadline)).await;
                }
                polled => break polled,
            }
        };
        match polled {
            Some(Ok(Polled::Rebalance(event))) => {
                // A call that is given up meanwhile (Ctrl-C) leaves the event to the next poll.
                let unseen = Unseen(self.group.as_ref());
                if !self.unless_woken(self.begin(&event, deadline)).await? {
                    return Ok(Polled::Rows(RecordBatch::new_empty(self.schema.clone())));
                }
                std::mem::forget(unseen);
                Ok(Polled::Rebalance(event))
            }
            Some(polled) => polled,
            None => shared.with_topics(RecordBatch::new_empty(self.schema.clone())).map(Polled::Rows),
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

    /// The listener was told.
    pub fn acknowledge(&self, event: &Rebalance) {
        let Some(group) = &self.group else { return };
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

    /// What may be committed without being named: positions, or what was stored; `all` with what the last poll gave.
    fn finished(&self, group: &ConsumerGroup, all: bool) -> Offsets {
        if !group.stores_by_itself() {
            return group.stored();
        }
        let shared = &self.fetcher.shared;
        at(if all { shared.positions() } else { shared.finished() })
    }

    /// Remembers offsets to be committed without being named, with `enable.auto.offset.store=false`.
    ///
    /// # Errors
    /// [`Error::Configuration`] for a partition that is not assigned: it may be somebody else's.
    pub fn store_offsets(&self, offsets: Offsets) -> Result<()> {
        let group = self.group()?;
        if group.stores_by_itself() {
            return Err(Error::configuration(
                "store_offsets needs enable.auto.offset.store=false: otherwise poll stores offsets itself",
            ));
        }
        check_offsets(&offsets)?;
        if let Some((tp, _)) = offsets.iter().find(|(tp, _)| !self.fetcher.shared.is_assigned(tp)) {
            return Err(Error::configuration(format!("cannot store an offset of {tp}, which is not assigned")));
        }
        group.store(offsets);
        Ok(())
    }

    /// Commits offsets to the group, behind earlier commits: the ones given, or what was stored, or the positions of all
    /// assigned partitions. What failed for now is tried again.
    ///
    /// # Errors
    /// Without `group.id`; what the coordinator says of the group, the member or a partition; a timeout with its cause.
    pub async fn commit(&self, offsets: Option<Offsets>, timeout: Duration) -> Result<()> {
        let outcomes = self.commit_each(offsets, timeout).await?;
        outcomes.into_iter().try_for_each(|(_, outcome)| outcome)
    }

    /// The same, with a result for each partition.
    pub async fn commit_each(&self, offsets: Option<Offsets>, timeout: Duration) -> Result<Outcomes> {
        let group = self.group()?;
        let offsets = self.or_finished(group, offsets)?;
        self.unless_woken(group.commit(offsets, timeout)).await
    }

    /// Commits in the background, in the order of the calls; returns the number that [`Completed`] will have. Must be
    /// called within a tokio runtime.
    pub fn commit_async(&self, offsets: Option<Offsets>) -> Result<u64> {
        let group = self.group()?;
        let offsets = self.or_finished(group, offsets)?;
        group.commit_async(offsets, self.default_timeout())
    }

    fn or_finished(&self, group: &ConsumerGroup, offsets: Option<Offsets>) -> Result<Offsets> {
        let offsets = offsets.unwrap_or_else(|| self.finished(group, true));
        check_offsets(&offsets)?;
        Ok(offsets)
    }

    /// Asynchronous commits that are done, in the order of the calls.
    pub fn take_completed(&self) -> Vec<Completed> {
        self.group.as_ref().map(ConsumerGroup::take_completed).unwrap_or_default()
    }

    /// Who this consumer is in its group, for those that commit in its name.
    pub fn group_metadata(&self) -> Result<(String, Identity)> {
        let group = self.group()?;
        Ok((group.coordinator.group().to_owned(), group.membership.identity()))
    }

    /// What the group has committed; `None` where nothing. `stable` waits for open transactions that commit offsets; by
    /// default with `isolation.level=read_committed`.
    pub async fn committed(
        &self,
        partitions: &[TopicPartition],
        stable: Option<bool>,
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Option<OffsetAndMetadata>)>> {
        let stable = stable.unwrap_or(self.options.isolation_level == IsolationLevel::ReadCommitted);
        let coordinator = &self.group()?.coordinator;
        self.unless_woken(offsets::fetch_committed(&self.cluster, coordinator, partitions, stable, timeout)).await
    }

    fn group(&self) -> Result<&ConsumerGroup> {
        self.check_open()?;
        let missing =
            || Error::configuration("subscriptions and committed offsets belong to a group: set option group.id");
        self.group.as_ref().ok_or_else(missing)
    }

    /// The next offset that `poll` will give of an assigned partition.
    pub async fn position(&self, tp: &TopicPartition, timeout: Duration) -> Result<i64> {
        self.check_open()?;
        let position = async {
            let found = self.fetcher.shared.position(tp, Instant::now() + timeout).await;
            let late =
                || Error::timeout_because(format!("the position of {tp}"), timeout, self.fetcher.shared.trouble(tp));
            found.unwrap_or_else(|| Err(late()))
        };
        self.unless_woken(position).await
    }

    /// The first offset of each partition that is still there.
    pub async fn beginning_offsets(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, i64)>> {
        self.ends(partitions, ListTarget::Earliest, timeout).await
    }

    /// The end of each partition: the high watermark, or the last stable offset for `read_committed`.
    pub async fn end_offsets(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, i64)>> {
        self.ends(partitions, ListTarget::Latest, timeout).await
    }

    async fn ends(
        &self,
        partitions: &[TopicPartition],
        target: ListTarget,
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, i64)>> {
        let wanted: Vec<_> = partitions.iter().map(|tp| (tp.clone(), target)).collect();
        let found = self.list(&wanted, timeout).await?;
        Ok(found.into_iter().map(|(tp, found)| (tp, found.map_or(0, |found| found.offset))).collect())
    }

    /// The first record at or after a time, per partition; `None` where there is none.
    pub async fn offsets_for_times(
        &self,
        times: &[(TopicPartition, i64)],
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Option<OffsetAndTimestamp>)>> {
        if let Some((tp, time)) = times.iter().find(|(_, time)| *time < 0) {
            return Err(Error::configuration(format!(
                "a time of {time} ms for {tp}: times are milliseconds since 1970"
            )));
        }
        let wanted: Vec<_> = times.iter().map(|(tp, time)| (tp.clone(), ListTarget::Timestamp(*time))).collect();
        self.list(&wanted, timeout).await
    }

    async fn list(
        &self,
        wanted: &[(TopicPartition, ListTarget)],
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Option<OffsetAndTimestamp>)>> {
        self.check_open()?;
        self.unless_woken(offsets::list_offsets(&self.cluster, wanted, self.options.isolation_level, timeout)).await
    }

    /// How many offsets lie between the position and the end, of every assigned partition. Brokers tell the ends with the
    /// records; only those that were not told within the last second are asked for.
    pub async fn lag(&self, timeout: Duration) -> Result<Vec<(TopicPartition, i64)>> {
        self.check_open()?;
        let deadline = Instant::now() + timeout;
        let assigned = self.assignment();
        let mut ends = self.fetcher.shared.ends(self.options.isolation_level == IsolationLevel::ReadCommitted);
        let unknown: Vec<_> = assigned.iter().filter(|tp| !ends.contains_key(tp)).cloned().collect();
        if !unknown.is_empty() {
            ends.extend(self.end_offsets(&unknown, timeout).await?);
        }
        let mut lags = Vec::with_capacity(assigned.len());
        for tp in assigned {
            let position = self.position(&tp, deadline.saturating_duration_since(Instant::now())).await?;
            let end = ends.get(&tp).copied().unwrap_or(position);
            lags.push((tp, (end - position).max(0)));
        }
        Ok(lags)
    }

    /// The partitions of a topic, in order.
    pub async fn partitions_for(&self, topic: &str, timeout: Duration) -> Result<Vec<TopicPartition>> {
        self.check_open()?;
        let metadata = self.unless_woken(self.cluster.topics(&[topic], timeout)).await?;
        let partitions = metadata.topic(topic).map(|topic| topic.partitions.as_slice()).unwrap_or_default();
        Ok(partitions.iter().map(|p| TopicPartition::new(topic, p.partition)).collect())
    }

    /// Goes on at `offset`; what was prefetched is dropped.
    pub fn seek(&self, tp: &TopicPartition, offset: i64) -> Result<()> {
        self.seek_after(tp, offset, None)
    }

    /// The same for an offset that follows a record of a leader epoch, as commits and rows tell it: if that record was lost
    /// in a truncation since, reading goes on where the log parted (KIP-320).
    pub fn seek_after(&self, tp: &TopicPartition, offset: i64, leader_epoch: Option<i32>) -> Result<()> {
        self.check_open()?;
        if offset < 0 {
            return Err(Error::configuration(format!("cannot seek {tp} to offset {offset}: offsets start at 0")));
        }
        self.fetcher.shared.seek(&[(tp.clone(), Some(offset), leader_epoch)])
    }

    /// Goes on elsewhere in these partitions, or in all assigned ones if none is given.
    pub async fn seek_to(&self, partitions: &[TopicPartition], target: SeekTarget, timeout: Duration) -> Result<()> {
        let partitions = if partitions.is_empty() { self.assignment() } else { partitions.to_vec() };
        let deadline = Instant::now() + timeout;
        let to: Vec<(TopicPartition, Option<i64>, Option<i32>)> = match target {
            SeekTarget::Committed => {
                let found = self.committed(&partitions, None, timeout).await?.into_iter();
                let at = |found: &OffsetAndMetadata| (Some(found.offset), found.leader_epoch);
                found
                    .map(|(tp, found)| (tp, found.as_ref().map_or((None, None), at)))
                    .map(|(tp, (o, e))| (tp, o, e))
                    .collect()
            }
            SeekTarget::Beginning => some(self.beginning_offsets(&partitions, timeout).await?),
            SeekTarget::End => some(self.end_offsets(&partitions, timeout).await?),
            SeekTarget::Timestamp(time) => {
                let times: Vec<_> = partitions.iter().map(|tp| (tp.clone(), time)).collect();
                let found = self.offsets_for_times(&times, timeout).await?;
                let ends = self.end_offsets(&partitions, deadline.saturating_duration_since(Instant::now())).await?;
                let at = |(tp, found): (_, Option<OffsetAndTimestamp>), end| {
                    (tp, Some(found.map_or(end, |found| found.offset)), None)
                };
                found.into_iter().zip(ends).map(|(found, (_, end))| at(found, end)).collect()
            }
        };
        self.fetcher.shared.seek(&to)
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

    /// What a listener is to be told before [`close`](Self::close) or [`unsubscribe`](Self::unsubscribe), if anything.
    pub fn to_give_up(&self) -> Option<Rebalance> {
        self.group.as_ref().and_then(|group| group.membership.to_give_up())
    }

    /// With `enable.auto.commit`, commits what is finished: with `all` what the last poll gave too. Gives what is left of
    /// the time, some of which is kept for what comes after.
    pub async fn commit_finished(&self, all: bool, timeout: Duration) -> Duration {
        let Some(group) = self.group.as_ref().filter(|_| self.check_open().is_ok()) else { return timeout };
        let began = Instant::now();
        let limit = timeout - (timeout / 5).min(LEAVING);
        if group.commits_by_itself() {
            group.commit_finished(self.finished(group, all), limit).await;
        } else {
            group.settle(limit).await;
        }
        timeout.saturating_sub(began.elapsed())
    }

    /// Leaves the group, then ends the tasks and connections. Calls that wait, and later ones, get [`Error::Closed`].
    pub async fn close(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        if let Some(group) = self.group.as_ref().filter(|_| self.check_open().is_ok()) {
            group.close(timeout).await;
        }
        self.fetcher.stop();
        let left = deadline.saturating_duration_since(Instant::now());
        let _ = tokio::time::timeout(left, self.cluster.close()).await;
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

fn at(positions: Vec<(TopicPartition, i64, Option<i32>)>) -> Offsets {
    let what = |offset, leader_epoch| OffsetAndMetadata { offset, leader_epoch, ..Default::default() };
    positions.into_iter().map(|(tp, position, epoch)| (tp, what(position, epoch))).collect()
}

fn check_offsets(offsets: &Offsets) -> Result<()> {
    match offsets.iter().find(|(_, offset)| offset.offset < 0) {
        None => Ok(()),
        Some((tp, bad)) => {
            Err(Error::configuration(format!("cannot commit offset {} of {tp}: offsets start at 0", bad.offset)))
        }
    }
}

fn some(found: Vec<(TopicPartition, i64)>) -> Vec<(TopicPartition, Option<i64>, Option<i32>)> {
    found.into_iter().map(|(tp, offset)| (tp, Some(offset), None)).collect()
}
