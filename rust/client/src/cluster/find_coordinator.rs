//! FindCoordinator in all versions: lookup of the coordinators of groups and transactional ids.

use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::find_coordinator::Coordinator;
use samsarrow_wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};

use super::Cluster;
use crate::collections::HashMap;
use crate::error::{Error, Result};

/// First version that supports transaction coordinators (KIP-98).
const TRANSACTIONS: i16 = 1;
/// First version that supports several keys per request (KIP-699).
const MANY_KEYS: i16 = 4;

/// Coordinator type. The numbers are the protocol's values.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CoordinatorType {
    Group = 0,
    Transactions = 1,
}

impl CoordinatorType {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Transactions => "transactional id",
        }
    }
}

/// Broker endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Broker id.
    pub id: i32,
    /// Advertised host.
    pub host: String,
    /// Advertised port.
    pub port: i32,
}

/// Looks up the coordinator of `key` at any broker.
pub(crate) async fn find_coordinator(
    cluster: &Cluster,
    coordinator_type: CoordinatorType,
    key: &str,
    limit: Duration,
) -> Result<Node> {
    let mut nodes = find_coordinators(cluster, coordinator_type, &[key.to_owned()], limit).await?;
    nodes.pop().unwrap_or_else(|| Err(left_out(coordinator_type, key)))
}

/// Looks up the coordinators of `keys` at any broker: one request for all keys if the broker supports it, otherwise one
/// request per key. Returns the results in the order of `keys`.
///
/// # Errors
/// Fails if a request fails. Errors of individual keys are returned in the list.
pub(crate) async fn find_coordinators(
    cluster: &Cluster,
    coordinator_type: CoordinatorType,
    keys: &[String],
    limit: Duration,
) -> Result<Vec<Result<Node>>> {
    let mut nodes = HashMap::default();
    let mut open = keys;
    while let Some((first, rest)) = open.split_first() {
        let build = |version| request(version, coordinator_type, first, open);
        let (version, response) = cluster.send_any_with(limit, build).await?;
        nodes.extend(read(version, coordinator_type, first, response));
        open = if version < MANY_KEYS { rest } else { &[] };
    }
    let node = |key: &String| nodes.remove(key).unwrap_or_else(|| Err(left_out(coordinator_type, key)));
    Ok(keys.iter().map(node).collect())
}

/// Returns a request for `keys`, or for `first` in versions with one key.
fn request(
    version: i16,
    coordinator_type: CoordinatorType,
    first: &str,
    keys: &[String],
) -> Result<FindCoordinatorRequest> {
    if version < TRANSACTIONS && matches!(coordinator_type, CoordinatorType::Transactions) {
        return Err(Error::UnsupportedVersion(format!(
            "this broker does not support transactions (transactional id {first}): they need Kafka 0.11.0 or later"
        )));
    }
    let mut request = FindCoordinatorRequest { key_type: coordinator_type as i8, ..Default::default() };
    if version >= MANY_KEYS {
        request.coordinator_keys = keys.to_vec();
    } else {
        first.clone_into(&mut request.key);
    }
    Ok(request)
}

/// Returns the coordinator of each key in a response. Versions with one key contain no key, so `first` is used.
fn read(
    version: i16,
    coordinator_type: CoordinatorType,
    first: &str,
    response: FindCoordinatorResponse,
) -> HashMap<String, Result<Node>> {
    let coordinators = match version {
        MANY_KEYS.. => response.coordinators,
        _ => vec![Coordinator {
            key: first.to_owned(),
            node_id: response.node_id,
            host: response.host,
            port: response.port,
            error_code: response.error_code,
            error_message: response.error_message,
            ..Default::default()
        }],
    };
    let node = |c: Coordinator| {
        let context = format!("coordinator of {} {}", coordinator_type.name(), c.key);
        let message = c.error_message.filter(|text| !text.is_empty());
        let node = Node { id: c.node_id, host: c.host, port: c.port };
        let result = ErrorCode::from_i16(c.error_code).ok().map(|()| node);
        (c.key, result.map_err(|code| Error::explained(code, context, message)))
    };
    coordinators.into_iter().map(node).collect()
}

/// Returns the error for a key that is missing from a response.
fn left_out(coordinator_type: CoordinatorType, key: &str) -> Error {
    Error::protocol("a broker", format!("the response to FindCoordinator leaves out {} {key}", coordinator_type.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_each_version_contain_the_keys_they_support() {
        let keys = ["a", "b"].map(str::to_owned);
        let build = |version, coordinator_type| request(version, coordinator_type, "a", &keys);
        let old = build(3, CoordinatorType::Transactions).unwrap();
        assert_eq!((old.key.as_str(), old.key_type, old.coordinator_keys.len()), ("a", 1, 0));
        let new = build(4, CoordinatorType::Group).unwrap();
        assert_eq!((new.key.as_str(), new.key_type, new.coordinator_keys.as_slice()), ("", 0, keys.as_slice()));
        // Version 0 contains no coordinator type, so the broker would return a group coordinator.
        let error = build(0, CoordinatorType::Transactions).unwrap_err();
        assert!(matches!(error, Error::UnsupportedVersion(_)) && error.to_string().contains("transactional id a"));
    }

    #[test]
    fn responses_of_each_version_contain_a_result_per_key() {
        let failed = Coordinator {
            key: "b".to_owned(),
            error_code: ErrorCode::GROUP_AUTHORIZATION_FAILED.code(),
            error_message: Some("no".to_owned()),
            ..Default::default()
        };
        let found = Coordinator { key: "a".to_owned(), node_id: 2, ..Default::default() };
        let response = FindCoordinatorResponse { node_id: 1, coordinators: vec![failed, found], ..Default::default() };
        let old = read(3, CoordinatorType::Group, "a", response.clone());
        assert_eq!(old.len(), 1);
        assert_eq!(old["a"].as_ref().unwrap().id, 1);
        let new = read(4, CoordinatorType::Group, "a", response);
        assert_eq!(new["a"].as_ref().unwrap().id, 2);
        let error = new["b"].as_ref().unwrap_err();
        assert_eq!(error.to_string(), "coordinator of group b: GROUP_AUTHORIZATION_FAILED (30): no");
        // A response without coordinators has no result for the key, instead of the broker with the default id.
        assert!(read(4, CoordinatorType::Group, "a", FindCoordinatorResponse::default()).is_empty());
    }
}
