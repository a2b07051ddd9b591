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
pub mod api_versions;
pub mod consumer_group_describe;
pub mod consumer_group_heartbeat;
pub mod consumer_protocol;
pub mod create_topics;
pub mod delete_groups;
pub mod delete_topics;
pub mod describe_groups;
pub mod describe_producers;
pub mod describe_transactions;
pub mod end_txn;
pub mod fetch;
pub mod fetch_stream;
pub mod find_coordinator;
pub mod heartbeat;
pub mod init_producer_id;
pub mod join_group;
pub mod leave_group;
pub mod list_groups;
pub mod list_offsets;
pub mod list_transactions;
pub mod metadata;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod offset_for_leader_epoch;
pub mod produce;
pub mod sync_group;
pub mod txn_offset_commit;
pub mod write_txn_markers;

#[cfg(test)]
mod tests;

#[cfg(any(test, feature = "json"))]
pub use json::{JsonError, JsonMessage};
pub use out::{Frame, Out};
pub use types::{DecodeError, DecodeErrorKind, EncodeError, Reader, Uuid};

pub use add_offsets_to_txn::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};
pub use add_partitions_to_txn::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};
pub use api_versions::{ApiVersionsRequest, ApiVersionsResponse};
pub use consumer_group_describe::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse};
pub use consumer_group_heartbeat::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
pub use consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, StickyUserData};
pub use create_topics::{CreateTopicsRequest, CreateTopicsResponse};
pub use delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
pub use delete_topics::{DeleteTopicsRequest, DeleteTopicsResponse};
pub use describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse};
pub use describe_producers::{DescribeProducersRequest, DescribeProducersResponse};
pub use describe_transactions::{DescribeTransactionsRequest, DescribeTransactionsResponse};
pub use end_txn::{EndTxnRequest, EndTxnResponse};
pub use fetch::{FetchRequest, FetchResponse};
pub use fetch_stream::{FetchEvent, FetchParser};
pub use find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
pub use heartbeat::{HeartbeatRequest, HeartbeatResponse};
pub use init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
pub use join_group::{JoinGroupRequest, JoinGroupResponse};
pub use leave_group::{LeaveGroupRequest, LeaveGroupResponse};
pub use list_groups::{ListGroupsRequest, ListGroupsResponse};
pub use list_offsets::{ListOffsetsRequest, ListOffsetsResponse};
pub use list_transactions::{ListTransactionsRequest, ListTransactionsResponse};
pub use metadata::{MetadataRequest, MetadataResponse};
pub use offset_commit::{OffsetCommitRequest, OffsetCommitResponse};
pub use offset_delete::{OffsetDeleteRequest, OffsetDeleteResponse};
pub use offset_fetch::{OffsetFetchRequest, OffsetFetchResponse};
pub use offset_for_leader_epoch::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
pub use produce::{ProduceRequest, ProduceResponse};
pub use sync_group::{SyncGroupRequest, SyncGroupResponse};
pub use txn_offset_commit::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};
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
    ApiVersions = 18,
    CreateTopics = 19,
    DeleteTopics = 20,
    InitProducerId = 22,
    OffsetForLeaderEpoch = 23,
    AddPartitionsToTxn = 24,
    AddOffsetsToTxn = 25,
    EndTxn = 26,
    WriteTxnMarkers = 27,
    TxnOffsetCommit = 28,
    DeleteGroups = 42,
    OffsetDelete = 47,
    DescribeProducers = 61,
    DescribeTransactions = 65,
    ListTransactions = 66,
    ConsumerGroupHeartbeat = 68,
    ConsumerGroupDescribe = 69,
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
            ApiKey::DescribeProducers => DescribeProducersRequest::FLEXIBLE,
            ApiKey::DescribeTransactions => DescribeTransactionsRequest::FLEXIBLE,
            ApiKey::ListTransactions => ListTransactionsRequest::FLEXIBLE,
        }
    }
}
