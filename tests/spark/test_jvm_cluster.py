"""The source and sink in Spark's JVM on several processes, with executors that have no Python."""

import importlib.util
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Admin, Avro, Consumer, Producer, SchemaRegistry
from samsarrow.testing import Registry
from support.kafka import SUPPORT, KafkaServer
from support.secure import USERS, SecureKafka
from support.spark_jvm_places import MORE, NO_PYTHON

pytestmark = [
    pytest.mark.usefixtures("built"),
    pytest.mark.timeout(400),
]
cluster_only = pytest.mark.skipif(
    not os.environ.get("SAMSARROW_SPARK_CLUSTER"), reason="takes a minute: make test-spark-cluster runs it"
)
connect = pytest.mark.skipif(
    importlib.util.find_spec("grpc") is None, reason="Spark Connect needs pip install pyspark[connect]"
)
RECORDS = 2_000
# Options of the test's clients, and options of sources and sinks.
Options = tuple[dict[str, str], dict[str, str]]


def run(master: str, api: str, jar: str, folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-m", "support.spark_jvm_places", master, api, jar, str(folder)]
    done = subprocess.run(
        command, input=json.dumps(settings), env=os.environ | {"TZ": "UTC"}, cwd=SUPPORT.parent,
        capture_output=True, text=True, timeout=270, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:5000] + done.stderr[-5000:]
    assert "ClassNotFoundException" not in done.stderr, done.stderr[-5000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def copied(
    master: str, api: str, jar: str, folder: Path, config: dict[str, Any], shared: dict[str, str], **conf: str
) -> None:
    """Copies a topic with a batch, and with a stream that resumes from its checkpoint.

    Args:
        master: Spark's master.
        api: `classic` or `connect`.
        jar: the way the jar is provided.
        folder: folder for Spark's output.
        config: options of the test's clients.
        shared: options of sources and sinks.
        **conf: settings of the session.
    """
    come, avro, *gone = (f"{name}-{folder.parent.name}" for name in ("come", "avro", "batch", "stream"))
    with Admin(config) as admin, Producer(config) as producer, Registry() as registry:
        admin.create_topics([come, avro], num_partitions=4)
        admin.create_topics(gone, num_partitions=2)
        for n in range(RECORDS):
            producer.send(come, str(n), str(n))
        rows = pa.table({"key": range(100), "value": [{"id": n, "city": f"city {n:02}"} for n in range(100)]})
        with SchemaRegistry(registry.url) as schemas:
            producer.send_batch(avro, rows, key_format="long", value_format=Avro(schemas)).result(30)
        typed = {"subscribe": avro, "schema.registry.url": registry.url, "key.format": "long", "value.format": "avro"}
        settings = {"conf": conf, "options": shared, "come": come, "gone": gone, "typed": typed}
        output = run(master, api, jar, folder, settings)
    assert output.pop("typed") == [[100, 4950, 4950, "city 99"]] * 2
    assert NO_PYTHON in output.pop("python"), "an executor has a Python"
    assert output.pop("batches") >= 4
    assert output == {"rows": RECORDS, "sum": sum(range(RECORDS)), "again": 1}
    for topic, count in zip(gone, (RECORDS, RECORDS + MORE), strict=True):
        with Consumer(config, auto_offset_reset="earliest") as consumer:
            consumer.assign(consumer.partitions_for(topic))
            values = sorted(int(v) for v in consumer.reader().read_all().column("value").to_pylist())
        assert values == list(range(count)), topic


@pytest.fixture
def plain(kafka: KafkaServer) -> Options:
    servers = {"bootstrap.servers": kafka.bootstrap_servers}
    return servers, {f"kafka.{name}": value for name, value in servers.items()}


def places(folder: Path) -> list[set[tuple[str, str]]]:
    """Returns the executors and localities of the tasks for each partition of the four-partition topic, from Spark's
    events.
    """
    stages: dict[int, dict[int, tuple[str, str]]] = defaultdict(dict)
    for path in (folder / "events").rglob("events*"):
        for line in path.read_text().splitlines() if path.is_file() else ():
            if (event := json.loads(line))["Event"] == "SparkListenerTaskEnd":
                task = event["Task Info"]
                stages[event["Stage ID"]][task["Index"]] = (task["Executor ID"], task["Locality"])
    reading = [tasks for tasks in stages.values() if len(tasks) == 4]
    assert len(reading) > 4, stages
    return [{tasks[index] for tasks in reading} for index in range(4)]


@cluster_only
@pytest.mark.parametrize("jar", ["setting", "added"])
def test_cluster_of_two_workers(cluster: str, plain: Options, tmp_path: Path, jar: str) -> None:
    """Each partition is read on the same executor in every batch."""
    copied(cluster, "classic", jar, tmp_path / "driver", *plain)
    result = places(tmp_path / "driver")
    assert [len(executors) for executors in result] == [1] * 4, result
    assert set.union(*result) == {("0", "PROCESS_LOCAL"), ("1", "PROCESS_LOCAL")}


@connect
def test_connect_session_adds_the_jar(plain: Options, tmp_path: Path) -> None:
    copied("local[2]", "connect", "added", tmp_path / "driver", *plain)


@cluster_only
@connect
def test_connect_session_adds_the_jar_to_a_cluster(cluster: str, plain: Options, tmp_path: Path) -> None:
    copied(cluster, "connect", "added", tmp_path / "driver", *plain)


@cluster_only
def test_cluster_of_two_workers_with_secured_kafka(cluster: str, tmp_path: Path) -> None:
    """Driver and executors read the password from their own environments."""
    password = USERS["alice"]
    with SecureKafka(tmp_path) as kafka, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PASSWORD", password)
        config = dict(kafka.password("SCRAM-SHA-512").ours)
        shared = {f"kafka.{name}": value for name, value in config.items() if name != "sasl.jaas.config"}
        shared |= {"kafka.sasl.username": "alice", "kafka.sasl.password": "${env:PASSWORD}"}
        shared["kafka.config.providers"] = "env"
        driver = tmp_path / "driver"
        copied(cluster, "classic", "setting", driver, config, shared, **{"spark.executorEnv.PASSWORD": password})
    written = [path for path in driver.rglob("*") if path.is_file()]
    assert any("checkpoint" in path.parts for path in written)
    assert [path for path in written if password.encode() in path.read_bytes()] == []


@cluster_only
@connect
def test_connect_session_adds_the_jar_to_separate_executor(plain: Options, tmp_path: Path) -> None:
    """The session has one worker, which runs in the driver's process."""
    copied("local-cluster[1,1,512]", "connect", "added", tmp_path / "driver", *plain, **{"spark.cores.max": "1"})
