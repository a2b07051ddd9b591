//! What a task per broker reads with.

use std::sync::Arc;

use super::decode_pool::Cores;
use super::shared_state::Shared;
use crate::cluster::Cluster;
use crate::config::ConsumerOptions;

/// What reading at any broker needs.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) shared: Arc<Shared>,
    pub(super) cluster: Cluster,
    pub(super) options: ConsumerOptions,
    pub(super) cores: Arc<Cores>,
}
