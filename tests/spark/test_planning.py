"""Planning of micro-batches and batches in the driver, on the embedded broker and without Spark."""

import datetime
import logging
from collections.abc import Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from samsarrow import Admin, NewTopic, Producer
from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.errors import DataLossError
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.ranges import OffsetRange
from samsarrow.spark.stream import KafkaStreamReader
from samsarrow.spark.stream_base import StreamReader
from samsarrow.spark.stream_spark40 import Spark40StreamReader
from samsarrow.testing import Broker
from support.streams import wait_until

EVERYTHING = ReadAllAvailable()


class Log:
    """The topic `t` with one partition, and queries that read it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._queries: list[StreamReader] = []
        self.make(0)

    def make(self, records: int) -> None:
        """Recreates the topic."""
        with Admin(bootstrap_servers=self._broker.bootstrap_servers) as admin:
            if "t" in admin.list_topics(["t"]):
                admin.delete_topics(["t"])
            admin.create_topics([NewTopic("t", 1, 1)])
        self.append(records)

    def append(self, records: int) -> None:
        with Producer(bootstrap_servers=self._broker.bootstrap_servers) as producer:
            for _ in range(records):
                producer.send("t", b"v", partition=0)

    def query(self, **options: str) -> KafkaStreamReader:
        """Returns a new reader, as after a start or restart."""
        config = {
            "kafka.bootstrap.servers": self._broker.bootstrap_servers,
            "subscribe": "t",
            "failOnDataLoss": "false",
        }
        query = KafkaStreamReader(ReadOptions.parse({**config, **options}, streaming=True))
        self._queries.append(query)
        return query

    def earlier(self, **options: str) -> Spark40StreamReader:
        """Returns a new reader, as created by Spark 4.0 or 4.1."""
        config = {"kafka.bootstrap.servers": self._broker.bootstrap_servers, "subscribe": "t"}
        query = Spark40StreamReader(ReadOptions.parse({**config, **options}, streaming=True))
        self._queries.append(query)
        return query

    def stop(self) -> None:
        for query in self._queries:
            query.stop()


@pytest.fixture
def log() -> Iterator[Log]:
    with Broker() as broker:
        made = Log(broker)
        yield made
        made.stop()


def at(offset: int) -> dict[str, dict[str, int]]:
    return {"t": {"0": offset}}


def spans(query: StreamReader, start: int, end: int) -> list[tuple[int, int]]:
    ranges = query.partitions(at(start), at(end))
    return [(item.start, item.end) for item in ranges if isinstance(item, OffsetRange)]


def test_latest_start_is_fixed_by_empty_first_batch(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    log.append(100)
    query = log.query(startingOffsets="latest", failOnDataLoss="true")
    start = query.initialOffset()
    log.append(3)
    assert query.latestOffset(start, EVERYTHING) is start
    assert query.reportLatestOffset() == at(103)
    assert start == at(100)
    assert spans(query, 100, 100) == []
    assert query.latestOffset(start, EVERYTHING) == at(103)
    # The query is restarted before its first micro-batch has finished, and after further records were written.
    log.append(2)
    again = log.query(startingOffsets="latest", failOnDataLoss="true")
    assert again.initialOffset() == at(105)
    assert [spans(again, 105, 100) for _ in range(2)] == [[], []], "Spark may plan a micro-batch more than once"
    assert again.latestOffset(at(100), EVERYTHING) == at(105)
    assert spans(again, 100, 105) == [(100, 105)]
    with pytest.raises(DataLossError, match=r"went from offset 105 back to 101.*; failOnDataLoss=false continues"):
        spans(again, 105, 101)
    wait_until(lambda: "the options resolve to" in caplog.text)
    # Ignores lost connections, which clients of other tests may still log.
    planners = [record for record in caplog.records if record.name.startswith("samsarrow.spark")]
    warnings = [record.message for record in planners if record.levelno >= logging.WARNING]
    assert ['resolve to {"t":{"0":105}} now' in warning for warning in warnings] == [True]


@pytest.mark.parametrize("start", ["earliest", '{"t":{"0":0}}'])
def test_all_starts_are_fixed_by_empty_first_batch(log: Log, start: str) -> None:
    log.append(9)
    query = log.query(startingOffsets=start)
    initial = query.initialOffset()
    assert query.latestOffset(initial, EVERYTHING) is initial
    assert query.latestOffset(initial, EVERYTHING) == at(9)


def test_spark40_plans_first_end_before_start(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    """Spark 4.0 and 4.1 call `latestOffset` first, and do not report whether the query is new."""
    log.append(9)
    more = {"t": {"0": 0, "1": 0}}

    def add_partition() -> None:
        with Admin(bootstrap_servers=log._broker.bootstrap_servers) as admin:
            admin.create_partitions({"t": 2})

    first = log.earlier(startingOffsets="earliest", failOnDataLoss="true")
    end = first.latestOffset()
    assert (end, first.initialOffset()) == (at(9), at(0))
    assert spans(first, 0, 9) == [(0, 9)]
    assert "is repeated, and Spark did not keep its start" not in caplog.text
    # The query is restarted before the micro-batch has finished, but the checkpoint already has its end.
    add_partition()
    again = log.earlier(startingOffsets="earliest", failOnDataLoss="true")
    assert again.initialOffset() == more
    ranges = [item for item in again.partitions(more, end) if isinstance(item, OffsetRange)]
    assert [(item.partition, item.start, item.end) for item in ranges] == [(0, 0, 9)]
    wait_until(lambda: "is repeated, and Spark did not keep its start" in caplog.text)
    assert again.latestOffset() == {"t": {"0": 9, "1": 0}}
    assert list(again.partitions(end, {"t": {"0": 9, "1": 0}})) == []


def test_end_before_start_is_reread_only_of_recreated_topic(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    log.append(50)
    query = log.query(startingOffsets="earliest", **{"fetchOffset.numRetries": "0"})
    assert query.latestOffset(at(0), EVERYTHING) == at(50)
    assert spans(query, 0, 50) == [(0, 50)]
    assert spans(query, 60, 50) == []
    wait_until(lambda: "the end of t-0 went from offset 60 back to 50" in caplog.text)
    log.make(7)
    assert query.latestOffset(at(50), EVERYTHING) == at(7)
    assert [spans(query, 50, 7) for _ in range(2)] == [[(0, 7)]] * 2
    wait_until(lambda: "topic t was deleted and recreated" in caplog.text)
    # The query reads the new topic from here on.
    log.append(2)
    assert query.latestOffset(at(7), EVERYTHING) == at(9)
    assert spans(query, 7, 9) == [(7, 9)]
    log.make(50)
    assert query.latestOffset(at(9), ReadMaxRows(20)) == at(20), "the limit counts from its first record"
    assert spans(query, 9, 20) == [(0, 20)]


def test_available_now_ends_at_initial_log_end(log: Log) -> None:
    log.append(10)
    query = log.query(startingOffsets="earliest", maxOffsetsPerTrigger="6")
    query.prepareForTriggerAvailableNow()
    log.append(2)
    assert query.latestOffset(at(0), ReadMaxRows(6)) == at(6)
    log.append(8)
    assert query.latestOffset(at(6), ReadMaxRows(6)) == at(12)
    end = at(12)
    assert query.latestOffset(end, ReadMaxRows(6)) is end


def test_rejects_offsets_of_other_source(log: Log) -> None:
    with pytest.raises(ConfigurationError, match=r'another source: \{"logOffset":3\}.*separate checkpointLocation'):
        log.query().partitions({"logOffset": 3}, at(1))


def test_offsets_json_is_sorted_by_partition(log: Log) -> None:
    with Admin(bootstrap_servers=log._broker.bootstrap_servers) as admin:
        admin.create_partitions({"t": 11})
        admin.create_topics([NewTopic("a", 1, 1)])
    offsets = log.query(subscribe="t,a", startingOffsets="earliest").initialOffset()
    assert [(topic, list(partitions)) for topic, partitions in offsets.items()] == [
        ("a", ["0"]),
        ("t", [str(number) for number in range(11)]),
    ]


def test_spark40_rejects_limits() -> None:
    config = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t", "maxOffsetsPerTrigger": "5"}
    with pytest.raises(ConfigurationError, match=r"maxOffsetsPerTrigger needs Spark 4\.2"):
        Spark40StreamReader(ReadOptions.parse(config, streaming=True))


def test_spark40_rows_become_arrow() -> None:
    import pyarrow as pa
    from pyspark.sql import Row
    from pyspark.sql.types import DoubleType

    from samsarrow.spark.schema import spark_schema
    from samsarrow.spark.stream_writer_spark40 import to_batches

    header = [Row(key="h", value=b"1")]
    when = datetime.datetime(2024, 5, 6, 7, 8, 9)
    names = ("key", "value", "headers", "timestamp", "size")
    rows = [Row(*names)(*values) for values in (("k", b"v", header, when, 1.5), (None,) * 5)]
    schema = spark_schema(("key", "value", "headers", "timestamp"), ("key",)).add("size", DoubleType())
    (batch,) = to_batches(iter(rows), schema)
    assert batch.schema.names == ["key", "value", "headers", "timestamp"]
    assert batch.column("timestamp").type == pa.timestamp("us", "UTC")
    assert batch.to_pylist() == [
        {
            "key": "k",
            "value": b"v",
            "headers": [{"key": "h", "value": b"1"}],
            "timestamp": when.astimezone(datetime.UTC),
        },
        {"key": None, "value": None, "headers": None, "timestamp": None},
    ]
