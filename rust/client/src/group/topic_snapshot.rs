//! Snapshot of topics, with which a group leader detects changes that require a rebalance.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::metadata::Metadata;

/// Racks of the replicas, by topic and partition.
pub(super) type TopicSnapshot = BTreeMap<String, Vec<BTreeSet<String>>>;

/// Takes a snapshot of the topics in `names`. Racks are included if this member has a rack (KIP-881). A broker that is
/// down keeps its last known rack from `known_racks`, so that a restart does not trigger a rebalance.
pub(super) fn snapshot(
    known_racks: &mut BTreeMap<i32, String>,
    rack: &str,
    metadata: &Metadata,
    names: &BTreeSet<String>,
) -> TopicSnapshot {
    known_racks.extend(metadata.racks.iter().map(|(node, rack)| (*node, rack.clone())));
    let racks = |nodes: &[i32]| match rack.is_empty() {
        true => BTreeSet::new(),
        false => nodes.iter().filter_map(|node| known_racks.get(node).cloned()).collect(),
    };
    let existing = names.iter().filter_map(|name| Some((name, metadata.topic(name)?)));
    existing
        .map(|(name, topic)| (name.clone(), topic.partitions.iter().map(|p| racks(&p.replicas)).collect()))
        .collect()
}

#[cfg(test)]
mod tests {
    use samsarrow_wire::messages::MetadataResponse;
    use samsarrow_wire::messages::metadata::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };

    use super::*;
    use crate::cluster::metadata::RequestedTopics;

    /// Returns the metadata of a cluster with these brokers and racks, and one topic whose partitions have these
    /// replicas.
    fn metadata(brokers: &[(i32, &str)], replicas: &[&[i32]]) -> Metadata {
        let broker = |(node_id, rack): &(i32, &str)| MetadataResponseBroker {
            node_id: *node_id,
            rack: Some((*rack).into()),
            ..Default::default()
        };
        let partition = |(number, nodes): (i32, &&[i32])| MetadataResponsePartition {
            partition_index: number,
            replica_nodes: nodes.to_vec(),
            ..Default::default()
        };
        let topic = MetadataResponseTopic {
            name: Some("t".into()),
            partitions: (0..).zip(replicas).map(partition).collect(),
            ..Default::default()
        };
        let brokers = brokers.iter().map(broker).collect();
        Metadata::default()
            .updated(MetadataResponse { brokers, topics: vec![topic], ..Default::default() }, RequestedTopics::All)
    }

    #[test]
    fn snapshot_ignores_broker_restarts_and_detects_rack_changes() {
        let names = BTreeSet::from(["t".to_owned()]);
        let initial = metadata(&[(1, "a"), (2, "b")], &[&[1, 2]]);
        let broker_down = metadata(&[(1, "a")], &[&[1, 2]]);
        let swapped = metadata(&[(1, "a"), (2, "b")], &[&[2, 1]]);
        let moved = metadata(&[(1, "a"), (2, "c")], &[&[1, 2]]);
        let partition_added = metadata(&[(1, "a"), (2, "b")], &[&[1, 2], &[1, 2]]);
        for (rack, rack_aware) in [("a", true), ("", false)] {
            let mut known_racks = BTreeMap::new();
            let mut take = |metadata| snapshot(&mut known_racks, rack, metadata, &names);
            let first = take(&initial);
            for unchanged in [&broker_down, &initial, &swapped] {
                assert_eq!(take(unchanged), first, "rack {rack:?}");
            }
            assert_ne!(take(&partition_added), first, "rack {rack:?}");
            assert_eq!(take(&moved) != first, rack_aware, "rack {rack:?}");
        }
    }
}
