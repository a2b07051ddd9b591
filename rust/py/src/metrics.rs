//! Metrics and events of clients.

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

use samsarrow_bridge::callback_threads::{CallbackQueue, Context, EVENTS, PyCall};
use samsarrow_bridge::error::to_py;
use samsarrow_bridge::runtime::Owned;
use samsarrow_wire::messages::Uuid;

use crate::conversions::tuples;

/// Maximum number of queued events. If the queue is full, further events are dropped.
const MAX_QUEUED: usize = 10_000;

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

/// Index in the table of metrics, label values, and value of the metric.
type Sample = (usize, Py<PyAny>, Py<PyAny>);
/// p50, p95, p99, maximum, count and sum of latencies. All except the count are in seconds.
type Latency = (f64, f64, f64, f64, u64, f64);

#[pymethods]
impl Metrics {
    /// Returns `producer`, `consumer` or `admin`.
    #[getter]
    fn client(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(client_name(self.core.get(py)?.client()))
    }

    #[getter]
    fn client_id(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.core.get(py)?.client_id().to_owned())
    }

    /// Returns for each metric its index in the table of metrics, its label values, and its value.
    fn samples(&self, py: Python<'_>) -> PyResult<Vec<Sample>> {
        let samples = self.core.get(py)?.samples();
        let convert = |sample: metrics::Sample| {
            let label = match sample.label {
                Label::None => ().into_pyobject(py)?.into_any().unbind(),
                Label::Topic(topic) => (&*topic,).into_pyobject(py)?.into_any().unbind(),
                Label::Partition(tp) => (&*tp.topic, tp.partition).into_pyobject(py)?.into_any().unbind(),
                Label::Node(node) => (node,).into_pyobject(py)?.into_any().unbind(),
                Label::Api(api) => (api,).into_pyobject(py)?.into_any().unbind(),
            };
            let value = match sample.value {
                Value::Number(value) => value.into_pyobject(py)?.into_any().unbind(),
                Value::Summary(summary) => {
                    let [p50, p95, p99, max, sum] = [summary.p50, summary.p95, summary.p99, summary.max, summary.sum]
                        .map(|time| time.as_secs_f64());
                    let latency: Latency = (p50, p95, p99, max, summary.count, sum);
                    latency.into_pyobject(py)?.into_any().unbind()
                }
            };
            Ok((sample.id as usize, label, value))
        };
        samples.into_iter().map(convert).collect()
    }
}

/// Returns a call that gets the client instance id (KIP-714) as 16 bytes.
pub(crate) fn instance_id(work: impl Future<Output = Result<Uuid>> + Send + 'static) -> samsarrow_bridge::call::Call {
    samsarrow_bridge::call::Call::new(work, |py, id| Ok(PyBytes::new(py, &id.0).into_any().unbind()))
}

/// Returns the metrics of several clients in Prometheus' text format.
#[pyfunction]
pub(crate) fn exposition(py: Python<'_>, clients: Vec<Py<Metrics>>) -> PyResult<String> {
    let metrics = clients
        .iter()
        .map(|client| Ok(Arc::clone(&*client.get().core.get(py)?)))
        .collect::<PyResult<Vec<Arc<Core>>>>()?;
    let cores: Vec<&Core> = metrics.iter().map(|core| &**core).collect();
    Ok(samsarrow_bridge::interpreter_guard::detach(py, || metrics::exposition(&cores)))
}

/// Group and name in the Java client, kind, unit, label, names in Prometheus, OpenTelemetry and KIP-714, factor to the
/// base unit, base unit, and description of a metric.
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

/// Returns all metrics of one kind of client, each with its index in the table of metrics.
#[pyfunction]
pub(crate) fn metric_table(client: &str) -> PyResult<Vec<(usize, Row)>> {
    let kinds = [ClientKind::Producer, ClientKind::Consumer, ClientKind::Admin];
    let Some(kind) = kinds.into_iter().find(|kind| client_name(*kind) == client) else {
        return Err(pyo3::exceptions::PyValueError::new_err(format!(
            "client={client:?}: it must be \"producer\", \"consumer\" or \"admin\""
        )));
    };
    let rows = METRICS.iter().enumerate().filter(|(_, spec)| spec.clients.contains(&kind));
    let row = |(index, spec): (usize, &metrics::MetricSpec)| {
        let metric_kind = match spec.kind {
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
            metric_kind,
            spec.unit_name(),
            label,
            spec.prometheus_name(kind),
            spec.opentelemetry_name(kind),
            spec.telemetry_name(kind),
            spec.scale(),
            spec.base_unit(),
            spec.doc,
        );
        (index, row)
    };
    Ok(rows.map(row).collect())
}

/// Returns the version of the OpenTelemetry conventions that the metric names follow.
#[pyfunction]
pub(crate) fn opentelemetry_conventions() -> &'static str {
    CONVENTIONS
}

/// Returns the observer if the option is `on.event`, and `None` for any other option.
pub(crate) fn observer_from_option(
    py: Python<'_>,
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<Option<Arc<dyn Observer>>> {
    if name.replace('_', ".") != "on.event" {
        return Ok(None);
    }
    if !value.is_callable() {
        let kind = value.get_type().name()?;
        let text = format!("option {name} must be a function such as on_event(event), not {kind}");
        return Err(to_py(py, &Error::configuration(text)));
    }
    let function = Arc::new((value.clone().unbind(), Context::current(py)?));
    Ok(Some(Arc::new(PythonObserver { function, queue: EVENTS.get(py)?, dropping: AtomicBool::new(false) })))
}

/// Calls a Python function for each event. All event functions of the process are called on the same thread.
#[derive(Debug)]
struct PythonObserver {
    /// The function, and the context variables of the code that created the client.
    function: Arc<(Py<PyAny>, Context)>,
    queue: Arc<CallbackQueue>,
    dropping: AtomicBool,
}

impl Observer for PythonObserver {
    fn notify(&self, event: Event) {
        let function = Arc::clone(&self.function);
        let accepted = self.queue.push(MAX_QUEUED, move |py| event_call(py, &function.0, &function.1, event));
        if !self.dropping.swap(!accepted, Ordering::Relaxed) && !accepted {
            tracing::warn!("on_event is too slow: {MAX_QUEUED} events wait for it, more are dropped");
        }
    }
}

fn event_call(py: Python<'_>, function: &Py<PyAny>, context: &Context, event: Event) -> PyResult<PyCall> {
    let module = py.import("samsarrow.metrics")?;
    let class = |name: &str| module.getattr(name);
    let object = match event {
        Event::Connected { node, address } => class("Connected")?.call1((node, address)),
        Event::Disconnected { node, address, reason } => class("Disconnected")?.call1((node, address, reason)),
        Event::AuthenticationFailed { node, address, reason } => {
            class("AuthenticationFailed")?.call1((node, address, reason))
        }
        Event::Throttled { node, address, milliseconds } => {
            class("Throttled")?.call1((node, address, milliseconds as f64 / 1e3))
        }
        Event::Rebalanced(event) => {
            let (kind, partitions) = match &event {
                Rebalance::Assigned(partitions) => ("assigned", partitions),
                Rebalance::Revoked(partitions) => ("revoked", partitions),
                Rebalance::Lost(partitions) => ("lost", partitions),
            };
            class("Rebalanced")?.getattr("of")?.call1((kind, tuples(partitions)))
        }
        Event::OffsetReset { partition, offset, reason } => {
            class("OffsetReset")?.getattr("of")?.call1((&*partition.topic, partition.partition, offset, reason))
        }
        Event::Fenced { reason } => class("Fenced")?.call1((reason,)),
    };
    context.copied(py)?.call(py, function.clone_ref(py), [object?])
}
