//! A client that starts from controllers (KIP-919): they name each other in DescribeCluster, and know no Metadata.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::metadata::MetadataResponseBroker;
use samsarrow_wire::messages::{ApiKey, DescribeClusterRequest, MetadataResponse};

use super::Cluster;
use crate::error::{Error, Result};
use crate::net::Patience;

/// Endpoints of controllers, in DescribeCluster.
pub(crate) const CONTROLLERS: i8 = 2;

/// What controllers answer by themselves, as Java's client 4.3 has it.
const ANSWERED: &[ApiKey] = &[
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
    ApiKey::AddRaftVoter,
    ApiKey::RemoveRaftVoter,
];

impl Cluster {
    /// That those who are spoken to answer an API at all.
    ///
    /// # Errors
    /// The client starts from controllers, and only brokers answer it.
    pub(crate) fn check_endpoint(&self, key: ApiKey) -> Result<()> {
        if !self.options().at_controllers || ANSWERED.contains(&key) {
            return Ok(());
        }
        let text = format!(
            "{} (controllers do not answer it: make a client with bootstrap.servers instead of bootstrap.controllers)",
            key.name()
        );
        Err(Error::server(ErrorCode::UNSUPPORTED_ENDPOINT_TYPE, text))
    }

    /// The controllers in the place of brokers, the active one as the controller.
    pub(super) async fn ask_controllers(&self, patience: impl Into<Patience>) -> Result<MetadataResponse> {
        let request = DescribeClusterRequest { endpoint_type: CONTROLLERS, ..Default::default() };
        let answer = self.send_any(request, patience).await?;
        ErrorCode::from_i16(answer.error_code).ok().map_err(|code| {
            let broker = [ErrorCode::MISMATCHED_ENDPOINT_TYPE, ErrorCode::UNSUPPORTED_ENDPOINT_TYPE].contains(&code);
            let hint = if broker {
                " (bootstrap.controllers has the address of a broker: that is for bootstrap.servers)"
            } else {
                ""
            };
            Error::server(code, format!("DescribeCluster of controllers{hint}"))
        })?;
        let controller =
            |told: samsarrow_wire::messages::describe_cluster::DescribeClusterBroker| MetadataResponseBroker {
                node_id: told.broker_id,
                host: told.host,
                port: told.port,
                rack: told.rack,
                ..MetadataResponseBroker::default()
            };
        Ok(MetadataResponse {
            brokers: answer.brokers.into_iter().map(controller).collect(),
            cluster_id: Some(answer.cluster_id),
            controller_id: answer.controller_id,
            ..MetadataResponse::default()
        })
    }
}
