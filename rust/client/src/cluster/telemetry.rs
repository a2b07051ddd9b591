//! Client telemetry (KIP-714): pushes metrics to brokers in the background. Failures are logged only at debug level.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use samsarrow_wire::compression::{Codec, Compressor};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{ApiKey, GetTelemetrySubscriptionsRequest, PushTelemetryRequest, Request, Uuid};
use samsarrow_wire::sync::lock;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::{Cluster, ConnectionKind, Inner};
use crate::clock;
use crate::error::{Error, Result};
use crate::metrics::otlp::{self, LastValues, Selection};
use crate::metrics::{Id, LabelKind, Sink, Source};

/// Maximum time by which the final push may delay `close`. A healthy broker responds faster.
const MAX_FINAL_PUSH: Duration = Duration::from_secs(1);
/// Push interval if the broker returns no valid interval. This is Kafka's default.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(300);
/// Delay after an error that is not retriable.
const FATAL_ERROR_DELAY: Duration = Duration::from_secs(1800);
/// Labels to omit if a payload exceeds the broker's limit, in this order.
const OMITTED_LABELS: [LabelKind; 3] = [LabelKind::Partition, LabelKind::Node, LabelKind::Topic];

/// Telemetry subscription returned by a broker.
#[derive(Debug, Clone)]
struct Subscription {
    id: i32,
    codecs: Vec<Codec>,
    interval: Duration,
    max_bytes: usize,
    delta: bool,
    requested: Vec<String>,
}

#[derive(Debug, Default)]
struct State {
    subscription: Option<Subscription>,
    /// Values of the counters at the last push.
    last: LastValues,
    pushed_at: Option<SystemTime>,
}

/// State of the telemetry task.
#[derive(Debug)]
pub(super) struct Telemetry {
    /// Set once the task has been started.
    started: AtomicBool,
    /// Set once the final push has started.
    terminated: AtomicBool,
    /// Client instance id, zero until a broker assigns one.
    instance: watch::Sender<Uuid>,
    state: Mutex<State>,
    pushes: AtomicU64,
    /// Serializes pushes, so that each counter increment is reported once.
    push_lock: tokio::sync::Mutex<()>,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            started: AtomicBool::new(false),
            terminated: AtomicBool::new(false),
            instance: watch::Sender::new(Uuid::ZERO),
            state: Mutex::default(),
            pushes: AtomicU64::new(0),
            push_lock: tokio::sync::Mutex::default(),
        }
    }
}

impl Telemetry {}

impl Source for Telemetry {
    fn collect(&self, sink: &mut Sink) {
        sink.unlabeled(Id::PushTotal, self.pushes.load(Ordering::Relaxed) as f64);
    }
}

impl Cluster {
    /// Starts the telemetry task after the first connection to a broker that supports PushTelemetry. Later calls have
    /// no effect.
    pub(super) fn start_telemetry(&self, offered: Option<(i16, i16)>) {
        let telemetry = &self.inner.telemetry;
        if !self.options().metrics.push || offered.is_none() || telemetry.started.swap(true, Ordering::AcqRel) {
            return;
        }
        let (inner, closed) = (std::sync::Arc::downgrade(&self.inner), self.inner.closed.subscribe());
        tokio::spawn(run_telemetry(inner, closed));
    }

    /// Returns the client instance id that a broker has assigned.
    ///
    /// # Errors
    /// Fails if metrics push is disabled or not supported by the brokers, or if no broker assigns an id within `limit`.
    pub async fn client_instance_id(&self, limit: Duration) -> Result<Uuid> {
        if !self.options().metrics.push {
            return Err(Error::State("client_instance_id needs enable.metrics.push=true".into()));
        }
        let mut instance = self.inner.telemetry.instance.subscribe();
        let context = "the id of this client from brokers";
        let id = async {
            if !self.inner.telemetry.started.load(Ordering::Acquire) {
                self.refresh(limit).await?;
            }
            if !self.inner.telemetry.started.load(Ordering::Acquire) {
                return Err(Error::UnsupportedVersion(
                    "the brokers take no metrics of clients: that needs Kafka 3.7 with a plugin for them (KIP-714)"
                        .into(),
                ));
            }
            let id = instance.wait_for(|id| !id.is_zero()).await;
            id.map(|id| *id).map_err(|_| Error::closed("the client"))
        };
        timeout(limit, id).await.unwrap_or_else(|_| Err(Error::timeout(context, limit)))
    }

    /// Pushes the final metrics within `limit`, if a broker has requested metrics and a connection exists. Only the
    /// first call has an effect.
    pub(crate) async fn end_telemetry(&self, limit: Duration) {
        if self.inner.telemetry.terminated.swap(true, Ordering::AcqRel) {
            return;
        }
        let subscription = lock(&self.inner.telemetry.state).subscription.take();
        if let Some(subscription) = subscription.filter(|subscription| !subscription.requested.is_empty())
            && let Some(node) = self.telemetry_node()
        {
            let pushed = timeout(limit.min(MAX_FINAL_PUSH), self.push(node, &subscription, true)).await;
            tracing::debug!(client_id = self.client_id(), ?pushed, "pushed the last metrics");
        }
    }

    /// Returns a connected broker that supports PushTelemetry.
    fn telemetry_node(&self) -> Option<i32> {
        let handles = lock(&self.inner.handles);
        let control = handles.iter().filter(|((_, kind), _)| *kind == ConnectionKind::Control);
        let supports_push = |handle: &super::broker::BrokerHandle| {
            handle.open().is_some_and(|open| open.versions().range(ApiKey::PushTelemetry).is_some())
        };
        control.filter(|(_, handle)| supports_push(handle)).map(|((node, _), _)| *node).next()
    }

    /// Requests the subscription. Returns its push interval.
    async fn subscribe(&self) -> Result<Duration> {
        let telemetry = &self.inner.telemetry;
        let client_instance_id = *telemetry.instance.borrow();
        let request = GetTelemetrySubscriptionsRequest { client_instance_id, ..Default::default() };
        let limit = self.options().request_timeout;
        let response = match self.telemetry_node() {
            Some(node) => self.send(node, request, limit).await?,
            None => self.send_any(request, limit).await?,
        };
        ErrorCode::from_i16(response.error_code)
            .ok()
            .map_err(|code| Error::server(code, GetTelemetrySubscriptionsRequest::KEY.name()))?;
        let assigned = response.client_instance_id;
        telemetry.instance.send_if_modified(|id| {
            let changed = id.is_zero() && !assigned.is_zero();
            if changed {
                *id = assigned;
            }
            changed
        });
        let interval = u64::try_from(response.push_interval_ms).ok().filter(|ms| *ms > 0).map(Duration::from_millis);
        let subscription = Subscription {
            id: response.subscription_id,
            codecs: response
                .accepted_compression_types
                .iter()
                .filter_map(|code| Codec::from_attributes(i16::from(*code)).ok())
                .collect(),
            interval: interval.unwrap_or(DEFAULT_INTERVAL),
            max_bytes: usize::try_from(response.telemetry_max_bytes).ok().filter(|max| *max > 0).unwrap_or(usize::MAX),
            delta: response.delta_temporality,
            requested: response.requested_metrics,
        };
        tracing::debug!(client_id = self.client_id(), ?subscription, "the brokers subscribe to metrics of this client");
        let interval = subscription.interval;
        lock(&telemetry.state).subscription = Some(subscription);
        Ok(interval)
    }

    async fn push(&self, node: i32, subscription: &Subscription, terminating: bool) -> Result<()> {
        let telemetry = &self.inner.telemetry;
        let _guard = telemetry.push_lock.lock().await;
        let Some((bytes, codec, last, now)) = self.payload(subscription)? else {
            tracing::debug!(
                client_id = self.client_id(),
                "metrics are not pushed, as they exceed the broker's limit of {} bytes",
                subscription.max_bytes
            );
            return Ok(());
        };
        let request = PushTelemetryRequest {
            client_instance_id: *telemetry.instance.borrow(),
            subscription_id: subscription.id,
            terminating,
            compression_type: i8::try_from(codec.id()).unwrap_or(0),
            metrics: bytes,
            ..Default::default()
        };
        let response =
            self.with_connections(ConnectionKind::Control).send(node, request, self.options().request_timeout).await?;
        ErrorCode::from_i16(response.error_code)
            .ok()
            .map_err(|code| Error::server(code, PushTelemetryRequest::KEY.name()))?;
        let mut state = lock(&telemetry.state);
        (state.last, state.pushed_at) = (last, Some(now));
        telemetry.pushes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the compressed payload. The labels in [`OMITTED_LABELS`] are left out as far as necessary to stay below
    /// the broker's limit.
    ///
    /// Returns `None` if even the smallest payload exceeds the limit.
    fn payload(&self, subscription: &Subscription) -> Result<Option<(Bytes, Codec, LastValues, SystemTime)>> {
        let metrics = &self.inner.metrics;
        let now = clock::now();
        let samples = metrics.samples();
        let attributes = metrics.attributes();
        let (last, since) = {
            let state = lock(&self.inner.telemetry.state);
            let since = state.pushed_at.filter(|_| subscription.delta).unwrap_or(metrics.started());
            (state.last.clone(), since)
        };
        for omitted in 0..=OMITTED_LABELS.len() {
            let selection = Selection {
                client: metrics.client(),
                attributes: &attributes,
                requested: &subscription.requested,
                without: OMITTED_LABELS.get(..omitted).unwrap_or_default(),
                delta: subscription.delta,
                since: nanos(since),
                now: nanos(now),
            };
            let (plain, _, next) = otlp::encode(&samples, &selection, &last);
            let (bytes, codec) = compress(plain, &subscription.codecs)?;
            if bytes.len() <= subscription.max_bytes {
                return Ok(Some((bytes, codec, next, now)));
            }
        }
        Ok(None)
    }

    /// Runs one step of the protocol, either a subscription or a push. Returns the delay until the next step.
    async fn telemetry_round(&self) -> Duration {
        let subscription = lock(&self.inner.telemetry.state).subscription.clone();
        let outcome = match subscription {
            None => self.subscribe().await.map(|interval| {
                // The interval is randomized (KIP-714), so that clients started at the same time do not push at the
                // same time.
                interval.mul_f64(0.5 + fastrand::f64())
            }),
            // The broker currently requests no metric, but may request some in the next subscription.
            Some(subscription) if subscription.requested.is_empty() => self.subscribe().await,
            Some(subscription) => match self.telemetry_node() {
                Some(node) => self.push(node, &subscription, false).await.map(|()| subscription.interval),
                // Telemetry opens no connection of its own. The metrics are pushed once a connection exists.
                None => Ok(subscription.interval),
            },
        };
        outcome.unwrap_or_else(|error| {
            tracing::debug!(client_id = self.client_id(), "metrics cannot be pushed: {error}");
            let known = lock(&self.inner.telemetry.state).subscription.take();
            let interval = known.map_or(DEFAULT_INTERVAL, |subscription| subscription.interval);
            let has_code = |expected: ErrorCode| error.code() == Some(expected.code());
            if has_code(ErrorCode::UNKNOWN_SUBSCRIPTION_ID) || has_code(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE) {
                self.options().retry_backoff_max
            } else if error.retriable() || has_code(ErrorCode::TELEMETRY_TOO_LARGE) {
                interval
            } else {
                FATAL_ERROR_DELAY.max(interval)
            }
        })
    }
}

/// Compresses `plain` with the first of the accepted codecs, or not at all if the list is empty.
fn compress(plain: Vec<u8>, accepted: &[Codec]) -> Result<(Bytes, Codec)> {
    let Some(codec) = accepted.first().copied().filter(|codec| *codec != Codec::None) else {
        return Ok((plain.into(), Codec::None));
    };
    let mut out = Vec::new();
    let cannot = |error: samsarrow_wire::compression::CompressionError| Error::corrupt(error.to_string());
    Compressor::new(codec, None).map_err(cannot)?.compress(&plain, &mut out).map_err(cannot)?;
    Ok((out.into(), codec))
}

fn nanos(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Runs the telemetry protocol until the client is closed. The task holds only a weak reference to the client.
async fn run_telemetry(inner: Weak<Inner>, mut closed: watch::Receiver<bool>) {
    loop {
        let Some(inner) = inner.upgrade() else { return };
        if inner.telemetry.terminated.load(Ordering::Acquire) {
            return;
        }
        let cluster = Cluster { inner, connection_kind: ConnectionKind::Control, version_override: None };
        let next = tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => return,
            next = cluster.telemetry_round() => next,
        };
        drop(cluster);
        tokio::select! {
            biased;
            // The client may be closed during the delay. The task then ends.
            _ = closed.wait_for(|closed| *closed) => return,
            () = sleep(next) => {}
        }
    }
}
