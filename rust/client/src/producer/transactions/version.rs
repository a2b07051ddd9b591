//! In which version batches are written: the protocol of the transaction decides.

use samsarrow_wire::messages::{ProduceRequest, Request};

use crate::cluster::Cluster;
use crate::producer::shared::Shared;
use crate::producer::transactions::{PRODUCE_V2, within};

impl Shared {
    /// The cluster as batches are written to it now.
    pub(crate) fn produce_cluster(&self) -> Cluster {
        let protocol = self.lock().transaction.as_ref().map(|transaction| transaction.protocol);
        match protocol {
            Some(protocol) => within(&self.cluster, protocol, ProduceRequest::KEY, PRODUCE_V2),
            None => self.cluster.clone(),
        }
    }
}
