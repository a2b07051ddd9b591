//! What a client counts, and what it makes of that: one table of names, values read when somebody asks.
//!
//! Counters move with each request, answer or batch, never with each record, most of them under locks that are held anyway.

mod event;
mod exposition;
mod histogram;
mod markdown;
mod meter;
mod names;
mod network;
pub(crate) mod otlp;
mod poll_metrics;
mod reading;
mod rebalances;
mod sample;
mod table;

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub use event::{Event, Observer};
pub use exposition::exposition;
pub(crate) use histogram::Histogram;
pub use histogram::Latency;
pub use markdown::metrics_markdown;
pub(crate) use meter::Meter;
pub use meter::Windows;
pub use names::client_name;
pub(crate) use network::{ConnectionMeter, Network, NodeMeter};
pub(crate) use poll_metrics::Polls;
pub(crate) use reading::ReadMeters;
pub(crate) use rebalances::Rebalances;
pub use sample::{Label, Sample, Value};
pub(crate) use sample::{Names, Sink};
pub use table::{CONVENTIONS, Group, Id, Kind, LabelKind, METRICS, MetricSpec, Unit};

use crate::types::ClientKind;

/// Options of a client's metrics.
#[derive(Debug, Clone)]
pub struct MetricsOptions {
    /// Whose they are.
    pub client: ClientKind,
    /// What the client calls itself.
    pub client_id: String,
    /// How far they look back.
    pub windows: Windows,
    /// Whether the age of each row counts, and not of each batch.
    pub by_row: bool,
    /// Whether brokers get what they ask for (KIP-714).
    pub push: bool,
    /// What the client belongs to, as brokers get it.
    pub attributes: Vec<(&'static str, String)>,
    /// Is notified of events.
    pub observer: Option<Arc<dyn Observer>>,
}

/// Has metrics of its own.
pub(crate) trait Source: Send + Sync {
    /// Gives them.
    fn collect(&self, sink: &mut Sink);

    /// What else the client belongs to, as brokers get it.
    fn attributes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// The metrics of one client.
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
            started: SystemTime::now(),
            sources: Mutex::default(),
        }
    }

    /// What else is asked for metrics, as long as it lives.
    pub(crate) fn add(&self, source: Weak<dyn Source>) {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).push(source);
    }

    /// An event for the program, made only where it wants to know.
    pub(crate) fn tell(&self, event: impl FnOnce() -> Event) {
        self.network.tell(event);
    }

    /// What the client calls itself.
    pub fn client_id(&self) -> &str {
        &self.options.client_id
    }

    /// Whose they are.
    pub fn client(&self) -> ClientKind {
        self.options.client
    }

    /// When the client was made.
    pub(crate) fn started(&self) -> SystemTime {
        self.started
    }

    fn sources(&self) -> Vec<Arc<dyn Source>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
    }

    /// What the client belongs to, as brokers get it.
    pub(crate) fn attributes(&self) -> Vec<(&'static str, String)> {
        let own = self.options.attributes.iter().cloned();
        own.chain(self.sources().iter().flat_map(|source| source.attributes())).collect()
    }

    /// All that there are now, those of a metric together in no certain order.
    pub fn samples(&self) -> Vec<Sample> {
        let mut sink = Sink::new(Instant::now());
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        sink.one(Id::StartTime, started.as_millis() as f64);
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
