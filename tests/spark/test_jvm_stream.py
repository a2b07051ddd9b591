"""Streaming reads in the JVM: checkpoint contents, limits per trigger, progress metrics."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from samsarrow import Admin, Producer
from samsarrow.testing import Broker
from support.parity import JVM
from support.streams import Stream, wait_until

Make = Callable[..., Stream]


def produce(broker: Broker, topic: str, values: dict[int, list[str]]) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for partition, texts in values.items():
            for text in texts:
                producer.send(topic, text, partition=partition)


def committed(broker: Broker, group: str) -> dict[int, int]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        return {tp.partition: at.offset for tp, at in admin.fetch_offsets(group).items() if at is not None}


@pytest.fixture
def stream(built: None, spark: Any, broker: Broker, tmp_path: Path) -> Make:
    def make(**options: str) -> Stream:
        return Stream(spark, broker, tmp_path, JVM, **{"startingOffsets": "earliest", **options})

    return make


def test_start_is_stored_in_connector_format(stream: Make, broker: Broker) -> None:
    broker.create_topic("kept", 2)
    produce(broker, "kept", {0: ["a0", "a1"], 1: ["b0"]})
    query = stream(subscribe="kept", startingOffsets="latest")
    query.drain()
    kept = query.checkpoint / "sources" / "0" / "0"
    assert kept.read_bytes() == b'\0v1\n{"kept":{"0":2,"1":1}}'
    produce(broker, "kept", {0: ["a2"]})
    query.drain()
    assert query.values() == ["a2"]


def test_repeated_first_batch_starts_at_stored_offsets(stream: Make, broker: Broker) -> None:
    """The checkpoint contains the offsets of `latest`, written by either source. The end has moved since then."""
    broker.create_topic("repeated", 2)
    produce(broker, "repeated", {0: ["a0", "a1"], 1: ["b0"]})
    one = stream(subscribe="repeated", startingOffsets="latest")
    kept = one.checkpoint / "sources" / "0" / "0"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b'\0v1\n{"repeated":{"1":0,"0":1}}')
    one.fail_in = 0
    with pytest.raises(StreamingQueryException, match="on purpose"):
        one.drain()
    produce(broker, "repeated", {1: ["b1"]})
    two = stream(subscribe="repeated", startingOffsets="latest")
    two.drain()
    results = {number: sorted(row.value for row in rows) for number, rows in two.batches.items()}
    assert results == {0: ["a1", "b0"], 1: ["b1"]}


def test_limits_and_restarts(stream: Make, broker: Broker) -> None:
    broker.create_topic("limited", 2)
    produce(broker, "limited", {0: [str(n) for n in range(90)], 1: [str(n) for n in range(10)]})
    query = stream(subscribe="limited", maxOffsetsPerTrigger="50", minOffsetsPerTrigger="5")
    query.drain()
    assert query.offsets() == {0: {"limited": {"0": 45, "1": 5}}, 1: {"limited": {"0": 90, "1": 10}}}
    assert len(query.values()) == 100
    produce(broker, "limited", {0: [str(n) for n in range(90)]})
    once = stream(subscribe="limited", maxOffsetsPerTrigger="10")
    once.drain(once=True)
    assert [len(rows) for rows in once.batches.values()] == [90], "Trigger.Once takes all there is"
    nothing = stream(subscribe="limited")
    nothing.drain()
    assert nothing.batches == {}


def test_progress_reports_lag(stream: Make, broker: Broker) -> None:
    broker.create_topic("behind", 2)
    produce(broker, "behind", {0: [str(n) for n in range(30)], 1: [str(n) for n in range(10)]})
    progress = stream(subscribe="behind", maxOffsetsPerTrigger="20").drain().recentProgress[0]
    (source,) = progress["sources"]
    assert source["metrics"] == {
        "minOffsetsBehindLatest": "5",
        "maxOffsetsBehindLatest": "15",
        "avgOffsetsBehindLatest": "10.0",
    }
    assert json.loads(source["latestOffset"]) == {"behind": {"0": 30, "1": 10}}
    assert source["numInputRows"] == 20


def test_rejects_checkpoint_of_other_source(stream: Make, spark: Any, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("refused")
    rate = spark.readStream.format("rate").load().writeStream.format("noop")
    query = rate.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    with pytest.raises(StreamingQueryException, match="separate checkpointLocation"):
        stream(subscribe="refused").drain()


def test_start_offsets_are_not_committed(stream: Make, broker: Broker) -> None:
    """Neither a new query nor a resumed query commits its start. Spark does not request the initial offset of a resumed
    one.
    """
    broker.create_topic("start", 1)
    produce(broker, "start", {0: ["a0", "a1"]})
    options = {"subscribe": "start", "startingOffsets": "latest", "commitOffsets": "true", "kafka.group.id": "start-g"}
    for _ in range(2):
        stream(**options).drain()
        assert committed(broker, "start-g") == {}
    produce(broker, "start", {0: ["a2"]})
    query = stream(**options)
    query.drain()
    assert query.values() == ["a2"]
    assert committed(broker, "start-g") == {0: 3}


def test_repeated_very_first_batch_is_committed_on_completion(stream: Make, broker: Broker) -> None:
    """The first batch fails and is repeated from the start in the checkpoint. Only its completion commits offsets."""
    for topic, start in (("again-earliest", "earliest"), ("again-latest", "latest")):
        broker.create_topic(topic, 1)
        produce(broker, topic, {0: ["a0", "a1"]})
        query = stream(
            **{"subscribe": topic, "startingOffsets": start, "commitOffsets": "true", "kafka.group.id": topic}
        )
        query.checkpoint /= topic
        if start == "latest":
            kept = query.checkpoint / "sources" / "0" / "0"
            kept.parent.mkdir(parents=True)
            kept.write_bytes(b'\0v1\n{"%s":{"0":1}}' % topic.encode())
        for _ in range(2):
            query.fail_in = 0
            with pytest.raises(StreamingQueryException, match="on purpose"):
                query.drain()
            produce(broker, topic, {0: ["b"]})
            assert committed(broker, topic) == {}
        query.fail_in = None
        query.drain()
        assert query.values() == ["a0", "a1", "b", "b"][1 if start == "latest" else 0 :]
        assert sorted(query.batches) == [0, 1]
        assert committed(broker, topic) == {0: 4}


def test_repeated_first_batch_is_committed_on_completion(stream: Make, broker: Broker) -> None:
    broker.create_topic("failing", 1)
    produce(broker, "failing", {0: ["a0"]})
    options = {"subscribe": "failing", "startingOffsets": '{"failing":{"0":-1}}', "kafka.group.id": "failing-g"}
    options["commitOffsets"] = "true"
    first = stream(**options)
    running = first.start(processingTime="50 milliseconds")
    try:
        wait_until(lambda: 0 in first.batches)
        first.fail_in = 1
        produce(broker, "failing", {0: ["a1", "a2"]})
        with pytest.raises(StreamingQueryException, match="on purpose"):
            running.awaitTermination(120)
    finally:
        running.stop()
    assert committed(broker, "failing-g") == {}
    again = stream(**options)
    again.drain()
    assert again.values() == ["a1", "a2"]
    assert committed(broker, "failing-g") == {0: 3}


def test_new_partitions_are_committed_from_first_record(stream: Make, broker: Broker) -> None:
    broker.create_topic("growing", 1)
    options = {"subscribe": "growing", "startingOffsets": "latest", "commitOffsets": "true"}
    options |= {"kafka.group.id": "growing-g", "kafka.metadata.max.age.ms": "100"}
    query = stream(**options)
    running = query.start(processingTime="50 milliseconds")
    try:
        wait_until(lambda: 0 in query.batches)
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_partitions({"growing": 2})
        produce(broker, "growing", {1: ["b0", "b1"]})
        wait_until(lambda: query.values() == ["b0", "b1"])
        wait_until(lambda: committed(broker, "growing-g") == {0: 0, 1: 2})
    finally:
        running.stop()


def test_first_batch_of_source_without_stored_start(stream: Make, spark: Any, broker: Broker) -> None:
    """The first batch of the Python source ends at its start. The offset of `latest` has moved since the query
    started.
    """
    broker.create_topic("unkept", 1)
    produce(broker, "unkept", {0: ["a0", "a1"]})
    jvm = stream(subscribe="unkept", startingOffsets="latest")
    python = Stream(spark, broker, jvm.checkpoint, subscribe="unkept", startingOffsets="latest")
    for failing in (python, jvm):
        failing.fail_in = 0
        with pytest.raises(StreamingQueryException, match="on purpose"):
            failing.drain()
        produce(broker, "unkept", {0: ["b"]})
    jvm.fail_in = None
    jvm.drain()
    assert jvm.values() == ["b", "b"]
    assert not (jvm.checkpoint / "sources" / "0" / "0").exists()


@pytest.mark.parametrize("closed", [False, True], ids=["unresponsive", "closed"])
def test_query_stops_while_brokers_are_away(stream: Make, broker: Broker, closed: bool) -> None:
    """Stopping does not wait for the request in flight. An attempt takes 60 s, and Spark makes four attempts."""
    with Broker(topics={"silent": 1}) as other:
        query = stream(subscribe="silent", **{"kafka.bootstrap.servers": other.bootstrap_servers})
        running = query.start(processingTime="50 milliseconds")
        try:
            wait_until(lambda: 0 in query.batches or running.lastProgress is not None)
            if closed:
                other.close()
                time.sleep(2)
            else:
                other.fail("ListOffsets", delay=60, times=None)
                requests = other.requests("ListOffsets")
                wait_until(lambda: other.requests("ListOffsets") > requests)
            start = time.monotonic()
            running.stop()
            assert time.monotonic() - start < 1
            assert running.exception() is None
        finally:
            other.heal()
            running.stop()


@contextlib.contextmanager
def driver_log(spark: Any, level: str) -> Iterator[Any]:
    """Yields a writer that receives the lines of samsarrow's loggers from this level on."""
    jvm = spark._jvm
    log4j, name = jvm.org.apache.logging.log4j, "io.github.samsarrow"
    written = jvm.java.io.StringWriter()
    layout = log4j.core.layout.PatternLayout.newBuilder().withPattern("%p %c: %m%n").build()
    appender = log4j.core.appender.WriterAppender.createAppender(layout, None, written, "kept", False, True)
    logger = log4j.LogManager.getLogger(name)
    log4j.core.config.Configurator.setLevel(name, log4j.Level.toLevel(level))
    appender.start()
    logger.addAppender(appender)
    try:
        yield written
    finally:
        logger.removeAppender(appender)
        log4j.core.config.Configurator.setLevel(name, log4j.Level.ERROR)


def test_client_warnings_are_in_driver_log(stream: Make, spark: Any, broker: Broker) -> None:
    with driver_log(spark, "WARN") as written:
        broker.create_topic("shorter")
        produce(broker, "shorter", {0: ["a", "b"]})
        query = stream(subscribe="shorter", failOnDataLoss="false")
        query.drain()
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.delete_topics(["shorter"])
        broker.create_topic("shorter")
        query.drain()
    expected = "WARN io.github.samsarrow.spark: the end of shorter-0 went from offset 2 back to 0"
    assert expected in written.toString()


def test_log_level_is_that_of_spark(stream: Make, spark: Any, broker: Broker) -> None:
    broker.create_topic("logged")
    produce(broker, "logged", {0: ["a"]})
    for level, expected in (("DEBUG", True), ("INFO", False)):
        with driver_log(spark, level) as written:
            # Another option makes another client, because clients with equal options share their connections.
            frame = spark.read.format(JVM).options(**{"kafka.bootstrap.servers": broker.bootstrap_servers})
            assert frame.options(**{"subscribe": "logged", "kafka.client.id": f"at-{level}"}).load().count() == 1
        assert ("DEBUG io.github.samsarrow." in written.toString()) == expected
