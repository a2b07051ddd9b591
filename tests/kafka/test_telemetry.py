"""Metrics pushed to Apache Kafka (KIP-714), as received by a broker plugin; names match those of the Java client."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

from samsarrow import Admin, Consumer, Producer
from samsarrow.admin_types import ConfigResource
from support.kafka import DEFAULT_VERSION, QUICK_COMPILER, SUPPORT, KafkaServer, classpath

JAVA = SUPPORT / "java"
TOPIC = "measured"
CLIENTS = ("producer", "consumer", "admin")


def until(met: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Receiving(KafkaServer):
    """Kafka with a plugin that writes pushed metrics to files."""

    def __init__(self, classes: Path, folder: Path) -> None:
        properties = {"metric.reporters": "TelemetryReceiver", "telemetry.folder": str(folder)}
        super().__init__(properties=properties, jvm=QUICK_COMPILER)
        self._classes = classes

    def java(self, main: str, *arguments: str, jvm: Sequence[str] = ()) -> list[str]:
        command = super().java(main, *arguments, jvm=jvm)
        at = command.index("-cp") + 1
        command[at] = f"{self._classes}{os.pathsep}{command[at]}"
        return command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("telemetry")


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    classes = tmp_path_factory.mktemp("classes")
    source = str(JAVA / "TelemetryReceiver.java")
    subprocess.run(
        ["javac", "-nowarn", "-Xlint:-removal", "-cp", classpath(DEFAULT_VERSION), "-d", str(classes), source],
        check=True,
        timeout=120,
    )
    with Receiving(classes, folder) as server:
        server.tool(
            "kafka.admin.ConfigCommand", "--bootstrap-server", server.bootstrap_servers, "--alter",
            "--entity-type", "client-metrics", "--entity-name", "all", "--add-config", "interval.ms=500,metrics=[*]",
        )  # fmt: skip
        with Admin(bootstrap_servers=server.bootstrap_servers) as admin:
            # A client that requests its subscription before the broker applies this setting requests its subscription
            # again minutes later.
            resource = ConfigResource.client_metrics("all")
            until(lambda: admin.describe_configs([resource])[resource]["interval.ms"].value == "500")
        yield server


def pushed(folder: Path, client: str) -> dict[str, list[Metric]]:
    """Returns the metrics that a client has pushed so far, by name."""
    results: dict[str, list[Metric]] = {}
    for path in sorted(folder.glob(f"*-{client}-*.pb")):
        data = MetricsData()
        data.ParseFromString(path.read_bytes())
        for resource in data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    results.setdefault(metric.name, []).append(metric)
    return results


def labels(metric: Metric) -> set[str]:
    points = metric.sum.data_points if metric.HasField("sum") else metric.gauge.data_points
    return {pair.key for point in points for pair in point.attributes}


def test_pushed_metrics_have_java_names(server: KafkaServer, folder: Path) -> None:
    servers = server.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([TOPIC])
        until(lambda: TOPIC in admin.list_topics())
    java = subprocess.Popen(server.java(str(JAVA / "Names.java"), servers, TOPIC, "4000"), stderr=subprocess.DEVNULL)
    try:
        consumer = Consumer(
            bootstrap_servers=servers, client_id="own-consumer", group_id="own", auto_offset_reset="earliest"
        )
        producer = Producer(bootstrap_servers=servers, client_id="own-producer")
        admin = Admin(bootstrap_servers=servers, client_id="own-admin", enable_metrics_push=True)
        with consumer, producer, admin:
            producer.send(TOPIC, b"x" * 10).result(30)
            consumer.subscribe([TOPIC])
            admin.list_topics()
            until(lambda: consumer.poll(0.1) is not None and consumer.metrics().records > 0)
            consumer.commit()
            lag = "org.apache.kafka.consumer.fetch.manager.records.lag"
            until(lambda: consumer.poll(0.1) is not None and lag in pushed(folder, "own-consumer"))
            until(lambda: pushed(folder, "own-producer") and pushed(folder, "own-admin"))
            ids = {client.client_instance_id() for client in (consumer, producer, admin)}
            assert len(ids) == 3
        assert java.wait(120) == 0
    finally:
        java.kill()
        java.wait()
    for client in CLIENTS:
        own, theirs = pushed(folder, f"own-{client}"), pushed(folder, f"java-{client}")
        assert len(own) > 20
        assert own.keys() - theirs.keys() == set(), client
        for name in own:
            ours, expected = own[name], theirs[name]
            # Both clients push equal data types and equal attributes.
            assert {metric.WhichOneof("data") for metric in ours} == {
                metric.WhichOneof("data") for metric in expected
            }, name
            assert set().union(*map(labels, ours)) <= set().union(*map(labels, expected)), name
        # Waits for the last push, because a closing client need not wait for its response.
        until(lambda name=f"*-own-{client}-*-last.pb": len(list(folder.glob(name))) == 1)
    [sent] = [p.as_double for m in pushed(folder, "own-producer")["org.apache.kafka.producer.record.send.total"]
              for p in m.sum.data_points if p.as_double]  # fmt: skip
    assert sent == 1
