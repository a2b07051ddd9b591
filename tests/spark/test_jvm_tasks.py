"""Tasks of the JVM reader: cleanup after kills, timeouts, metrics."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from samsarrow import Producer
from samsarrow.testing import Broker
from support.jvm import about, running
from support.streams import wait_until

Jvm = Callable[..., Any]
COUNT = 20_000


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    broker.create_topic("tasks", 2)
    with Producer(bootstrap_servers=broker.bootstrap_servers, compression_type="lz4") as producer:
        for i in range(COUNT):
            producer.send("tasks", b"%0100d" % i, b"k", headers=[("h", b"1")], partition=i % 2)
    return "tasks"


@pytest.fixture
def silent(broker: Broker) -> Iterator[None]:
    """Delays all responses to Fetch."""
    broker.fail("Fetch", delay=60, times=None)
    yield
    broker.heal()


def test_killed_task_ends_immediately(jvm: Jvm, spark: Any, broker: Broker, topic: str, silent: None) -> None:
    errors: list[str] = []
    frame = jvm(subscribe=topic)

    def run() -> None:
        spark.sparkContext.setJobGroup("killed", "waits for a silent broker")
        try:
            frame.collect()
        except Exception as error:
            errors.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_until(lambda: running(spark) == 2)
        # If no records arrive, the reader requests the log end offsets. Their response is delayed, too.
        broker.fail("ListOffsets", delay=60, times=None)
        requests = broker.requests("ListOffsets")
        wait_until(lambda: broker.requests("ListOffsets") > requests)
        start = time.monotonic()
        spark.sparkContext.cancelJobGroup("killed")
        wait_until(lambda: running(spark) == 0)
        assert time.monotonic() - start < 15
    finally:
        thread.join(60)
    assert "cancelled" in errors[0]


def test_task_without_progress_fails(jvm: Jvm, topic: str, silent: None) -> None:
    started = time.monotonic()
    with pytest.raises(Exception, match=r"no record of tasks-\d arrived for 1 s: at offset 0, reading up to 10000"):
        jvm(subscribe=topic, **{"kafkaConsumer.pollTimeoutMs": "1000"}).collect()
    assert time.monotonic() - started < 30


def test_task_metrics(jvm: Jvm, topic: str) -> None:
    frame = jvm(subscribe=topic)
    assert len(frame.collect()) == COUNT
    metrics = frame._jdf.queryExecution().executedPlan().collectLeaves().head().metrics()
    results = {
        name: metrics.apply(name).value() for name in ("fetchedBytes", "peakNativeMemory", "dataLoss", "waitTime")
    }
    assert results["fetchedBytes"] > 0
    assert results["peakNativeMemory"] > 0
    assert results["dataLoss"] == 0
    assert metrics.apply("numOutputRows").value() == COUNT


def test_data_loss_is_an_error_or_counted(jvm: Jvm, topic: str) -> None:
    beyond = {
        "assign": '{"tasks":[0]}',
        "startingOffsets": '{"tasks":{"0":9990}}',
        "endingOffsets": '{"tasks":{"0":10020}}',
    }
    with pytest.raises(Exception, match=r"DataLossError: .*tasks-0.*10020"):
        jvm(**beyond).collect()
    frame = jvm(**beyond, failOnDataLoss="false")
    assert len(frame.collect()) == 10
    metrics = frame._jdf.queryExecution().executedPlan().collectLeaves().head().metrics()
    assert metrics.apply("dataLoss").value() == 20


def test_batches_are_released(jvm: Jvm, topic: str) -> None:
    """Batches are released after complete reads, limits and failures."""
    frame = jvm(subscribe=topic, includeHeaders="true")
    before = about(frame.sparkSession)
    for _ in range(5):
        frame.selectExpr("sum(length(value))", "count(headers)").collect()
        frame.limit(3).collect()
        with pytest.raises(Exception, match="on purpose"):
            frame.selectExpr("raise_error('on purpose')").collect()
    wait_until(lambda: about(frame.sparkSession)["readers"] == 0)
    # Waits, because freed memory stays pooled for ten seconds, for readers on other threads.
    wait_until(lambda: (now := about(frame.sparkSession))["made"] == now["freed"] and now["memory"] == 0)
    assert about(frame.sparkSession)["made"] > before["made"]


def test_fetch_stops_at_range_end(jvm: Jvm) -> None:
    """A fetch at the end of a log would wait for records and delay the next task's fetch on the same connection."""
    with Broker(topics={"behind": 6}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for i in range(60):
                producer.send("behind", b"v", partition=i % 6)
        frame = jvm(subscribe="behind", **{"kafka.bootstrap.servers": broker.bootstrap_servers})
        for rounds in (1, 2):
            assert len(frame.collect()) == 60
            assert broker.requests("Fetch") == 6 * rounds
