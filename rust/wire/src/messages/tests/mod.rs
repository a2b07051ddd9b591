//! Tests of all messages in all versions: round trips, hostile bytes, bytes from other clients, and comparison with an
//! independent codec.

mod conformance;
mod consumer_protocol;
mod hostile;
mod java;
mod oracle;
mod removed;
mod roundtrip;
mod security;

use std::fmt::Debug;
use std::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};

use super::arbitrary::{Arbitrary, Random};

use super::types::Cx;
use super::*;

/// Operations on a message under test.
trait Tested: Message + JsonMessage + Arbitrary + Debug + PartialEq {
    fn bytes(&self, version: i16) -> Bytes {
        let mut out = MessageBuf::new();
        self.encode(version, &mut out).unwrap();
        out.freeze()
    }

    /// Decodes a message. Fails if bytes remain after it.
    fn from_bytes_exact(version: i16, bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes.clone());
        let message = Self::decode(version, &mut input)?;
        input.finish()?;
        Ok(message)
    }
}

impl<M: Message + JsonMessage + Arbitrary + Debug + PartialEq> Tested for M {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Request,
    Response,
}

/// A check that is run on one message type in a range of versions.
trait Check {
    fn message<M: Tested>(&mut self, api: ApiKey, kind: Kind, flexible: i16, versions: RangeInclusive<i16>);
}

fn both<R: Request + Tested>(check: &mut impl Check)
where
    R::Response: Tested,
{
    check.message::<R>(R::KEY, Kind::Request, R::FLEXIBLE, R::MIN_VERSION..=R::MAX_VERSION);
    check.message::<R::Response>(R::KEY, Kind::Response, R::FLEXIBLE, R::MIN_VERSION..=R::MAX_VERSION);
}

/// Runs a check on one API.
fn check_api(api: ApiKey, check: &mut impl Check) {
    match api {
        ApiKey::Produce => both::<ProduceRequest>(check),
        ApiKey::Fetch => both::<FetchRequest>(check),
        ApiKey::ListOffsets => both::<ListOffsetsRequest>(check),
        ApiKey::Metadata => both::<MetadataRequest>(check),
        ApiKey::OffsetCommit => both::<OffsetCommitRequest>(check),
        ApiKey::OffsetFetch => both::<OffsetFetchRequest>(check),
        ApiKey::FindCoordinator => both::<FindCoordinatorRequest>(check),
        ApiKey::JoinGroup => both::<JoinGroupRequest>(check),
        ApiKey::Heartbeat => both::<HeartbeatRequest>(check),
        ApiKey::LeaveGroup => both::<LeaveGroupRequest>(check),
        ApiKey::SyncGroup => both::<SyncGroupRequest>(check),
        ApiKey::SaslHandshake => both::<SaslHandshakeRequest>(check),
        ApiKey::ApiVersions => both::<ApiVersionsRequest>(check),
        ApiKey::CreateTopics => both::<CreateTopicsRequest>(check),
        ApiKey::DeleteTopics => both::<DeleteTopicsRequest>(check),
        ApiKey::InitProducerId => both::<InitProducerIdRequest>(check),
        ApiKey::OffsetForLeaderEpoch => both::<OffsetForLeaderEpochRequest>(check),
        ApiKey::DescribeGroups => both::<DescribeGroupsRequest>(check),
        ApiKey::ListGroups => both::<ListGroupsRequest>(check),
        ApiKey::DeleteGroups => both::<DeleteGroupsRequest>(check),
        ApiKey::OffsetDelete => both::<OffsetDeleteRequest>(check),
        ApiKey::ConsumerGroupHeartbeat => both::<ConsumerGroupHeartbeatRequest>(check),
        ApiKey::ConsumerGroupDescribe => both::<ConsumerGroupDescribeRequest>(check),
        ApiKey::AddPartitionsToTxn => both::<AddPartitionsToTxnRequest>(check),
        ApiKey::AddOffsetsToTxn => both::<AddOffsetsToTxnRequest>(check),
        ApiKey::EndTxn => both::<EndTxnRequest>(check),
        ApiKey::WriteTxnMarkers => both::<WriteTxnMarkersRequest>(check),
        ApiKey::TxnOffsetCommit => both::<TxnOffsetCommitRequest>(check),
        ApiKey::SaslAuthenticate => both::<SaslAuthenticateRequest>(check),
        ApiKey::DescribeAcls => both::<DescribeAclsRequest>(check),
        ApiKey::CreateAcls => both::<CreateAclsRequest>(check),
        ApiKey::DeleteAcls => both::<DeleteAclsRequest>(check),
        ApiKey::CreateDelegationToken => both::<CreateDelegationTokenRequest>(check),
        ApiKey::RenewDelegationToken => both::<RenewDelegationTokenRequest>(check),
        ApiKey::ExpireDelegationToken => both::<ExpireDelegationTokenRequest>(check),
        ApiKey::DescribeDelegationToken => both::<DescribeDelegationTokenRequest>(check),
        ApiKey::DescribeUserScramCredentials => both::<DescribeUserScramCredentialsRequest>(check),
        ApiKey::AlterUserScramCredentials => both::<AlterUserScramCredentialsRequest>(check),
        ApiKey::DescribeProducers => both::<DescribeProducersRequest>(check),
        ApiKey::DescribeTransactions => both::<DescribeTransactionsRequest>(check),
        ApiKey::ListTransactions => both::<ListTransactionsRequest>(check),
        ApiKey::GetTelemetrySubscriptions => both::<GetTelemetrySubscriptionsRequest>(check),
        ApiKey::PushTelemetry => both::<PushTelemetryRequest>(check),
        ApiKey::DeleteRecords => both::<DeleteRecordsRequest>(check),
        ApiKey::DescribeConfigs => both::<DescribeConfigsRequest>(check),
        ApiKey::AlterReplicaLogDirs => both::<AlterReplicaLogDirsRequest>(check),
        ApiKey::DescribeLogDirs => both::<DescribeLogDirsRequest>(check),
        ApiKey::CreatePartitions => both::<CreatePartitionsRequest>(check),
        ApiKey::ElectLeaders => both::<ElectLeadersRequest>(check),
        ApiKey::IncrementalAlterConfigs => both::<IncrementalAlterConfigsRequest>(check),
        ApiKey::AlterPartitionReassignments => both::<AlterPartitionReassignmentsRequest>(check),
        ApiKey::ListPartitionReassignments => both::<ListPartitionReassignmentsRequest>(check),
        ApiKey::DescribeClientQuotas => both::<DescribeClientQuotasRequest>(check),
        ApiKey::AlterClientQuotas => both::<AlterClientQuotasRequest>(check),
        ApiKey::DescribeQuorum => both::<DescribeQuorumRequest>(check),
        ApiKey::UpdateFeatures => both::<UpdateFeaturesRequest>(check),
        ApiKey::DescribeCluster => both::<DescribeClusterRequest>(check),
        ApiKey::UnregisterBroker => both::<UnregisterBrokerRequest>(check),
        ApiKey::ListConfigResources => both::<ListConfigResourcesRequest>(check),
        ApiKey::DescribeTopicPartitions => both::<DescribeTopicPartitionsRequest>(check),
        ApiKey::ShareGroupHeartbeat => both::<ShareGroupHeartbeatRequest>(check),
        ApiKey::ShareGroupDescribe => both::<ShareGroupDescribeRequest>(check),
        ApiKey::ShareFetch => both::<ShareFetchRequest>(check),
        ApiKey::ShareAcknowledge => both::<ShareAcknowledgeRequest>(check),
        ApiKey::AddRaftVoter => both::<AddRaftVoterRequest>(check),
        ApiKey::RemoveRaftVoter => both::<RemoveRaftVoterRequest>(check),
        ApiKey::StreamsGroupDescribe => both::<StreamsGroupDescribeRequest>(check),
        ApiKey::DescribeShareGroupOffsets => both::<DescribeShareGroupOffsetsRequest>(check),
        ApiKey::AlterShareGroupOffsets => both::<AlterShareGroupOffsetsRequest>(check),
        ApiKey::DeleteShareGroupOffsets => both::<DeleteShareGroupOffsetsRequest>(check),
        ApiKey::UnregisterController => both::<UnregisterControllerRequest>(check),
    }
}

/// Runs a check on all APIs.
fn check_all(check: &mut impl Check) {
    for api in ApiKey::ALL {
        check_api(*api, check);
    }
}

fn sample<M: Tested>(version: i16, flexible: i16, seed: u64) -> M {
    M::arbitrary(Cx { version, flexible: version >= flexible }, false, &mut Random::new(seed))
}
