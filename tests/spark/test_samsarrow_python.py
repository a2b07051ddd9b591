"""`samsarrow-python`: the fixed name of the Python source and sink, with or without a jar."""

from pathlib import Path
from typing import Any

import pytest

from samsarrow.testing import Broker

NAME = "samsarrow-python"
COUNT = 40


@pytest.fixture
def options(broker: Broker) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap_servers}


def rows(spark: Any) -> Any:
    return spark.range(COUNT).selectExpr("cast(id as string) as key", "cast(id * 2 as string) as value")


def found(spark: Any, options: dict[str, str], topic: str) -> list[tuple[bytes, bytes]]:
    frame = spark.read.format(NAME).options(**options, subscribe=topic).load()
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "Python" in plan, plan
    return sorted((bytes(row.key), bytes(row.value)) for row in frame.collect())


def expected() -> list[tuple[bytes, bytes]]:
    return sorted((b"%d" % i, b"%d" % (2 * i)) for i in range(COUNT))


def test_batch_write_and_read(spark: Any, broker: Broker, options: dict[str, str]) -> None:
    broker.create_topic("named", 2)
    rows(spark).write.format(NAME).options(**options, topic="named").mode("append").save()
    assert found(spark, options, "named") == expected()


def test_stream_read_and_write(spark: Any, broker: Broker, options: dict[str, str], tmp_path: Path) -> None:
    for topic in ("named-in", "named-out"):
        broker.create_topic(topic, 2)
    rows(spark).write.format(NAME).options(**options, topic="named-in").mode("append").save()
    frame = spark.readStream.format(NAME).options(**options, subscribe="named-in", startingOffsets="earliest").load()
    query = (
        frame.select("key", "value")
        .writeStream.format(NAME)
        .options(**options, topic="named-out", checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(90)
    finally:
        query.stop()
    assert found(spark, options, "named-out") == expected()


def test_errors_of_the_source(spark: Any) -> None:
    with pytest.raises(Exception, match=r"kafka\.bootstrap\.servers must be given"):
        spark.read.format(NAME).option("subscribe", "named").load()
