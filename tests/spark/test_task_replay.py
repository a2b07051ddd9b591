"""Repeated exactly-once tasks, on the embedded broker and without Spark."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType

from samsarrow import Admin, Consumer, OffsetAndMetadata, TopicPartition
from samsarrow.exceptions import InvalidProducerEpochError, ProducerFencedError
from samsarrow.spark.client_cache import ADMINS
from samsarrow.spark.errors import ReplayMismatchError
from samsarrow.spark.exactly_once import check_tasks, write_once
from samsarrow.spark.task_context import TaskId
from samsarrow.spark.write_options import WriteOptions
from samsarrow.spark.write_task import Written
from samsarrow.testing import Broker
from support.waiting import until

SCHEMA = StructType().add("key", StringType()).add("value", BinaryType()).add("partition", IntegerType())
ARROW = pa.schema([("key", pa.string()), ("value", pa.binary()), ("partition", pa.int32())])
Rows = list[tuple[str, bytes, int | None]]
A: Rows = [("k1", b"v1", 0), ("k2", b"v2", 1), ("k3", b"v3", None)]


def batches(*parts: Rows) -> Iterator[pa.RecordBatch]:
    for rows in parts:
        yield pa.RecordBatch.from_pylist([dict(zip(ARROW.names, row, strict=True)) for row in rows], schema=ARROW)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 2}) as broker:
        yield broker


class Query:
    """Runs tasks of a query as Spark does."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broker = broker
        self.batch = 0
        self._task = 0
        monkeypatch.setattr(TaskId, "current", lambda: TaskId("q", self.batch, self._task))

    def options(self, **more: str) -> WriteOptions:
        config = {"kafka.bootstrap.servers": self.broker.bootstrap_servers, "topic": "t", "exactlyOnce": "true"}
        return WriteOptions.parse(config | more, SCHEMA)

    def task(self, number: int, *parts: Rows, rows: Iterator[pa.RecordBatch] | None = None, **more: str) -> Written:
        self._task = number
        return write_once(self.options(**more), batches(*parts) if rows is None else rows)

    def note(self, number: int, offset: int, metadata: str) -> None:
        at = {TopicPartition("t", 0): OffsetAndMetadata(offset, metadata)}
        with Admin(bootstrap_servers=self.broker.bootstrap_servers) as admin:
            admin.commit_offsets(f"samsarrow-spark-q-{number}", at)

    def values(self) -> Counter[bytes]:
        config = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        with Consumer(config, bootstrap_servers=self.broker.bootstrap_servers) as consumer:
            consumer.assign(consumer.partitions_for("t"))
            return Counter(consumer.reader().read_all().column("value").to_pylist())


@pytest.fixture
def query(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Query:
    return Query(broker, monkeypatch)


def test_reordered_rows_are_skipped(query: Query) -> None:
    assert query.task(0, A).rows == {"t": 3}
    again = query.task(0, [A[2]], [], [A[0], A[1]])
    assert (again.rows, again.attempt and again.attempt.repeated) == ({}, True)
    assert query.values() == Counter([b"v1", b"v2", b"v3"])


@pytest.mark.parametrize(
    "other",
    [
        [("k2", b"v1", 0), ("k1", b"v2", 1), ("k3", b"v3", None)],
        [("k1", b"v1", 1), ("k2", b"v2", 0), ("k3", b"v3", None)],
        [("k1", b"v2", 0), ("k2", b"v1", 1), ("k3", b"v3", None)],
        [("k1", b"v1", 0), ("k2", b"v2", 1), ("k3", b"v3", 0)],
    ],
)
def test_other_rows_of_equal_count_and_size_are_an_error(query: Query, other: Rows) -> None:
    query.task(0, A)
    with pytest.raises(ReplayMismatchError, match=r"The option allowReplayMismatch=0 continues anyway"):
        query.task(0, other)
    assert query.values().total() == 3


def test_allow_replay_mismatch(query: Query, caplog: pytest.LogCaptureFixture) -> None:
    query.task(0, A)
    with caplog.at_level(logging.WARNING):
        assert query.task(0, A[:2], allowReplayMismatch="0").rows == {}
        until(lambda: "allowReplayMismatch=0: continuing" in caplog.text)
    query.batch = 1
    query.task(0, A, allowReplayMismatch="0")
    with pytest.raises(ReplayMismatchError, match="micro-batch 1"):
        query.task(0, A[:2], allowReplayMismatch="0")


def test_markers_of_earlier_releases_are_read(query: Query) -> None:
    query.note(0, 1, json.dumps({"rows": 3, "bytes": 6}))
    assert query.task(0, A).rows == {}
    query.note(1, 1, json.dumps({"rows": 3, "bytes": 7}))
    with pytest.raises(ReplayMismatchError, match=r"with .*bytes.*: 7"):
        query.task(1, A)
    query.note(2, 1, "")
    assert query.task(2, A).rows == {}
    assert not query.values()


def test_failed_attempt_writes_nothing(query: Query) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(A)
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        query.task(0, rows=failing())
    assert query.task(0, A).rows == {"t": 3}
    assert query.values() == Counter([b"v1", b"v2", b"v3"])


def test_later_of_two_concurrent_attempts_writes(query: Query) -> None:
    """Two attempts run concurrently with speculation, or if an executor that Spark considers lost still runs."""

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield from batches(A[:1])
        assert query.task(0, A).rows == {"t": 3}
        yield from batches(A[1:])

    with pytest.raises((ProducerFencedError, InvalidProducerEpochError)):
        query.task(0, rows=overtaken())
    assert query.values() == Counter([b"v1", b"v2", b"v3"])


def test_tasks_of_a_worker_share_an_admin_client(query: Query) -> None:
    before = set(ADMINS._idle)
    for number in range(3):
        query.task(number, A)
    assert len(set(ADMINS._idle) - before) == 1


def test_changed_task_count_after_complete_write_is_an_error(query: Query) -> None:
    check_tasks(query.options(), [query.task(n, A) for n in range(2)])
    check_tasks(query.options(), [query.task(n, A) for n in range(2)])
    more = [query.task(n, A) for n in range(3)]
    with pytest.raises(
        ReplayMismatchError, match=r"written by 2 tasks, and its repetition has 3.*allowReplayMismatch=0"
    ):
        check_tasks(query.options(), more)
    check_tasks(query.options(allowReplayMismatch="0"), more)
    query.batch = 1
    check_tasks(query.options(), [query.task(0, A)])


def test_fewer_tasks_than_before_are_an_error(query: Query) -> None:
    check_tasks(query.options(), [query.task(n, A) for n in range(3)])
    query.batch = 1
    # The driver dies before it has written its marker.
    for number in range(3):
        query.task(number, A)
    fewer = [query.task(n, A) for n in range(2)]
    with pytest.raises(ReplayMismatchError, match="written by 3 tasks, and its repetition has 2"):
        check_tasks(query.options(), fewer)


def test_task_count_may_change_between_batches(query: Query) -> None:
    for batch, tasks in enumerate((3, 1, 2)):
        query.batch = batch
        written = [query.task(n, A) for n in range(tasks)]
        check_tasks(query.options(), written)
    assert query.task(5).rows == {}
    check_tasks(query.options(), [Written()])


@pytest.mark.parametrize("streaming", [True, False])
def test_batch_and_stream_writers_write_once(query: Query, streaming: bool) -> None:
    from samsarrow.spark.stream_writer import KafkaStreamWriter
    from samsarrow.spark.writer import KafkaWriter

    options = query.options(transactionalIdPrefix="p")
    writer: Any = KafkaStreamWriter(options) if streaming else KafkaWriter(options)
    commit: Callable[[list[Any]], None] = (lambda m: writer.commit(m, 0)) if streaming else writer.commit
    for _ in range(2):
        commit([writer.write(batches(A))])
    assert query.values().total() == 3
