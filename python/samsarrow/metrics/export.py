"""Metrics for Prometheus and OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import samsarrow
from samsarrow import _core
from samsarrow._threads import allocate_lock
from samsarrow.metrics.table import MetricSpec, rows

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from prometheus_client.registry import CollectorRegistry

# Seconds for which a snapshot is reused, so that instruments that are read together use the same snapshot.
_FRESH = 0.1


class Client(Protocol):
    """A client: a `Producer`, `Consumer`, `ShareConsumer` or `Admin`, or an object of the corresponding async class."""

    @property
    def _open(self) -> Any: ...


def _cores(clients: Iterable[Client]) -> list[_core.Metrics]:
    cores = []
    for client in clients:
        core = getattr(client, "_open", None)
        if not isinstance(core, _core.Producer | _core.Consumer | _core.ShareConsumer | _core.Admin):
            raise TypeError(
                f"metrics are of a Producer, Consumer, ShareConsumer or Admin, not of {type(client).__name__}"
            )
        cores.append(core.metrics())
    if not cores:
        raise TypeError("no client given: pass one client or several")
    return cores


def exposition(*clients: Client) -> str:
    """Returns the metrics of clients in Prometheus' text format, version 0.0.4. Needs no other package.

    Args:
        clients: producers, consumers, share consumers and admin clients of this process; clients of one kind are
            distinguished by their `client.id`.
    """
    return _core.exposition(_cores(clients))


class _Collector:
    """Collector for `prometheus_client`, which reads the clients at each scrape."""

    def __init__(self, cores: list[_core.Metrics]) -> None:
        self._cores = cores

    def describe(self) -> Iterator[Any]:
        """Returns no metrics, so that registering the collector does not read the clients."""
        return iter(())

    def collect(self) -> Iterator[Any]:
        """Yields metric families of `prometheus_client`."""
        from prometheus_client.metrics_core import Metric
        from prometheus_client.samples import Sample

        families: dict[str, Any] = {}
        for core in self._cores:
            specs = rows(core.client)
            client_id = core.client_id
            for number, label, value in core.samples():
                row = specs[number]
                name = row.prometheus
                if name is None:
                    continue
                family = families.get(name)
                if family is None:
                    base = name.removesuffix("_total") if row.kind == "counter" else name
                    family = families[name] = Metric(base, row.doc, row.kind)
                labels = {"client_id": client_id}
                if row.label == "partition":
                    labels["topic"], labels["partition"] = label[0], str(label[1])
                elif row.label != "none":
                    labels[row.label] = str(label[0])
                if row.kind != "summary":
                    family.samples.append(Sample(name, labels, value * row.scale))
                    continue
                p50, p95, p99, _, count, total = value
                for quantile, time in (("0.5", p50), ("0.95", p95), ("0.99", p99)):
                    shown = time if count else float("nan")
                    family.samples.append(Sample(name, {**labels, "quantile": quantile}, shown))
                family.samples.append(Sample(f"{name}_sum", labels, total))
                family.samples.append(Sample(f"{name}_count", labels, float(count)))
        yield from families.values()


def prometheus(*clients: Client, registry: CollectorRegistry | None = None) -> Any:
    """Creates a `prometheus_client` collector, which reads the metrics of clients at each scrape.

    Args:
        clients: producers, consumers, share consumers and admin clients of this process; clients of one kind are
            distinguished by their `client.id`.
        registry: registry in which to register the collector, such as `prometheus_client.REGISTRY`; by default the
            caller registers the collector. Unregister the collector when its clients are closed.

    Returns:
        The collector.

    Raises:
        ModuleNotFoundError: a registry is passed, and `prometheus_client` is not installed.
    """
    collector = _Collector(_cores(clients))
    if registry is not None:
        registry.register(collector)
    return collector


_ATTRIBUTES = {
    "topic": ("messaging.destination.name",),
    "partition": ("messaging.destination.name", "messaging.destination.partition.id"),
    "node": ("samsarrow.node.id",),
    "api": ("samsarrow.api",),
}


class _Snapshot:
    """Snapshot of a client's samples, shared by the instruments that are observed together."""

    def __init__(self, core: _core.Metrics) -> None:
        self.client = core.client
        self.client_id = core.client_id
        self._core = core
        self._lock = allocate_lock()
        self._fresh = _core.Deadline(0.0)
        self._samples: dict[int, list[tuple[tuple[Any, ...], Any]]] = {}

    def of(self, number: int) -> list[tuple[tuple[Any, ...], Any]]:
        with self._lock:
            if self._fresh.passed():
                samples: dict[int, list[tuple[tuple[Any, ...], Any]]] = {}
                for metric, label, value in self._core.samples():
                    samples.setdefault(metric, []).append((label, value))
                self._samples = samples
                self._fresh = _core.Deadline(_FRESH)
            return self._samples.get(number, [])


def opentelemetry(*clients: Client, meter_provider: MeterProvider | None = None) -> None:
    """Creates observable OpenTelemetry instruments that read clients when metrics are exported.

    Counters and gauges have the names in docs/metrics.md. A summary becomes two counters, `<name>.count` and
    `<name>.sum`, because OpenTelemetry has no observable histogram. The semantic conventions for messaging, whose names
    begin with `messaging.`, are in development. docs/metrics.md states the version in use, which is also in the schema
    URL of the instruments.

    Args:
        clients: producers, consumers and admin clients of this process.
        meter_provider: provider of the meter, by default the global provider.

    Raises:
        ModuleNotFoundError: `opentelemetry-api` is not installed.
    """
    from opentelemetry import metrics as api

    schema = f"https://opentelemetry.io/schemas/{_core.opentelemetry_conventions()}"
    meter = api.get_meter("samsarrow", getattr(samsarrow, "__version__", ""), meter_provider, schema)
    by_kind: dict[str, list[_Snapshot]] = {}
    for core in _cores(clients):
        by_kind.setdefault(core.client, []).append(_Snapshot(core))
    for client, snapshots in by_kind.items():
        for number, row in rows(client).items():
            name = row.opentelemetry
            if name is None:
                continue
            if row.kind == "counter":
                read = _reading(snapshots, number, row, None)
                meter.create_observable_counter(name, [read], row.base_unit, row.doc)
            elif row.kind == "gauge":
                read = _reading(snapshots, number, row, None)
                meter.create_observable_gauge(name, [read], row.base_unit, row.doc)
            else:
                count = _reading(snapshots, number, row, 4)
                meter.create_observable_counter(f"{name}.count", [count], "1", f"How many: {row.doc}")
                total = _reading(snapshots, number, row, 5)
                meter.create_observable_counter(f"{name}.sum", [total], "s", f"All together: {row.doc}")


def _reading(
    snapshots: list[_Snapshot], number: int, row: MetricSpec, index: int | None
) -> Callable[[CallbackOptions], list[Observation]]:
    """Returns a callback that observes a metric, or the item at `index` of a summary."""
    from opentelemetry.metrics import Observation

    operation = {"messaging.client.sent.messages": "send", "messaging.client.consumed.messages": "poll"}
    fixed = {"messaging.system": "kafka"}
    if row.opentelemetry in operation:
        fixed["messaging.operation.name"] = operation[row.opentelemetry]
    names = _ATTRIBUTES.get(row.label, ())

    def read(_: CallbackOptions) -> list[Observation]:
        observed = []
        for snapshot in snapshots:
            base = {**fixed, "messaging.client.id": snapshot.client_id}
            for label, value in snapshot.of(number):
                attributes = {**base, **dict(zip(names, map(str, label), strict=False))}
                observed.append(Observation(value * row.scale if index is None else value[index], attributes))
        return observed

    return read
