//! What operators do to a cluster: one file a family of operations, one engine for all of them.

mod acls;
mod authorized_operations;
mod batch;
mod cluster;
mod configs;
mod coordinators;
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
mod share_state;
mod special;
mod tokens;
mod topics;
mod transactions;
mod users;

pub use acls::{AclBinding, AclFilter, AclOperation, AclPermission, Created, Deleted, PatternType, ResourceType};
pub use cluster::{BrokerDescription, ClusterDescription, FeatureMetadata, Quorum, QuorumReplica};
pub use configs::{ConfigChange, ConfigEntry, ConfigResource, ConfigSynonym, PerResource};
pub use coordinators::Node;
pub use describe::{PartitionDescription, TopicDescription};
pub use group_members::Leaving;
pub use groups::{GroupDescription, GroupFilter, GroupListing, MemberDescription};
pub use lag::PartitionLag;
pub use offsets::{CommitSettings, FetchSettings, Fetched, PerGroup, PerPartition};
pub use quotas::{QuotaComponent, QuotaEntity, Quotas};
pub use replicas::{LogDir, Reassignment, Replica, ReplicaInfo};
pub use special::{
    ShareGroupDescription, ShareMember, ShareOffset, ShareOffsets, StreamsGroupDescription, StreamsMember, Subtopology,
    Tasks,
};
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

/// Administers a cluster. Made without I/O.
#[derive(Debug, Clone)]
pub struct Admin {
    cluster: Cluster,
}

impl Admin {
    /// For the brokers that `options` start from.
    pub fn new(options: &Options) -> Result<Admin> {
        Ok(Admin { cluster: Cluster::new(options)? })
    }

    /// What it counts.
    pub fn metrics(&self) -> &Arc<Metrics> {
        self.cluster.metrics()
    }

    /// The id by which brokers know this client's metrics (KIP-714).
    ///
    /// # Errors
    /// Metrics are not pushed, or no broker takes them; none could be asked within `timeout`.
    pub async fn client_instance_id(&self, timeout: Duration) -> Result<Uuid> {
        self.cluster.client_instance_id(timeout).await
    }

    /// How long a call without a timeout of its own keeps trying.
    pub fn default_timeout(&self) -> Duration {
        self.cluster.options().default_api_timeout
    }

    /// Ends all connections.
    pub async fn close(&self) {
        self.cluster.close_within(self.default_timeout()).await;
    }
}
