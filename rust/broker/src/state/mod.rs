//! State shared by all nodes.

pub(crate) mod acls_and_users;
pub(crate) mod configs;
pub(crate) mod groups;
pub(crate) mod quotas;
pub(crate) mod sessions;
pub(crate) mod stale_metadata;
pub(crate) mod telemetry;
pub(crate) mod topic;
pub(crate) mod topic_creation;
mod topic_settings;
pub(crate) mod transactions;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI16, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use samsarrow_wire::messages::{ApiKey, Uuid};
use samsarrow_wire::releases::Release;
use samsarrow_wire::sync::{lock, read, write};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::collections::HashMap;
use crate::fault::Faults;
use crate::options::BrokerOptions;
use crate::security::Security;
use acls_and_users::Access;
use groups::Groups;
use groups::consumer::Catalog;
use groups::share::Shares;
use sessions::Sessions;
use stale_metadata::Stale;
use telemetry::Telemetry;
use topic::{NO_LEADER, Topic, Topics};
use transactions::Transactions;

/// Address and release of a node, with a flag that is true while the node is running.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) host: String,
    pub(crate) port: u16,
    up: AtomicBool,
    kafka: Mutex<Option<Release>>,
}

/// Offsets committed with OffsetCommit v0, by group, topic and partition. They have no metadata.
type ZooKeeper = HashMap<(String, Arc<str>, i32), i64>;

/// State shared by all nodes of a broker.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) options: BrokerOptions,
    pub(crate) cluster_id: String,
    pub(crate) groups: Mutex<Groups>,
    /// Notified when the earliest deadline of a group may have changed.
    pub(crate) group_clock: Notify,
    /// Share-partitions and share sessions. Lock order: after groups, before partitions.
    pub(crate) shares: Mutex<Shares>,
    /// Notified when the earliest deadline of an acquisition lock may have changed.
    pub(crate) share_clock: Notify,
    /// Lock order: this lock is taken before the locks of partitions and groups.
    transactions: Mutex<Transactions>,
    /// Notified when the earliest deadline of a transaction may have changed.
    transaction_clock: Notify,
    /// Offsets committed with OffsetCommit v0, which Kafka stored in ZooKeeper.
    pub(crate) zookeeper: Mutex<ZooKeeper>,
    /// Coordinators that tests set, by group. Other groups have their default coordinator.
    coordinator_overrides: Mutex<HashMap<String, i32>>,
    /// Coordinators that tests set, by transactional id. Other transactional ids have their default coordinator.
    transaction_coordinator_overrides: Mutex<HashMap<String, i32>>,
    /// Frozen metadata that Metadata responses contain instead of the current metadata, if any.
    pub(crate) stale: Mutex<Option<Stale>>,
    pub(crate) faults: Faults,
    pub(crate) security: Security,
    pub(crate) sessions: Sessions,
    pub(crate) telemetry: Mutex<Telemetry>,
    /// Number of requests received, by API.
    request_counts: Mutex<BTreeMap<ApiKey, u64>>,
    /// Configs set on brokers, groups and client metrics. Topics store their own configs.
    configs: Mutex<BTreeMap<configs::Resource, BTreeMap<String, String>>>,
    pub(crate) quotas: Mutex<configs::Quotas>,
    quota_usages: Mutex<quotas::Usages>,
    /// Number of throttle times during which a client has sent requests.
    pub(crate) sent_while_muted: AtomicU64,
    pub(crate) access: Mutex<Access>,
    /// Epoch of the finalized features, bumped when a feature level changes.
    features_epoch: AtomicI64,
    nodes: Vec<Node>,
    topics: RwLock<Topics>,
    next_producer_id: AtomicI64,
    next_connection: AtomicU64,
    /// Level of the feature `share.version`.
    share_version: AtomicI16,
}

impl State {
    /// Creates the state. `ports` are the ports of the nodes, in order of node id.
    pub(crate) fn new(options: BrokerOptions, security: Security, host: &str, ports: &[u16]) -> Self {
        let kafka = options.kafka;
        let node = |port: &u16| Node {
            host: host.to_owned(),
            port: *port,
            up: AtomicBool::new(true),
            kafka: Mutex::new(kafka),
        };
        State {
            share_version: AtomicI16::new(options.shares.version),
            groups: Mutex::new(Groups::new(&options.groups)),
            group_clock: Notify::new(),
            shares: Mutex::default(),
            share_clock: Notify::new(),
            transactions: Mutex::new(Transactions::new(&options.transactions)),
            transaction_clock: Notify::new(),
            zookeeper: Mutex::default(),
            coordinator_overrides: Mutex::default(),
            transaction_coordinator_overrides: Mutex::default(),
            configs: Mutex::default(),
            quotas: Mutex::default(),
            quota_usages: Mutex::default(),
            sent_while_muted: AtomicU64::new(0),
            access: Mutex::new(Access::new(&options)),
            features_epoch: AtomicI64::new(1),
            stale: Mutex::default(),
            telemetry: Mutex::default(),
            sessions: Sessions::new(options.fetch_sessions),
            security,
            options,
            // Kafka's cluster ids are 16 random bytes in base64, which are 22 characters without padding.
            cluster_id: std::iter::repeat_with(fastrand::alphanumeric).take(22).collect(),
            faults: Faults::default(),
            request_counts: Mutex::default(),
            nodes: ports.iter().map(node).collect(),
            topics: RwLock::default(),
            next_producer_id: AtomicI64::new(1000),
            next_connection: AtomicU64::new(1),
        }
    }

    pub(crate) fn node(&self, id: i32) -> Option<&Node> {
        usize::try_from(id).ok().and_then(|id| self.nodes.get(id))
    }

    /// Returns the Kafka release that a node emulates.
    pub(crate) fn kafka(&self, id: i32) -> Option<Release> {
        self.node(id).map_or(self.options.kafka, |node| *lock(&node.kafka))
    }

    /// Changes the Kafka release that a node emulates. Returns false if there is no such node.
    pub(crate) fn set_kafka(&self, id: i32, kafka: Option<Release>) -> bool {
        self.node(id).map(|node| *lock(&node.kafka) = kafka).is_some()
    }

    pub(crate) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn is_up(&self, id: i32) -> bool {
        self.node(id).is_some_and(|node| node.up.load(Ordering::Acquire))
    }

    /// Returns the nodes that are up.
    pub(crate) fn live_nodes(&self) -> impl Iterator<Item = (i32, &Node)> {
        (0_i32..).zip(&self.nodes).filter(|(_, node)| node.up.load(Ordering::Acquire))
    }

    pub(crate) fn controller(&self) -> i32 {
        self.live_nodes().next().map_or(NO_LEADER, |(id, _)| id)
    }

    /// Returns the coordinator of a group: the node set by [`State::move_coordinator`], or by default the node selected
    /// by the hash of the group id. If that node is down, the next running node is the coordinator.
    pub(crate) fn coordinator(&self, group: &str) -> Option<(i32, &Node)> {
        let override_node = lock(&self.coordinator_overrides).get(group).copied();
        self.coordinator_of(group, override_node)
    }

    fn coordinator_of(&self, key: &str, override_node: Option<i32>) -> Option<(i32, &Node)> {
        let hash = key.bytes().fold(0_usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        let override_node = override_node.and_then(|node| usize::try_from(node).ok());
        let first = override_node.unwrap_or(hash).checked_rem(self.nodes.len())?;
        let from_first = (0_i32..).zip(&self.nodes).cycle().skip(first).take(self.nodes.len());
        from_first.into_iter().find(|(_, node)| node.up.load(Ordering::Acquire))
    }

    /// Makes `node` the coordinator of a group.
    pub(crate) fn move_coordinator(&self, group: &str, node: i32) {
        lock(&self.coordinator_overrides).insert(group.to_owned(), node);
        lock(&self.groups).reload(group, Instant::now());
        self.group_clock.notify_one();
    }

    /// Runs the timer task of groups; never returns.
    pub(crate) async fn run_group_clock(&self) {
        loop {
            let next = lock(&self.groups).next_deadline();
            let due = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => lock(&self.groups).tick(Instant::now()),
                () = self.group_clock.notified() => (),
            }
        }
    }

    pub(crate) fn is_coordinator(&self, node: i32, group: &str) -> bool {
        self.coordinator(group).is_some_and(|(id, _)| id == node)
    }

    /// Returns true if the options enable an API. The telemetry APIs require the option `telemetry`.
    pub(crate) fn offers(&self, key: ApiKey) -> bool {
        let is_telemetry = matches!(key, ApiKey::GetTelemetrySubscriptions | ApiKey::PushTelemetry);
        !is_telemetry || self.options.telemetry.is_some()
    }

    pub(crate) fn count(&self, key: ApiKey) {
        *lock(&self.request_counts).entry(key).or_default() += 1;
    }

    pub(crate) fn request_counts(&self) -> BTreeMap<ApiKey, u64> {
        lock(&self.request_counts).clone()
    }

    /// Returns the epoch of the finalized features.
    pub(crate) fn features_epoch(&self) -> i64 {
        self.features_epoch.load(Ordering::Acquire)
    }

    /// Sets the level of the feature `transaction.version`.
    pub(crate) fn set_transaction_version(&self, version: i16) {
        self.transactions().set_version(version);
        self.features_epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the level of the feature `share.version`, which is 0 while share groups are disabled.
    pub(crate) fn share_version(&self) -> i16 {
        self.share_version.load(Ordering::Acquire)
    }

    /// Sets the level of the feature `share.version`.
    pub(crate) fn set_share_version(&self, version: i16) {
        self.share_version.store(version, Ordering::Release);
        self.features_epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns a number for a new connection.
    pub(crate) fn new_connection(&self) -> u64 {
        self.next_connection.fetch_add(1, Ordering::Relaxed)
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

    /// Returns the ids and partition counts of all topics, which consumer groups need.
    pub(crate) fn catalog(&self) -> Catalog {
        let entry =
            |topic: &Arc<Topic>| (topic.name.to_string(), (topic.id.0, i32::try_from(topic.len()).unwrap_or(i32::MAX)));
        Catalog(read(&self.topics).all().map(entry).collect())
    }

    /// Deletes a topic, and wakes the fetches that wait for its partitions.
    pub(crate) fn delete_topic(&self, topic: &Topic) {
        write(&self.topics).remove(topic);
        lock(&self.groups).forget_topic(topic.id.0);
        lock(&self.shares).forget_topic(topic.id.0);
    }

    /// Marks a node as up or down. Moves the groups and transactional ids whose coordinator changes, and elects leaders
    /// for partitions without a running leader.
    pub(crate) fn set_up(&self, id: i32, up: bool) {
        let Some(node) = self.node(id) else { return };
        let groups: Vec<String> = lock(&self.groups).iter().map(|(id, _)| id.to_owned()).collect();
        let transactions: Vec<String> = self.transactions().iter().map(|(id, _)| id.to_owned()).collect();
        let coordinator = |group: &str| self.coordinator(group).map(|(node, _)| node);
        let transaction_coordinator_id = |id: &str| self.transaction_coordinator(id).map(|(node, _)| node);
        let before: Vec<_> = groups.iter().map(|group| coordinator(group)).collect();
        let transactions_before: Vec<_> = transactions.iter().map(|id| transaction_coordinator_id(id)).collect();
        node.up.store(up, Ordering::Release);
        for (group, before) in groups.iter().zip(before) {
            if coordinator(group) != before {
                lock(&self.groups).reload(group, Instant::now());
            }
        }
        for (id, before) in transactions.iter().zip(transactions_before) {
            if transaction_coordinator_id(id) != before {
                self.transactions().reload(id);
            }
        }
        self.group_clock.notify_one();
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
        self.complete_transactions();
    }
}
