//! Fetch sessions (KIP-227): a broker remembers the partitions of a session, so that each request contains only the
//! changes.

use std::collections::BTreeMap;

use samsarrow_wire::messages::FetchRequest;
use samsarrow_wire::messages::fetch::{FetchPartition, FetchTopic, ForgottenTopic};

use super::partition_request::{FetchPartitionRequest, TOPIC_IDS_VERSION};
use crate::types::TopicPartition;

/// First version of Fetch that supports sessions.
const FIRST_SESSION_VERSION: i16 = 7;
/// Session epoch of a request that starts a new session and closes the old one.
const INITIAL_EPOCH: i32 = 0;
/// Session epoch of a request that uses no session.
const SESSIONLESS_EPOCH: i32 = -1;

/// Fetch session with one broker.
#[derive(Debug, Default)]
pub(super) struct Session {
    id: i32,
    epoch: i32,
    /// True if the session uses topic ids. A session cannot change between names and ids (KIP-516).
    by_id: bool,
    /// Partitions that the broker has in the session, with their parameters.
    partitions: BTreeMap<TopicPartition, FetchPartitionRequest>,
}

impl Session {
    /// Fills the session fields of `request`, and adds the partitions in `requests` that the broker does not already
    /// have in the session.
    pub(super) fn fill(
        &self,
        request: &mut FetchRequest,
        version: i16,
        requests: &[FetchPartitionRequest],
        partition_bytes: i32,
    ) {
        request.session_id = self.id;
        request.session_epoch =
            if version < FIRST_SESSION_VERSION { SESSIONLESS_EPOCH } else { self.epoch_in(version) };
        let full = version < FIRST_SESSION_VERSION || request.session_epoch == INITIAL_EPOCH;
        let mut topics: Vec<FetchTopic> = Vec::new();
        // The order is kept, because a broker fills the first response of a session in this order.
        for partition in
            requests.iter().filter(|partition| full || self.partitions.get(&partition.tp) != Some(partition))
        {
            let is_same_topic =
                |topic: &FetchTopic| topic.topic == *partition.tp.topic && topic.topic_id == partition.topic_id;
            if !topics.last().is_some_and(is_same_topic) {
                let topic = partition.tp.topic.to_string();
                topics.push(FetchTopic { topic, topic_id: partition.topic_id, ..Default::default() });
            }
            if let Some(topic) = topics.last_mut() {
                topic.partitions.push(FetchPartition {
                    partition: partition.tp.partition,
                    current_leader_epoch: partition.leader_epoch,
                    fetch_offset: partition.offset,
                    last_fetched_epoch: if version >= 12 { partition.last_epoch } else { -1 },
                    partition_max_bytes: partition_bytes,
                    ..Default::default()
                });
            }
        }
        request.topics = topics;
        if !full {
            request.forgotten_topics_data = self.forgotten(version, requests);
        }
    }

    /// Returns the session epoch of the next request.
    fn epoch_in(&self, version: i16) -> i32 {
        if self.by_id == (version >= TOPIC_IDS_VERSION) { self.epoch } else { INITIAL_EPOCH }
    }

    fn forgotten(&self, version: i16, requests: &[FetchPartitionRequest]) -> Vec<ForgottenTopic> {
        let requested: BTreeMap<&TopicPartition, &FetchPartitionRequest> =
            requests.iter().map(|partition| (&partition.tp, partition)).collect();
        let mut forgotten: Vec<ForgottenTopic> = Vec::new();
        for (tp, sent) in &self.partitions {
            // If a topic was recreated with another id, the partition with the old id must be removed.
            let requested = requested
                .get(tp)
                .is_some_and(|partition| version < TOPIC_IDS_VERSION || partition.topic_id == sent.topic_id);
            if requested {
                continue;
            }
            let is_same_topic = |topic: &ForgottenTopic| topic.topic == *tp.topic && topic.topic_id == sent.topic_id;
            if !forgotten.last().is_some_and(is_same_topic) {
                let topic = tp.topic.to_string();
                forgotten.push(ForgottenTopic { topic, topic_id: sent.topic_id, ..Default::default() });
            }
            if let Some(topic) = forgotten.last_mut() {
                topic.partitions.push(tp.partition);
            }
        }
        forgotten
    }

    /// Records a response. `id` is the id of the session that the broker keeps, or 0 if it keeps none.
    pub(super) fn record_response(&mut self, version: i16, id: i32, requests: &[FetchPartitionRequest]) {
        if version < FIRST_SESSION_VERSION || id == 0 {
            *self = Session::default();
            return;
        }
        self.id = id;
        self.epoch = self.epoch_in(version).checked_add(1).unwrap_or(INITIAL_EPOCH + 1);
        self.by_id = version >= TOPIC_IDS_VERSION;
        self.partitions = requests.iter().map(|partition| (partition.tp.clone(), partition.clone())).collect();
    }

    /// Returns true if the broker has the session, as far as the client knows.
    pub(super) fn is_open(&self) -> bool {
        self.epoch != INITIAL_EPOCH
    }

    /// Makes the next request start a new session, which also closes the old one.
    pub(super) fn reset(&mut self) {
        self.epoch = INITIAL_EPOCH;
        self.partitions.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use samsarrow_wire::messages::Uuid;

    fn request(topic: &str, partition: i32, offset: i64) -> FetchPartitionRequest {
        let topic_id = Uuid([topic.len() as u8; 16]);
        FetchPartitionRequest {
            topic_id,
            ..FetchPartitionRequest::new(TopicPartition::new(topic, partition), 1, offset)
        }
    }

    /// Session id, session epoch, sent partitions, and forgotten partitions.
    type SentRequest = (i32, i32, Vec<(String, i32, i64)>, Vec<(String, i32)>);

    fn send(session: &Session, version: i16, requests: &[FetchPartitionRequest]) -> SentRequest {
        let mut request = FetchRequest::default();
        session.fill(&mut request, version, requests, 9);
        let sent = request.topics.iter().flat_map(|t| {
            t.partitions.iter().map(|p| (t.topic.clone(), p.partition, p.fetch_offset)).collect::<Vec<_>>()
        });
        let forgotten = request
            .forgotten_topics_data
            .iter()
            .flat_map(|t| t.partitions.iter().map(|p| (t.topic.clone(), *p)).collect::<Vec<_>>());
        (request.session_id, request.session_epoch, sent.collect(), forgotten.collect())
    }

    #[test]
    fn sends_only_changed_partitions() {
        let mut session = Session::default();
        let all = [request("a", 0, 5), request("a", 1, 6), request("bb", 0, 7)];
        let all_of = |all: &[FetchPartitionRequest]| {
            all.iter().map(|a| (a.tp.topic.to_string(), a.tp.partition, a.offset)).collect()
        };
        assert_eq!(send(&session, 13, &all), (0, 0, all_of(&all), vec![]));
        session.record_response(13, 42, &all);
        assert_eq!(send(&session, 13, &all), (42, 1, vec![], vec![]));
        session.record_response(13, 42, &all);
        let next = [request("a", 1, 8), request("ccc", 3, 0), request("bb", 0, 7)];
        let sent = vec![("a".into(), 1, 8), ("ccc".into(), 3, 0)];
        assert_eq!(send(&session, 13, &next), (42, 2, sent, vec![("a".into(), 0)]));
        session.reset();
        // The request contains the id of the old session, so that the broker closes it.
        assert_eq!(send(&session, 13, &next), (42, 0, all_of(&next), vec![]));
    }

    #[test]
    fn recreated_topic_is_a_different_topic() {
        let mut session = Session::default();
        let old = [request("a", 0, 5)];
        session.record_response(13, 42, &old);
        let new = [FetchPartitionRequest { topic_id: Uuid([9; 16]), ..request("a", 0, 5) }];
        assert_eq!(send(&session, 13, &new), (42, 1, vec![("a".into(), 0, 5)], vec![("a".into(), 0)]));
    }

    #[test]
    fn switching_to_topic_ids_starts_a_new_session() {
        let mut session = Session::default();
        let all = [request("a", 0, 5)];
        session.record_response(13, 42, &all);
        assert_eq!(send(&session, 12, &all), (42, 0, vec![("a".into(), 0, 5)], vec![]));
        session.record_response(12, 43, &all);
        assert_eq!(send(&session, 12, &all), (43, 1, vec![], vec![]));
        assert_eq!(send(&session, 13, &all), (43, 0, vec![("a".into(), 0, 5)], vec![]));
    }

    #[test]
    fn sends_everything_without_a_session() {
        let mut session = Session::default();
        let all = [request("a", 0, 5)];
        assert_eq!(send(&session, 6, &all).1, -1);
        session.record_response(6, 0, &all);
        session.record_response(12, 0, &all);
        assert_eq!(send(&session, 12, &all), (0, 0, vec![("a".into(), 0, 5)], vec![]));
    }

    #[test]
    fn epoch_wraps_to_one() {
        let mut session = Session { id: 1, epoch: i32::MAX, by_id: false, partitions: BTreeMap::new() };
        session.record_response(12, 1, &[]);
        assert_eq!(session.epoch, 1);
    }
}
