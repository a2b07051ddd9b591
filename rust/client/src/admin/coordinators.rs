//! The coordinators of many groups or transactional ids, found together.

use std::collections::HashMap;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{ApiKey, FindCoordinatorRequest};

use super::Admin;
use crate::cluster::Cluster;
pub(super) use crate::cluster::coordinator::CoordinatorType;
use crate::error::{Error, Result};
use crate::retry::Retry;

/// From this version on a request asks for many keys (KIP-699).
const MANY_KEYS: i16 = 4;

/// A broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: i32,
    /// Where clients reach it.
    pub host: String,
    /// Where clients reach it.
    pub port: i32,
}

impl Admin {
    /// The broker that coordinates a group.
    ///
    /// # Errors
    /// What brokers say of the group; a timeout with its cause.
    pub async fn find_coordinator(&self, group: &str, timeout: Duration) -> Result<Node> {
        self.cluster.check_endpoint(ApiKey::FindCoordinator)?;
        let mut retry = Retry::new(self.cluster.options(), timeout);
        let asked = [group.to_owned()];
        loop {
            let limit = retry.left().min(self.cluster.options().request_timeout);
            let found =
                find(&self.cluster, CoordinatorType::Group, &asked, limit).await.map(|mut found| found.remove(group));
            let error = match found {
                Ok(Some(Ok(node))) => return Ok(node),
                Ok(Some(Err(error))) | Err(error) => error,
                Ok(None) => return Err(left_out(group)),
            };
            retry.again(error, || format!("the coordinator of group {group}")).await?;
        }
    }
}

/// Asks any broker where coordinators are, in as few requests as its version allows.
///
/// # Errors
/// What is not about one of them.
pub(super) async fn find(
    cluster: &Cluster,
    kind: CoordinatorType,
    keys: &[String],
    limit: Duration,
) -> Result<HashMap<String, Result<Node>>> {
    let mut found = HashMap::new();
    let mut open = keys;
    while let Some((first, rest)) = open.split_first() {
        let build = |version| {
            let mut request = FindCoordinatorRequest { key_type: kind.code(), ..Default::default() };
            if version >= MANY_KEYS {
                request.coordinator_keys = open.to_vec();
            } else {
                request.key.clone_from(first);
            }
            Ok(request)
        };
        let (version, answer) = cluster.send_any_with(limit, build).await?;
        if version < MANY_KEYS {
            let node = Node { id: answer.node_id, host: answer.host, port: answer.port };
            found.insert(first.clone(), said(kind, first, node, answer.error_code, answer.error_message));
            open = rest;
            continue;
        }
        for c in answer.coordinators {
            let node = Node { id: c.node_id, host: c.host, port: c.port };
            let said = said(kind, &c.key, node, c.error_code, c.error_message);
            found.insert(c.key, said);
        }
        break;
    }
    Ok(found)
}

fn said(kind: CoordinatorType, key: &str, node: Node, code: i16, message: Option<String>) -> Result<Node> {
    let context = match message.filter(|text| !text.is_empty()) {
        Some(text) => format!("coordinator of {} {key} ({text})", kind.name()),
        None => format!("coordinator of {} {key}", kind.name()),
    };
    ErrorCode::from_i16(code).ok().map(|()| node).map_err(|code| Error::server(code, context))
}

/// An answer that passes over a group.
fn left_out(group: &str) -> Error {
    Error::protocol("a broker", format!("the answer to FindCoordinator leaves out group {group}"))
}
