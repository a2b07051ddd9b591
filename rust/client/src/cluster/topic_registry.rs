//! Registry of topics whose metadata the client requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::metadata::Metadata;

/// User of topics, such as a consumer or producer. Every refresh includes the user's topics until the user is dropped.
pub(crate) trait TopicUser: Send + Sync {
    /// Returns the topics currently in use.
    fn topics_in_use(&self) -> Vec<Arc<str>>;
}

/// Purpose of a request for a topic's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Lookup only: the request creates no topic.
    Look,
    /// Consuming or producing: the request may auto-create a topic that brokers have never reported.
    Use,
    /// Records wait to be sent to the topic: the request may also auto-create a topic that was deleted.
    Write,
}

#[derive(Debug)]
struct Topic {
    /// Time at which the topic was last used.
    used: Instant,
    /// Set once brokers have reported the topic.
    ///
    /// A request may auto-create only topics that were never reported. A deleted topic stays deleted until a record is
    /// written to it.
    reported: bool,
    /// Set once the topic was requested for consuming or producing, and not only looked up.
    in_use: bool,
    /// Set while a caller waits for a response about the topic.
    awaited: bool,
    /// Set while a record waits for the topic. The topic may then be auto-created again.
    written_to: bool,
}

impl Topic {
    fn new(used: Instant, reported: bool, in_use: bool) -> Self {
        Self { used, reported, in_use, awaited: false, written_to: false }
    }

    /// Returns true if a request may auto-create the topic.
    fn may_be_created(&self) -> bool {
        self.in_use && !self.reported || self.written_to
    }
}

/// Topics and their users.
#[derive(Default)]
pub(super) struct TopicRegistry {
    topics: BTreeMap<String, Topic>,
    /// Topics of a group member's subscription, which are kept until the subscription changes.
    subscribed: BTreeSet<String>,
    users: Vec<Weak<dyn TopicUser>>,
}

/// Topics to request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TopicNames {
    pub(super) create: BTreeSet<String>,
    pub(super) existing: BTreeSet<String>,
}

impl TopicNames {
    fn add(&mut self, name: &str, create: bool) {
        let list = if create { &mut self.create } else { &mut self.existing };
        list.insert(name.to_owned());
    }

    /// Returns true if any of `names` is included.
    pub(super) fn any_of(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.create.contains(*name) || self.existing.contains(*name))
    }
}

impl TopicRegistry {
    /// Registers topics whose metadata a caller waits for.
    pub(super) fn mark_awaited(&mut self, names: &[&str], purpose: Purpose) {
        let now = Instant::now();
        for name in names {
            let topic = self.topics.entry((*name).to_owned()).or_insert_with(|| Topic::new(now, false, false));
            topic.used = now;
            topic.awaited = true;
            topic.in_use |= purpose != Purpose::Look;
            topic.written_to |= purpose == Purpose::Write;
        }
    }

    /// Marks registered topics as used.
    pub(super) fn touch(&mut self, names: &[&str]) {
        let now = Instant::now();
        for name in names {
            if let Some(topic) = self.topics.get_mut(*name) {
                topic.used = now;
            }
        }
    }

    /// Replaces the topics of a group member's subscription.
    pub(super) fn subscribe(&mut self, names: &BTreeSet<String>) {
        self.subscribed.clone_from(names);
    }

    /// Returns true if a request may auto-create the topic.
    pub(super) fn may_appear(&self, name: &str) -> bool {
        self.topics.get(name).is_some_and(Topic::may_be_created)
    }

    /// Adds a user, whose topics every refresh then includes.
    pub(super) fn add_user(&mut self, user: Weak<dyn TopicUser>) {
        self.users.retain(|user| user.strong_count() > 0);
        self.users.push(user);
    }

    /// Returns the current users. `topics_in_use` must be called without the registry's lock, because users have locks
    /// of their own.
    pub(super) fn users(&self) -> Vec<Arc<dyn TopicUser>> {
        self.users.iter().filter_map(Weak::upgrade).collect()
    }

    /// Takes the topics that callers wait for, so that each is requested only once.
    pub(super) fn take_awaited(&mut self) -> TopicNames {
        let mut names = TopicNames::default();
        for (name, topic) in self.topics.iter_mut().filter(|(_, topic)| topic.awaited) {
            topic.awaited = false;
            names.add(name, topic.may_be_created());
        }
        names
    }

    /// Returns all topics to request, and the topics that were not used for `max_idle`, which are removed from the
    /// registry.
    pub(super) fn take_all(&mut self, in_use: &[Arc<str>], max_idle: Duration) -> (TopicNames, Vec<String>) {
        let now = Instant::now();
        for name in in_use {
            match self.topics.get_mut(&**name) {
                Some(topic) => topic.used = now,
                None => {
                    self.topics.insert(name.to_string(), Topic::new(now, true, true));
                }
            }
        }
        for name in &self.subscribed {
            match self.topics.get_mut(name) {
                Some(topic) => (topic.used, topic.in_use) = (now, true),
                None => {
                    self.topics.insert(name.clone(), Topic::new(now, false, true));
                }
            }
        }
        let idle = |topic: &Topic| !topic.awaited && now.saturating_duration_since(topic.used) > max_idle;
        let forgotten: Vec<String> =
            self.topics.iter().filter(|(_, topic)| idle(topic)).map(|(name, _)| name.clone()).collect();
        for name in &forgotten {
            self.topics.remove(name);
        }
        let mut names = TopicNames::default();
        for (name, topic) in &mut self.topics {
            topic.awaited = false;
            names.add(name, topic.may_be_created());
        }
        (names, forgotten)
    }

    /// Records the topics that a response has reported. `requested` is `None` if the request was for all topics.
    pub(super) fn mark_reported(&mut self, metadata: &Metadata, requested: Option<&BTreeSet<String>>) {
        for (name, topic) in &mut self.topics {
            if requested.is_none_or(|requested| requested.contains(name)) && metadata.topic(name).is_some() {
                (topic.reported, topic.awaited, topic.written_to) = (true, false, false);
            }
        }
    }

    /// Unregisters topics that were never reported, so that they are not requested with every refresh.
    ///
    /// A topic that was reported before is kept until it is idle, because the next request would auto-create it if it
    /// were removed.
    pub(super) fn forget(&mut self, names: &[&str]) {
        for name in names.iter().filter(|name| !self.subscribed.contains(**name)) {
            if self.topics.get(*name).is_some_and(|topic| !topic.reported) {
                self.topics.remove(*name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Reader(Vec<Arc<str>>);

    impl TopicUser for Reader {
        fn topics_in_use(&self) -> Vec<Arc<str>> {
            self.0.clone()
        }
    }

    fn names(create: &[&str], existing: &[&str]) -> TopicNames {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        TopicNames { create: set(create), existing: set(existing) }
    }

    fn mark_all_reported(registry: &mut TopicRegistry) {
        registry.topics.values_mut().for_each(|topic| (topic.reported, topic.written_to) = (true, false));
    }

    #[test]
    fn reported_topics_are_recreated_only_for_writers() {
        let mut registry = TopicRegistry::default();
        registry.mark_awaited(&["a", "b"], Purpose::Use);
        assert_eq!(registry.take_awaited(), names(&["a", "b"], &[]));
        assert_eq!(registry.take_awaited(), TopicNames::default());
        mark_all_reported(&mut registry);
        registry.mark_awaited(&["a"], Purpose::Use);
        assert!(!registry.may_appear("a"));
        assert_eq!(registry.take_awaited(), names(&[], &["a"]));
        registry.mark_awaited(&["b"], Purpose::Write);
        assert!(registry.may_appear("b"));
        assert_eq!(registry.take_awaited(), names(&["b"], &[]));
        assert_eq!(registry.take_all(&[], Duration::MAX).0, names(&["b"], &["a"]));
        registry.mark_awaited(&["never"], Purpose::Use);
        registry.forget(&["a", "never"]);
        assert_eq!(registry.take_all(&[], Duration::MAX).0, names(&["b"], &["a"]));
        registry.mark_awaited(&["a"], Purpose::Use);
        assert_eq!(registry.take_awaited(), names(&[], &["a"]));
    }

    #[test]
    fn look_ups_create_no_topic() {
        let mut registry = TopicRegistry::default();
        registry.mark_awaited(&["a"], Purpose::Look);
        assert!(!registry.may_appear("a"));
        assert_eq!(registry.take_awaited(), names(&[], &["a"]));
        assert_eq!(registry.take_all(&[], Duration::MAX).0, names(&[], &["a"]));
        registry.mark_awaited(&["a"], Purpose::Use);
        assert_eq!(registry.take_awaited(), names(&["a"], &[]));
        registry.mark_awaited(&["a"], Purpose::Look);
        assert_eq!(registry.take_awaited(), names(&["a"], &[]), "another caller uses it");
    }

    #[test]
    fn idle_topics_are_removed() {
        let mut registry = TopicRegistry::default();
        let reader: Arc<dyn TopicUser> = Arc::new(Reader(vec!["read".into()]));
        registry.add_user(Arc::downgrade(&reader));
        registry.subscribe(&BTreeSet::from(["subscribed".to_owned()]));
        registry.mark_awaited(&["read", "subscribed", "idle", "touched"], Purpose::Use);
        registry.take_awaited();
        mark_all_reported(&mut registry);
        std::thread::sleep(Duration::from_millis(600));
        registry.touch(&["touched", "unknown"]);
        let in_use = registry.users().iter().flat_map(|user| user.topics_in_use()).collect::<Vec<_>>();
        let (remaining, forgotten) = registry.take_all(&in_use, Duration::from_millis(500));
        assert_eq!(remaining, names(&[], &["read", "subscribed", "touched"]));
        assert_eq!(forgotten, ["idle"]);
        drop(reader);
        assert!(registry.users().is_empty());
        registry.subscribe(&BTreeSet::new());
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(registry.take_all(&[], Duration::from_millis(10)).1, ["read", "subscribed", "touched"]);
    }
}
