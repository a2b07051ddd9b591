"""Spark in several processes: a standalone cluster with two workers, and a Connect server."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from samsarrow import Admin, Consumer, Producer
from samsarrow.testing import Registry
from support.flights import BY_HOUR, send_flights
from support.kafka import SUPPORT, KafkaServer
from support.parity import JVM
from support.secure import USERS, SecureKafka
from support.spark import need_jar
from support.streams import wait_for_markers

pytestmark = pytest.mark.skipif(
    not os.environ.get("SAMSARROW_SPARK_CLUSTER"), reason="takes a minute: make test-spark-cluster runs it"
)
RECORDS = 2_000


def run(master: str, kafka: KafkaServer, new_topic: Callable[..., str], folder: Path) -> dict[str, int]:
    come, gone, avro, flights = new_topic(4), new_topic(2), new_topic(2), new_topic(2)
    send_flights(kafka.bootstrap_servers, flights)
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for n in range(RECORDS):
            producer.send(come, str(n), str(n))
    with Registry() as registry:
        command = [sys.executable, str(SUPPORT / "spark_places.py"), master, kafka.bootstrap_servers, registry.url]
        done = subprocess.run(
            [*command, come, gone, avro, flights, str(folder)], env=os.environ | {"TZ": "UTC"},
            capture_output=True, text=True, timeout=270, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[:5000] + done.stderr[-5000:]
    output = json.loads(done.stdout.splitlines()[-1])
    assert output.pop("flights") == BY_HOUR
    assert output.pop("typed") == [[n, n, f"city {n}"] for n in range(100)]
    wait_for_markers(kafka.bootstrap_servers, gone)
    config = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    with Consumer(config, bootstrap_servers=kafka.bootstrap_servers) as consumer:
        consumer.assign(consumer.partitions_for(gone))
        values = sorted(int(v) for v in consumer.reader().read_all().column("value").to_pylist())
        ends = consumer.end_offsets(consumer.partitions_for(come))
    assert values == list(range(RECORDS))
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        committed = admin.fetch_offsets(f"group-of-{come}")
    assert {tp: at and at.offset for tp, at in committed.items()} == ends
    return output


@pytest.mark.timeout(400)
def test_cluster_of_two_workers(
    cluster: str, kafka: KafkaServer, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    output = run(cluster, kafka, new_topic, tmp_path / "driver")
    assert (output["rows"], output["executors"]) == (RECORDS, 2)
    assert output["batches"] >= 4


@pytest.mark.timeout(400)
@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="Spark Connect needs pip install pyspark[connect]")
def test_connect_server(kafka: KafkaServer, new_topic: Callable[..., str], tmp_path: Path) -> None:
    output = run("connect", kafka, new_topic, tmp_path / "driver")
    assert output["rows"] == RECORDS


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    with SecureKafka(tmp_path_factory.mktemp("secure")) as kafka:
        yield kafka


def copied(master: str, kafka: SecureKafka, folder: Path, source: str) -> list[dict[str, int]]:
    """Copies a topic of a SASL_SSL cluster, first with a password from the environment, then with delegation tokens."""
    come, topics = f"come-{folder.name}", [f"gone-{n}-{folder.name}" for n in range(2)]
    login = dict(kafka.password("SCRAM-SHA-512").ours)
    config = {**login, "ssl.truststore.location": str(kafka.ca)}
    with Admin(config) as admin, Producer(config) as producer:
        admin.create_topics([come, *topics], num_partitions=4)
        for n in range(200):
            producer.send(come, str(n), str(n))
        before = len(admin.describe_delegation_tokens())
    assert login.pop("sasl.jaas.config")
    assert login.pop("ssl.truststore.type") == "PEM"
    assert login.pop("ssl.truststore.location") == str(kafka.ca)
    # With Connect, streams are planned in a process without the session's files, so the certificate is passed as text.
    trust = {"location": "ca.pem"} if master != "connect" else {"certificates": kafka.ca.read_text()}
    shared = {f"kafka.{name}": value for name, value in login.items()}
    shared |= {f"kafka.ssl.truststore.{name}": value for name, value in trust.items()}
    shared |= {"kafka.sasl.username": "alice", "kafka.config.providers": "env"}
    # Only the driver has the second variable, so tasks would fail if they resolved it.
    referring = shared | {"kafka.sasl.password": "${env:PASSWORD}"}
    token = shared | {"kafka.sasl.password": "${env:DRIVERS}", "delegationToken": "true"}
    copies = [
        (login | {"subscribe": come}, login | {"topic": topic})
        for login, topic in zip((referring, token), topics, strict=True)
    ]
    # A local Connect server runs its tasks as threads of its own process.
    conf = {} if master == "connect" else {"spark.executorEnv.PASSWORD": USERS["alice"]}
    settings = {"format": source, "conf": conf, "files": [str(kafka.ca)], "copies": copies}
    environment = os.environ | {"TZ": "UTC", "PASSWORD": USERS["alice"], "DRIVERS": USERS["alice"]}
    done = subprocess.run(
        [sys.executable, "-m", "support.spark_secured", master, str(folder)], input=json.dumps(settings),
        env=environment, cwd=SUPPORT.parent,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:5000] + done.stderr[-5000:]
    assert "samsarrow" in done.stdout, "what the plans say"
    assert USERS["alice"] not in done.stderr + done.stdout
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert any("checkpoint" in str(path) for path in written)
    assert [path for path in written if USERS["alice"].encode() in path.read_bytes()] == []
    for topic in topics:
        with Consumer(config, auto_offset_reset="earliest") as consumer:
            consumer.assign(consumer.partitions_for(topic))
            values = sorted(int(v) for v in consumer.reader().read_all().column("value").to_pylist())
        assert values == sorted([*range(200)] * 2), topic
    with Admin(config) as admin:
        made = len(admin.describe_delegation_tokens()) - before
    # The program runs two reads and two writes, and explains five plans. Some of them share a planning process and its
    # token; in the JVM all share one token.
    assert made == 1 if source == JVM else 1 <= made <= 11
    return list(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(params=["samsarrow-python", JVM])
def source(request: pytest.FixtureRequest) -> str:
    if request.param == JVM:
        need_jar()
    return str(request.param)


@pytest.mark.timeout(500)
def test_cluster_of_two_workers_with_secured_kafka(
    cluster: str, secure: SecureKafka, tmp_path: Path, source: str
) -> None:
    output = copied(cluster, secure, tmp_path / f"two-{source}", source)
    assert output == [{"rows": 200, "executors": 2}] * 2


@pytest.mark.timeout(500)
@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="Spark Connect needs pip install pyspark[connect]")
def test_connect_server_with_secured_kafka(secure: SecureKafka, tmp_path: Path, source: str) -> None:
    output = copied("connect", secure, tmp_path / f"connect-{source}", source)
    assert [item["rows"] for item in output] == [200, 200]
