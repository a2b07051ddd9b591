//! Metrics and events as Python sees them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use samsarrow_client::config::ClientKind;
use samsarrow_client::error::{Error, Result};
use samsarrow_client::group::Rebalance;
use samsarrow_client::metrics::{
    self, CONVENTIONS, Event, Kind, Label, LabelKind, METRICS, Metrics as Core, Observer, Value, client_name,
};

use samsarrow_bridge::error::to_py;
use samsarrow_bridge::lanes::{Call, Context, EVENTS, Lane};
use samsarrow_bridge::runtime::Owned;
use samsarrow_wire::messages::Uuid;

use crate::partitions::tuples;

/// Events that may wait for Python; more are dropped.
const WAITING: usize = 10_000;

/// The metrics of one client.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct Metrics {
    core: Owned<Arc<Core>>,
}

impl Metrics {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self { core: Owned::new("client", Arc::clone(core)) }
    }
}

/// Row of the table, what the value is of, value.
type Sample = (usize, Py<PyAny>, Py<PyAny>);
/// p50, p95, p99, largest, count, sum; times in seconds.
type Latency = (f64, f64, f64, f64, u64, f64);

#[pymethods]
impl Metrics {
    /// producer, consumer or admin.
    #[getter]
    fn client(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(client_name(self.core.get(py)?.client()))
    }

    #[getter]
    fn client_id(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.core.get(py)?.client_id().to_owned())
    }

    /// Row of the table, what the value is of, value.
    fn samples(&self, py: Python<'_>) -> PyResult<Vec<Sample>> {
        let samples = self.core.get(py)?.samples();
        let one = |sample: metrics::Sample| {
            let label = match sample.label {
                Label::None => ().into_pyobject(py)?.into_any().unbind(),
                Label::Topic(topic) => (&*topic,).into_pyobject(py)?.into_any().unbind(),
                Label::Partition(tp) => (&*tp.topic, tp.partition).into_pyobject(py)?.into_any().unbind(),
                Label::Node(node) => (node,).into_pyobject(py)?.into_any().unbind(),
                Label::Api(api) => (api,).into_pyobject(py)?.into_any().unbind(),
            };
            let value = match sample.value {
                Value::Number(value) => value.into_pyobject(py)?.into_any().unbind(),
                Value::Summary(found) => {
                    let [p50, p95, p99, max, sum] =
                        [found.p50, found.p95, found.p99, found.max, found.sum].map(|time| time.as_secs_f64());
                    let latency: Latency = (p50, p95, p99, max, found.count, sum);
                    latency.into_pyobject(py)?.into_any().unbind()
                }
            };
            Ok((sample.id as usize, label, value))
        };
        samples.into_iter().map(one).collect()
    }
}

/// The id by which brokers know a client's metrics, as 16 bytes.
pub(crate) fn instance_id(work: impl Future<Output = Result<Uuid>> + Send + 'static) -> samsarrow_bridge::call::Call {
    samsarrow_bridge::call::Call::new(work, |py, id| Ok(PyBytes::new(py, &id.0).into_any().unbind()))
}

/// Prometheus' text of the metrics of several clients.
#[pyfunction]
pub(crate) fn exposition(py: Python<'_>, clients: Vec<Py<Metrics>>) -> PyResult<String> {
    let held =
        clients.iter().map(|one| Ok(Arc::clone(&*one.get().core.get(py)?))).collect::<PyResult<Vec<Arc<Core>>>>()?;
    let all: Vec<&Core> = held.iter().map(|one| &**one).collect();
    Ok(samsarrow_bridge::gate::detach(py, || metrics::exposition(&all)))
}

/// Group and name of Java's, kind, unit, label, names of Prometheus, OpenTelemetry and KIP-714, factor to base units,
/// base unit, meaning.
type Row = (
    String,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    Option<String>,
    Option<String>,
    Option<String>,
    f64,
    &'static str,
    &'static str,
);

/// Every metric of a kind of client by its number.
#[pyfunction]
pub(crate) fn metric_table(client: &str) -> PyResult<Vec<(usize, Row)>> {
    let kinds = [ClientKind::Producer, ClientKind::Consumer, ClientKind::Admin];
    let Some(kind) = kinds.into_iter().find(|kind| client_name(*kind) == client) else {
        return Err(pyo3::exceptions::PyValueError::new_err(format!(
            "client={client:?}: it must be \"producer\", \"consumer\" or \"admin\""
        )));
    };
    let rows = METRICS.iter().enumerate().filter(|(_, spec)| spec.clients.contains(&kind));
    let row = |(at, spec): (usize, &metrics::MetricSpec)| {
        let what = match spec.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Summary => "summary",
        };
        let label = match spec.labels {
            LabelKind::None => "none",
            LabelKind::Topic => "topic",
            LabelKind::Partition => "partition",
            LabelKind::Node => "node",
            LabelKind::Api => "api",
        };
        let row: Row = (
            spec.group_name(kind),
            spec.name,
            what,
            spec.unit_name(),
            label,
            spec.prometheus_name(kind),
            spec.opentelemetry_name(kind),
            spec.telemetry_name(kind),
            spec.scale(),
            spec.base_unit(),
            spec.doc,
        );
        (at, row)
    };
    Ok(rows.map(row).collect())
}

/// The page docs/metrics.md.
#[pyfunction]
pub(crate) fn metrics_markdown() -> String {
    metrics::metrics_markdown()
}

/// The version of OpenTelemetry's conventions that names are of.
#[pyfunction]
pub(crate) fn opentelemetry_conventions() -> &'static str {
    CONVENTIONS
}

/// If an option is the function that is notified of events: that.
pub(crate) fn of_option(py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<Arc<dyn Observer>>> {
    if name.replace('_', ".") != "on.event" {
        return Ok(None);
    }
    if !value.is_callable() {
        let kind = value.get_type().name()?;
        let text = format!("option {name} must be a function such as on_event(event), not {kind}");
        return Err(to_py(py, &Error::configuration(text)));
    }
    let function = Arc::new((value.clone().unbind(), Context::here(py)?));
    Ok(Some(Arc::new(Told { function, lane: EVENTS.get(py)?, dropping: AtomicBool::new(false) })))
}

/// A function of the user's, called on a thread of Python's where all such functions of the process are called.
#[derive(Debug)]
struct Told {
    /// With the context variables of the code that made the client.
    function: Arc<(Py<PyAny>, Context)>,
    lane: Arc<Lane>,
    dropping: AtomicBool,
}

impl Observer for Told {
    fn notify(&self, event: Event) {
        let function = Arc::clone(&self.function);
        let taken = self.lane.push(WAITING, move |py| called(py, &function.0, &function.1, event));
        if !self.dropping.swap(!taken, Ordering::Relaxed) && !taken {
            tracing::warn!("on_event is too slow: {WAITING} events wait for it, more are dropped");
        }
    }
}

fn called(py: Python<'_>, function: &Py<PyAny>, context: &Context, event: Event) -> PyResult<Call> {
    let module = py.import("samsarrow.metrics")?;
    let class = |name: &str| module.getattr(name);
    let made = match event {
        Event::Connected { node, address } => class("Connected")?.call1((node, address)),
        Event::Disconnected { node, address, reason } => class("Disconnected")?.call1((node, address, reason)),
        Event::AuthenticationFailed { node, address, reason } => {
            class("AuthenticationFailed")?.call1((node, address, reason))
        }
        Event::Throttled { node, address, milliseconds } => {
            class("Throttled")?.call1((node, address, milliseconds as f64 / 1e3))
        }
        Event::Rebalanced(event) => {
            let (what, partitions) = match &event {
                Rebalance::Assigned(partitions) => ("assigned", partitions),
                Rebalance::Revoked(partitions) => ("revoked", partitions),
                Rebalance::Lost(partitions) => ("lost", partitions),
            };
            class("Rebalanced")?.getattr("of")?.call1((what, tuples(partitions)))
        }
        Event::OffsetReset { partition, offset, reason } => {
            class("OffsetReset")?.getattr("of")?.call1((&*partition.topic, partition.partition, offset, reason))
        }
        Event::Fenced { reason } => class("Fenced")?.call1((reason,)),
    };
    context.another(py)?.call(py, function.clone_ref(py), [made?])
}
