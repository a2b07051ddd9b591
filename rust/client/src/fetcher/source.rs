//! Resources shared by the fetch tasks.

use std::sync::Arc;

use super::decode_pool::DecodePool;
use super::shared_state::Shared;
use crate::cluster::Cluster;
use crate::config::ConsumerOptions;

/// State, connections and options shared by all fetch tasks.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) shared: Arc<Shared>,
    pub(super) cluster: Cluster,
    pub(super) options: ConsumerOptions,
    pub(super) decode_pool: Arc<DecodePool>,
}
