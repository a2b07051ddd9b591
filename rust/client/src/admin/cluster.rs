//! The cluster as a whole: its brokers, its features, the quorum that keeps its metadata.

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_wire::messages::add_raft_voter::Listener;
use samsarrow_wire::messages::describe_quorum::{PartitionRequest, ReplicaState, TopicRequest};
use samsarrow_wire::messages::update_features::FeatureUpdateKey;
use samsarrow_wire::messages::{
    AddRaftVoterRequest, AddRaftVoterResponse, ApiKey, ApiVersionsRequest, ApiVersionsResponse, DescribeClusterRequest,
    DescribeClusterResponse, DescribeQuorumRequest, DescribeQuorumResponse, MetadataRequest, MetadataResponse,
    RemoveRaftVoterRequest, RemoveRaftVoterResponse, UnregisterBrokerRequest, UnregisterBrokerResponse,
    UpdateFeaturesRequest, UpdateFeaturesResponse, Uuid,
};

use super::authorized_operations::operations;
use super::batch::{Route, Work};
use super::engine::Asked;
use super::response_errors::{check, check_of};
use super::{AclOperation, Admin};
use crate::cluster::CONTROLLER_ENDPOINTS;
use crate::error::{Error, Result};

/// Endpoints of brokers, in DescribeCluster.
const BROKERS: i8 = 1;
/// The topic that KRaft keeps metadata in.
const METADATA_TOPIC: &str = "__cluster_metadata";
/// How a feature is changed: up, or down only if nothing is lost.
const UPGRADE: i8 = 1;

/// A cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterDescription {
    /// Its id; brokers before 0.10.1 do not report it.
    pub cluster_id: Option<String>,
    /// The controller's id, or that of a broker that leads to it.
    pub controller: Option<i32>,
    /// In the order of their ids; controllers where the client starts from those.
    pub brokers: Vec<BrokerDescription>,
    /// What may be done with the cluster, where that was asked for.
    pub operations: Option<Vec<AclOperation>>,
}

/// A broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerDescription {
    /// Its id.
    pub id: i32,
    /// Where clients reach it.
    pub host: String,
    /// Where clients reach it.
    pub port: i32,
    /// Where it is.
    pub rack: Option<String>,
    /// Whether it is registered and may not serve (KIP-1073).
    pub fenced: bool,
}

/// Features of a cluster (KIP-584), by name: the lowest and the highest level.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeatureMetadata {
    /// The levels that are in use.
    pub finalized: BTreeMap<String, (i16, i16)>,
    /// When that was decided, as a number that rises.
    pub epoch: Option<i64>,
    /// The levels that the broker that answered knows.
    pub supported: BTreeMap<String, (i16, i16)>,
}

/// Who keeps the metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quorum {
    /// The leader's id.
    pub leader: i32,
    /// Rises with each election.
    pub leader_epoch: i32,
    /// What a majority has.
    pub high_watermark: i64,
    /// Those that elect.
    pub voters: Vec<QuorumReplica>,
    /// Those that follow.
    pub observers: Vec<QuorumReplica>,
    /// Where controllers listen, by id: name, host, port.
    pub nodes: BTreeMap<i32, Vec<(String, String, u16)>>,
}

/// A member of the quorum; −1 stands for what is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumReplica {
    /// Its id.
    pub id: i32,
    /// Its directory's id, zero where brokers do not report it.
    pub directory: Uuid,
    /// The end of its log.
    pub log_end_offset: i64,
    /// When it last asked, in milliseconds since 1970.
    pub last_fetch: i64,
    /// When it last had all, in milliseconds since 1970.
    pub last_caught_up: i64,
}

impl Admin {
    /// The brokers and the controller, with `operations` what may be done with the cluster.
    ///
    /// # Errors
    /// What brokers say; a timeout with its cause.
    pub async fn describe_cluster(
        &self,
        fenced: bool,
        operations: bool,
        timeout: Duration,
    ) -> Result<ClusterDescription> {
        let key = ApiKey::DescribeCluster;
        let at_controllers = self.cluster.options().at_controllers;
        let build = |_: &Asked<'_, ()>| {
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
        match self.ask(Route::Any, timeout, build, read).await {
            // Brokers before 2.8 say the same in metadata.
            Err(Error::UnsupportedVersion(_)) if !fenced && !at_controllers => {
                let build = |asked: &Asked<'_, ()>| {
                    // Without topics; version 0 has no way to say so.
                    let topics = Some(Vec::new());
                    let allow_auto_topic_creation = asked.version < 4;
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
                self.ask(Route::Any, timeout, build, read).await
            }
            described => described,
        }
    }

    /// The features that are in use, and those that a broker supports.
    ///
    /// # Errors
    /// What brokers say; a timeout with its cause.
    pub async fn describe_features(&self, timeout: Duration) -> Result<FeatureMetadata> {
        let key = ApiKey::ApiVersions;
        let build = |_: &Asked<'_, ()>| {
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
        self.ask(Route::Any, timeout, build, read).await
    }

    /// Changes the levels of features, or only checks that they could be: each is the new level and the way, 1 up, 2 down
    /// without loss, 3 down. Each has its own outcome where the broker reports it.
    ///
    /// # Errors
    /// What is not about one feature; a timeout with its cause where no controller answered.
    pub async fn update_features(
        &self,
        updates: &BTreeMap<String, (i16, i8)>,
        validate_only: bool,
        timeout: Duration,
    ) -> Result<Vec<(String, Result<()>)>> {
        let key = ApiKey::UpdateFeatures;
        let names: Vec<String> = updates.keys().cloned().collect();
        let build = |asked: &Asked<'_, String>| {
            let update = |(name, (level, way)): (&String, &(i16, i8))| FeatureUpdateKey {
                feature: name.clone(),
                max_version_level: *level,
                allow_downgrade: asked.version == 0 && *way != UPGRADE,
                upgrade_type: if asked.version == 0 { UPGRADE } else { *way },
                ..Default::default()
            };
            let feature_updates = asked.items.iter().filter_map(|name| updates.get_key_value(name)).map(update);
            Ok(UpdateFeaturesRequest {
                timeout_ms: asked.timeout_ms,
                feature_updates: feature_updates.collect(),
                validate_only,
                ..Default::default()
            })
        };
        let read = |asked: &Asked<'_, String>, response: UpdateFeaturesResponse| {
            let of_all = |name: &String| {
                let outcome =
                    check_of(key, format!("feature {name}"), response.error_code, response.error_message.as_deref());
                (name.clone(), outcome)
            };
            // From version 2 on all of them succeed or none.
            if response.error_code != 0 || response.results.is_empty() {
                return Ok(asked.items.iter().map(of_all).collect());
            }
            let one = |said: samsarrow_wire::messages::update_features::UpdatableFeatureResult| {
                let what = format!("feature {}", said.feature);
                (said.feature, check_of(key, what, said.error_code, said.error_message.as_deref()))
            };
            Ok(response.results.into_iter().map(one).collect())
        };
        let work = Work { what: |name| format!("feature {name}"), ..Work::new(Route::Controller, timeout) };
        self.settle(&work, &names, build, read).await
    }

    /// Who keeps the metadata, and how far each is.
    ///
    /// # Errors
    /// What brokers say; a timeout with its cause.
    pub async fn describe_quorum(&self, timeout: Duration) -> Result<Quorum> {
        let key = ApiKey::DescribeQuorum;
        let build = |_: &Asked<'_, ()>| {
            let topic = TopicRequest {
                topic_name: METADATA_TOPIC.into(),
                partitions: vec![PartitionRequest::default()],
                ..Default::default()
            };
            Ok(DescribeQuorumRequest { topics: vec![topic], ..Default::default() })
        };
        let read = |response: DescribeQuorumResponse| {
            check(response.error_code, response.error_message.as_deref(), key.name(), key)?;
            let silent = || Error::protocol("a broker", "the answer to DescribeQuorum names no partition");
            let found = response.topics.into_iter().flat_map(|topic| topic.partitions).next().ok_or_else(silent)?;
            check(found.error_code, found.error_message.as_deref(), key.name(), key)?;
            let nodes = response
                .nodes
                .into_iter()
                .map(|node| (node.node_id, node.listeners.into_iter().map(|at| (at.name, at.host, at.port)).collect()));
            Ok(Quorum {
                leader: found.leader_id,
                leader_epoch: found.leader_epoch,
                high_watermark: found.high_watermark,
                voters: found.current_voters.into_iter().map(replica).collect(),
                observers: found.observers.into_iter().map(replica).collect(),
                nodes: nodes.collect(),
            })
        };
        self.ask(Route::Any, timeout, build, read).await
    }

    /// Lets a controller vote (KIP-853).
    ///
    /// # Errors
    /// What brokers say; a timeout with its cause.
    pub async fn add_raft_voter(
        &self,
        cluster_id: Option<&str>,
        (voter, directory): (i32, Uuid),
        endpoints: &[(String, String, u16)],
        timeout: Duration,
    ) -> Result<()> {
        let key = ApiKey::AddRaftVoter;
        let build = |asked: &Asked<'_, ()>| {
            let listener = |(name, host, port): &(String, String, u16)| Listener {
                name: name.clone(),
                host: host.clone(),
                port: *port,
                ..Default::default()
            };
            Ok(AddRaftVoterRequest {
                cluster_id: cluster_id.map(str::to_owned),
                timeout_ms: asked.timeout_ms,
                voter_id: voter,
                voter_directory_id: directory,
                listeners: endpoints.iter().map(listener).collect(),
                ..Default::default()
            })
        };
        let read = |said: AddRaftVoterResponse| {
            check_of(key, format!("controller {voter}"), said.error_code, said.error_message.as_deref())
        };
        self.ask(Route::Any, timeout, build, read).await
    }

    /// Keeps a controller from voting (KIP-853).
    ///
    /// # Errors
    /// What brokers say; a timeout with its cause.
    pub async fn remove_raft_voter(
        &self,
        cluster_id: Option<&str>,
        (voter, directory): (i32, Uuid),
        timeout: Duration,
    ) -> Result<()> {
        let key = ApiKey::RemoveRaftVoter;
        let build = |_: &Asked<'_, ()>| {
            Ok(RemoveRaftVoterRequest {
                cluster_id: cluster_id.map(str::to_owned),
                voter_id: voter,
                voter_directory_id: directory,
                ..Default::default()
            })
        };
        let read = |said: RemoveRaftVoterResponse| {
            check_of(key, format!("controller {voter}"), said.error_code, said.error_message.as_deref())
        };
        self.ask(Route::Any, timeout, build, read).await
    }

    /// Forgets a broker that is gone for good.
    ///
    /// # Errors
    /// What brokers say; a timeout with its cause.
    pub async fn unregister_broker(&self, broker: i32, timeout: Duration) -> Result<()> {
        let key = ApiKey::UnregisterBroker;
        let build = |_: &Asked<'_, ()>| Ok(UnregisterBrokerRequest { broker_id: broker, ..Default::default() });
        let read = |said: UnregisterBrokerResponse| {
            check_of(key, format!("broker {broker}"), said.error_code, said.error_message.as_deref())
        };
        self.ask(Route::Any, timeout, build, read).await
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

fn replica(told: ReplicaState) -> QuorumReplica {
    QuorumReplica {
        id: told.replica_id,
        directory: told.replica_directory_id,
        log_end_offset: told.log_end_offset,
        last_fetch: told.last_fetch_timestamp,
        last_caught_up: told.last_caught_up_timestamp,
    }
}
