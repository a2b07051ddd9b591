//! Comparison with the kafka-protocol crate, which must decode our bytes and encode the same bytes again.

use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, Encodable, Message as TheirMessage};

use super::*;

/// Decodes our bytes with kafka-protocol and encodes the message with it again. The result must equal our bytes.
/// Returns the number of versions.
pub(super) fn agree<Ours: Tested, Theirs: TheirMessage + Decodable + Encodable + Debug>(
    api: ApiKey,
    flexible: i16,
    max: i16,
) -> usize {
    let versions = Theirs::VERSIONS.min..=Theirs::VERSIONS.max.min(max);
    for version in versions.clone() {
        for seed in 0..24 {
            let bytes = sample::<Ours>(version, flexible, seed).bytes(version);
            let what = format!("{api:?} v{version}, seed {seed}");
            let mut input = bytes.clone();
            let read = Theirs::decode(&mut input, version).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(input.is_empty(), "{what}: {} bytes are left", input.len());
            // kafka-protocol keeps an unknown tag and encodes it again, which would hide a wrong tag. Therefore only
            // the tag 90, which the tests add on purpose, may be unknown to it.
            for unknown in format!("{read:?}").split("unknown_tagged_fields: {").skip(1) {
                assert!(unknown.starts_with('}') || unknown.starts_with("90: "), "{what}: {read:?}");
            }
            let mut out = BytesMut::new();
            read.encode(&mut out, version).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(out.freeze(), bytes, "{what}");
        }
    }
    versions.count()
}

macro_rules! oracle {
    ($($request:ident => $response:ident,)*) => {
        #[test]
        fn kafka_protocol_agrees() {
            let mut versions = 0;
            $(
                let (api, flexible, max) = ($request::KEY, $request::FLEXIBLE, $request::MAX_VERSION);
                versions += agree::<$request, theirs::$request>(api, flexible, max);
                versions += agree::<$response, theirs::$response>(api, flexible, max);
            )*
            eprintln!("kafka-protocol agrees on {versions} versions of messages");
            assert!(versions > 200, "only {versions}");
        }
    };
}

oracle! {
    ProduceRequest => ProduceResponse,
    FetchRequest => FetchResponse,
    ListOffsetsRequest => ListOffsetsResponse,
    MetadataRequest => MetadataResponse,
    OffsetCommitRequest => OffsetCommitResponse,
    OffsetFetchRequest => OffsetFetchResponse,
    FindCoordinatorRequest => FindCoordinatorResponse,
    JoinGroupRequest => JoinGroupResponse,
    HeartbeatRequest => HeartbeatResponse,
    LeaveGroupRequest => LeaveGroupResponse,
    SyncGroupRequest => SyncGroupResponse,
    SaslHandshakeRequest => SaslHandshakeResponse,
    ApiVersionsRequest => ApiVersionsResponse,
    CreateTopicsRequest => CreateTopicsResponse,
    DeleteTopicsRequest => DeleteTopicsResponse,
    InitProducerIdRequest => InitProducerIdResponse,
    OffsetForLeaderEpochRequest => OffsetForLeaderEpochResponse,
    DescribeGroupsRequest => DescribeGroupsResponse,
    ListGroupsRequest => ListGroupsResponse,
    DeleteGroupsRequest => DeleteGroupsResponse,
    OffsetDeleteRequest => OffsetDeleteResponse,
    ConsumerGroupHeartbeatRequest => ConsumerGroupHeartbeatResponse,
    ConsumerGroupDescribeRequest => ConsumerGroupDescribeResponse,
    AddPartitionsToTxnRequest => AddPartitionsToTxnResponse,
    AddOffsetsToTxnRequest => AddOffsetsToTxnResponse,
    EndTxnRequest => EndTxnResponse,
    WriteTxnMarkersRequest => WriteTxnMarkersResponse,
    TxnOffsetCommitRequest => TxnOffsetCommitResponse,
    SaslAuthenticateRequest => SaslAuthenticateResponse,
    DescribeAclsRequest => DescribeAclsResponse,
    CreateAclsRequest => CreateAclsResponse,
    DeleteAclsRequest => DeleteAclsResponse,
    CreateDelegationTokenRequest => CreateDelegationTokenResponse,
    RenewDelegationTokenRequest => RenewDelegationTokenResponse,
    ExpireDelegationTokenRequest => ExpireDelegationTokenResponse,
    DescribeDelegationTokenRequest => DescribeDelegationTokenResponse,
    DescribeUserScramCredentialsRequest => DescribeUserScramCredentialsResponse,
    AlterUserScramCredentialsRequest => AlterUserScramCredentialsResponse,
    DescribeProducersRequest => DescribeProducersResponse,
    DescribeTransactionsRequest => DescribeTransactionsResponse,
    ListTransactionsRequest => ListTransactionsResponse,
    GetTelemetrySubscriptionsRequest => GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest => PushTelemetryResponse,
    DeleteRecordsRequest => DeleteRecordsResponse,
    DescribeConfigsRequest => DescribeConfigsResponse,
    AlterReplicaLogDirsRequest => AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest => DescribeLogDirsResponse,
    CreatePartitionsRequest => CreatePartitionsResponse,
    ElectLeadersRequest => ElectLeadersResponse,
    IncrementalAlterConfigsRequest => IncrementalAlterConfigsResponse,
    AlterPartitionReassignmentsRequest => AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest => ListPartitionReassignmentsResponse,
    DescribeClientQuotasRequest => DescribeClientQuotasResponse,
    AlterClientQuotasRequest => AlterClientQuotasResponse,
    DescribeQuorumRequest => DescribeQuorumResponse,
    UpdateFeaturesRequest => UpdateFeaturesResponse,
    DescribeClusterRequest => DescribeClusterResponse,
    UnregisterBrokerRequest => UnregisterBrokerResponse,
    ListConfigResourcesRequest => ListConfigResourcesResponse,
    DescribeTopicPartitionsRequest => DescribeTopicPartitionsResponse,
    ShareGroupHeartbeatRequest => ShareGroupHeartbeatResponse,
    ShareGroupDescribeRequest => ShareGroupDescribeResponse,
    ShareFetchRequest => ShareFetchResponse,
    ShareAcknowledgeRequest => ShareAcknowledgeResponse,
    AddRaftVoterRequest => AddRaftVoterResponse,
    RemoveRaftVoterRequest => RemoveRaftVoterResponse,
    DescribeShareGroupOffsetsRequest => DescribeShareGroupOffsetsResponse,
    AlterShareGroupOffsetsRequest => AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest => DeleteShareGroupOffsetsResponse,
}
