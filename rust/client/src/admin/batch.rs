//! Batched requests, and the brokers that can serve each of their items.

use std::fmt;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;

use crate::cluster::find_coordinator::CoordinatorType;
use crate::error::Error;
use crate::types::TopicPartition;

/// Rule that selects the broker for an item.
#[derive(Debug)]
pub(super) enum Route<K> {
    /// Any broker.
    Any,
    /// The controller. In KRaft clusters, a broker is reported as the controller, and forwards requests to the actual
    /// controller.
    Controller,
    /// The leader of a partition.
    Leader(fn(&K) -> &TopicPartition),
    /// The coordinator of a group or transactional id.
    Coordinator(CoordinatorType, fn(&K) -> &str),
    /// The broker with this id.
    Broker(fn(&K) -> i32),
}

impl<K> Clone for Route<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Route<K> {}

impl<K> Route<K> {
    pub(super) fn for_items<'a>(self, items: &[&'a K]) -> Routes<'a> {
        let items = items.iter().copied();
        match self {
            Self::Any => Routes::Any,
            Self::Controller => Routes::Controller,
            Self::Leader(partition) => Routes::Leader(items.map(partition).collect()),
            Self::Coordinator(kind, key) => Routes::Coordinator(kind, items.map(key).collect()),
            Self::Broker(id) => Routes::Broker(items.map(id).collect()),
        }
    }
}

/// Routes of items, with one entry per item.
#[derive(Debug)]
pub(super) enum Routes<'a> {
    Any,
    Controller,
    Leader(Vec<&'a TopicPartition>),
    Coordinator(CoordinatorType, Vec<&'a str>),
    Broker(Vec<i32>),
}

impl Routes<'_> {
    /// Returns true if a retry may succeed, either at the same broker or at another one.
    pub(super) fn is_retriable(&self, error: &Error) -> bool {
        let Error::Server { code, .. } = error else { return error.retriable() };
        match self {
            // Errors of a topic are final, because the controller knows the current state.
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
                // Errors of a topic or replica are final for these routes.
                let final_errors = [
                    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                    ErrorCode::UNKNOWN_TOPIC_ID,
                    ErrorCode::REPLICA_NOT_AVAILABLE,
                ];
                code.retriable() && !final_errors.contains(code)
            }
        }
    }
}

/// Request about many items: how to route and describe an item, the maximum number of items per request, and the
/// timeout.
#[derive(Debug)]
pub(super) struct BatchedRequest<K> {
    pub(super) route: Route<K>,
    /// Returns the description of an item for error messages.
    pub(super) describe: fn(&K) -> String,
    /// Returns the maximum number of items per request in the given API version.
    pub(super) max_items: fn(i16) -> usize,
    pub(super) timeout: Duration,
}

impl<K: fmt::Display> BatchedRequest<K> {
    pub(super) fn new(route: Route<K>, timeout: Duration) -> Self {
        Self { route, describe: |item| item.to_string(), max_items: |_| usize::MAX, timeout }
    }
}

/// Returns a batched request that is sent to the coordinators of the groups.
pub(super) fn group_request(timeout: Duration) -> BatchedRequest<String> {
    let route = Route::Coordinator(CoordinatorType::Group, |group: &String| group);
    BatchedRequest { describe: |group| format!("group {group}"), ..BatchedRequest::new(route, timeout) }
}
