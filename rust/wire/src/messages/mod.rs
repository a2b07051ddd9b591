//! Requests and responses of Kafka 3.9 to 4.4, one file per API.

#[macro_use]
mod macros;
#[cfg(any(test, feature = "arbitrary"))]
pub(crate) mod arbitrary;
pub(crate) mod error;
#[cfg(any(test, feature = "json"))]
mod json;
mod message_buf;
pub(crate) mod reader;
pub(crate) mod types;

pub mod add_offsets_to_txn;
pub mod add_partitions_to_txn;
pub mod add_raft_voter;
pub mod alter_client_quotas;
pub mod alter_partition_reassignments;
pub mod alter_replica_log_dirs;
pub mod alter_share_group_offsets;
pub mod alter_user_scram_credentials;
pub mod api_versions;
pub mod consumer_group_describe;
pub mod consumer_group_heartbeat;
pub mod consumer_protocol;
pub mod create_acls;
pub mod create_delegation_token;
pub mod create_partitions;
pub mod create_topics;
pub mod delete_acls;
pub mod delete_groups;
pub mod delete_records;
pub mod delete_share_group_offsets;
pub mod delete_topics;
pub mod describe_acls;
pub mod describe_client_quotas;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_delegation_token;
pub mod describe_groups;
pub mod describe_log_dirs;
pub mod describe_producers;
pub mod describe_quorum;
pub mod describe_share_group_offsets;
pub mod describe_topic_partitions;
pub mod describe_transactions;
pub mod describe_user_scram_credentials;
pub mod elect_leaders;
pub mod end_txn;
pub mod expire_delegation_token;
pub mod fetch;
pub mod fetch_stream;
pub mod find_coordinator;
pub mod get_telemetry_subscriptions;
pub mod heartbeat;
pub mod incremental_alter_configs;
pub mod init_producer_id;
pub mod join_group;
pub mod leave_group;
pub mod list_config_resources;
pub mod list_groups;
pub mod list_offsets;
pub mod list_partition_reassignments;
pub mod list_transactions;
pub mod metadata;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod offset_for_leader_epoch;
pub mod produce;
pub mod push_telemetry;
pub mod remove_raft_voter;
pub mod renew_delegation_token;
pub mod sasl_authenticate;
pub mod sasl_handshake;
pub mod share_acknowledge;
pub mod share_fetch;
pub mod share_group_describe;
pub mod share_group_heartbeat;
pub mod streams_group_describe;
pub mod sync_group;
pub mod txn_offset_commit;
pub mod unregister_broker;
pub mod unregister_controller;
pub mod update_features;
pub mod write_txn_markers;

#[cfg(test)]
mod tests;

pub use error::{DecodeError, DecodeErrorKind, EncodeError};
#[cfg(any(test, feature = "json"))]
pub use json::{JsonError, JsonMessage};
pub use message_buf::{Frame, MessageBuf};
pub use reader::Reader;
pub use types::{Hidden, Uuid};

pub use consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, StickyUserData};
pub use fetch_stream::{FetchEvent, FetchParser};

/// A request or a response.
pub trait Message: Sized + Default + Clone {
    /// Appends the encoding in `version` to `out`.
    fn encode(&self, version: i16, out: &mut MessageBuf) -> Result<(), EncodeError>;
    /// Decodes a message of `version`. Bytes after the message remain in `input`.
    fn decode(version: i16, input: &mut Reader) -> Result<Self, DecodeError>;
    /// Returns the throttle time in milliseconds (KIP-219), or 0 if the message has no such field.
    fn throttle_time_ms(&self) -> i32;
    /// Sets the throttle time in milliseconds if the message has such a field.
    fn set_throttle_time_ms(&mut self, throttle_time_ms: i32);
    /// Decodes only the fields up to the throttle time in milliseconds, and returns it; 0 if the message has no such
    /// field in `version`.
    fn read_throttle_time_ms(version: i16, input: &mut Reader) -> Result<i32, DecodeError>;
}

/// A request and the constants of its API.
pub trait Request: Message {
    const KEY: ApiKey;
    /// The lowest version that is defined here.
    const MIN_VERSION: i16;
    /// The highest version that is defined here.
    const MAX_VERSION: i16;
    /// The first version with compact lengths and tagged fields (KIP-482), or 99 if no version has them.
    const FLEXIBLE: i16;
    /// The response type.
    type Response: Message;
}

/// Defines each API: its number, module, request and response.
macro_rules! apis {
    ($($name:ident = $key:literal: $file:ident::{$request:ident, $response:ident},)*) => {
        $(pub use $file::{$request, $response};)*

        /// The APIs defined here, with Kafka's API keys.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i16)]
        #[allow(missing_docs, reason = "the protocol's own names")]
        pub enum ApiKey {
            $($name = $key,)*
        }

        impl ApiKey {
            /// All APIs.
            pub const ALL: &'static [ApiKey] = &[$(ApiKey::$name,)*];

            /// Returns the API with this key, if it is defined here.
            pub fn from_i16(key: i16) -> Option<Self> {
                match key {
                    $($key => Some(ApiKey::$name),)*
                    _ => None,
                }
            }

            /// Returns Kafka's name of the API.
            pub fn name(self) -> &'static str {
                match self {
                    $(ApiKey::$name => stringify!($name),)*
                }
            }

            fn first_flexible(self) -> i16 {
                match self {
                    $(ApiKey::$name => $request::FLEXIBLE,)*
                }
            }
        }
    };
}

apis! {
    Produce = 0: produce::{ProduceRequest, ProduceResponse},
    Fetch = 1: fetch::{FetchRequest, FetchResponse},
    ListOffsets = 2: list_offsets::{ListOffsetsRequest, ListOffsetsResponse},
    Metadata = 3: metadata::{MetadataRequest, MetadataResponse},
    OffsetCommit = 8: offset_commit::{OffsetCommitRequest, OffsetCommitResponse},
    OffsetFetch = 9: offset_fetch::{OffsetFetchRequest, OffsetFetchResponse},
    FindCoordinator = 10: find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse},
    JoinGroup = 11: join_group::{JoinGroupRequest, JoinGroupResponse},
    Heartbeat = 12: heartbeat::{HeartbeatRequest, HeartbeatResponse},
    LeaveGroup = 13: leave_group::{LeaveGroupRequest, LeaveGroupResponse},
    SyncGroup = 14: sync_group::{SyncGroupRequest, SyncGroupResponse},
    DescribeGroups = 15: describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse},
    ListGroups = 16: list_groups::{ListGroupsRequest, ListGroupsResponse},
    SaslHandshake = 17: sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse},
    ApiVersions = 18: api_versions::{ApiVersionsRequest, ApiVersionsResponse},
    CreateTopics = 19: create_topics::{CreateTopicsRequest, CreateTopicsResponse},
    DeleteTopics = 20: delete_topics::{DeleteTopicsRequest, DeleteTopicsResponse},
    DeleteRecords = 21: delete_records::{DeleteRecordsRequest, DeleteRecordsResponse},
    InitProducerId = 22: init_producer_id::{InitProducerIdRequest, InitProducerIdResponse},
    OffsetForLeaderEpoch = 23: offset_for_leader_epoch::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse},
    AddPartitionsToTxn = 24: add_partitions_to_txn::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse},
    AddOffsetsToTxn = 25: add_offsets_to_txn::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse},
    EndTxn = 26: end_txn::{EndTxnRequest, EndTxnResponse},
    WriteTxnMarkers = 27: write_txn_markers::{WriteTxnMarkersRequest, WriteTxnMarkersResponse},
    TxnOffsetCommit = 28: txn_offset_commit::{TxnOffsetCommitRequest, TxnOffsetCommitResponse},
    DescribeAcls = 29: describe_acls::{DescribeAclsRequest, DescribeAclsResponse},
    CreateAcls = 30: create_acls::{CreateAclsRequest, CreateAclsResponse},
    DeleteAcls = 31: delete_acls::{DeleteAclsRequest, DeleteAclsResponse},
    DescribeConfigs = 32: describe_configs::{DescribeConfigsRequest, DescribeConfigsResponse},
    AlterReplicaLogDirs = 34: alter_replica_log_dirs::{AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse},
    DescribeLogDirs = 35: describe_log_dirs::{DescribeLogDirsRequest, DescribeLogDirsResponse},
    SaslAuthenticate = 36: sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse},
    CreatePartitions = 37: create_partitions::{CreatePartitionsRequest, CreatePartitionsResponse},
    CreateDelegationToken = 38: create_delegation_token::{CreateDelegationTokenRequest, CreateDelegationTokenResponse},
    RenewDelegationToken = 39: renew_delegation_token::{RenewDelegationTokenRequest, RenewDelegationTokenResponse},
    ExpireDelegationToken = 40: expire_delegation_token::{ExpireDelegationTokenRequest, ExpireDelegationTokenResponse},
    DescribeDelegationToken = 41: describe_delegation_token::{DescribeDelegationTokenRequest, DescribeDelegationTokenResponse},
    DeleteGroups = 42: delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse},
    ElectLeaders = 43: elect_leaders::{ElectLeadersRequest, ElectLeadersResponse},
    IncrementalAlterConfigs = 44: incremental_alter_configs::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse},
    AlterPartitionReassignments = 45: alter_partition_reassignments::{AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse},
    ListPartitionReassignments = 46: list_partition_reassignments::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse},
    OffsetDelete = 47: offset_delete::{OffsetDeleteRequest, OffsetDeleteResponse},
    DescribeClientQuotas = 48: describe_client_quotas::{DescribeClientQuotasRequest, DescribeClientQuotasResponse},
    AlterClientQuotas = 49: alter_client_quotas::{AlterClientQuotasRequest, AlterClientQuotasResponse},
    DescribeUserScramCredentials = 50: describe_user_scram_credentials::{DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse},
    AlterUserScramCredentials = 51: alter_user_scram_credentials::{AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse},
    DescribeQuorum = 55: describe_quorum::{DescribeQuorumRequest, DescribeQuorumResponse},
    UpdateFeatures = 57: update_features::{UpdateFeaturesRequest, UpdateFeaturesResponse},
    DescribeCluster = 60: describe_cluster::{DescribeClusterRequest, DescribeClusterResponse},
    DescribeProducers = 61: describe_producers::{DescribeProducersRequest, DescribeProducersResponse},
    UnregisterBroker = 64: unregister_broker::{UnregisterBrokerRequest, UnregisterBrokerResponse},
    DescribeTransactions = 65: describe_transactions::{DescribeTransactionsRequest, DescribeTransactionsResponse},
    ListTransactions = 66: list_transactions::{ListTransactionsRequest, ListTransactionsResponse},
    ConsumerGroupHeartbeat = 68: consumer_group_heartbeat::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse},
    ConsumerGroupDescribe = 69: consumer_group_describe::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse},
    GetTelemetrySubscriptions = 71: get_telemetry_subscriptions::{GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse},
    PushTelemetry = 72: push_telemetry::{PushTelemetryRequest, PushTelemetryResponse},
    ListConfigResources = 74: list_config_resources::{ListConfigResourcesRequest, ListConfigResourcesResponse},
    DescribeTopicPartitions = 75: describe_topic_partitions::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse},
    ShareGroupHeartbeat = 76: share_group_heartbeat::{ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse},
    ShareGroupDescribe = 77: share_group_describe::{ShareGroupDescribeRequest, ShareGroupDescribeResponse},
    ShareFetch = 78: share_fetch::{ShareFetchRequest, ShareFetchResponse},
    ShareAcknowledge = 79: share_acknowledge::{ShareAcknowledgeRequest, ShareAcknowledgeResponse},
    AddRaftVoter = 80: add_raft_voter::{AddRaftVoterRequest, AddRaftVoterResponse},
    RemoveRaftVoter = 81: remove_raft_voter::{RemoveRaftVoterRequest, RemoveRaftVoterResponse},
    StreamsGroupDescribe = 89: streams_group_describe::{StreamsGroupDescribeRequest, StreamsGroupDescribeResponse},
    DescribeShareGroupOffsets = 90: describe_share_group_offsets::{DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse},
    AlterShareGroupOffsets = 91: alter_share_group_offsets::{AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse},
    DeleteShareGroupOffsets = 92: delete_share_group_offsets::{DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse},
    UnregisterController = 94: unregister_controller::{UnregisterControllerRequest, UnregisterControllerResponse},
}

impl ApiKey {
    /// Returns Kafka's API key.
    pub fn code(self) -> i16 {
        self as i16
    }

    /// Returns true if requests of this version have compact lengths and tagged fields (KIP-482).
    pub fn is_flexible(self, version: i16) -> bool {
        version >= self.first_flexible()
    }
}
