//! Request handlers, one module per API.

mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_client_quotas;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod alter_share_group_offsets;
mod alter_user_scram_credentials;
pub(crate) mod api_versions;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod create_acls;
mod create_delegation_token;
mod create_partitions;
mod create_topics;
mod delete_acls;
mod delete_groups;
mod delete_records;
mod delete_share_group_offsets;
mod delete_topics;
mod describe_acls;
mod describe_client_quotas;
mod describe_cluster;
mod describe_configs;
mod describe_delegation_token;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_quorum;
mod describe_share_group_offsets;
mod describe_topic_partitions;
mod describe_transactions;
mod describe_user_scram_credentials;
mod dispatch;
mod elect_leaders;
mod end_txn;
mod expire_delegation_token;
mod fetch;
mod fetch_frame;
mod find_coordinator;
mod get_telemetry_subscriptions;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod list_transactions;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod push_telemetry;
mod renew_delegation_token;
mod sasl_authenticate;
mod sasl_handshake;
mod share_acknowledge;
mod share_fetch;
mod share_group_describe;
mod share_group_heartbeat;
mod share_requests;
mod streams_group_describe;
mod sync_group;
mod txn_offset_commit;
mod update_features;
pub(crate) mod version_profile;
mod write_txn_markers;

use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::frame;
use samsarrow_wire::messages::{Message, Request};
use samsarrow_wire::sync::lock;
use tokio::sync::oneshot;

pub(crate) use self::dispatch::{SUPPORTED_APIS, dispatch};
pub(crate) use self::sasl_authenticate::raw as raw_token;
use crate::history::Received;
use crate::security::{Session, Stream};
use crate::state::State;
use crate::state::acls_and_users::Principal;
use crate::state::quotas::ByteRate;
use version_profile::Profile;

/// Authorized operations on a group, as a bit set: read (3), delete (6), describe (8), describe configs (10), alter
/// configs (11).
pub(crate) const GROUP_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

/// Authorized operations on a topic: read (3), write (4), create (5), delete (6), alter (7), describe (8), describe
/// configs (10), alter configs (11).
pub(crate) const TOPIC_OPERATIONS: i32 = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 11;

/// Authorized operations on the cluster: create (5), alter (7), describe (8), cluster action (9), describe configs
/// (10), alter configs (11), idempotent write (12).
pub(crate) const CLUSTER_OPERATIONS: i32 = 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12;

/// Replaces PRODUCER_FENCED by INVALID_PRODUCER_EPOCH for clients that do not understand it (KIP-588).
pub(crate) fn fenced_for(knows: bool, code: ErrorCode) -> ErrorCode {
    if code == ErrorCode::PRODUCER_FENCED && !knows { ErrorCode::INVALID_PRODUCER_EPOCH } else { code }
}

/// Converts an error of the transaction coordinator for a Produce or TxnOffsetCommit response. PRODUCER_FENCED is
/// replaced, because clients treat it as fatal unless the coordinator itself returns it. TRANSACTION_ABORTABLE is
/// replaced for clients that do not understand it (KIP-890).
pub(crate) fn transaction_error(code: ErrorCode, knows_abortable: bool) -> ErrorCode {
    match code {
        ErrorCode::PRODUCER_FENCED => ErrorCode::INVALID_PRODUCER_EPOCH,
        ErrorCode::TRANSACTION_ABORTABLE if !knows_abortable => ErrorCode::INVALID_TXN_STATE,
        code => code,
    }
}

/// Outcome of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Writes this response frame, given as chunks.
    Reply(Vec<Bytes>),
    /// Writes this response frame, then closes the connection for this reason.
    Last(Vec<Bytes>, String),
    /// Sends no response: the request was a Produce with acks=0, or the emulated release ignores it.
    Silent,
    /// Closes the connection for this reason.
    Close(String),
}

/// Context of a request.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) state: &'a State,
    pub(crate) node: i32,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    /// Client id of the request header.
    pub(crate) client_id: &'a str,
    pub(crate) stream: &'a Stream,
    /// Number of the connection, which identifies its share sessions.
    pub(crate) connection: u64,
    /// Time at which the request was received.
    pub(crate) received: Received,
    /// Authentication state of the connection.
    pub(crate) session: &'a Mutex<Session>,
    /// True if the authentication state of the connection allows this request.
    allowed: bool,
    /// Throttle time of the response in milliseconds.
    throttle_ms: &'a AtomicI32,
}

impl Call<'_> {
    /// Throttles the client for at least this time.
    pub(crate) fn throttle(&self, time: Duration) {
        // Rounded up: a throttle time of zero would be no reason for a response without records.
        let milliseconds = i32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
        self.throttle_ms.fetch_max(milliseconds, Ordering::Relaxed);
    }

    /// Returns the throttle time of the response in milliseconds.
    pub(crate) fn throttle_ms(&self) -> i32 {
        self.throttle_ms.load(Ordering::Relaxed)
    }

    /// Records a transfer of bytes, and throttles the client if it exceeds a quota. Returns true if it does.
    pub(crate) fn record_transfer(&self, rate: ByteRate, bytes: usize) -> bool {
        let principal = self.principal();
        let client = (principal.as_ref().map(|(_, name)| &**name), self.client_id);
        let time = self.state.record_transfer(self.node, rate, client, bytes);
        self.throttle(time);
        !time.is_zero()
    }

    /// Encodes a response.
    pub(crate) fn reply<R: Request>(&self, response: &R::Response) -> Outcome {
        let throttled = (self.throttle_ms() > 0).then(|| {
            let mut response = response.clone();
            response.set_throttle_time_ms(self.throttle_ms());
            response
        });
        let response = throttled.as_ref().unwrap_or(response);
        match frame::encode_response::<R>(response, self.version, self.correlation_id) {
            Ok(frame) => Outcome::Reply(vec![frame]),
            Err(error) => Outcome::Close(format!("could not encode the response: {error}")),
        }
    }

    /// Returns the Kafka release that this node emulates.
    pub(crate) fn profile(&self) -> Profile {
        Profile::new(self.state.kafka(self.node))
    }

    /// Returns the authenticated principal; `None` without authentication.
    pub(crate) fn principal(&self) -> Option<Principal> {
        lock(self.session).principal().map(|name| ("User".to_owned(), name.to_owned()))
    }

    /// Returns the address of the client in Kafka's notation.
    pub(crate) fn client_host(&self) -> String {
        self.stream.tcp().peer_addr().map(|peer| format!("/{}", peer.ip())).unwrap_or_default()
    }

    /// Checks that this node coordinates the group.
    pub(crate) fn check_group(&self, group: &str) -> Result<(), ErrorCode> {
        if group.is_empty() {
            return Err(ErrorCode::INVALID_GROUP_ID);
        }
        if !self.state.is_coordinator(self.node, group) {
            return Err(ErrorCode::NOT_COORDINATOR);
        }
        Ok(())
    }

    /// Waits for a response that depends on other group members. Returns `None` if its sender was dropped or the client
    /// has disconnected.
    pub(crate) async fn wait_for<T>(&self, receiver: oneshot::Receiver<T>) -> Option<T> {
        tokio::select! {
            biased;
            receiver = receiver => receiver.ok(),
            () = self.stream.disconnected() => None,
        }
    }
}

/// Handler of a request.
pub(crate) trait Handler: Request + Send {
    /// Handles the request.
    fn handle(self, call: &Call<'_>) -> impl Future<Output = Outcome> + Send;

    /// Returns a response with `code` in every error field.
    fn error_response(&self, version: i16, code: ErrorCode) -> Self::Response;

    /// Returns true if the client expects a response.
    fn expects_response(&self) -> bool {
        true
    }
}
