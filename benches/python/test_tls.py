"""Cost of TLS 1.3 compared with plaintext: reads a whole topic into Arrow, and sends a table to a topic.

`make bench-tls` runs this; it fails if a floor is missed.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import harness
from clients import data
from clients.checksum import checksum
from harness import RECORDS, Secured, create_topic, median, record, results, run_client
from support.certificates import Authority
from support.kafka import KafkaServer, free_ports

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 5
# Kinds of records, each with the divisor of RECORDS that gives their number.
KINDS = {"100B": 1, "1KB": 6}
# Limits from the design: microseconds of CPU per record, then ratios of rates.
CPU_US = {"100B": 0.10, "1KB": 0.75}
OF_RAW, OF_CONFLUENT, SEND_OF_CONFLUENT = 0.75, 6.0, 2.0


@pytest.fixture(scope="module")
def loop() -> str:
    """Builds the program that fetches in a loop with our Rust connection, in release mode; returns its path."""
    build = ["cargo", "build", "--quiet", "--release", "--package", "samsarrow-client", "--example", "fetch_loop"]
    done = subprocess.run(
        [*build, "--message-format", "json"], cwd=ROOT, capture_output=True, text=True, timeout=1800, check=True
    )
    built = [json.loads(line) for line in done.stdout.splitlines()]
    return next(item["executable"] for item in built if item.get("target", {}).get("name") == "fetch_loop")


@pytest.fixture(scope="module")
def tls_kafka() -> Iterator[tuple[KafkaServer, Secured]]:
    """One node with a plaintext and a TLS listener."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority()
        own = authority.issue().write(Path(folder) / "broker.pem")
        trusted = Path(folder) / "ca.pem"
        trusted.write_text(authority.pem)
        server = KafkaServer(
            heap="1g",
            listeners={f"SECURE://127.0.0.1:{port}": "SSL"},
            properties={
                "listener.name.secure.ssl.keystore.type": "PEM",
                "listener.name.secure.ssl.keystore.location": str(own),
                "listener.name.secure.ssl.enabled.protocols": "TLSv1.3",
            },
        )
        with server as kafka:
            options = {"security.protocol": "SSL", "ssl.truststore.location": str(trusted)}
            yield kafka, Secured(f"127.0.0.1:{port}", options)


def raw(loop: str, servers: str, topic: str, count: int, options: dict[str, str]) -> Any:
    command = [loop, servers, topic, str(count), *(f"{name}={value}" for name, value in options.items())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", KINDS)
def test_consume(tls_kafka: tuple[KafkaServer, Secured], loop: str, kind: str) -> None:
    kafka, secured = tls_kafka
    count = RECORDS // KINDS[kind]
    topic = create_topic(kafka, f"tls-{kind}")
    run_client("confluent", "produce", kafka, topic, count, kind)
    rows, crc = checksum(data.table(count, kind).column("value").chunks)
    for client in ("ours", "confluent"):
        assert run_client(client, "check", kafka, topic, count, kind, secured=secured) == {"rows": rows, "crc": crc}
    verb = f"consume {kind} over TLS 1.3"
    for turn in range(ROUNDS):
        # The runs are interleaved, so that noise of the machine affects all clients.
        runs = {
            "raw": raw(loop, secured.bootstrap_servers, topic, count, secured.options),
            "ours": run_client("ours", "consume", kafka, topic, count, kind, secured=secured),
            "openssl loop": run_client("raw", "consume", kafka, topic, count, kind, secured=secured),
            "raw, clear": raw(loop, kafka.bootstrap_servers, topic, count, {}),
            "ours, clear": run_client("ours", "consume", kafka, topic, count, kind),
        }
        if turn < 2:
            runs["confluent"] = run_client("confluent", "consume", kafka, topic, count, kind, secured=secured)
        for client, run in runs.items():
            assert run["rows"] == count, client
            record(verb, client, run)
    medians = {client: median(runs) for client, runs in results[verb].items()}
    rates = {client: run["rows"] / run["seconds"] for client, run in medians.items()}
    cpu = medians["ours"]["cpu"] / count * 1e6
    collected = {
        f"of the raw loop at least {OF_RAW}": rates["ours"] / rates["raw"] >= OF_RAW,
        f"CPU at most {CPU_US[kind]} us a record": cpu <= CPU_US[kind],
        f"of confluent-kafka at least {OF_CONFLUENT}": kind != "100B"
        or rates["ours"] / rates["confluent"] >= OF_CONFLUENT,
    }
    assert all(collected.values()), (collected, harness.table())


def test_send_batch(tls_kafka: tuple[KafkaServer, Secured]) -> None:
    kafka, secured = tls_kafka
    verb = "send_batch 100B over TLS 1.3"
    run_client("confluent", "produce", kafka, create_topic(kafka, "tls-warm-up"))
    for turn in range(3):
        for client in ("ours", "confluent"):
            topic = create_topic(kafka, f"tls-{client}-{turn}")
            run = run_client(client, "produce", kafka, topic, secured=secured)
            assert run["rows"] == RECORDS
            record(verb, client, run)
    rows, crc = checksum(data.table(RECORDS).column("value").chunks)
    assert run_client("confluent", "check", kafka, "tls-ours-0") == {"rows": rows, "crc": crc}
    medians = {client: median(runs) for client, runs in results[verb].items()}
    ratio = medians["confluent"]["seconds"] / medians["ours"]["seconds"]
    assert ratio >= SEND_OF_CONFLUENT, (ratio, harness.table())
