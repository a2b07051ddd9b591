//! Every request and response that Kafka 3.9 and 4.3 speak between them, one file an API.

#[macro_use]
mod macros;
#[cfg(any(test, feature = "arbitrary"))]
pub(crate) mod arbitrary;
#[cfg(feature = "arbitrary")]
pub mod formats;
#[cfg(any(test, feature = "json"))]
mod json;
mod out;
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
pub mod share_group_describe;
pub mod streams_group_describe;
pub mod sync_group;
pub mod txn_offset_commit;
pub mod unregister_broker;
pub mod update_features;
pub mod write_txn_markers;

#[cfg(test)]
mod tests;

#[cfg(any(test, feature = "json"))]
pub use json::{JsonError, JsonMessage};
pub use out::{Frame, Out};
pub use types::{DecodeError, DecodeErrorKind, EncodeError, Hidden, Reader, Uuid};

pub use add_offsets_to_txn::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};
pub use add_partitions_to_txn::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};
pub use add_raft_voter::{AddRaftVoterRequest, AddRaftVoterResponse};
pub use alter_client_quotas::{AlterClientQuotasRequest, AlterClientQuotasResponse};
pub use alter_partition_reassignments::{AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse};
pub use alter_replica_log_dirs::{AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse};
pub use alter_share_group_offsets::{AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse};
pub use alter_user_scram_credentials::{AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse};
pub use api_versions::{ApiVersionsRequest, ApiVersionsResponse};
pub use consumer_group_describe::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse};
pub use consumer_group_heartbeat::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
pub use consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, StickyUserData};
pub use create_acls::{CreateAclsRequest, CreateAclsResponse};
pub use create_delegation_token::{CreateDelegationTokenRequest, CreateDelegationTokenResponse};
pub use create_partitions::{CreatePartitionsRequest, CreatePartitionsResponse};
pub use create_topics::{CreateTopicsRequest, CreateTopicsResponse};
pub use delete_acls::{DeleteAclsRequest, DeleteAclsResponse};
pub use delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
pub use delete_records::{DeleteRecordsRequest, DeleteRecordsResponse};
pub use delete_share_group_offsets::{DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse};
pub use delete_topics::{DeleteTopicsRequest, DeleteTopicsResponse};
pub use describe_acls::{DescribeAclsRequest, DescribeAclsResponse};
pub use describe_client_quotas::{DescribeClientQuotasRequest, DescribeClientQuotasResponse};
pub use describe_cluster::{DescribeClusterRequest, DescribeClusterResponse};
pub use describe_configs::{DescribeConfigsRequest, DescribeConfigsResponse};
pub use describe_delegation_token::{DescribeDelegationTokenRequest, DescribeDelegationTokenResponse};
pub use describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse};
pub use describe_log_dirs::{DescribeLogDirsRequest, DescribeLogDirsResponse};
pub use describe_producers::{DescribeProducersRequest, DescribeProducersResponse};
pub use describe_quorum::{DescribeQuorumRequest, DescribeQuorumResponse};
pub use describe_share_group_offsets::{DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse};
pub use describe_topic_partitions::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse};
pub use describe_transactions::{DescribeTransactionsRequest, DescribeTransactionsResponse};
pub use describe_user_scram_credentials::{DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse};
pub use elect_leaders::{ElectLeadersRequest, ElectLeadersResponse};
pub use end_txn::{EndTxnRequest, EndTxnResponse};
pub use expire_delegation_token::{ExpireDelegationTokenRequest, ExpireDelegationTokenResponse};
pub use fetch::{FetchRequest, FetchResponse};
pub use fetch_stream::{FetchEvent, FetchParser};
pub use find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
pub use get_telemetry_subscriptions::{GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse};
pub use heartbeat::{HeartbeatRequest, HeartbeatResponse};
pub use incremental_alter_configs::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};
pub use init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
pub use join_group::{JoinGroupRequest, JoinGroupResponse};
pub use leave_group::{LeaveGroupRequest, LeaveGroupResponse};
pub use list_config_resources::{ListConfigResourcesRequest, ListConfigResourcesResponse};
pub use list_groups::{ListGroupsRequest, ListGroupsResponse};
pub use list_offsets::{ListOffsetsRequest, ListOffsetsResponse};
pub use list_partition_reassignments::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};
pub use list_transactions::{ListTransactionsRequest, ListTransactionsResponse};
pub use metadata::{MetadataRequest, MetadataResponse};
pub use offset_commit::{OffsetCommitRequest, OffsetCommitResponse};
pub use offset_delete::{OffsetDeleteRequest, OffsetDeleteResponse};
pub use offset_fetch::{OffsetFetchRequest, OffsetFetchResponse};
pub use offset_for_leader_epoch::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
pub use produce::{ProduceRequest, ProduceResponse};
pub use push_telemetry::{PushTelemetryRequest, PushTelemetryResponse};
pub use remove_raft_voter::{RemoveRaftVoterRequest, RemoveRaftVoterResponse};
pub use renew_delegation_token::{RenewDelegationTokenRequest, RenewDelegationTokenResponse};
pub use sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse};
pub use sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};
pub use share_group_describe::{ShareGroupDescribeRequest, ShareGroupDescribeResponse};
pub use streams_group_describe::{StreamsGroupDescribeRequest, StreamsGroupDescribeResponse};
pub use sync_group::{SyncGroupRequest, SyncGroupResponse};
pub use txn_offset_commit::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};
pub use unregister_broker::{UnregisterBrokerRequest, UnregisterBrokerResponse};
pub use update_features::{UpdateFeaturesRequest, UpdateFeaturesResponse};
pub use write_txn_markers::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};

/// A request or a response.
pub trait Message: Sized + Default {
    /// Appends the message to `out` as `version` has it.
    fn encode(&self, version: i16, out: &mut Out) -> Result<(), EncodeError>;
    /// Reads a message of `version`; bytes after it are left in `input`.
    fn decode(version: i16, input: &mut Reader) -> Result<Self, DecodeError>;
    /// How long the broker asks to be left alone (KIP-219), 0 where a message cannot say so.
    fn throttle_time_ms(&self) -> i32;
}

/// A request, which knows its API and its response.
pub trait Request: Message {
    /// The API.
    const KEY: ApiKey;
    /// The lowest version that is defined here.
    const MIN_VERSION: i16;
    /// The highest version that is defined here.
    const MAX_VERSION: i16;
    /// The first version with compact lengths and tagged fields (KIP-482), 99 where there is none.
    const FLEXIBLE: i16;
    /// What a broker answers.
    type Response: Message;
}

macro_rules! api_keys {
    ($($name:ident = $key:literal,)*) => {
        /// The APIs that are defined here, by Kafka's numbers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i16)]
        #[allow(missing_docs, reason = "the protocol's own names")]
        pub enum ApiKey {
            $($name = $key,)*
        }

        impl ApiKey {
            /// All of them.
            pub const ALL: &'static [ApiKey] = &[$(ApiKey::$name,)*];

            /// The API of a number, if it is defined here.
            pub fn from_i16(key: i16) -> Option<Self> {
                match key {
                    $($key => Some(ApiKey::$name),)*
                    _ => None,
                }
            }

            /// Kafka's name of the API.
            pub fn name(self) -> &'static str {
                match self {
                    $(ApiKey::$name => stringify!($name),)*
                }
            }
        }
    };
}

api_keys! {
    Produce = 0,
    Fetch = 1,
    ListOffsets = 2,
    Metadata = 3,
    OffsetCommit = 8,
    OffsetFetch = 9,
    FindCoordinator = 10,
    JoinGroup = 11,
    Heartbeat = 12,
    LeaveGroup = 13,
    SyncGroup = 14,
    DescribeGroups = 15,
    ListGroups = 16,
    SaslHandshake = 17,
    ApiVersions = 18,
    CreateTopics = 19,
    DeleteTopics = 20,
    DeleteRecords = 21,
    InitProducerId = 22,
    OffsetForLeaderEpoch = 23,
    AddPartitionsToTxn = 24,
    AddOffsetsToTxn = 25,
    EndTxn = 26,
    WriteTxnMarkers = 27,
    TxnOffsetCommit = 28,
    DescribeAcls = 29,
    CreateAcls = 30,
    DeleteAcls = 31,
    DescribeConfigs = 32,
    AlterReplicaLogDirs = 34,
    DescribeLogDirs = 35,
    SaslAuthenticate = 36,
    CreatePartitions = 37,
    CreateDelegationToken = 38,
    RenewDelegationToken = 39,
    ExpireDelegationToken = 40,
    DescribeDelegationToken = 41,
    DeleteGroups = 42,
    ElectLeaders = 43,
    IncrementalAlterConfigs = 44,
    AlterPartitionReassignments = 45,
    ListPartitionReassignments = 46,
    OffsetDelete = 47,
    DescribeClientQuotas = 48,
    AlterClientQuotas = 49,
    DescribeUserScramCredentials = 50,
    AlterUserScramCredentials = 51,
    DescribeQuorum = 55,
    UpdateFeatures = 57,
    DescribeCluster = 60,
    DescribeProducers = 61,
    UnregisterBroker = 64,
    DescribeTransactions = 65,
    ListTransactions = 66,
    ConsumerGroupHeartbeat = 68,
    ConsumerGroupDescribe = 69,
    GetTelemetrySubscriptions = 71,
    PushTelemetry = 72,
    ListConfigResources = 74,
    DescribeTopicPartitions = 75,
    ShareGroupDescribe = 77,
    AddRaftVoter = 80,
    RemoveRaftVoter = 81,
    StreamsGroupDescribe = 89,
    DescribeShareGroupOffsets = 90,
    AlterShareGroupOffsets = 91,
    DeleteShareGroupOffsets = 92,
}

impl ApiKey {
    /// Kafka's number of the API.
    pub fn code(self) -> i16 {
        self as i16
    }

    /// Whether requests of this version have compact lengths and tagged fields (KIP-482).
    pub fn is_flexible(self, version: i16) -> bool {
        version >= self.first_flexible()
    }

    fn first_flexible(self) -> i16 {
        match self {
            ApiKey::Produce => ProduceRequest::FLEXIBLE,
            ApiKey::Fetch => FetchRequest::FLEXIBLE,
            ApiKey::ListOffsets => ListOffsetsRequest::FLEXIBLE,
            ApiKey::Metadata => MetadataRequest::FLEXIBLE,
            ApiKey::OffsetCommit => OffsetCommitRequest::FLEXIBLE,
            ApiKey::OffsetFetch => OffsetFetchRequest::FLEXIBLE,
            ApiKey::FindCoordinator => FindCoordinatorRequest::FLEXIBLE,
            ApiKey::JoinGroup => JoinGroupRequest::FLEXIBLE,
            ApiKey::SyncGroup => SyncGroupRequest::FLEXIBLE,
            ApiKey::Heartbeat => HeartbeatRequest::FLEXIBLE,
            ApiKey::LeaveGroup => LeaveGroupRequest::FLEXIBLE,
            ApiKey::InitProducerId => InitProducerIdRequest::FLEXIBLE,
            ApiKey::OffsetForLeaderEpoch => OffsetForLeaderEpochRequest::FLEXIBLE,
            ApiKey::CreateTopics => CreateTopicsRequest::FLEXIBLE,
            ApiKey::DeleteTopics => DeleteTopicsRequest::FLEXIBLE,
            ApiKey::SaslHandshake => SaslHandshakeRequest::FLEXIBLE,
            ApiKey::ApiVersions => ApiVersionsRequest::FLEXIBLE,
            ApiKey::DescribeGroups => DescribeGroupsRequest::FLEXIBLE,
            ApiKey::ListGroups => ListGroupsRequest::FLEXIBLE,
            ApiKey::DeleteGroups => DeleteGroupsRequest::FLEXIBLE,
            ApiKey::OffsetDelete => OffsetDeleteRequest::FLEXIBLE,
            ApiKey::ConsumerGroupHeartbeat => ConsumerGroupHeartbeatRequest::FLEXIBLE,
            ApiKey::ConsumerGroupDescribe => ConsumerGroupDescribeRequest::FLEXIBLE,
            ApiKey::AddPartitionsToTxn => AddPartitionsToTxnRequest::FLEXIBLE,
            ApiKey::AddOffsetsToTxn => AddOffsetsToTxnRequest::FLEXIBLE,
            ApiKey::EndTxn => EndTxnRequest::FLEXIBLE,
            ApiKey::WriteTxnMarkers => WriteTxnMarkersRequest::FLEXIBLE,
            ApiKey::TxnOffsetCommit => TxnOffsetCommitRequest::FLEXIBLE,
            ApiKey::SaslAuthenticate => SaslAuthenticateRequest::FLEXIBLE,
            ApiKey::DescribeAcls => DescribeAclsRequest::FLEXIBLE,
            ApiKey::CreateAcls => CreateAclsRequest::FLEXIBLE,
            ApiKey::DeleteAcls => DeleteAclsRequest::FLEXIBLE,
            ApiKey::CreateDelegationToken => CreateDelegationTokenRequest::FLEXIBLE,
            ApiKey::RenewDelegationToken => RenewDelegationTokenRequest::FLEXIBLE,
            ApiKey::ExpireDelegationToken => ExpireDelegationTokenRequest::FLEXIBLE,
            ApiKey::DescribeDelegationToken => DescribeDelegationTokenRequest::FLEXIBLE,
            ApiKey::DescribeUserScramCredentials => DescribeUserScramCredentialsRequest::FLEXIBLE,
            ApiKey::AlterUserScramCredentials => AlterUserScramCredentialsRequest::FLEXIBLE,
            ApiKey::DescribeProducers => DescribeProducersRequest::FLEXIBLE,
            ApiKey::DescribeTransactions => DescribeTransactionsRequest::FLEXIBLE,
            ApiKey::ListTransactions => ListTransactionsRequest::FLEXIBLE,
            ApiKey::GetTelemetrySubscriptions => GetTelemetrySubscriptionsRequest::FLEXIBLE,
            ApiKey::PushTelemetry => PushTelemetryRequest::FLEXIBLE,
            ApiKey::DeleteRecords => DeleteRecordsRequest::FLEXIBLE,
            ApiKey::DescribeConfigs => DescribeConfigsRequest::FLEXIBLE,
            ApiKey::AlterReplicaLogDirs => AlterReplicaLogDirsRequest::FLEXIBLE,
            ApiKey::DescribeLogDirs => DescribeLogDirsRequest::FLEXIBLE,
            ApiKey::CreatePartitions => CreatePartitionsRequest::FLEXIBLE,
            ApiKey::ElectLeaders => ElectLeadersRequest::FLEXIBLE,
            ApiKey::IncrementalAlterConfigs => IncrementalAlterConfigsRequest::FLEXIBLE,
            ApiKey::AlterPartitionReassignments => AlterPartitionReassignmentsRequest::FLEXIBLE,
            ApiKey::ListPartitionReassignments => ListPartitionReassignmentsRequest::FLEXIBLE,
            ApiKey::DescribeClientQuotas => DescribeClientQuotasRequest::FLEXIBLE,
            ApiKey::AlterClientQuotas => AlterClientQuotasRequest::FLEXIBLE,
            ApiKey::DescribeQuorum => DescribeQuorumRequest::FLEXIBLE,
            ApiKey::UpdateFeatures => UpdateFeaturesRequest::FLEXIBLE,
            ApiKey::DescribeCluster => DescribeClusterRequest::FLEXIBLE,
            ApiKey::UnregisterBroker => UnregisterBrokerRequest::FLEXIBLE,
            ApiKey::ListConfigResources => ListConfigResourcesRequest::FLEXIBLE,
            ApiKey::DescribeTopicPartitions => DescribeTopicPartitionsRequest::FLEXIBLE,
            ApiKey::ShareGroupDescribe => ShareGroupDescribeRequest::FLEXIBLE,
            ApiKey::AddRaftVoter => AddRaftVoterRequest::FLEXIBLE,
            ApiKey::RemoveRaftVoter => RemoveRaftVoterRequest::FLEXIBLE,
            ApiKey::StreamsGroupDescribe => StreamsGroupDescribeRequest::FLEXIBLE,
            ApiKey::DescribeShareGroupOffsets => DescribeShareGroupOffsetsRequest::FLEXIBLE,
            ApiKey::AlterShareGroupOffsets => AlterShareGroupOffsetsRequest::FLEXIBLE,
            ApiKey::DeleteShareGroupOffsets => DeleteShareGroupOffsetsRequest::FLEXIBLE,
        }
    }
}
