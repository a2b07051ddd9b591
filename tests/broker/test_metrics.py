"""Metrics of the clients, their events, and their names in Prometheus and OpenTelemetry."""

import threading
import time
from collections.abc import Callable
from itertools import groupby

import pyarrow as pa
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from samsarrow import Admin, Consumer, KafkaError, Producer, ShareConsumer, TopicPartition, metrics
from samsarrow.exceptions import AuthenticationError, ConfigurationError
from samsarrow.testing import Broker
from support.waiting import settled, until

PARTITIONS = [TopicPartition("four", p) for p in range(4)]


def write(servers: str, topic: str, values: list[bytes], **columns: pa.Array) -> None:
    with Producer(bootstrap_servers=servers, linger_ms=0) as producer:
        data = {"value": pa.array(values, pa.binary()), **columns}
        names = {name: name for name in columns}
        producer.send_batch(topic, pa.table(data), **names).result(30)


def test_consumer_metrics_and_lag(broker, servers, read):
    write(servers, "four", [b"x" * 100] * 400, partition=pa.array([0] * 100 + [1] * 300, pa.int32()))
    with Consumer(
        bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", max_poll_records=50
    ) as consumer:
        empty = consumer.metrics()
        assert (empty.records, empty.lag, empty.connections, empty.nodes, empty.last_poll) == (0, {}, 0, {}, None)
        consumer.assign(PARTITIONS)
        read(consumer, 50)
        # Waits until both partitions have a lag and no more requests other than Fetch are sent.
        until(lambda: consumer.metrics().lag.keys() >= set(PARTITIONS[:2]))
        settled(lambda: {api: count for api, count in broker.requests().items() if api != "Fetch"})
        requests = broker.requests()
        found = consumer.metrics()
        # Since then only Fetch requests were sent, because the lag needs no additional requests.
        now = broker.requests()
        assert {api for api in now if now[api] != requests.get(api)} <= {"Fetch"}
        returned = found.records
        assert returned >= 50
        assert returned % 50 == 0
        assert found.lag[PARTITIONS[0]] + found.lag[PARTITIONS[1]] == 400 - returned
        assert found.lead[PARTITIONS[0]] + found.lead[PARTITIONS[1]] == returned
        read(consumer, 400 - returned)
        consumer.commit()

        def metrics_between_fetches() -> metrics.ConsumerMetrics | None:
            """Returns the metrics, or None if a fetch response is being processed."""
            seen = consumer.metrics()
            return seen if len(seen.lag) == 4 and seen.fetches == seen.apis["Fetch"].count else None

        done = until(metrics_between_fetches)
        assert done is not None
        assert (done.records, dict(done.topics)) == (400, {"four": 400})
        assert set(done.lag.values()) == {0}
        assert done.lead == {tp: [100, 300, 0, 0][tp.partition] for tp in PARTITIONS}
        assert done.bytes > 40_000
        assert done.records_per_second > 0
        assert done.bytes_per_second > 0
        assert done.end_to_end_latency.count == 400
        assert 0 <= done.end_to_end_latency.p50 < 60
        assert done.fetches == done.fetch_latency.count == done.apis["Fetch"].count
        assert done.commit_latency.count == 1
        assert done.assigned_partitions == 4
        assert done.connections == done.connections_created - done.connections_closed > 0
        assert done.last_poll is not None
        assert done.last_poll < 30
        assert done.responses <= done.requests <= done.responses + 5
        assert sum(node.requests for node in done.nodes.values()) == done.requests
        assert sum(node.bytes_received for node in done.nodes.values()) == done.bytes_received > done.bytes
        # The lag of a partition remains available while the partition is paused.
        consumer.pause(PARTITIONS[2])
        assert consumer.metrics().lag[PARTITIONS[2]] == 0
        consumer.seek(PARTITIONS[1], 10)
        assert consumer.metrics().lag[PARTITIONS[1]] == 290


def test_end_to_end_latency(servers, read):
    hour_ago = int(time.time() * 1000) - 3_600_000
    write(servers, "four", [b"x"] * 10, timestamp=pa.array([hour_ago] * 9 + [hour_ago + 3_590_000], pa.int64()))
    for level in ("INFO", "DEBUG"):
        with Consumer(
            bootstrap_servers=servers, metrics_recording_level=level, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign(PARTITIONS)
            read(consumer, 10)
            latency = consumer.metrics().end_to_end_latency
            assert latency.count == 10
            assert 3_600 <= latency.max < 3_700
            # Nine rows are an hour old. At level DEBUG, each row counts with its own timestamp. At other levels, half
            # of the rows count with the base timestamp of their batch.
            assert 9 * 3_600 <= latency.sum < 10 * 3_700 if level == "DEBUG" else latency.sum >= 3_600 * 4


def test_rebalance_metrics_and_events(broker, servers, read):
    events: list[metrics.Event] = []

    def count_of(kind: type) -> int:
        return len([event for event in events if isinstance(event, kind)])

    member = {"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"}
    with Consumer(member, on_event=events.append, heartbeat_interval_ms=50) as consumer:
        consumer.subscribe(["t"])
        until(lambda: consumer.poll(0.05) is not None and consumer.assignment())
        until(lambda: consumer.metrics().heartbeats > 0)
        found = consumer.metrics()
        assert (found.rebalances, found.failed_rebalances) == (1, 0)
        bean = found.java()["kafka.consumer:type=consumer-coordinator-metrics,client-id=samsarrow"]
        assert (bean["rebalance-total"], bean["join-total"], bean["sync-total"]) == (
            1,
            found.apis["JoinGroup"].count,
            1,
        )
        assert bean["last-heartbeat-seconds-ago"] < 60
        assert bean["rebalance-latency-max"] > 0
        broker.fail("Heartbeat", error="ILLEGAL_GENERATION")
        # The metric is incremented when the member has joined, but the event is sent when a poll assigns the
        # partitions.
        until(lambda: consumer.poll(0.05) is not None and count_of(metrics.Rebalanced) == 3)
        assert (consumer.metrics().rebalances, consumer.metrics().failed_rebalances) == (2, 1)
    until(lambda: 0 < count_of(metrics.Connected) == count_of(metrics.Disconnected))
    rebalanced = [(event.change, event.partitions) for event in events if isinstance(event, metrics.Rebalanced)]
    tp = (TopicPartition("t", 0),)
    assert rebalanced[:3] == [("assigned", tp), ("lost", tp), ("assigned", tp)]
    assert [event for event in events if isinstance(event, metrics.Fenced)]
    connected = [event for event in events if isinstance(event, metrics.Connected)]
    assert {event.address for event in connected} == {servers}


def test_on_event_thread_and_exceptions(servers, monkeypatch):
    names: set[str] = set()
    raised: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda hook: raised.append(hook.exc_value))

    def fails(event: metrics.Event) -> None:
        names.add(threading.current_thread().name)
        raise ValueError(event)

    with Admin(bootstrap_servers=servers, on_event=fails) as admin:
        admin.list_topics()
        assert admin.metrics().apis["Metadata"].count == 1
    until(lambda: len(raised) >= 2)
    assert names == {"samsarrow-events"}
    # Options of a wrong type are rejected.
    for client in (Admin, Consumer, Producer):
        with pytest.raises(ConfigurationError, match=r"option on_event must be a function such as .*, not str"):
            client(bootstrap_servers=servers, on_event="text")
        # As with all other options, None selects the default.
        client(bootstrap_servers=servers, on_event=None).close()


def test_offset_reset_event(servers, read):
    write(servers, "t", [b"x"] * 3)
    events: list[metrics.Event] = []
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", on_event=events.append) as consumer:
        tp = TopicPartition("t", 0)
        consumer.assign([tp])
        consumer.seek(tp, 99)
        read(consumer, 3)
        until(lambda: [event for event in events if isinstance(event, metrics.OffsetReset)])
    [event] = [event for event in events if isinstance(event, metrics.OffsetReset)]
    assert (event.partition, event.offset) == (tp, 99)
    assert "not in the log" in event.reason


def test_fenced_event_of_a_producer(broker, servers):
    events: list[metrics.Event] = []
    with Producer(bootstrap_servers=servers, transactional_id="x", on_event=events.append, linger_ms=0) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        broker.fence("x")
        with pytest.raises(KafkaError):
            producer.send("t", b"late").result(10)
    until(lambda: [event for event in events if isinstance(event, metrics.Fenced)])
    assert len([event for event in events if isinstance(event, metrics.Fenced)]) == 1


@pytest.mark.parametrize("client", [Admin, Consumer, Producer])
def test_failed_logins_are_counted_and_reported_without_secrets(client):
    events: list[metrics.Event] = []
    with Broker(topics={"t": 1}, security="SASL_PLAINTEXT", users={"u": "right"}) as broker:
        options = broker.client_options("u", "PLAIN") | {"sasl.password": "hunter2"}
        requester = client(options, on_event=events.append)
        with pytest.raises(AuthenticationError):
            {
                Admin: lambda: requester.list_topics(timeout=10),
                Consumer: lambda: requester.partitions_for("t", timeout=10),
                Producer: lambda: requester.send("t", b"x").result(10),
            }[client]()

        def failures() -> list[metrics.AuthenticationFailed]:
            return [event for event in events if isinstance(event, metrics.AuthenticationFailed)]

        # The event is delivered shortly after the metric is incremented.
        until(
            lambda: 0 < requester.metrics().failed_authentications == len(failures()),
            lambda: (requester.metrics().failed_authentications, events),
        )
        found, failed = requester.metrics(), failures()
        assert (found.connections, found.connections_created) == (0, 0)
        assert failed[0].address == broker.bootstrap_servers
        assert failed[0].node < 0
        assert "hunter2" not in str(failed[0])
        assert "Invalid username or password" in failed[0].reason
        assert not [event for event in events if isinstance(event, metrics.Connected)]
        requester.close()


def names_of(client: str, kind: Callable[[metrics.MetricSpec], object]) -> set[str]:
    return {name for row in metrics.table(client) if (name := kind(row))}  # type: ignore[misc]


def test_prometheus_and_opentelemetry_export_every_metric(broker, servers, read):
    registry = CollectorRegistry()
    reader = InMemoryMetricReader()
    consumer = Consumer(bootstrap_servers=servers, client_id='od"d\\', group_id="g", auto_offset_reset="earliest")
    producer = Producer(bootstrap_servers=servers, client_id="p")
    admin = Admin(bootstrap_servers=servers)
    # Its metrics have the prefix of consumers.
    share = ShareConsumer(bootstrap_servers=servers, client_id="s", group_id="s")
    with consumer, share, producer, admin:
        metrics.prometheus(consumer, share, producer, admin, registry=registry)
        metrics.opentelemetry(consumer, share, producer, admin, meter_provider=MeterProvider([reader]))
        producer.send("t", b"x" * 100).result(30)
        consumer.subscribe(["t"])
        read(consumer, 1)
        consumer.commit()
        until(lambda: consumer.poll(0) is not None and consumer.metrics().heartbeats > 0 and consumer.metrics().lag)
        admin.list_topics()
        families = {f.name: f for f in text_string_to_metric_families(generate_latest(registry).decode())}
        own = {f.name: f for f in text_string_to_metric_families(metrics.exposition(consumer, share, producer, admin))}
        for found in (families, own):
            for client in ("producer", "consumer", "admin"):
                expected = {name.removesuffix("_total") for name in names_of(client, lambda row: row.prometheus)}
                have = {name for name in found if name.startswith(f"samsarrow_{client}_")}
                assert expected - have == set(), client
            [lag] = found["samsarrow_consumer_records_lag"].samples
            assert (lag.value, lag.labels) == (0, {"client_id": 'od"d\\', "topic": "t", "partition": "0"})
            [start] = found["samsarrow_producer_start_time_seconds"].samples
            assert abs(start.value - time.time()) < 3600
            delivery = {
                s.name + s.labels.get("quantile", ""): s.value
                for s in found["samsarrow_producer_delivery_latency_seconds"].samples
            }
            assert delivery["samsarrow_producer_delivery_latency_seconds_count"] == 1
            assert 0 < delivery["samsarrow_producer_delivery_latency_seconds0.5"] < 30
        assert {n: f.type for n, f in families.items()} == {n: f.type for n, f in own.items()}
        assert {n: f.documentation for n, f in families.items()} == {n: f.documentation for n, f in own.items()}
        read_once = reader.get_metrics_data()
        assert read_once is not None
        [scope] = read_once.resource_metrics[0].scope_metrics
        assert scope.scope.schema_url.endswith("1.44.0")
        points = {metric.name: metric.data.data_points for metric in scope.metrics}
        units = {metric.name: metric.unit for metric in scope.metrics}
        [sent] = points["messaging.client.sent.messages"]
        assert sent.value == 1
        assert units["messaging.client.sent.messages"] == "{message}"
        assert dict(sent.attributes) == {
            "messaging.system": "kafka", "messaging.client.id": "p", "messaging.destination.name": "t",
            "messaging.operation.name": "send",
        }  # fmt: skip
        [consumed] = points["messaging.client.consumed.messages"]
        assert consumed.value == 1
        assert consumed.attributes["messaging.operation.name"] == "poll"
        [lag] = points["samsarrow.consumer.records_lag"]
        assert lag.attributes["messaging.destination.partition.id"] == "0"
        [count] = points["samsarrow.producer.delivery_latency.count"]
        assert count.value == 1
    with pytest.raises(TypeError, match="not of str"):
        metrics.exposition("consumer")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="one client or several"):
        metrics.prometheus()


def test_java_names_quote_special_characters(broker, servers):
    with Consumer(bootstrap_servers=servers, client_id='a,b="c"') as consumer:
        [bean] = [bean for bean in consumer.metrics().java() if ":type=consumer-metrics," in bean]
        assert bean == 'kafka.consumer:type=consumer-metrics,client-id="a,b=\\"c\\""'


def test_metrics_options(servers):
    for option in ({"metrics_num_samples": 0}, {"metrics_sample_window_ms": 0}, {"metrics_recording_level": "ALL"}):
        with pytest.raises(ConfigurationError, match="metrics"):
            Consumer(bootstrap_servers=servers, **option)
    with Consumer(bootstrap_servers=servers, metrics_num_samples=1, metrics_sample_window_ms=100) as consumer:
        consumer.assign(PARTITIONS)
        consumer.poll(0.01)
        until(lambda: consumer.metrics().requests > 0)


def test_metric_names_are_unique_per_client():
    for client in ("producer", "consumer", "admin"):
        names = sorted(row.prometheus for row in metrics.table(client) if row.prometheus)
        assert [name for name, same in groupby(names) if len(list(same)) > 1] == []
    with pytest.raises(ValueError, match="broker"):
        metrics.table("broker")
