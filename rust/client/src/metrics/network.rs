//! Connections, requests and answers, by broker and by kind of request.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::event::{Event, Observer};
use super::histogram::Histogram;
use super::meter::{Meter, Windows};
use super::sample::{Label, Names, Sink};
use super::table::Id;
use crate::error::Error;
use crate::types::ClientKind;

/// Requests and answers of one broker, or of all.
#[derive(Debug)]
struct Traffic {
    /// Bytes of requests.
    sent: Meter,
    /// Bytes of answers.
    received: Meter,
    /// Milliseconds.
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

/// One kind of request.
#[derive(Debug)]
struct Api {
    /// Milliseconds.
    latency: Meter,
    histogram: Histogram,
    /// Milliseconds that its answers asked for.
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
    refused: u64,
    throttled: f64,
}

/// What one client's connections count.
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
            refused: 0,
            throttled: 0.0,
        };
        Self { windows, observer, inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An event for the program, made only where it wants to know.
    pub(crate) fn tell(&self, event: impl FnOnce() -> Event) {
        if let Some(observer) = &self.observer {
            observer.tell(event());
        }
    }

    /// What is known of one kind of request.
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
        sink.one(Id::ConnectionCount, inner.all.open as f64);
        let created = Names {
            count: Some(Id::ConnectionCreationTotal),
            count_rate: Some(Id::ConnectionCreationRate),
            ..Names::default()
        };
        sink.meter(&inner.created, none, created);
        let closed = Names {
            count: Some(Id::ConnectionCloseTotal),
            count_rate: Some(Id::ConnectionCloseRate),
            ..Names::default()
        };
        sink.meter(&inner.closed, none, closed);
        sink.one(Id::SuccessfulAuthenticationTotal, inner.logins as f64);
        sink.one(Id::FailedAuthenticationTotal, inner.refused as f64);
        let (sent, received) = (&inner.all.sent, &inner.all.received);
        let names = Names {
            sum: Some(Id::OutgoingByteTotal),
            rate: Some(Id::OutgoingByteRate),
            count: Some(Id::RequestTotal),
            count_rate: Some(Id::RequestRate),
            mean: Some(Id::RequestSizeAvg),
            max: Some(Id::RequestSizeMax),
        };
        sink.meter(sent, none, names);
        let names = Names {
            sum: Some(Id::IncomingByteTotal),
            rate: Some(Id::IncomingByteRate),
            count: Some(Id::ResponseTotal),
            count_rate: Some(Id::ResponseRate),
            ..Names::default()
        };
        sink.meter(received, none, names);
        sink.one(Id::NetworkIoTotal, (sent.count + received.count) as f64);
        let rate = sent.recent(sink.now).count_rate() + received.recent(sink.now).count_rate();
        sink.one(Id::NetworkIoRate, rate);
        sink.one(Id::Throttled, inner.throttled);
        for (node, traffic) in &inner.nodes {
            let label = Label::Node(*node);
            let names = Names {
                sum: Some(Id::NodeOutgoingByteTotal),
                rate: Some(Id::NodeOutgoingByteRate),
                count: Some(Id::NodeRequestTotal),
                count_rate: Some(Id::NodeRequestRate),
                mean: Some(Id::NodeRequestSizeAvg),
                max: Some(Id::NodeRequestSizeMax),
            };
            sink.meter(&traffic.sent, &label, names);
            let names = Names {
                sum: Some(Id::NodeIncomingByteTotal),
                rate: Some(Id::NodeIncomingByteRate),
                count: Some(Id::NodeResponseTotal),
                count_rate: Some(Id::NodeResponseRate),
                ..Names::default()
            };
            sink.meter(&traffic.received, &label, names);
            let names = Names {
                mean: Some(Id::NodeRequestLatencyAvg),
                max: Some(Id::NodeRequestLatencyMax),
                ..Names::default()
            };
            sink.meter(&traffic.latency, &label, names);
            sink.number(Id::NodeConnections, label.clone(), traffic.open as f64);
            sink.latency(Id::NodeLatency, label, traffic.histogram.summary());
        }
        for (api, one) in &inner.apis {
            sink.latency(Id::ApiLatency, Label::Api(api), one.histogram.summary());
        }
        if client == ClientKind::Consumer {
            of_consumer(&inner, sink);
        }
        if client == ClientKind::Producer
            && let Some(produce) = inner.apis.get("Produce")
        {
            let throttle = (Id::ProduceThrottleTimeAvg, Id::ProduceThrottleTimeMax);
            sink.meter(&produce.throttle, none, mean_and_max(throttle));
        }
    }
}

fn mean_and_max((mean, max): (Id, Id)) -> Names {
    Names { mean: Some(mean), max: Some(max), ..Names::default() }
}

fn of_consumer(inner: &Inner, sink: &mut Sink) {
    let none = &Label::None;
    let idle = Meter::default();
    let of = |api| inner.apis.get(api).map_or(&idle, |api: &Api| &api.latency);
    let names = Names {
        count: Some(Id::FetchTotal),
        count_rate: Some(Id::FetchRate),
        ..mean_and_max((Id::FetchLatencyAvg, Id::FetchLatencyMax))
    };
    sink.meter(of("Fetch"), none, names);
    if let Some(fetch) = inner.apis.get("Fetch") {
        sink.meter(&fetch.throttle, none, mean_and_max((Id::FetchThrottleTimeAvg, Id::FetchThrottleTimeMax)));
    }
    let names = Names {
        count: Some(Id::CommitTotal),
        count_rate: Some(Id::CommitRate),
        ..mean_and_max((Id::CommitLatencyAvg, Id::CommitLatencyMax))
    };
    sink.meter(of("OffsetCommit"), none, names);
    let names = Names {
        count: Some(Id::JoinTotal),
        count_rate: Some(Id::JoinRate),
        ..mean_and_max((Id::JoinTimeAvg, Id::JoinTimeMax))
    };
    sink.meter(of("JoinGroup"), none, names);
    let names = Names {
        count: Some(Id::SyncTotal),
        count_rate: Some(Id::SyncRate),
        ..mean_and_max((Id::SyncTimeAvg, Id::SyncTimeMax))
    };
    sink.meter(of("SyncGroup"), none, names);
    // A member has heartbeats of one of the two protocols.
    let beats = [of("Heartbeat"), of("ConsumerGroupHeartbeat")];
    let beats = if beats[1].count > 0 { beats[1] } else { beats[0] };
    let names = Names {
        count: Some(Id::HeartbeatTotal),
        count_rate: Some(Id::HeartbeatRate),
        max: Some(Id::HeartbeatResponseTimeMax),
        ..Names::default()
    };
    sink.meter(beats, none, names);
    sink.age(Id::LastHeartbeatSecondsAgo, beats.last);
}

/// What the connections to one broker count.
#[derive(Debug, Clone)]
pub(crate) struct NodeMeter {
    pub(crate) network: Arc<Network>,
    pub(crate) node: i32,
}

impl NodeMeter {
    /// A connection was made, with a login or without.
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
        self.network.tell(|| Event::Connected { node: self.node, address: address.to_owned() });
        ConnectionMeter { of: self.clone(), over: AtomicBool::new(false) }
    }

    /// The broker, or the client, refused a login or a certificate.
    pub(crate) fn refused(&self, address: &str, why: &Error) {
        self.network.lock().refused += 1;
        self.network.tell(|| Event::AuthenticationFailed {
            node: self.node,
            address: address.to_owned(),
            reason: why.to_string(),
        });
    }
}

/// What one connection counts.
#[derive(Debug)]
pub(crate) struct ConnectionMeter {
    of: NodeMeter,
    over: AtomicBool,
}

impl ConnectionMeter {
    /// A request is on its way.
    pub(crate) fn sent(&self, bytes: usize) {
        let now = Instant::now();
        let mut inner = self.of.network.lock();
        inner.all.sent.add(now, bytes as f64);
        if let Some(node) = inner.nodes.get_mut(&self.of.node) {
            node.sent.add(now, bytes as f64);
        }
    }

    /// An answer has begun to come.
    pub(crate) fn answered(&self, api: &'static str, bytes: usize, took: Duration) {
        let now = Instant::now();
        let (bytes, millis) = (bytes as f64, took.as_secs_f64() * 1e3);
        {
            let mut inner = self.of.network.lock();
            inner.all.received.add(now, bytes);
            inner.all.latency.add(now, millis);
            if let Some(node) = inner.nodes.get_mut(&self.of.node) {
                node.received.add(now, bytes);
                node.latency.add(now, millis);
                node.histogram.add(took, 1);
            }
        }
        self.of.network.api(api, |api| {
            api.latency.add(now, millis);
            api.histogram.add(took, 1);
        });
    }

    /// An answer asked for a pause, of no time in most cases.
    pub(crate) fn throttled(&self, api: &'static str, address: &str, pause: Duration) {
        let millis = pause.as_secs_f64() * 1e3;
        if matches!(api, "Fetch" | "Produce") {
            self.of.network.api(api, |api| api.throttle.add(Instant::now(), millis));
        }
        if !pause.is_zero() {
            self.of.network.lock().throttled += millis;
            let milliseconds = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            self.of.network.tell(|| Event::Throttled { node: self.of.node, address: address.to_owned(), milliseconds });
        }
    }

    /// The connection is of no more use. Only the first reason counts.
    pub(crate) fn ended(&self, address: &str, why: &Error) {
        if self.over.swap(true, Ordering::AcqRel) {
            return;
        }
        {
            let mut inner = self.of.network.lock();
            inner.closed.add(Instant::now(), 1.0);
            inner.all.open = inner.all.open.saturating_sub(1);
            if let Some(node) = inner.nodes.get_mut(&self.of.node) {
                node.open = node.open.saturating_sub(1);
            }
        }
        self.of.network.tell(|| Event::Disconnected {
            node: self.of.node,
            address: address.to_owned(),
            reason: why.to_string(),
        });
    }
}
