//! DescribeCluster API: returns the brokers, the controller and the id of the cluster (KIP-700).
//!
//! v1 can return controllers (KIP-919); v2 can return fenced brokers (KIP-1073).

request! { DescribeCluster = 60, versions 0..=2, flexible 0, DescribeClusterRequest => DescribeClusterResponse }

messages! {
    struct DescribeClusterRequest {
        include_cluster_authorized_operations: bool => 0..;
        endpoint_type: i8 = 1 => 1..;
        include_fenced_brokers: bool => 2..;
    }

    struct DescribeClusterResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        endpoint_type: i8 = 1 => 1.., [ignorable];
        cluster_id: String => 0..;
        controller_id: i32 = -1 => 0..;
        brokers: Vec<DescribeClusterBroker> => 0..;
        cluster_authorized_operations: i32 = -2147483648 => 0..;
    }

    /// A broker of the cluster and its address.
    struct DescribeClusterBroker {
        broker_id: i32 => 0..;
        host: String => 0..;
        port: i32 => 0..;
        rack: Option<String> => 0..;
        is_fenced: bool => 2.., [ignorable];
    }
}
