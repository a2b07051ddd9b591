"""Backups of several topics, some of which fail, and restores of records that retention will delete."""

import json
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import samsarrow
from samsarrow import Admin, ConfigResource, NewTopic, TopicPartition
from samsarrow._backup.folder import Folder
from samsarrow._backup.settings import TopicSettings
from samsarrow.backup import BackupError, BackupFile, BackupIncompleteError, BackupResult, backup, restore, verify
from samsarrow.exceptions import OffsetOutOfRangeError, UnknownTopicOrPartitionError
from samsarrow.testing import Broker
from support.commands import Ended, runner

Make = Callable[..., BackupResult]
# Files with ten records.
SMALL = {"file_size": 1, "max_poll_records": 10}


@pytest.fixture
def servers() -> Iterator[str]:
    with Broker(topics={"orders-a": 1, "orders-b": 1, "orders-c": 1}, auto_create_topics=False) as broker:
        for topic in ("orders-a", "orders-b", "orders-c"):
            fill(broker.bootstrap_servers, topic, 20)
        yield broker.bootstrap_servers


@pytest.fixture
def target() -> Iterator[str]:
    with Broker(auto_create_topics=False) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def make(servers: str, tmp_path: Path) -> Make:
    def run(*topics: str, **arguments: Any) -> BackupResult:
        return backup([f"orders-{one}" for one in topics], tmp_path / "b", bootstrap_servers=servers, **arguments)

    return run


@pytest.fixture
def command(
    servers: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Ended]:
    return runner(servers, monkeypatch, capsys, tmp_path)


def fill(servers: str, topic: str, count: int, **columns: Any) -> None:
    table = pa.table({"value": [b"%d" % number for number in range(count)], **columns})
    samsarrow.write(topic, table, bootstrap_servers=servers, **{name: name for name in columns})  # type: ignore[arg-type]


def delete(servers: str, *topics: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_topics(topics)


def records(made: BackupResult) -> dict[str, int]:
    return {name.removeprefix("orders-"): topic.rows for name, topic in made.manifest.topics.items()}


def test_deleted_topics_keep_their_files_and_group_offsets(
    servers: str, target: str, make: Make, tmp_path: Path
) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.commit_offsets("g", {TopicPartition("orders-a", 0): 3, TopicPartition("orders-b", 0): 5})
    make("a", "b", "c", groups=["g"])
    delete(servers, "orders-b")
    fill(servers, "orders-a", 5)
    for named in (("a", "c"), ("a", "b", "c")):
        with pytest.raises(
            BackupIncompleteError, match=r"^1 of 3 topics were not backed up: orders-b: .*--if-exists"
        ) as f:
            make(*named)
        assert list(f.value.failures) == ["orders-b"]
        assert isinstance(f.value.failures["orders-b"], UnknownTopicOrPartitionError)
        assert f.value.result is not None
        assert records(f.value.result) == {"a": 25, "b": 20, "c": 20}
    fill(servers, "orders-c", 7)
    done = make("a", "c", if_exists=True)
    assert (records(done), done.missing, done.added) == ({"a": 25, "b": 20, "c": 27}, ("orders-b",), {"orders-c": 7})
    assert {tp.topic: at.offset for tp, at in done.manifest.groups["g"].items()} == {"orders-a": 3, "orders-b": 5}
    assert verify(tmp_path / "b") == done.manifest
    loaded = restore(tmp_path / "b", bootstrap_servers=target)
    assert [(one.name, one.rows) for one in loaded.topics] == [("orders-a", 25), ("orders-b", 20), ("orders-c", 27)]
    assert [one.backup_error is None for one in loaded.topics] == [True, False, True]
    with Admin(bootstrap_servers=target) as admin:
        found = admin.fetch_offsets("g")
        assert {tp.topic: at and at.offset for tp, at in found.items()} == {"orders-a": 3, "orders-b": 5}


def test_topics_that_are_created_again_do_not_stop_the_others(servers: str, make: Make) -> None:
    make("a", "b")
    delete(servers, "orders-b")
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("orders-b", 1)])
    fill(servers, "orders-b", 3)
    fill(servers, "orders-a", 3)
    with pytest.raises(BackupIncompleteError, match="orders-b was deleted and recreated") as failed:
        make("a", "b", if_exists=True)
    assert isinstance(failed.value.failures["orders-b"], OffsetOutOfRangeError)
    assert "back up the new topic to another folder" in str(failed.value)
    assert failed.value.result is not None
    assert records(failed.value.result) == {"a": 23, "b": 20}


def test_if_all_topics_fail_the_first_error_is_raised(servers: str, make: Make) -> None:
    made = make("a", "b")
    delete(servers, "orders-a", "orders-b")
    with pytest.raises(UnknownTopicOrPartitionError, match="orders-a does not exist"):
        make("a", "b")
    assert records(make("a", "b", if_exists=True)) == records(made)


def test_a_topic_that_never_existed(make: Make) -> None:
    with pytest.raises(BackupIncompleteError, match="orders-x does not exist") as failed:
        make("a", "x")
    assert failed.value.result is not None
    assert records(failed.value.result) == {"a": 20}
    assert records(make("a", "x", if_exists=True)) == {"a": 20}


def test_retention_overtakes_one_topic_while_it_is_read(
    servers: str, target: str, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_file = Folder.add_file

    def stopping(self: Folder, topic: str, partition: int, file: BackupFile) -> None:
        if file.first >= 100:
            raise ZeroDivisionError
        add_file(self, topic, partition, file)

    fill(servers, "orders-a", 200)
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "add_file", stopping)
        with pytest.raises(ZeroDivisionError):
            make("a", "c", **SMALL)
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_records({TopicPartition("orders-a", 0): 150})
    with pytest.raises(BackupIncompleteError, match="orders-a-0: offsets 100 to 149") as failed:
        make("a", "c", **SMALL)
    made = failed.value.result
    assert made is not None
    topic = made.manifest.topics["orders-a"]
    assert topic.error is not None
    assert (topic.rows, topic.partitions[0].end) == (100, 100)
    assert records(made)["c"] == 20
    # The folder is complete, and the next run continues after what was read.
    done = make("a", "c", on_data_loss="skip", **SMALL)
    assert not done.resumed
    assert records(done)["a"] == 170
    assert done.manifest.topics["orders-a"].error is None
    restore(tmp_path / "b", bootstrap_servers=target)


def test_an_unfinished_run_keeps_its_failures(servers: str, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    make("a", "b")
    delete(servers, "orders-b")
    fill(servers, "orders-a", 5)
    with monkeypatch.context() as patch:
        patch.setattr("samsarrow._backup.folder.Folder.finish", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            make("a")
    fill(servers, "orders-c", 5)
    with pytest.raises(BackupIncompleteError, match="orders-b does not exist") as failed:
        make("a", "c")
    assert failed.value.result is not None
    assert failed.value.result.resumed
    assert records(failed.value.result) == {"a": 25, "b": 20}
    assert records(make("a", "c", if_exists=True)) == {"a": 25, "b": 20, "c": 25}


def test_topics_that_are_deleted_during_a_run_that_is_killed(
    servers: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("samsarrow._backup.folder.Folder.add_file", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            make("a", "b", "c")
    delete(servers, "orders-b")
    with pytest.raises(BackupIncompleteError, match="orders-b") as failed:
        make("a", "c")
    assert failed.value.result is not None
    assert records(failed.value.result) == {"a": 20, "b": 0, "c": 20}


def test_exit_codes_of_the_command(command: Callable[..., Ended], servers: str, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    command("backup", "orders-*", "-O", folder)
    delete(servers, "orders-b")
    fill(servers, "orders-a", 5)
    done = command("backup", "orders-*", "-O", folder, "-o", "json", code=3)
    assert [(one["topic"], one["added"], one["state"]) for one in json.loads(done.out)] == [
        ("orders-a", 5, "complete"), ("orders-b", 0, "missing"), ("orders-c", 0, "complete")
    ]  # fmt: skip
    assert "1 of 3 topics were not backed up: orders-b: " in done.err
    assert command("backup", "orders-a", "orders-b", "orders-c", "-O", folder, code=3).err
    done = command("backup", "orders-*", "-O", folder, "--if-exists", "-o", "csv")
    assert ",missing\n" in done.out
    delete(servers, "orders-a", "orders-c")
    assert "does not exist" in command("backup", "orders-*", "-O", folder, code=1).err
    command("backup", "orders-*", "-O", folder, "--if-exists")
    assert "there is no topic x*" in command("backup", "x*", "-O", folder, code=1).err
    for form, out in (("ndjson", ""), ("json", "[]\n"), ("csv", "topic,partitions,records,added,files,bytes,state\n")):
        none = command("backup", "x*", "-O", tmp_path / "d", "--if-exists", "-o", form)
        assert (none.out, none.err) == (out, "no topics\n")


DAY = 86_400_000


@pytest.mark.parametrize(
    ("settings", "warning"),
    [
        ({"retention.ms": DAY}, "will delete 30 of 40 records, which are older than retention.ms=86400000 (1 day, 0:0"),
        ({"retention.ms": -1}, None),
        ({"retention.ms": 100 * DAY}, None),
        ({"cleanup.policy": "compact", "retention.ms": DAY}, None),
        ({"retention.ms": -1, "retention.bytes": 100}, "will delete the first records of 1 of 1 partitions"),
    ],
)
def test_retention_that_will_delete_restored_records(
    target: str, tmp_path: Path, settings: dict[str, int], warning: str | None, caplog: pytest.LogCaptureFixture,
    command: Callable[..., Ended],
) -> None:  # fmt: skip
    now = int(time.time() * 1000)
    with Broker(topics={"t": 1}) as broker:
        ages = pa.array([now - days * DAY for days in [30] * 12 + [3] * 18 + [0] * 10], pa.timestamp("ms", "UTC"))
        fill(broker.bootstrap_servers, "t", 40, timestamp=ages)
        backup(["t"], tmp_path / "b", bootstrap_servers=broker.bootstrap_servers)
    caplog.set_level(logging.WARNING)
    [done] = restore(tmp_path / "b", bootstrap_servers=target, configs=settings, dry_run=True).topics
    assert len(done.warnings) == (warning is not None)
    assert warning is None or (warning in done.warnings[0] and warning in caplog.text)
    options = [part for name, value in settings.items() for part in ("--config", f"{name}={value}")]
    caplog.clear()
    ended = command("restore", tmp_path / "b", "-b", target, "--dry-run", *options)
    # Outside of pytest the log is on standard error, too.
    shown = ended.err + caplog.text
    assert shown.count("t: retention will delete") == shown.count("restore with --config") == (warning is not None)


def test_retention_that_deletes_records_of_a_restore_in_progress(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(topics={"t": 1}) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_configs({ConfigResource.topic("t"): {"retention.ms": DAY}})
        fill(broker.bootstrap_servers, "t", 5, timestamp=pa.array([0] * 5, pa.timestamp("ms", "UTC")))
        backup(["t"], tmp_path / "b", bootstrap_servers=broker.bootstrap_servers)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    advised = "interrupt this run and repeat it with --config retention.ms=-1"
    with monkeypatch.context() as patch:
        patch.setattr(TopicSettings, "finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            restore(tmp_path / "b", bootstrap_servers=target)
    [done] = restore(tmp_path / "b", bootstrap_servers=target, configs={"retention.ms": -1}).topics
    assert (done.state, done.written, done.warnings) == ("unfinished", 0, ())
    with Admin(bootstrap_servers=target) as admin:
        own = admin.describe_configs([ConfigResource.topic("t")])[ConfigResource.topic("t")]
        assert own["retention.ms"].value == "-1"
    [again] = restore(tmp_path / "b", bootstrap_servers=target, topic_map={"t": "u"}).topics
    assert advised in again.warnings[0]
    assert "samsarrow configs set topic:u retention.ms=-1" in again.warnings[0]


class Defaults(TopicSettings):
    """Settings with defaults of brokers."""

    def __init__(self, defaults: dict[str, str | None]) -> None:
        self._broker = defaults


@pytest.mark.parametrize(
    ("own", "defaults", "expected"),
    [
        ({}, {}, (-1, -1)),
        ({}, {"log.retention.ms": None, "log.retention.minutes": None, "log.retention.hours": "168"}, (7 * DAY, -1)),
        ({}, {"log.retention.ms": None, "log.retention.minutes": "2", "log.retention.hours": "168"}, (120_000, -1)),
        ({}, {"log.retention.ms": "5", "log.retention.minutes": "2", "log.retention.bytes": "9"}, (5, 9)),
        ({"retention.ms": "-1"}, {"log.retention.hours": "168"}, (-1, -1)),
        ({"retention.ms": "7", "cleanup.policy": "compact"}, {}, (-1, -1)),
        ({"retention.ms": "7", "cleanup.policy": "compact,delete"}, {}, (7, -1)),
        ({"retention.ms": "7"}, {"log.cleanup.policy": "compact"}, (-1, -1)),
    ],
)
def test_retention_without_settings_is_that_of_the_brokers(
    own: dict[str, str], defaults: dict[str, str | None], expected: tuple[int, int]
) -> None:
    assert Defaults(defaults).retention(own) == expected


def test_manifests_with_another_error(make: Make, tmp_path: Path) -> None:
    make("a")
    path = tmp_path / "b" / "manifest.json"
    tree = json.loads(path.read_text())
    tree["topics"]["orders-a"]["error"] = 7
    path.write_text(json.dumps(tree))
    with pytest.raises(BackupError, match="error of topic orders-a is not text: 7"):
        verify(tmp_path / "b")
