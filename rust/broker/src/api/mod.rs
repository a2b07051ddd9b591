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

use bytes::{Bytes, BytesMut};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::frame::{self, RequestHeader};
use samsarrow_wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, AlterClientQuotasRequest, AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest, AlterShareGroupOffsetsRequest, AlterUserScramCredentialsRequest, ApiKey,
    ApiVersionsRequest, ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, CreateAclsRequest,
    CreateDelegationTokenRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteAclsRequest, DeleteGroupsRequest,
    DeleteRecordsRequest, DeleteShareGroupOffsetsRequest, DeleteTopicsRequest, DescribeAclsRequest,
    DescribeClientQuotasRequest, DescribeClusterRequest, DescribeConfigsRequest, DescribeDelegationTokenRequest,
    DescribeGroupsRequest, DescribeLogDirsRequest, DescribeProducersRequest, DescribeQuorumRequest,
    DescribeShareGroupOffsetsRequest, DescribeTopicPartitionsRequest, DescribeTransactionsRequest,
    DescribeUserScramCredentialsRequest, ElectLeadersRequest, EndTxnRequest, ExpireDelegationTokenRequest,
    FetchRequest, FindCoordinatorRequest, GetTelemetrySubscriptionsRequest, HeartbeatRequest,
    IncrementalAlterConfigsRequest, InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest,
    ListConfigResourcesRequest, ListGroupsRequest, ListOffsetsRequest, ListPartitionReassignmentsRequest,
    ListTransactionsRequest, MetadataRequest, OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest,
    OffsetForLeaderEpochRequest, ProduceRequest, PushTelemetryRequest, Reader, RenewDelegationTokenRequest, Request,
    SaslAuthenticateRequest, SaslHandshakeRequest, ShareGroupDescribeRequest, StreamsGroupDescribeRequest,
    SyncGroupRequest, TxnOffsetCommitRequest, UpdateFeaturesRequest, WriteTxnMarkersRequest,
};

pub(crate) use sasl_authenticate::raw as raw_token;
use tokio::sync::oneshot;

use crate::fault::{Fault, RequestInfo};
use crate::profile::{Profile, Unknown};
use crate::security::{Admission, Session, Stream};
use crate::state::State;
use crate::state::access::Principal;
use crate::sync::lock;

/// Lists the APIs that are served, and leads each request to its file.
macro_rules! served {
    ($($request:ident: $versions:expr;)*) => {
        /// The APIs that are served, with the first and the last version of each.
        pub(crate) const SERVED: &[(ApiKey, i16, i16)] =
            &[$((<$request as Request>::KEY, *$versions.start(), *$versions.end()),)*];

        async fn route(call: &Call<'_>, header: &RequestHeader, key: ApiKey, body: Bytes) -> Outcome {
            $(if key == <$request as Request>::KEY {
                return handle::<$request>(call, header, key, body).await;
            })*
            Outcome::Close(format!("{} is not served", key.name()))
        }
    };
}

served! {
    ProduceRequest: 0..=13;
    FetchRequest: 0..=18;
    ListOffsetsRequest: 0..=11;
    MetadataRequest: 0..=13;
    OffsetCommitRequest: 0..=10;
    OffsetFetchRequest: 0..=10;
    FindCoordinatorRequest: 0..=6;
    JoinGroupRequest: 0..=9;
    HeartbeatRequest: 0..=4;
    LeaveGroupRequest: 0..=5;
    SyncGroupRequest: 0..=5;
    DescribeGroupsRequest: 0..=6;
    ListGroupsRequest: 0..=5;
    DeleteGroupsRequest: 0..=2;
    OffsetDeleteRequest: 0..=0;
    ConsumerGroupHeartbeatRequest: 0..=1;
    ConsumerGroupDescribeRequest: 0..=1;
    SaslHandshakeRequest: 0..=1;
    ApiVersionsRequest: 0..=4;
    CreateTopicsRequest: 0..=7;
    DeleteTopicsRequest: 0..=6;
    InitProducerIdRequest: 0..=6;
    OffsetForLeaderEpochRequest: 0..=4;
    AddPartitionsToTxnRequest: 0..=5;
    AddOffsetsToTxnRequest: 0..=4;
    EndTxnRequest: 0..=5;
    WriteTxnMarkersRequest: 0..=2;
    SaslAuthenticateRequest: 0..=2;
    TxnOffsetCommitRequest: 0..=5;
    DescribeProducersRequest: 0..=0;
    DescribeTransactionsRequest: 0..=0;
    ListTransactionsRequest: 0..=2;
    GetTelemetrySubscriptionsRequest: 0..=0;
    PushTelemetryRequest: 0..=0;
    DescribeClusterRequest: 0..=2;
    DescribeTopicPartitionsRequest: 0..=0;
    DeleteRecordsRequest: 0..=2;
    CreatePartitionsRequest: 0..=3;
    DescribeConfigsRequest: 0..=4;
    IncrementalAlterConfigsRequest: 0..=1;
    ListConfigResourcesRequest: 0..=1;
    DescribeClientQuotasRequest: 0..=1;
    AlterClientQuotasRequest: 0..=1;
    ElectLeadersRequest: 0..=2;
    DescribeLogDirsRequest: 0..=5;
    AlterPartitionReassignmentsRequest: 0..=1;
    ListPartitionReassignmentsRequest: 0..=0;
    DescribeQuorumRequest: 0..=2;
    ShareGroupDescribeRequest: 1..=1;
    StreamsGroupDescribeRequest: 0..=0;
    UpdateFeaturesRequest: 0..=2;
    AlterReplicaLogDirsRequest: 0..=2;
    DescribeAclsRequest: 0..=3;
    CreateAclsRequest: 0..=3;
    DeleteAclsRequest: 0..=3;
    DescribeUserScramCredentialsRequest: 0..=0;
    AlterUserScramCredentialsRequest: 0..=0;
    CreateDelegationTokenRequest: 0..=3;
    RenewDelegationTokenRequest: 0..=2;
    ExpireDelegationTokenRequest: 0..=2;
    DescribeDelegationTokenRequest: 0..=3;
    DescribeShareGroupOffsetsRequest: 0..=1;
    AlterShareGroupOffsetsRequest: 0..=0;
    DeleteShareGroupOffsetsRequest: 0..=0;
}

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

/// Handles one frame.
pub(crate) async fn dispatch(
    node: i32,
    frame: Bytes,
    state: &State,
    stream: &Stream,
    session: &Mutex<Session>,
) -> Outcome {
    let (header, body) = match frame::decode_request_header(frame.clone()) {
        Ok(read) => read,
        // A version that this build has never heard of may have another header; its first fields stay where they are.
        Err(error) => match first_fields(&frame) {
            Some(header) => (header, Bytes::new()),
            None => return Outcome::Close(format!("could not read a request header: {error}")),
        },
    };
    if !Profile::new(state.options.kafka).reads(&header) {
        return Outcome::Close(format!("API {} without a client id", header.api_key));
    }
    let version = header.api_version;
    let client_id = header.client_id.as_deref().unwrap_or_default();
    let call =
        Call { state, node, version, correlation_id: header.correlation_id, client_id, stream, session, legal: true };
    let key = ApiKey::from_i16(header.api_key);
    match key.filter(|key| call.profile().takes(*key, version) && call.state.offers(*key)) {
        Some(key) => {
            call.state.count(key);
            let admission = lock(session).admit(key, &state.security);
            if let Admission::Closed(why) = admission {
                return Outcome::Close(format!("{} v{version}: {why}", key.name()));
            }
            let call = Call { legal: admission == Admission::Granted, ..call };
            match route(&call, &header, key, body).await {
                Outcome::Reply(chunks) if lock(session).is_over() => {
                    Outcome::Last(chunks, "the login failed".to_owned())
                }
                outcome => outcome,
            }
        }
        None => match call.profile().unknown(key) {
            Unknown::Told(range) => api_versions::unsupported(&call, range),
            Unknown::PassedOver => Outcome::Silent,
            Unknown::Closed => Outcome::Close(format!("API {} v{version} is not served", header.api_key)),
        },
    }
}

fn first_fields(frame: &[u8]) -> Option<RequestHeader> {
    let api_key = i16::from_be_bytes(frame.get(..2)?.try_into().ok()?);
    let api_version = i16::from_be_bytes(frame.get(2..4)?.try_into().ok()?);
    let correlation_id = i32::from_be_bytes(frame.get(4..8)?.try_into().ok()?);
    Some(RequestHeader { api_key, api_version, correlation_id, client_id: None })
}

/// Decodes, lets a fault have its way, serves.
async fn handle<R: Serve>(call: &Call<'_>, header: &RequestHeader, key: ApiKey, body: Bytes) -> Outcome {
    let mut fault = call.state.faults.ask(key, || RequestInfo {
        node: call.node,
        api_key: key,
        api_version: call.version,
        correlation_id: call.correlation_id,
        client_id: header.client_id.clone(),
        body: body.clone(),
    });
    let request = match R::decode(call.version, &mut Reader::new(body)) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(format!("could not read {} v{}: {error}", key.name(), call.version)),
    };
    if !call.legal {
        lock(call.session).refuse(&call.state.security);
        return match request.wants_answer() {
            true => call.reply::<R>(&request.refuse(call.version, ErrorCode::ILLEGAL_SASL_STATE)),
            false => Outcome::Close(format!("{} in the middle of a login", key.name())),
        };
    }
    if matches!(fault, Some(Fault::Error(_) | Fault::Answer(_))) && is_of_login(key) {
        // A client that hears of a failed login is left.
        lock(call.session).refuse(&call.state.security);
    }
    while let Some(Fault::Late(time, then)) = fault {
        tokio::time::sleep(time).await;
        fault = Some(*then);
    }
    if let Some(code) = call.profile().switched_off(key) {
        return call.reply::<R>(&request.refuse(call.version, code));
    }
    match fault {
        None => request.serve(call).await,
        Some(Fault::Error(code)) if !request.wants_answer() => {
            Outcome::Close(format!("a fault asked for {}", code.name()))
        }
        Some(Fault::Error(code)) => call.reply::<R>(&request.refuse(call.version, code)),
        Some(Fault::Delay(time) | Fault::Late(time, _)) => {
            tokio::time::sleep(time).await;
            request.serve(call).await
        }
        Some(Fault::DropBefore) => Outcome::Close("a fault asked for it, before the request".to_owned()),
        Some(Fault::DropAfter) => {
            request.serve(call).await;
            Outcome::Close("a fault asked for it, after the request".to_owned())
        }
        Some(Fault::Answer(code)) => {
            let answer = call.reply::<R>(&request.refuse(call.version, code));
            match request.serve(call).await {
                Outcome::Reply(_) => answer,
                other => other,
            }
        }
        Some(Fault::Garbage) => match request.serve(call).await {
            Outcome::Reply(_) => Outcome::Reply(vec![garbage(call.correlation_id)]),
            other => other,
        },
    }
}

fn is_of_login(key: ApiKey) -> bool {
    matches!(key, ApiKey::SaslHandshake | ApiKey::SaslAuthenticate)
}

/// A well-framed answer whose body no client can read: every length in it is absurd.
fn garbage(correlation_id: i32) -> Bytes {
    const BODY: [u8; 32] = [0x7f; 32];
    let mut frame = BytesMut::with_capacity(40);
    frame.extend_from_slice(&36_i32.to_be_bytes());
    frame.extend_from_slice(&correlation_id.to_be_bytes());
    frame.extend_from_slice(&BODY);
    frame.freeze()
}
