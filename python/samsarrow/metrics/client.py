"""Typed client metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import UUID

from samsarrow import _core
from samsarrow._html import HtmlRepr
from samsarrow.metrics.table import rows
from samsarrow.types import Latency, TopicPartition

Sample: TypeAlias = tuple[int, tuple[Any, ...], Any]
"""Number of a metric, values of its label, value."""


@dataclass(frozen=True, slots=True)
class NodeMetrics(HtmlRepr):
    """Metrics of a client with one broker. Bootstrap servers count as brokers -1, -2, and so on.

    Attributes:
        connections: open connections.
        requests: requests sent.
        responses: responses received.
        bytes_sent: bytes of requests.
        bytes_received: bytes of responses.
        latency: time from sending a request to the first bytes of its response.
    """

    connections: int
    requests: int
    responses: int
    bytes_sent: int
    bytes_received: int
    latency: Latency


@dataclass(frozen=True, kw_only=True)
class ClientMetrics(HtmlRepr):
    """Metrics that all clients have, since the client was created.

    Attributes:
        connections: open connections.
        connections_created: connections created.
        connections_closed: connections that the client or the broker closed.
        failed_authentications: logins and TLS handshakes that failed.
        requests: requests sent.
        responses: responses received.
        bytes_sent: bytes of requests.
        bytes_received: bytes of responses.
        throttled: total seconds for which brokers throttled the client because of quotas.
        nodes: metrics of connections and requests, by broker.
        apis: time from sending a request to the first bytes of its response, by API such as `"Fetch"`.
    """

    connections: int
    connections_created: int
    connections_closed: int
    failed_authentications: int
    requests: int
    responses: int
    bytes_sent: int
    bytes_received: int
    throttled: float
    nodes: Mapping[int, NodeMetrics]
    apis: Mapping[str, Latency]
    _client: str = field(repr=False, compare=False)
    _client_id: str = field(repr=False, compare=False)
    _samples: tuple[Sample, ...] = field(repr=False, compare=False)

    def java(self) -> dict[str, dict[str, float]]:
        """Returns the metrics as Java's client exports them over JMX: by object name of the MBean, the values by name.

        `metrics.java()["kafka.consumer:type=consumer-fetch-manager-metrics,client-id=c"]["records-lag-max"]`.
        Metrics that Java's client does not have are omitted. So are means and extremes without samples, which are NaN
        in Java. Units are the same as in Java, such as milliseconds for most times.
        """
        beans: dict[str, dict[str, float]] = {}
        specs = rows(self._client)
        domain = "kafka.admin.client" if self._client == "admin" else f"kafka.{self._client}"
        for number, label, value in self._samples:
            row = specs[number]
            if row.telemetry is None:
                continue
            tags = [("client-id", self._client_id)]
            if row.label == "node":
                tags.append(("node-id", f"node-{label[0]}"))
            elif row.label == "topic":
                tags.append(("topic", label[0]))
            elif row.label == "partition":
                tags += [("partition", str(label[1])), ("topic", label[0])]
            bean = f"{domain}:type={row.group}," + ",".join(f"{name}={_jmx(text)}" for name, text in tags)
            beans.setdefault(bean, {})[row.name] = value
        return beans


def _jmx(text: str) -> str:
    """Returns a value for a JMX object name, quoted if necessary."""
    if re.fullmatch(r"[\w\-%. \t]*", text, re.ASCII):
        return text
    quoted = text.translate({ord("\\"): "\\\\", ord('"'): '\\"', ord("*"): "\\*", ord("?"): "\\?", ord("\n"): "\\n"})
    return f'"{quoted}"'


@dataclass(frozen=True, kw_only=True)
class ProducerMetrics(ClientMetrics):
    """Metrics of a producer since it was created, and metrics of its queued records.

    Attributes:
        queued_records: records that are queued or in flight.
        queued_bytes: bytes of `buffer.memory` in use.
        records: acknowledged records.
        bytes: bytes of acknowledged batches, compressed.
        batches: acknowledged batches.
        produce_requests: Produce requests with a response; with `acks=0`, Produce requests that were sent.
        retries: batches that were sent again.
        failed_records: records that failed permanently.
        records_per_second: acknowledged records per second, in the last minute.
        bytes_per_second: bytes of acknowledged batches per second, in the last minute.
        request_latency: time from sending a Produce request to its response.
        delivery_latency: time from queueing the first record of a batch to the acknowledgement of the batch, counted
            once for each record.
        topics: acknowledged records, by topic.
    """

    queued_records: int
    queued_bytes: int
    records: int
    bytes: int
    batches: int
    produce_requests: int
    retries: int
    failed_records: int
    records_per_second: float
    bytes_per_second: float
    request_latency: Latency
    delivery_latency: Latency
    topics: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class ConsumerMetrics(ClientMetrics):
    """Metrics of a consumer since it was created.

    Attributes:
        records: rows returned by polls.
        bytes: bytes of fetched batches, compressed.
        records_per_second: rows returned by polls per second, in the last minute.
        bytes_per_second: bytes of fetched batches per second, in the last minute.
        fetches: Fetch responses.
        queued_bytes: bytes of fetched records that no poll has returned yet.
        assigned_partitions: number of assigned partitions.
        lag: by partition, the number of offsets between the consumer's position and the end in the last Fetch response
            (with `isolation.level=read_committed`, the last stable offset). Partitions without a response are missing.
        lead: by partition, the number of offsets between the log start offset and the consumer's position.
        end_to_end_latency: time from the timestamp of a record to its arrival at the consumer.
        fetch_latency: time from sending a Fetch request to the first bytes of its response. It includes the time for
            which the broker waits for records.
        commit_latency: time from sending a commit to its response. The `count` is the number of commits.
        heartbeats: heartbeats with a response.
        rebalances: rebalances in which the consumer took part.
        failed_rebalances: number of times that the consumer lost its membership.
        last_poll: seconds since the last `poll` began; None before the first `poll`.
        topics: rows returned by polls, by topic.
    """

    records: int
    bytes: int
    records_per_second: float
    bytes_per_second: float
    fetches: int
    queued_bytes: int
    assigned_partitions: int
    lag: Mapping[TopicPartition, int]
    lead: Mapping[TopicPartition, int]
    end_to_end_latency: Latency
    fetch_latency: Latency
    commit_latency: Latency
    heartbeats: int
    rebalances: int
    failed_rebalances: int
    last_poll: float | None
    topics: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class ShareConsumerMetrics(ClientMetrics):
    """Metrics of a share consumer since it was created. Names are Java's.

    Rates, averages and maxima are those of the last minute (`metrics.sample.window.ms` and `metrics.num.samples`).

    Attributes:
        acknowledgements_send_total: acknowledged records, including gaps and renewals.
        acknowledgements_send_rate: acknowledged records per second.
        acknowledgements_error_total: records whose acknowledgement failed, so that they may be delivered again.
        acknowledgements_error_rate: records whose acknowledgement fails per second.
        fetch_total: ShareFetch responses.
        fetch_rate: ShareFetch responses per second.
        fetch_latency: time from sending a ShareFetch request to the first bytes of its response. It includes the time
            for which the broker waits for records.
        fetch_size_avg: average bytes of batches in a response; None without a response.
        fetch_size_max: largest number of bytes of batches in a response; None without a response.
        records_per_request_avg: average number of rows in a response; None without a response.
        records_consumed_total: rows returned by polls.
        records_consumed_rate: rows returned by polls per second.
        bytes_consumed_total: bytes of fetched batches, compressed.
        bytes_consumed_rate: bytes of fetched batches per second.
        assigned_partitions: number of assigned partitions, which other members share.
        last_poll: seconds since the last `poll` began; None before the first `poll`.
        topics: rows returned by polls, by topic.
    """

    acknowledgements_send_total: int
    acknowledgements_send_rate: float
    acknowledgements_error_total: int
    acknowledgements_error_rate: float
    fetch_total: int
    fetch_rate: float
    fetch_latency: Latency
    fetch_size_avg: float | None
    fetch_size_max: float | None
    records_per_request_avg: float | None
    records_consumed_total: int
    records_consumed_rate: float
    bytes_consumed_total: int
    bytes_consumed_rate: float
    assigned_partitions: int
    last_poll: float | None
    topics: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class AdminMetrics(ClientMetrics):
    """Metrics of an admin client since it was created."""


_NONE = Latency(0.0, 0.0, 0.0, 0.0, 0, 0.0)


class _Samples:
    """Reader of a client's metric samples, by name and label."""

    def __init__(self, core: _core.Metrics) -> None:
        self.client = core.client
        self.client_id = core.client_id
        self.samples = tuple(core.samples())
        specs = rows(self.client)
        self.values: dict[tuple[str, str], dict[tuple[Any, ...], Any]] = {}
        for number, label, value in self.samples:
            row = specs[number]
            self.values.setdefault((row.name, row.label), {})[label] = value

    def by_label(self, name: str, label: str) -> dict[Any, int]:
        """Returns the values of a metric as integers, by the values of a label such as the topic or the broker."""
        return {key[0]: int(value) for key, value in self.values.get((name, label), {}).items()}

    def by_partition(self, name: str) -> dict[TopicPartition, int]:
        return {TopicPartition(*key): int(value) for key, value in self.values.get((name, "partition"), {}).items()}

    def number(self, name: str, label: str = "none") -> float:
        return float(sum(self.values.get((name, label), {}).values()))

    def optional(self, name: str) -> float | None:
        """Returns the value of a metric without a label; None if it has none yet."""
        value = self.values.get((name, "none"))
        return None if value is None else float(value[()])

    def integer(self, name: str) -> int:
        return int(self.number(name))

    def latencies(self, name: str, label: str) -> dict[Any, Latency]:
        return {key[0]: Latency(*value) for key, value in self.values.get((name, label), {}).items()}

    def latency(self, name: str) -> Latency:
        value = self.values.get((name, "none"))
        return Latency(*value[()]) if value else _NONE

    def common(self) -> dict[str, Any]:
        """Returns the values of the fields of `ClientMetrics`."""
        names = {
            "connections": "node-connection-count",
            "requests": "request-total",
            "responses": "response-total",
            "bytes_sent": "outgoing-byte-total",
            "bytes_received": "incoming-byte-total",
        }
        counts = {field: self.by_label(name, "node") for field, name in names.items()}
        latencies = self.latencies("node-latency", "node")
        nodes = {
            node: NodeMetrics(latency=latency, **{field: by_node[node] for field, by_node in counts.items()})
            for node, latency in latencies.items()
        }
        return {
            "connections": self.integer("connection-count"),
            "connections_created": self.integer("connection-creation-total"),
            "connections_closed": self.integer("connection-close-total"),
            "failed_authentications": self.integer("failed-authentication-total"),
            "requests": self.integer("request-total"),
            "responses": self.integer("response-total"),
            "bytes_sent": self.integer("outgoing-byte-total"),
            "bytes_received": self.integer("incoming-byte-total"),
            "throttled": self.number("throttle-time-total") / 1e3,
            "nodes": nodes,
            "apis": self.latencies("api-latency", "api"),
            "_client": self.client,
            "_client_id": self.client_id,
            "_samples": self.samples,
        }


def to_uuid(raw: bytes) -> UUID:
    """Returns a UUID from its bytes."""
    return UUID(bytes=raw)


def of_producer(core: _core.Metrics) -> ProducerMetrics:
    """Returns the current metrics of a producer."""
    samples = _Samples(core)
    return ProducerMetrics(
        **samples.common(),
        queued_records=samples.integer("queued-records"),
        queued_bytes=samples.integer("buffer-total-bytes") - samples.integer("buffer-available-bytes"),
        records=samples.integer("record-send-total"),
        bytes=samples.integer("byte-total"),
        batches=samples.integer("batch-total"),
        produce_requests=samples.integer("produce-request-total"),
        retries=samples.integer("batch-retry-total"),
        failed_records=samples.integer("record-error-total"),
        records_per_second=samples.number("record-send-rate"),
        bytes_per_second=samples.number("byte-rate", "topic"),
        request_latency=samples.latency("produce-latency"),
        delivery_latency=samples.latency("delivery-latency"),
        topics=samples.by_label("record-send-total", "topic"),
    )


def of_consumer(core: _core.Metrics) -> ConsumerMetrics:
    """Returns the current metrics of a consumer."""
    samples = _Samples(core)
    common = samples.common()
    apis = common["apis"]
    last_poll = samples.values.get(("last-poll-seconds-ago", "none"))
    return ConsumerMetrics(
        **common,
        records=samples.integer("records-consumed-total"),
        bytes=samples.integer("bytes-consumed-total"),
        records_per_second=samples.number("records-consumed-rate"),
        bytes_per_second=samples.number("bytes-consumed-rate"),
        fetches=samples.integer("fetch-total"),
        queued_bytes=samples.integer("queued-bytes"),
        assigned_partitions=samples.integer("assigned-partitions"),
        lag=samples.by_partition("records-lag"),
        lead=samples.by_partition("records-lead"),
        end_to_end_latency=samples.latency("end-to-end-latency"),
        fetch_latency=apis.get("Fetch", _NONE),
        commit_latency=apis.get("OffsetCommit", _NONE),
        heartbeats=samples.integer("heartbeat-total"),
        rebalances=samples.integer("rebalance-total"),
        failed_rebalances=samples.integer("failed-rebalance-total"),
        last_poll=last_poll[()] if last_poll else None,
        topics=samples.by_label("records-consumed-total", "topic"),
    )


def of_share_consumer(core: _core.Metrics) -> ShareConsumerMetrics:
    """Returns the current metrics of a share consumer."""
    samples = _Samples(core)
    common = samples.common()
    return ShareConsumerMetrics(
        **common,
        acknowledgements_send_total=samples.integer("acknowledgements-send-total"),
        acknowledgements_send_rate=samples.number("acknowledgements-send-rate"),
        acknowledgements_error_total=samples.integer("acknowledgements-error-total"),
        acknowledgements_error_rate=samples.number("acknowledgements-error-rate"),
        fetch_total=samples.integer("fetch-total"),
        fetch_rate=samples.number("fetch-rate"),
        fetch_latency=common["apis"].get("ShareFetch", _NONE),
        fetch_size_avg=samples.optional("fetch-size-avg"),
        fetch_size_max=samples.optional("fetch-size-max"),
        records_per_request_avg=samples.optional("records-per-request-avg"),
        records_consumed_total=samples.integer("records-consumed-total"),
        records_consumed_rate=samples.number("records-consumed-rate"),
        bytes_consumed_total=samples.integer("bytes-consumed-total"),
        bytes_consumed_rate=samples.number("bytes-consumed-rate"),
        assigned_partitions=samples.integer("assigned-partitions"),
        last_poll=samples.optional("last-poll-seconds-ago"),
        topics=samples.by_label("records-consumed-total", "topic"),
    )


def of_admin(core: _core.Metrics) -> AdminMetrics:
    """Returns the current metrics of an admin client."""
    return AdminMetrics(**_Samples(core).common())
