//! Which topics metadata is asked for, by whom, and for how long.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::cluster::metadata::Metadata;

/// Someone who works with topics for as long as it lives: they are asked for at every refresh.
pub(crate) trait TopicUser: Send + Sync {
    /// What it works with now.
    fn topics_in_use(&self) -> Vec<Arc<str>>;
}

/// Why a topic is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To know about it: this creates no topic.
    Look,
    /// To read or write it: one that was never seen may be created.
    Use,
    /// To write records that wait: one that was deleted may be created again.
    Write,
}

/// A topic that somebody asked for.
#[derive(Debug)]
struct Topic {
    /// When somebody did so last.
    used: Instant,
    /// Whether brokers have named it. Only a topic that was never seen may be created by asking for it: one that was
    /// deleted stays deleted, until somebody writes to it.
    seen: bool,
    /// It is asked for to be read or written, not only to know about it.
    in_use: bool,
    /// Somebody waits for an answer about it.
    awaited: bool,
    /// A record waits for it, so it may be created again.
    written_to: bool,
}

impl Topic {
    fn new(used: Instant, seen: bool, in_use: bool) -> Self {
        Self { used, seen, in_use, awaited: false, written_to: false }
    }

    /// Returns whether asking for it may create it.
    fn may_be_created(&self) -> bool {
        self.in_use && !self.seen || self.written_to
    }
}

/// Topics and those who use them.
#[derive(Default)]
pub(super) struct Interest {
    topics: BTreeMap<String, Topic>,
    /// What a member of a group has subscribed to: kept until it subscribes to something else.
    subscribed: BTreeSet<String>,
    users: Vec<Weak<dyn TopicUser>>,
}

/// Names to ask for, by whether asking may create them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) create: BTreeSet<String>,
    pub(super) look: BTreeSet<String>,
}

impl Names {
    fn add(&mut self, name: &str, create: bool) {
        let list = if create { &mut self.create } else { &mut self.look };
        list.insert(name.to_owned());
    }

    /// Whether one of them is asked for.
    pub(super) fn any_of(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.create.contains(*name) || self.look.contains(*name))
    }
}

impl Interest {
    /// Somebody waits for an answer about these topics.
    pub(super) fn await_answer(&mut self, names: &[&str], purpose: Purpose) {
        let now = Instant::now();
        for name in names {
            let topic = self.topics.entry((*name).to_owned()).or_insert_with(|| Topic::new(now, false, false));
            topic.used = now;
            topic.awaited = true;
            topic.in_use |= purpose != Purpose::Look;
            topic.written_to |= purpose == Purpose::Write;
        }
    }

    /// Somebody used these topics, and needs no answer.
    pub(super) fn touch(&mut self, names: &[&str]) {
        let now = Instant::now();
        for name in names {
            if let Some(topic) = self.topics.get_mut(*name) {
                topic.used = now;
            }
        }
    }

    /// A member's subscription; the one before is of the past.
    pub(super) fn subscribe(&mut self, names: &BTreeSet<String>) {
        self.subscribed.clone_from(names);
    }

    /// Whether a topic may still come to be because it was asked for.
    pub(super) fn may_appear(&self, name: &str) -> bool {
        self.topics.get(name).is_some_and(Topic::may_be_created)
    }

    /// Keeps the topics of one more user.
    pub(super) fn keep(&mut self, user: Weak<dyn TopicUser>) {
        self.users.retain(|user| user.strong_count() > 0);
        self.users.push(user);
    }

    /// Those who work with topics now, to be asked without the lock of this: they have locks of their own.
    pub(super) fn users(&self) -> Vec<Arc<dyn TopicUser>> {
        self.users.iter().filter_map(Weak::upgrade).collect()
    }

    /// The topics that somebody waits for; nobody else asks for them meanwhile.
    pub(super) fn take_awaited(&mut self) -> Names {
        let mut names = Names::default();
        for (name, topic) in self.topics.iter_mut().filter(|(_, topic)| topic.awaited) {
            topic.awaited = false;
            names.add(name, topic.may_be_created());
        }
        names
    }

    /// All topics to ask for now, and those that nobody has used for `max_idle`, which are forgotten.
    pub(super) fn take_all(&mut self, in_use: &[Arc<str>], max_idle: Duration) -> (Names, Vec<String>) {
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
        let mut names = Names::default();
        for (name, topic) in &mut self.topics {
            topic.awaited = false;
            names.add(name, topic.may_be_created());
        }
        (names, forgotten)
    }

    /// Learns from an answer which of the topics that were asked for there are; all were without a list.
    pub(super) fn learn(&mut self, metadata: &Metadata, asked: Option<&BTreeSet<String>>) {
        for (name, topic) in &mut self.topics {
            if asked.is_none_or(|asked| asked.contains(name)) && metadata.topic(name).is_some() {
                (topic.seen, topic.awaited, topic.written_to) = (true, false, false);
            }
        }
    }

    /// A topic that is not there must not be asked for again with every refresh. One that was there is remembered for a
    /// while: forgotten, it would be created by anyone who asks next.
    pub(super) fn forget(&mut self, names: &[&str]) {
        for name in names.iter().filter(|name| !self.subscribed.contains(**name)) {
            if self.topics.get(*name).is_some_and(|topic| !topic.seen) {
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

    fn names(create: &[&str], look: &[&str]) -> Names {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Names { create: set(create), look: set(look) }
    }

    fn see(interest: &mut Interest) {
        interest.topics.values_mut().for_each(|topic| (topic.seen, topic.written_to) = (true, false));
    }

    #[test]
    fn what_was_seen_is_created_again_only_for_those_who_write() {
        let mut interest = Interest::default();
        interest.await_answer(&["a", "b"], Purpose::Use);
        assert_eq!(interest.take_awaited(), names(&["a", "b"], &[]));
        assert_eq!(interest.take_awaited(), Names::default());
        see(&mut interest);
        interest.await_answer(&["a"], Purpose::Use);
        assert!(!interest.may_appear("a"));
        assert_eq!(interest.take_awaited(), names(&[], &["a"]));
        interest.await_answer(&["b"], Purpose::Write);
        assert!(interest.may_appear("b"));
        assert_eq!(interest.take_awaited(), names(&["b"], &[]));
        assert_eq!(interest.take_all(&[], Duration::MAX).0, names(&["b"], &["a"]));
        interest.await_answer(&["never"], Purpose::Use);
        interest.forget(&["a", "never"]);
        assert_eq!(interest.take_all(&[], Duration::MAX).0, names(&["b"], &["a"]));
        interest.await_answer(&["a"], Purpose::Use);
        assert_eq!(interest.take_awaited(), names(&[], &["a"]));
    }

    #[test]
    fn a_look_creates_no_topic() {
        let mut interest = Interest::default();
        interest.await_answer(&["a"], Purpose::Look);
        assert!(!interest.may_appear("a"));
        assert_eq!(interest.take_awaited(), names(&[], &["a"]));
        assert_eq!(interest.take_all(&[], Duration::MAX).0, names(&[], &["a"]));
        interest.await_answer(&["a"], Purpose::Use);
        assert_eq!(interest.take_awaited(), names(&["a"], &[]));
        interest.await_answer(&["a"], Purpose::Look);
        assert_eq!(interest.take_awaited(), names(&["a"], &[]), "somebody else uses it");
    }

    #[test]
    fn what_nobody_uses_is_forgotten() {
        let mut interest = Interest::default();
        let reader: Arc<dyn TopicUser> = Arc::new(Reader(vec!["read".into()]));
        interest.keep(Arc::downgrade(&reader));
        interest.subscribe(&BTreeSet::from(["subscribed".to_owned()]));
        interest.await_answer(&["read", "subscribed", "idle", "touched"], Purpose::Use);
        interest.take_awaited();
        see(&mut interest);
        std::thread::sleep(Duration::from_millis(600));
        interest.touch(&["touched", "unknown"]);
        let in_use = interest.users().iter().flat_map(|user| user.topics_in_use()).collect::<Vec<_>>();
        let (left, forgotten) = interest.take_all(&in_use, Duration::from_millis(500));
        assert_eq!(left, names(&[], &["read", "subscribed", "touched"]));
        assert_eq!(forgotten, ["idle"]);
        drop(reader);
        assert!(interest.users().is_empty());
        interest.subscribe(&BTreeSet::new());
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(interest.take_all(&[], Duration::from_millis(10)).1, ["read", "subscribed", "touched"]);
    }
}
