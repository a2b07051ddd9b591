//! Client metrics: one table of all metrics, with values computed on request.
//!
//! Counters are updated for each request, response or batch, but never for each record, and mostly under locks that the
//! caller already holds.

mod event;
mod exposition;
mod histogram;
mod meter;
mod names;
mod network;
pub(crate) mod otlp;
mod poll_metrics;
mod reading;
mod rebalances;
mod sample;
mod table;

use std::sync::{Arc, Mutex, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use samsarrow_wire::sync::lock;
use tokio::time::Instant;

pub use event::{Event, Observer};
pub use exposition::exposition;
pub(crate) use histogram::Histogram;
pub use histogram::Latency;
pub(crate) use meter::Meter;
pub use meter::Windows;
pub use names::client_name;
pub(crate) use network::{ConnectionMeter, Network, NodeMeter};
pub(crate) use poll_metrics::Polls;
pub(crate) use reading::ReadMeters;
pub(crate) use rebalances::Rebalances;
pub use sample::{Label, Sample, Value};
pub(crate) use sample::{MeterIds, Sink};
pub use table::{CONVENTIONS, Group, Id, Kind, LabelKind, METRICS, MetricSpec, Unit};

use crate::clock;
use crate::types::ClientKind;

/// Options of a client's metrics.
#[derive(Debug, Clone)]
pub struct MetricsOptions {
    /// Type of the client.
    pub client: ClientKind,
    /// Client id.
    pub client_id: String,
    /// Time windows of rates, averages and extremes.
    pub windows: Windows,
    /// True if end-to-end latency is measured per row instead of per batch.
    pub by_row: bool,
    /// True if metrics are pushed to brokers that request them (KIP-714).
    pub push: bool,
    /// Resource attributes that are sent to brokers.
    pub attributes: Vec<(&'static str, String)>,
    /// Observer of events.
    pub observer: Option<Arc<dyn Observer>>,
}

/// Provider of metrics.
pub(crate) trait Source: Send + Sync {
    /// Adds the samples of this source to `sink`.
    fn collect(&self, sink: &mut Sink);

    /// Returns additional resource attributes that are sent to brokers.
    fn attributes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// Metrics of one client.
pub struct Metrics {
    pub(crate) options: MetricsOptions,
    started: SystemTime,
    pub(crate) network: Arc<Network>,
    pub(crate) polls: Polls,
    sources: Mutex<Vec<Weak<dyn Source>>>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").field("client", &self.options.client).finish_non_exhaustive()
    }
}

impl Metrics {
    pub(crate) fn new(options: &MetricsOptions) -> Self {
        Self {
            network: Arc::new(Network::new(options.windows, options.observer.clone())),
            polls: Polls::new(options.windows),
            options: options.clone(),
            started: clock::now(),
            sources: Mutex::default(),
        }
    }

    /// Registers a source. Its samples are collected until it is dropped.
    pub(crate) fn add(&self, source: Weak<dyn Source>) {
        lock(&self.sources).push(source);
    }

    /// Emits an event. `event` is called only if an observer is set.
    pub(crate) fn emit(&self, event: impl FnOnce() -> Event) {
        self.network.emit(event);
    }

    pub fn client_id(&self) -> &str {
        &self.options.client_id
    }

    /// Returns the type of the client.
    pub fn client(&self) -> ClientKind {
        self.options.client
    }

    /// Returns the time at which the client was created.
    pub(crate) fn started(&self) -> SystemTime {
        self.started
    }

    fn sources(&self) -> Vec<Arc<dyn Source>> {
        lock(&self.sources).iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the resource attributes that are sent to brokers.
    pub(crate) fn attributes(&self) -> Vec<(&'static str, String)> {
        let own = self.options.attributes.iter().cloned();
        own.chain(self.sources().iter().flat_map(|source| source.attributes())).collect()
    }

    /// Returns the current samples of all metrics, sorted by metric.
    pub fn samples(&self) -> Vec<Sample> {
        let mut sink = Sink::new(Instant::now());
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        sink.unlabeled(Id::StartTime, started.as_millis() as f64);
        self.network.collect(self.options.client, &mut sink);
        if self.options.client == ClientKind::Consumer {
            self.polls.collect(&mut sink);
        }
        for source in self.sources() {
            source.collect(&mut sink);
        }
        sink.samples.sort_by_key(|sample| sample.id);
        sink.samples
    }
}
