//! Produce version of a transactional producer.

use samsarrow_wire::messages::{ProduceRequest, Request};

use crate::cluster::Cluster;
use crate::producer::shared::Shared;
use crate::producer::transactions::{PRODUCE_V2, with_protocol};

impl Shared {
    /// Returns the cluster, limited to the Produce versions of the current transaction protocol.
    pub(crate) fn produce_cluster(&self) -> Cluster {
        let protocol = self.lock().transaction.as_ref().map(|transaction| transaction.protocol);
        match protocol {
            Some(protocol) => with_protocol(&self.cluster, protocol, ProduceRequest::KEY, PRODUCE_V2),
            None => self.cluster.clone(),
        }
    }
}
