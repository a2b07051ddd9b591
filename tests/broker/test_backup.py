"""Backups and restores on the embedded broker."""

import errno
import json
import logging
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

import samsarrow
from samsarrow import Admin, ConfigResource, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from samsarrow._backup.files import FileWriter
from samsarrow.backup import (
    BackupError,
    BackupFile,
    BackupResult,
    RestoreIncompleteError,
    RestoreResult,
    backup,
    restore,
    verify,
)
from samsarrow.exceptions import (
    ConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from samsarrow.testing import Broker
from support.commands import Ended, runner

T0 = TopicPartition("t", 0)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
KINDS: list[dict[str, Any]] = [
    {"key": None, "value": None, "headers": [], "timestamp": -1},
    {"key": b"", "value": b"", "headers": [{"key": "", "value": b""}], "timestamp": 0},
    {"key": b"k", "value": b"\xff" * 100, "headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
     "timestamp": 253_402_300_799_999},
]  # fmt: skip
SCHEMA = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS), ("timestamp", pa.int64()),
     ("partition", pa.int32())]
)  # fmt: skip


def fill(servers: str, topic: str, count: int, partitions: int = 1, **options: Any) -> None:
    """Writes records of all kinds to partitions in turn."""
    rows = [{**KINDS[number % 3], "partition": number % partitions} for number in range(count)]
    with Producer(bootstrap_servers=servers, **options) as producer:
        producer.send_batch(
            topic, pa.RecordBatch.from_pylist(rows, SCHEMA), partition="partition", timestamp="timestamp"
        ).result()


def rows(servers: str, topic: str, *, offsets: bool = True) -> list[dict[str, Any]]:
    """Returns all committed records, without the name of the topic."""
    table = samsarrow.read(topic, bootstrap_servers=servers, include_headers=True).drop_columns("topic")
    table = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    return (table if offsets else table.drop_columns("offset")).to_pylist()


@pytest.fixture
def target() -> Iterator[str]:
    with Broker(auto_create_topics=False) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def make(servers: str, tmp_path: Path) -> Callable[..., BackupResult]:
    def run(*topics: str, **arguments: Any) -> BackupResult:
        return backup(topics or ["t"], tmp_path / "b", bootstrap_servers=servers, **arguments)

    return run


@pytest.fixture
def load(target: str, tmp_path: Path) -> Callable[..., RestoreResult]:
    def run(**arguments: Any) -> RestoreResult:
        return restore(tmp_path / "b", bootstrap_servers=target, **arguments)

    return run


Make, Load = Callable[..., BackupResult], Callable[..., RestoreResult]


def test_records_settings_and_group_offsets(servers: str, target: str, make: Make, load: Load, tmp_path: Path) -> None:
    fill(servers, "four", 1000, 3)
    tps = [TopicPartition("four", number) for number in range(4)]
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_configs({ConfigResource.topic("four"): {"cleanup.policy": "compact", "max.message.bytes": 50_000}})
        admin.commit_offsets("g", {tps[0]: OffsetAndMetadata(17, "note", 0), tps[1]: 333, tps[3]: 0, T0: 0})
        admin.commit_offsets("other", {T0: 0})
    done = make("four", groups="all", file_size=1)
    assert (done.rows, done.resumed, done.losses) == (1000, False, ())
    assert {name: len(offsets) for name, offsets in done.manifest.groups.items()} == {"g": 3}
    assert verify(tmp_path / "b") == done.manifest
    loaded = load()
    assert [(one.name, one.rows, one.written, one.state) for one in loaded.topics] == [("four", 1000, 1000, "new")]
    assert rows(target, "four") == rows(servers, "four")
    with Admin(bootstrap_servers=target) as admin:
        assert admin.fetch_offsets("g") == {tps[0]: OffsetAndMetadata(17, "note"), tps[1]: OffsetAndMetadata(333),
                                            tps[3]: OffsetAndMetadata(0)}  # fmt: skip
        configs = admin.describe_configs([ConfigResource.topic("four")])[ConfigResource.topic("four")]
        own = {name: entry.value for name, entry in configs.items() if entry.source.name == "TOPIC"}
        assert own == {"cleanup.policy": "compact", "max.message.bytes": "50000"}
    again = load()
    assert [(one.written, one.state) for one in again.topics] == [(0, "present")]
    assert again.offsets == {}


def test_files_are_those_of_consume(servers: str, make: Make, tmp_path: Path) -> None:
    import pyarrow.parquet

    fill(servers, "t", 10)
    [file] = make().manifest.files
    table = pyarrow.parquet.read_table(tmp_path / "b" / file.path, partitioning=None)
    assert table.column_names == [
        "topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers"
    ]  # fmt: skip
    assert table["topic"].to_pylist() == ["t"] * 10
    assert file.path == "t/0/00000000000000000000.parquet"


def test_the_next_run_adds_what_is_new(servers: str, target: str, make: Make, load: Load) -> None:
    fill(servers, "t", 10)
    with Admin(bootstrap_servers=servers) as admin:
        admin.commit_offsets("g", {T0: 10})
    first = make(groups=["g"])
    assert make().rows == 0
    fill(servers, "t", 5)
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_partitions({"t": 2})
        admin.commit_offsets("g", {T0: 12, TopicPartition("t", 1): 3})
    fill(servers, "t", 10, 2)
    second = make("t", "four")
    assert second.rows == 15
    assert second.manifest.files[0] == first.manifest.files[0]
    assert second.manifest.groups["g"][T0].offset == 12
    load()
    assert rows(target, "t") == rows(servers, "t")
    with Admin(bootstrap_servers=target) as admin:
        assert {tp.partition: at and at.offset for tp, at in admin.fetch_offsets("g").items()} == {0: 12, 1: 3}
    with pytest.raises(BackupError, match=r"has a backup of other topics, too \(four\)"):
        make("t")


@pytest.mark.parametrize(("names", "message"), [
    (("T", "t"), "differ only in case"), (("manifest.json",), "topic manifest.json cannot be backed up"),
])  # fmt: skip
def test_names_that_are_not_folders(servers: str, make: Make, names: tuple[str, ...], message: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([name for name in names if name != "t"])
    with pytest.raises(BackupError, match=message):
        make(*names)


def test_transactions_leave_gaps_in_which_groups_stand(servers: str, target: str, make: Make, load: Load) -> None:
    with Producer(bootstrap_servers=servers, transactional_id="x") as producer:
        for number in range(6):
            producer.begin_transaction()
            producer.send("t", b"%d" % number, partition=0)
            producer.flush()
            (producer.abort_transaction if number % 2 else producer.commit_transaction)()
    # Offsets 0, 4 and 8 have committed records, and 12 is the end.
    with Admin(bootstrap_servers=servers) as admin:
        for at in range(13):
            admin.commit_offsets(f"g{at}", {T0: at})
    make(groups="all")
    load()
    assert [row["value"] for row in rows(target, "t")] == [b"0", b"2", b"4"]
    expected = {
        0: 0,
        **dict.fromkeys(range(1, 5), 1),
        **dict.fromkeys(range(5, 9), 2),
        **dict.fromkeys(range(9, 13), 3),
    }
    with Admin(bootstrap_servers=target) as admin:
        found = admin.fetch_offsets_many([f"g{at}" for at in range(13)])
        assert {at: found[f"g{at}"][T0].offset for at in range(13)} == expected  # type: ignore[union-attr]


def test_an_open_transaction_belongs_to_the_next_run(servers: str, make: Make) -> None:
    fill(servers, "t", 3)
    with Producer(bootstrap_servers=servers, transactional_id="x") as producer:
        producer.begin_transaction()
        producer.send("t", b"open", partition=0).result()
        fill(servers, "t", 3)
        assert make().rows == 3
        producer.commit_transaction()
    assert make().rows == 4


def test_append_times_are_kept(servers: str, target: str, make: Make, load: Load) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("times", 1, configs={"message.timestamp.type": "LogAppendTime"})])
    fill(servers, "times", 6)
    make("times")
    load()
    before, after = rows(servers, "times"), rows(target, "times")
    assert [row["timestamp"] for row in after] == [row["timestamp"] for row in before]
    assert {row["timestamp_type"] for row in before} == {1}
    fill(target, "times", 1)
    assert [row["timestamp_type"] for row in rows(target, "times")] == [0] * 6 + [1]


def own_settings(servers: str, topic: str) -> dict[str, str | None]:
    resource = ConfigResource.topic(topic)
    with Admin(bootstrap_servers=servers) as admin:
        entries = admin.describe_configs([resource])[resource]
        return {name: entry.value for name, entry in entries.items() if entry.source.name == "TOPIC"}


def test_other_names_and_settings(servers: str, make: Make, tmp_path: Path) -> None:
    fill(servers, "t", 3)
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_configs({ConfigResource.topic("t"): {"segment.ms": 7000, "flush.ms": 9}})
    make("t", "four")
    done = restore(
        tmp_path / "b",
        bootstrap_servers=servers,
        topics=["t"],
        topic_map={"t": "copy"},
        configs={"retention.ms": "1000000", "segment.ms": 5000, "flush.ms": None},
    )
    assert [(one.source, one.name) for one in done.topics] == [("t", "copy")]
    assert rows(servers, "copy") == rows(servers, "t")
    assert own_settings(servers, "copy") == {"retention.ms": "1000000", "segment.ms": "5000"}
    with pytest.raises(ConfigurationError, match="same name"):
        restore(tmp_path / "b", bootstrap_servers=servers, topic_map={"t": "four"})


def test_empty_topics_are_adopted_and_others_are_not(
    servers: str, broker: Broker, target: str, make: Make, load: Load, tmp_path: Path
) -> None:
    fill(servers, "t", 3)
    make("t")
    with Admin(bootstrap_servers=target) as admin:
        admin.create_topics([NewTopic("t", 2)])
        with pytest.raises(BackupError, match="topic t exists with 2 partitions, and the backup of t has 1"):
            load()
        admin.delete_topics(["t"])
        admin.create_topics([NewTopic("t", 1, configs={"segment.ms": "77"})])
        assert [one.state for one in load().topics] == ["empty"]
        assert own_settings(target, "t") == {}
        fill(target, "t", 1)
        with pytest.raises(BackupError, match=r"topic t exists with other records than the backup: t-0 has offsets 0 "
                                              r"to 3; restore to another name .*, or delete the topic"):  # fmt: skip
            load()
    before = rows(servers, "t")
    assert [one.state for one in restore(tmp_path / "b", bootstrap_servers=servers).topics] == ["present"]
    assert rows(servers, "t") == before


def test_dry_runs_write_nothing(target: str, servers: str, make: Make, load: Load) -> None:
    fill(servers, "t", 3)
    make()
    assert [(one.written, one.state) for one in load(dry_run=True).topics] == [(0, "new")]
    with Admin(bootstrap_servers=target) as admin:
        assert "t" not in admin.list_topics()


def test_groups_with_members_are_not_moved(servers: str, target: str, make: Make, load: Load) -> None:
    fill(servers, "t", 3)
    with Admin(bootstrap_servers=servers) as admin:
        admin.commit_offsets("g", {T0: 1})
    make(groups=["g"])
    with Admin(bootstrap_servers=target) as admin:
        admin.create_topics(["other"])
    with Consumer(bootstrap_servers=target, group_id="g") as consumer:
        consumer.subscribe(["other"])
        consumer.poll(5)
        with pytest.raises(BackupError, match=r"group g is active \(Stable\): stop its consumers"):
            load()
        with Admin(bootstrap_servers=target) as admin:
            assert "t" not in admin.list_topics()
        assert load(groups=[]).offsets == {}


def test_groups_without_offsets_are_an_error(make: Make) -> None:
    with pytest.raises(BackupError, match="group nobody has committed no offsets of t"):
        make(groups=["nobody"])


def test_group_offsets_of_partitions_that_do_not_exist_are_left_out(
    servers: str, make: Make, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apache Kafka keeps offsets of partitions that a topic does not have."""
    fill(servers, "t", 3)
    with Admin(bootstrap_servers=servers) as admin:
        admin.commit_offsets("g", {T0: 2})
    fetch = Admin.fetch_offsets_many

    def with_others(self: Admin, *arguments: Any, **named: Any) -> Any:
        found = fetch(self, *arguments, **named)
        return {group: {**offsets, TopicPartition("t", 77): OffsetAndMetadata(5)} for group, offsets in found.items()}

    monkeypatch.setattr(Admin, "fetch_offsets_many", with_others)
    assert make(groups="all").manifest.groups["g"].keys() == {T0}
    monkeypatch.undo()
    assert load().offsets == {"g": {T0: OffsetAndMetadata(2)}}


@pytest.mark.parametrize("change", ["missing", "truncated"])
def test_the_next_run_notices_damaged_files(change: str, servers: str, make: Make, tmp_path: Path) -> None:
    fill(servers, "t", 10)
    [file] = make().manifest.files
    path = tmp_path / "b" / file.path
    data = path.read_bytes()
    if change == "missing":
        path.unlink()
    else:
        path.write_bytes(data[:-1])
    fill(servers, "t", 5)
    with pytest.raises(BackupError, match=rf"{file.path} \(offsets 0 to 9 of t-0\) (is missing|has .* in place of)"):
        make()
    path.write_bytes(data)
    assert make().manifest.rows == 15


def test_an_unfinished_run_without_groups(servers: str, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(servers, "t", 10)
    with Admin(bootstrap_servers=servers) as admin:
        admin.commit_offsets("g", {T0: 2})
    monkeypatch.setattr(FileWriter, "complete", Mock(side_effect=StopError))
    with pytest.raises(StopError):
        make()
    monkeypatch.undo()
    with pytest.raises(BackupError, match="that was not completed has no groups: name none to complete it, or use"):
        make(groups=["g"])
    assert make().resumed


@pytest.mark.parametrize("at", ["write", "fsync"])
def test_full_disks(at: str, servers: str, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the folder, no incomplete file stays, and the next run completes the backup."""
    fill(servers, "t", 100)
    size = 1000 if at == "write" else 1 << 30
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if at == "write":
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    else:
        full = OSError(errno.ENOSPC, "No space left on device")
        monkeypatch.setattr("samsarrow._backup.files.os.fsync", Mock(side_effect=[None, full]))
    try:
        with pytest.raises(OSError, match=r"(too large|No space .*); run the backup again to continue it: '.*b'"):
            make()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        monkeypatch.undo()
    assert not list((tmp_path / "b").rglob(".part"))
    done = make()
    assert (done.rows, done.resumed) == (100, True)
    assert verify(tmp_path / "b") == done.manifest


def test_records_that_are_larger_than_the_default_buffer(
    servers: str, target: str, make: Make, load: Load, tmp_path: Path
) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("large", 1, 1, {"max.message.bytes": "50000000"})])
    with Producer(bootstrap_servers=servers, max_request_size=50_000_000, buffer_memory=100_000_000) as producer:
        producer.send("large", bytes(40_000_000))
        producer.send("large", b"small")
    make("large")
    assert [one.written for one in load().topics] == [2]
    assert samsarrow.read("large", bootstrap_servers=target)["value"][0].as_py() == bytes(40_000_000)


def test_topics_with_the_same_records_and_other_settings(servers: str, target: str, make: Make, load: Load) -> None:
    fill(servers, "t", 3)
    make()
    load()
    with Admin(bootstrap_servers=target) as admin:
        admin.alter_configs({ConfigResource.topic("t"): {"retention.ms": "5000000"}})
    with pytest.raises(
        BackupError, match=r"has the records of the backup already.*\(retention.ms\): set these with `samsarrow configs"
    ):
        load()
    fill(target, "t", 1)
    with pytest.raises(BackupError, match="exists with other records"):
        load()


class StopError(Exception):
    """Stops a run, as a kill would."""


def stop_after(monkeypatch: pytest.MonkeyPatch, target: str, calls: int) -> None:
    """Makes a method raise an error after some calls."""
    owner, _, name = target.rpartition(":")
    module, _, cls = owner.rpartition(".")
    kind = getattr(__import__(module, fromlist=[cls]), cls)
    original, count = getattr(kind, name), 0

    def limited(self: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        if count > calls:
            raise StopError
        return original(self, *arguments, **named)

    monkeypatch.setattr(kind, name, limited)


SMALL = {"file_size": 1, "max_poll_records": 10}


@pytest.mark.parametrize("method", ["files.FileWriter:complete", "folder.Folder:add_file", "folder.Folder:finish"])
@pytest.mark.parametrize("calls", [0, 2, 7])
def test_backups_continue(
    servers: str, target: str, make: Make, load: Load, monkeypatch: pytest.MonkeyPatch, method: str, calls: int
) -> None:
    fill(servers, "four", 200, 2)
    with Admin(bootstrap_servers=servers) as admin:
        admin.commit_offsets("g", {TopicPartition("four", 1): 42})
    if "finish" not in method or not calls:
        with monkeypatch.context() as patch:
            stop_after(patch, f"samsarrow._backup.{method}", calls)
            with pytest.raises(StopError):
                make("four", groups=["g"], **SMALL)
        fill(servers, "four", 30, 2)
        with pytest.raises(BackupError, match="has the topics four"):
            make("t", **SMALL)
        with pytest.raises(BackupError, match="has the groups g"):
            make("four", groups=["h"], **SMALL)
        with pytest.raises(BackupError, match="is not complete"):
            load()
        # Other topics belong to the next run.
        done = make("four", "t", **SMALL)
        assert done.resumed
        assert done.manifest.rows == 200
        assert list(done.manifest.topics) == ["four"]
    assert make("four", groups=["g"], **SMALL).manifest.rows in (200, 230)
    load()
    assert rows(target, "four") == rows(servers, "four")


@pytest.mark.parametrize(
    ("method", "calls"),
    [
        ("samsarrow._backup.settings.TopicSettings:begin", 0),
        ("samsarrow._backup.settings.TopicSettings:finish", 0),
        ("samsarrow._backup.groups.GroupOffsets:commit", 0),
        ("samsarrow._backup.comparing.Comparison:finish", 1),
        ("samsarrow.producer.Producer:send_batch", 0),
        ("samsarrow.producer.Producer:send_batch", 3),
        ("samsarrow.producer.Producer:send_batch", 15),
    ],
)
def test_restores_continue(
    servers: str, target: str, make: Make, load: Load, monkeypatch: pytest.MonkeyPatch, method: str, calls: int
) -> None:
    fill(servers, "four", 200, 2)
    with Admin(bootstrap_servers=servers) as admin:
        admin.commit_offsets("g", {TopicPartition("four", 1): 42})
    make("four", groups=["g"], **SMALL)
    with monkeypatch.context() as patch:
        stop_after(patch, method, calls)
        with pytest.raises(
            RestoreIncompleteError, match=r"the restore is not complete: this run has written \d+ to four"
        ):
            load()
    [done] = (result := load()).topics
    assert done.state == "unfinished"
    assert result.offsets["g"] == {TopicPartition("four", 1): OffsetAndMetadata(42)}
    assert rows(target, "four") == rows(servers, "four")
    assert own_settings(target, "four") == {}


def test_restores_continue_after_errors_of_brokers(servers: str, make: Make, tmp_path: Path) -> None:
    fill(servers, "four", 200, 2)
    make("four", **SMALL)
    with Broker() as broker:
        broker.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED", times=None)
        with pytest.raises(RestoreIncompleteError) as failed:
            restore(tmp_path / "b", bootstrap_servers=broker.bootstrap_servers)
        assert failed.value.written == {"four": 0}
        assert failed.value.retriable
        assert isinstance(failed.value.__cause__, KafkaError)
        broker.heal()
        restore(tmp_path / "b", bootstrap_servers=broker.bootstrap_servers)
        assert rows(broker.bootstrap_servers, "four") == rows(servers, "four")


def test_another_client_writes_meanwhile(
    servers: str, target: str, make: Make, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(servers, "four", 200, 2)
    make("four", **SMALL)
    send_batch, count = Producer.send_batch, 0

    def disturbed(self: Producer, *arguments: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        if count == 4:
            send_batch(self, "four", pa.table({"value": [b"x"], "to": [0]}), partition="to")
        return send_batch(self, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Producer, "send_batch", disturbed)
        with pytest.raises(
            RestoreIncompleteError, match=r"four-0: a record was written to offset \d+ in place of \d+.* delete it"
        ) as failed:
            load()
        assert not failed.value.retriable
        assert "continue" not in str(failed.value)
    with pytest.raises(
        RestoreIncompleteError, match=r"four-0: the records at offsets \d+ to \d+ are not those at offsets"
    ):
        load()


def test_pending_records_do_not_replace_the_cause(
    servers: str, make: Make, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`close(0)` raises an error if records are pending."""
    fill(servers, "four", 10)
    make("four")
    close = Producer.close

    def late(self: Producer, timeout: float | None = None, **named: Any) -> None:
        close(self, timeout, **named)
        if timeout == 0:
            raise KafkaTimeoutError("delivery of all records before close took longer than 0 s")

    def stopped(*_: Any, **__: Any) -> None:
        raise BackupError("the cause")

    with monkeypatch.context() as patch:
        patch.setattr(Producer, "close", late)
        patch.setattr(Producer, "send_batch", stopped)
        with pytest.raises(RestoreIncompleteError, match=r"^the cause; the restore is not complete"):
            load()
    assert [one.state for one in load().topics] == ["unfinished"]


def test_topics_that_are_deleted_or_created_again(servers: str, broker: Broker, make: Make) -> None:
    with pytest.raises(UnknownTopicOrPartitionError):
        make("missing")
    fill(servers, "t", 100)
    make(**SMALL)
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_topics(["t"])
        with pytest.raises(UnknownTopicOrPartitionError):
            make(**SMALL)
        admin.create_topics(["t"])
    fill(servers, "t", 200)
    text = r"topic t was deleted and recreated since its last backup to .*: back up the new topic to another folder"
    with pytest.raises(OffsetOutOfRangeError, match=text):
        make(**SMALL)


@pytest.mark.parametrize("again", [False, True])
def test_topics_that_are_deleted_while_they_are_read(
    servers: str, make: Make, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    fill(servers, "four", 400, 4)
    complete = FileWriter.complete

    def deleting(self: FileWriter) -> BackupFile:
        with Admin(bootstrap_servers=servers) as admin:
            if admin.list_topics(["four"]):
                admin.delete_topics(["four"])
                if again:
                    admin.create_topics([NewTopic("four", 4)])
        return complete(self)

    monkeypatch.setattr(FileWriter, "complete", deleting)
    with pytest.raises(
        (OffsetOutOfRangeError, UnknownTopicOrPartitionError, KafkaTimeoutError), match="four"
    ) as failed:
        make("four", timeout=10, **SMALL)
    assert failed.value.__notes__[0].startswith("four-1 was read up to offset ")


def test_topics_that_are_created_again_during_a_backup(
    servers: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(servers, "t", 100)
    with monkeypatch.context() as patch:
        stop_after(patch, "samsarrow._backup.files.FileWriter:complete", 2)
        with pytest.raises(StopError):
            make(**SMALL)
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_topics(["t"])
        admin.create_topics(["t"])
    fill(servers, "t", 100)
    with pytest.raises(OffsetOutOfRangeError, match="topic t was deleted and recreated"):
        make(**SMALL)


def test_retention_overtakes_a_backup(
    servers: str, target: str, make: Make, load: Load, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fill(servers, "t", 100)
    with monkeypatch.context() as patch:
        stop_after(patch, "samsarrow._backup.files.FileWriter:complete", 2)
        with pytest.raises(StopError):
            make(**SMALL)
    with Admin(bootstrap_servers=servers) as admin:
        admin.commit_offsets("g", {T0: 35})
        admin.delete_records({T0: 50})
    with pytest.raises(OffsetOutOfRangeError, match=r"t-0: offsets 20 to 49 \(30\) cannot be read") as failed:
        make(**SMALL)
    assert "--skip-lost" in failed.value.__notes__[-1]
    caplog.set_level(logging.ERROR)
    done = make(on_data_loss="skip", **SMALL)
    assert [(loss.start, loss.end) for loss in done.losses] == [(20, 50)]
    assert done.manifest.topics["t"].partitions[0].lost == ((20, 50),)
    make(groups=["g"])
    load()
    assert len(rows(target, "t")) == 70
    with Admin(bootstrap_servers=target) as admin:
        assert admin.fetch_offsets("g")[T0] == OffsetAndMetadata(20)


def test_backups_of_other_clusters(target: str, make: Make, tmp_path: Path) -> None:
    make("t")
    with Admin(bootstrap_servers=target) as admin:
        admin.create_topics(["t"])
    with pytest.raises(BackupError, match="is of cluster"):
        backup(["t"], tmp_path / "b", bootstrap_servers=target)


def test_passwords_are_not_stored(tmp_path: Path) -> None:
    with Broker(topics=["t"], users={"ann": "secret-word"}, security="SASL_PLAINTEXT") as broker:
        options = broker.client_options("ann", "PLAIN")
        fill(options.pop("bootstrap.servers"), "t", 10, **{name.replace(".", "_"): at for name, at in options.items()})
        backup(["t"], tmp_path / "b", broker.client_options("ann", "PLAIN"))
    for path in (tmp_path / "b").rglob("*"):
        assert path.is_dir() or b"secret-word" not in path.read_bytes()


@pytest.fixture
def command(
    servers: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Ended]:
    return runner(servers, monkeypatch, capsys, tmp_path)


def test_commands(command: Callable[..., Ended], servers: str, target: str, tmp_path: Path) -> None:
    fill(servers, "t", 10)
    with Admin(bootstrap_servers=servers) as admin:
        admin.commit_offsets("g", {T0: 4})
    folder = tmp_path / "c"
    done = command("backup", "t", "f*", "-O", folder, "--all-groups", "--file-size", "1MB", "-z", "gzip", "-o", "json")
    four, t = json.loads(done.out)
    assert t.pop("bytes") > 0
    assert t == {"topic": "t", "partitions": 1, "records": 10, "added": 10, "files": 1, "state": "complete"}
    assert (four["topic"], four["records"], four["files"]) == ("four", 0, 0)
    lines = done.err.splitlines()
    assert lines[0] == "group g: 1 offsets"
    assert lines[1].startswith("10 records, ")
    dry = command("restore", folder, "-b", target, "--dry-run", "--topic", "t", "--config", "retention.ms=-1")
    assert json.loads(dry.out) == {"topic": "t", "source": "t", "records": 10, "written": 0, "state": "new"}
    assert dry.err == "the files are complete, and 10 records would be restored\n"
    done = command("restore", folder, "-b", target, "--topic-map", "t=u", "--config", "retention.ms=-1", "-o", "csv")
    assert done.out == "topic,source,records,written,state\nfour,four,0,0,new\nu,t,10,10,new\n"
    assert done.err.splitlines()[0] == "group g: 1 offsets"
    assert own_settings(target, "u") == {"retention.ms": "-1"}
    done = command("restore", folder, "-b", target, "--topic", "t", "--no-groups")
    assert json.loads(done.out)["written"] == 10
    fill(target, "t", 1)
    assert "exists with other records" in command("restore", folder, "-b", target, "--topic", "t", code=1).err
    assert "contradict" in command("backup", "t", "-O", folder, "-g", "g", "--all-groups", code=2).err
    assert "'x' is not OLD=NEW" in command("restore", folder, "--topic-map", "x", code=2).err
    assert "has no x" in command("restore", folder, "--topic", "x", code=2).err
    [file] = (folder / "t" / "0").glob("*.parquet")
    file.unlink()
    assert "is missing" in command("restore", folder, "-b", target, "--topic-map", "t=v", code=1).err


def test_incomplete_restores_have_an_exit_code(
    command: Callable[..., Ended], broker: Broker, servers: str, tmp_path: Path
) -> None:
    fill(servers, "t", 10)
    command("backup", "t", "-O", tmp_path / "c")
    broker.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED", times=None)
    ended = command("restore", tmp_path / "c", "--topic-map", "t=u", code=3)
    assert "the restore is not complete: this run has written 0 to u. Run it again to continue" in ended.err
    broker.heal()
    done = command("restore", tmp_path / "c", "--topic-map", "t=u")
    assert json.loads(done.out) == {"topic": "u", "source": "t", "records": 10, "written": 10, "state": "unfinished"}


def test_manifests_have_what_the_guide_says(servers: str, make: Make, tmp_path: Path) -> None:
    fill(servers, "t", 10)
    make()
    tree = json.loads((tmp_path / "b" / "manifest.json").read_text())
    assert set(tree) == {"format", "digest", "cluster_id", "made", "topics", "groups"}
    [partition] = tree["topics"]["t"]["partitions"]
    assert (partition["start"], partition["end"], partition["rows"]) == (0, 10, 10)
    assert set(partition["files"][0]) == {"path", "first", "last", "rows", "size", "sha256", "records"}
