"""The table of metrics, which the core has."""

from __future__ import annotations

from typing import NamedTuple

from samsarrow import _core


class MetricSpec(NamedTuple):
    """One metric of a kind of client: a row of docs/metrics.md.

    Attributes:
        group: Java's group.
        name: Java's name.
        kind: `counter`, `gauge` or `summary`.
        unit: what Java's values are counted in.
        label: what there is a value of each: `none`, `topic`, `partition`, `node` or `api`.
        prometheus: Prometheus' name, None where it has no values of its own.
        opentelemetry: OpenTelemetry's name, None where it has no values of its own.
        telemetry: the name by which brokers ask for it (KIP-714), None where Java's client has no such metric.
        scale: what a value is multiplied with for Prometheus and OpenTelemetry.
        base_unit: OpenTelemetry's unit.
        doc: what it says.
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
    """Every metric of a kind of client by its number."""
    found = _ROWS.get(client)
    if found is None:
        found = _ROWS[client] = {number: MetricSpec(*row) for number, row in _core.metric_table(client)}
    return found


def table(client: str) -> list[MetricSpec]:
    """Every metric of a kind of client.

    Args:
        client: `producer`, `consumer` or `admin`.

    Raises:
        ValueError: there is no such kind.
    """
    return list(rows(client).values())
