//! DescribeCluster, v0–v2.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DescribeClusterRequest;
use samsarrow_wire::messages::describe_cluster::{DescribeClusterBroker, DescribeClusterResponse};

use super::{CLUSTER_OPERATIONS, Call, Handler, Outcome};

/// Endpoint type of brokers, the only supported one.
const BROKERS: i8 = 1;

impl Handler for DescribeClusterRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        if self.endpoint_type != BROKERS {
            return call.reply::<Self>(&self.error_response(call.version, ErrorCode::MISMATCHED_ENDPOINT_TYPE));
        }
        let broker = |(id, node): (i32, &crate::state::Node)| DescribeClusterBroker {
            broker_id: id,
            host: node.host.clone(),
            port: node.port.into(),
            ..DescribeClusterBroker::default()
        };
        call.reply::<Self>(&DescribeClusterResponse {
            cluster_authorized_operations: match self.include_cluster_authorized_operations {
                true => CLUSTER_OPERATIONS,
                false => DescribeClusterResponse::default().cluster_authorized_operations,
            },
            cluster_id: call.state.cluster_id.clone(),
            controller_id: call.state.controller(),
            brokers: call.state.live_nodes().map(broker).collect(),
            ..DescribeClusterResponse::default()
        })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> DescribeClusterResponse {
        DescribeClusterResponse { error_code: code.code(), ..DescribeClusterResponse::default() }
    }
}
