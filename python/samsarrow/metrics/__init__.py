"""Metrics of clients for Prometheus, for OpenTelemetry and under the names of Java's client; and events of clients.

    metrics.prometheus(consumer, registry=prometheus_client.REGISTRY)
    metrics.opentelemetry(consumer, opentelemetry.metrics.get_meter_provider())

docs/metrics.md lists every metric under all its names.
"""

from samsarrow.metrics.client import AdminMetrics, ClientMetrics, ConsumerMetrics, NodeMetrics, ProducerMetrics
from samsarrow.metrics.events import (
    AuthenticationFailed,
    Connected,
    Disconnected,
    Event,
    Fenced,
    OffsetReset,
    OnEvent,
    Rebalanced,
    Throttled,
)
from samsarrow.metrics.export import exposition, opentelemetry, prometheus
from samsarrow.metrics.table import MetricSpec, table

__all__ = [
    "AdminMetrics",
    "AuthenticationFailed",
    "ClientMetrics",
    "Connected",
    "ConsumerMetrics",
    "Disconnected",
    "Event",
    "Fenced",
    "MetricSpec",
    "NodeMetrics",
    "OffsetReset",
    "OnEvent",
    "ProducerMetrics",
    "Rebalanced",
    "Throttled",
    "exposition",
    "opentelemetry",
    "prometheus",
    "table",
]
