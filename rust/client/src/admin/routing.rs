//! Who can answer for which items: found out before each round of questions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;

use super::batch::Way;
use super::coordinators::{CoordinatorType, find};
use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::offsets::absent;
use crate::types::{TopicPartition, some_of};

/// Who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Any,
    Node(i32),
}

/// Who is asked for which items, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Placed {
    pub(super) targets: BTreeMap<Target, Vec<usize>>,
    /// Items that nobody can be asked for, now or at all.
    pub(super) failures: Vec<(usize, Error)>,
    /// Items that nobody needs to be asked for: this is what became of them.
    pub(super) settled: Vec<(usize, Error)>,
}

impl Placed {
    fn at(target: Target, items: impl IntoIterator<Item = usize>) -> Self {
        Self { targets: [(target, items.into_iter().collect())].into(), ..Self::default() }
    }
}

/// Who can answer for which items.
///
/// # Errors
/// What keeps the client from asking anybody, and stays.
pub(super) async fn place(cluster: &Cluster, way: &Way<'_>, open: BTreeSet<usize>, limit: Duration) -> Result<Placed> {
    match way {
        Way::Any if !cluster.options().at_controllers => Ok(Placed::at(Target::Any, open)),
        // Of controllers only the active one answers everything.
        Way::Any | Way::Controller => {
            match cluster.refresh(limit).await {
                // Where none is known, any broker can say so, or that it is too old to have one.
                Ok(()) => match cluster.metadata().controller {
                    ..0 => Ok(Placed::at(Target::Any, open)),
                    id => Ok(Placed::at(Target::Node(id), open)),
                },
                Err(error) if !error.retriable() => Err(error),
                Err(error) => {
                    let failures = open.into_iter().map(|item| (item, error.clone())).collect();
                    Ok(Placed { failures, ..Placed::default() })
                }
            }
        }
        Way::Leader(partitions) => by_leader(cluster, partitions, open, limit).await,
        Way::Coordinator(kind, keys) => by_coordinator(cluster, *kind, keys, open, limit).await,
        Way::Broker(ids) => by_broker(cluster, ids, open, limit).await,
    }
}

async fn by_leader(
    cluster: &Cluster,
    partitions: &[&TopicPartition],
    open: BTreeSet<usize>,
    limit: Duration,
) -> Result<Placed> {
    let open: Vec<_> = open.iter().filter_map(|item| Some((*item, *partitions.get(*item)?))).collect();
    let names: BTreeSet<&str> = open.iter().map(|(_, tp)| &*tp.topic).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let topics = cluster.topics_each(&names, limit).await;
    // Partitions may have come since.
    if open.iter().any(|(_, tp)| absent(&cluster.metadata(), tp).is_some()) {
        match cluster.refresh(limit).await {
            Err(error) if !error.retriable() => return Err(error),
            _ => {}
        }
    }
    let metadata = cluster.metadata();
    let mut placed = Placed::default();
    for (item, tp) in open {
        let unknown = topics.get(&*tp.topic).and_then(|known| known.as_ref().err().cloned());
        let leader = metadata.leader(&tp.topic, tp.partition);
        match (unknown.or_else(|| absent(&metadata, tp)), leader) {
            // That it is not there was asked for often enough.
            (Some(error @ Error::Server { .. }), _) => placed.settled.push((item, error)),
            (Some(error), _) => placed.failures.push((item, error)),
            (None, Some(leader)) => placed.targets.entry(Target::Node(leader.node)).or_default().push(item),
            (None, None) => {
                let error = Error::server(ErrorCode::LEADER_NOT_AVAILABLE, tp.to_string());
                placed.failures.push((item, error));
            }
        }
    }
    Ok(placed)
}

async fn by_coordinator(
    cluster: &Cluster,
    kind: CoordinatorType,
    keys: &[&str],
    open: BTreeSet<usize>,
    limit: Duration,
) -> Result<Placed> {
    let mut by_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for item in open {
        let Some(key) = keys.get(item) else { continue };
        by_key.entry((*key).to_owned()).or_default().push(item);
    }
    let keys: Vec<String> = by_key.keys().cloned().collect();
    let (mut targets, mut failures) = (BTreeMap::<Target, Vec<usize>>::new(), Vec::new());
    let mut found = match find(cluster, kind, &keys, limit).await {
        Ok(found) => found,
        // Nobody can be asked at the moment.
        Err(error) if error.retriable() => keys.iter().map(|key| (key.clone(), Err(error.clone()))).collect(),
        Err(error) => return Err(error),
    };
    for (key, items) in by_key {
        match found.remove(&key) {
            Some(Ok(node)) => targets.entry(Target::Node(node.id)).or_default().extend(items),
            Some(Err(error)) => failures.extend(items.into_iter().map(|item| (item, error.clone()))),
            None => {
                let error = Error::protocol("a broker", format!("the answer to FindCoordinator leaves out {key}"));
                failures.extend(items.into_iter().map(|item| (item, error.clone())));
            }
        }
    }
    know(cluster, &targets, limit).await?;
    Ok(Placed { targets, failures, settled: Vec::new() })
}

async fn by_broker(cluster: &Cluster, ids: &[i32], open: BTreeSet<usize>, limit: Duration) -> Result<Placed> {
    let mut targets = BTreeMap::<Target, Vec<usize>>::new();
    for item in open {
        let Some(id) = ids.get(item) else { continue };
        targets.entry(Target::Node(*id)).or_default().push(item);
    }
    let asked = know(cluster, &targets, limit).await?;
    let metadata = cluster.metadata();
    let mut failures = Vec::new();
    let known = |target: &Target| match target {
        Target::Node(node) => metadata.brokers.contains_key(node),
        Target::Any => true,
    };
    let (known, unknown): (BTreeMap<_, _>, BTreeMap<_, _>) = targets.into_iter().partition(|(target, _)| known(target));
    for (target, items) in unknown {
        let error = match (&asked, target) {
            (Some(error), _) => error.clone(),
            (None, Target::Node(node)) => Error::configuration(format!(
                "there is no broker {node}: the cluster has {}",
                some_of(metadata.brokers.keys())
            )),
            (None, Target::Any) => continue,
        };
        failures.extend(items.into_iter().map(|item| (item, error.clone())));
    }
    Ok(Placed { targets: known, failures, settled: Vec::new() })
}

/// Learns where brokers are that are not known yet; what kept it from that, where it may pass.
async fn know(cluster: &Cluster, targets: &BTreeMap<Target, Vec<usize>>, limit: Duration) -> Result<Option<Error>> {
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
