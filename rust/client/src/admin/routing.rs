//! Routing of items to brokers before each round of requests.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;

use super::batch::Routes;
use crate::cluster::Cluster;
use crate::cluster::find_coordinator::{CoordinatorType, find_coordinators};
use crate::error::{Error, Result};
use crate::offsets::absent;
use crate::types::{TopicPartition, join_limited};

/// Destination of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Any,
    Node(i32),
}

/// Indexes of the items, grouped by destination.
#[derive(Debug, Default)]
pub(super) struct RoutedItems {
    pub(super) targets: BTreeMap<Target, Vec<usize>>,
    /// Items that cannot be sent in this round, with their errors.
    pub(super) failures: Vec<(usize, Error)>,
    /// Items that have failed finally and need no request, with their errors.
    pub(super) completed: Vec<(usize, Error)>,
}

impl RoutedItems {
    fn to_target(target: Target, items: impl IntoIterator<Item = usize>) -> Self {
        Self { targets: [(target, items.into_iter().collect())].into(), ..Self::default() }
    }
}

/// Routes items to brokers.
///
/// # Errors
/// Fails with an error that is not retriable and concerns all items.
pub(super) async fn route_items(
    cluster: &Cluster,
    routes: &Routes<'_>,
    open: BTreeSet<usize>,
    limit: Duration,
) -> Result<RoutedItems> {
    match routes {
        Routes::Any if !cluster.options().at_controllers => Ok(RoutedItems::to_target(Target::Any, open)),
        // Among controllers, only the active one supports all APIs.
        Routes::Any | Routes::Controller => {
            match cluster.refresh(limit).await {
                // If no controller is known, any broker returns the appropriate error, for example that its version is
                // too old.
                Ok(()) => match cluster.metadata().controller {
                    ..0 => Ok(RoutedItems::to_target(Target::Any, open)),
                    id => Ok(RoutedItems::to_target(Target::Node(id), open)),
                },
                Err(error) if !error.retriable() => Err(error),
                Err(error) => {
                    let failures = open.into_iter().map(|item| (item, error.clone())).collect();
                    Ok(RoutedItems { failures, ..RoutedItems::default() })
                }
            }
        }
        Routes::Leader(partitions) => by_leader(cluster, partitions, open, limit).await,
        Routes::Coordinator(coordinator_type, keys) => {
            by_coordinator(cluster, *coordinator_type, keys, open, limit).await
        }
        Routes::Broker(ids) => by_broker(cluster, ids, open, limit).await,
    }
}

async fn by_leader(
    cluster: &Cluster,
    partitions: &[&TopicPartition],
    open: BTreeSet<usize>,
    limit: Duration,
) -> Result<RoutedItems> {
    let open: Vec<_> = open.iter().filter_map(|item| Some((*item, *partitions.get(*item)?))).collect();
    let names: BTreeSet<&str> = open.iter().map(|(_, tp)| &*tp.topic).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let topics = cluster.topics_each(&names, limit).await;
    // If a partition is missing in the metadata, it may have been added since the last refresh.
    if open.iter().any(|(_, tp)| absent(&cluster.metadata(), tp).is_some()) {
        match cluster.refresh(limit).await {
            Err(error) if !error.retriable() => return Err(error),
            _ => {}
        }
    }
    let metadata = cluster.metadata();
    let mut routed = RoutedItems::default();
    for (item, tp) in open {
        let unknown = topics.get(&*tp.topic).and_then(|known| known.as_ref().err().cloned());
        let leader = metadata.leader(&tp.topic, tp.partition);
        match (unknown.or_else(|| absent(&metadata, tp)), leader) {
            // The error is final, because `topics_each` has already retried the lookup of a missing topic.
            (Some(error @ Error::Server { .. }), _) => routed.completed.push((item, error)),
            (Some(error), _) => routed.failures.push((item, error)),
            (None, Some(leader)) => routed.targets.entry(Target::Node(leader.node)).or_default().push(item),
            (None, None) => {
                let error = Error::server(ErrorCode::LEADER_NOT_AVAILABLE, tp.to_string());
                routed.failures.push((item, error));
            }
        }
    }
    Ok(routed)
}

async fn by_coordinator(
    cluster: &Cluster,
    coordinator_type: CoordinatorType,
    keys: &[&str],
    open: BTreeSet<usize>,
    limit: Duration,
) -> Result<RoutedItems> {
    let mut by_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for item in open {
        let Some(key) = keys.get(item) else { continue };
        by_key.entry((*key).to_owned()).or_default().push(item);
    }
    let keys: Vec<String> = by_key.keys().cloned().collect();
    let (mut targets, mut failures) = (BTreeMap::<Target, Vec<usize>>::new(), Vec::new());
    let coordinators = match find_coordinators(cluster, coordinator_type, &keys, limit).await {
        Ok(coordinators) => coordinators,
        // No broker can be reached at the moment.
        Err(error) if error.retriable() => vec![Err(error); keys.len()],
        Err(error) => return Err(error),
    };
    for (items, coordinator) in by_key.into_values().zip(coordinators) {
        match coordinator {
            Ok(node) => targets.entry(Target::Node(node.id)).or_default().extend(items),
            Err(error) => failures.extend(items.into_iter().map(|item| (item, error.clone()))),
        }
    }
    refresh_unknown(cluster, &targets, limit).await?;
    Ok(RoutedItems { targets, failures, completed: Vec::new() })
}

async fn by_broker(cluster: &Cluster, ids: &[i32], open: BTreeSet<usize>, limit: Duration) -> Result<RoutedItems> {
    let mut targets = BTreeMap::<Target, Vec<usize>>::new();
    for item in open {
        let Some(id) = ids.get(item) else { continue };
        targets.entry(Target::Node(*id)).or_default().push(item);
    }
    let error = refresh_unknown(cluster, &targets, limit).await?;
    let metadata = cluster.metadata();
    let mut failures = Vec::new();
    let known = |target: &Target| match target {
        Target::Node(node) => metadata.brokers.contains_key(node),
        Target::Any => true,
    };
    let (known, unknown): (BTreeMap<_, _>, BTreeMap<_, _>) = targets.into_iter().partition(|(target, _)| known(target));
    for (target, items) in unknown {
        let error = match (&error, target) {
            (Some(error), _) => error.clone(),
            (None, Target::Node(node)) => Error::configuration(format!(
                "there is no broker {node}: the cluster has {}",
                join_limited(metadata.brokers.keys())
            )),
            (None, Target::Any) => continue,
        };
        failures.extend(items.into_iter().map(|item| (item, error.clone())));
    }
    Ok(RoutedItems { targets: known, failures, completed: Vec::new() })
}

/// Refreshes metadata if it lacks a target. Returns a retriable error of the refresh as `Some`, and fails with other
/// errors.
async fn refresh_unknown(
    cluster: &Cluster,
    targets: &BTreeMap<Target, Vec<usize>>,
    limit: Duration,
) -> Result<Option<Error>> {
    let metadata = cluster.metadata();
    let unknown = |target: &Target| matches!(target, Target::Node(node) if !metadata.brokers.contains_key(node));
    if !targets.keys().any(unknown) {
        return Ok(None);
    }
    match cluster.refresh(limit).await {
        Ok(()) => Ok(None),
        Err(error) if error.retriable() => Ok(Some(error)),
        Err(error) => Err(error),
    }
}
