//! FindCoordinator, v0–v6. The coordinator of a group or a transactional id is chosen by the hash of its name.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::FindCoordinatorRequest;
use samsarrow_wire::messages::find_coordinator::{Coordinator, FindCoordinatorResponse};

use super::{Call, Handler, Outcome};

/// Supported key types: groups (0) and transactional ids (1). Share partitions (2) are not supported.
const KEY_TYPES: std::ops::RangeInclusive<i8> = 0..=TRANSACTION;
const TRANSACTION: i8 = 1;

fn failed(key: &str, code: ErrorCode, message: Option<String>) -> Coordinator {
    Coordinator {
        key: key.to_owned(),
        node_id: -1,
        port: -1,
        error_code: code.code(),
        error_message: message,
        ..Coordinator::default()
    }
}

fn find(call: &Call<'_>, key: &str, key_type: i8) -> Coordinator {
    if !KEY_TYPES.contains(&key_type) {
        return failed(
            key,
            ErrorCode::INVALID_REQUEST,
            Some(format!("coordinators of type {key_type} are not served")),
        );
    }
    let coordinator =
        if key_type == TRANSACTION { call.state.transaction_coordinator(key) } else { call.state.coordinator(key) };
    match coordinator {
        Some((id, node)) => Coordinator {
            key: key.to_owned(),
            node_id: id,
            host: node.host.clone(),
            port: node.port.into(),
            ..Coordinator::default()
        },
        None => failed(key, ErrorCode::COORDINATOR_NOT_AVAILABLE, None),
    }
}

/// Builds the response. Before v4 it contains a single coordinator instead of a list.
fn response(version: i16, mut coordinators: Vec<Coordinator>) -> FindCoordinatorResponse {
    if version >= 4 {
        return FindCoordinatorResponse { coordinators, ..FindCoordinatorResponse::default() };
    }
    let only = coordinators.pop().unwrap_or_default();
    FindCoordinatorResponse {
        error_code: only.error_code,
        error_message: only.error_message,
        node_id: only.node_id,
        host: only.host,
        port: only.port,
        ..FindCoordinatorResponse::default()
    }
}

fn keys(request: &FindCoordinatorRequest, version: i16) -> &[String] {
    if version >= 4 { &request.coordinator_keys } else { std::slice::from_ref(&request.key) }
}

impl Handler for FindCoordinatorRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let coordinators = keys(&self, call.version).iter().map(|key| find(call, key, self.key_type)).collect();
        call.reply::<Self>(&response(call.version, coordinators))
    }

    fn error_response(&self, version: i16, code: ErrorCode) -> FindCoordinatorResponse {
        response(version, keys(self, version).iter().map(|key| failed(key, code, None)).collect())
    }
}
