"""Tasks of the JVM sink on the embedded broker: many kinds of rows, killed tasks, memory."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from samsarrow import Consumer
from samsarrow.testing import Broker
from support.jvm import about, running
from support.streams import wait_until

HEADER = "array<struct<key:string,value:binary>>"
Write = Callable[..., None]


@pytest.fixture
def write(built: None, broker: Broker) -> Write:
    def to(frame: Any, **options: str) -> None:
        dotted = {"kafka.bootstrap.servers": broker.bootstrap_servers, **options}
        frame.write.format("samsarrow-jvm").options(**dotted).mode("append").save()

    return to


def content(broker: Broker, topic: str) -> list[dict[str, Any]]:
    config = {"include.headers": True, "auto.offset.reset": "earliest"}
    with Consumer(config, bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        return list(consumer.reader().read_all().to_pylist())


def test_rows_in_several_blocks(spark: Any, broker: Broker, write: Write) -> None:
    """Writes several blocks per task, rows larger than a block, columns that are not sent, and nulls."""
    broker.create_topic("blocks", 3)
    frame = spark.range(40_000, numPartitions=2).selectExpr(
        "id",
        "if(id % 7 = 0, null, cast(id as string)) key",
        "if(id % 20000 = 1, repeat('x', 500000), 'x') ignored",
        "if(id % 20000 = 1, repeat('v', 900000), if(id % 5 = 0, null, lpad(id, 100, '0'))) value",
        f"cast(if(id % 3 = 0, null, array(struct('h' key, binary(string(id)) value))) as {HEADER}) headers",
        "if(id % 2 = 0, cast(id % 3 as int), null) partition",
        "if(id % 11 = 0, null, timestamp_millis(1700000000000 + id)) timestamp",
    )
    write(frame, topic="blocks")
    actual = content(broker, "blocks")
    assert len(actual) == 40_000
    by_key = {int(row["key"]): row for row in actual if row["key"] is not None}
    assert sorted(by_key) == [i for i in range(40_000) if i % 7]
    for i, row in by_key.items():
        expected = b"v" * 900_000 if i % 20_000 == 1 else None if i % 5 == 0 else b"%0100d" % i
        assert row["value"] == expected, i
        assert [h["key"] for h in row["headers"]] == ([] if i % 3 == 0 else ["h"])
        if i % 3:
            assert row["headers"][0]["value"] == b"%d" % i
        if i % 2 == 0:
            assert row["partition"] == i % 3
        if i % 11:
            assert int(row["timestamp"].timestamp() * 1000 + 0.5) == 1_700_000_000_000 + i


def test_killed_task_ends_immediately(spark: Any, broker: Broker, write: Write) -> None:
    broker.create_topic("silent", 1)
    frame = spark.range(2, numPartitions=2).selectExpr("cast(id as string) value")
    write(frame, topic="silent")
    broker.fail("Produce", delay=60, times=None)
    errors: list[str] = []

    def run() -> None:
        spark.sparkContext.setJobGroup("killed", "waits for a silent broker")
        try:
            write(frame, topic="silent")
        except Exception as error:
            errors.append(str(error))

    thread = threading.Thread(target=run)
    requests = broker.requests("Produce")
    thread.start()
    try:
        wait_until(lambda: broker.requests("Produce") > requests)
        wait_until(lambda: running(spark) == 2)
        start = time.monotonic()
        spark.sparkContext.cancelJobGroup("killed")
        wait_until(lambda: running(spark) == 0)
        # The task ends well before the broker responds or the request times out.
        assert time.monotonic() - start < 15
    finally:
        broker.heal()
        thread.join(60)
    assert "cancelled" in errors[0]


def test_task_ends_when_all_rows_are_acknowledged(spark: Any, broker: Broker, write: Write) -> None:
    """A task fails if the broker rejects a record, and waits for delayed responses regardless of `linger.ms`."""
    broker.create_topic("late", 1)
    frame = spark.range(10, numPartitions=1).selectExpr("cast(id as string) value")
    broker.fail("Produce", delay=1, times=1)
    write(frame, topic="late", **{"kafka.linger.ms": "60000"})
    assert sorted(int(row["value"]) for row in content(broker, "late")) == list(range(10))
    large = spark.range(1).selectExpr("repeat('x', 3000000) value")
    with pytest.raises(Exception, match=r"row 0 for topic late.*max\.request\.size"):
        write(large, topic="late")
    assert len(content(broker, "late")) == 10


def test_blocks_and_writers_are_released(spark: Any, broker: Broker, write: Write) -> None:
    """Blocks and writers are released after successful writes, failed writes, and writes without rows."""
    broker.create_topic("memory", 1)
    frame = spark.range(30_000, numPartitions=2).selectExpr("lpad(id, 100, '0') value")
    # Waits, because killed tasks of other tests are still ending, and memory freed by readers stays pooled for ten
    # seconds.
    wait_until(lambda: about(spark)["writers"] == 0)
    before = about(spark)
    for _ in range(3):
        write(frame, topic="memory")
        write(frame.where("false"), topic="memory")
        with pytest.raises(Exception, match="on purpose"):
            write(frame.selectExpr("if(value like '%9', raise_error('on purpose'), value) value"), topic="memory")
        with pytest.raises(Exception, match=r"memory.*7|7.*memory"):
            write(frame.selectExpr("value", "7 partition"), topic="memory")
    wait_until(lambda: (now := about(spark))["made"] == now["freed"] and now["writers"] == now["memory"] == 0)
    assert about(spark)["made"] > before["made"]
