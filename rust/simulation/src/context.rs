//! State shared by the programs of a run.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use samsarrow_broker::{Broker, Release};
use samsarrow_client::error::Error;
use samsarrow_client::metrics::{Id, Metrics, Value};
use samsarrow_simnet::Network;
use samsarrow_wire::error_code::ErrorCode;
use tokio::time::{Instant, timeout};

use crate::events::Parts;

/// Time that a call may take beyond its timeout: the simulated network delays every packet.
const GRACE: Duration = Duration::from_secs(5);

/// Maximum number of violations that a run reports.
const MAX_VIOLATIONS: usize = 20;

thread_local! {
    /// Panics of this thread during a run; `None` outside of runs.
    static PANICS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Keeps the panics of this thread until `take_panics`, because those of tasks would otherwise only end their task.
pub(crate) fn record_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let recorded = PANICS.with_borrow_mut(|panics| panics.as_mut().map(|panics| panics.push(info.to_string())));
            if recorded.is_none() {
                usual(info);
            }
        }));
    });
    PANICS.set(Some(Vec::new()));
}

pub(crate) fn take_panics() -> Vec<String> {
    PANICS.take().unwrap_or_default()
}

#[derive(Debug, Default)]
struct Findings {
    violations: BTreeSet<String>,
    reached: BTreeSet<String>,
    truncations: BTreeMap<(String, i32), u32>,
}

/// The broker and the network of a run, and its findings. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) broker: Arc<Broker>,
    pub(crate) network: Network,
    pub(crate) servers: String,
    /// Time at which the disturbances end.
    pub(crate) calm_at: Instant,
    /// Oldest Kafka release of a node; `None` if all nodes have the newest release.
    pub(crate) oldest: Option<Release>,
    /// True if clients log in, and some logins are rejected.
    pub(crate) logins: bool,
    /// Maximum number of deliveries of a record in a share group.
    pub(crate) delivery_limit: i16,
    findings: Arc<Mutex<Findings>>,
}

impl Context {
    pub(crate) fn new(broker: Broker, network: Network, calm_at: Instant, parts: &Parts) -> Self {
        let servers = broker.bootstrap_servers();
        let (oldest, logins) = (parts.releases.map(|(old, _)| old), parts.session_lifetime.is_some());
        let delivery_limit = parts.delivery_limit;
        Self {
            broker: Arc::new(broker),
            network,
            servers,
            calm_at,
            oldest,
            logins,
            delivery_limit,
            findings: Arc::default(),
        }
    }

    /// Returns true if all nodes are of this Kafka release or of a later one.
    pub(crate) fn is_since(&self, release: &str) -> bool {
        self.oldest.is_none_or(|oldest| Release::named(release).is_some_and(|release| oldest >= release))
    }

    /// Returns true once the disturbances have ended.
    pub(crate) fn is_calm(&self) -> bool {
        Instant::now() >= self.calm_at
    }

    /// Returns true for an error after which the application tries again: one of a wakeup, a temporary error that has
    /// lasted for the timeout of the call, or one of a rejected login.
    pub(crate) fn expects(&self, error: &Error) -> bool {
        let rejected = self.logins && matches!(error, Error::Authentication { .. });
        rejected || matches!(error, Error::Wakeup) || error.retriable()
    }

    /// Reports a violation of a guarantee.
    pub(crate) fn violation(&self, text: impl Into<String>) {
        let text = text.into();
        self.network.trace(&format!("VIOLATION {text}"));
        let mut findings = self.lock();
        if findings.violations.len() < MAX_VIOLATIONS {
            findings.violations.insert(text);
        }
    }

    /// Records that the run has reached a state or a result.
    pub(crate) fn reached(&self, what: impl Into<String>) {
        let what = what.into();
        self.network.trace(&what);
        self.lock().reached.insert(what);
    }

    /// Counts a truncation of a partition.
    pub(crate) fn truncated(&self, topic: &str, partition: i32) {
        *self.lock().truncations.entry((topic.to_owned(), partition)).or_default() += 1;
    }

    /// Returns the number of truncations of a partition so far.
    pub(crate) fn truncations(&self, topic: &str, partition: i32) -> u32 {
        self.lock().truncations.get(&(topic.to_owned(), partition)).copied().unwrap_or_default()
    }

    pub(crate) fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().violations).into_iter().collect()
    }

    pub(crate) fn take_reached(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.lock().reached)
    }

    /// Runs a call that must end within its timeout. Returns `None` after a violation.
    pub(crate) async fn within<T>(&self, what: &str, limit: Duration, call: impl Future<Output = T>) -> Option<T> {
        let result = timeout(limit + GRACE, call).await.ok();
        if result.is_none() {
            self.violation(format!("{what} did not end within its timeout of {} s", limit.as_secs()));
        }
        result
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Findings> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Polls a call at most `polls` times and then drops it, as a caller that cancels it. Returns `None` if it was dropped.
pub(crate) async fn cancel_after<T>(polls: u32, call: impl Future<Output = T>) -> Option<T> {
    let mut call = pin!(call);
    let mut left = polls;
    poll_fn(|cx| match call.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// Returns the value of a metric without labels; `None` if the client does not have it.
pub(crate) fn metric(metrics: &Metrics, id: Id) -> Option<f64> {
    metrics.samples().into_iter().find(|sample| sample.id == id).and_then(|sample| match sample.value {
        Value::Number(number) => Some(number),
        Value::Summary(_) => None,
    })
}

/// Returns a short name of an error, for the table of reached results.
pub(crate) fn kind(error: &Error) -> String {
    match error.code() {
        Some(code) => ErrorCode::from_i16(code).name().to_owned(),
        None => format!("{error:?}").split([' ', '(', '{']).next().unwrap_or_default().to_owned(),
    }
}
