"""A streaming query commits its offsets to a consumer group after micro-batches. A new query starts at these
offsets.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from samsarrow import Admin, Consumer, TopicPartition
from support.kafka import KafkaServer
from support.streams import Stream, produce, wait_until

NewTopicName = Callable[..., str]


@pytest.fixture
def stream(spark: Any, kafka: KafkaServer, tmp_path: Path) -> Callable[..., Stream]:
    # Creates Kafka's offsets topic, which the first request of a group does otherwise. A commit of the query would not
    # wait for that.
    committed(kafka, "any")

    def make(**options: str) -> Stream:
        return Stream(spark, kafka, tmp_path / "checkpoint", **{"startingOffsets": "earliest", **options})

    return make


def committed(kafka: KafkaServer, group: str) -> dict[int, int]:
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        offsets = admin.fetch_offsets(group)
    return {tp.partition: at.offset for tp, at in offsets.items() if at is not None}


def options(topic: str, **more: str) -> dict[str, str]:
    return {"subscribe": topic, "kafka.group.id": f"group-of-{topic}", "commitOffsets": "true", **more}


def test_drained_query_has_committed_all_offsets(
    stream: Callable[..., Stream], kafka: KafkaServer, new_topic: NewTopicName
) -> None:
    topic = new_topic(2)
    produce(kafka, topic, {0: ["a", "b", "c"], 1: ["d"]})
    query = stream(**options(topic, maxOffsetsPerTrigger="2"))
    query.drain()
    assert len(query.batches) > 1
    assert committed(kafka, f"group-of-{topic}") == {0: 3, 1: 1}


def test_only_finished_batches_are_committed(
    stream: Callable[..., Stream], kafka: KafkaServer, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    produce(kafka, topic, {0: ["a", "b"]})
    query = stream(**options(topic, maxOffsetsPerTrigger="1"))
    query.fail_in = 2
    with pytest.raises(StreamingQueryException, match="on purpose"):
        query.drain()
    assert committed(kafka, f"group-of-{topic}") == {0: 1}
    stream(**options(topic)).drain()
    assert committed(kafka, f"group-of-{topic}") == {0: 2}


def test_new_query_commits_after_first_batch(
    stream: Callable[..., Stream], kafka: KafkaServer, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    produce(kafka, topic, {0: ["a", "b"]})
    stream(**options(topic, startingOffsets="latest")).drain()
    assert committed(kafka, f"group-of-{topic}") == {}


def test_failed_commit_does_not_stop_the_query(
    stream: Callable[..., Stream], kafka: KafkaServer, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    group = f"group-of-{topic}"
    produce(kafka, topic, {0: ["a"]})
    # A group with members rejects commits from other clients.
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group, enable_auto_commit=False) as member:
        member.subscribe([topic])
        wait_until(lambda: member.poll(0.1) is not None and bool(member.assignment()))
        query = stream(**options(topic))
        query.drain()
        assert query.values() == ["a"]
        assert committed(kafka, group) == {}
    stream(**options(topic)).drain()
    assert committed(kafka, group) == {0: 1}


def test_stream_starts_from_group_offsets(
    stream: Callable[..., Stream], kafka: KafkaServer, new_topic: NewTopicName
) -> None:
    topic = new_topic(2)
    produce(kafka, topic, {0: ["a", "b", "c"], 1: ["d"]})
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.commit_offsets(f"group-of-{topic}", {TopicPartition(topic, 0): 2})
    query = stream(**options(topic, startingOffsets="group"))
    query.drain()
    assert query.values() == ["c", "d"]


def test_batch_starts_from_group_offsets(load: Callable[..., Any], kafka: KafkaServer, new_topic: NewTopicName) -> None:
    topic = new_topic(1)
    produce(kafka, topic, {0: ["a", "b", "c"]})
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.commit_offsets("batch-group", {TopicPartition(topic, 0): 1})
    frame = load(subscribe=topic, startingOffsets="group", layout="string", **{"kafka.group.id": "batch-group"})
    assert sorted(row.value for row in frame.collect()) == ["b", "c"]
    assert committed(kafka, "batch-group") == {0: 1}
