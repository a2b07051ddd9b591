//! Share sessions: the partitions from which a member acquires records on a node. A session ends with the connection
//! that opened it.

use std::collections::{BTreeMap, BTreeSet};

use samsarrow_wire::error_code::ErrorCode;

/// Session epoch that opens a session.
pub(crate) const INITIAL_EPOCH: i32 = 0;
/// Session epoch that closes a session.
pub(crate) const FINAL_EPOCH: i32 = -1;

/// Topic id and partition index.
pub(crate) type TopicPartition = ([u8; 16], i32);

/// Key of a session: group id, member id and node.
pub(crate) type SessionKey = (String, String, i32);

/// A share session.
#[derive(Debug)]
pub(super) struct Session {
    /// Connection that opened the session.
    connection: u64,
    /// Epoch that the next request must have.
    epoch: i32,
    /// Partitions in the order in which they were added.
    partitions: Vec<TopicPartition>,
}

/// Share sessions of all nodes.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    by_key: BTreeMap<SessionKey, Session>,
    /// Groups with sessions, by the connection that opened the sessions.
    opened: BTreeMap<u64, BTreeSet<String>>,
}

fn next(epoch: i32) -> i32 {
    epoch.checked_add(1).unwrap_or(INITIAL_EPOCH + 1)
}

impl Sessions {
    /// Opens a session, which replaces an earlier session of the member.
    pub(super) fn open(
        &mut self,
        key: SessionKey,
        connection: u64,
        partitions: Vec<TopicPartition>,
        max_sessions: usize,
    ) -> Result<(), ErrorCode> {
        self.by_key.remove(&key);
        let on_node = self.by_key.keys().filter(|(.., node)| *node == key.2).count();
        if on_node >= max_sessions {
            return Err(ErrorCode::SHARE_SESSION_LIMIT_REACHED);
        }
        self.opened.entry(connection).or_default().insert(key.0.clone());
        self.by_key.insert(key, Session { connection, epoch: INITIAL_EPOCH + 1, partitions });
        Ok(())
    }

    fn at_epoch(&mut self, key: &SessionKey, epoch: i32) -> Result<&mut Session, ErrorCode> {
        let session = self.by_key.get_mut(key).ok_or(ErrorCode::SHARE_SESSION_NOT_FOUND)?;
        if session.epoch != epoch {
            return Err(ErrorCode::INVALID_SHARE_SESSION_EPOCH);
        }
        Ok(session)
    }

    /// Adds and removes partitions, and bumps the epoch. Returns the partitions that were added.
    pub(super) fn update(
        &mut self,
        key: &SessionKey,
        epoch: i32,
        requested: &[TopicPartition],
        forgotten: &[TopicPartition],
    ) -> Result<Vec<TopicPartition>, ErrorCode> {
        let session = self.at_epoch(key, epoch)?;
        session.epoch = next(epoch);
        let mut added = Vec::new();
        for partition in requested {
            if !session.partitions.contains(partition) {
                session.partitions.push(*partition);
                added.push(*partition);
            }
        }
        session.partitions.retain(|partition| !forgotten.contains(partition));
        Ok(added)
    }

    /// Checks the epoch of an acknowledgement and bumps it.
    pub(super) fn acknowledge(&mut self, key: &SessionKey, epoch: i32) -> Result<(), ErrorCode> {
        self.at_epoch(key, epoch)?.epoch = next(epoch);
        Ok(())
    }

    /// Returns true if the session exists. Requests that close a session may have any epoch.
    pub(super) fn contains(&self, key: &SessionKey) -> bool {
        self.by_key.contains_key(key)
    }

    /// Returns true if no later request has used the session since the request with this epoch. Returns true
    /// for a closed session, too.
    pub(super) fn is_current(&self, key: &SessionKey, epoch: i32) -> bool {
        self.by_key.get(key).is_none_or(|session| session.epoch == next(epoch))
    }

    /// Returns the partitions of a session, starting with another one in each epoch, so that each is served.
    pub(super) fn partitions(&self, key: &SessionKey, epoch: i32) -> Vec<TopicPartition> {
        let mut partitions = self.by_key.get(key).map(|session| session.partitions.clone()).unwrap_or_default();
        let first = usize::try_from(epoch).ok().and_then(|epoch| epoch.checked_rem(partitions.len()));
        partitions.rotate_left(first.unwrap_or(0));
        partitions
    }

    /// Closes a session and returns its partitions.
    pub(super) fn close(&mut self, key: &SessionKey) -> Option<Vec<TopicPartition>> {
        self.by_key.remove(key).map(|session| session.partitions)
    }

    /// Closes the sessions that a connection opened. The second result are its groups that have no session any more.
    pub(super) fn disconnect(&mut self, connection: u64) -> (Vec<(SessionKey, Vec<TopicPartition>)>, Vec<String>) {
        let of_connection = self.by_key.iter().filter(|(_, session)| session.connection == connection);
        let keys: Vec<SessionKey> = of_connection.map(|(key, _)| key.clone()).collect();
        let closed = keys.into_iter().filter_map(|key| self.close(&key).map(|partitions| (key, partitions))).collect();
        let mut groups = self.opened.remove(&connection).unwrap_or_default();
        groups.retain(|group| !self.by_key.keys().any(|(of, ..)| of == group));
        (closed, groups.into_iter().collect())
    }
}
