//! What the virtual brokers share.

pub(crate) mod create;
pub(crate) mod groups;
pub(crate) mod topic;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use samsarrow_wire::messages::Uuid;

use crate::fault::Faults;
use crate::options::BrokerOptions;
use crate::sync::{read, write};
use groups::Groups;
use topic::{NO_LEADER, Topic, Topics};

/// Where a node listens, and whether it does now.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) host: String,
    pub(crate) port: u16,
    up: AtomicBool,
}

/// Everything that the nodes of one broker share.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) options: BrokerOptions,
    pub(crate) cluster_id: String,
    pub(crate) groups: Mutex<Groups>,
    pub(crate) faults: Faults,
    nodes: Vec<Node>,
    topics: RwLock<Topics>,
    next_producer_id: AtomicI64,
}

impl State {
    /// `ports`: one for each node, in order of node ids from 0 on.
    pub(crate) fn new(options: BrokerOptions, host: &str, ports: &[u16]) -> Self {
        let node = |port: &u16| Node { host: host.to_owned(), port: *port, up: AtomicBool::new(true) };
        State {
            options,
            // Kafka's cluster ids are 16 bytes in base64, which are 22 characters.
            cluster_id: std::iter::repeat_with(fastrand::alphanumeric).take(22).collect(),
            groups: Mutex::default(),
            faults: Faults::default(),
            nodes: ports.iter().map(node).collect(),
            topics: RwLock::default(),
            next_producer_id: AtomicI64::new(1000),
        }
    }

    pub(crate) fn node(&self, id: i32) -> Option<&Node> {
        usize::try_from(id).ok().and_then(|id| self.nodes.get(id))
    }

    pub(crate) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn is_up(&self, id: i32) -> bool {
        self.node(id).is_some_and(|node| node.up.load(Ordering::Acquire))
    }

    /// The nodes that are up.
    pub(crate) fn live_nodes(&self) -> impl Iterator<Item = (i32, &Node)> {
        (0_i32..).zip(&self.nodes).filter(|(_, node)| node.up.load(Ordering::Acquire))
    }

    pub(crate) fn controller(&self) -> i32 {
        self.live_nodes().next().map_or(NO_LEADER, |(id, _)| id)
    }

    /// The node that keeps a group's offsets: the same one as long as the same nodes are up.
    pub(crate) fn coordinator(&self, group: &str) -> Option<(i32, &Node)> {
        let live: Vec<_> = self.live_nodes().collect();
        let hash = group.bytes().fold(0_usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        live.get(hash.checked_rem(live.len())?).copied()
    }

    pub(crate) fn is_coordinator(&self, node: i32, group: &str) -> bool {
        self.coordinator(group).is_some_and(|(id, _)| id == node)
    }

    pub(crate) fn new_producer_id(&self) -> i64 {
        self.next_producer_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn topic(&self, name: &str) -> Option<Arc<Topic>> {
        read(&self.topics).by_name(name).cloned()
    }

    pub(crate) fn topic_by_id(&self, id: &Uuid) -> Option<Arc<Topic>> {
        read(&self.topics).by_id(id).cloned()
    }

    pub(crate) fn topics(&self) -> Vec<Arc<Topic>> {
        read(&self.topics).all().cloned().collect()
    }

    /// Deletes a topic; fetches that wait for it are answered.
    pub(crate) fn delete_topic(&self, topic: &Topic) {
        write(&self.topics).remove(topic);
        crate::sync::lock(&self.groups).forget_topic(topic.id.0);
    }

    /// Marks a node up or down and elects leaders where that changes something.
    pub(crate) fn set_up(&self, id: i32, up: bool) {
        let Some(node) = self.node(id) else { return };
        node.up.store(up, Ordering::Release);
        for topic in self.topics() {
            for (_, partition) in topic.partitions() {
                partition.elect(|state| {
                    if self.is_up(state.leader) {
                        return state.leader;
                    }
                    state.replicas.iter().copied().find(|node| self.is_up(*node)).unwrap_or(NO_LEADER)
                });
            }
        }
    }
}
