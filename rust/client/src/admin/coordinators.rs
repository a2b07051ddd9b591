//! Batched lookup of coordinators of groups and transactional ids.

use std::collections::HashMap;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{ApiKey, FindCoordinatorRequest};

use super::Admin;
use crate::cluster::Cluster;
pub(super) use crate::cluster::coordinator::CoordinatorType;
use crate::error::{Error, Result};
use crate::retry::Retry;

/// First version of FindCoordinator that supports several keys per request (KIP-699).
const MANY_KEYS: i16 = 4;

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

impl Admin {
    /// Returns the coordinator of a group.
    ///
    /// # Errors
    /// Fails with the error that a broker returns for the group, or with a timeout that contains the last error.
    pub async fn find_coordinator(&self, group: &str, timeout: Duration) -> Result<Node> {
        self.cluster.check_endpoint(ApiKey::FindCoordinator)?;
        let mut retry = Retry::new(self.cluster.options(), timeout);
        let keys = [group.to_owned()];
        loop {
            let limit = retry.left().min(self.cluster.options().request_timeout);
            let result = find_coordinators(&self.cluster, CoordinatorType::Group, &keys, limit)
                .await
                .map(|mut nodes| nodes.remove(group));
            let error = match result {
                Ok(Some(Ok(node))) => return Ok(node),
                Ok(Some(Err(error))) | Err(error) => error,
                Ok(None) => return Err(missing_group(group)),
            };
            retry.again(error, || format!("the coordinator of group {group}")).await?;
        }
    }
}

/// Asks any broker for the coordinators of `keys`: one request for all keys if the broker supports it, otherwise one
/// request per key.
///
/// # Errors
/// Fails if a request fails. Errors of individual keys are returned in the map.
pub(super) async fn find_coordinators(
    cluster: &Cluster,
    coordinator_type: CoordinatorType,
    keys: &[String],
    limit: Duration,
) -> Result<HashMap<String, Result<Node>>> {
    let mut nodes = HashMap::new();
    let mut open = keys;
    while let Some((first, rest)) = open.split_first() {
        let build = |version| {
            let mut request = FindCoordinatorRequest { key_type: coordinator_type.code(), ..Default::default() };
            if version >= MANY_KEYS {
                request.coordinator_keys = open.to_vec();
            } else {
                request.key.clone_from(first);
            }
            Ok(request)
        };
        let (version, response) = cluster.send_any_with(limit, build).await?;
        if version < MANY_KEYS {
            let node = Node { id: response.node_id, host: response.host, port: response.port };
            nodes.insert(
                first.clone(),
                read_node(coordinator_type, first, node, response.error_code, response.error_message),
            );
            open = rest;
            continue;
        }
        for c in response.coordinators {
            let node = Node { id: c.node_id, host: c.host, port: c.port };
            let result = read_node(coordinator_type, &c.key, node, c.error_code, c.error_message);
            nodes.insert(c.key, result);
        }
        break;
    }
    Ok(nodes)
}

fn read_node(
    coordinator_type: CoordinatorType,
    key: &str,
    node: Node,
    code: i16,
    message: Option<String>,
) -> Result<Node> {
    let context = match message.filter(|text| !text.is_empty()) {
        Some(text) => format!("coordinator of {} {key} ({text})", coordinator_type.name()),
        None => format!("coordinator of {} {key}", coordinator_type.name()),
    };
    ErrorCode::from_i16(code).ok().map(|()| node).map_err(|code| Error::server(code, context))
}

/// Returns the error for a group that the response does not contain.
fn missing_group(group: &str) -> Error {
    Error::protocol("a broker", format!("the response to FindCoordinator leaves out group {group}"))
}
