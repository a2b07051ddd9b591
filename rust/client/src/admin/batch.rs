//! What is asked about many items, and who can answer it.

use std::fmt;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;

use super::coordinators::CoordinatorType;
use crate::error::Error;
use crate::types::TopicPartition;

/// Who can answer for an item.
#[derive(Debug)]
pub(super) enum Route<K> {
    /// Every broker.
    Any,
    /// The controller alone; where brokers forward, the one that they call so.
    Controller,
    /// The leader of a partition.
    Leader(fn(&K) -> &TopicPartition),
    /// The coordinator of a group or of a transactional id.
    Coordinator(CoordinatorType, fn(&K) -> &str),
    /// One broker, by its id.
    Broker(fn(&K) -> i32),
}

impl<K> Clone for Route<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Route<K> {}

impl<K> Route<K> {
    /// The same for each of some items.
    pub(super) fn ways<'a>(self, items: &[&'a K]) -> Way<'a> {
        let items = items.iter().copied();
        match self {
            Self::Any => Way::Any,
            Self::Controller => Way::Controller,
            Self::Leader(partition) => Way::Leader(items.map(partition).collect()),
            Self::Coordinator(kind, key) => Way::Coordinator(kind, items.map(key).collect()),
            Self::Broker(id) => Way::Broker(items.map(id).collect()),
        }
    }
}

/// Who can answer for each of some items.
#[derive(Debug)]
pub(super) enum Way<'a> {
    Any,
    Controller,
    Leader(Vec<&'a TopicPartition>),
    Coordinator(CoordinatorType, Vec<&'a str>),
    Broker(Vec<i32>),
}

impl Way<'_> {
    /// Whether another try may end better, at this broker or at another.
    pub(super) fn passing(&self, error: &Error) -> bool {
        let Error::Server { code, .. } = error else { return error.retriable() };
        match self {
            // What is said of a topic is meant: a controller knows.
            Self::Controller => matches!(
                *code,
                ErrorCode::NOT_CONTROLLER
                    | ErrorCode::THROTTLING_QUOTA_EXCEEDED
                    | ErrorCode::COORDINATOR_NOT_AVAILABLE
                    | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
            ),
            Self::Coordinator(..) => matches!(
                *code,
                ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
                    | ErrorCode::COORDINATOR_NOT_AVAILABLE
                    | ErrorCode::NOT_COORDINATOR
                    | ErrorCode::UNSTABLE_OFFSET_COMMIT
                    | ErrorCode::REQUEST_TIMED_OUT
                    | ErrorCode::CONCURRENT_TRANSACTIONS
            ),
            Self::Leader(_) => code.retriable(),
            Self::Any | Self::Broker(_) => {
                // What is said of a topic or of a replica is meant.
                let meant = [
                    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                    ErrorCode::UNKNOWN_TOPIC_ID,
                    ErrorCode::REPLICA_NOT_AVAILABLE,
                ];
                code.retriable() && !meant.contains(code)
            }
        }
    }
}

/// What is asked of many brokers: the way to them, the words for an item, the time.
#[derive(Debug)]
pub(super) struct Work<K> {
    pub(super) route: Route<K>,
    /// An item in an error.
    pub(super) what: fn(&K) -> String,
    /// How many items a request of a version can take.
    pub(super) most: fn(i16) -> usize,
    pub(super) timeout: Duration,
}

impl<K: fmt::Display> Work<K> {
    pub(super) fn new(route: Route<K>, timeout: Duration) -> Self {
        Self { route, what: |item| item.to_string(), most: |_| usize::MAX, timeout }
    }
}

/// The way to the coordinators of groups.
pub(super) fn of_groups(timeout: Duration) -> Work<String> {
    let route = Route::Coordinator(CoordinatorType::Group, |group: &String| group);
    Work { what: |group| format!("group {group}"), ..Work::new(route, timeout) }
}
