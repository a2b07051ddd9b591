//! Handle to a cluster: its brokers, connections and metadata.

pub mod coordinator;
pub(crate) mod find_coordinator;
pub mod metadata;

mod broker;
mod broker_selection;
mod controllers;
mod metadata_changes;
mod name_resolution;
mod refresh;
mod requests;
mod telemetry;
mod topic_registry;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use samsarrow_wire::messages::ApiKey;
use samsarrow_wire::sync::lock;
use tokio::sync::{Notify, OnceCell, watch};
use tokio::time::Instant;

use self::broker::{BrokerHandle, ConnectErrorLog};
pub(crate) use self::broker_selection::{PendingResponse, first_completed};
pub(crate) use self::controllers::CONTROLLER_ENDPOINTS;
use self::name_resolution::NameResolution;
use self::telemetry::Telemetry;
use self::topic_registry::TopicRegistry;
pub(crate) use self::topic_registry::TopicUser;
use crate::api_versions::Features;
use crate::cluster::metadata::{Metadata, ReportedLeader};
use crate::collections::HashMap;
use crate::config::{ClientKind, CommonOptions, Options, Recovery};
use crate::error::{Error, Result};
use crate::metrics::{Id, Metrics, NodeMeter, Sink, Source};
use crate::net::{CallerDeadline, Connection, Destination, Setup};
use crate::retry::backoff::Backoff;
use crate::types::join_limited;

/// Kind of connection to a broker. Each kind uses its own connection, so that, for example, a long poll never delays a
/// commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ConnectionKind {
    /// Requests to which brokers respond immediately.
    #[default]
    Control,
    /// Fetch requests, which wait at the broker for records.
    Fetch,
    /// JoinGroup and SyncGroup requests, which wait for the other members of the group.
    Group,
    /// Other requests to a group coordinator. They may be slow, and no other request should wait for them.
    Coordinator,
    /// Requests of a transaction, except Produce.
    Transactions,
    /// Requests of a share session, which ends when its connection closes (KIP-932).
    Share,
}

/// API version that a caller requests for one API, in addition to the client's options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiVersionOverride {
    /// Exactly this version. The request fails if the version is not supported.
    Exactly(i16),
    /// This version or an older one. An option can lower the limit or select another version.
    AtMost(i16),
}

struct Inner {
    setup: Arc<Setup>,
    /// Bootstrap servers: the configured addresses, or all addresses that they resolve to (`client.dns.lookup`).
    bootstrap: OnceCell<Vec<String>>,
    name_resolution: NameResolution,
    metadata: watch::Sender<Arc<Metadata>>,
    /// Finalized features, from the broker that reported the highest epoch.
    features: Mutex<Features>,
    handles: Mutex<HashMap<(i32, ConnectionKind), Arc<BrokerHandle>>>,
    connect_errors: Arc<ConnectErrorLog>,
    /// Topics whose metadata is requested.
    topic_registry: Mutex<TopicRegistry>,
    /// Set while each refresh requests the metadata of all topics.
    all_topics: AtomicBool,
    refresh_requested: Arc<Notify>,
    refresh_lock: tokio::sync::Mutex<()>,
    /// Number of completed refreshes of all registered topics.
    refreshes: AtomicU64,
    refresher_started: AtomicBool,
    /// Time of the first failed metadata request since the last successful one.
    unreachable_since: Mutex<Option<Instant>>,
    closed: watch::Sender<bool>,
    metrics: Arc<Metrics>,
    telemetry: Arc<Telemetry>,
    /// Time of the last metadata response.
    metadata_received_at: Mutex<Option<Instant>>,
}

impl Inner {}

impl Source for Inner {
    fn collect(&self, sink: &mut Sink) {
        if self.metrics.client() != ClientKind::Producer {
            return;
        }
        let handles: Vec<_> = lock(&self.handles).values().cloned().collect();
        let in_flight: usize = handles.iter().filter_map(|handle| handle.open()).map(|open| open.load()).sum();
        sink.unlabeled(Id::RequestsInFlight, in_flight as f64);
        let received_at = *lock(&self.metadata_received_at);
        sink.age(Id::MetadataAge, received_at);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.refresh_requested.notify_one();
    }
}

/// Handle to a cluster. It is cheap to clone, and its creation needs no I/O.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
    connection_kind: ConnectionKind,
    version_override: Option<(ApiKey, ApiVersionOverride)>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("bootstrap", &self.options().bootstrap_servers).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Creates a handle that connects to the bootstrap servers of `options`.
    pub fn new(options: &Options) -> Result<Cluster> {
        let inner = Inner {
            setup: Arc::new(Setup::new(options.common.clone())?),
            bootstrap: OnceCell::new(),
            name_resolution: NameResolution::default(),
            metadata: watch::Sender::new(Arc::default()),
            features: Mutex::default(),
            handles: Mutex::default(),
            connect_errors: Arc::default(),
            topic_registry: Mutex::default(),
            all_topics: AtomicBool::new(false),
            refresh_requested: Arc::default(),
            refresh_lock: tokio::sync::Mutex::default(),
            refreshes: AtomicU64::new(0),
            refresher_started: AtomicBool::new(false),
            unreachable_since: Mutex::default(),
            closed: watch::Sender::new(false),
            metrics: Arc::new(Metrics::new(&options.common.metrics)),
            telemetry: Arc::default(),
            metadata_received_at: Mutex::default(),
        };
        let inner = Arc::new(inner);
        let source: Arc<dyn Source> = Arc::clone(&inner) as _;
        inner.metrics.add(Arc::downgrade(&source));
        let source: Arc<dyn Source> = Arc::clone(&inner.telemetry) as _;
        inner.metrics.add(Arc::downgrade(&source));
        Ok(Cluster { inner, connection_kind: ConnectionKind::Control, version_override: None })
    }

    /// Returns a handle that sends requests over connections of `kind`.
    #[must_use]
    pub fn with_connections(&self, kind: ConnectionKind) -> Cluster {
        Cluster { connection_kind: kind, ..self.clone() }
    }

    /// Returns a handle that overrides the version of one API.
    #[must_use]
    pub fn with_version(&self, key: ApiKey, version: ApiVersionOverride) -> Cluster {
        Cluster { version_override: Some((key, version)), ..self.clone() }
    }

    /// Returns a handle that sends requests of one API in `version` or older. An earlier limit still applies.
    pub(crate) fn with_max_version(&self, key: ApiKey, version: i16) -> Cluster {
        match self.version_override {
            Some((api, ApiVersionOverride::AtMost(before))) if api == key => {
                self.with_version(key, ApiVersionOverride::AtMost(before.min(version)))
            }
            Some((api, ApiVersionOverride::Exactly(_))) if api == key => self.clone(),
            _ => self.with_version(key, ApiVersionOverride::AtMost(version)),
        }
    }

    /// Returns the options common to all clients.
    pub fn options(&self) -> &CommonOptions {
        &self.inner.setup.options
    }

    /// Returns option `client.id`, which each log line contains.
    pub(crate) fn client_id(&self) -> &str {
        &self.options().client_id
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.inner.metrics
    }

    /// Returns a backoff with this client's settings.
    pub fn backoff(&self) -> Backoff {
        Backoff::new(self.options().retry_backoff, self.options().retry_backoff_max)
    }

    /// Returns the address of a broker. Bootstrap servers have the broker ids −1, −2, …
    fn address(&self, node: i32) -> Result<String> {
        let bootstrap = usize::try_from(-1 - i64::from(node)).ok();
        let known = match bootstrap {
            Some(i) => self.bootstrap().get(i).cloned(),
            None => self.metadata().brokers.get(&node).cloned(),
        };
        known.ok_or_else(|| Error::connection(format!("broker {node}"), "not in the cluster's metadata"))
    }

    async fn connection(&self, node: i32, patience: CallerDeadline) -> Result<Arc<Connection>> {
        self.check_open()?;
        let address = self.address(node)?;
        let handle = {
            let destination = self.destination(node);
            let new = |address| {
                let (setup, connect_errors) = (Arc::clone(&self.inner.setup), Arc::clone(&self.inner.connect_errors));
                let meter = NodeMeter { network: Arc::clone(&self.inner.metrics.network), node };
                Arc::new(BrokerHandle::new(address, destination.clone(), setup, connect_errors, meter))
            };
            let mut handles = lock(&self.inner.handles);
            let handle = handles.entry((node, self.connection_kind)).or_insert_with(|| new(address.clone()));
            if handle.address != address || handle.destination != destination {
                *handle = new(address);
            }
            Arc::clone(handle)
        };
        let mut closed = self.inner.closed.subscribe();
        let ready = async {
            let connection = handle.connection(patience).await;
            if connection.is_err() && handle.take_misrouted() {
                self.misrouted(node);
            }
            let connection = connection?;
            self.update_features(connection.versions().features());
            self.start_telemetry(connection.versions().range(ApiKey::PushTelemetry));
            connection.unthrottled(patience).await?;
            Ok(connection)
        };
        tokio::select! {
            biased;
            // `close` must not wait for a pending connection attempt.
            _ = closed.wait_for(|closed| *closed) => Err(Error::closed("the client")),
            ready = ready => ready,
        }
    }

    /// Returns the broker that connections to `node` must reach, if brokers are to check it (KIP-1242).
    fn destination(&self, node: i32) -> Option<Destination> {
        let options = self.options();
        if node < 0 || !options.check_destination || options.metadata_recovery == Recovery::None {
            return None;
        }
        Some(Destination { cluster: self.metadata().cluster_id.clone()?, node })
    }

    fn update_features(&self, reported: &Features) {
        let mut known = lock(&self.inner.features);
        if reported.epoch > known.epoch {
            known.clone_from(reported);
        }
    }

    /// Returns the finalized level of a feature, as reported by the brokers connected so far; 0 if no broker has
    /// reported it.
    pub fn feature_level(&self, name: &str) -> i16 {
        lock(&self.inner.features).level(name)
    }

    fn check_open(&self) -> Result<()> {
        if *self.inner.closed.borrow() { Err(Error::closed("the client")) } else { Ok(()) }
    }

    // ---- metadata ----

    /// Returns the current snapshot.
    pub fn metadata(&self) -> Arc<Metadata> {
        Arc::clone(&self.inner.metadata.borrow())
    }

    /// Returns a receiver that is notified of each new snapshot.
    pub fn watch(&self) -> watch::Receiver<Arc<Metadata>> {
        self.inner.metadata.subscribe()
    }

    /// Requests a metadata refresh in the background. Calls during a refresh share one further request.
    pub fn request_refresh(&self) {
        self.start_refresher();
        self.inner.refresh_requested.notify_one();
    }

    /// Applies leaders and broker addresses from a Produce or Fetch response, if they are newer than the known leaders
    /// (KIP-951).
    pub fn update_leaders(&self, leaders: &[ReportedLeader], addresses: &[(i32, String)]) {
        let changed =
            self.inner.metadata.send_if_modified(|metadata| match metadata.with_leaders(leaders, addresses) {
                Some(next) => {
                    *metadata = Arc::new(next);
                    true
                }
                None => false,
            });
        if changed {
            let leaders = leaders.iter().map(|leader| format!("{} to broker {}", leader.tp, leader.leader.node));
            tracing::debug!(
                client_id = self.client_id(),
                "leaders have changed, as a response says: {}",
                join_limited(leaders)
            );
        }
    }

    /// Pushes the final telemetry, if brokers have requested metrics, and then closes all connections.
    ///
    /// The push takes at most `limit` or one second, whichever is shorter.
    pub async fn close_within(&self, limit: Duration) {
        self.end_telemetry(limit).await;
        self.close().await;
    }

    /// Closes all connections. Pending requests fail.
    pub async fn close(&self) {
        self.inner.closed.send_replace(true);
        self.inner.refresh_requested.notify_one();
        let handles = std::mem::take(&mut *lock(&self.inner.handles));
        for handle in handles.into_values() {
            handle.close(&Error::closed("the client"));
        }
    }
}
