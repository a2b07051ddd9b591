//! Metrics of connections, requests and responses, by broker and API.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use samsarrow_wire::sync::lock;
use tokio::time::Instant;

use super::event::{Event, Observer};
use super::histogram::Histogram;
use super::meter::{Meter, Windows};
use super::sample::{Label, MeterIds, Sink};
use super::table::Id;
use crate::error::Error;
use crate::types::ClientKind;

/// Requests and responses of one broker, or of all brokers together.
#[derive(Debug)]
struct Traffic {
    /// Size of requests in bytes.
    sent: Meter,
    /// Size of responses in bytes.
    received: Meter,
    /// Latency in milliseconds.
    latency: Meter,
    histogram: Histogram,
    open: u64,
}

impl Traffic {
    fn new(windows: Windows) -> Self {
        let meter = || Meter::new(windows);
        Self { sent: meter(), received: meter(), latency: meter(), histogram: Histogram::default(), open: 0 }
    }
}

/// Metrics of one API.
#[derive(Debug)]
struct Api {
    /// Latency in milliseconds.
    latency: Meter,
    histogram: Histogram,
    /// Throttle time of responses in milliseconds.
    throttle: Meter,
}

#[derive(Debug)]
struct Inner {
    all: Traffic,
    nodes: BTreeMap<i32, Traffic>,
    apis: BTreeMap<&'static str, Api>,
    created: Meter,
    closed: Meter,
    logins: u64,
    failed_logins: u64,
    throttled: f64,
}

/// Metrics of one client's connections.
#[derive(Debug)]
pub(crate) struct Network {
    windows: Windows,
    observer: Option<Arc<dyn Observer>>,
    inner: Mutex<Inner>,
}

impl Network {
    pub(crate) fn new(windows: Windows, observer: Option<Arc<dyn Observer>>) -> Self {
        let inner = Inner {
            all: Traffic::new(windows),
            nodes: BTreeMap::new(),
            apis: BTreeMap::new(),
            created: Meter::new(windows),
            closed: Meter::new(windows),
            logins: 0,
            failed_logins: 0,
            throttled: 0.0,
        };
        Self { windows, observer, inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Emits an event. `event` is called only if an observer is set.
    pub(crate) fn emit(&self, event: impl FnOnce() -> Event) {
        if let Some(observer) = &self.observer {
            observer.notify(event());
        }
    }

    /// Calls `change` with the metrics of one API.
    fn api(&self, api: &'static str, change: impl FnOnce(&mut Api)) {
        let mut inner = self.lock();
        let new = || Api {
            latency: Meter::new(self.windows),
            histogram: Histogram::default(),
            throttle: Meter::new(self.windows),
        };
        change(inner.apis.entry(api).or_insert_with(new));
    }

    pub(crate) fn collect(&self, client: ClientKind, sink: &mut Sink) {
        let inner = self.lock();
        let none = &Label::None;
        sink.unlabeled(Id::ConnectionCount, inner.all.open as f64);
        let created = MeterIds {
            count: Some(Id::ConnectionCreationTotal),
            count_rate: Some(Id::ConnectionCreationRate),
            ..MeterIds::default()
        };
        sink.meter(&inner.created, none, created);
        let closed = MeterIds {
            count: Some(Id::ConnectionCloseTotal),
            count_rate: Some(Id::ConnectionCloseRate),
            ..MeterIds::default()
        };
        sink.meter(&inner.closed, none, closed);
        sink.unlabeled(Id::SuccessfulAuthenticationTotal, inner.logins as f64);
        sink.unlabeled(Id::FailedAuthenticationTotal, inner.failed_logins as f64);
        let (sent, received) = (&inner.all.sent, &inner.all.received);
        let ids = MeterIds {
            sum: Some(Id::OutgoingByteTotal),
            rate: Some(Id::OutgoingByteRate),
            count: Some(Id::RequestTotal),
            count_rate: Some(Id::RequestRate),
            mean: Some(Id::RequestSizeAvg),
            max: Some(Id::RequestSizeMax),
        };
        sink.meter(sent, none, ids);
        let ids = MeterIds {
            sum: Some(Id::IncomingByteTotal),
            rate: Some(Id::IncomingByteRate),
            count: Some(Id::ResponseTotal),
            count_rate: Some(Id::ResponseRate),
            ..MeterIds::default()
        };
        sink.meter(received, none, ids);
        sink.unlabeled(Id::NetworkIoTotal, (sent.count + received.count) as f64);
        let rate = sent.recent(sink.now).count_rate() + received.recent(sink.now).count_rate();
        sink.unlabeled(Id::NetworkIoRate, rate);
        sink.unlabeled(Id::Throttled, inner.throttled);
        for (node, traffic) in &inner.nodes {
            let label = Label::Node(*node);
            let ids = MeterIds {
                sum: Some(Id::NodeOutgoingByteTotal),
                rate: Some(Id::NodeOutgoingByteRate),
                count: Some(Id::NodeRequestTotal),
                count_rate: Some(Id::NodeRequestRate),
                mean: Some(Id::NodeRequestSizeAvg),
                max: Some(Id::NodeRequestSizeMax),
            };
            sink.meter(&traffic.sent, &label, ids);
            let ids = MeterIds {
                sum: Some(Id::NodeIncomingByteTotal),
                rate: Some(Id::NodeIncomingByteRate),
                count: Some(Id::NodeResponseTotal),
                count_rate: Some(Id::NodeResponseRate),
                ..MeterIds::default()
            };
            sink.meter(&traffic.received, &label, ids);
            let ids = MeterIds {
                mean: Some(Id::NodeRequestLatencyAvg),
                max: Some(Id::NodeRequestLatencyMax),
                ..MeterIds::default()
            };
            sink.meter(&traffic.latency, &label, ids);
            sink.number(Id::NodeConnections, label.clone(), traffic.open as f64);
            sink.latency(Id::NodeLatency, label, traffic.histogram.summary());
        }
        for (api, metrics) in &inner.apis {
            sink.latency(Id::ApiLatency, Label::Api(api), metrics.histogram.summary());
        }
        if client == ClientKind::Consumer {
            collect_consumer(&inner, sink);
        }
        if client == ClientKind::Producer
            && let Some(produce) = inner.apis.get("Produce")
        {
            let throttle = (Id::ProduceThrottleTimeAvg, Id::ProduceThrottleTimeMax);
            sink.meter(&produce.throttle, none, mean_and_max(throttle));
        }
    }
}

fn mean_and_max((mean, max): (Id, Id)) -> MeterIds {
    MeterIds { mean: Some(mean), max: Some(max), ..MeterIds::default() }
}

fn collect_consumer(inner: &Inner, sink: &mut Sink) {
    let none = &Label::None;
    let idle = Meter::default();
    let latency = |api| inner.apis.get(api).map_or(&idle, |api: &Api| &api.latency);
    // A share consumer sends no other fetches.
    let fetch = if inner.apis.contains_key("ShareFetch") { "ShareFetch" } else { "Fetch" };
    let ids = MeterIds {
        count: Some(Id::FetchTotal),
        count_rate: Some(Id::FetchRate),
        ..mean_and_max((Id::FetchLatencyAvg, Id::FetchLatencyMax))
    };
    sink.meter(latency(fetch), none, ids);
    if let Some(fetch) = inner.apis.get(fetch) {
        sink.meter(&fetch.throttle, none, mean_and_max((Id::FetchThrottleTimeAvg, Id::FetchThrottleTimeMax)));
    }
    let ids = MeterIds {
        count: Some(Id::CommitTotal),
        count_rate: Some(Id::CommitRate),
        ..mean_and_max((Id::CommitLatencyAvg, Id::CommitLatencyMax))
    };
    sink.meter(latency("OffsetCommit"), none, ids);
    let ids = MeterIds {
        count: Some(Id::JoinTotal),
        count_rate: Some(Id::JoinRate),
        ..mean_and_max((Id::JoinTimeAvg, Id::JoinTimeMax))
    };
    sink.meter(latency("JoinGroup"), none, ids);
    let ids = MeterIds {
        count: Some(Id::SyncTotal),
        count_rate: Some(Id::SyncRate),
        ..mean_and_max((Id::SyncTimeAvg, Id::SyncTimeMax))
    };
    sink.meter(latency("SyncGroup"), none, ids);
    // A member uses only one of the two heartbeat APIs, depending on its group protocol.
    let heartbeats = [latency("Heartbeat"), latency("ConsumerGroupHeartbeat")];
    let heartbeats = if heartbeats[1].count > 0 { heartbeats[1] } else { heartbeats[0] };
    let ids = MeterIds {
        count: Some(Id::HeartbeatTotal),
        count_rate: Some(Id::HeartbeatRate),
        max: Some(Id::HeartbeatResponseTimeMax),
        ..MeterIds::default()
    };
    sink.meter(heartbeats, none, ids);
    sink.age(Id::LastHeartbeatSecondsAgo, heartbeats.last);
}

/// Metrics of the connections to one broker.
#[derive(Debug, Clone)]
pub(crate) struct NodeMeter {
    pub(crate) network: Arc<Network>,
    pub(crate) node: i32,
}

impl NodeMeter {
    /// Records that a connection was opened. `login` is true if it included a login.
    pub(crate) fn connected(&self, address: &str, login: bool) -> ConnectionMeter {
        let now = Instant::now();
        {
            let mut inner = self.network.lock();
            inner.created.add(now, 1.0);
            inner.all.open += 1;
            inner.logins += u64::from(login);
            let windows = self.network.windows;
            inner.nodes.entry(self.node).or_insert_with(|| Traffic::new(windows)).open += 1;
        }
        self.network.emit(|| Event::Connected { node: self.node, address: address.to_owned() });
        ConnectionMeter { broker: self.clone(), closed: AtomicBool::new(false) }
    }

    /// Records that the broker or the client rejected a login or a TLS handshake.
    pub(crate) fn authentication_failed(&self, address: &str, error: &Error) {
        self.network.lock().failed_logins += 1;
        self.network.emit(|| Event::AuthenticationFailed {
            node: self.node,
            address: address.to_owned(),
            reason: error.to_string(),
        });
    }
}

/// Metrics of one connection.
#[derive(Debug)]
pub(crate) struct ConnectionMeter {
    broker: NodeMeter,
    closed: AtomicBool,
}

impl ConnectionMeter {
    /// Records a sent request.
    pub(crate) fn sent(&self, bytes: usize) {
        let now = Instant::now();
        let mut inner = self.broker.network.lock();
        inner.all.sent.add(now, bytes as f64);
        if let Some(node) = inner.nodes.get_mut(&self.broker.node) {
            node.sent.add(now, bytes as f64);
        }
    }

    /// Records a response when its first bytes arrive. `took` is the time since the request was queued.
    pub(crate) fn answered(&self, api: &'static str, bytes: usize, took: Duration) {
        let now = Instant::now();
        let (bytes, millis) = (bytes as f64, took.as_secs_f64() * 1e3);
        {
            let mut inner = self.broker.network.lock();
            inner.all.received.add(now, bytes);
            inner.all.latency.add(now, millis);
            if let Some(node) = inner.nodes.get_mut(&self.broker.node) {
                node.received.add(now, bytes);
                node.latency.add(now, millis);
                node.histogram.add(took, 1);
            }
        }
        self.broker.network.api(api, |api| {
            api.latency.add(now, millis);
            api.histogram.add(took, 1);
        });
    }

    /// Records the throttle time of a response. In most responses, it is zero.
    pub(crate) fn throttled(&self, api: &'static str, address: &str, pause: Duration) {
        let millis = pause.as_secs_f64() * 1e3;
        if matches!(api, "Fetch" | "Produce") {
            self.broker.network.api(api, |api| api.throttle.add(Instant::now(), millis));
        }
        if !pause.is_zero() {
            self.broker.network.lock().throttled += millis;
            let milliseconds = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            self.broker.network.emit(|| Event::Throttled {
                node: self.broker.node,
                address: address.to_owned(),
                milliseconds,
            });
        }
    }

    /// Records that the connection is closed. Further calls have no effect.
    pub(crate) fn ended(&self, address: &str, error: &Error) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        {
            let mut inner = self.broker.network.lock();
            inner.closed.add(Instant::now(), 1.0);
            inner.all.open = inner.all.open.saturating_sub(1);
            if let Some(node) = inner.nodes.get_mut(&self.broker.node) {
                node.open = node.open.saturating_sub(1);
            }
        }
        self.broker.network.emit(|| Event::Disconnected {
            node: self.broker.node,
            address: address.to_owned(),
            reason: error.to_string(),
        });
    }
}
