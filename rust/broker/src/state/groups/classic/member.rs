//! A member of a classic group.

use std::time::Duration;

use bytes::Bytes;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::join_group::{JoinGroupRequestProtocol, JoinGroupResponse};
use samsarrow_wire::messages::{JoinGroupRequest, SyncGroupResponse};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Sender of a delayed response; sending to a closed connection is ignored.
pub(crate) type Answer<T> = oneshot::Sender<T>;

/// Timeouts and protocols of the last JoinGroup request of a member.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    pub(super) rebalance_timeout: Duration,
    pub(super) session_timeout: Duration,
    pub(super) protocols: Vec<JoinGroupRequestProtocol>,
}

impl Terms {
    pub(super) fn new(request: &JoinGroupRequest, version: i16) -> Self {
        let millis = |ms: i32| Duration::from_millis(u64::try_from(ms).unwrap_or_default());
        // Version 0 has a single timeout.
        let rebalance = if version == 0 { request.session_timeout_ms } else { request.rebalance_timeout_ms };
        Terms {
            rebalance_timeout: millis(rebalance),
            session_timeout: millis(request.session_timeout_ms),
            protocols: request.protocols.clone(),
        }
    }

    pub(super) fn supports(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|own| own.name == protocol)
    }
}

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) id: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(super) terms: Terms,
    pub(crate) assignment: Bytes,
    /// True until the member has learned of a generation; a new member that gives up may return under another id.
    pub(super) is_new: bool,
    pub(super) joining: Option<Answer<JoinGroupResponse>>,
    pub(super) syncing: Option<Answer<SyncGroupResponse>>,
    /// End of the session; `None` if it passed during a rebalance.
    pub(super) expires: Option<Instant>,
}

impl Member {
    /// Returns the metadata that the member sent for a protocol.
    pub(crate) fn metadata(&self, protocol: &str) -> Bytes {
        let own = self.terms.protocols.iter().find(|own| own.name == protocol);
        own.map(|own| own.metadata.clone()).unwrap_or_default()
    }

    pub(super) fn is_joining(&self) -> bool {
        self.joining.is_some()
    }

    /// Returns true if session expiry is suspended: a member that waits for others cannot send heartbeats. A new member
    /// is not excused, so that its wait ends.
    pub(super) fn is_excused(&self) -> bool {
        !self.is_new && (self.joining.is_some() || self.syncing.is_some())
    }

    pub(super) fn renew(&mut self, now: Instant) {
        self.expires = Some(now + self.terms.session_timeout);
    }

    pub(super) fn answer_join(&mut self, response: JoinGroupResponse) {
        if let Some(answer) = self.joining.take() {
            let _ = answer.send(response);
        }
    }

    /// Completes a pending SyncGroup; returns true if one was pending.
    pub(super) fn answer_sync(&mut self, response: SyncGroupResponse) -> bool {
        match self.syncing.take() {
            Some(answer) => {
                let _ = answer.send(response);
                true
            }
            None => false,
        }
    }

    /// Completes pending JoinGroup and SyncGroup requests with an error.
    pub(super) fn fail(&mut self, code: ErrorCode) {
        let join = refused(&self.id, code);
        self.answer_join(join);
        self.answer_sync(SyncGroupResponse { error_code: code.code(), ..SyncGroupResponse::default() });
    }

    /// Returns a copy with the persistent fields only.
    pub(super) fn saved(&self) -> Member {
        Member {
            id: self.id.clone(),
            instance_id: self.instance_id.clone(),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            terms: self.terms.clone(),
            assignment: self.assignment.clone(),
            is_new: false,
            joining: None,
            syncing: None,
            expires: None,
        }
    }
}

/// Returns a JoinGroup response with an error.
pub(crate) fn refused(member_id: &str, code: ErrorCode) -> JoinGroupResponse {
    JoinGroupResponse { member_id: member_id.to_owned(), error_code: code.code(), ..JoinGroupResponse::default() }
}
