//! Connection and options of a fetch task.

use std::sync::Arc;

use super::decode_pool::DecodePool;
use super::shared_state::Shared;
use crate::cluster::Cluster;
use crate::config::ConsumerOptions;

/// Everything that fetches from any broker need.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) shared: Arc<Shared>,
    pub(super) cluster: Cluster,
    pub(super) options: ConsumerOptions,
    pub(super) decode_pool: Arc<DecodePool>,
}
