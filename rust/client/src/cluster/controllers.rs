//! Metadata of clients that bootstrap from controllers (KIP-919). Controllers serve DescribeCluster, but not Metadata.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::metadata::MetadataResponseBroker;
use samsarrow_wire::messages::{ApiKey, DescribeClusterRequest, MetadataResponse};

use super::Cluster;
use crate::error::{Error, Result};
use crate::net::CallerDeadline;

/// Value of `endpoint_type` in DescribeCluster requests that selects controllers.
pub(crate) const CONTROLLER_ENDPOINTS: i8 = 2;

/// APIs that controllers support, according to Apache Kafka's Java client 4.4.
const SUPPORTED_APIS: &[ApiKey] = &[
    ApiKey::ApiVersions,
    ApiKey::DescribeAcls,
    ApiKey::CreateAcls,
    ApiKey::DeleteAcls,
    ApiKey::DescribeConfigs,
    ApiKey::IncrementalAlterConfigs,
    ApiKey::AlterPartitionReassignments,
    ApiKey::ListPartitionReassignments,
    ApiKey::DescribeQuorum,
    ApiKey::UpdateFeatures,
    ApiKey::DescribeCluster,
    ApiKey::UnregisterBroker,
    ApiKey::UnregisterController,
    ApiKey::AddRaftVoter,
    ApiKey::RemoveRaftVoter,
];

impl Cluster {
    /// Checks that the bootstrap endpoints support this API.
    ///
    /// # Errors
    /// Fails with `UNSUPPORTED_ENDPOINT_TYPE` if the client bootstraps from controllers and only brokers support the
    /// API.
    pub(crate) fn check_endpoint(&self, key: ApiKey) -> Result<()> {
        if !self.options().at_controllers || SUPPORTED_APIS.contains(&key) {
            return Ok(());
        }
        let text = format!(
            "{} (controllers do not support it: create the client with bootstrap.servers instead of bootstrap.controllers)",
            key.name()
        );
        Err(Error::server(ErrorCode::UNSUPPORTED_ENDPOINT_TYPE, text))
    }

    /// Returns the controllers in the form of brokers, with the active controller as the cluster's controller.
    pub(super) async fn describe_controllers(&self, patience: impl Into<CallerDeadline>) -> Result<MetadataResponse> {
        let request = DescribeClusterRequest { endpoint_type: CONTROLLER_ENDPOINTS, ..Default::default() };
        let response = self.send_any(request, patience).await?;
        ErrorCode::from_i16(response.error_code).ok().map_err(|code| {
            let is_broker = [ErrorCode::MISMATCHED_ENDPOINT_TYPE, ErrorCode::UNSUPPORTED_ENDPOINT_TYPE].contains(&code);
            let hint = if is_broker {
                " (bootstrap.controllers contains the address of a broker: use bootstrap.servers for it)"
            } else {
                ""
            };
            Error::server(code, format!("DescribeCluster of controllers{hint}"))
        })?;
        let controller =
            |broker: samsarrow_wire::messages::describe_cluster::DescribeClusterBroker| MetadataResponseBroker {
                node_id: broker.broker_id,
                host: broker.host,
                port: broker.port,
                rack: broker.rack,
                ..MetadataResponseBroker::default()
            };
        Ok(MetadataResponse {
            brokers: response.brokers.into_iter().map(controller).collect(),
            cluster_id: Some(response.cluster_id),
            controller_id: response.controller_id,
            ..MetadataResponse::default()
        })
    }
}
