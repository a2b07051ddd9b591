"""Exactly-once writes in Spark's JVM, with changed numbers of tasks, and by queries that switch between the two
sinks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from samsarrow import Admin, OffsetAndMetadata, Producer, TopicPartition
from samsarrow.exceptions import InvalidProducerEpochError, ProducerFencedError
from support.exactly_once import SINKS, Copy
from support.kafka import KafkaServer
from support.streams import produce

NewTopicName = Callable[..., str]
# Columns to send, some of them with nulls. The checksum in a marker covers all of them.
EXPRESSIONS = (
    "if(offset % 2 = 0, null, concat('k', offset)) key",
    "cast(value as string) value",
    "if(offset % 3 = 0, null, array(struct('h' key, value))) headers",
    "if(offset % 2 = 0, null, partition) partition",
)
FAILING = "if(cast(value as string) = 'bad', raise_error('on purpose'), cast(value as string)) value"


@pytest.fixture
def copy(built: None, spark: Any, kafka: KafkaServer, new_topic: NewTopicName, tmp_path: Path) -> Copy:
    return Copy(spark, kafka, new_topic, tmp_path / "checkpoint", "samsarrow-jvm")


@contextmanager
def transaction(kafka: KafkaServer, name: str, topic: str) -> Iterator[Producer]:
    """A transaction with uncommitted rows, as left open by a task of an executor that Spark considers lost."""
    with Producer({"transactional.id": name}, bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, "left over").result()
        yield producer


@pytest.mark.parametrize("by_column", [False, True])
def test_query_switches_between_sinks(copy: Copy, kafka: KafkaServer, by_column: bool) -> None:
    """Each sink completes micro-batches that the other sink has begun, and skips the parts that are already written."""
    expressions = (*EXPRESSIONS, f"'{copy.gone}' topic") if by_column else EXPRESSIONS
    expected: Counter[str] = Counter()
    for number, (first, second) in enumerate([SINKS[::-1], SINKS, SINKS[::-1]]):
        values = {0: [f"{number}-{n}" for n in range(7)], 1: [f"{number}+{n}" for n in range(5)]}
        produce(kafka, copy.come, values)
        expected.update(value for some in values.values() for value in some)
        copy.run(*expressions, sink=first)
        copy.forget(number)
        copy.run(*expressions, sink=second)
        assert copy.values() == expected
    copy.forget(2)
    with pytest.raises(StreamingQueryException, match=r"micro-batch 2 .*the same rows in the same tasks"):
        copy.run(*EXPRESSIONS[1:], *expressions[4:], sink="samsarrow-jvm")
    assert copy.values() == expected


def test_partly_written_batch_is_completed_by_other_sink(copy: Copy, kafka: KafkaServer) -> None:
    produce(kafka, copy.come, {0: ["a", "b"], 1: ["c", "bad"]})
    with pytest.raises(StreamingQueryException, match="on purpose"):
        copy.run("key", FAILING, sink="samsarrow-python")
    copy.run()
    produce(kafka, copy.come, {0: ["d", "bad"], 1: ["e"]})
    with pytest.raises(StreamingQueryException, match="on purpose"):
        copy.run("key", FAILING)
    copy.run(sink="samsarrow-python")
    assert copy.values() == Counter({"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "bad": 2})


@pytest.mark.parametrize(("before", "tasks"), [(4, 2), (2, 4)])
def test_changed_task_count_is_rejected_before_writing(copy: Copy, kafka: KafkaServer, before: int, tasks: int) -> None:
    produce(kafka, copy.come, {0: ["a", "b"], 1: ["c", "d"]})
    copy.run(tasks=before)
    copy.forget(0)
    text = rf"was written by {before} tasks, and its repetition has {tasks}: .*allowReplayMismatch=0"
    with pytest.raises(StreamingQueryException, match=text):
        copy.run(tasks=tasks)
    assert copy.values("read_uncommitted") == Counter("abcd")
    copy.run(tasks=before)
    # The number of tasks may change with the next micro-batch.
    produce(kafka, copy.come, {0: ["e", "f"], 1: ["g", "h"]})
    copy.run(tasks=tasks)
    assert copy.values() == Counter("abcdefgh")


@pytest.mark.parametrize(("before", "tasks"), [(4, 2), (2, 4)])
def test_changed_task_count_is_accepted_if_none_has_written(
    copy: Copy, kafka: KafkaServer, before: int, tasks: int
) -> None:
    produce(kafka, copy.come, {0: ["a", "b"], 1: ["c", "d"]})
    with pytest.raises(StreamingQueryException, match="on purpose"):
        copy.run("key", "if(length(value) > 0, raise_error('on purpose'), value) value", tasks=before)
    copy.run(tasks=tasks)
    assert copy.values() == Counter("abcd")


def test_surplus_tasks_are_fenced(copy: Copy, kafka: KafkaServer) -> None:
    """Transactions of surplus tasks are aborted before tasks begin, so no late rows appear and no reader is blocked."""
    produce(kafka, copy.come, {0: ["a", "b"], 1: ["c", "d"]})
    copy.run()
    produce(kafka, copy.come, {0: ["e", "f"], 1: ["g", "h"]})
    # Marks that an attempt at the next micro-batch has begun with four tasks.
    note = {TopicPartition(copy.gone, 0): OffsetAndMetadata(2, '{"tasks": 4}')}
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.commit_offsets(copy.group, note)
    with transaction(kafka, f"{copy.group}-3", copy.gone) as left_over:
        copy.run()
        assert copy.values() == Counter("abcdefgh")
        with pytest.raises((ProducerFencedError, InvalidProducerEpochError)):
            left_over.commit_transaction()
    assert copy.values() == Counter("abcdefgh")


def test_two_queries_write_to_one_topic(copy: Copy, spark: Any, kafka: KafkaServer, tmp_path: Path) -> None:
    other = Copy(spark, kafka, lambda _: copy.come, tmp_path / "other", "samsarrow-jvm")
    other.gone = copy.gone
    produce(kafka, copy.come, {0: ["a", "b"], 1: ["c"]})
    for query in (copy, other, copy, other):
        query.run()
        query.forget(0)
    assert copy.values() == Counter("abc" * 2)
