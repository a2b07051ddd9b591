//! A member of a classic group.

use std::time::Duration;

use bytes::Bytes;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::join_group::{JoinGroupRequestProtocol, JoinGroupResponse};
use samsarrow_wire::messages::{JoinGroupRequest, SyncGroupResponse};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Sender of a delayed response. If the connection is closed, the response is dropped.
pub(crate) type ResponseSender<T> = oneshot::Sender<T>;

/// Timeouts and protocols of a member, from its last JoinGroup request.
#[derive(Debug, Clone)]
pub(super) struct JoinParams {
    pub(super) rebalance_timeout: Duration,
    pub(super) session_timeout: Duration,
    pub(super) protocols: Vec<JoinGroupRequestProtocol>,
}

impl JoinParams {
    pub(super) fn new(request: &JoinGroupRequest, version: i16) -> Self {
        let millis = |ms: i32| Duration::from_millis(u64::try_from(ms).unwrap_or_default());
        // Version 0 has only the session timeout, which also applies to rebalances.
        let rebalance = if version == 0 { request.session_timeout_ms } else { request.rebalance_timeout_ms };
        JoinParams {
            rebalance_timeout: millis(rebalance),
            session_timeout: millis(request.session_timeout_ms),
            protocols: request.protocols.clone(),
        }
    }

    pub(super) fn supports(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|offered| offered.name == protocol)
    }
}

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) id: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(super) params: JoinParams,
    pub(crate) assignment: Bytes,
    /// True until the member has received its first generation. Until then its client may give up and join again with a
    /// new id.
    pub(super) is_new: bool,
    pub(super) joining: Option<ResponseSender<JoinGroupResponse>>,
    pub(super) syncing: Option<ResponseSender<SyncGroupResponse>>,
    /// Time at which the session expires; `None` if it has expired during a rebalance.
    pub(super) expires: Option<Instant>,
}

impl Member {
    /// Returns the metadata that the member sent for a protocol.
    pub(crate) fn metadata(&self, protocol: &str) -> Bytes {
        let offered = self.params.protocols.iter().find(|offered| offered.name == protocol);
        offered.map(|offered| offered.metadata.clone()).unwrap_or_default()
    }

    pub(super) fn is_joining(&self) -> bool {
        self.joining.is_some()
    }

    /// Returns true while the session cannot expire, because the client waits for a response and cannot send
    /// heartbeats. The session of a new member can expire even while the client waits, which ends the wait.
    pub(super) fn is_session_suspended(&self) -> bool {
        !self.is_new && (self.joining.is_some() || self.syncing.is_some())
    }

    pub(super) fn renew(&mut self, now: Instant) {
        self.expires = Some(now + self.params.session_timeout);
    }

    pub(super) fn complete_join(&mut self, response: JoinGroupResponse) {
        if let Some(sender) = self.joining.take() {
            let _ = sender.send(response);
        }
    }

    /// Sends the response to a pending SyncGroup request. Returns true if a request was pending.
    pub(super) fn complete_sync(&mut self, response: SyncGroupResponse) -> bool {
        match self.syncing.take() {
            Some(sender) => {
                let _ = sender.send(response);
                true
            }
            None => false,
        }
    }

    /// Responds to pending JoinGroup and SyncGroup requests with an error.
    pub(super) fn fail(&mut self, code: ErrorCode) {
        let join = join_error(&self.id, code);
        self.complete_join(join);
        self.complete_sync(SyncGroupResponse { error_code: code.code(), ..SyncGroupResponse::default() });
    }

    /// Returns a copy of the persistent fields, without pending requests.
    pub(super) fn saved(&self) -> Member {
        Member {
            id: self.id.clone(),
            instance_id: self.instance_id.clone(),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            params: self.params.clone(),
            assignment: self.assignment.clone(),
            is_new: false,
            joining: None,
            syncing: None,
            expires: None,
        }
    }
}

/// Returns a JoinGroup response with an error.
pub(crate) fn join_error(member_id: &str, code: ErrorCode) -> JoinGroupResponse {
    JoinGroupResponse { member_id: member_id.to_owned(), error_code: code.code(), ..JoinGroupResponse::default() }
}
