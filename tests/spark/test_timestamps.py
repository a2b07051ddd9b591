"""The column `timestamp` of both sinks and of the source, in a session with a time zone other than UTC."""

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from samsarrow import Consumer
from samsarrow.testing import Broker
from support.parity import JVM
from support.spark import built_jar

ZONE = "spark.sql.session.timeZone"
SINKS = ["samsarrow-python", *([JVM] if built_jar() else [])]
# Noon in New York, on a day in summer.
NOON = datetime.datetime(2026, 7, 1, 16, tzinfo=datetime.UTC)
REJECTED = "column timestamp is a timestamp_ntz, which names no moment without a time zone: cast it"


@pytest.fixture
def new_york(spark: Any) -> Iterator[Any]:
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, "America/New_York")
    yield spark
    spark.conf.set(ZONE, before)


def times(broker: Broker, topic: str) -> list[datetime.datetime]:
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(topic))
        return [row["timestamp"] for row in consumer.reader().read_all().to_pylist()]


@pytest.mark.parametrize("sink", SINKS)
def test_timestamps_of_batches(new_york: Any, broker: Broker, sink: str) -> None:
    topic = f"batch-{sink}"
    broker.create_topic(topic, 1)
    frame = new_york.sql("select 'v' value, timestamp_ntz'2026-07-01 12:00:00' timestamp")
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic}
    with pytest.raises(Exception, match=REJECTED):
        frame.write.format(sink).options(**options).mode("append").save()
    assert times(broker, topic) == []
    for column in ("cast(timestamp as timestamp) timestamp", "timestamp'2026-07-01 12:00:00' timestamp"):
        frame.selectExpr("value", column).write.format(sink).options(**options).mode("append").save()
    assert times(broker, topic) == [NOON, NOON]
    reader = new_york.read.format(sink).option("kafka.bootstrap.servers", broker.bootstrap_servers)
    shown = reader.option("subscribe", topic).load().selectExpr("cast(timestamp as string) t").distinct().collect()
    assert [row.t for row in shown] == ["2026-07-01 12:00:00"]


@pytest.mark.parametrize("sink", SINKS)
def test_timestamps_of_streams(new_york: Any, broker: Broker, tmp_path: Path, sink: str) -> None:
    topic = f"stream-{sink}"
    broker.create_topic(topic, 1)
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic}
    (tmp_path / "come").mkdir()
    (tmp_path / "come" / "one.csv").write_text("v,2026-07-01 12:00:00\n")

    def run(kind: str, folder: str) -> None:
        frame = new_york.readStream.schema(f"value string, timestamp {kind}").csv(str(tmp_path / "come"))
        writer = frame.writeStream.format(sink).options(**options, checkpointLocation=str(tmp_path / folder))
        assert writer.trigger(availableNow=True).start().awaitTermination(120)

    with pytest.raises(Exception, match=REJECTED):
        run("timestamp_ntz", "rejected")
    assert times(broker, topic) == []
    run("timestamp", "written")
    assert times(broker, topic) == [NOON]
