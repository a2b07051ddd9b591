//! A member of a classic group.

use std::time::Duration;

use bytes::Bytes;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::join_group::{JoinGroupRequestProtocol, JoinGroupResponse};
use samsarrow_wire::messages::{JoinGroupRequest, SyncGroupResponse};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Where the answer to a request that waits for other members goes; nobody minds if its connection has ended.
pub(crate) type Answer<T> = oneshot::Sender<T>;

/// What a member asked for when it joined last.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    pub(super) rebalance_timeout: Duration,
    pub(super) session_timeout: Duration,
    pub(super) protocols: Vec<JoinGroupRequestProtocol>,
}

impl Terms {
    pub(super) fn new(request: &JoinGroupRequest, version: i16) -> Self {
        let millis = |ms: i32| Duration::from_millis(u64::try_from(ms).unwrap_or_default());
        // Version 0 knows one timeout only.
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
    /// It has never learned of a generation; if it gives up it may come again as somebody else.
    pub(super) is_new: bool,
    pub(super) joining: Option<Answer<JoinGroupResponse>>,
    pub(super) syncing: Option<Answer<SyncGroupResponse>>,
    /// When its session ends; none while a rebalance has swallowed the last end.
    pub(super) expires: Option<Instant>,
}

impl Member {
    /// What it said of itself for a protocol.
    pub(crate) fn metadata(&self, protocol: &str) -> Bytes {
        let own = self.terms.protocols.iter().find(|own| own.name == protocol);
        own.map(|own| own.metadata.clone()).unwrap_or_default()
    }

    pub(super) fn is_joining(&self) -> bool {
        self.joining.is_some()
    }

    /// A member that waits for others cannot send heartbeats and need not; a new one must not wait for ever.
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

    /// Whether it waited for this.
    pub(super) fn answer_sync(&mut self, response: SyncGroupResponse) -> bool {
        match self.syncing.take() {
            Some(answer) => {
                let _ = answer.send(response);
                true
            }
            None => false,
        }
    }

    /// Answers both requests that may wait with the same error.
    pub(super) fn fail(&mut self, code: ErrorCode) {
        let join = refused(&self.id, code);
        self.answer_join(join);
        self.answer_sync(SyncGroupResponse { error_code: code.code(), ..SyncGroupResponse::default() });
    }

    /// What another coordinator would know of it.
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

/// The answer to a member that cannot join.
pub(crate) fn refused(member_id: &str, code: ErrorCode) -> JoinGroupResponse {
    JoinGroupResponse { member_id: member_id.to_owned(), error_code: code.code(), ..JoinGroupResponse::default() }
}
