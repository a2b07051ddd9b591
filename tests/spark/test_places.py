"""Spark as more than one process: a standalone cluster with two workers, and a Connect server."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from samsarrow import Admin, Consumer, Producer
from support.flights import BY_HOUR, send_flights
from support.kafka import SUPPORT, KafkaServer, free_ports

pytestmark = pytest.mark.skipif(
    not os.environ.get("SAMSARROW_SPARK_CLUSTER"), reason="takes a minute: make test-spark-cluster runs it"
)
RECORDS = 2_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A master and two workers with one core each, from PySpark's own jars."""
    import pyspark

    home = Path(pyspark.__file__).parent
    port, *web = free_ports(4)
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    address = f"spark://127.0.0.1:{port}"
    commands = [["master.Master", "-h", "127.0.0.1", "-p", str(port), "--webui-port", str(web[0])]]
    for number in (1, 2):
        place = ["-c", "1", "-m", "1g", "-d", str(tmp_path / f"worker{number}"), "--webui-port", str(web[number])]
        commands.append(["worker.Worker", "-h", "127.0.0.1", *place, address])
    started: list[tuple[subprocess.Popen[bytes], Path]] = []
    try:
        for number, (main, *rest) in enumerate(commands):
            log = tmp_path / f"{number}.log"
            with log.open("wb") as out:
                command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}", *rest]
                started.append((subprocess.Popen(command, env=environment, stdout=out, stderr=out), log))
            wait_for(log, "I have been elected leader" if number == 0 else "Successfully registered with master")
        yield address
    finally:
        for process, _ in reversed(started):
            process.terminate()
        for process, _ in started:
            process.wait(30)


def wait_for(log: Path, words: str) -> None:
    deadline = time.monotonic() + 60
    while words not in log.read_text(errors="replace"):
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.2)


def run(master: str, kafka: KafkaServer, new_topic: Callable[..., str], folder: Path) -> dict[str, int]:
    come, gone, flights = new_topic(4), new_topic(2), new_topic(2)
    send_flights(kafka.bootstrap_servers, flights)
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for n in range(RECORDS):
            producer.send(come, str(n), str(n))
    command = [sys.executable, str(SUPPORT / "spark_places.py"), master, kafka.bootstrap_servers, come, gone]
    done = subprocess.run(
        [*command, flights, str(folder)], env=os.environ | {"TZ": "UTC"},
        capture_output=True, text=True, timeout=270, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told.pop("flights") == BY_HOUR
    config = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    with Consumer(config, bootstrap_servers=kafka.bootstrap_servers) as consumer:
        consumer.assign(consumer.partitions_for(gone))
        values = sorted(int(v) for v in consumer.reader().read_all().column("value").to_pylist())
        ends = consumer.end_offsets(consumer.partitions_for(come))
    assert values == list(range(RECORDS))
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        committed = admin.fetch_offsets(f"group-of-{come}")
    assert {tp: at and at.offset for tp, at in committed.items()} == ends
    return told


@pytest.mark.timeout(400)
def test_a_cluster_of_two_workers(
    cluster: str, kafka: KafkaServer, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    told = run(cluster, kafka, new_topic, tmp_path / "driver")
    assert (told["rows"], told["executors"]) == (RECORDS, 2)
    assert told["batches"] >= 4


@pytest.mark.timeout(400)
@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="Spark Connect needs pip install pyspark[connect]")
def test_a_connect_server(kafka: KafkaServer, new_topic: Callable[..., str], tmp_path: Path) -> None:
    told = run("connect", kafka, new_topic, tmp_path / "driver")
    assert told["rows"] == RECORDS
