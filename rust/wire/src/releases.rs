//! API versions of all Kafka releases since 0.8.2.
//!
//! The table was made from ApiVersions responses of real brokers, and from the history of Kafka's message definitions
//! for the releases in between. Clients use the table for brokers that do not support ApiVersions, and to name the
//! Kafka release that a request needs. The embedded broker uses it to imitate a release.

use std::fmt;

use crate::messages::ApiKey;

/// A release of Kafka. 2.8 stands for all 2.8.x, and 0.10.2 for all 0.10.2.x.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release(u8, u8, u8);

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Release(0, minor, patch) => write!(f, "0.{minor}.{patch}"),
            Release(major, minor, _) => write!(f, "{major}.{minor}"),
        }
    }
}

impl Release {
    /// Release with topics, records and offsets, but without groups and ApiVersions.
    pub const V0_8_2: Release = Release(0, 8, 2);
    /// First release with groups.
    pub const V0_9_0: Release = Release(0, 9, 0);
    /// First release with ApiVersions (KIP-35) and timestamps (KIP-32).
    pub const V0_10_0: Release = Release(0, 10, 0);
    /// First release with offsets by time (KIP-79) and CreateTopics (KIP-4).
    pub const V0_10_1: Release = Release(0, 10, 1);
    /// Last release without record batches.
    pub const V0_10_2: Release = Release(0, 10, 2);
    /// First release with record batches, idempotence and transactions (KIP-98).
    pub const V0_11_0: Release = Release(0, 11, 0);
    /// First release with OAUTHBEARER (KIP-255).
    pub const V2_0: Release = Release(2, 0, 0);
    /// First release with session expiry (KIP-368).
    pub const V2_2: Release = Release(2, 2, 0);
    /// First release in which the default maximum session timeout is half an hour.
    pub const V2_3: Release = Release(2, 3, 0);
    /// First release with flexible versions (KIP-482), and defaults for new topics (KIP-464).
    pub const V2_4: Release = Release(2, 4, 0);
    /// First release that advertises ConsumerGroupHeartbeat, but rejects it unless the feature is enabled on the
    /// broker.
    pub const V3_7: Release = Release(3, 7, 0);
    /// First release with KIP-848 groups and transaction features by default. The release removes the oldest API
    /// versions (KIP-896).
    pub const V4_0: Release = Release(4, 0, 0);
    /// First release with share groups, as a preview that has to be enabled (KIP-932).
    pub const V4_1: Release = Release(4, 1, 0);
    /// First release with share groups by default.
    pub const V4_2: Release = Release(4, 2, 0);

    /// All releases, oldest first.
    pub const ALL: &'static [Release] = &[
        Release(0, 8, 2),
        Release(0, 9, 0),
        Release(0, 10, 0),
        Release(0, 10, 1),
        Release(0, 10, 2),
        Release(0, 11, 0),
        Release(1, 0, 0),
        Release(1, 1, 0),
        Release(2, 0, 0),
        Release(2, 1, 0),
        Release(2, 2, 0),
        Release(2, 3, 0),
        Release(2, 4, 0),
        Release(2, 5, 0),
        Release(2, 6, 0),
        Release(2, 7, 0),
        Release(2, 8, 0),
        Release(3, 0, 0),
        Release(3, 1, 0),
        Release(3, 2, 0),
        Release(3, 3, 0),
        Release(3, 4, 0),
        Release(3, 5, 0),
        Release(3, 6, 0),
        Release(3, 7, 0),
        Release(3, 8, 0),
        Release(3, 9, 0),
        Release(4, 0, 0),
        Release(4, 1, 0),
        Release(4, 2, 0),
        Release(4, 3, 0),
        Release(4, 4, 0),
    ];

    /// Returns the release of a Kafka version such as `2.8`, `2.8.2`, `0.9` or `0.10.2.1`.
    pub fn named(version: &str) -> Option<Release> {
        let parts: Option<Vec<u8>> = version.trim().split('.').map(|part| part.parse().ok()).collect();
        let release = match *parts?.as_slice() {
            [0, minor] => Release(0, minor, 0),
            [0, minor, patch] | [0, minor, patch, _] => Release(0, minor, patch),
            [major, minor] | [major, minor, _] => Release(major, minor, 0),
            _ => return None,
        };
        Self::ALL.iter().copied().find(|known| *known == release)
    }

    /// Returns the first and last version of an API in this release, or `None` if the release does not support the API.
    pub fn versions(self, key: ApiKey) -> Option<(i16, i16)> {
        let rows = API_VERSIONS.iter().find(|(api, _)| *api == key).map(|(_, rows)| *rows)?;
        rows.iter().rev().find(|(since, _)| *since <= self).map(|(_, range)| *range)
    }

    /// Returns the first release that supports this version of an API.
    pub fn first_with(key: ApiKey, version: i16) -> Option<Release> {
        let speaks = |release: &&Release| release.versions(key).is_some_and(|(_, last)| last >= version);
        Self::ALL.iter().find(speaks).copied()
    }
}

/// The release that changed the versions of an API, and the first and last version from this release on.
type Row = (Release, (i16, i16));

/// Versions of each API, by the release that changed them. If brokers with ZooKeeper and with KRaft differ, the table
/// has the versions of brokers with ZooKeeper: KRaft supports SCRAM only since 3.5 and delegation tokens only since
/// 3.6.
#[rustfmt::skip]
const API_VERSIONS: &[(ApiKey, &[Row])] = &[
    (ApiKey::Produce, &[
        (Release(0, 8, 2), (0, 0)), (Release(0, 9, 0), (0, 1)), (Release(0, 10, 0), (0, 2)),
        (Release(0, 11, 0), (0, 3)), (Release(1, 0, 0), (0, 5)), (Release(2, 0, 0), (0, 6)),
        (Release(2, 1, 0), (0, 7)), (Release(2, 4, 0), (0, 8)), (Release(2, 8, 0), (0, 9)),
        (Release(3, 7, 0), (0, 10)), (Release(3, 8, 0), (0, 11)), (Release(4, 0, 0), (0, 12)),
        (Release(4, 1, 0), (0, 13)),
    ]),
    (ApiKey::Fetch, &[
        (Release(0, 8, 2), (0, 0)), (Release(0, 9, 0), (0, 1)), (Release(0, 10, 0), (0, 2)),
        (Release(0, 10, 1), (0, 3)), (Release(0, 11, 0), (0, 5)), (Release(1, 0, 0), (0, 6)),
        (Release(1, 1, 0), (0, 7)), (Release(2, 0, 0), (0, 8)), (Release(2, 1, 0), (0, 10)),
        (Release(2, 3, 0), (0, 11)), (Release(2, 7, 0), (0, 12)), (Release(3, 1, 0), (0, 13)),
        (Release(3, 5, 0), (0, 15)), (Release(3, 7, 0), (0, 16)), (Release(3, 9, 0), (0, 17)),
        (Release(4, 0, 0), (4, 17)), (Release(4, 1, 0), (4, 18)),
    ]),
    (ApiKey::ListOffsets, &[
        (Release(0, 8, 2), (0, 0)), (Release(0, 10, 1), (0, 1)), (Release(0, 11, 0), (0, 2)),
        (Release(2, 0, 0), (0, 3)), (Release(2, 1, 0), (0, 4)), (Release(2, 2, 0), (0, 5)),
        (Release(2, 8, 0), (0, 6)), (Release(3, 0, 0), (0, 7)), (Release(3, 5, 0), (0, 8)),
        (Release(3, 9, 0), (0, 9)), (Release(4, 0, 0), (1, 10)), (Release(4, 2, 0), (1, 11)),
    ]),
    (ApiKey::Metadata, &[
        (Release(0, 8, 2), (0, 0)), (Release(0, 10, 0), (0, 1)), (Release(0, 10, 1), (0, 2)),
        (Release(0, 11, 0), (0, 4)), (Release(1, 0, 0), (0, 5)), (Release(2, 0, 0), (0, 6)),
        (Release(2, 1, 0), (0, 7)), (Release(2, 3, 0), (0, 8)), (Release(2, 4, 0), (0, 9)),
        (Release(2, 8, 0), (0, 11)), (Release(3, 1, 0), (0, 12)), (Release(4, 0, 0), (0, 13)),
    ]),
    (ApiKey::OffsetCommit, &[
        (Release(0, 8, 2), (0, 1)), (Release(0, 9, 0), (0, 2)), (Release(0, 11, 0), (0, 3)),
        (Release(2, 0, 0), (0, 4)), (Release(2, 1, 0), (0, 6)), (Release(2, 3, 0), (0, 7)),
        (Release(2, 4, 0), (0, 8)), (Release(3, 7, 0), (0, 9)), (Release(4, 0, 0), (2, 9)),
        (Release(4, 2, 0), (2, 10)),
    ]),
    (ApiKey::OffsetFetch, &[
        (Release(0, 8, 2), (0, 1)), (Release(0, 10, 2), (0, 2)), (Release(0, 11, 0), (0, 3)),
        (Release(2, 0, 0), (0, 4)), (Release(2, 1, 0), (0, 5)), (Release(2, 4, 0), (0, 6)), (Release(2, 5, 0), (0, 7)),
        (Release(3, 0, 0), (0, 8)), (Release(3, 7, 0), (0, 9)), (Release(4, 0, 0), (1, 9)),
        (Release(4, 2, 0), (1, 10)),
    ]),
    (ApiKey::FindCoordinator, &[
        (Release(0, 8, 2), (0, 0)), (Release(0, 11, 0), (0, 1)), (Release(2, 0, 0), (0, 2)),
        (Release(2, 4, 0), (0, 3)), (Release(3, 0, 0), (0, 4)), (Release(3, 8, 0), (0, 5)),
        (Release(3, 9, 0), (0, 6)),
    ]),
    (ApiKey::JoinGroup, &[
        (Release(0, 9, 0), (0, 0)), (Release(0, 10, 1), (0, 1)), (Release(0, 11, 0), (0, 2)),
        (Release(2, 0, 0), (0, 3)), (Release(2, 2, 0), (0, 4)), (Release(2, 3, 0), (0, 5)),
        (Release(2, 4, 0), (0, 6)), (Release(2, 5, 0), (0, 7)), (Release(3, 2, 0), (0, 9)),
    ]),
    (ApiKey::Heartbeat, &[
        (Release(0, 9, 0), (0, 0)), (Release(0, 11, 0), (0, 1)), (Release(2, 0, 0), (0, 2)),
        (Release(2, 3, 0), (0, 3)), (Release(2, 4, 0), (0, 4)),
    ]),
    (ApiKey::LeaveGroup, &[
        (Release(0, 9, 0), (0, 0)), (Release(0, 11, 0), (0, 1)), (Release(2, 0, 0), (0, 2)),
        (Release(2, 4, 0), (0, 4)), (Release(3, 2, 0), (0, 5)),
    ]),
    (ApiKey::SyncGroup, &[
        (Release(0, 9, 0), (0, 0)), (Release(0, 11, 0), (0, 1)), (Release(2, 0, 0), (0, 2)),
        (Release(2, 3, 0), (0, 3)), (Release(2, 4, 0), (0, 4)), (Release(2, 5, 0), (0, 5)),
    ]),
    (ApiKey::DescribeGroups, &[
        (Release(0, 9, 0), (0, 0)), (Release(0, 11, 0), (0, 1)), (Release(2, 0, 0), (0, 2)),
        (Release(2, 3, 0), (0, 3)), (Release(2, 4, 0), (0, 5)), (Release(4, 0, 0), (0, 6)),
    ]),
    (ApiKey::ListGroups, &[
        (Release(0, 9, 0), (0, 0)), (Release(0, 11, 0), (0, 1)), (Release(2, 0, 0), (0, 2)),
        (Release(2, 4, 0), (0, 3)), (Release(2, 6, 0), (0, 4)), (Release(3, 8, 0), (0, 5)),
    ]),
    (ApiKey::SaslHandshake, &[(Release(0, 10, 0), (0, 0)), (Release(1, 0, 0), (0, 1))]),
    (ApiKey::ApiVersions, &[
        (Release(0, 10, 0), (0, 0)), (Release(0, 11, 0), (0, 1)), (Release(2, 0, 0), (0, 2)),
        (Release(2, 4, 0), (0, 3)), (Release(3, 9, 0), (0, 4)), (Release(4, 4, 0), (0, 5)),
    ]),
    (ApiKey::CreateTopics, &[
        (Release(0, 10, 1), (0, 0)), (Release(0, 10, 2), (0, 1)), (Release(0, 11, 0), (0, 2)),
        (Release(2, 0, 0), (0, 3)), (Release(2, 4, 0), (0, 5)), (Release(2, 7, 0), (0, 6)),
        (Release(2, 8, 0), (0, 7)), (Release(4, 0, 0), (2, 7)),
    ]),
    (ApiKey::DeleteTopics, &[
        (Release(0, 10, 1), (0, 0)), (Release(0, 11, 0), (0, 1)), (Release(2, 0, 0), (0, 2)),
        (Release(2, 1, 0), (0, 3)), (Release(2, 4, 0), (0, 4)), (Release(2, 7, 0), (0, 5)),
        (Release(2, 8, 0), (0, 6)), (Release(4, 0, 0), (1, 6)),
    ]),
    (ApiKey::InitProducerId, &[
        (Release(0, 11, 0), (0, 0)), (Release(2, 0, 0), (0, 1)), (Release(2, 4, 0), (0, 2)),
        (Release(2, 5, 0), (0, 3)), (Release(2, 7, 0), (0, 4)), (Release(3, 8, 0), (0, 5)),
    ]),
    (ApiKey::OffsetForLeaderEpoch, &[
        (Release(0, 11, 0), (0, 0)), (Release(2, 0, 0), (0, 1)), (Release(2, 1, 0), (0, 2)),
        (Release(2, 3, 0), (0, 3)), (Release(2, 8, 0), (0, 4)), (Release(4, 0, 0), (2, 4)),
    ]),
    (ApiKey::AddPartitionsToTxn, &[
        (Release(0, 11, 0), (0, 0)), (Release(2, 0, 0), (0, 1)), (Release(2, 7, 0), (0, 2)),
        (Release(2, 8, 0), (0, 3)), (Release(3, 6, 0), (0, 4)), (Release(3, 8, 0), (0, 5)),
    ]),
    (ApiKey::AddOffsetsToTxn, &[
        (Release(0, 11, 0), (0, 0)), (Release(2, 0, 0), (0, 1)), (Release(2, 7, 0), (0, 2)),
        (Release(2, 8, 0), (0, 3)), (Release(3, 8, 0), (0, 4)),
    ]),
    (ApiKey::EndTxn, &[
        (Release(0, 11, 0), (0, 0)), (Release(2, 0, 0), (0, 1)), (Release(2, 7, 0), (0, 2)),
        (Release(2, 8, 0), (0, 3)), (Release(3, 8, 0), (0, 4)), (Release(4, 0, 0), (0, 5)),
    ]),
    (ApiKey::WriteTxnMarkers, &[
        (Release(0, 11, 0), (0, 0)), (Release(2, 8, 0), (0, 1)), (Release(4, 0, 0), (1, 1)),
        (Release(4, 2, 0), (1, 2)),
    ]),
    (ApiKey::TxnOffsetCommit, &[
        (Release(0, 11, 0), (0, 0)), (Release(2, 0, 0), (0, 1)), (Release(2, 1, 0), (0, 2)),
        (Release(2, 5, 0), (0, 3)), (Release(3, 8, 0), (0, 4)), (Release(4, 0, 0), (0, 5)),
        (Release(4, 4, 0), (0, 6)),
    ]),
    (ApiKey::SaslAuthenticate, &[
        (Release(1, 0, 0), (0, 0)), (Release(2, 2, 0), (0, 1)), (Release(2, 5, 0), (0, 2)),
    ]),
    (ApiKey::DescribeAcls, &[
        (Release(0, 11, 0), (0, 0)), (Release(2, 0, 0), (0, 1)), (Release(2, 5, 0), (0, 2)),
        (Release(3, 3, 0), (0, 3)), (Release(4, 0, 0), (1, 3)),
    ]),
    (ApiKey::CreateAcls, &[
        (Release(0, 11, 0), (0, 0)), (Release(2, 0, 0), (0, 1)), (Release(2, 5, 0), (0, 2)),
        (Release(3, 3, 0), (0, 3)), (Release(4, 0, 0), (1, 3)),
    ]),
    (ApiKey::DeleteAcls, &[
        (Release(0, 11, 0), (0, 0)), (Release(2, 0, 0), (0, 1)), (Release(2, 5, 0), (0, 2)),
        (Release(3, 3, 0), (0, 3)), (Release(4, 0, 0), (1, 3)),
    ]),
    (ApiKey::CreateDelegationToken, &[
        (Release(1, 1, 0), (0, 0)), (Release(2, 0, 0), (0, 1)), (Release(2, 4, 0), (0, 2)),
        (Release(3, 3, 0), (0, 3)), (Release(4, 0, 0), (1, 3)),
    ]),
    (ApiKey::RenewDelegationToken, &[
        (Release(1, 1, 0), (0, 0)), (Release(2, 0, 0), (0, 1)), (Release(2, 5, 0), (0, 2)),
        (Release(4, 0, 0), (1, 2)),
    ]),
    (ApiKey::ExpireDelegationToken, &[
        (Release(1, 1, 0), (0, 0)), (Release(2, 0, 0), (0, 1)), (Release(2, 5, 0), (0, 2)),
        (Release(4, 0, 0), (1, 2)),
    ]),
    (ApiKey::DescribeDelegationToken, &[
        (Release(1, 1, 0), (0, 0)), (Release(2, 0, 0), (0, 1)), (Release(2, 5, 0), (0, 2)),
        (Release(3, 3, 0), (0, 3)), (Release(4, 0, 0), (1, 3)),
    ]),
    (ApiKey::DescribeUserScramCredentials, &[
        (Release(2, 7, 0), (0, 0)),
    ]),
    (ApiKey::AlterUserScramCredentials, &[
        (Release(2, 7, 0), (0, 0)),
    ]),
    (ApiKey::DeleteGroups, &[
        (Release(1, 1, 0), (0, 0)), (Release(2, 0, 0), (0, 1)), (Release(2, 4, 0), (0, 2)),
        (Release(4, 4, 0), (0, 3)),
    ]),
    (ApiKey::OffsetDelete, &[
        (Release(2, 4, 0), (0, 0)),
    ]),
    (ApiKey::DescribeProducers, &[
        (Release(2, 8, 0), (0, 0)),
    ]),
    (ApiKey::DescribeTransactions, &[
        (Release(3, 0, 0), (0, 0)),
    ]),
    (ApiKey::ListTransactions, &[
        (Release(3, 0, 0), (0, 0)), (Release(3, 8, 0), (0, 1)), (Release(4, 1, 0), (0, 2)),
    ]),
    (ApiKey::ConsumerGroupHeartbeat, &[
        (Release(3, 7, 0), (0, 0)), (Release(4, 0, 0), (0, 1)),
    ]),
    (ApiKey::ConsumerGroupDescribe, &[
        (Release(3, 8, 0), (0, 0)), (Release(4, 0, 0), (0, 1)),
    ]),
    (ApiKey::DeleteRecords, &[
        (Release(0, 11, 0), (0, 0)), (Release(2, 0, 0), (0, 1)), (Release(2, 6, 0), (0, 2)),
    ]),
    (ApiKey::DescribeConfigs, &[
        (Release(0, 11, 0), (0, 0)), (Release(1, 1, 0), (0, 1)), (Release(2, 0, 0), (0, 2)),
        (Release(2, 6, 0), (0, 3)), (Release(2, 7, 0), (0, 4)), (Release(4, 0, 0), (1, 4)),
    ]),
    (ApiKey::AlterReplicaLogDirs, &[
        (Release(1, 1, 0), (0, 0)), (Release(2, 0, 0), (0, 1)), (Release(2, 7, 0), (0, 2)),
        (Release(4, 0, 0), (1, 2)),
    ]),
    (ApiKey::DescribeLogDirs, &[
        (Release(1, 1, 0), (0, 0)), (Release(2, 0, 0), (0, 1)), (Release(2, 6, 0), (0, 2)),
        (Release(3, 2, 0), (0, 3)), (Release(3, 3, 0), (0, 4)), (Release(4, 0, 0), (1, 4)),
        (Release(4, 3, 0), (1, 5)),
    ]),
    (ApiKey::CreatePartitions, &[
        (Release(1, 0, 0), (0, 0)), (Release(2, 0, 0), (0, 1)), (Release(2, 5, 0), (0, 2)),
        (Release(2, 7, 0), (0, 3)),
    ]),
    (ApiKey::ElectLeaders, &[
        (Release(2, 2, 0), (0, 0)), (Release(2, 4, 0), (0, 2)),
    ]),
    (ApiKey::IncrementalAlterConfigs, &[
        (Release(2, 3, 0), (0, 0)), (Release(2, 4, 0), (0, 1)),
    ]),
    (ApiKey::AlterPartitionReassignments, &[
        (Release(2, 4, 0), (0, 0)), (Release(4, 1, 0), (0, 1)),
    ]),
    (ApiKey::ListPartitionReassignments, &[
        (Release(2, 4, 0), (0, 0)),
    ]),
    (ApiKey::DescribeClientQuotas, &[
        (Release(2, 6, 0), (0, 0)), (Release(2, 8, 0), (0, 1)),
    ]),
    (ApiKey::AlterClientQuotas, &[
        (Release(2, 6, 0), (0, 0)), (Release(2, 8, 0), (0, 1)),
    ]),
    (ApiKey::DescribeQuorum, &[
        (Release(3, 3, 0), (0, 1)), (Release(3, 9, 0), (0, 2)),
    ]),
    (ApiKey::UpdateFeatures, &[
        (Release(2, 7, 0), (0, 0)), (Release(3, 3, 0), (0, 1)), (Release(4, 0, 0), (0, 2)),
    ]),
    (ApiKey::DescribeCluster, &[
        (Release(2, 8, 0), (0, 0)), (Release(3, 7, 0), (0, 1)), (Release(4, 0, 0), (0, 2)),
    ]),
    (ApiKey::UnregisterBroker, &[
        (Release(3, 3, 0), (0, 0)),
    ]),
    (ApiKey::ListConfigResources, &[
        (Release(3, 7, 0), (0, 0)), (Release(4, 1, 0), (0, 1)),
    ]),
    (ApiKey::DescribeTopicPartitions, &[
        (Release(3, 8, 0), (0, 0)),
    ]),
    (ApiKey::ShareGroupHeartbeat, &[
        (Release(4, 1, 0), (1, 1)),
    ]),
    (ApiKey::ShareGroupDescribe, &[
        (Release(4, 1, 0), (1, 1)),
    ]),
    (ApiKey::ShareFetch, &[
        (Release(4, 1, 0), (1, 1)), (Release(4, 2, 0), (1, 2)),
    ]),
    (ApiKey::ShareAcknowledge, &[
        (Release(4, 1, 0), (1, 1)), (Release(4, 2, 0), (1, 2)),
    ]),
    (ApiKey::AddRaftVoter, &[
        (Release(3, 9, 0), (0, 0)), (Release(4, 2, 0), (0, 1)),
    ]),
    (ApiKey::RemoveRaftVoter, &[
        (Release(3, 9, 0), (0, 0)),
    ]),
    (ApiKey::StreamsGroupDescribe, &[
        (Release(4, 1, 0), (0, 0)), (Release(4, 4, 0), (0, 1)),
    ]),
    (ApiKey::DescribeShareGroupOffsets, &[
        (Release(4, 1, 0), (0, 0)), (Release(4, 2, 0), (0, 1)),
    ]),
    (ApiKey::AlterShareGroupOffsets, &[
        (Release(4, 1, 0), (0, 0)),
    ]),
    (ApiKey::DeleteShareGroupOffsets, &[
        (Release(4, 1, 0), (0, 0)),
    ]),
    (ApiKey::UnregisterController, &[
        (Release(4, 4, 0), (0, 0)),
    ]),
];

#[cfg(test)]
#[path = "releases_tests.rs"]
mod tests;
