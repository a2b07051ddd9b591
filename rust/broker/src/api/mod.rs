//! One file per API: what the broker answers.

mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_client_quotas;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod alter_share_group_offsets;
mod alter_user_scram_credentials;
mod api_versions;
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
mod share_group_describe;
mod streams_group_describe;
mod sync_group;
mod txn_offset_commit;
mod update_features;
mod write_txn_markers;

use std::future::Future;
use std::sync::Mutex;

use bytes::Bytes;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::frame;
use samsarrow_wire::messages::Request;
use tokio::sync::oneshot;

pub(crate) use self::dispatch::{SERVED, dispatch};
pub(crate) use self::sasl_authenticate::raw as raw_token;
use crate::profile::Profile;
use crate::security::{Session, Stream};
use crate::state::State;
use crate::state::access::Principal;
use crate::sync::lock;

/// What anybody may do with a group here, as bits: read (3), delete (6), describe (8), describe configs (10), alter
/// configs (11).
pub(crate) const GROUP_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

/// The same with a topic: read (3), write (4), create (5), delete (6), alter (7), describe (8), describe configs (10),
/// alter configs (11).
pub(crate) const TOPIC_OPERATIONS: i32 = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 11;

/// The same with the cluster: create (5), alter (7), describe (8), cluster action (9), describe configs (10), alter
/// configs (11), idempotent write (12).
pub(crate) const CLUSTER_OPERATIONS: i32 = 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12;

/// What a client gets that may not know PRODUCER_FENCED yet (KIP-588).
pub(crate) fn fenced_for(knows: bool, code: ErrorCode) -> ErrorCode {
    if code == ErrorCode::PRODUCER_FENCED && !knows { ErrorCode::INVALID_PRODUCER_EPOCH } else { code }
}

/// What a client that writes in a transaction learns of what the coordinator says: being fenced is only final when the
/// coordinator itself says it, and TRANSACTION_ABORTABLE is for those that know it (KIP-890).
pub(crate) fn transaction_error(code: ErrorCode, knows_abortable: bool) -> ErrorCode {
    match code {
        ErrorCode::PRODUCER_FENCED => ErrorCode::INVALID_PRODUCER_EPOCH,
        ErrorCode::TRANSACTION_ABORTABLE if !knows_abortable => ErrorCode::INVALID_TXN_STATE,
        code => code,
    }
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A frame to write, in pieces.
    Reply(Vec<Bytes>),
    /// The same, after which the connection ends, for this reason.
    Last(Vec<Bytes>, String),
    /// Produce with acks=0 is not answered.
    Silent,
    /// The connection ends, for this reason.
    Close(String),
}

/// A request's way in: who asked whom, and how.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) state: &'a State,
    pub(crate) node: i32,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    /// What the client calls itself.
    pub(crate) client_id: &'a str,
    pub(crate) stream: &'a Stream,
    /// Where the connection is in its login.
    pub(crate) session: &'a Mutex<Session>,
    /// Whether the login is where this request may come.
    legal: bool,
}

impl Call<'_> {
    /// Encodes an answer.
    pub(crate) fn reply<R: Request>(&self, response: &R::Response) -> Outcome {
        match frame::encode_response::<R>(response, self.version, self.correlation_id) {
            Ok(frame) => Outcome::Reply(vec![frame]),
            Err(error) => Outcome::Close(format!("could not encode the answer: {error}")),
        }
    }

    /// The Kafka that this broker passes for.
    pub(crate) fn profile(&self) -> Profile {
        Profile::new(self.state.options.kafka)
    }

    /// Who the client is that is logged in; nobody where there are no logins.
    pub(crate) fn principal(&self) -> Option<Principal> {
        lock(self.session).principal().map(|name| ("User".to_owned(), name.to_owned()))
    }

    /// Where the client is, as Kafka writes it.
    pub(crate) fn client_host(&self) -> String {
        self.stream.tcp().peer_addr().map(|peer| format!("/{}", peer.ip())).unwrap_or_default()
    }

    /// Whether this node may answer for a group.
    pub(crate) fn check_group(&self, group: &str) -> Result<(), ErrorCode> {
        if group.is_empty() {
            return Err(ErrorCode::INVALID_GROUP_ID);
        }
        if !self.state.is_coordinator(self.node, group) {
            return Err(ErrorCode::NOT_COORDINATOR);
        }
        Ok(())
    }

    /// What other members have to say first. `None` where it will never be said, and where the client has left.
    pub(crate) async fn wait_for<T>(&self, answer: oneshot::Receiver<T>) -> Option<T> {
        tokio::select! {
            biased;
            answer = answer => answer.ok(),
            () = self.stream.hung_up() => None,
        }
    }
}

/// A request that the broker serves.
pub(crate) trait Serve: Request + Send {
    /// Does what is asked.
    fn serve(self, call: &Call<'_>) -> impl Future<Output = Outcome> + Send;

    /// The answer that puts `code` wherever it can carry an error.
    fn refuse(&self, version: i16, code: ErrorCode) -> Self::Response;

    /// Whether the client waits for an answer.
    fn wants_answer(&self) -> bool {
        true
    }
}
