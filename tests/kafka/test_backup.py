"""Backups and restores on Apache Kafka: kills, compaction, transactions, and other versions.

`SAMSARROW_BACKUP_KILLS` sets the number of kills, `SAMSARROW_BACKUP_SEED` the seed of their times.
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import samsarrow
from samsarrow import Admin, ConfigResource, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from samsarrow.admin_types import ConfigResourceType, OffsetSpec
from samsarrow.backup import BackupIncompleteError, backup, restore, verify
from samsarrow.exceptions import KafkaError
from support.fixtures import create_topic
from support.kafka import QUICK_COMPILER, KafkaServer
from support.kill_backups import Killer
from support.waiting import until

KILLS = int(os.environ.get("SAMSARROW_BACKUP_KILLS", "4"))
SEED = int(os.environ.get("SAMSARROW_BACKUP_SEED", "1"))
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SMALL = ("-X", "max.poll.records=250", "--file-size", "1B")


def fill(servers: str, topic: str, first: int, last: int, partitions: int, **options: object) -> None:
    numbers = range(first, last)
    table = pa.table(
        {
            "key": pa.array([None if n % 5 == 0 else b"k%d" % (n % 50) for n in numbers], pa.binary()),
            "value": pa.array([None if n % 7 == 0 else b"v" * (n % 11) for n in numbers], pa.binary()),
            "headers": pa.array(
                [[("a", b"%d" % n), ("a", None)] if n % 3 else [] for n in numbers], HEADERS
            ),
            "timestamp": pa.array([-1 if n % 13 == 0 else 10_000_000 + n for n in numbers], pa.int64()),
            "partition": pa.array([n % partitions for n in numbers], pa.int32()),
        }
    )  # fmt: skip
    samsarrow.write(
        topic, table, {"bootstrap.servers": servers, **options}, partition="partition", timestamp="timestamp"
    )


def table(servers: str, topic: str) -> pa.Table:
    """Returns all committed records, in the order of partitions and offsets."""
    found = samsarrow.read(topic, bootstrap_servers=servers, include_headers=True).drop_columns("topic")
    return found.sort_by([("partition", "ascending"), ("offset", "ascending")]).combine_chunks()


def contents(rows: pa.Table) -> list[dict[str, object]]:
    return rows.drop_columns(["offset", "timestamp_type"]).to_pylist()


def landed(servers: str, group: str, topic: str, rows: pa.Table) -> dict[int, int]:
    """Returns the number of records before the offset of a group, by partition."""
    with Admin(bootstrap_servers=servers) as admin:
        offsets = {tp.partition: at for tp, at in admin.fetch_offsets(group).items() if tp.topic == topic and at}
    pairs = list(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))
    return {p: sum(one == p and offset < at.offset for one, offset in pairs) for p, at in offsets.items()}


def commit(servers: str, topic: str, group: str, offsets: dict[int, int]) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        committed = {TopicPartition(topic, p): OffsetAndMetadata(at, f"{group} {p}") for p, at in offsets.items()}
        admin.commit_offsets(group, committed)


def check_equal(servers: str, topic: str, target: str, restored: str, groups: list[str]) -> None:
    before, after = table(servers, topic), table(target, restored)
    assert contents(before) == contents(after)
    for group in groups:
        assert landed(servers, group, topic, before) == landed(target, group, restored, after)


@pytest.mark.timeout(3600 if KILLS > 4 else 180)
def test_kills(kafka: KafkaServer, tmp_path: Path) -> None:
    servers, draw = kafka.bootstrap_servers, random.Random(SEED)
    topic, killer = create_topic(kafka, 3, retention_ms="2000000000000"), Killer(draw)
    fill(servers, topic, 0, 20_000, 3)
    with Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        for number in range(40):
            producer.begin_transaction()
            for row in range(20):
                producer.send(topic, b"%d %d" % (number, row), partition=row % 3)
            producer.flush()
            (producer.abort_transaction if number % 3 == 0 else producer.commit_transaction)()
    groups = [f"{topic}-{number}" for number in range(5)]
    for group in groups:
        commit(servers, topic, group, {p: draw.randrange(7000) for p in range(3)})
    commit(servers, topic, f"{topic}-end", {p: ends(servers, topic)[p] for p in range(3)})
    groups.append(f"{topic}-end")
    named = [word for group in groups for word in ("--group", group)]
    times: tuple[float, float] | None = None
    number = files = total = 0
    while killer.kills < KILLS:
        folder, restored = tmp_path / str(number), f"{topic}-{number}"
        commands = (
            ["backup", topic, "-O", str(folder), "-b", servers, *SMALL, *named],
            ["restore", str(folder), "-b", servers, "--topic-map", f"{topic}={restored}", "-X", "batch.size=5000"],
        )
        if times is None:
            times = killer.duration(*commands[0]), killer.duration(*commands[1])
        else:
            limit = min(5, (KILLS - killer.kills + 1) // 2)
            killer.run(times[0], limit, partial(part_of_files, folder, files), *commands[0])
            limit = min(5, KILLS - killer.kills)
            killer.run(times[1], limit, partial(part_of_records, servers, restored, total), *commands[1])
        manifest = verify(folder)
        files, total = len(manifest.files), manifest.rows
        assert {path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")} == {
            file.path for file in manifest.files
        }
        assert not list(folder.rglob(".part"))
        check_equal(servers, topic, servers, restored, groups)
        with Admin(bootstrap_servers=servers) as admin:
            resource = ConfigResource.topic(restored)
            configs = admin.describe_configs([resource])[resource]
            own = {name: entry.value for name, entry in configs.items() if entry.source.name == "TOPIC"}
            assert own == {"retention.ms": "2000000000000"}
            admin.delete_topics([restored])
        number += 1


def part_of_files(folder: Path, count: int) -> float:
    return len(list(folder.rglob("*.parquet"))) / count


def part_of_records(servers: str, topic: str, count: int) -> float:
    """Returns the part of the records that are in a topic, which may not exist."""
    with Admin(bootstrap_servers=servers) as admin:
        if topic not in admin.list_topics([topic]):
            return 0.0
        found = admin.list_offsets({TopicPartition(topic, number): OffsetSpec.LATEST for number in range(3)})
        try:
            return sum(at.offset for at in found.values() if at is not None) / count
        except KafkaError:
            # The partitions of a new topic have no leaders yet.
            return 0.0


def ends(servers: str, topic: str) -> dict[int, int]:
    plan = samsarrow.ranges.plan(topic, bootstrap_servers=servers)
    return {tp.partition: end for tp, _, end in plan.ranges}


def is_stable(measure: Callable[[], object], seconds: float = 0.5) -> bool:
    """Returns true if two measurements are equal."""
    before = measure()
    time.sleep(seconds)
    return measure() == before


def test_gaps_of_compaction(kafka: KafkaServer, tmp_path: Path) -> None:
    servers = kafka.bootstrap_servers
    topic = create_topic(
        kafka, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01", delete_retention_ms="100"
    )
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(150):
            producer.send(topic, b"%d" % number, key=b"k%d" % (number % 10))
            if number % 50 == 49:
                producer.flush()
                time.sleep(0.3)
        producer.send(topic, None, key=b"k3").result(30)
        time.sleep(0.3)
        producer.send(topic, b"last", key=b"last").result(30)
    until(lambda: samsarrow.read(topic, bootstrap_servers=servers).num_rows <= 12, seconds=90)
    # Ends compaction, which would remove more records between the backup and the comparison.
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_configs({ConfigResource(ConfigResourceType.TOPIC, topic): {"cleanup.policy": "delete"}})
    until(lambda: is_stable(lambda: samsarrow.read(topic, bootstrap_servers=servers)["offset"].to_pylist()))
    for at in range(0, 153, 4):
        commit(servers, topic, f"{topic}-{at}", {0: at})
    groups = [f"{topic}-{at}" for at in range(0, 153, 4)]
    backup([topic], tmp_path / "b", bootstrap_servers=servers, groups=groups)
    restored = f"{topic}-restored"
    # Compaction begins when the restore is complete, and would remove the tombstone.
    done = restore(
        tmp_path / "b", bootstrap_servers=servers, topic_map={topic: restored}, configs={"cleanup.policy": "delete"}
    )
    assert done.topics[0].rows == verify(tmp_path / "b").rows
    check_equal(servers, topic, servers, restored, groups)


def test_topics_that_fail_and_retention(kafka: KafkaServer, tmp_path: Path) -> None:
    """The other topics are backed up. A restore warns of records that retention will delete."""
    servers = kafka.bootstrap_servers
    kept, deleted, recreated = (create_topic(kafka, 2) for _ in range(3))
    for topic in (kept, deleted, recreated):
        fill(servers, topic, 0, 100, 2)
    backup([kept, deleted, recreated], tmp_path / "b", bootstrap_servers=servers)
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_topics([deleted, recreated])
        until(lambda: not {deleted, recreated} & set(admin.list_topics()))
        admin.create_topics([NewTopic(recreated, 2)])
        until(lambda: recreated in admin.list_topics())
    fill(servers, kept, 100, 130, 2)
    with pytest.raises(BackupIncompleteError, match="2 of 3 topics were not backed up") as failed:
        backup([kept, recreated], tmp_path / "b", bootstrap_servers=servers)
    assert set(failed.value.failures) == {deleted, recreated}
    manifest = verify(tmp_path / "b")
    assert {name: topic.rows for name, topic in manifest.topics.items()} == {kept: 130, deleted: 100, recreated: 100}
    restored = {topic: f"{topic}-restored" for topic in manifest.topics}
    # The brokers of tests have no retention.
    for days, warnings in ((None, 0), (7, 1)):
        configs = {} if days is None else {"retention.ms": days * 86_400_000}
        done = restore(tmp_path / "b", bootstrap_servers=servers, topic_map=restored, configs=configs, dry_run=True)
        for topic in done.topics:
            assert len(topic.warnings) == warnings
            # Records without a timestamp have no age.
            old = sum(number % 13 != 0 for number in range(topic.rows))
            assert all(f"will delete {old:,} of {topic.rows:,} records" in text for text in topic.warnings)


@pytest.fixture
def older_kafka() -> Iterator[KafkaServer]:
    with KafkaServer("3.9.1", jvm=QUICK_COMPILER, heap="384m") as server:
        yield server


def test_to_an_older_version_and_back(kafka: KafkaServer, older_kafka: KafkaServer, tmp_path: Path) -> None:
    new, old = kafka.bootstrap_servers, older_kafka.bootstrap_servers
    topic = create_topic(kafka, 4, retention_ms="2000000000000", max_message_bytes="2000000", segment_bytes="2000000")
    fill(new, topic, 0, 5000, 4)
    samsarrow.write(topic, pa.table({"value": [b"x" * 1_500_000], "partition": [2]}), bootstrap_servers=new,
                    partition="partition", max_request_size=2_000_000)  # fmt: skip
    for number in range(3):
        commit(new, topic, f"{topic}-{number}", {0: 7 * number, 1: 1250, 2: 100 * number})
    groups = [f"{topic}-{number}" for number in range(3)]
    backup([topic], tmp_path / "new", bootstrap_servers=new, groups=groups)
    restore(tmp_path / "new", bootstrap_servers=old)
    check_equal(new, topic, old, topic, groups)
    made = backup([topic], tmp_path / "old", bootstrap_servers=old, groups="all").manifest
    assert made.topics[topic].configs == verify(tmp_path / "new").topics[topic].configs
    restore(tmp_path / "old", bootstrap_servers=new, topic_map={topic: f"{topic}-back"})
    check_equal(new, topic, new, f"{topic}-back", groups)
    # No gap was in the topic, so the offsets are the same, too.
    assert table(new, topic).equals(table(new, f"{topic}-back"))


def test_append_times_and_old_timestamps(kafka: KafkaServer, tmp_path: Path) -> None:
    servers = kafka.bootstrap_servers
    topic = create_topic(kafka, message_timestamp_type="LogAppendTime")
    future = create_topic(kafka, message_timestamp_after_max_ms=str(2**60), retention_ms="1000")
    fill(servers, topic, 0, 10, 1)
    samsarrow.write(
        future, pa.table({"value": [b"x"], "at": [4_000_000_000_000]}), bootstrap_servers=servers, timestamp="at"
    )
    names = {topic: f"{topic}-r", future: f"{future}-r"}
    backup([topic, future], tmp_path / "b", bootstrap_servers=servers)
    restore(tmp_path / "b", bootstrap_servers=servers, topic_map=names)
    assert table(servers, topic)["timestamp"].equals(table(servers, names[topic])["timestamp"])
    assert table(servers, names[future])["timestamp"].cast(pa.int64()).to_pylist() == [4_000_000_000_000]
