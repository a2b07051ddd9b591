"""Streaming reads from Apache Kafka."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from samsarrow import Admin, NewTopic
from samsarrow.exceptions import KafkaTimeoutError
from support.kafka import KafkaServer
from support.streams import Stream, produce, wait_until

NewTopicName = Callable[..., str]


@pytest.fixture
def stream(spark: Any, kafka: KafkaServer, tmp_path: Path) -> Callable[..., Stream]:
    def make(**options: str) -> Stream:
        return Stream(spark, kafka, tmp_path / "checkpoint", **{"startingOffsets": "earliest", **options})

    return make


def numbers(start: int, end: int) -> list[str]:
    return [str(n) for n in range(start, end)]


def test_restart_resumes_at_checkpoint(
    stream: Callable[..., Stream], kafka: KafkaServer, new_topic: NewTopicName
) -> None:
    topic = new_topic(2)
    produce(kafka, topic, {0: numbers(0, 5), 1: numbers(10, 13)})
    query = stream(subscribe=topic)
    query.drain()
    assert query.values() == numbers(0, 5) + numbers(10, 13)
    assert query.offsets() == {0: {topic: {"0": 0, "1": 0}}, 1: {topic: {"0": 5, "1": 3}}}
    produce(kafka, topic, {1: numbers(13, 15)})
    again = stream(subscribe=topic)
    again.drain()
    assert again.values() == numbers(13, 15)
    assert again.offsets()[2] == {topic: {"0": 5, "1": 5}}
    nothing = stream(subscribe=topic)
    nothing.drain()
    assert nothing.batches == {}


def test_max_offsets_per_trigger_is_shared_by_backlog(
    stream: Callable[..., Stream], kafka: KafkaServer, new_topic: NewTopicName
) -> None:
    topic = new_topic(2)
    produce(kafka, topic, {0: numbers(0, 90), 1: numbers(0, 10)})
    query = stream(subscribe=topic, maxOffsetsPerTrigger="50")
    query.drain()
    ends = [{topic: {"0": 0, "1": 0}}, {topic: {"0": 45, "1": 5}}, {topic: {"0": 90, "1": 10}}]
    assert query.offsets() == dict(enumerate(ends)), "the first one has the start"
    assert len(query.values()) == 100
    produce(kafka, topic, {0: numbers(0, 90)})
    once = stream(subscribe=topic, maxOffsetsPerTrigger="10")
    once.drain(once=True)
    assert [len(rows) for rows in once.batches.values()] == [90], "Trigger.Once takes all there is"


def test_failed_batch_is_repeated_unchanged(
    stream: Callable[..., Stream], kafka: KafkaServer, new_topic: NewTopicName
) -> None:
    topic = new_topic(2)
    produce(kafka, topic, {0: numbers(0, 5)})
    query = stream(subscribe=topic)
    query.fail_in = 1
    with pytest.raises(StreamingQueryException, match="on purpose"):
        query.drain()
    produce(kafka, topic, {0: numbers(5, 9), 1: numbers(0, 2)})
    again = stream(subscribe=topic)
    again.drain()
    assert [row.value for row in again.batches[1]] == numbers(0, 5)
    assert sorted(row.value for row in again.batches[2]) == sorted(numbers(5, 9) + numbers(0, 2))


def test_new_partitions_and_topics_start_at_their_first_record(
    stream: Callable[..., Stream], kafka: KafkaServer, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    query = stream(subscribePattern=f"{topic}.*", startingOffsets="latest")
    running = query.start(processingTime="100 milliseconds")
    try:
        wait_until(lambda: running.lastProgress is not None)
        produce(kafka, topic, {0: ["a"]})
        wait_until(lambda: query.values() == ["a"])
        with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(f"{topic}-more", 2, 1)])
        produce(kafka, f"{topic}-more", {0: ["b"], 1: ["c"]})
        wait_until(lambda: query.values() == ["a", "b", "c"])
    finally:
        running.stop()


def test_min_offsets_per_trigger(stream: Callable[..., Stream], kafka: KafkaServer, new_topic: NewTopicName) -> None:
    topic = new_topic(1)
    produce(kafka, topic, {0: ["first"]})
    query = stream(subscribe=topic, minOffsetsPerTrigger="3", maxTriggerDelay="10m")
    running = query.start(processingTime="50 milliseconds")
    try:
        wait_until(lambda: query.values() == ["first"])
        produce(kafka, topic, {0: numbers(0, 2)})
        # Runs idle triggers. Without a minimum, each of them would have read the two records.
        running.processAllAvailable()
        assert query.values() == ["first"]
        produce(kafka, topic, {0: numbers(2, 3)})
        wait_until(lambda: query.values() == ["first", *numbers(0, 3)])
        assert [len(rows) for rows in query.batches.values()] == [0, 1, 3]
    finally:
        running.stop()


def delete(kafka: KafkaServer, topic: str) -> None:
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.delete_topics([topic])
        wait_until(lambda: topic not in admin.list_topics([topic]))


def recreate(kafka: KafkaServer, topic: str, partitions: int = 1) -> None:
    delete(kafka, topic)
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, partitions, 1)])


def test_recreated_topic_is_data_loss(
    stream: Callable[..., Stream], kafka: KafkaServer, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    produce(kafka, topic, {0: numbers(0, 9)})
    stream(subscribe=topic).drain()
    recreate(kafka, topic)
    produce(kafka, topic, {0: ["new"]})
    with pytest.raises(StreamingQueryException, match=rf"{topic}-0 went from offset 9 back to 1.*failOnDataLoss=false"):
        stream(subscribe=topic).drain()


def test_end_before_start_is_not_reread(
    stream: Callable[..., Stream], kafka: KafkaServer, new_topic: NewTopicName
) -> None:
    """A restarted query cannot distinguish between a recreated topic and a truncated log."""
    topic = new_topic(1)
    produce(kafka, topic, {0: numbers(0, 9)})
    stream(subscribe=topic).drain()
    recreate(kafka, topic)
    produce(kafka, topic, {0: ["new"]})
    query = stream(subscribe=topic, failOnDataLoss="false")
    query.drain()
    assert query.values() == []
    produce(kafka, topic, {0: ["newer"]})
    query.drain()
    assert query.values() == ["newer"]


def test_recreated_topic_is_read_from_its_start(
    stream: Callable[..., Stream], kafka: KafkaServer, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    produce(kafka, topic, {0: numbers(0, 3)})
    query = stream(subscribe=topic, failOnDataLoss="false")
    running = query.start(processingTime="100 milliseconds")
    try:
        wait_until(lambda: query.values() == numbers(0, 3))
        recreate(kafka, topic)
        # The new topic has more records than the old one, so only its topic id shows the difference.
        produce(kafka, topic, {0: numbers(10, 15)})
        wait_until(lambda: sorted(query.values()) == sorted(numbers(0, 3) + numbers(10, 15)))
    finally:
        running.stop()


@pytest.mark.parametrize(
    "start",
    [{"startingOffsets": "latest"}, {"startingTimestamp": "0"}],
)
def test_repeated_first_batch_has_same_start(
    stream: Callable[..., Stream], kafka: KafkaServer, new_topic: NewTopicName, start: dict[str, str]
) -> None:
    """Spark stores the end of a micro-batch in the checkpoint, but requests the start of the first micro-batch
    again.
    """
    topic = new_topic(1)
    produce(kafka, topic, {0: numbers(0, 4)})
    query = stream(subscribe=topic, **start)
    query.fail_in = 0
    with pytest.raises(StreamingQueryException, match="on purpose"):
        query.drain()
    assert query.offsets() == {0: {topic: {"0": 4 if "startingOffsets" in start else 0}}}
    produce(kafka, topic, {0: numbers(4, 9)})
    again = stream(subscribe=topic, **start)
    again.drain()
    assert again.values() == (numbers(4, 9) if "startingOffsets" in start else numbers(0, 9))


def test_deleted_topic_is_data_loss(stream: Callable[..., Stream], kafka: KafkaServer, new_topic: NewTopicName) -> None:
    topic, other = new_topic(1), new_topic(1)
    both = f"{topic},{other}"
    produce(kafka, topic, {0: ["a"]})
    produce(kafka, other, {0: ["b"]})
    stream(subscribe=both).drain()
    delete(kafka, topic)
    produce(kafka, other, {0: ["c"]})
    with pytest.raises(StreamingQueryException, match=topic):
        stream(subscribe=both).drain()
    query = stream(subscribe=both, failOnDataLoss="false")
    query.drain()
    assert query.values() == ["c"]


def test_wait_for_sources(stream: Callable[..., Stream], kafka: KafkaServer, new_topic: NewTopicName) -> None:
    from samsarrow.spark import wait_for_sources

    topic = new_topic(1)
    running = stream(subscribe=topic).start(processingTime="1 minute")
    try:
        wait_for_sources(running)
        assert not running.status["message"].startswith("Initializing")
    finally:
        running.stop()
    wait_for_sources(running, 0)

    class Never:
        id, isActive, status = "q", True, {"message": "Initializing sources"}  # noqa: N815

    with pytest.raises(KafkaTimeoutError, match="query q are not there"):
        wait_for_sources(Never(), 0.05)  # type: ignore[arg-type]


def of(query: Any, events: list[Any]) -> list[Any]:
    """Returns the events of this query, because events of earlier queries may arrive late."""
    return [progress for progress in events if progress.query == str(query.id)]


def test_progress_listener_reports_lag(
    spark: Any, stream: Callable[..., Stream], kafka: KafkaServer, new_topic: NewTopicName
) -> None:
    from samsarrow.spark import ProgressListener, SourceProgress

    topic = new_topic(2)
    produce(kafka, topic, {0: numbers(0, 9), 1: numbers(0, 3)})
    events: list[SourceProgress] = []
    listener = ProgressListener(events.append)
    spark.streams.addListener(listener)
    try:
        query = stream(subscribe=topic, maxOffsetsPerTrigger="8").drain()
        wait_until(lambda: len(of(query, events)) == 3)
    finally:
        spark.streams.removeListener(listener)
    start, first, last = of(query, events)
    assert (start.records, start.batch) == (0, 0)
    assert (first.records, first.batch, last.records) == (8, 1, 4)
    assert first.behind == {(topic, 0): 3, (topic, 1): 1}
    assert (first.min_offsets_behind_latest, first.max_offsets_behind_latest) == (1, 3)
    assert first.avg_offsets_behind_latest == 2.0
    assert last.max_offsets_behind_latest == 0
    assert last.records_per_second > 0
    assert (last.bytes, last.bytes_per_second, last.written) == (None, None, None)


def test_progress_listener_reports_bytes_and_sink_rows(
    spark: Any, kafka: KafkaServer, new_topic: NewTopicName, tmp_path: Path
) -> None:
    from samsarrow.spark import ProgressListener, SourceProgress, count_bytes

    come, gone = new_topic(1), new_topic(1)
    produce(kafka, come, {0: numbers(5, 15)})
    events: list[SourceProgress] = []
    listener = ProgressListener(events.append)
    spark.streams.addListener(listener)
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    options = servers | {"subscribe": come, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "5"}
    try:
        frame = count_bytes(spark.readStream.format("samsarrow-python").options(**options).load())
        writer = (
            frame.where("offset > 0")
            .select("value")
            .writeStream.format("samsarrow-python")
            .options(**servers, topic=gone)
        )
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        wait_until(lambda: len(of(query, events)) == 3)
    finally:
        spark.streams.removeListener(listener)
    start, *mine = of(query, events)
    assert (start.records, start.written) == (0, 0)
    assert [(progress.records, progress.bytes, progress.written) for progress in mine] == [(5, 5, 4), (5, 10, 5)]
    assert all(progress.bytes_per_second for progress in mine)


def test_progress_has_latest_offsets(
    stream: Callable[..., Stream], kafka: KafkaServer, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    produce(kafka, topic, {0: numbers(0, 10)})
    query = stream(subscribe=topic, maxOffsetsPerTrigger="4").drain()
    source = query.recentProgress[1]["sources"][0]
    output = {
        name: json.loads(source[name]) if isinstance(source[name], str) else source[name]
        for name in ("endOffset", "latestOffset")
    }
    assert output == {"endOffset": {topic: {"0": 4}}, "latestOffset": {topic: {"0": 10}}}
