//! Fetch sessions (KIP-227): a broker remembers what it was asked for, and gets only what has changed.

use std::collections::BTreeMap;

use samsarrow_wire::messages::FetchRequest;
use samsarrow_wire::messages::fetch::{FetchPartition, FetchTopic, ForgottenTopic};

use super::partition_request::{Asked, BY_ID};
use crate::types::TopicPartition;

/// From this version on there are sessions.
const SINCE: i16 = 7;
/// Asks for a session, and ends the one that is named.
const FIRST: i32 = 0;
/// Wants no session.
const NONE: i32 = -1;

/// The session with one broker.
#[derive(Debug, Default)]
pub(super) struct Session {
    id: i32,
    epoch: i32,
    /// It names topics by id. A session cannot change over (KIP-516).
    by_id: bool,
    /// Partitions in the broker's session, with their parameters.
    known: BTreeMap<TopicPartition, Asked>,
}

impl Session {
    /// Writes into `request` what the broker has to know to send what is `asked`.
    pub(super) fn fill(&self, request: &mut FetchRequest, version: i16, asked: &[Asked], partition_bytes: i32) {
        request.session_id = self.id;
        request.session_epoch = if version < SINCE { NONE } else { self.epoch_in(version) };
        let whole = version < SINCE || request.session_epoch == FIRST;
        let mut topics: Vec<FetchTopic> = Vec::new();
        // The order is kept: it is the one in which a broker fills its first answer.
        for one in asked.iter().filter(|one| whole || self.known.get(&one.tp) != Some(one)) {
            let same = |topic: &FetchTopic| topic.topic == *one.tp.topic && topic.topic_id == one.topic_id;
            if !topics.last().is_some_and(same) {
                let topic = one.tp.topic.to_string();
                topics.push(FetchTopic { topic, topic_id: one.topic_id, ..Default::default() });
            }
            if let Some(topic) = topics.last_mut() {
                topic.partitions.push(FetchPartition {
                    partition: one.tp.partition,
                    current_leader_epoch: one.leader_epoch,
                    fetch_offset: one.offset,
                    last_fetched_epoch: if version >= 12 { one.last_epoch } else { -1 },
                    partition_max_bytes: partition_bytes,
                    ..Default::default()
                });
            }
        }
        request.topics = topics;
        if !whole {
            request.forgotten_topics_data = self.forgotten(version, asked);
        }
    }

    /// The epoch of the next request.
    fn epoch_in(&self, version: i16) -> i32 {
        if self.by_id == (version >= BY_ID) { self.epoch } else { FIRST }
    }

    fn forgotten(&self, version: i16, asked: &[Asked]) -> Vec<ForgottenTopic> {
        let wanted: BTreeMap<&TopicPartition, &Asked> = asked.iter().map(|one| (&one.tp, one)).collect();
        let mut forgotten: Vec<ForgottenTopic> = Vec::new();
        for (tp, known) in &self.known {
            // A recreated topic has another id: the partition of the old id must be removed.
            let wanted = wanted.get(tp).is_some_and(|one| version < BY_ID || one.topic_id == known.topic_id);
            if wanted {
                continue;
            }
            let same = |topic: &ForgottenTopic| topic.topic == *tp.topic && topic.topic_id == known.topic_id;
            if !forgotten.last().is_some_and(same) {
                let topic = tp.topic.to_string();
                forgotten.push(ForgottenTopic { topic, topic_id: known.topic_id, ..Default::default() });
            }
            if let Some(topic) = forgotten.last_mut() {
                topic.partitions.push(tp.partition);
            }
        }
        forgotten
    }

    /// The broker has answered; it names the session that it keeps, or 0.
    pub(super) fn answered(&mut self, version: i16, id: i32, asked: &[Asked]) {
        if version < SINCE || id == 0 {
            *self = Session::default();
            return;
        }
        self.id = id;
        self.epoch = self.epoch_in(version).checked_add(1).unwrap_or(FIRST + 1);
        self.by_id = version >= BY_ID;
        self.known = asked.iter().map(|one| (one.tp.clone(), one.clone())).collect();
    }

    /// Returns true if the broker has the session, as far as known.
    pub(super) fn is_open(&self) -> bool {
        self.epoch != FIRST
    }

    /// Starts a new session with the next request, which also closes the old one.
    pub(super) fn reset(&mut self) {
        self.epoch = FIRST;
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use samsarrow_wire::messages::Uuid;

    fn asked(topic: &str, partition: i32, offset: i64) -> Asked {
        let topic_id = Uuid([topic.len() as u8; 16]);
        Asked { topic_id, ..Asked::new(TopicPartition::new(topic, partition), 1, offset) }
    }

    /// Session id and epoch, what is sent, what is to be forgotten.
    type Told = (i32, i32, Vec<(String, i32, i64)>, Vec<(String, i32)>);

    fn ask(session: &Session, version: i16, asked: &[Asked]) -> Told {
        let mut request = FetchRequest::default();
        session.fill(&mut request, version, asked, 9);
        let told = request.topics.iter().flat_map(|t| {
            t.partitions.iter().map(|p| (t.topic.clone(), p.partition, p.fetch_offset)).collect::<Vec<_>>()
        });
        let forgotten = request
            .forgotten_topics_data
            .iter()
            .flat_map(|t| t.partitions.iter().map(|p| (t.topic.clone(), *p)).collect::<Vec<_>>());
        (request.session_id, request.session_epoch, told.collect(), forgotten.collect())
    }

    #[test]
    fn a_session_tells_only_what_has_changed() {
        let mut session = Session::default();
        let all = [asked("a", 0, 5), asked("a", 1, 6), asked("bb", 0, 7)];
        let every = |all: &[Asked]| all.iter().map(|a| (a.tp.topic.to_string(), a.tp.partition, a.offset)).collect();
        assert_eq!(ask(&session, 13, &all), (0, 0, every(&all), vec![]));
        session.answered(13, 42, &all);
        assert_eq!(ask(&session, 13, &all), (42, 1, vec![], vec![]));
        session.answered(13, 42, &all);
        let next = [asked("a", 1, 8), asked("ccc", 3, 0), asked("bb", 0, 7)];
        let told = vec![("a".into(), 1, 8), ("ccc".into(), 3, 0)];
        assert_eq!(ask(&session, 13, &next), (42, 2, told, vec![("a".into(), 0)]));
        session.reset();
        // Names the old session, so that the broker closes it.
        assert_eq!(ask(&session, 13, &next), (42, 0, every(&next), vec![]));
    }

    #[test]
    fn a_topic_made_anew_is_another_one() {
        let mut session = Session::default();
        let old = [asked("a", 0, 5)];
        session.answered(13, 42, &old);
        let new = [Asked { topic_id: Uuid([9; 16]), ..asked("a", 0, 5) }];
        assert_eq!(ask(&session, 13, &new), (42, 1, vec![("a".into(), 0, 5)], vec![("a".into(), 0)]));
    }

    #[test]
    fn a_session_that_names_topics_otherwise_is_another_one() {
        let mut session = Session::default();
        let all = [asked("a", 0, 5)];
        session.answered(13, 42, &all);
        assert_eq!(ask(&session, 12, &all), (42, 0, vec![("a".into(), 0, 5)], vec![]));
        session.answered(12, 43, &all);
        assert_eq!(ask(&session, 12, &all), (43, 1, vec![], vec![]));
        assert_eq!(ask(&session, 13, &all), (43, 0, vec![("a".into(), 0, 5)], vec![]));
    }

    #[test]
    fn brokers_without_sessions_are_told_everything() {
        let mut session = Session::default();
        let all = [asked("a", 0, 5)];
        assert_eq!(ask(&session, 6, &all).1, -1);
        session.answered(6, 0, &all);
        session.answered(12, 0, &all);
        assert_eq!(ask(&session, 12, &all), (0, 0, vec![("a".into(), 0, 5)], vec![]));
    }

    #[test]
    fn epochs_start_again_at_one() {
        let mut session = Session { id: 1, epoch: i32::MAX, by_id: false, known: BTreeMap::new() };
        session.answered(12, 1, &[]);
        assert_eq!(session.epoch, 1);
    }
}
