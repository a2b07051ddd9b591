//! Brokers, connections and metadata behind one handle.

pub mod coordinator;
pub mod metadata;

mod broker;
mod broker_selection;
mod controllers;
mod refresh;
mod requests;
mod telemetry;
mod topic_registry;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use samsarrow_wire::messages::ApiKey;
use tokio::sync::{Notify, OnceCell, watch};
use tokio::time::Instant;

use self::broker::{Link, Troubles};
pub(crate) use self::broker_selection::{Answer, first_of};
pub(crate) use self::controllers::CONTROLLERS;
use self::telemetry::Telemetry;
use self::topic_registry::Interest;
pub(crate) use self::topic_registry::TopicUser;
use crate::api_versions::Features;
use crate::cluster::metadata::{Leader, Metadata};
use crate::config::{ClientKind, CommonOptions, Options};
use crate::error::{Error, Result};
use crate::metrics::{Id, Metrics, NodeMeter, Sink, Source};
use crate::net::{Connection, Patience, Setup};
use crate::retry::backoff::Backoff;
use crate::types::TopicPartition;

/// Connections to one broker, apart from each other so that a long poll never delays a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Lane {
    /// Everything that is answered at once.
    #[default]
    Control,
    /// Fetch requests, which wait at the broker.
    Fetch,
    /// Entering a group, which waits for the other members.
    Group,
    /// What else is asked of a group's coordinator: it may be slow, and nothing else should wait for it.
    Coordinator,
    /// What belongs to a transaction, but for its records.
    Transactions,
}

/// The version of one API that a caller wants, whatever the options say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// This one or an error.
    Exactly(i16),
    /// No newer one, unless an option chose it.
    AtMost(i16),
}

struct Inner {
    setup: Arc<Setup>,
    /// The servers to start from: names as given, or all their addresses (`client.dns.lookup`).
    bootstrap: OnceCell<Vec<String>>,
    metadata: watch::Sender<Arc<Metadata>>,
    /// The newest that a broker reported.
    features: Mutex<Features>,
    links: Mutex<HashMap<(i32, Lane), Arc<Link>>>,
    troubles: Arc<Troubles>,
    /// Topics that metadata is asked for.
    interest: Mutex<Interest>,
    /// Metadata is asked for all topics.
    all_topics: AtomicBool,
    refresh_wanted: Arc<Notify>,
    refreshing: tokio::sync::Mutex<()>,
    /// How often all that is of interest was asked for.
    refreshes: AtomicU64,
    refresher_runs: AtomicBool,
    /// Since when no broker has sent metadata, though it was asked for.
    lost_since: Mutex<Option<Instant>>,
    closed: watch::Sender<bool>,
    metrics: Arc<Metrics>,
    telemetry: Arc<Telemetry>,
    /// When metadata came last.
    told_at: Mutex<Option<Instant>>,
}

impl Inner {
    fn lost_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.lost_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for Inner {
    fn collect(&self, sink: &mut Sink) {
        if self.metrics.client() != ClientKind::Producer {
            return;
        }
        let links: Vec<_> = self.links.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let in_flight: usize = links.iter().filter_map(|link| link.open()).map(|open| open.load()).sum();
        sink.one(Id::RequestsInFlight, in_flight as f64);
        let told = *self.told_at.lock().unwrap_or_else(PoisonError::into_inner);
        sink.age(Id::MetadataAge, told.map(Instant::into_std));
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.refresh_wanted.notify_one();
    }
}

/// A cluster as a client sees it. Cheap to clone; made without I/O.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
    lane: Lane,
    wanted: Option<(ApiKey, Wanted)>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("bootstrap", &self.options().bootstrap_servers).finish_non_exhaustive()
    }
}

impl Cluster {
    /// For the brokers that `options` start from.
    pub fn new(options: &Options) -> Result<Cluster> {
        let inner = Inner {
            setup: Arc::new(Setup::new(options.common.clone())?),
            bootstrap: OnceCell::new(),
            metadata: watch::Sender::new(Arc::default()),
            features: Mutex::default(),
            links: Mutex::default(),
            troubles: Arc::default(),
            interest: Mutex::default(),
            all_topics: AtomicBool::new(false),
            refresh_wanted: Arc::default(),
            refreshing: tokio::sync::Mutex::default(),
            refreshes: AtomicU64::new(0),
            refresher_runs: AtomicBool::new(false),
            lost_since: Mutex::default(),
            closed: watch::Sender::new(false),
            metrics: Arc::new(Metrics::new(&options.common.metrics)),
            telemetry: Arc::default(),
            told_at: Mutex::default(),
        };
        let inner = Arc::new(inner);
        let source: Arc<dyn Source> = Arc::clone(&inner) as _;
        inner.metrics.add(Arc::downgrade(&source));
        let source: Arc<dyn Source> = Arc::clone(&inner.telemetry) as _;
        inner.metrics.add(Arc::downgrade(&source));
        Ok(Cluster { inner, lane: Lane::Control, wanted: None })
    }

    /// The same cluster over connections of its own.
    #[must_use]
    pub fn lane(&self, lane: Lane) -> Cluster {
        Cluster { lane, ..self.clone() }
    }

    /// The same cluster, asked for one API in a version of the caller's choice.
    #[must_use]
    pub fn wanting(&self, key: ApiKey, version: Wanted) -> Cluster {
        Cluster { wanted: Some((key, version)), ..self.clone() }
    }

    /// The same cluster, asked for one API in no newer version than this and what was wanted of it before.
    pub(crate) fn at_most(&self, key: ApiKey, version: i16) -> Cluster {
        match self.wanted {
            Some((wanted, Wanted::AtMost(before))) if wanted == key => {
                self.wanting(key, Wanted::AtMost(before.min(version)))
            }
            Some((wanted, Wanted::Exactly(_))) if wanted == key => self.clone(),
            _ => self.wanting(key, Wanted::AtMost(version)),
        }
    }

    /// Options of every client.
    pub fn options(&self) -> &CommonOptions {
        &self.inner.setup.options
    }

    /// What this client counts.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.inner.metrics
    }

    /// A backoff with this client's settings.
    pub fn backoff(&self) -> Backoff {
        Backoff::new(self.options().retry_backoff, self.options().retry_backoff_max)
    }

    /// The address of a broker; bootstrap servers have the ids −1, −2, …
    fn address(&self, node: i32) -> Result<String> {
        let bootstrap = usize::try_from(-1 - i64::from(node)).ok();
        let known = match bootstrap {
            Some(i) => self.bootstrap().get(i).cloned(),
            None => self.metadata().brokers.get(&node).cloned(),
        };
        known.ok_or_else(|| Error::connection(format!("broker {node}"), "the cluster's metadata does not name it"))
    }

    async fn connection(&self, node: i32, patience: Patience) -> Result<Arc<Connection>> {
        self.check_open()?;
        let address = self.address(node)?;
        let link = {
            let new = |address| {
                let (setup, troubles) = (Arc::clone(&self.inner.setup), Arc::clone(&self.inner.troubles));
                let meter = NodeMeter { network: Arc::clone(&self.inner.metrics.network), node };
                Arc::new(Link::new(address, setup, troubles, meter))
            };
            let mut links = self.inner.links.lock().unwrap_or_else(PoisonError::into_inner);
            let link = links.entry((node, self.lane)).or_insert_with(|| new(address.clone()));
            if link.address != address {
                *link = new(address);
            }
            Arc::clone(link)
        };
        let mut closed = self.inner.closed.subscribe();
        let ready = async {
            let connection = link.connection(patience).await?;
            self.learn_features(connection.versions().features());
            self.start_telemetry(connection.versions().range(ApiKey::PushTelemetry));
            connection.unpaused(patience).await?;
            Ok(connection)
        };
        tokio::select! {
            biased;
            // Anyone who is connecting must not keep `close` waiting.
            _ = closed.wait_for(|closed| *closed) => Err(Error::closed("the client")),
            ready = ready => ready,
        }
    }

    /// A broker asked to be left alone in an answer that somebody else has read off the socket.
    pub(crate) fn throttled(&self, node: i32, throttle_time_ms: i32) {
        let link = self.inner.links.lock().unwrap_or_else(PoisonError::into_inner).get(&(node, self.lane)).cloned();
        if let Some(connection) = link.and_then(|link| link.open()) {
            connection.throttled(ApiKey::Fetch.name(), throttle_time_ms);
        }
    }

    fn learn_features(&self, told: &Features) {
        let mut known = self.inner.features.lock().unwrap_or_else(PoisonError::into_inner);
        if told.epoch > known.epoch {
            known.clone_from(told);
        }
    }

    /// The cluster-wide level of a feature, as reported by the brokers that were connected to so far; 0 for none.
    pub fn feature_level(&self, name: &str) -> i16 {
        self.inner.features.lock().unwrap_or_else(PoisonError::into_inner).level(name)
    }

    fn check_open(&self) -> Result<()> {
        if *self.inner.closed.borrow() { Err(Error::closed("the client")) } else { Ok(()) }
    }

    // ---- metadata ----

    /// What is known now.
    pub fn metadata(&self) -> Arc<Metadata> {
        Arc::clone(&self.inner.metadata.borrow())
    }

    /// Notifies of every change.
    pub fn watch(&self) -> watch::Receiver<Arc<Metadata>> {
        self.inner.metadata.subscribe()
    }

    /// Asks for fresh metadata in the background; many calls make one request.
    pub fn request_refresh(&self) {
        self.start_refresher();
        self.inner.refresh_wanted.notify_one();
    }

    /// Takes the leaders that an answer named, where they are newer than the known ones, and their addresses (KIP-951).
    pub fn update_leaders(&self, leaders: &[(TopicPartition, Leader)], addresses: &[(i32, String)]) {
        self.inner.metadata.send_if_modified(|metadata| match metadata.with_leaders(leaders, addresses) {
            Some(next) => {
                *metadata = Arc::new(next);
                true
            }
            None => false,
        });
    }

    /// Ends all connections; whatever waits on one fails. Brokers that want metrics get the last ones before, as long as
    /// that takes no longer than `limit`, and never more than a second.
    pub async fn close_within(&self, limit: Duration) {
        self.end_telemetry(limit).await;
        self.close().await;
    }

    /// Ends all connections; whatever waits on one fails.
    pub async fn close(&self) {
        self.inner.closed.send_replace(true);
        self.inner.refresh_wanted.notify_one();
        let links = std::mem::take(&mut *self.inner.links.lock().unwrap_or_else(PoisonError::into_inner));
        for link in links.into_values() {
            link.close(&Error::closed("the client"));
        }
    }
}
