"""Offset migration between ZooKeeper and Kafka, on the last Kafka version that has both, checked with Kafka's own
tools.
"""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka as ck
import pytest

from samsarrow import Admin, KafkaError, OffsetAndMetadata, Producer, TopicPartition
from samsarrow.exceptions import OffsetMetadataTooLargeError, UnknownTopicOrPartitionError
from samsarrow.offsets import KafkaOffsetStore, ZooKeeperOffsetStore
from samsarrow.results import PartialFailureError
from support.fixtures import create_topic
from support.kafka import KafkaServer, ZooKeeperKafkaServer
from support.peers.java_api import JavaPeer

PARTITIONS = 1000


def command(server: KafkaServer, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "samsarrow.cli", "offsets", *arguments, "-b", server.bootstrap_servers]


def run(server: KafkaServer, *arguments: str, code: int = 0) -> str:
    """Runs `samsarrow offsets`; returns its output, or its error output."""
    done = subprocess.run(command(server, *arguments), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code else done.stdout


def described(server: KafkaServer, group: str) -> list[dict[str, Any]]:
    """Returns the partitions of a group, as `describe` prints them to a pipe."""
    return [json.loads(line) for line in run(server, "describe", group).splitlines()]


@pytest.fixture
def admin(old_kafka: ZooKeeperKafkaServer) -> Iterator[Admin]:
    with Admin(bootstrap_servers=old_kafka.bootstrap_servers) as admin:
        yield admin


@pytest.fixture(scope="module")
def wide(old_kafka: ZooKeeperKafkaServer) -> str:
    """A topic of a thousand partitions."""
    return create_topic(old_kafka, PARTITIONS)


def in_zookeeper(server: ZooKeeperKafkaServer, group: str, topic: str, partitions: list[int]) -> list[int | None]:
    """Reads offsets from ZooKeeper with Kafka's own shell."""
    folder = f"/consumers/{group}/offsets/{topic}"
    lines = server.zookeeper_shell([f"ls {folder}", *(f"get {folder}/{p}" for p in partitions)])
    [names] = [line for line in lines if re.fullmatch(r"\[[\d, ]*\]", line)]
    there = set(json.loads(names))
    # Skips the lines in which the shell reports missing nodes.
    offsets = (int(line) for line in lines if line.isdecimal())
    results = {p: next(offsets) for p in partitions if p in there}
    assert next(offsets, None) is None
    return [results.get(p) for p in partitions]


def test_version_0_is_stored_in_zookeeper(old_kafka: ZooKeeperKafkaServer, admin: Admin) -> None:
    topic = create_topic(old_kafka, 3)
    group, tps = f"zk-{topic}", [TopicPartition(topic, p) for p in range(3)]
    done = admin.commit_offsets(group, {tps[0]: OffsetAndMetadata(4711, "lost", 3), tps[2]: 0}, api_version=0)
    assert done == {tps[0]: None, tps[2]: None}
    assert in_zookeeper(old_kafka, group, topic, [0, 1, 2]) == [4711, None, 0]
    assert admin.fetch_offsets(group, tps, api_version=0) == {
        tps[0]: OffsetAndMetadata(4711), tps[1]: None, tps[2]: OffsetAndMetadata(0)
    }  # fmt: skip
    for version in range(1, 10):
        assert admin.fetch_offsets(group, tps, api_version=version) == dict.fromkeys(tps)
    assert group not in admin.list_groups()
    for version in range(1, 10):
        retention = 60.0 if 2 <= version <= 4 else None
        when = round(time.time() * 1000) if version == 1 else None
        at = OffsetAndMetadata(version, "kept", 0 if version >= 6 else None)
        assert admin.commit_offsets(group, {tps[0]: at}, api_version=version, retention=retention, timestamp=when) == {
            tps[0]: None
        }
        assert admin.fetch_offsets(group) == {tps[0]: at}
    assert in_zookeeper(old_kafka, group, topic, [0]) == [4711]
    nowhere = TopicPartition("nowhere", 0)
    expected = {nowhere: 1, tps[0]: OffsetAndMetadata(1, "x" * 5000), tps[1]: 5}
    with pytest.raises(PartialFailureError) as raised:
        admin.commit_offsets(group, expected, api_version=0)
    done = raised.value.failures
    assert isinstance(done[nowhere], UnknownTopicOrPartitionError)
    assert isinstance(done[tps[0]], OffsetMetadataTooLargeError)
    assert raised.value.succeeded == {tps[1]: None}
    assert ZooKeeperOffsetStore(group, admin=admin).load() == {
        tps[0]: OffsetAndMetadata(4711), tps[1]: OffsetAndMetadata(5), tps[2]: OffsetAndMetadata(0)
    }  # fmt: skip


def killed_half_way(server: KafkaServer, begun: Callable[[], bool], count: Callable[[], int], *arguments: str) -> None:
    """Runs a command with small requests, and kills it after it has written some partitions, but not all.

    `begun` must be quick, since the command continues during the check.
    """
    with subprocess.Popen(command(server, *arguments, "--batch-size", "1"), stdout=subprocess.DEVNULL) as process:
        while not begun():
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    assert 0 < count() < PARTITIONS


def test_migrate_a_thousand_partitions_to_kafka(
    old_kafka: ZooKeeperKafkaServer, old_java: JavaPeer, admin: Admin, wide: str
) -> None:
    group = f"to-kafka-{wide}"
    expected = {TopicPartition(wide, p): OffsetAndMetadata(p * p) for p in range(PARTITIONS)}
    ZooKeeperOffsetStore(group, admin=admin).store(expected)
    assert in_zookeeper(old_kafka, group, wide, list(range(PARTITIONS))) == [p * p for p in range(PARTITIONS)]
    assert "dry run" in run(old_kafka, "migrate", group, "--to", "kafka", "--dry-run")
    assert admin.fetch_offsets(group) == {}
    first = TopicPartition(wide, 0)
    killed_half_way(
        old_kafka,
        lambda: admin.fetch_offsets(group, [first])[first] is not None,
        lambda: len(admin.fetch_offsets(group)),
        *("migrate", group, "--to", "kafka"),
    )
    output = run(old_kafka, "migrate", group, "--to", "kafka")
    match = re.search(r"in Kafka: (\d+) partitions change, (\d+) are already right", output)
    assert match is not None
    assert int(match[1]) + int(match[2]) == PARTITIONS
    assert int(match[2]) > 0
    assert admin.fetch_offsets(group) == expected
    assert old_java.committed(group, wide, range(PARTITIONS)) == [(p * p, "") for p in range(PARTITIONS)]
    assert "0 partitions change, 1000 are already right" in run(old_kafka, "migrate", group, "--to", "kafka")


def test_migrate_a_thousand_partitions_to_zookeeper(old_kafka: ZooKeeperKafkaServer, admin: Admin, wide: str) -> None:
    group = f"to-zookeeper-{wide}"
    zookeeper = ZooKeeperOffsetStore(group, admin=admin)
    tps = [TopicPartition(wide, p) for p in range(PARTITIONS)]
    KafkaOffsetStore(group, admin=admin).store({tp: OffsetAndMetadata(7 + tp.partition, "mine") for tp in tps})
    killed_half_way(
        old_kafka,
        lambda: any(zookeeper.load(tps[:1]).values()),
        lambda: sum(map(bool, zookeeper.load(tps).values())),
        *("migrate", group, "--to", "zookeeper"),
    )
    run(old_kafka, "migrate", group, "--to", "zookeeper")
    assert zookeeper.load(tps) == {tp: OffsetAndMetadata(7 + tp.partition) for tp in tps}
    assert in_zookeeper(old_kafka, group, wide, list(range(PARTITIONS))) == [7 + p for p in range(PARTITIONS)]
    assert admin.fetch_offsets(group)[tps[0]] == OffsetAndMetadata(7, "mine"), "what is brought from stays"
    tool = old_kafka.tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "--bootstrap-server", old_kafka.bootstrap_servers, "--describe", "--group", group, "--offsets",
    )  # fmt: skip
    rows = [line.split() for line in tool.stdout.decode().splitlines() if wide in line]
    assert sorted((int(row[2]), int(row[3])) for row in rows) == [(p, 7 + p) for p in range(PARTITIONS)]


def test_consumers_switch_during_continuous_migration(old_kafka: ZooKeeperKafkaServer, admin: Admin) -> None:
    """A consumer that commits to ZooKeeper stops, and a member of the group in Kafka takes over."""
    topic = create_topic(old_kafka, 2)
    group, tps = f"dual-{topic}", [TopicPartition(topic, p) for p in range(2)]
    with Producer(bootstrap_servers=old_kafka.bootstrap_servers) as producer:
        for i in range(100):
            producer.send(topic, b"%d" % i, partition=i % 2)
    zookeeper = ZooKeeperOffsetStore(group, admin=admin)
    zookeeper.store({tps[0]: 5, tps[1]: 6})
    settings = ["--to", "kafka", "--dual-commit", "10m", "--interval", "100ms"]
    with dual(old_kafka, group, *settings) as both:
        wait_for(lambda: admin.fetch_offsets(group) == {tps[0]: OffsetAndMetadata(5), tps[1]: OffsetAndMetadata(6)})
        zookeeper.store({tps[0]: 20})
        wait_for(lambda: admin.fetch_offsets(group)[tps[0]] == OffsetAndMetadata(20))
        member = ck.Consumer(
            {
                "bootstrap.servers": old_kafka.bootstrap_servers, "group.id": group, "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )  # fmt: skip
        try:
            member.subscribe([topic])
            rows: list[tuple[int, int]] = []
            deadline = time.monotonic() + 60
            while len(rows) < 30 + 44 and time.monotonic() < deadline:
                for message in member.consume(100, 1.0):
                    assert message.error() is None
                    rows.append((message.partition(), message.offset()))
            assert sorted(rows) == [(0, o) for o in range(20, 50)] + [(1, o) for o in range(6, 50)]
            member.commit(asynchronous=False)
            wait_for(lambda: zookeeper.load(tps) == dict.fromkeys(tps, OffsetAndMetadata(50)))
            assert both.poll() is None
        finally:
            member.close()
        both.send_signal(signal.SIGINT)
        out, _ = both.communicate(timeout=60)
    assert both.returncode == 0, out
    assert out.endswith("ended early\nboth are equal\n")
    assert in_zookeeper(old_kafka, group, topic, [0, 1]) == [50, 50]


@contextmanager
def dual(server: ZooKeeperKafkaServer, group: str, *settings: str) -> Iterator[subprocess.Popen[str]]:
    """Runs a continuous migration. If the test fails, kills the command, which would otherwise run for ten minutes."""
    arguments = command(server, "migrate", group, *settings)
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as both:
        try:
            yield both
        except BaseException:
            both.kill()
            raise


def wait_for(is_so: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "did not come to be"
        time.sleep(0.05)


@pytest.fixture
def topic(kafka: KafkaServer, new_topic: Callable[..., str]) -> str:
    """A topic of two partitions with 10 and 20 records on the newest Kafka."""
    name = new_topic(2)
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for partition in range(2):
            for i in range(10 * (partition + 1)):
                producer.send(name, b"%d" % i, partition=partition)
    return name


def test_export_and_import_with_kafka_tool(kafka: KafkaServer, topic: str, tmp_path) -> None:
    group, file = f"moved-{topic}", tmp_path / "offsets"
    file.write_text(f"/consumers/{group}/offsets/{topic}/0:4\n/consumers/{group}/offsets/{topic}/1:20\n")
    run(kafka, "import", str(file))
    main = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    tool = kafka.tool(main, "--bootstrap-server", kafka.bootstrap_servers, "--describe", "--group", group)
    rows = [line.split() for line in tool.stdout.decode().splitlines() if topic in line]
    numbers = sorted([int(x) for x in row[2:] if x.isdecimal()] for row in rows)
    assert [(n[0], n[-3:]) for n in numbers] == [(0, [4, 10, 6]), (1, [20, 20, 0])]
    exported = kafka.tool(
        main, "--bootstrap-server", kafka.bootstrap_servers, "--group", group, "--reset-offsets", "--all-topics",
        "--to-current", "--export",
    )  # fmt: skip
    rows = [line for line in exported.stdout.decode().splitlines() if topic in line]
    theirs = tmp_path / "theirs.csv"
    theirs.write_text("\n".join(rows))
    run(kafka, "import", str(theirs), "--group", f"again-{group}")
    assert [(p["partition"], p["offset"], p["end"], p["lag"]) for p in described(kafka, f"again-{group}")] == [
        (0, 4, 10, 6), (1, 20, 20, 0)
    ]  # fmt: skip


def test_active_group_is_described_but_not_changed(kafka: KafkaServer, topic: str) -> None:
    group = f"active-{topic}"
    member = ck.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "client.id": "theirs",
            "enable.auto.commit": False, "auto.offset.reset": "earliest",
        }
    )  # fmt: skip
    try:
        member.subscribe([topic])
        wait_for(lambda: bool(member.poll(0.2)) or len(member.assignment()) == 2)
        member.commit(offsets=[ck.TopicPartition(topic, 1, 9, "theirs")], asynchronous=False)
        [zero, one] = described(kafka, group)
        assert (zero["state"], zero["member_id"]) == ("Stable", one["member_id"])
        assert (zero["offset"], zero["client_id"], zero["host"]) == (None, "theirs", "/127.0.0.1")
        assert (one["offset"], one["lag"], one["metadata"].rstrip("\0")) == (9, 11, "theirs")
        arguments = ["reset", group, "--topic", topic, "--to-latest"]
        output = run(kafka, *arguments, code=1)
        assert f"group {group} is active (Stable; members: theirs at /127.0.0.1)" in output
        assert "UNKNOWN_MEMBER_ID" in run(kafka, *arguments, "--force", code=1)
        assert "is active" in run(kafka, "delete", group, code=1)
        assert "NON_EMPTY_GROUP" in run(kafka, "delete", group, "--force", "--yes", code=1)
    finally:
        member.close()
    run(kafka, *arguments)
    assert [(p["offset"], p["lag"], p["metadata"]) for p in described(kafka, group)] == [(10, 0, ""), (20, 0, "")]
    run(kafka, "delete", group, "--topic", f"{topic}:0", "--yes")
    assert [p["partition"] for p in described(kafka, group)] == [1]
    run(kafka, "delete", group, "--yes")
    assert group not in run(kafka, "list")


def test_broker_without_zookeeper_is_an_error(kafka: KafkaServer, topic: str) -> None:
    output = run(kafka, "migrate", "g", "--to", "kafka", code=1)
    assert "OffsetFetch v0" in output
    assert "supports v1 to v10" in output
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin, pytest.raises(KafkaError, match="OffsetCommit v0"):
        ZooKeeperOffsetStore("g", admin=admin).store({TopicPartition(topic, 0): 1})
