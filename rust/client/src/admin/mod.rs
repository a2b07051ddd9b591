//! Admin client: one module per family of operations, and an engine that routes and retries their requests.

mod acls;
mod authorized_operations;
mod batch;
mod cluster;
mod configs;
mod delete_topics;
mod describe;
mod engine;
mod group_members;
mod groups;
mod lag;
mod offsets;
mod quotas;
mod replicas;
mod response_errors;
mod retry_rounds;
mod routing;
mod share_groups;
mod share_state;
mod streams_groups;
mod tokens;
mod topics;
mod transactions;
mod users;

pub use crate::cluster::find_coordinator::Node;
pub use acls::{
    AclBinding, AclFilter, AclOperation, AclPermission, CreatedAcls, DeletedAcls, PatternType, ResourceType,
};
pub use cluster::{BrokerDescription, ClusterDescription, FeatureMetadata, Quorum, QuorumReplica};
pub use configs::{ConfigChange, ConfigEntry, ConfigResource, ConfigSynonym, PerResource};
pub use describe::{PartitionDescription, TopicDescription};
pub use group_members::RemovedMember;
pub use groups::{GroupDescription, GroupFilter, GroupListing, MemberDescription};
pub use lag::PartitionLag;
pub use offsets::{CommitSettings, FetchSettings, Fetched, PerGroup, PerPartition};
pub use quotas::{QuotaComponent, QuotaEntity, Quotas};
pub use replicas::{LogDir, Reassignment, Replica, ReplicaInfo};
pub use share_groups::{ShareGroupDescription, ShareMember, ShareOffset, ShareOffsets};
pub use streams_groups::{StreamsGroupDescription, StreamsMember, Subtopology, Tasks};
pub use tokens::{DelegationToken, Principal};
pub use topics::{CreatedTopic, NewPartitions, NewTopic, PerTopic, TopicListing, TopicRef};
pub use transactions::{
    HangingTransaction, ProducerState, TransactionDescription, TransactionFilter, TransactionListing,
};
pub use users::{NewPassword, PerUser, ScramCredential, ScramMechanism, UserAlteration};

use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::messages::Uuid;

use crate::cluster::Cluster;
use crate::config::Options;
use crate::error::Result;
use crate::metrics::Metrics;

/// Admin client. It is cheap to clone, and its creation needs no I/O.
#[derive(Debug, Clone)]
pub struct Admin {
    cluster: Cluster,
}

impl Admin {
    /// Creates a client that connects to the bootstrap servers of `options`.
    pub fn new(options: &Options) -> Result<Admin> {
        Ok(Admin { cluster: Cluster::new(options)? })
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        self.cluster.metrics()
    }

    /// Returns the client instance id that a broker has assigned (KIP-714).
    ///
    /// # Errors
    /// Fails if metrics push is disabled or not supported by the brokers, or if no broker assigns an id within
    /// `timeout`.
    pub async fn client_instance_id(&self, timeout: Duration) -> Result<Uuid> {
        self.cluster.client_instance_id(timeout).await
    }

    /// Returns the timeout of calls that specify none.
    pub fn default_timeout(&self) -> Duration {
        self.cluster.options().default_api_timeout
    }

    /// Closes all connections.
    pub async fn close(&self) {
        self.cluster.close_within(self.default_timeout()).await;
    }
}
