//! Members of a share group and their assignment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::state::groups::consumer::{Catalog, Partitions, TopicIndex};

/// A member of a share group.
#[derive(Debug, Clone)]
pub(crate) struct ShareMember {
    pub(crate) id: String,
    pub(crate) epoch: i32,
    pub(super) previous_epoch: i32,
    pub(crate) rack_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) topics: BTreeSet<String>,
    pub(crate) assigned: Partitions,
    pub(super) expires: Instant,
}

/// Members and assignment of a share group. Members take over a new assignment at once, because partitions are shared
/// and nothing is revoked.
#[derive(Debug)]
pub(crate) struct ShareMembers {
    /// Group epoch, bumped when members, subscriptions or topics change.
    epoch: i32,
    /// Members in the order in which they joined.
    pub(super) members: Vec<ShareMember>,
    /// Subscribed topics that existed at the last bump of the group epoch.
    subscribed_topics: TopicIndex,
    since: Instant,
}

impl ShareMembers {
    /// Name of the only assignor.
    pub(crate) const ASSIGNOR: &str = "simple";

    pub(crate) fn new(now: Instant) -> Self {
        ShareMembers { epoch: 0, members: Vec::new(), subscribed_topics: TopicIndex::new(), since: now }
    }

    pub(crate) fn epoch(&self) -> i32 {
        self.epoch
    }

    pub(crate) fn members(&self) -> &[ShareMember] {
        &self.members
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Returns Kafka's name of the state.
    pub(crate) fn state(&self) -> &'static str {
        if self.members.is_empty() { "Empty" } else { "Stable" }
    }

    pub(crate) fn reads(&self, topic: &str) -> bool {
        self.subscribed_topics.contains_key(topic)
    }

    pub(super) fn find(&mut self, id: &str) -> Option<&mut ShareMember> {
        self.members.iter_mut().find(|member| member.id == id)
    }

    /// Bumps the group epoch and assigns the partitions again, if `changed` or if subscribed topics have changed.
    pub(super) fn refresh(&mut self, catalog: &Catalog, changed: bool) {
        let is_read = |name: &String| self.members.iter().any(|member| member.topics.contains(name));
        let read = catalog.0.iter().filter(|(name, _)| is_read(name));
        let topics: TopicIndex = read.map(|(name, topic)| (name.clone(), *topic)).collect();
        if !changed && topics == self.subscribed_topics {
            return;
        }
        self.subscribed_topics = topics;
        self.bump();
    }

    fn bump(&mut self) {
        self.epoch = self.epoch.wrapping_add(1).max(1);
        let mut assigned = self.assign();
        for member in &mut self.members {
            member.assigned = assigned.remove(&member.id).unwrap_or_default();
        }
    }

    /// Computes the assignment of Kafka's `SimpleAssignor`: each partition has at least one member, and each member at
    /// least one partition of each of its topics.
    fn assign(&self) -> BTreeMap<String, Partitions> {
        let mut assigned: BTreeMap<String, Partitions> = BTreeMap::new();
        for (name, (id, partitions)) in &self.subscribed_topics {
            let readers: Vec<_> = self.members.iter().filter(|member| member.topics.contains(name)).collect();
            let count = usize::try_from(*partitions).unwrap_or_default();
            if count == 0 {
                continue;
            }
            let pairs = readers.iter().cycle().zip((0..*partitions).cycle());
            for (member, partition) in pairs.take(count.max(readers.len())) {
                assigned.entry(member.id.clone()).or_default().insert((*id, partition));
            }
        }
        assigned
    }

    /// Removes a member. Its locks and share sessions stay, as in Kafka.
    pub(super) fn remove(&mut self, id: &str, now: Instant) {
        self.members.retain(|member| member.id != id);
        self.subscribed_topics.retain(|topic, _| self.members.iter().any(|member| member.topics.contains(topic)));
        self.bump();
        if self.members.is_empty() {
            self.since = now;
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.members.iter().map(|member| member.expires).min()
    }

    /// Removes the members whose session has expired.
    pub(crate) fn tick(&mut self, now: Instant) {
        let late: Vec<String> =
            self.members.iter().filter(|member| member.expires <= now).map(|member| member.id.clone()).collect();
        for id in late {
            self.remove(&id, now);
        }
    }

    /// Moves the group to another coordinator. It keeps the whole state, but timeouts start again.
    pub(crate) fn reload(&mut self, now: Instant, session_timeout: Duration) {
        for member in &mut self.members {
            member.expires = now + session_timeout;
        }
    }
}
