//! Fetch sessions (KIP-227). The broker stores the partitions of each session, so that a request contains only changes.

use std::sync::Mutex;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::fetch::{FetchPartition, FetchTopic};
use samsarrow_wire::messages::{FetchRequest, Uuid};
use samsarrow_wire::sync::lock;

use crate::collections::HashMap;

/// First Fetch version with sessions.
const FIRST_WITH_SESSIONS: i16 = 7;
/// Session epoch that requests a new session. The session named in the request ends.
const INITIAL_EPOCH: i32 = 0;
/// Session epoch that requests a response without a session. The session named in the request ends.
const FINAL_EPOCH: i32 = -1;

#[derive(Debug)]
struct SessionPartition {
    topic: String,
    id: Uuid,
    partition: FetchPartition,
}

impl SessionPartition {
    fn matches(&self, topic: &str, id: Uuid, partition: i32) -> bool {
        self.partition.partition == partition && self.id == id && self.topic == topic
    }
}

#[derive(Debug)]
struct Session {
    node: i32,
    /// Session epoch that the next request must have.
    epoch: i32,
    /// Partitions of the session, in the order in which responses list them.
    partitions: Vec<SessionPartition>,
}

impl Session {
    /// Moves the requested partitions to the end of the session, or adds them there. Partitions that were just read
    /// therefore come after the others.
    fn update(&mut self, topics: Vec<FetchTopic>) {
        for FetchTopic { topic, topic_id: id, partitions, .. } in topics {
            for partition in partitions {
                self.partitions.retain(|entry| !entry.matches(&topic, id, partition.partition));
                self.partitions.push(SessionPartition { topic: topic.clone(), id, partition });
            }
        }
    }

    /// Returns all partitions of the session in the format of a full Fetch request.
    fn topics(&self) -> Vec<FetchTopic> {
        let mut topics: Vec<FetchTopic> = Vec::new();
        for entry in &self.partitions {
            if !topics.last().is_some_and(|last| last.topic == entry.topic && last.topic_id == entry.id) {
                topics.push(FetchTopic { topic: entry.topic.clone(), topic_id: entry.id, ..FetchTopic::default() });
            }
            if let Some(topic) = topics.last_mut() {
                topic.partitions.push(entry.partition.clone());
            }
        }
        topics
    }
}

/// Session information for a Fetch response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionContext {
    /// Session id for the response; 0 if the response has no session.
    pub(crate) id: i32,
    /// True if the response omits partitions without changes.
    pub(crate) changes_only: bool,
}

/// Fetch sessions of all nodes.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_id: Mutex<HashMap<i32, Session>>,
    max_sessions: usize,
}

impl Sessions {
    /// Creates a cache of up to `max_sessions` sessions. When the cache is full, no new sessions are created.
    pub(crate) fn new(max_sessions: usize) -> Self {
        Sessions { by_id: Mutex::default(), max_sessions }
    }

    /// Drops all sessions, like a broker that restarts.
    pub(crate) fn clear(&self) {
        lock(&self.by_id).clear();
    }

    /// Applies the changes in `request` to its session, and replaces the partitions of `request` by all partitions of
    /// the session.
    pub(crate) fn resolve(
        &self,
        node: i32,
        version: i16,
        request: &mut FetchRequest,
    ) -> Result<SessionContext, ErrorCode> {
        let without_session = SessionContext { id: 0, changes_only: false };
        let (id, epoch) = (request.session_id, request.session_epoch);
        if version < FIRST_WITH_SESSIONS {
            return Ok(without_session);
        }
        let mut sessions = lock(&self.by_id);
        if epoch == INITIAL_EPOCH || epoch == FINAL_EPOCH {
            if sessions.get(&id).is_some_and(|session| session.node == node) {
                sessions.remove(&id);
            }
            if epoch == FINAL_EPOCH || sessions.len() >= self.max_sessions {
                return Ok(without_session);
            }
            let mut session = Session { node, epoch: INITIAL_EPOCH + 1, partitions: Vec::new() };
            session.update(request.topics.clone());
            let id = std::iter::repeat_with(|| fastrand::i32(1..)).find(|id| !sessions.contains_key(id)).unwrap_or(1);
            sessions.insert(id, session);
            return Ok(SessionContext { id, changes_only: false });
        }
        let session = sessions.get_mut(&id).filter(|session| session.node == node);
        let session = session.ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)?;
        if epoch != session.epoch {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        session.epoch = epoch.checked_add(1).unwrap_or(INITIAL_EPOCH + 1);
        for forgotten in &request.forgotten_topics_data {
            for partition in &forgotten.partitions {
                session.partitions.retain(|entry| !entry.matches(&forgotten.topic, forgotten.topic_id, *partition));
            }
        }
        session.update(std::mem::take(&mut request.topics));
        request.topics = session.topics();
        Ok(SessionContext { id, changes_only: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: i32, epoch: i32, partitions: &[(i32, i64)]) -> FetchRequest {
        let partition = |(partition, fetch_offset): &(i32, i64)| FetchPartition {
            partition: *partition,
            fetch_offset: *fetch_offset,
            ..FetchPartition::default()
        };
        let partitions = partitions.iter().map(partition).collect();
        let topics = vec![FetchTopic { topic: "t".into(), partitions, ..FetchTopic::default() }];
        FetchRequest { session_id: id, session_epoch: epoch, topics, ..FetchRequest::default() }
    }

    fn partitions_of(request: &FetchRequest) -> Vec<(i32, i64)> {
        request.topics.iter().flat_map(|t| &t.partitions).map(|p| (p.partition, p.fetch_offset)).collect()
    }

    #[test]
    fn session_remembers_unchanged_partitions() {
        let sessions = Sessions::new(1);
        let mut first = request(0, INITIAL_EPOCH, &[(0, 5), (1, 6)]);
        let id = sessions.resolve(0, 12, &mut first).unwrap().id;
        assert_ne!(id, 0);
        // The cache has space for one session only.
        assert_eq!(sessions.resolve(0, 12, &mut first.clone()).unwrap(), SessionContext { id: 0, changes_only: false });
        let mut next = request(id, 1, &[(0, 9), (2, 0)]);
        assert_eq!(sessions.resolve(0, 12, &mut next).unwrap(), SessionContext { id, changes_only: true });
        assert_eq!(partitions_of(&next), [(1, 6), (0, 9), (2, 0)]);
        assert_eq!(sessions.resolve(0, 12, &mut request(id, 1, &[])), Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH));
        assert_eq!(sessions.resolve(1, 12, &mut request(id, 2, &[])), Err(ErrorCode::FETCH_SESSION_ID_NOT_FOUND));
        // A session ends if a request names it but requests a new session or none.
        assert_ne!(sessions.resolve(0, 12, &mut request(id, INITIAL_EPOCH, &[])).unwrap().id, 0);
        assert_eq!(sessions.resolve(0, 12, &mut request(id, 2, &[])), Err(ErrorCode::FETCH_SESSION_ID_NOT_FOUND));
    }
}
