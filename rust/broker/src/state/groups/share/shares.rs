//! Share-partitions and share sessions of all groups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::Uuid;
use samsarrow_wire::sync::lock;
use tokio::time::{Instant, sleep_until};

use super::acquire::{self, Acquired, Limits};
use super::partition::{Acknowledgement, SharePartition};
use super::sessions::{SessionKey, Sessions, TopicPartition};
use super::settings::ShareSettings;
use crate::history;
use crate::state::State;
use crate::state::topic::{Partition, PartitionState};
use crate::state::topic_creation::Rejection;

/// Share-partitions and share sessions. Lock order: after the lock of groups, before the locks of partitions.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    pub(super) partitions: BTreeMap<(String, TopicPartition), SharePartition>,
    sessions: Sessions,
    /// Topics for which the group coordinator has created the state of a group, because a member has subscribed to them
    /// or an administrator has set a start offset.
    pub(super) initialized: BTreeSet<(String, [u8; 16])>,
    /// Groups whose share-partitions brokers have in memory.
    pub(super) loaded: BTreeSet<String>,
}

impl Shares {
    /// Returns the share-partition in its current state, or creates it. A new one starts as the group's settings say.
    fn current(
        &mut self,
        group: &str,
        partition: TopicPartition,
        log: &PartitionState,
        settings: &ShareSettings,
        now: Instant,
    ) -> &mut SharePartition {
        history::share_partition(group, partition.1);
        let share = self
            .partitions
            .entry((group.to_owned(), partition))
            .or_insert_with(|| SharePartition::new(settings.reset.offset(log), log.leader_epoch));
        if let Some(altered) = share.altered.filter(|_| share.leader_epoch != log.leader_epoch) {
            *share = SharePartition::at_stored(altered, log.leader_epoch);
        } else if !share.follow_leader(log.leader_epoch) {
            *share = SharePartition::new(settings.reset.offset(log), log.leader_epoch);
        }
        share.expire(now, settings);
        share
    }

    /// Returns the share-partition in its current state, or a rejection if the group has no state for the topic.
    fn existing(
        &mut self,
        group: &str,
        partition: TopicPartition,
        log: &PartitionState,
        settings: &ShareSettings,
        now: Instant,
    ) -> Result<&mut SharePartition, Rejection> {
        if !self.is_initialized(group, partition) {
            let code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            return Err((code, code.description().to_owned()));
        }
        Ok(self.current(group, partition, log, settings, now))
    }

    /// Returns true if the group has state for the topic. Without it, nothing is delivered.
    fn is_initialized(&self, group: &str, (topic, _): TopicPartition) -> bool {
        self.initialized.contains(&(group.to_owned(), topic))
    }

    /// Removes a group from the brokers' memory, so that altered start offsets take effect.
    fn unload(&mut self, group: &str) {
        self.loaded.remove(group);
        let of_group = self.partitions.iter_mut().filter(|((of, _), _)| of == group);
        for (_, share) in of_group {
            if let Some(altered) = share.altered {
                *share = SharePartition::at_stored(altered, share.leader_epoch);
            }
        }
    }

    /// Removes the state of a group.
    pub(crate) fn forget_group(&mut self, group: &str) {
        self.partitions.retain(|(of, _), _| of != group);
        self.initialized.retain(|(of, _)| of != group);
    }

    /// Removes the state of a topic.
    pub(crate) fn forget_topic(&mut self, id: [u8; 16]) {
        self.partitions.retain(|(_, (topic, _)), _| *topic != id);
        self.initialized.retain(|(_, topic)| *topic != id);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.partitions.values().filter_map(SharePartition::next_deadline).min()
    }
}

impl State {
    fn share_partition_log(&self, (topic, partition): TopicPartition) -> Option<Arc<Partition>> {
        self.topic_by_id(&Uuid(topic))?.partition(partition).cloned()
    }

    /// Opens a share session.
    pub(crate) fn open_share_session(
        &self,
        key: SessionKey,
        connection: u64,
        partitions: Vec<TopicPartition>,
    ) -> Result<(), ErrorCode> {
        let mut shares = lock(&self.shares);
        let group = key.0.clone();
        shares.sessions.open(key, connection, partitions, self.options.shares.max_sessions)?;
        shares.loaded.insert(group);
        Ok(())
    }

    /// Creates the state of a group for topics that its members have subscribed to.
    pub(crate) fn initialize_shares(&self, group: &str, topics: impl Iterator<Item = Uuid>) {
        for topic in topics {
            let is_new = lock(&self.shares).initialized.insert((group.to_owned(), topic.0));
            if is_new && let Some(topic) = self.topic_by_id(&topic) {
                topic.partitions().for_each(|(_, partition)| partition.wake());
            }
        }
    }

    /// Returns true if the group has state for the topic of the partition.
    pub(crate) fn has_share_state(&self, group: &str, partition: TopicPartition) -> bool {
        lock(&self.shares).is_initialized(group, partition)
    }

    /// Changes the partitions of a share session, and returns those that were added.
    pub(crate) fn update_share_session(
        &self,
        key: &SessionKey,
        epoch: i32,
        requested: &[TopicPartition],
        forgotten: &[TopicPartition],
    ) -> Result<Vec<TopicPartition>, ErrorCode> {
        lock(&self.shares).sessions.update(key, epoch, requested, forgotten)
    }

    /// Checks the epoch of an acknowledgement, and bumps it.
    pub(crate) fn use_share_session(&self, key: &SessionKey, epoch: i32) -> Result<(), ErrorCode> {
        lock(&self.shares).sessions.acknowledge(key, epoch)
    }

    pub(crate) fn has_share_session(&self, key: &SessionKey) -> bool {
        lock(&self.shares).sessions.contains(key)
    }

    /// Returns true if no later request has used the session since the request with this epoch.
    pub(crate) fn is_current_share_session(&self, key: &SessionKey, epoch: i32) -> bool {
        lock(&self.shares).sessions.is_current(key, epoch)
    }

    pub(crate) fn share_session_partitions(&self, key: &SessionKey, epoch: i32) -> Vec<TopicPartition> {
        lock(&self.shares).sessions.partitions(key, epoch)
    }

    /// Closes a share session and releases the records that its member holds.
    pub(crate) fn close_share_session(&self, key: &SessionKey) {
        let closed = lock(&self.shares).sessions.close(key);
        self.release_shares(key, &closed.unwrap_or_default());
    }

    /// Closes the share sessions that a connection opened, and releases their records.
    pub(crate) fn close_share_sessions_of(&self, connection: u64) {
        let (closed, unused) = lock(&self.shares).sessions.disconnect(connection);
        for (key, partitions) in closed {
            self.release_shares(&key, &partitions);
        }
        for group in unused {
            lock(&self.shares).unload(&group);
        }
    }

    fn release_shares(&self, (group, member, _): &SessionKey, partitions: &[TopicPartition]) {
        let settings = self.share_settings(group);
        self.change_shares(group, partitions, &settings, |share| share.release(member, &settings));
    }

    /// Applies a change to share-partitions of a group that exist, and wakes the waiting fetches of those for which it
    /// returns true.
    fn change_shares(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        settings: &ShareSettings,
        mut change: impl FnMut(&mut SharePartition) -> bool,
    ) {
        let now = Instant::now();
        for partition in partitions {
            let Some(log) = self.share_partition_log(*partition) else { continue };
            let changed = {
                let mut shares = lock(&self.shares);
                if !shares.partitions.contains_key(&(group.to_owned(), *partition)) {
                    continue;
                }
                change(shares.current(group, *partition, &log.state(), settings, now))
            };
            if changed {
                log.wake();
            }
        }
    }

    /// Ends all acquisition locks of a group, as if their time had passed. Returns false if the group has never acquired
    /// records.
    pub(crate) fn expire_share_locks(&self, group: &str) -> bool {
        let of_group: Vec<TopicPartition> = {
            let shares = lock(&self.shares);
            shares.partitions.keys().filter(|(of, _)| of == group).map(|(_, partition)| *partition).collect()
        };
        let settings = self.share_settings(group);
        self.change_shares(group, &of_group, &settings, |share| share.expire_all(&settings));
        !of_group.is_empty()
    }

    /// Returns the number of bytes from the next record that a group can acquire to the end of the partition, or `None`
    /// if it cannot acquire any.
    pub(crate) fn acquirable_bytes(
        &self,
        group: &str,
        key: TopicPartition,
        partition: &Partition,
        settings: &ShareSettings,
    ) -> Option<usize> {
        let mut shares = lock(&self.shares);
        if !shares.is_initialized(group, key) {
            return None;
        }
        let log = partition.state();
        let share = shares.current(group, key, &log, settings, Instant::now());
        share.trim(log.log.start_offset(), log.log.next_offset());
        let from = acquire::next_acquirable(share, &log, settings)?;
        Some(log.log.bytes_between(from, acquire::readable_end(&log, settings)))
    }

    /// Acquires records of a partition for a member.
    pub(crate) fn acquire_records(
        &self,
        (group, member): (&str, &Arc<str>),
        key: TopicPartition,
        partition: &Partition,
        limits: Limits,
        settings: &ShareSettings,
    ) -> Acquired {
        let now = Instant::now();
        let acquired = {
            let mut shares = lock(&self.shares);
            if !shares.is_initialized(group, key) {
                return Acquired::default();
            }
            let log = partition.state();
            let share = shares.current(group, key, &log, settings, now);
            share.trim(log.log.start_offset(), log.log.next_offset());
            acquire::acquire(share, &log, member, limits, settings, now)
        };
        if !acquired.ranges.is_empty() {
            self.share_clock.notify_one();
        }
        acquired
    }

    /// Checks the acknowledgements of one partition, without applying them.
    pub(crate) fn check_acknowledgements(
        &self,
        (group, member): (&str, &Arc<str>),
        key: TopicPartition,
        partition: &Partition,
        acks: &[Acknowledgement],
        settings: &ShareSettings,
    ) -> Result<(), Rejection> {
        let mut shares = lock(&self.shares);
        let log = partition.state();
        shares.existing(group, key, &log, settings, Instant::now())?.check_all(member, acks, settings)
    }

    /// Applies the acknowledgements of one partition, all or none, and wakes the fetches that wait for it. As in Kafka,
    /// the state follows the start of the log only with the next fetch.
    pub(crate) fn acknowledge_records(
        &self,
        (group, member): (&str, &Arc<str>),
        key: TopicPartition,
        partition: &Partition,
        acks: &[Acknowledgement],
        settings: &ShareSettings,
    ) -> Result<(), Rejection> {
        let now = Instant::now();
        {
            let mut shares = lock(&self.shares);
            let log = partition.state();
            shares.existing(group, key, &log, settings, now)?.acknowledge(member, acks, now, settings)?;
        }
        partition.wake();
        self.share_clock.notify_one();
        Ok(())
    }

    /// Runs the timer task of acquisition locks; never returns.
    pub(crate) async fn run_share_clock(&self) {
        loop {
            let next = lock(&self.shares).next_deadline();
            let due = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => self.end_share_locks(),
                () = self.share_clock.notified() => (),
            }
        }
    }

    /// Ends the acquisition locks whose time has passed.
    fn end_share_locks(&self) {
        let now = Instant::now();
        let due: Vec<(String, TopicPartition)> = {
            let shares = lock(&self.shares);
            let is_due = |share: &SharePartition| share.next_deadline().is_some_and(|at| at <= now);
            shares.partitions.iter().filter(|(_, share)| is_due(share)).map(|(key, _)| key.clone()).collect()
        };
        for (group, partition) in due {
            let settings = self.share_settings(&group);
            // The records are released when the share-partition is brought up to date.
            self.change_shares(&group, &[partition], &settings, |_| true);
            if self.share_partition_log(partition).is_none() {
                lock(&self.shares).partitions.remove(&(group, partition));
            }
        }
    }
}
