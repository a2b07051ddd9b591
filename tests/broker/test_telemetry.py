"""Client metrics pushed to brokers (KIP-714), decoded with OpenTelemetry's own classes."""

import logging
import time
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_DELTA,
    MetricsData,
)

from samsarrow import Admin, Consumer, Producer, TopicPartition, metrics
from samsarrow.exceptions import IllegalStateError, UnsupportedVersionError
from samsarrow.testing import Broker, TelemetryPush
from support.waiting import settled, until

LAG = "org.apache.kafka.consumer.fetch.manager.records.lag"
PRODUCED = "org.apache.kafka.producer.record.send.total"


def decoded(push: TelemetryPush) -> tuple[dict[str, str], dict[str, list[Any]]]:
    """Returns the attributes and the metrics of a push by name. For each name, metrics of the client precede those of
    topics.
    """
    data = MetricsData()
    data.ParseFromString(push.metrics)
    [resource] = data.resource_metrics
    [scope] = resource.scope_metrics
    assert scope.scope.name == "samsarrow"
    by_name: dict[str, list[Any]] = {}
    for metric in scope.metrics:
        by_name.setdefault(metric.name, []).append(metric)
    return {pair.key: pair.value.string_value for pair in resource.resource.attributes}, by_name


def points(found: list[Any]) -> list[tuple[dict[str, str], float]]:
    data = [point for metric in found for point in getattr(metric, metric.WhichOneof("data")).data_points]
    return [({pair.key: pair.value.string_value for pair in point.attributes}, point.as_double) for point in data]


def reading(broker: Broker) -> list[TelemetryPush]:
    """Returns the pushes of consumer `c` that contain the lag of both partitions."""
    own = [push for push in broker.telemetry() if push.client_id == "c"]
    return [push for push in own if len(points(decoded(push)[1].get(LAG, []))) == 2]


@pytest.mark.parametrize("codec", ["zstd", "lz4", "gzip", "snappy", None])
def test_pushed_metrics_and_terminating_push(codec, caplog):
    caplog.set_level(logging.INFO, "samsarrow")
    accepted = [codec] if codec else []
    with Broker(topics={"t": 2}, telemetry=[""], telemetry_interval=0.2, telemetry_compression=accepted) as broker:
        servers = broker.bootstrap_servers
        consumer = Consumer(
            bootstrap_servers=servers, client_id="c", group_id="g", client_rack="r", auto_offset_reset="earliest"
        )
        producer = Producer(bootstrap_servers=servers, client_id="p", transactional_id="x", linger_ms=0)
        admin = Admin(bootstrap_servers=servers, client_id="a", enable_metrics_push=True)
        with consumer, producer, admin:
            for number in range(2):
                with producer.transaction():
                    producer.send("t", b"x", partition=number)
            consumer.subscribe(["t"])
            until(lambda: consumer.poll(0.05) is not None and consumer.metrics().records == 2)
            admin.list_topics()
            ids = {client.client_instance_id() for client in (consumer, producer, admin)}
            until(lambda: consumer.poll(0.01) is not None and {p.client_id for p in broker.telemetry()} >= {"a", "p"})
            until(lambda: consumer.poll(0.01) is not None and reading(broker))
        pushes = broker.telemetry()
        assert {push.client_instance_id for push in pushes} == ids
        assert len(ids) == 3
        assert {push.compression for push in pushes} == {codec or "none"}
        last = {push.client_id: push for push in pushes if push.terminating}
        assert last.keys() == {"a", "c", "p"}
        attributes, found = decoded(last["p"])
        assert attributes == {"transactional_id": "x"}
        [total] = found[PRODUCED]
        assert total.sum.is_monotonic
        assert total.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_DELTA
        own = [push for push in pushes if push.client_id == "p"]
        assert sum(value for push in own for _, value in points(decoded(push)[1][PRODUCED])) == 2
        totals = found["org.apache.kafka.producer.topic.record.send.total"]
        assert [labels for labels, _ in points(totals)] == [{"topic": "t"}]
        nodes = {labels["node_id"] for labels, _ in points(found["org.apache.kafka.producer.node.request.total"])}
        assert nodes == {"node--1", "node-0"}
        attributes, found = decoded(reading(broker)[-1])
        member = attributes.pop("group_member_id")
        assert member
        assert attributes == {"client_rack": "r", "group_id": "g"}
        lag = points(found[LAG])
        assert {labels["partition"] for labels, _ in lag} == {"0", "1"}
        assert points(found["org.apache.kafka.consumer.coordinator.assigned.partitions"])[0][1] == 2
        # The terminating push of a consumer contains its member id, because it is sent before the member leaves the
        # group, as in Java.
        attributes, found = decoded(last["c"])
        assert attributes["group_member_id"] == member
        assert points(found["org.apache.kafka.consumer.coordinator.assigned.partitions"])[0][1] == 2
        assert len([push for push in pushes if push.terminating]) == 3
        for client, push in (("producer", last["p"]), ("consumer", last["c"]), ("admin", last["a"])):
            known = {row.telemetry for row in metrics.table(client)}
            assert decoded(push)[1].keys() <= known
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_push_with_subscribed_prefix_and_cumulative_temporality():
    prefix = "org.apache.kafka.producer.rec"
    with Broker(topics={"t": 1}, telemetry=[prefix], telemetry_interval=0.1, telemetry_delta=False) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0) as producer:
            for _ in range(3):
                pushes = len(broker.telemetry())
                producer.send("t", b"x").result(10)
                until(lambda before=pushes: len(broker.telemetry()) > before + 1)
            assert producer.metrics().java()  # Reading metrics does not affect later pushes.
        _, found = decoded(broker.telemetry()[-1])
        assert all(name.startswith(prefix) for name in found)
        assert found[PRODUCED][0].sum.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
        assert points(found[PRODUCED]) == [({}, 3)]


def test_no_push_without_subscription(caplog):
    caplog.set_level(logging.INFO, "samsarrow")
    with Broker(topics={"t": 1}, telemetry=[], telemetry_interval=0.05) as none, Broker(topics={"t": 1}) as plain:
        with Admin(bootstrap_servers=none.bootstrap_servers, enable_metrics_push=True) as admin:
            admin.list_topics()
            assert admin.client_instance_id()
            until(lambda: none.requests("GetTelemetrySubscriptions") > 2)
        assert none.requests("PushTelemetry") == 0
        # The terminating push of the first client may not have arrived yet.
        before = settled(lambda: none.requests("GetTelemetrySubscriptions"))
        with Admin(bootstrap_servers=none.bootstrap_servers) as admin:
            admin.list_topics()
            with pytest.raises(IllegalStateError, match=r"enable\.metrics\.push"):
                admin.client_instance_id()
        assert none.requests("GetTelemetrySubscriptions") == before
        admin = Admin(bootstrap_servers=plain.bootstrap_servers, enable_metrics_push=True)
        with admin, pytest.raises(UnsupportedVersionError, match="KIP-714"):
            admin.client_instance_id()
        assert plain.requests("GetTelemetrySubscriptions") == 0
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_oversized_push_omits_partition_metrics():
    with Broker(
        topics={"t": 500}, telemetry=[""], telemetry_interval=0.1, telemetry_max_bytes=16_000, telemetry_compression=[]
    ) as broker:
        with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("t", p) for p in range(500)])
            until(lambda: consumer.poll(0.05) is not None and len(consumer.metrics().lag) == 500)
            before = len(broker.telemetry())
            until(lambda: consumer.poll(0.05) is not None and len(broker.telemetry()) > before + 1)
        push = [push for push in broker.telemetry() if not push.terminating][-1]
        assert len(push.metrics) <= 16_000
        _, found = decoded(push)
        assert "org.apache.kafka.consumer.fetch.manager.records.lag.max" in found
        assert LAG not in found


@pytest.mark.parametrize("error", ["UNKNOWN_SUBSCRIPTION_ID", "UNSUPPORTED_COMPRESSION_TYPE", "TELEMETRY_TOO_LARGE"])
def test_rejected_push_renews_the_subscription_without_warning(error, caplog):
    caplog.set_level(logging.INFO, "samsarrow")
    with Broker(topics={"t": 1}, telemetry=[""], telemetry_interval=0.1) as broker:
        broker.fail("PushTelemetry", error=error, times=1)
        with Producer(bootstrap_servers=broker.bootstrap_servers, retry_backoff_max_ms=10) as producer:
            producer.send("t", b"x").result(10)
            until(lambda: broker.requests("GetTelemetrySubscriptions") == 2 and broker.telemetry())
        # The next push contains the metrics of the rejected push.
        assert sum(value for push in broker.telemetry() for _, value in points(decoded(push)[1][PRODUCED])) == 1
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_close_with_unanswered_pushes():
    with Broker(topics={"t": 1}, telemetry=[""], telemetry_interval=0.1) as broker:
        producer = Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0)
        producer.send("t", b"x").result(10)
        until(broker.telemetry)
        broker.fail("PushTelemetry", delay=60)
        until(lambda: broker.requests("PushTelemetry") > len(broker.telemetry()))
        started = time.monotonic()
        producer.close(timeout=30)
        assert time.monotonic() - started < 20
        consumer = Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")
        consumer.assign([TopicPartition("t", 0)])
        until(lambda: consumer.poll(0.05).num_rows)
        consumer.client_instance_id()
        started = time.monotonic()
        consumer.close(timeout=0.1)
        assert time.monotonic() - started < 20


def test_invalid_telemetry_arguments_are_rejected():
    with pytest.raises(ValueError, match="prefixes in a list"):
        Broker(telemetry="org.")
    with pytest.raises(ValueError, match="telemetry_max_bytes=0"):
        Broker(telemetry=[""], telemetry_max_bytes=0)
    with pytest.raises(ValueError, match="zip"):
        Broker(telemetry=[""], telemetry_compression=["zip"])
    with pytest.raises(ValueError, match="telemetry_interval"):
        Broker(telemetry=[""], telemetry_interval=-1)
