//! Handle that starts, controls and stops an embedded broker.

mod coordinators;
mod logins;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use samsarrow_wire::batch::Batch;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;
use samsarrow_wire::releases::Release;
use samsarrow_wire::sync::lock;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::api::SUPPORTED_APIS;
use crate::api::api_versions::LAST_TRANSACTION_VERSION;
use crate::api::version_profile;
use crate::fault::{Fault, RequestInfo};
use crate::history;
use crate::node::{Running, bind};
use crate::options::BrokerOptions;
use crate::security::Security;
use crate::socket::{TcpSocket, lookup_host};
use crate::state::State;
use crate::state::telemetry::TelemetryPush;
use crate::state::topic::Partition;
use crate::state::topic_creation::NewTopic;

/// Lifecycle of a node. A stopped node keeps its port bound, so that no other process can use it.
#[derive(Debug)]
enum Slot {
    Up(Running),
    Down(TcpSocket),
    /// The node was shut down, or its port could not be bound again.
    Gone,
}

/// An embedded Kafka broker. Shutting it down or dropping it frees its ports.
#[derive(Debug)]
pub struct Broker {
    state: Arc<State>,
    nodes: Vec<(SocketAddr, Mutex<Slot>)>,
    /// Timer tasks of groups and transactions. They end with the broker.
    clock: Mutex<JoinSet<()>>,
}

fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason.into())
}

impl Broker {
    /// Binds the ports and starts the nodes on the current Tokio runtime.
    pub async fn start(mut options: BrokerOptions) -> io::Result<Broker> {
        history::clear();
        version_profile::adapt(&mut options);
        let version = options.transactions.version;
        if !(0..=LAST_TRANSACTION_VERSION).contains(&version) {
            let reason = format!("transaction.version {version}: must be 0 to {LAST_TRANSACTION_VERSION}");
            return Err(invalid(reason));
        }
        if options.brokers == 0 || options.brokers > 1000 {
            return Err(invalid(format!("{} brokers: must be 1 to 1000", options.brokers)));
        }
        options.security.check(options.kafka).map_err(invalid)?;
        let (sockets, addresses) = bind_all(&options).await?;
        let ports: Vec<u16> = addresses.iter().map(SocketAddr::port).collect();
        let unspecified = addresses.iter().any(|address| address.ip().is_unspecified());
        // Clients cannot connect to 0.0.0.0. The broker advertises localhost instead, which works for clients on the
        // same machine.
        let host = if unspecified { "localhost".to_owned() } else { options.host.clone() };
        let security = Security::new(options.security.clone(), &host)?;
        let state = Arc::new(State::new(options, security, &host, &ports));
        for (name, partitions) in &state.options.topics {
            create(&state, name, *partitions)?;
        }
        let mut nodes = Vec::with_capacity(sockets.len());
        for ((id, socket), address) in (0..).zip(sockets).zip(addresses) {
            nodes.push((address, Mutex::new(Slot::Up(Running::start(id, socket, state.clone())?))));
        }
        let mut clock = JoinSet::new();
        let timer_state = state.clone();
        clock.spawn(async move { timer_state.run_group_clock().await });
        let timer_state = state.clone();
        clock.spawn(async move { timer_state.run_share_clock().await });
        let timer_state = state.clone();
        clock.spawn(async move { timer_state.run_transaction_clock().await });
        Ok(Broker { state, nodes, clock: Mutex::new(clock) })
    }

    /// Returns the addresses of all nodes as a comma-separated list of `host:port`, for `bootstrap.servers`.
    pub fn bootstrap_servers(&self) -> String {
        let address = |(node, _)| self.state.node(node).map(|node| host_port(&node.host, node.port));
        (0..).zip(&self.nodes).filter_map(address).collect::<Vec<_>>().join(",")
    }

    /// Creates a topic. Fails if the topic exists, or if the name or the number of partitions is invalid.
    pub fn create_topic(&self, name: &str, partitions: i32) -> io::Result<()> {
        create(&self.state, name, partitions)
    }

    /// Stops a node: closes its port and connections, and elects other leaders for its partitions. Partitions without a
    /// replica on a running node have no leader until the node is started again. The node's data is kept.
    pub async fn stop_node(&self, node: i32) -> io::Result<()> {
        let (address, slot) = self.slot(node)?;
        let mut slot = slot.lock().await;
        match std::mem::replace(&mut *slot, Slot::Gone) {
            Slot::Up(running) => {
                self.state.set_up(node, false);
                running.stop().await;
                *slot = bind(*address).map_or(Slot::Gone, Slot::Down);
            }
            other => *slot = other,
        }
        Ok(())
    }

    /// Starts a stopped node on its previous port.
    pub async fn start_node(&self, node: i32) -> io::Result<()> {
        let (address, slot) = self.slot(node)?;
        let mut slot = slot.lock().await;
        let socket = match std::mem::replace(&mut *slot, Slot::Gone) {
            Slot::Down(socket) => socket,
            Slot::Gone => bind(*address)?,
            Slot::Up(running) => {
                *slot = Slot::Up(running);
                return Ok(());
            }
        };
        *slot = Slot::Up(Running::start(node, socket, self.state.clone())?);
        self.state.set_up(node, true);
        Ok(())
    }

    /// Changes the Kafka release whose API versions and errors a node emulates. For a rolling upgrade, stop the node
    /// before and start it afterwards. Topics, groups and features keep their state.
    pub fn set_kafka(&self, node: i32, kafka: Option<Release>) -> io::Result<()> {
        match self.state.set_kafka(node, kafka) {
            true => Ok(()),
            false => Err(invalid(format!("there is no node {node}"))),
        }
    }

    /// Makes `node` the leader of a partition. Bumps the leader epoch even if `node` already was the leader.
    pub fn move_leader(&self, topic: &str, partition: i32, node: i32) -> io::Result<()> {
        if self.state.node(node).is_none() {
            return Err(invalid(format!("there is no node {node}")));
        }
        if !self.state.is_up(node) {
            return Err(invalid(format!("node {node} is stopped: it cannot lead {topic}-{partition}")));
        }
        let found_partition = self.partition(topic, partition)?;
        {
            let mut state = found_partition.state();
            state.leader = node;
            state.leader_epoch += 1;
            if !state.replicas.contains(&node) {
                state.replicas.push(node);
            }
        }
        found_partition.wake();
        self.state.complete_transactions();
        Ok(())
    }

    /// Truncates a partition from the batch that contains `offset`, and bumps the leader epoch. An unclean leader
    /// election has the same effect.
    pub fn truncate(&self, topic: &str, partition: i32, offset: i64) -> io::Result<()> {
        let found_partition = self.partition(topic, partition)?;
        {
            let mut state = found_partition.state();
            state.truncate(offset);
            state.leader_epoch += 1;
        }
        found_partition.wake();
        Ok(())
    }

    /// Redirects consumers that have a rack to `node` for reads of a partition, while that node is up (KIP-392). `None`
    /// removes the redirection.
    pub fn prefer_replica(&self, topic: &str, partition: i32, node: Option<i32>) -> io::Result<()> {
        if let Some(node) = node.filter(|node| self.state.node(*node).is_none()) {
            return Err(invalid(format!("there is no node {node}")));
        }
        let found_partition = self.partition(topic, partition)?;
        {
            let mut state = found_partition.state();
            state.preferred = node;
            if let Some(node) = node.filter(|node| !state.replicas.contains(node)) {
                state.replicas.push(node);
            }
        }
        found_partition.wake();
        Ok(())
    }

    /// Drops all fetch sessions (KIP-227), like a broker that restarts or evicts them.
    pub fn forget_fetch_sessions(&self) {
        self.state.sessions.clear();
    }

    fn partition(&self, topic: &str, partition: i32) -> io::Result<Arc<Partition>> {
        let found_partition = self.state.topic(topic).and_then(|topic| topic.partition(partition).cloned());
        found_partition.ok_or_else(|| invalid(format!("there is no partition {topic}-{partition}")))
    }

    /// Returns the leader of a partition; `None` if the partition is unknown or has no leader.
    pub fn leader(&self, topic: &str, partition: i32) -> Option<i32> {
        let leader = self.state.topic(topic)?.partition(partition)?.state().leader;
        (leader >= 0).then_some(leader)
    }

    /// Returns the batches in the log of a partition; `None` if the partition is unknown.
    pub fn batches(&self, topic: &str, partition: i32) -> Option<Vec<Batch>> {
        Some(self.state.topic(topic)?.partition(partition)?.state().log.batches().collect())
    }

    /// Returns true if the partition exists.
    pub fn has_partition(&self, topic: &str, partition: i32) -> bool {
        self.partition(topic, partition).is_ok()
    }

    /// Returns the log end offset of a partition.
    pub fn end_offset(&self, topic: &str, partition: i32) -> Option<i64> {
        Some(self.state.topic(topic)?.partition(partition)?.state().log.next_offset())
    }

    /// Appends `data` to the log of a partition unchanged. It may contain batches and messages of any format with their
    /// own offsets, like a log segment of another broker, and may be corrupt. Intended for tests of consumers.
    pub fn load(&self, topic: &str, partition: i32, data: &Bytes) -> io::Result<()> {
        let found_partition = self.partition(topic, partition)?;
        found_partition.state().load(data);
        found_partition.wake();
        Ok(())
    }

    /// Returns the metrics that clients have pushed, oldest first; the last thousand pushes are kept.
    pub fn telemetry(&self) -> Vec<TelemetryPush> {
        lock(&self.state.telemetry).pushes.iter().cloned().collect()
    }

    /// Returns the last stable offset of a partition: the start of the oldest open transaction, or the log end offset.
    pub fn last_stable_offset(&self, topic: &str, partition: i32) -> Option<i64> {
        Some(self.state.topic(topic)?.partition(partition)?.state().last_stable_offset())
    }

    /// Makes the next `times` Metadata responses return the current metadata, even after the metadata has changed. With
    /// `None`, this applies to all responses until [`Broker::clear_faults`]. The responses contain neither the topics
    /// in `without` nor topics created later.
    pub fn stale_metadata(&self, times: Option<usize>, without: &[String]) {
        self.state.freeze_metadata(times, without);
    }

    /// Sets or removes a quota, as AlterClientQuotas does. The entity is a list of types (`user`, `client-id`) and names,
    /// `None` for the default. `producer_byte_rate` and `consumer_byte_rate` are enforced, for each node.
    pub fn set_quota(&self, entity: &[(&str, Option<&str>)], key: &str, value: Option<f64>) {
        let entity = entity.iter().map(|(kind, name)| ((*kind).to_owned(), name.map(str::to_owned))).collect();
        self.state.set_quota(entity, key, value);
    }

    /// Returns the number of throttle times during which a client has sent requests, although the throttled response
    /// had time to arrive (KIP-219).
    pub fn sent_while_muted(&self) -> u64 {
        self.state.sent_while_muted.load(Ordering::Relaxed)
    }

    /// Adds a hook that every node calls for each request of this API. If several hooks return a fault, the first one
    /// is applied. Requests wait for their hooks, so hooks must be quick.
    pub fn on_request(&self, api: ApiKey, hook: impl FnMut(&RequestInfo) -> Option<Fault> + Send + 'static) {
        self.state.faults.add(api, hook);
    }

    /// Injects a fault into the next `times` requests of this API.
    pub fn fail_next(&self, api: ApiKey, fault: Fault, times: usize) {
        self.fail(api, None, &fault, Some(times));
    }

    /// Injects a fault into the next `times` requests of this API, or into all requests if `times` is `None`. The fault
    /// affects only `node`, or all nodes if `node` is `None`.
    pub fn fail(&self, api: ApiKey, node: Option<i32>, fault: &Fault, times: Option<usize>) {
        let mut remaining = times;
        let fault = fault.clone();
        self.on_request(api, move |request| {
            if node.is_some_and(|node| node != request.node) {
                return None;
            }
            if let Some(remaining) = &mut remaining {
                *remaining = remaining.checked_sub(1)?;
            }
            Some(fault.clone())
        });
    }

    /// Removes all hooks and faults added by [`Broker::on_request`], [`Broker::fail`], [`Broker::fail_next`] and
    /// [`Broker::on_login`], and unfreezes the metadata.
    pub fn clear_faults(&self) {
        self.state.faults.clear(None);
        self.state.security.hooks.clear();
        self.state.unfreeze_metadata();
    }

    /// Removes the hooks and faults of one API.
    pub fn clear_faults_of(&self, api: ApiKey) {
        self.state.faults.clear(Some(api));
        if matches!(api, ApiKey::SaslHandshake | ApiKey::SaslAuthenticate) {
            self.state.security.hooks.clear();
        }
        if api == ApiKey::Metadata {
            self.state.unfreeze_metadata();
        }
    }

    /// Returns the number of requests received so far by API, including requests to which a fault was applied.
    pub fn requests(&self) -> BTreeMap<ApiKey, u64> {
        self.state.request_counts()
    }

    /// Returns the supported APIs.
    pub fn apis() -> impl Iterator<Item = ApiKey> {
        SUPPORTED_APIS.iter().map(|(key, ..)| *key)
    }

    /// Returns the number of nodes, including stopped ones.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Stops every node and waits until all of its tasks have ended.
    pub async fn shutdown(&self) {
        for (_, slot) in &self.nodes {
            let slot = std::mem::replace(&mut *slot.lock().await, Slot::Gone);
            if let Slot::Up(running) = slot {
                running.stop().await;
            }
        }
        self.clock.lock().await.shutdown().await;
    }

    fn slot(&self, node: i32) -> io::Result<&(SocketAddr, Mutex<Slot>)> {
        let slot = usize::try_from(node).ok().and_then(|node| self.nodes.get(node));
        slot.ok_or_else(|| invalid(format!("there is no node {node}")))
    }
}

fn host_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn create(state: &State, name: &str, partitions: i32) -> io::Result<()> {
    let new = NewTopic { name, partitions, replication_factor: -1, ..NewTopic::default() };
    match state.create_topic(&new) {
        Ok(_) => Ok(()),
        Err((ErrorCode::TOPIC_ALREADY_EXISTS, message)) => Err(io::Error::new(io::ErrorKind::AlreadyExists, message)),
        Err((_, message)) => Err(invalid(message)),
    }
}

/// Binds one socket per node. Returns each socket with its address.
async fn bind_all(options: &BrokerOptions) -> io::Result<(Vec<TcpSocket>, Vec<SocketAddr>)> {
    let mut sockets = Vec::with_capacity(options.brokers);
    let mut addresses = Vec::with_capacity(options.brokers);
    for node in 0..options.brokers {
        let port = match options.port {
            0 => 0,
            port => u16::try_from(usize::from(port) + node).map_err(|_| {
                invalid(format!("port {port} and {} brokers: there is no port above 65535", options.brokers))
            })?,
        };
        let address = lookup_host((options.host.as_str(), port)).await?.next();
        let address = address.ok_or_else(|| invalid(format!("host '{}' has no address", options.host)))?;
        let socket = bind(address).map_err(|error| {
            io::Error::new(error.kind(), format!("could not bind {}: {error}", host_port(&options.host, port)))
        })?;
        addresses.push(socket.local_addr()?);
        sockets.push(socket);
    }
    Ok((sockets, addresses))
}
