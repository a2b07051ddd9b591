//! Metrics for brokers that ask for them (KIP-714): once a connection is there, in the background, and never loudly.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use samsarrow_wire::compression::{Codec, Compressor};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{ApiKey, GetTelemetrySubscriptionsRequest, PushTelemetryRequest, Request, Uuid};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::{Cluster, Inner, Lane};
use crate::error::{Error, Result};
use crate::metrics::otlp::{self, Last, Wanted};
use crate::metrics::{Id, LabelKind, Sink, Source};

/// How long the last push may keep a client from closing: as long as brokers that are well take, and not more.
const LAST_WORD: Duration = Duration::from_secs(1);
/// Of brokers that say no interval, or one that cannot be; Kafka's default.
const USUAL_INTERVAL: Duration = Duration::from_secs(300);
/// When brokers are asked again that could not be, or refused.
const LATER: Duration = Duration::from_secs(1800);
/// What is left out first where all of it is more than a broker takes.
const FINEST_FIRST: [LabelKind; 3] = [LabelKind::Partition, LabelKind::Node, LabelKind::Topic];

/// What brokers want.
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
    /// What counters were when they were pushed last, and when.
    last: Last,
    pushed_at: Option<SystemTime>,
}

/// How metrics are pushed.
#[derive(Debug)]
pub(super) struct Telemetry {
    /// There is a task for it.
    runs: AtomicBool,
    /// The last push is under way, or over.
    ended: AtomicBool,
    /// The client's id, zero until brokers gave one.
    instance: watch::Sender<Uuid>,
    state: Mutex<State>,
    pushes: AtomicU64,
    /// One push at a time: what counters grew by is reported once.
    turn: tokio::sync::Mutex<()>,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            runs: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            instance: watch::Sender::new(Uuid::ZERO),
            state: Mutex::default(),
            pushes: AtomicU64::new(0),
            turn: tokio::sync::Mutex::default(),
        }
    }
}

impl Telemetry {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for Telemetry {
    fn collect(&self, sink: &mut Sink) {
        sink.one(Id::PushTotal, self.pushes.load(Ordering::Relaxed) as f64);
    }
}

impl Cluster {
    /// Starts pushing, once, as a connection to a broker is there that takes metrics.
    pub(super) fn start_telemetry(&self, offered: Option<(i16, i16)>) {
        let telemetry = &self.inner.telemetry;
        if !self.options().metrics.push || offered.is_none() || telemetry.runs.swap(true, Ordering::AcqRel) {
            return;
        }
        let (inner, closed) = (std::sync::Arc::downgrade(&self.inner), self.inner.closed.subscribe());
        tokio::spawn(run(inner, closed));
    }

    /// The id by which brokers know this client's metrics.
    ///
    /// # Errors
    /// Metrics are not pushed, or no broker takes them; none could be asked within `timeout`.
    pub async fn client_instance_id(&self, limit: Duration) -> Result<Uuid> {
        if !self.options().metrics.push {
            return Err(Error::State("client_instance_id needs enable.metrics.push=true".into()));
        }
        let mut instance = self.inner.telemetry.instance.subscribe();
        let what = "the id of this client from brokers";
        let found = async {
            if !self.inner.telemetry.runs.load(Ordering::Acquire) {
                self.refresh(limit).await?;
            }
            if !self.inner.telemetry.runs.load(Ordering::Acquire) {
                return Err(Error::UnsupportedVersion(
                    "the brokers take no metrics of clients: that needs Kafka 3.7 with a plugin for them (KIP-714)"
                        .into(),
                ));
            }
            let found = instance.wait_for(|id| !id.is_zero()).await;
            found.map(|id| *id).map_err(|_| Error::closed("the client"))
        };
        timeout(limit, found).await.unwrap_or_else(|_| Err(Error::timeout(what, limit)))
    }

    /// The last push, once, at most within `limit`, and only over a connection that is there.
    pub(crate) async fn end_telemetry(&self, limit: Duration) {
        if self.inner.telemetry.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        let subscription = self.inner.telemetry.state().subscription.take();
        if let Some(subscription) = subscription.filter(|subscription| !subscription.requested.is_empty())
            && let Some(node) = self.telemetry_node()
        {
            let pushed = timeout(limit.min(LAST_WORD), self.push(node, &subscription, true)).await;
            tracing::debug!(?pushed, "the last push of metrics");
        }
    }

    /// A broker that is connected to and takes metrics.
    fn telemetry_node(&self) -> Option<i32> {
        let links = self.inner.links.lock().unwrap_or_else(PoisonError::into_inner);
        let control = links.iter().filter(|((_, lane), _)| *lane == Lane::Control);
        let takes = |link: &super::broker::Link| {
            link.open().is_some_and(|open| open.versions().range(ApiKey::PushTelemetry).is_some())
        };
        control.filter(|(_, link)| takes(link)).map(|((node, _), _)| *node).next()
    }

    /// Asks what is wanted; when to ask or push next.
    async fn subscribe(&self) -> Result<Duration> {
        let telemetry = &self.inner.telemetry;
        let client_instance_id = *telemetry.instance.borrow();
        let request = GetTelemetrySubscriptionsRequest { client_instance_id, ..Default::default() };
        let limit = self.options().request_timeout;
        let answer = match self.telemetry_node() {
            Some(node) => self.send(node, request, limit).await?,
            None => self.send_any(request, limit).await?,
        };
        ErrorCode::from_i16(answer.error_code)
            .ok()
            .map_err(|code| Error::server(code, GetTelemetrySubscriptionsRequest::KEY.name()))?;
        let given = answer.client_instance_id;
        telemetry.instance.send_if_modified(|id| {
            let news = id.is_zero() && !given.is_zero();
            if news {
                *id = given;
            }
            news
        });
        let interval = u64::try_from(answer.push_interval_ms).ok().filter(|ms| *ms > 0).map(Duration::from_millis);
        let subscription = Subscription {
            id: answer.subscription_id,
            codecs: answer
                .accepted_compression_types
                .iter()
                .filter_map(|code| Codec::from_attributes(i16::from(*code)).ok())
                .collect(),
            interval: interval.unwrap_or(USUAL_INTERVAL),
            max_bytes: usize::try_from(answer.telemetry_max_bytes).ok().filter(|max| *max > 0).unwrap_or(usize::MAX),
            delta: answer.delta_temporality,
            requested: answer.requested_metrics,
        };
        tracing::debug!(?subscription, "metrics that brokers want");
        let interval = subscription.interval;
        telemetry.state().subscription = Some(subscription);
        Ok(interval)
    }

    async fn push(&self, node: i32, subscription: &Subscription, terminating: bool) -> Result<()> {
        let telemetry = &self.inner.telemetry;
        let _turn = telemetry.turn.lock().await;
        let Some((bytes, codec, last, now)) = self.payload(subscription)? else {
            tracing::debug!(max_bytes = subscription.max_bytes, "metrics are larger than brokers take: not pushed");
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
        let answer = self.lane(Lane::Control).send(node, request, self.options().request_timeout).await?;
        ErrorCode::from_i16(answer.error_code)
            .ok()
            .map_err(|code| Error::server(code, PushTelemetryRequest::KEY.name()))?;
        let mut state = telemetry.state();
        (state.last, state.pushed_at) = (last, Some(now));
        telemetry.pushes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// What is pushed, with what is finest left out where all is too much.
    fn payload(&self, subscription: &Subscription) -> Result<Option<(Bytes, Codec, Last, SystemTime)>> {
        let metrics = &self.inner.metrics;
        let now = SystemTime::now();
        let samples = metrics.samples();
        let attributes = metrics.attributes();
        let (last, since) = {
            let state = self.inner.telemetry.state();
            let since = state.pushed_at.filter(|_| subscription.delta).unwrap_or(metrics.started());
            (state.last.clone(), since)
        };
        for left_out in 0..=FINEST_FIRST.len() {
            let wanted = Wanted {
                client: metrics.client(),
                attributes: &attributes,
                requested: &subscription.requested,
                without: FINEST_FIRST.get(..left_out).unwrap_or_default(),
                delta: subscription.delta,
                since: nanos(since),
                now: nanos(now),
            };
            let (plain, _, next) = otlp::encode(&samples, &wanted, &last);
            let (bytes, codec) = compressed(plain, &subscription.codecs)?;
            if bytes.len() <= subscription.max_bytes {
                return Ok(Some((bytes, codec, next, now)));
            }
        }
        Ok(None)
    }

    /// One round; when the next is due.
    async fn telemetry_round(&self) -> Duration {
        let subscription = self.inner.telemetry.state().subscription.clone();
        let outcome = match subscription {
            None => self.subscribe().await.map(|interval| {
                // Clients that were made at one time push at different ones.
                interval.mul_f64(0.5 + fastrand::f64())
            }),
            // Others may be wanted later.
            Some(subscription) if subscription.requested.is_empty() => self.subscribe().await,
            Some(subscription) => match self.telemetry_node() {
                Some(node) => self.push(node, &subscription, false).await.map(|()| subscription.interval),
                // Not worth a connection; it is pushed once there is one.
                None => Ok(subscription.interval),
            },
        };
        outcome.unwrap_or_else(|error| {
            tracing::debug!(%error, "metrics were not pushed");
            let known = self.inner.telemetry.state().subscription.take();
            let usual = known.map_or(USUAL_INTERVAL, |subscription| subscription.interval);
            let code = |wanted: ErrorCode| error.code() == Some(wanted.code());
            if code(ErrorCode::UNKNOWN_SUBSCRIPTION_ID) || code(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE) {
                self.options().retry_backoff_max
            } else if error.retriable() || code(ErrorCode::TELEMETRY_TOO_LARGE) {
                usual
            } else {
                LATER.max(usual)
            }
        })
    }
}

/// With the first codec that is accepted and works here.
fn compressed(plain: Vec<u8>, accepted: &[Codec]) -> Result<(Bytes, Codec)> {
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

/// Rounds for as long as the client lives, which this does not keep alive.
async fn run(inner: Weak<Inner>, mut closed: watch::Receiver<bool>) {
    loop {
        let Some(inner) = inner.upgrade() else { return };
        if inner.telemetry.ended.load(Ordering::Acquire) {
            return;
        }
        let cluster = Cluster { inner, lane: Lane::Control, wanted: None };
        let next = tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => return,
            next = cluster.telemetry_round() => next,
        };
        drop(cluster);
        tokio::select! {
            biased;
            // Also when the client is gone.
            _ = closed.wait_for(|closed| *closed) => return,
            () = sleep(next) => {}
        }
    }
}
