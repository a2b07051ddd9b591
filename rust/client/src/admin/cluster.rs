//! Operations on the whole cluster: brokers, features and the metadata quorum.

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_wire::messages::add_raft_voter::Listener;
use samsarrow_wire::messages::describe_quorum::{PartitionRequest, ReplicaState, TopicRequest};
use samsarrow_wire::messages::update_features::FeatureUpdateKey;
use samsarrow_wire::messages::{
    AddRaftVoterRequest, AddRaftVoterResponse, ApiKey, ApiVersionsRequest, ApiVersionsResponse, DescribeClusterRequest,
    DescribeClusterResponse, DescribeQuorumRequest, DescribeQuorumResponse, MetadataRequest, MetadataResponse,
    RemoveRaftVoterRequest, RemoveRaftVoterResponse, UnregisterBrokerRequest, UnregisterBrokerResponse,
    UnregisterControllerRequest, UnregisterControllerResponse, UpdateFeaturesRequest, UpdateFeaturesResponse, Uuid,
};

use super::authorized_operations::operations;
use super::batch::{BatchedRequest, Route};
use super::engine::RequestBatch;
use super::response_errors::{check, check_item};
use super::{AclOperation, Admin};
use crate::cluster::CONTROLLER_ENDPOINTS;
use crate::error::{Error, Result};

/// Value of `endpoint_type` in DescribeCluster requests that selects brokers.
const BROKERS: i8 = 1;
/// Topic of KRaft's metadata log.
const METADATA_TOPIC: &str = "__cluster_metadata";
/// Upgrade type in UpdateFeatures requests that raises the level of a feature.
const UPGRADE: i8 = 1;

/// Description of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterDescription {
    /// Cluster id; brokers before 0.10.1 do not report it.
    pub cluster_id: Option<String>,
    /// Id of the controller, or of a broker that forwards requests to it.
    pub controller: Option<i32>,
    /// Brokers, sorted by id. If the client bootstraps from controllers, the list contains the controllers instead.
    pub brokers: Vec<BrokerDescription>,
    /// Authorized operations on the cluster, if requested.
    pub operations: Option<Vec<AclOperation>>,
}

/// Description of a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerDescription {
    /// Broker id.
    pub id: i32,
    /// Advertised host.
    pub host: String,
    /// Advertised port.
    pub port: i32,
    /// Rack.
    pub rack: Option<String>,
    /// True if the broker is registered but fenced (KIP-1073).
    pub fenced: bool,
}

/// Features of a cluster (KIP-584), each with its minimum and maximum level.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeatureMetadata {
    /// Finalized levels.
    pub finalized: BTreeMap<String, (i16, i16)>,
    /// Epoch of the finalized features, which increases with each change.
    pub epoch: Option<i64>,
    /// Levels supported by the broker that responded.
    pub supported: BTreeMap<String, (i16, i16)>,
}

/// KRaft metadata quorum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quorum {
    /// Replica id of the leader.
    pub leader: i32,
    /// Leader epoch, which increases with each election.
    pub leader_epoch: i32,
    /// High watermark: the offset up to which a majority of voters has replicated the log.
    pub high_watermark: i64,
    /// Voters.
    pub voters: Vec<QuorumReplica>,
    /// Observers.
    pub observers: Vec<QuorumReplica>,
    /// Listeners (name, host, port) of the controllers, by node id.
    pub nodes: BTreeMap<i32, Vec<(String, String, u16)>>,
}

/// Replica of the metadata quorum. Offsets and times are −1 if unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumReplica {
    /// Replica id.
    pub id: i32,
    /// Directory id, zero if brokers do not report it.
    pub directory: Uuid,
    /// End offset of the replica's log.
    pub log_end_offset: i64,
    /// Time of the replica's last fetch, in milliseconds since 1970.
    pub last_fetch: i64,
    /// Last time at which the replica was caught up with the leader, in milliseconds since 1970.
    pub last_caught_up: i64,
}

impl Admin {
    /// Describes the brokers and the controller, including fenced brokers if `fenced` is set. With `operations`, also
    /// returns the authorized operations on the cluster.
    ///
    /// # Errors
    /// Fails with the error that a broker returns, or with a timeout that contains the last error.
    pub async fn describe_cluster(
        &self,
        fenced: bool,
        operations: bool,
        timeout: Duration,
    ) -> Result<ClusterDescription> {
        let key = ApiKey::DescribeCluster;
        let at_controllers = self.cluster.options().at_controllers;
        let build = |_: &RequestBatch<'_, ()>| {
            Ok(DescribeClusterRequest {
                include_cluster_authorized_operations: operations,
                endpoint_type: if at_controllers { CONTROLLER_ENDPOINTS } else { BROKERS },
                include_fenced_brokers: fenced,
                ..Default::default()
            })
        };
        let read = |response: DescribeClusterResponse| {
            check(response.error_code, response.error_message.as_deref(), key.name(), key)?;
            let brokers = response.brokers.into_iter().map(|b| BrokerDescription {
                id: b.broker_id,
                host: b.host,
                port: b.port,
                rack: b.rack,
                fenced: b.is_fenced,
            });
            let operations = response.cluster_authorized_operations;
            Ok(cluster(Some(response.cluster_id), response.controller_id, brokers.collect(), operations))
        };
        match self.send_single(Route::Any, timeout, build, read).await {
            // Brokers before 2.8 do not support DescribeCluster, but report the same information in Metadata.
            Err(Error::UnsupportedVersion(_)) if !fenced && !at_controllers => {
                let build = |batch: &RequestBatch<'_, ()>| {
                    // An empty list requests no topics, except in version 0, in which it requests all topics.
                    let topics = Some(Vec::new());
                    let allow_auto_topic_creation = batch.version < 4;
                    Ok(MetadataRequest {
                        topics,
                        allow_auto_topic_creation,
                        include_cluster_authorized_operations: operations,
                        ..Default::default()
                    })
                };
                let read = |response: MetadataResponse| {
                    let brokers = response.brokers.into_iter().map(|b| BrokerDescription {
                        id: b.node_id,
                        host: b.host,
                        port: b.port,
                        rack: b.rack,
                        fenced: false,
                    });
                    let operations = response.cluster_authorized_operations;
                    Ok(cluster(response.cluster_id, response.controller_id, brokers.collect(), operations))
                };
                self.send_single(Route::Any, timeout, build, read).await
            }
            described => described,
        }
    }

    /// Describes the finalized features of the cluster, and the features that the responding broker supports.
    ///
    /// # Errors
    /// Fails with the error that a broker returns, or with a timeout that contains the last error.
    pub async fn describe_features(&self, timeout: Duration) -> Result<FeatureMetadata> {
        let key = ApiKey::ApiVersions;
        let build = |_: &RequestBatch<'_, ()>| {
            Ok(ApiVersionsRequest {
                client_software_name: "samsarrow".into(),
                client_software_version: env!("CARGO_PKG_VERSION").into(),
                ..Default::default()
            })
        };
        let read = |response: ApiVersionsResponse| {
            check(response.error_code, None, key.name(), key)?;
            let finalized = response.finalized_features.into_iter();
            let supported = response.supported_features.into_iter();
            Ok(FeatureMetadata {
                finalized: finalized.map(|f| (f.name, (f.min_version_level, f.max_version_level))).collect(),
                epoch: Some(response.finalized_features_epoch).filter(|epoch| *epoch >= 0),
                supported: supported.map(|f| (f.name, (f.min_version, f.max_version))).collect(),
            })
        };
        self.send_single(Route::Any, timeout, build, read).await
    }

    /// Updates the levels of features, or only validates the update. Each update consists of the new level and the
    /// upgrade type: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade.
    ///
    /// Returns a result for each feature. Brokers that report only one result for all features return it for each of
    /// them.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request, or with a timeout if no controller responds. Errors of
    /// individual features are returned in the list.
    pub async fn update_features(
        &self,
        updates: &BTreeMap<String, (i16, i8)>,
        validate_only: bool,
        timeout: Duration,
    ) -> Result<Vec<(String, Result<()>)>> {
        let key = ApiKey::UpdateFeatures;
        let names: Vec<String> = updates.keys().cloned().collect();
        let build = |batch: &RequestBatch<'_, String>| {
            let update = |(name, (level, way)): (&String, &(i16, i8))| FeatureUpdateKey {
                feature: name.clone(),
                max_version_level: *level,
                allow_downgrade: batch.version == 0 && *way != UPGRADE,
                upgrade_type: if batch.version == 0 { UPGRADE } else { *way },
                ..Default::default()
            };
            let feature_updates = batch.items.iter().filter_map(|name| updates.get_key_value(name)).map(update);
            Ok(UpdateFeaturesRequest {
                timeout_ms: batch.timeout_ms,
                feature_updates: feature_updates.collect(),
                validate_only,
                ..Default::default()
            })
        };
        let read = |batch: &RequestBatch<'_, String>, response: UpdateFeaturesResponse| {
            let for_all = |name: &String| {
                let outcome =
                    check_item(key, format!("feature {name}"), response.error_code, response.error_message.as_deref());
                (name.clone(), outcome)
            };
            // Since version 2, an update succeeds or fails as a whole, and the response contains no results of
            // individual features.
            if response.error_code != 0 || response.results.is_empty() {
                return Ok(batch.items.iter().map(for_all).collect());
            }
            let read_result = |result: samsarrow_wire::messages::update_features::UpdatableFeatureResult| {
                let context = format!("feature {}", result.feature);
                (result.feature, check_item(key, context, result.error_code, result.error_message.as_deref()))
            };
            Ok(response.results.into_iter().map(read_result).collect())
        };
        let request = BatchedRequest {
            describe: |name| format!("feature {name}"),
            ..BatchedRequest::new(Route::Controller, timeout)
        };
        self.send_batched(&request, &names, build, read).await
    }

    /// Describes the metadata quorum and the progress of each replica.
    ///
    /// # Errors
    /// Fails with the error that a broker returns, or with a timeout that contains the last error.
    pub async fn describe_quorum(&self, timeout: Duration) -> Result<Quorum> {
        let key = ApiKey::DescribeQuorum;
        let build = |_: &RequestBatch<'_, ()>| {
            let topic = TopicRequest {
                topic_name: METADATA_TOPIC.into(),
                partitions: vec![PartitionRequest::default()],
                ..Default::default()
            };
            Ok(DescribeQuorumRequest { topics: vec![topic], ..Default::default() })
        };
        let read = |response: DescribeQuorumResponse| {
            check(response.error_code, response.error_message.as_deref(), key.name(), key)?;
            let missing = || Error::protocol("a broker", "the response to DescribeQuorum names no partition");
            let partition =
                response.topics.into_iter().flat_map(|topic| topic.partitions).next().ok_or_else(missing)?;
            check(partition.error_code, partition.error_message.as_deref(), key.name(), key)?;
            let nodes = response.nodes.into_iter().map(|node| {
                (
                    node.node_id,
                    node.listeners.into_iter().map(|listener| (listener.name, listener.host, listener.port)).collect(),
                )
            });
            Ok(Quorum {
                leader: partition.leader_id,
                leader_epoch: partition.leader_epoch,
                high_watermark: partition.high_watermark,
                voters: partition.current_voters.into_iter().map(replica).collect(),
                observers: partition.observers.into_iter().map(replica).collect(),
                nodes: nodes.collect(),
            })
        };
        self.send_single(Route::Any, timeout, build, read).await
    }

    /// Adds a voter to the metadata quorum (KIP-853).
    ///
    /// # Errors
    /// Fails with the error that a broker returns, or with a timeout that contains the last error.
    pub async fn add_raft_voter(
        &self,
        cluster_id: Option<&str>,
        (voter, directory): (i32, Uuid),
        endpoints: &[(String, String, u16)],
        timeout: Duration,
    ) -> Result<()> {
        let key = ApiKey::AddRaftVoter;
        let build = |batch: &RequestBatch<'_, ()>| {
            let listener = |(name, host, port): &(String, String, u16)| Listener {
                name: name.clone(),
                host: host.clone(),
                port: *port,
                ..Default::default()
            };
            Ok(AddRaftVoterRequest {
                cluster_id: cluster_id.map(str::to_owned),
                timeout_ms: batch.timeout_ms,
                voter_id: voter,
                voter_directory_id: directory,
                listeners: endpoints.iter().map(listener).collect(),
                ..Default::default()
            })
        };
        let read = |response: AddRaftVoterResponse| {
            check_item(key, format!("controller {voter}"), response.error_code, response.error_message.as_deref())
        };
        self.send_single(Route::Any, timeout, build, read).await
    }

    /// Removes a voter from the metadata quorum (KIP-853).
    ///
    /// # Errors
    /// Fails with the error that a broker returns, or with a timeout that contains the last error.
    pub async fn remove_raft_voter(
        &self,
        cluster_id: Option<&str>,
        (voter, directory): (i32, Uuid),
        timeout: Duration,
    ) -> Result<()> {
        let key = ApiKey::RemoveRaftVoter;
        let build = |_: &RequestBatch<'_, ()>| {
            Ok(RemoveRaftVoterRequest {
                cluster_id: cluster_id.map(str::to_owned),
                voter_id: voter,
                voter_directory_id: directory,
                ..Default::default()
            })
        };
        let read = |response: RemoveRaftVoterResponse| {
            check_item(key, format!("controller {voter}"), response.error_code, response.error_message.as_deref())
        };
        self.send_single(Route::Any, timeout, build, read).await
    }

    /// Unregisters a broker that has been decommissioned.
    ///
    /// # Errors
    /// Fails with the error that a broker returns, or with a timeout that contains the last error.
    pub async fn unregister_broker(&self, broker: i32, timeout: Duration) -> Result<()> {
        let key = ApiKey::UnregisterBroker;
        let build = |_: &RequestBatch<'_, ()>| Ok(UnregisterBrokerRequest { broker_id: broker, ..Default::default() });
        let read = |response: UnregisterBrokerResponse| {
            check_item(key, format!("broker {broker}"), response.error_code, response.error_message.as_deref())
        };
        self.send_single(Route::Any, timeout, build, read).await
    }

    /// Unregisters a controller that has been decommissioned.
    ///
    /// # Errors
    /// Fails with the error that a broker returns, or with a timeout that contains the last error.
    pub async fn unregister_controller(&self, controller: i32, timeout: Duration) -> Result<()> {
        let key = ApiKey::UnregisterController;
        let build = |_: &RequestBatch<'_, ()>| {
            Ok(UnregisterControllerRequest { controller_id: controller, ..Default::default() })
        };
        let read = |response: UnregisterControllerResponse| {
            let controller = format!("controller {controller}");
            check_item(key, controller, response.error_code, response.error_message.as_deref())
        };
        self.send_single(Route::Any, timeout, build, read).await
    }
}

fn cluster(
    cluster_id: Option<String>,
    controller: i32,
    mut brokers: Vec<BrokerDescription>,
    bits: i32,
) -> ClusterDescription {
    brokers.sort_by_key(|broker| broker.id);
    let controller = Some(controller).filter(|id| *id >= 0);
    ClusterDescription { cluster_id, controller, brokers, operations: operations(bits) }
}

fn replica(state: ReplicaState) -> QuorumReplica {
    QuorumReplica {
        id: state.replica_id,
        directory: state.replica_directory_id,
        log_end_offset: state.log_end_offset,
        last_fetch: state.last_fetch_timestamp,
        last_caught_up: state.last_caught_up_timestamp,
    }
}
