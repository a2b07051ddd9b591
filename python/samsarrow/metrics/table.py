"""The table of metrics of the Rust client."""

from __future__ import annotations

from typing import NamedTuple

from samsarrow import _core


class MetricSpec(NamedTuple):
    """A metric of a kind of client: a row of docs/metrics.md.

    Attributes:
        group: Java's group.
        name: Java's name.
        kind: `counter`, `gauge` or `summary`.
        unit: unit of Java's values.
        label: label of the values: `none`, `topic`, `partition`, `node` or `api`.
        prometheus: Prometheus' name, None without separate values.
        opentelemetry: OpenTelemetry's name, None without separate values.
        telemetry: the name that brokers use (KIP-714), None if Java's client has no such metric.
        scale: factor from a value to Prometheus and OpenTelemetry.
        base_unit: OpenTelemetry's unit.
        doc: description.
    """

    group: str
    name: str
    kind: str
    unit: str
    label: str
    prometheus: str | None
    opentelemetry: str | None
    telemetry: str | None
    scale: float
    base_unit: str
    doc: str


_ROWS: dict[str, dict[int, MetricSpec]] = {}


def rows(client: str) -> dict[int, MetricSpec]:
    """Returns every metric of a kind of client by its number."""
    specs = _ROWS.get(client)
    if specs is None:
        specs = _ROWS[client] = {number: MetricSpec(*row) for number, row in _core.metric_table(client)}
    return specs


def table(client: str) -> list[MetricSpec]:
    """Returns every metric of a kind of client.

    Args:
        client: `producer`, `consumer` or `admin`.

    Raises:
        ValueError: the kind is unknown.
    """
    return list(rows(client).values())
